// SPDX-License-Identifier: Apache-2.0
//
// A kernel of a small shape takes about as long as waking a thread does, so a hand-over must not ask the system for anything while workers still
// spin, and a caller must not wait for workers that never came.
//
// One word says what is to be done: the number of the job, how many workers may still join it, and how many are at it. The caller publishes a job
// by writing the word. A worker joins by one compare-and-swap, which fails if the job is another by then. When the caller finds no iterations left,
// it takes back the places that nobody took and waits for those who came, each of which is at its last chunk. A worker that wakes too late finds no
// place and touches nothing of the job.
#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
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

// Fields of the word.
constexpr uint64_t kActive = 1, kActiveMask = 0xFFF;
constexpr uint64_t kPlace = uint64_t{1} << 12, kPlacesMask = uint64_t{0xFFF} << 12;
constexpr uint64_t kJob = uint64_t{1} << 24;
constexpr int kMostWorkers = 0xFFF;

}  // namespace

struct ThreadPool::Impl {
  alignas(64) std::atomic<uint64_t> word{0};
  alignas(64) std::atomic<int64_t> next{0};  // iteration that nobody has
  // Written before the word is, read by those who joined.
  alignas(64) RangeTask task;
  int64_t iterations = 0, chunk = 1;
  std::atomic<bool> stop{false};
  std::mutex mutex;  // protects sleeping
  std::condition_variable wake;
  std::atomic<int> sleepers{0};
  std::mutex one_caller;
  std::vector<std::thread> workers;

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (auto& t : workers) t.join();
  }

  void take_part(int worker) {
    for (;;) {
      int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= iterations) return;
      task.function(task.self, begin, std::min(iterations, begin + chunk), worker);
    }
  }

  /// Joins the job that there is, if it has a place and is not `done`, the last one that this worker joined.
  bool join(uint64_t& done) {
    uint64_t w = word.load(std::memory_order_acquire);
    while ((w & kPlacesMask) != 0 && w / kJob != done) {
      if (!word.compare_exchange_weak(w, w - kPlace + kActive, std::memory_order_acq_rel)) continue;
      done = w / kJob;
      return true;
    }
    return false;
  }

  void work(int worker) {
    uint64_t done = 0;
    for (int spins = 0; !stop.load(std::memory_order_relaxed);) {
      if (join(done)) {
        take_part(worker);
        word.fetch_sub(kActive, std::memory_order_release);
        spins = 0;
      } else if (++spins < kSpins) {
        relax();
      } else {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] {
          uint64_t w = word.load();
          return ((w & kPlacesMask) != 0 && w / kJob != done) || stop.load();
        });
        sleepers.fetch_sub(1);
        spins = 0;
      }
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  const int workers = std::min(threads, kMostWorkers) - 1;
  impl_->workers.reserve(static_cast<size_t>(std::max(0, workers)));
  try {
    for (int k = 1; k <= workers; ++k) impl_->workers.emplace_back([impl = impl_.get(), k] { impl->work(k); });
  } catch (
      const std::system_error&) {  // the system has no more threads for this process: those that there are do the work
  }
}

ThreadPool::~ThreadPool() = default;

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
  p.next.store(0, std::memory_order_relaxed);
  // Nobody is at a job, and only the caller starts one.
  uint64_t job = p.word.load(std::memory_order_relaxed) / kJob + 1;
  p.word.store(job * kJob + static_cast<uint64_t>(wanted - 1) * kPlace, std::memory_order_seq_cst);
  if (p.sleepers.load(std::memory_order_seq_cst) > static_cast<int>(p.workers.size()) - (wanted - 1)) {
    // Fewer spin than are wanted.
    std::lock_guard lock(p.mutex);
    p.wake.notify_all();
  }
  p.take_part(0);
  p.word.fetch_and(~kPlacesMask, std::memory_order_acq_rel);
  for (int spins = 0; (p.word.load(std::memory_order_acquire) & kActiveMask) != 0;) {
    if (++spins < kSpins)
      relax();
    else
      std::this_thread::yield();  // the thread that it waits for may want this core
  }
}

}  // namespace stax::runtime
