// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of a session: counted, pooled, bounded, given back.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace stax::runtime {

/// Allocates blocks of a device's memory, 64-byte aligned, and keeps freed ones for reuse: so many that all it has is no more than
/// was in use at once not long ago, since the next call will need as much. Thread-safe.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~MemoryPool();
  /// UserError that names `what` and the bytes if the memory cannot be had. Never null; `bytes` of 0 gives a block of 64.
  std::shared_ptr<void> allocate(int64_t bytes, std::string_view what);
  /// Counts memory that lives elsewhere (weights).
  void count_external(int64_t bytes);
  int64_t peak_bytes() const { return peak_.load(); }
  int64_t live_bytes() const { return live_.load(); }
  /// Gives all unused blocks back to the system.
  void trim();

 private:
  struct Free {
    void* data;
    size_t bytes;
    uint64_t since;  // how many blocks had been given back when it was
  };
  void give_back(void* data, size_t bytes);
  size_t most_kept(size_t live) const;
  void note_need(size_t live);
  void drop_to(size_t bytes);
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<Free> free_;  // ascending by size
  size_t free_bytes_ = 0;
  uint64_t given_back_ = 0;
  size_t need_ = 0, earlier_need_ = 0;  // the most that was in use at once among the latest blocks, and those before
  int blocks_ = 0;                      // since need_ began
  std::atomic<int64_t> live_{0}, peak_{0};
};

}  // namespace stax::runtime
