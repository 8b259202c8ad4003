// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device in this process that is none: its memory cannot be touched by the host, and nothing happens before the host waits for it.
//
// Device pointers lie in a range of addresses without access. The bytes are in a second range of the same size (the shadow), at the same offsets,
// of which only pages of live allocations may be accessed. Launches and copies are kept in a list and done when the host reads or waits, so
// whatever the runtime takes for done too early is not.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/device.h"
#include "support/error.h"

namespace stax::runtime {

class FakeDevice final : public Device {
 public:
  /// Runs a kernel; what the launch points to is shadow memory.
  using Kernels = std::function<void(const Launch&)>;
  explicit FakeDevice(Kernels kernels) : kernels_(std::move(kernels)) {
    device_ = reserve();
    shadow_ = reserve();
  }
  ~FakeDevice() override {
    EXPECT_TRUE(live_.empty()) << live_.size() << " allocations are not given back";
    ::munmap(device_, kRange);
    ::munmap(shadow_, kRange);
  }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  std::string name() const override { return "fake"; }
  bool unified() const override { return false; }
  void* allocate(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const size_t size = pages(bytes);
    if (next_ + size + kPage > kRange) return nullptr;
    char* at = device_ + next_;
    STAX_ASSERT(::mprotect(shadow_ + next_, size, PROT_READ | PROT_WRITE) == 0);
    std::memset(shadow_ + next_, 0xFF, size);
    live_[at] = bytes;
    next_ += size + kPage;  // with a page between, never used again
    return at;
  }
  void release(void* data, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    drain();
    auto it = live_.find(static_cast<char*>(data));
    STAX_ASSERT(it != live_.end() && it->second == bytes, "release of what is no allocation");
    ::madvise(shadow_ + (it->first - device_), pages(bytes), MADV_DONTNEED);
    ::mprotect(shadow_ + (it->first - device_), pages(bytes), PROT_NONE);
    live_.erase(it);
  }
  void copy_in(void* to, const void* host, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    ++copies_in;
    std::vector<char> kept(static_cast<const char*>(host), static_cast<const char*>(host) + bytes);
    later_.emplace_back(
        [this, to, kept = std::move(kept)] { std::memcpy(at(to, kept.size()), kept.data(), kept.size()); });
  }
  void copy_out(void* host, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    ++copies_out;
    drain();
    std::memcpy(host, at(const_cast<void*>(from), bytes), bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    later_.emplace_back(
        [this, to, from, bytes] { std::memcpy(at(to, bytes), at(const_cast<void*>(from), bytes), bytes); });
  }
  void launch(const Launch& l) override {
    const std::lock_guard lock(mutex_);
    launches.push_back(l);
    std::vector<void*> buffers(l.buffers.begin(), l.buffers.end());
    std::vector<int64_t> params(l.params.begin(), l.params.end());
    later_.emplace_back([this, launch = l, buffers, params]() mutable {
      for (void*& b : buffers) b = b == nullptr ? nullptr : at(b, 0);
      launch.buffers = buffers;
      launch.params = params;
      launch.fault = static_cast<Fault*>(at(launch.fault, sizeof(Fault)));
      launch.workers = nullptr;
      kernels_(launch);
    });
  }
  void synchronize() override {
    const std::lock_guard lock(mutex_);
    drain();
  }

  int64_t copies_in = 0, copies_out = 0;
  std::vector<Launch> launches;  // their spans are of the past

 private:
  static constexpr size_t kPage = 4096, kRange = size_t{64} << 30;
  static size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  static char* reserve() {
    void* p = ::mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    STAX_ASSERT(p != MAP_FAILED, "address space for a fake device");
    return static_cast<char*>(p);
  }
  /// The shadow of a device pointer with that many bytes behind it.
  void* at(void* p, size_t bytes) const {
    char* c = static_cast<char*>(p);
    auto it = live_.upper_bound(c);
    STAX_ASSERT(it != live_.begin(), "a pointer that is not the device's");
    --it;
    STAX_ASSERT(c + bytes <= it->first + it->second, "{} bytes at offset {} of an allocation of {}", bytes,
                c - it->first, it->second);
    return shadow_ + (c - device_);
  }
  void drain() {
    std::vector<std::function<void()>> now;
    now.swap(later_);
    for (const auto& f : now) f();
  }

  Kernels kernels_;
  std::mutex mutex_;
  char* device_ = nullptr;
  char* shadow_ = nullptr;
  size_t next_ = 0;
  std::map<char*, size_t> live_;
  std::vector<std::function<void()>> later_;
};

}  // namespace stax::runtime
