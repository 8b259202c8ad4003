// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads of this machine as one call uses them, with memory for each thread's local arrays.
#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/memory.h"
#include "runtime/thread_pool.h"

namespace stax::runtime {

class HostWorkers {
 public:
  HostWorkers(ThreadPool& pool, MemoryPool& memory)
      : pool_(pool), memory_(memory), scratch_(static_cast<size_t>(pool.threads())), bytes_(scratch_.size(), 0) {}
  /// How many threads that many scalar operations are worth.
  int worth(int64_t work) const {
    return static_cast<int>(std::min<int64_t>(pool_.threads(), work / kWorkPerThread + 1));
  }
  /// Scratch of at least that many bytes for as many of the workers; what they hold is lost. UserError if it cannot be had.
  void reserve(int workers, int64_t bytes) {
    for (size_t w = 0; bytes > 0 && w < static_cast<size_t>(workers); ++w) {
      if (bytes_[w] >= bytes) continue;
      scratch_[w].reset();
      bytes_[w] = 0;
      scratch_[w] = memory_.allocate(bytes, "local arrays of a kernel");
      bytes_[w] = bytes;
    }
  }
  void* scratch(int worker) const { return scratch_[static_cast<size_t>(worker)].get(); }
  ThreadPool& pool() { return pool_; }

 private:
  // Scalar operations that make it worth to wake another thread.
  static constexpr int64_t kWorkPerThread = 150'000;
  ThreadPool& pool_;
  MemoryPool& memory_;
  std::vector<std::shared_ptr<void>> scratch_;
  std::vector<int64_t> bytes_;
};

}  // namespace stax::runtime
