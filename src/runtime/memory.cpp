// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <algorithm>

#include "support/error.h"

namespace stax::runtime {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr size_t kAlwaysKept = size_t{4} << 20;

// Sizes come in steps of an eighth of a power of two, so that neighbours in shape share blocks.
size_t rounded(size_t bytes) {
  size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::~MemoryPool() { trim(); }

void MemoryPool::trim() {
  std::lock_guard lock(mutex_);
  for (const Free& f : free_) device_->release(f.data, f.bytes);
  free_.clear();
  free_bytes_ = 0;
}

std::shared_ptr<void> MemoryPool::allocate(int64_t bytes, const std::string& what) {
  if (bytes < 0 || bytes > kMaxBytes)
    user_error("{}: cannot allocate {} bytes; check the sizes that lead to this shape", what, bytes);
  size_t size = rounded(std::max<size_t>(64, static_cast<size_t>(bytes)));
  void* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto it = std::lower_bound(free_.begin(), free_.end(), size, [](const Free& f, size_t s) { return f.bytes < s; });
    if (it != free_.end() && it->bytes <= size + size / 4) {
      data = it->data;
      size = it->bytes;
      free_bytes_ -= size;
      free_.erase(it);
    }
  }
  if (!data) data = device_->allocate(size);
  if (!data) {
    trim();
    data = device_->allocate(size);
  }
  if (!data)
    user_error("{}: out of memory: {} bytes could not be allocated; use smaller inputs or free memory", what, bytes);
  int64_t now = live_.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size);
  for (int64_t peak = peak_.load(); now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
  return std::shared_ptr<void>(data, [self = shared_from_this(), size](void* p) { self->give_back(p, size); });
}

void MemoryPool::give_back(void* data, size_t bytes) {
  int64_t now = live_.fetch_sub(static_cast<int64_t>(bytes)) - static_cast<int64_t>(bytes);
  {
    std::lock_guard lock(mutex_);
    size_t limit = std::max(kAlwaysKept, static_cast<size_t>(std::max<int64_t>(0, now)));
    if (free_bytes_ + bytes <= limit) {
      auto it =
          std::lower_bound(free_.begin(), free_.end(), bytes, [](const Free& f, size_t s) { return f.bytes < s; });
      free_.insert(it, {data, bytes});
      free_bytes_ += bytes;
      return;
    }
  }
  device_->release(data, bytes);
}

void MemoryPool::count_external(int64_t bytes) {
  int64_t now = live_.fetch_add(bytes) + bytes;
  for (int64_t peak = peak_.load(); now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
}

}  // namespace stax::runtime
