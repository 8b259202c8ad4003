// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace stax::runtime {
namespace {

struct Counts {
  std::vector<std::atomic<int>> times;
  std::vector<std::atomic<bool>> busy;
  std::atomic<int> wrong{0};
  Counts(int64_t iterations, int workers)
      : times(static_cast<size_t>(iterations)), busy(static_cast<size_t>(workers)) {}
  static void run(void* self, int64_t begin, int64_t end, int worker) {
    auto& c = *static_cast<Counts*>(self);
    if (worker < 0 || static_cast<size_t>(worker) >= c.busy.size() ||
        c.busy[static_cast<size_t>(worker)].exchange(true))
      ++c.wrong;
    for (int64_t i = begin; i < end; ++i) ++c.times[static_cast<size_t>(i)];
    if (static_cast<size_t>(worker) < c.busy.size()) c.busy[static_cast<size_t>(worker)] = false;
  }
  bool each_once() const {
    for (const auto& t : times)
      if (t.load() != 1) return false;
    return true;
  }
};

TEST(ThreadPool, EachIterationRunsOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t iterations : {0, 1, 2, 3, 7, 64, 10'003}) {
      for (const int wanted : {1, 2, 100}) {
        Counts counts(iterations, threads);
        pool.run({Counts::run, &counts}, iterations, wanted);
        EXPECT_TRUE(counts.each_once()) << threads << " threads, " << iterations << " iterations";
        EXPECT_EQ(counts.wrong.load(), 0) << "a worker's number was used twice at a time";
      }
    }
  }
}

TEST(ThreadPool, ManyShortJobsInARow) {
  ThreadPool pool(3);
  for (int k = 0; k < 2'000; ++k) {
    std::atomic<int64_t> sum{0};
    pool.run(
        {[](void* self, int64_t begin, int64_t end, int) { *static_cast<std::atomic<int64_t>*>(self) += end - begin; },
         &sum},
        5, 3);
    ASSERT_EQ(sum.load(), 5) << "job " << k;
  }
}

TEST(ThreadPool, WorkersThatSleepAreWoken) {
  ThreadPool pool(4);
  for (int k = 0; k < 5; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Counts counts(1000, 4);
    pool.run({Counts::run, &counts}, 1000, 4);
    EXPECT_TRUE(counts.each_once());
  }
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  ThreadPool pool(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        Counts counts(257, 2);
        pool.run({Counts::run, &counts}, 257, 2);
        if (!counts.each_once() || counts.wrong.load() != 0) ++wrong;
      }
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, EndsWhileItsWorkersSpinOrSleep) {
  for (int k = 0; k < 20; ++k) {
    ThreadPool pool(4);
    if (k % 2 == 0) {
      Counts counts(100, 4);
      pool.run({Counts::run, &counts}, 100, 4);
    }
    if (k % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace
}  // namespace stax::runtime
