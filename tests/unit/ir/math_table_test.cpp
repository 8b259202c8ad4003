// SPDX-License-Identifier: Apache-2.0
// The programs of the table, run on the host.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "math_reference.h"

namespace stax::ir {
namespace {

template <class T, class Wide>
void check(ScalarOp op, const std::vector<T>& x, const std::vector<T>& y) {
  const MathFunction& f = math_function(op, sizeof(T) == 4 ? DType::kF32 : DType::kF64);
  std::vector<T> result(x.size());
  evaluate(f, x, y, result);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide exact = reference(op, static_cast<Wide>(x[i]), y.empty() ? Wide{0} : static_cast<Wide>(y[i]));
    const double error = ulp_error(result[i], exact);
    worst = std::max(worst, error);
    ASSERT_LE(error, f.max_ulp) << name_of(op) << " of " << name_of(f.dtype) << " at " << x[i]
                                << (y.empty() ? "" : fmt::format(", {}", y[i])) << ": got " << result[i] << ", not "
                                << static_cast<double>(exact);
  }
  ::testing::Test::RecordProperty(fmt::format("{}_{}", name_of(op), name_of(f.dtype)), fmt::format("{:.3f}", worst));
}

template <class T>
void pairs(std::vector<T>& x, std::vector<T>& y) {
  const std::vector<T> special = special_arguments<T>();
  for (T a : special) {
    for (T b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
}

class MathTable : public ::testing::TestWithParam<ScalarOp> {};

TEST_P(MathTable, FloatsAreWithinTheStatedError) {
  const ScalarOp op = GetParam();
  std::vector<float> x, y;
  std::mt19937 random(1);
  if (arity_of(op) == 1) {
    x = special_arguments<float>();
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 32771)
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    for (int i = 0; i < 50000; ++i) x.push_back(std::uniform_real_distribution<float>(-10, 10)(random));
  } else {
    pairs(x, y);
    for (int i = 0; i < 50000; ++i) {
      x.push_back(i % 2 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                             : std::uniform_real_distribution<float>(0, 3)(random));
      y.push_back(i % 4 < 2 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                            : std::uniform_real_distribution<float>(-100, 100)(random));
    }
  }
  check<float, double>(op, x, y);
}

TEST_P(MathTable, DoublesAreWithinTheStatedError) {
  const ScalarOp op = GetParam();
  std::vector<double> x, y;
  std::mt19937_64 random(1);
  const auto any = [&] {
    switch (random() % 4) {
      case 0: return std::bit_cast<double>(random());
      case 1: return std::uniform_real_distribution<double>(-10, 10)(random);
      case 2: return std::uniform_real_distribution<double>(-750, 750)(random);
      default:
        return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 60) - 30);
    }
  };
  if (arity_of(op) == 1)
    x = special_arguments<double>();
  else
    pairs(x, y);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(any());
    if (arity_of(op) == 2) y.push_back(any());
  }
  check<double, long double>(op, x, y);
}

INSTANTIATE_TEST_SUITE_P(Functions, MathTable, ::testing::ValuesIn(kMathOps),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Where a function has a program of pieces, that keeps its stated error, and is exact where the function ends.
TEST(MathTable, PiecesAreWithinTheStatedError) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int found = 0;
  for (ScalarOp op : kMathOps) {
    MathFunction f = math_function(op, DType::kF32);
    if (f.pieces.nodes.empty()) continue;
    ++found;
    f.fast = f.pieces;
    std::vector<float> x = special_arguments<float>();
    for (uint64_t bits = random() % 32771; bits < uint64_t{1} << 32; bits += 32771)
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    for (int i = 0; i < 200000; ++i) x.push_back(std::uniform_real_distribution<float>(-11, 11)(random));
    for (int i = 0; i < 200000; ++i) x.push_back(std::uniform_real_distribution<float>(-106, 90)(random));
    std::vector<float> y(x.size());
    evaluate(f, std::span<const float>(x), {}, std::span<float>(y));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulp_error(y[i], reference<double>(op, x[i], 0));
      worst = std::max(worst, error);
      ASSERT_LE(error, f.pieces_ulp) << name_of(op) << " of " << x[i] << ": " << y[i];
    }
    RecordProperty(fmt::format("{}_pieces", name_of(op)), fmt::format("{:.3f}", worst));
    const bool is_odd = op != ScalarOp::kExp;
    const std::vector<float> ends = {INFINITY, -INFINITY, -0.0F};
    std::vector<float> at_ends(ends.size());
    evaluate(f, std::span<const float>(ends), {}, std::span<float>(at_ends));
    EXPECT_EQ(at_ends, is_odd ? (std::vector<float>{1, -1, 0}) : (std::vector<float>{INFINITY, 0, 1}));
    EXPECT_EQ(std::signbit(at_ends[2]), is_odd);
    EXPECT_FALSE(std::signbit(at_ends[1]) && !is_odd);
  }
  EXPECT_EQ(found, 3);
}

// With a power that is right to half a unit, as it is here, and NaN, infinities and results below the least normal number as those of `fast`.
TEST(MathTable, PowersAreWithinTheStatedError) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int found = 0;
  for (ScalarOp op : kMathOps) {
    MathFunction f = math_function(op, DType::kF32);
    if (f.powers.nodes.empty()) continue;
    ++found;
    f.fast = f.powers;
    std::vector<float> x = special_arguments<float>();
    for (uint64_t bits = random() % 32771; bits < uint64_t{1} << 32; bits += 32771)
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    for (int i = 0; i < 500000; ++i) x.push_back(std::uniform_real_distribution<float>(-106, 90)(random));
    std::vector<float> y(x.size());
    evaluate(f, std::span<const float>(x), {}, std::span<float>(y));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulp_error(y[i], reference<double>(op, x[i], 0));
      worst = std::max(worst, error);
      ASSERT_LE(error, f.powers_ulp) << name_of(op) << " of " << x[i] << ": " << y[i];
    }
    RecordProperty(fmt::format("{}_powers", name_of(op)), fmt::format("{:.3f}", worst));
  }
  EXPECT_EQ(found, 1);
}

TEST(MathTable, ProgramsAreStraightLines) {
  for (ScalarOp op : kMathOps) {
    for (DType t : {DType::kF32, DType::kF64}) {
      const MathFunction& f = math_function(op, t);
      EXPECT_GT(f.max_ulp, 0);
      EXPECT_EQ(f.slow.nodes.empty(), f.is_slow.nodes.empty());
      for (const MathProgram* program : {&f.fast, &f.is_slow, &f.slow, &f.pieces, &f.powers}) {
        for (size_t i = 0; i < program->nodes.size(); ++i) {
          for (int32_t arg : program->nodes[i].args) EXPECT_LT(arg, static_cast<int32_t>(i));
        }
      }
    }
  }
  EXPECT_FALSE(is_math_function(ScalarOp::kAdd));
  EXPECT_FALSE(is_math_function(ScalarOp::kSqrt));
}

}  // namespace
}  // namespace stax::ir
