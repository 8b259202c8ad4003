// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace stax::runtime {
namespace {

std::shared_ptr<const ShapePlan> plan_of(std::vector<int64_t> symbols, int64_t value) {
  auto plan = std::make_shared<ShapePlan>();
  plan->symbols = std::move(symbols);
  plan->values = {value};
  return plan;
}

TEST(PlanCache, FindsWhatWasInserted) {
  PlanCache cache(8);
  EXPECT_EQ(cache.find(std::vector<int64_t>{1, 2}), nullptr);
  cache.insert(plan_of({1, 2}, 12));
  cache.insert(plan_of({2, 1}, 21));
  cache.insert(plan_of({}, 7));
  EXPECT_EQ(cache.find(std::vector<int64_t>{1, 2})->values[0], 12);
  EXPECT_EQ(cache.find(std::vector<int64_t>{2, 1})->values[0], 21);
  EXPECT_EQ(cache.find(std::vector<int64_t>{})->values[0], 7);
  EXPECT_EQ(cache.find(std::vector<int64_t>{1, 2, 0}), nullptr);
  EXPECT_EQ(cache.find(std::vector<int64_t>{1}), nullptr);
}

TEST(PlanCache, DropsWhatWasNotUsedForLongest) {
  PlanCache cache(3);
  for (int64_t k = 0; k < 3; ++k) cache.insert(plan_of({k}, k));
  ASSERT_NE(cache.find(std::vector<int64_t>{0}), nullptr);  // now 1 is the oldest
  cache.insert(plan_of({3}, 3));
  EXPECT_EQ(cache.find(std::vector<int64_t>{1}), nullptr);
  for (const int64_t k : {0, 2, 3}) EXPECT_NE(cache.find(std::vector<int64_t>{k}), nullptr) << k;
}

TEST(PlanCache, HoldsNoMoreThanItsLimit) {
  PlanCache cache(16);
  std::vector<std::weak_ptr<const ShapePlan>> made;
  for (int64_t k = 0; k < 1000; ++k) {
    auto plan = plan_of({k % 100, k}, k);
    made.push_back(plan);
    cache.insert(std::move(plan));
  }
  int64_t alive = 0;
  for (const auto& p : made) alive += p.expired() ? 0 : 1;
  EXPECT_EQ(alive, 16);
}

TEST(PlanCache, APlanInsertedTwiceIsStillBounded) {
  PlanCache cache(4);
  for (int k = 0; k < 100; ++k) cache.insert(plan_of({5}, 5));
  cache.insert(plan_of({6}, 6));
  EXPECT_EQ(cache.find(std::vector<int64_t>{5})->values[0], 5);
  EXPECT_EQ(cache.find(std::vector<int64_t>{6})->values[0], 6);
}

TEST(PlanCache, OneOfNoEntriesHoldsNothing) {
  PlanCache cache(0);
  cache.insert(plan_of({1}, 1));
  EXPECT_EQ(cache.find(std::vector<int64_t>{1}), nullptr);
}

TEST(PlanCache, APlanInUseOutlivesItsPlace) {
  PlanCache cache(1);
  cache.insert(plan_of({1}, 11));
  const auto held = cache.find(std::vector<int64_t>{1});
  cache.insert(plan_of({2}, 22));
  EXPECT_EQ(cache.find(std::vector<int64_t>{1}), nullptr);
  EXPECT_EQ(held->values[0], 11);
}

TEST(PlanCache, ThreadsMayShareIt) {
  PlanCache cache(32);
  std::atomic<int64_t> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int k = 0; k < 20000; ++k) {
        const int64_t a = static_cast<int64_t>(random() % 8), b = static_cast<int64_t>(random() % 8);
        if (const auto plan = cache.find(std::vector<int64_t>{a, b})) {
          ++found;
          if (plan->values[0] != a * 100 + b) ++wrong;
        } else {
          cache.insert(plan_of({a, b}, a * 100 + b));
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(found.load(), 1000);
}

}  // namespace
}  // namespace stax::runtime
