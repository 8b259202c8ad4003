// SPDX-License-Identifier: Apache-2.0
#include "support/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace stax {
namespace {

// The value of f16 or bf16 bits, from the definition of the format. Infinity counts as the power of two it stands for,
// so that rounding can be checked at the end of the range.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits & ((1U << mantissa_bits) - 1));
  return exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                       : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// Checks all non-negative finite numbers of the format, the midpoints between neighbours and what lies beside those.
template <typename FromDouble, typename FromFloat, typename ToFloat>
void check_format(int exponent_bits, int mantissa_bits, FromDouble from_double, FromFloat from_float,
                  ToFloat to_float) {
  const unsigned infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double value = value_of(bits, exponent_bits, mantissa_bits);
    const double middle = (value + value_of(bits + 1, exponent_bits, mantissa_bits)) / 2;
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(to_float(static_cast<std::uint16_t>(bits)), value) << bits;
    for (const unsigned sign : {0U, 0x8000U}) {
      const double s = sign != 0 ? -1 : 1;
      ASSERT_EQ(from_double(s * value), sign | bits);
      ASSERT_EQ(from_double(s * middle), sign | even);
      ASSERT_EQ(from_double(s * std::nextafter(middle, 0)), sign | bits);
      ASSERT_EQ(from_double(s * std::nextafter(middle, HUGE_VAL)), sign | (bits + 1));
      const float narrow = static_cast<float>(middle);
      ASSERT_EQ(narrow, middle);
      ASSERT_EQ(from_float(static_cast<float>(s) * narrow), sign | even);
      ASSERT_EQ(from_float(static_cast<float>(s) * std::nextafter(narrow, 0.0F)), sign | bits);
      ASSERT_EQ(from_float(static_cast<float>(s) * std::nextafter(narrow, HUGE_VALF)), sign | (bits + 1));
    }
  }
  for (const double huge : {1e39, 1e300, static_cast<double>(HUGE_VAL)}) {
    EXPECT_EQ(from_double(huge), infinity);
    EXPECT_EQ(from_double(-huge), 0x8000U | infinity);
  }
  EXPECT_EQ(from_double(1e-300), 0U);
  EXPECT_EQ(from_double(-1e-300), 0x8000U);
  EXPECT_TRUE(std::isinf(to_float(static_cast<std::uint16_t>(infinity))));
}

TEST(Float16, F16RoundsToNearestEven) { check_format(5, 10, double_to_f16, float_to_f16, f16_to_float); }

TEST(Float16, Bf16RoundsToNearestEven) { check_format(8, 7, double_to_bf16, float_to_bf16, bf16_to_float); }

TEST(Float16, NansStayNans) {
  for (unsigned bits = 0x7C01; bits <= 0x7FFF; ++bits) {
    const float wide = f16_to_float(static_cast<std::uint16_t>(bits));
    EXPECT_TRUE(std::isnan(wide));
    EXPECT_EQ(float_to_f16(wide), bits | 0x200U);
  }
  for (const std::uint32_t bits : {0x7F800001U, 0x7F80FFFFU, 0x7FFFFFFFU, 0xFF800001U}) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    EXPECT_EQ(float_to_bf16(value) >> 15, bits >> 31);
    EXPECT_EQ(float_to_f16(value) >> 15, bits >> 31);
  }
  EXPECT_TRUE(std::isnan(f16_to_float(double_to_f16(std::numeric_limits<double>::quiet_NaN()))));
}

TEST(Float16, OneRoundingFromDouble) {
  // Just above the middle of two neighbours by less than a float can see: by way of float it would go to even.
  EXPECT_EQ(double_to_f16(1.0 + 0x1p-11 + 0x1p-40), 0x3C01U);
  EXPECT_EQ(double_to_bf16(1.0 + 0x1p-8 + 0x1p-40), 0x3F81U);
}

TEST(Float16, IsConstexpr) {
  static_assert(float_to_f16(1.5F) == 0x3E00);
  static_assert(f16_to_float(0x0001) == 0x1p-24F);
  static_assert(float_to_bf16(-2.0F) == 0xC000);
  static_assert(double_to_f16(65520.0) == 0x7C00);
}

}  // namespace
}  // namespace stax
