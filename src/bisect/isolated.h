// SPDX-License-Identifier: Apache-2.0
#pragma once
// Code that may crash, loop without end, or overwrite what it should not: run in a process of its own.
#include <functional>
#include <memory>
#include <string>

namespace stax::bisect {

/// Memory that a child writes and its parent reads. Zero at first.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

/// Runs `work` in a child that may take so many seconds of each processor. Empty where it ended; else how it ended: "it throws: ..", "it crashes (SIGSEGV)", "it does not end within 20 s".
std::string run_isolated(const std::function<void()>& work, int seconds);

/// The process ends when the one that started it does, where the system can do that.
void end_with_parent();

/// Memory that ends at a page that nobody may touch, with a pattern in front of it: poisoned with a NaN in every float type, or an unlikely
/// number in integer ones. Where it has to begin at a multiple of `alignment`, the pattern goes on between its end and that page.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, int poison, size_t alignment = 1);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Nothing was written in front of it, on its first page, or behind it.
  bool intact() const;

 private:
  size_t bytes_, mapped_;
  char *base_, *data_;
};

}  // namespace stax::bisect
