// SPDX-License-Identifier: Apache-2.0
#include "support/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_set>

namespace stax {
namespace {

TEST(HashBytes, IsFixed) {
  // These values are on disk, in caches and files: they never change.
  EXPECT_EQ(hash_bytes("stax"), 0x7FB64A4B7F7670AAU);
  EXPECT_EQ(hash_bytes(std::string(1000, 'x')), 0x92D4CCBE46A8F60DU);
}

TEST(HashBytes, EveryBitAndTheLengthCount) {
  std::mt19937_64 random(3);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::uint64_t hash = hash_bytes(bytes);
    EXPECT_NE(hash_bytes(bytes + '\0'), hash);
    EXPECT_NE(hash_bytes(bytes, 1), hash);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      std::string changed = bytes;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(hash_bytes(changed), hash) << size << " bytes, bit " << bit;
    }
  }
}

TEST(HashBytes, DoesNotDependOnAlignment) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";
  for (std::size_t shift = 0; shift < 9; ++shift) {
    const std::string shifted = std::string(shift, ' ') + text;
    EXPECT_EQ(hash_bytes(std::string_view(shifted).substr(shift)), hash_bytes(text));
  }
}

TEST(HashCombine, OrderCounts) {
  EXPECT_NE(hash_combine(0, 1, 2), hash_combine(0, 2, 1));
  EXPECT_NE(hash_combine(0, 0), hash_combine(0, 0, 0));
  EXPECT_EQ(hash_combine(hash_combine(0, 1), std::string("a")), hash_combine(0, 1, std::string("a")));
}

TEST(HashCombine, SmallTuplesDoNotCollide) {
  std::unordered_set<std::uint64_t> hashes;
  for (int a = 0; a < 64; ++a) {
    for (int b = 0; b < 64; ++b) {
      for (int c = 0; c < 16; ++c) hashes.insert(hash_combine(0, a, b, c));
    }
  }
  EXPECT_EQ(hashes.size(), 64U * 64U * 16U);
}

}  // namespace
}  // namespace stax
