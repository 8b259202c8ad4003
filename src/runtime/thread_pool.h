// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers that spin for a moment before they sleep, so that a hand-over between two kernels of one call costs less than a microsecond. One call
// at a time gets the workers; others that come meanwhile run on their own thread.
#include <cstdint>
#include <functional>
#include <memory>

namespace stax::runtime {

/// A function over a half-open range of iterations, without ownership: what it refers to must outlive the call.
struct RangeTask {
  void (*function)(void* self, int64_t begin, int64_t end, int worker) = nullptr;
  void* self = nullptr;
};

class ThreadPool {
 public:
  /// That many in all, the caller included; fewer where the system has no more for this process.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const;
  /// Runs the task over [0, iterations) on at most `wanted` threads; returns when all of it is done. The task must not throw. `worker` is
  /// 0 .. threads() - 1 and different for tasks that run at the same time within this call.
  void run(RangeTask task, int64_t iterations, int wanted);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stax::runtime
