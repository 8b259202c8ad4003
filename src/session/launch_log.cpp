// SPDX-License-Identifier: Apache-2.0
#include "session/launch_log.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "support/error.h"

namespace stax::session {

namespace {

namespace fs = std::filesystem;

std::string_view extension_of(const program::KernelSpec& k) {
  if (k.code_format == "cuda") return "cu";
  if (k.code_format == "opencl") return "cl";
  return k.code_format.empty() ? std::string_view("thread") : std::string_view(k.code_format);
}

class LoggingDevice final : public runtime::Device {
 public:
  LoggingDevice(std::unique_ptr<runtime::Device> device, std::shared_ptr<const program::Program> program,
                const std::string& folder)
      : inner_(std::move(device)), program_(std::move(program)), folder_(folder) {
    std::error_code error;
    fs::create_directories(folder_ / "buffers", error);
    lines_.open(folder_ / "launches.jsonl", std::ios::trunc);
    if (!lines_) user_error("--launch-log: '{}' cannot be written; check the path and who may write there", folder);
  }
  ~LoggingDevice() override {
    // Also of a session that ends by an error: what is there is what the last launch left.
    try {
      for (auto& [address, buffer] : buffers_) save(address, buffer, "after");
    } catch (const std::exception&) {
    }
  }

  std::string name() const override { return inner_->name(); }
  // Inputs and outputs are copied, so that all that kernels touch is memory of this device.
  bool unified() const override { return false; }
  void* allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    void* data = inner_->allocate(bytes);
    if (data != nullptr) buffers_[static_cast<char*>(data)] = {next_++, bytes, false};
    return data;
  }
  void release(void* data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto it = buffers_.find(static_cast<char*>(data));
    if (it != buffers_.end()) {
      save(it->first, it->second, "after");
      buffers_.erase(it);
    }
    inner_->release(data, bytes);
  }
  void copy_in(void* to, const void* host, size_t bytes) override {
    std::lock_guard lock(mutex_);
    inner_->copy_in(to, host, bytes);
    if (!launched_) return;
    const std::string file = fmt::format("buffers/write{}", writes_++);
    write(file, host, bytes);
    lines_ << fmt::format("{{\"write\": {}, \"file\": \"{}\"}}\n", place(to), file);
  }
  void copy_out(void* host, const void* from, size_t bytes) override {
    std::lock_guard lock(mutex_);
    inner_->copy_out(host, from, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    std::lock_guard lock(mutex_);
    inner_->copy(to, from, bytes);
    if (launched_)
      lines_ << fmt::format("{{\"copy\": {}, \"to\": {}, \"bytes\": {}}}\n", place(from), place(to), bytes);
  }
  void synchronize() override { inner_->synchronize(); }

  void launch(const runtime::Launch& l) override {
    std::lock_guard lock(mutex_);
    const program::KernelSpec& k = program_->kernels[l.kernel];
    const std::string file = fmt::format("{}.{}", k.name, extension_of(k));
    if (written_.insert(file).second) {
      const std::string& code = k.code.empty() ? k.thread_text : k.code;
      write(file, code.data(), code.size());
    }
    if (!std::exchange(launched_, true))
      for (auto& [address, buffer] : buffers_) first_use(address, buffer);
    std::vector<std::string> arguments;
    for (void* b : l.buffers) {
      use(b);
      arguments.push_back(place(b));
    }
    for (int64_t p : l.params)
      arguments.push_back(fmt::format("{{\"type\": \"i{}\", \"value\": {}}}", k.index_bits, p));
    if (k.reports_faults) {
      use(l.fault);
      arguments.push_back(place(l.fault));
    }
    lines_ << fmt::format(
        "{{\"kernel\": \"{}\", \"version\": {}, \"file\": \"{}\", \"entry\": \"{}\", \"grid\": [{}, {}, {}], "
        "\"block\": "
        "{}, \"shared_bytes\": {}, \"arguments\": [{}]}}\n",
        k.family, k.version, file, k.entry, l.grid[0], l.grid[1], l.grid[2], l.block, l.shared_bytes,
        fmt::join(arguments, ", "));
    lines_.flush();
    inner_->launch(l);
  }

 private:
  struct Buffer {
    int number = 0;
    size_t bytes = 0;
    bool used = false;
  };
  using Buffers = std::map<char*, Buffer>;

  Buffers::iterator find(const void* data) {
    auto it = buffers_.upper_bound(static_cast<char*>(const_cast<void*>(data)));
    if (it == buffers_.begin()) return buffers_.end();
    --it;
    return static_cast<const char*>(data) <= it->first + it->second.bytes ? it : buffers_.end();
  }
  std::string place(const void* data) {
    const auto it = find(data);
    if (it == buffers_.end()) return "{\"buffer\": null, \"offset\": 0}";
    return fmt::format("{{\"buffer\": {}, \"offset\": {}}}", it->second.number,
                       static_cast<const char*>(data) - it->first);
  }
  void use(const void* data) {
    if (const auto it = find(data); it != buffers_.end()) first_use(it->first, it->second);
  }
  void first_use(char* address, Buffer& b) {
    if (!std::exchange(b.used, true)) save(address, b, "before");
  }
  void save(char* address, const Buffer& b, const char* when) {
    if (!b.used) return;
    std::vector<char> bytes(b.bytes);
    inner_->copy_out(bytes.data(), address, b.bytes);
    write(fmt::format("buffers/{}.{}", b.number, when), bytes.data(), bytes.size());
  }
  void write(const std::string& name, const void* data, size_t bytes) {
    std::ofstream out(folder_ / name, std::ios::binary | std::ios::trunc);
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    if (!out) user_error("--launch-log: '{}' cannot be written; is the disk full?", (folder_ / name).string());
  }

  std::unique_ptr<runtime::Device> inner_;
  std::shared_ptr<const program::Program> program_;
  fs::path folder_;
  std::mutex mutex_;
  std::ofstream lines_;
  Buffers buffers_;
  std::set<std::string> written_;
  int next_ = 0, writes_ = 0;
  bool launched_ = false;
};

}  // namespace

std::unique_ptr<runtime::Device> log_launches(std::unique_ptr<runtime::Device> device,
                                              std::shared_ptr<const program::Program> program,
                                              const std::string& folder) {
  return std::make_unique<LoggingDevice>(std::move(device), std::move(program), folder);
}

}  // namespace stax::session
