// SPDX-License-Identifier: Apache-2.0
#include "support/on_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace stax {
namespace {

TEST(ForEachOnThreads, EveryItemOnce) {
  for (const int threads : {-1, 0, 1, 2, 7}) {
    for (const size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> done(count);
      for_each_on_threads(count, threads, [&](size_t k) { ++done[k]; });
      for (const std::atomic<int>& each : done) EXPECT_EQ(each, 1);
    }
  }
}

TEST(ForEachOnThreads, ThrowsWhatTheFirstItemThrows) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> done = 0;
    try {
      for_each_on_threads(50, threads, [&](size_t k) {
        ++done;
        if (k % 10 == 7) throw std::runtime_error(std::to_string(k));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "7");
    }
    EXPECT_EQ(done, 50);
  }
}

}  // namespace
}  // namespace stax
