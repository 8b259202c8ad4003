// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/scalar.h"
#include "support/error.h"
#include "support/float16.h"

namespace stax::ir {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double floats(ScalarOp op, double a, double b = 0) {
  Value64 args[2];
  args[0].f = a;
  args[1].f = b;
  return evaluate_scalar_op(op, DType::kF64, {args, static_cast<size_t>(arity_of(op))}).f;
}

int64_t ints(ScalarOp op, DType t, int64_t a, int64_t b = 0) {
  Value64 args[2];
  args[0].i = a;
  args[1].i = b;
  return evaluate_scalar_op(op, t, {args, static_cast<size_t>(arity_of(op))}).i;
}

bool float_condition(ScalarOp op, double a, double b = 0) {
  Value64 args[2];
  args[0].f = a;
  args[1].f = b;
  return evaluate_scalar_op(op, DType::kF32, {args, static_cast<size_t>(arity_of(op))}).i != 0;
}

int64_t from_float(DType to, double x) {
  Value64 v;
  v.f = x;
  return evaluate_cast(to, DType::kF32, v).i;
}

TEST(ScalarEval, FloatFunctionsAreThoseOfTheLibrary) {
  const std::pair<ScalarOp, double (*)(double)> functions[] = {{ScalarOp::kSqrt, std::sqrt},
                                                               {ScalarOp::kExp, std::exp},
                                                               {ScalarOp::kLog, std::log},
                                                               {ScalarOp::kLog1p, std::log1p},
                                                               {ScalarOp::kExpm1, std::expm1},
                                                               {ScalarOp::kSin, std::sin},
                                                               {ScalarOp::kCos, std::cos},
                                                               {ScalarOp::kTan, std::tan},
                                                               {ScalarOp::kAsin, std::asin},
                                                               {ScalarOp::kAcos, std::acos},
                                                               {ScalarOp::kAtan, std::atan},
                                                               {ScalarOp::kSinh, std::sinh},
                                                               {ScalarOp::kCosh, std::cosh},
                                                               {ScalarOp::kTanh, std::tanh},
                                                               {ScalarOp::kAsinh, std::asinh},
                                                               {ScalarOp::kAcosh, std::acosh},
                                                               {ScalarOp::kAtanh, std::atanh},
                                                               {ScalarOp::kErf, std::erf},
                                                               {ScalarOp::kFloor, std::floor},
                                                               {ScalarOp::kCeil, std::ceil},
                                                               {ScalarOp::kTrunc, std::trunc},
                                                               {ScalarOp::kAbs, std::fabs},
                                                               {ScalarOp::kRoundEven, std::nearbyint}};
  for (const auto& [op, function] : functions) {
    for (double x :
         {-0.0, 0.0, 0.25, -0.5, 0.5, 1.5, 2.5, -2.5, 0.49999999999999994, -0.3, 7.75, 1e20, -4.5, kInf, -kInf, kNan}) {
      const double expected = function(x), got = floats(op, x);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(got)
                                       : got == expected && std::signbit(got) == std::signbit(expected))
          << name_of(op) << "(" << x << ") = " << got;
    }
  }
  EXPECT_EQ(floats(ScalarOp::kPow, 2, 10), 1024);
  EXPECT_EQ(floats(ScalarOp::kAtan2, 1, -1), std::atan2(1, -1));
  EXPECT_DOUBLE_EQ(floats(ScalarOp::kSigmoid, 0.5), 1 / (1 + std::exp(-0.5)));
  EXPECT_EQ(floats(ScalarOp::kSigmoid, -kInf), 0);
  EXPECT_EQ(floats(ScalarOp::kSigmoid, kInf), 1);
  EXPECT_GT(floats(ScalarOp::kSigmoid, -740), 0);
}

TEST(ScalarEval, NanInfinityAndZero) {
  for (ScalarOp op : {ScalarOp::kMin, ScalarOp::kMax}) {
    EXPECT_TRUE(std::isnan(floats(op, kNan, 1)));
    EXPECT_TRUE(std::isnan(floats(op, 1, kNan)));
  }
  EXPECT_EQ(floats(ScalarOp::kMin, -kInf, 3), -kInf);
  EXPECT_EQ(floats(ScalarOp::kMax, -2, 3), 3);
  EXPECT_TRUE(std::signbit(floats(ScalarOp::kMin, 0.0, -0.0)));
  EXPECT_FALSE(std::signbit(floats(ScalarOp::kMax, -0.0, 0.0)));
  EXPECT_TRUE(std::isnan(floats(ScalarOp::kSign, kNan)));
  EXPECT_FALSE(std::signbit(floats(ScalarOp::kSign, -0.0)));
  EXPECT_EQ(floats(ScalarOp::kSign, -kInf), -1);
  EXPECT_FALSE(float_condition(ScalarOp::kLess, kNan, 1));
  EXPECT_FALSE(float_condition(ScalarOp::kLessEqual, kNan, kNan));
  EXPECT_FALSE(float_condition(ScalarOp::kEqual, kNan, kNan));
  EXPECT_TRUE(float_condition(ScalarOp::kNotEqual, kNan, kNan));
  EXPECT_TRUE(float_condition(ScalarOp::kEqual, 0.0, -0.0));
  EXPECT_TRUE(float_condition(ScalarOp::kIsNan, kNan));
  EXPECT_TRUE(float_condition(ScalarOp::kIsInf, -kInf));
}

TEST(ScalarEval, Modulo) {
  EXPECT_EQ(floats(ScalarOp::kModFloor, -7, 3), 2);
  EXPECT_EQ(floats(ScalarOp::kModFloor, 7, -3), -2);
  EXPECT_EQ(floats(ScalarOp::kModFloor, -1, kInf), kInf);
  EXPECT_TRUE(std::signbit(floats(ScalarOp::kModFloor, 6, -3)));
  EXPECT_EQ(floats(ScalarOp::kModTrunc, -7, 3), -1);
  EXPECT_TRUE(std::isnan(floats(ScalarOp::kModFloor, 1, 0)));
  EXPECT_EQ(ints(ScalarOp::kModFloor, DType::kI32, -7, 3), 2);
  EXPECT_EQ(ints(ScalarOp::kModFloor, DType::kI32, 7, -3), -2);
  EXPECT_EQ(ints(ScalarOp::kModTrunc, DType::kI32, -7, 3), -1);
  EXPECT_EQ(ints(ScalarOp::kModTrunc, DType::kI32, 7, 0), 0);
  EXPECT_EQ(ints(ScalarOp::kModFloor, DType::kI64, std::numeric_limits<int64_t>::min(), -1), 0);
}

// Against the compiler's own arithmetic on each width.
template <typename T>
void check_integers(DType t) {
  std::mt19937_64 random(7);
  const T interesting[] = {0,
                           1,
                           2,
                           3,
                           7,
                           static_cast<T>(-1),
                           static_cast<T>(-3),
                           std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max()};
  using Wide = std::make_unsigned_t<T>;
  for (int round = 0; round < 3000; ++round) {
    const auto pick = [&] { return random() % 2 == 0 ? interesting[random() % 9] : static_cast<T>(random()); };
    const T a = pick(), b = pick();
    const auto result = [&](ScalarOp op) {
      return static_cast<T>(ints(op, t, static_cast<int64_t>(a), static_cast<int64_t>(b)));
    };
    const auto wrapped = [&](ScalarOp op) {
      const int64_t v = ints(op, t, static_cast<int64_t>(a), static_cast<int64_t>(b));
      EXPECT_EQ(wrap_integer(t, v), v) << name_of(op);
      return static_cast<T>(v);
    };
    EXPECT_EQ(wrapped(ScalarOp::kAdd), static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)));
    EXPECT_EQ(wrapped(ScalarOp::kSub), static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)));
    EXPECT_EQ(wrapped(ScalarOp::kMul), static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
    EXPECT_EQ(wrapped(ScalarOp::kNeg), static_cast<T>(-static_cast<uint64_t>(a)));
    EXPECT_EQ(wrapped(ScalarOp::kNot), static_cast<T>(~a));
    EXPECT_EQ(wrapped(ScalarOp::kAnd), static_cast<T>(a & b));
    EXPECT_EQ(wrapped(ScalarOp::kOr), static_cast<T>(a | b));
    EXPECT_EQ(wrapped(ScalarOp::kXor), static_cast<T>(a ^ b));
    const bool overflows = std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
    EXPECT_EQ(wrapped(ScalarOp::kDiv), b == 0 ? T{0} : overflows ? a : static_cast<T>(a / b));
    EXPECT_EQ(wrapped(ScalarOp::kModTrunc), b == 0 || overflows ? T{0} : static_cast<T>(a % b));
    EXPECT_EQ(result(ScalarOp::kMin), std::min(a, b));
    EXPECT_EQ(result(ScalarOp::kMax), std::max(a, b));
    EXPECT_EQ(result(ScalarOp::kLess) != 0, a < b);
    EXPECT_EQ(result(ScalarOp::kLessEqual) != 0, a <= b);
    EXPECT_EQ(wrapped(ScalarOp::kAbs), a < 0 ? static_cast<T>(-static_cast<uint64_t>(a)) : a);
    EXPECT_EQ(wrapped(ScalarOp::kSign), static_cast<T>((a > 0) - (a < 0)));
    const auto by = static_cast<int64_t>(random() % 80);
    const auto shifted = [&](ScalarOp op) { return static_cast<T>(ints(op, t, static_cast<int64_t>(a), by)); };
    const bool out = by >= bit_width(t);
    EXPECT_EQ(shifted(ScalarOp::kShiftLeft), out ? T{0} : static_cast<T>(static_cast<Wide>(a) << by));
    EXPECT_EQ(shifted(ScalarOp::kShiftRight), out ? T{0} : static_cast<T>(a >> by));
    const auto exponent = static_cast<int64_t>(random() % 12);
    uint64_t power = 1;
    for (int64_t n = 0; n < exponent; ++n) power *= static_cast<uint64_t>(a);
    EXPECT_EQ(static_cast<T>(ints(ScalarOp::kPow, t, static_cast<int64_t>(a), exponent)), static_cast<T>(power));
  }
}

TEST(ScalarEval, IntegersWrapAtEachWidth) {
  check_integers<int8_t>(DType::kI8);
  check_integers<int16_t>(DType::kI16);
  check_integers<int32_t>(DType::kI32);
  check_integers<int64_t>(DType::kI64);
  check_integers<uint8_t>(DType::kU8);
  check_integers<uint16_t>(DType::kU16);
  check_integers<uint32_t>(DType::kU32);
  check_integers<uint64_t>(DType::kU64);
}

TEST(ScalarEval, IntegerPowersWithNegativeExponent) {
  EXPECT_EQ(ints(ScalarOp::kPow, DType::kI32, 2, -1), 0);
  EXPECT_EQ(ints(ScalarOp::kPow, DType::kI32, 1, -5), 1);
  EXPECT_EQ(ints(ScalarOp::kPow, DType::kI32, -1, -3), -1);
}

TEST(ScalarEval, Booleans) {
  EXPECT_EQ(ints(ScalarOp::kNot, DType::kBool, 1), 0);
  EXPECT_EQ(ints(ScalarOp::kXor, DType::kBool, 1, 1), 0);
  EXPECT_EQ(ints(ScalarOp::kAdd, DType::kBool, 1, 1), 1);
}

TEST(ScalarEval, CastsOfFloats) {
  EXPECT_EQ(from_float(DType::kI32, -2.9), -2);
  EXPECT_EQ(from_float(DType::kI8, 300), 44);
  EXPECT_EQ(from_float(DType::kU8, -1), 255);
  EXPECT_EQ(from_float(DType::kI64, 1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(from_float(DType::kI64, kNan), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(from_float(DType::kI32, kNan), 0);
  EXPECT_EQ(from_float(DType::kBool, kNan), 1);
  EXPECT_EQ(from_float(DType::kBool, -0.0), 0);
  EXPECT_EQ(from_float(DType::kBool, 0.25), 1);
}

TEST(ScalarEval, CastsOfIntegers) {
  Value64 v;
  v.i = -1;
  EXPECT_EQ(evaluate_cast(DType::kU16, DType::kI64, v).i, 65535);
  EXPECT_EQ(evaluate_cast(DType::kF64, DType::kU64, v).f, 0x1p64);
  EXPECT_EQ(evaluate_cast(DType::kBool, DType::kI8, v).i, 1);
  v.i = 16777217;
  EXPECT_EQ(evaluate_cast(DType::kF32, DType::kI64, v).f, 16777216.0);
  v.i = (int64_t{1} << 54) + (int64_t{1} << 30) + 1;  // rounded to double first, this would be a tie
  EXPECT_EQ(evaluate_cast(DType::kF32, DType::kI64, v).f, static_cast<float>(v.i));
  v.i = 70000;
  EXPECT_EQ(evaluate_cast(DType::kF16, DType::kI32, v).f, kInf);
}

TEST(ScalarEval, RoundingToHalf) {
  // Ties to even, overflow, denormals.
  EXPECT_EQ(round_to(DType::kF16, 2049), 2048);
  EXPECT_EQ(round_to(DType::kF16, 2051), 2052);
  EXPECT_EQ(round_to(DType::kF16, 2049.0000001), 2050);
  EXPECT_EQ(round_to(DType::kF16, 65519.99), 65504);
  EXPECT_EQ(round_to(DType::kF16, 65520), kInf);
  EXPECT_EQ(round_to(DType::kF16, 0x1p-25), 0);
  EXPECT_EQ(round_to(DType::kF16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_to(DType::kBF16, 257), 256);
  EXPECT_EQ(round_to(DType::kBF16, 259), 260);
  EXPECT_TRUE(std::isnan(round_to(DType::kBF16, kNan)));
  EXPECT_TRUE(std::signbit(round_to(DType::kF16, -1e-30)));
}

TEST(ScalarEval, EveryHalfSurvivesMemory) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto in = static_cast<uint16_t>(bits);
      const Value64 v = load_element(t, &in, 0);
      if (std::isnan(v.f)) continue;
      EXPECT_EQ(round_to(t, v.f), v.f);
      uint16_t out = 0;
      store_element(t, &out, 0, v);
      ASSERT_EQ(out, in);
    }
  }
}

TEST(ScalarEval, StoresWrapAndRound) {
  uint8_t bytes[8] = {};
  Value64 v;
  v.i = 0x1FF;
  store_element(DType::kU8, bytes, 3, v);
  EXPECT_EQ(load_element(DType::kU8, bytes, 3).i, 255);
  EXPECT_EQ(load_element(DType::kI8, bytes, 3).i, -1);
  EXPECT_EQ(bytes[4], 0);
  v.f = 0.1;
  store_element(DType::kF32, bytes, 0, v);
  EXPECT_EQ(load_element(DType::kF32, bytes, 0).f, static_cast<double>(0.1F));
}

// The first words of the known answers that Random123 publishes for counters below 2^64.
TEST(ScalarEval, RandomBits) {
  EXPECT_EQ(random_bits(0, 0), 0x6627E8D5U);
  EXPECT_NE(random_bits(0, 1), random_bits(1, 0));
  EXPECT_EQ(static_cast<uint32_t>(ints(ScalarOp::kHash, DType::kI64, 0, 0)), 0x6627E8D5U);
  int ones = 0;
  for (uint64_t n = 0; n < 4096; ++n) ones += __builtin_popcount(random_bits(42, n));
  EXPECT_NEAR(ones, 4096 * 16, 1000);
}

TEST(ScalarEval, TypeFaults) {
  const DType mixed[] = {DType::kF32, DType::kI32};
  EXPECT_THROW(result_dtype(ScalarOp::kAdd, mixed), InternalError);
  const DType floats32[] = {DType::kF32, DType::kF32};
  EXPECT_THROW(result_dtype(ScalarOp::kShiftLeft, floats32), InternalError);
  EXPECT_EQ(result_dtype(ScalarOp::kLess, floats32), DType::kBool);
  const DType choice[] = {DType::kBool, DType::kF16, DType::kF16};
  EXPECT_EQ(result_dtype(ScalarOp::kSelect, choice), DType::kF16);
  const DType seeds[] = {DType::kI64, DType::kI64};
  EXPECT_EQ(result_dtype(ScalarOp::kHash, seeds), DType::kU32);
}

}  // namespace
}  // namespace stax::ir
