// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stax::runtime {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kSpins = 4000;  // tens of microseconds

}  // namespace

struct ThreadPool::Impl {
  // A job is published by raising `generation`; a worker takes part if its number is below `wanted`, and reports by lowering `running`.
  std::atomic<uint64_t> generation{0};
  std::atomic<int> running{0};
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};
  RangeTask task;
  int64_t iterations = 0, chunk = 1;
  int wanted = 0;
  std::mutex mutex;  // protects sleeping
  std::condition_variable wake;
  std::atomic<int> sleepers{0};
  std::mutex one_caller;
  std::vector<std::thread> workers;

  void take_part(int worker) {
    for (;;) {
      int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= iterations) return;
      task.function(task.self, begin, std::min(iterations, begin + chunk), worker);
    }
  }

  void work(int worker) {
    uint64_t seen = 0;
    for (;;) {
      int spins = 0;
      while (generation.load(std::memory_order_acquire) == seen && !stop.load(std::memory_order_relaxed)) {
        if (++spins < kSpins) {
          relax();
          continue;
        }
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
        sleepers.fetch_sub(1);
      }
      if (stop.load()) return;
      seen = generation.load(std::memory_order_acquire);
      if (worker < wanted) take_part(worker);
      running.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  for (int k = 1; k < threads; ++k) impl_->workers.emplace_back([this, k] { impl_->work(k); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (auto& t : impl_->workers) t.join();
}

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(RangeTask task, int64_t iterations, int wanted) {
  Impl& p = *impl_;
  wanted = static_cast<int>(std::min<int64_t>({wanted, threads(), iterations}));
  std::unique_lock caller(p.one_caller, std::defer_lock);
  if (wanted <= 1 || !caller.try_lock()) {
    task.function(task.self, 0, iterations, 0);
    return;
  }
  p.task = task;
  p.iterations = iterations;
  p.chunk = std::max<int64_t>(1, iterations / (wanted * 4));
  p.wanted = wanted;
  p.next.store(0, std::memory_order_relaxed);
  p.running.store(static_cast<int>(p.workers.size()), std::memory_order_relaxed);
  p.generation.fetch_add(1, std::memory_order_seq_cst);
  if (p.sleepers.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(p.mutex);
    p.wake.notify_all();
  }
  p.take_part(0);
  while (p.running.load(std::memory_order_acquire) > 0) relax();
}

}  // namespace stax::runtime
