// SPDX-License-Identifier: Apache-2.0
// Drawn tensors: the same bits from the same words, alike what they stand for, and back through text.
#include "ir/drawn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "support/error.h"
#include "support/hash.h"
#include "support/lexer.h"

namespace stax::ir {
namespace {

uint64_t bits_of(const Literal& l) { return hash_bytes({static_cast<const std::byte*>(l.data()), l.bytes()}); }

Drawn reread(const Drawn& how) {
  const std::string text = spell(how);
  Lexer lexer(text, "test");
  lexer.expect("drawn");
  const Drawn again = parse_drawn(lexer);
  lexer.expect_end();
  return again;
}

TEST(Drawn, ReadsBackFromItsWords) {
  const std::vector<std::pair<DType, Drawn>> cases = {
      {DType::kF32, {.seed = 7, .mean = 0.1, .deviation = 0.3, .low = -1.5, .high = 1.25}},
      {DType::kF16, {.seed = 1, .mean = -3, .deviation = 1e-3, .low = -3.1, .high = -2.9}},
      {DType::kU8, {.seed = 2, .low = 0, .high = 255}},
      {DType::kI64, {.seed = 3, .low = -5, .high = 1e12}},
      {DType::kF32, {.seed = 4, .choices = {0, -std::numeric_limits<double>::infinity()}}},
      {DType::kF64, {.seed = 5, .choices = {0.1, std::nan("")}}},
      {DType::kBool, {.seed = 6, .choices = {0, 1}}},
  };
  for (const auto& [t, how] : cases) {
    SCOPED_TRACE(spell(how));
    EXPECT_EQ(bits_of(draw(t, {7, 11}, how)), bits_of(draw(t, {7, 11}, reread(how))));
    Drawn other = how;
    ++other.seed;
    EXPECT_NE(bits_of(draw(t, {7, 11}, how)), bits_of(draw(t, {7, 11}, other)));
  }
}

TEST(Drawn, StaysInItsRange) {
  const Literal l = draw(DType::kF32, {10'000}, {.seed = 9, .mean = 1, .deviation = 2, .low = -1.5, .high = 3});
  double sum = 0;
  for (int64_t k = 0; k < l.count(); ++k) {
    ASSERT_GE(l.at(k).f, -1.5);
    ASSERT_LE(l.at(k).f, 3);
    sum += l.at(k).f;
  }
  EXPECT_NEAR(sum / 10'000, 0.85, 0.1);  // of the normal distribution cut off at these ends
  std::array<int, 4> counts{};
  const Literal whole = draw(DType::kI32, {4'000}, {.seed = 9, .low = -1, .high = 2});
  for (int64_t k = 0; k < whole.count(); ++k) ++counts.at(static_cast<size_t>(whole.at(k).i + 1));
  for (const int n : counts) EXPECT_NEAR(n, 1000, 200);
}

TEST(Drawn, IsLikeWhatItStandsFor) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0.5, 0.25);
  Literal weights(DType::kF32, {50, 40}), bytes(DType::kI8, {300}), mask(DType::kF32, {8, 8}), ids(DType::kI64, {100});
  for (int64_t k = 0; k < weights.count(); ++k) weights.set(k, {.f = normal(random)});
  for (int64_t k = 0; k < bytes.count(); ++k) bytes.set(k, {.i = k % 100 - 50});
  for (int64_t k = 0; k < mask.count(); ++k)
    mask.set(k, {.f = k % 3 == 0 ? -std::numeric_limits<double>::infinity() : 0});
  for (int64_t k = 0; k < ids.count(); ++k) ids.set(k, {.i = k});
  const auto w = drawn_like(weights, 1), b = drawn_like(bytes, 2), m = drawn_like(mask, 3);
  ASSERT_TRUE(w && b && m);
  EXPECT_NEAR(w->mean, 0.5, 0.03);
  EXPECT_NEAR(w->deviation, 0.25, 0.02);
  EXPECT_EQ(b->low, -50);
  EXPECT_EQ(b->high, 49);
  EXPECT_EQ(m->choices, (std::vector<double>{-std::numeric_limits<double>::infinity(), 0}));
  weights.set(3, {.f = std::nan("")});
  EXPECT_FALSE(drawn_like(weights, 1)) << "one NaN among many numbers";
  ids.set(7, {.i = (int64_t{1} << 60) + 1});
  EXPECT_FALSE(drawn_like(ids, 1)) << "a double does not hold it";
  EXPECT_FALSE(drawn_like(Literal(DType::kF32, {0}), 1));
}

TEST(Drawn, WrongWordsAreNamed) {
  for (const char* text : {"7", "7 of {}", "7 normal 0.0 1.0 from 2.0 to 1.0", "7 integers from 0.0 to 1e300",
                           "7 normal 0.0 1.0 from nan to 1.0", "7 uniform from 0.0 to 1.0"}) {
    Lexer lexer(text, "test");
    EXPECT_THROW(parse_drawn(lexer), UserError) << text;
  }
}

}  // namespace
}  // namespace stax::ir
