// SPDX-License-Identifier: Apache-2.0
#include "support/on_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace stax {
namespace {

int calls_of(int threads) {
  std::atomic<int> calls{0}, numbers{0};
  on_threads(threads, [&](int number) { ++calls, numbers += 1 << number; });
  EXPECT_EQ(numbers, (1 << calls) - 1) << "each has a number of its own";
  return calls;
}

TEST(OnThreads, CallsEachOnce) {
  for (const int threads : {1, 2, 5}) EXPECT_EQ(calls_of(threads), threads);
}

// In a process that may not map memory for further stacks; those of threads that have ended are there.
TEST(OnThreads, MakesDoWithTheThreadsThatThereAre) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own";
#endif
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{1 << 20, 1 << 20};
    const bool limited = ::setrlimit(RLIMIT_AS, &none) == 0;
    const int calls = limited ? calls_of(30) : 0;
    ::_exit(calls >= 1 && calls < 30 && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace stax
