// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

// Conversions between the 16-bit floats, held as their bits, and float and double. Narrowing rounds to nearest, ties to
// even, once; overflow gives infinity; denormals are exact or rounded like the rest; a NaN stays a NaN with its sign
// and the upper part of its payload, made quiet.
//
//   f16   1 sign, 5 exponent, 10 mantissa (IEEE binary16)
//   bf16  1 sign, 8 exponent, 7 mantissa  (the upper half of a binary32)

namespace stax {

constexpr float bf16_to_float(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  return std::bit_cast<float>(wide);
}

constexpr std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  // The carry of the rounding runs from mantissa into exponent, up to infinity, which is what rounding asks for.
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  std::uint32_t magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = 0x7F800000U | (mantissa << 13);
  } else if (exponent != 0) {
    magnitude = ((exponent + 112) << 23) | (mantissa << 13);
  } else {  // zero or denormal: mantissa * 2^-24, exact in float
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    magnitude = std::bit_cast<std::uint32_t>(value);
  }
  const std::uint32_t result = sign | magnitude;
  return std::bit_cast<float>(result);
}

constexpr std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t result = 0;
  if (magnitude > 0x7F800000U) {
    result = 0x7E00U | ((magnitude >> 13) & 0x1FFU);
  } else if (magnitude >= 0x47800000U) {  // 2^16 and above, infinity
    result = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14 and above: normal; the carry may reach infinity
    result = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  } else if (magnitude > 0x33000000U) {  // above 2^-25: denormal, or rounded up to the least normal
    const std::uint32_t significand = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t shift = 126 - (magnitude >> 23);  // 14 .. 24
    const std::uint32_t half = 1U << (shift - 1);
    const std::uint32_t odd = (significand >> shift) & 1U;
    result = (significand + half - 1 + odd) >> shift;
  }
  return static_cast<std::uint16_t>(sign | result);
}

// double -> float by rounding to odd: an inexact result has its last bit set. A second rounding to at least two bits
// fewer then gives the same as one rounding of the double.
constexpr float double_to_float_round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double widened = nearest;
  if (widened == value || value != value) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool away_from_zero = value > 0 ? widened > value : widened < value;
  if (away_from_zero) bits -= 1;
  bits |= 1U;
  return std::bit_cast<float>(bits);
}

constexpr std::uint16_t double_to_f16(double value) { return float_to_f16(double_to_float_round_to_odd(value)); }
constexpr std::uint16_t double_to_bf16(double value) { return float_to_bf16(double_to_float_round_to_odd(value)); }

}  // namespace stax
