// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "support/error.h"

namespace stax::runtime {
namespace {

TEST(MemoryPool, BlocksAreAlignedAndDoNotOverlap) {
  auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
  std::vector<std::shared_ptr<void>> blocks;
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{1000}, int64_t{4097},
                        int64_t{1} << 20}) {
    blocks.push_back(pool->allocate(bytes, "test"));
    ASSERT_NE(blocks.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().get()) % 64, 0u);
    std::memset(blocks.back().get(), static_cast<int>(blocks.size()), static_cast<size_t>(bytes));
  }
  const int64_t sizes[] = {0, 1, 63, 64, 65, 1000, 4097, 1 << 20};
  for (size_t k = 0; k < blocks.size(); ++k)
    for (int64_t i = 0; i < sizes[k]; ++i) ASSERT_EQ(static_cast<const unsigned char*>(blocks[k].get())[i], k + 1);
}

TEST(MemoryPool, CountsWhatIsLiveAndItsPeak) {
  auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
  EXPECT_EQ(pool->live_bytes(), 0);
  {
    auto a = pool->allocate(1 << 20, "a");
    auto b = pool->allocate(1 << 20, "b");
    EXPECT_GE(pool->live_bytes(), 2 << 20);
    EXPECT_LE(pool->live_bytes(), (2 << 20) * 9 / 8 + 128) << "sizes are rounded up by an eighth at most";
  }
  EXPECT_EQ(pool->live_bytes(), 0);
  EXPECT_GE(pool->peak_bytes(), 2 << 20);
  pool->count_external(100);
  EXPECT_EQ(pool->live_bytes(), 100);
}

TEST(MemoryPool, GivesABlockAgainToTheNextOfItsSize) {
  auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
  void* first = pool->allocate(100'000, "a").get();
  EXPECT_EQ(pool->allocate(100'000, "b").get(), first);
  EXPECT_EQ(pool->allocate(99'900, "c").get(), first) << "a neighbour in shape";
  const auto small = pool->allocate(1000, "d");
  EXPECT_NE(small.get(), first) << "a block far too large is not wasted on it";
}

/// Host memory that counts what it has given out.
class CountingDevice final : public Device {
 public:
  std::string name() const override { return "counting"; }
  bool unified() const override { return true; }
  void* allocate(size_t bytes) override {
    held += bytes;
    ++allocations;
    most = std::max(most, held);
    return host_.allocate(bytes);
  }
  void release(void* data, size_t bytes) override {
    held -= bytes;
    host_.release(data, bytes);
  }
  void copy_in(void*, const void*, size_t) override {}
  void copy_out(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void launch(const Launch&) override {}
  void synchronize() override {}
  size_t held = 0, most = 0;
  int allocations = 0;

 private:
  HostDevice host_;
};

TEST(MemoryPool, KeepsWhatTheNextCallNeeds) {
  const auto device = std::make_shared<CountingDevice>();
  const auto pool = std::make_shared<MemoryPool>(device);
  const void* first = pool->allocate(int64_t{64} << 20, "result").get();
  EXPECT_EQ(pool->allocate(int64_t{64} << 20, "result").get(), first) << "though nothing was in use meanwhile";
}

TEST(MemoryPool, KeepsWhatTheNextCallNeedsRatherThanWhatOthersNeeded) {
  const auto device = std::make_shared<CountingDevice>();
  const auto pool = std::make_shared<MemoryPool>(device);
  for (int64_t size = 600'000; size < 1'500'000; size += size / 3) pool->allocate(size, "other shapes");
  for (const int64_t size : {1'700'000, 2'100'000, 900'000, 4'300'000}) {
    pool->allocate(size, "result");
    const int before = device->allocations;
    for (int k = 0; k < 10; ++k) pool->allocate(size, "result");
    EXPECT_EQ(device->allocations, before) << "a block of " << size << " bytes is taken from the system at each call";
  }
}

TEST(MemoryPool, HoldsNoMoreThanWasInUseAtOnce) {
  const auto device = std::make_shared<CountingDevice>();
  const auto pool = std::make_shared<MemoryPool>(device);
  constexpr int64_t kMB = int64_t{1} << 20;
  for (int64_t size = 8; size < 64; ++size) pool->allocate(size * kMB, "one size after the other");
  EXPECT_LE(device->most, static_cast<size_t>(72 * kMB)) << "blocks of other sizes were kept beside the one in use";
}

TEST(MemoryPool, GivesBackWhatIsNoLongerNeeded) {
  const auto device = std::make_shared<CountingDevice>();
  const auto pool = std::make_shared<MemoryPool>(device);
  {
    std::vector<std::shared_ptr<void>> blocks;
    for (int k = 0; k < 64; ++k) blocks.push_back(pool->allocate(int64_t{4} << 20, "block"));
  }
  EXPECT_GE(device->held, size_t{256} << 20);
  for (int k = 0; k < 200; ++k) pool->allocate(1000 + k * 100, "small");
  EXPECT_LE(device->held, size_t{5} << 20) << "after many calls that need little";
  pool->trim();
  EXPECT_EQ(device->held, 0U);
  EXPECT_NO_THROW(pool->allocate(64, "after"));
}

TEST(MemoryPool, WhatCannotBeHadIsAnErrorThatNamesIt) {
  auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
  for (const int64_t bytes :
       {int64_t{-1}, int64_t{1} << 60, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    try {
      pool->allocate(bytes, "Expand node 'e'");
      ADD_FAILURE() << bytes;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("Expand node 'e'"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(std::to_string(bytes)), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(pool->live_bytes(), 0);
  EXPECT_NO_THROW(pool->allocate(64, "after"));
}

TEST(MemoryPool, BlocksMayOutliveWhoeverMadeIt) {
  std::shared_ptr<void> block;
  {
    auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
    block = pool->allocate(1000, "result");
  }
  std::memset(block.get(), 1, 1000);
}

TEST(MemoryPool, ThreadsMayShareIt) {
  auto pool = std::make_shared<MemoryPool>(std::make_shared<HostDevice>());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<std::pair<std::shared_ptr<void>, size_t>> held;
      for (int k = 0; k < 3000; ++k) {
        const size_t bytes = 1 + random() % 5000;
        held.emplace_back(pool->allocate(static_cast<int64_t>(bytes), "t"), bytes);
        std::memset(held.back().first.get(), t, bytes);
        if (held.size() > 10) {
          const size_t at = random() % held.size();
          for (size_t i = 0; i < held[at].second; i += 97)
            if (static_cast<const char*>(held[at].first.get())[i] != static_cast<char>(t)) ++wrong;
          held.erase(held.begin() + static_cast<long>(at));
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(pool->live_bytes(), 0);
}

}  // namespace
}  // namespace stax::runtime
