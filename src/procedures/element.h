// SPDX-License-Identifier: Apache-2.0
#pragma once
// Elements as the procedures see them: a C++ type for each DType, and a key, an unsigned integer that orders as the
// values do.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "ir/dtype.h"
#include "support/error.h"
#include "support/float16.h"

namespace stax::procedures {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// Calls f(T{}) with the C++ type of `t`; bool is uint8_t.
template <class F>
decltype(auto) with_element(ir::DType t, F&& f) {
  switch (t) {
    case ir::DType::kBool: return f(uint8_t{});
    case ir::DType::kI8: return f(int8_t{});
    case ir::DType::kI16: return f(int16_t{});
    case ir::DType::kI32: return f(int32_t{});
    case ir::DType::kI64: return f(int64_t{});
    case ir::DType::kU8: return f(uint8_t{});
    case ir::DType::kU16: return f(uint16_t{});
    case ir::DType::kU32: return f(uint32_t{});
    case ir::DType::kU64: return f(uint64_t{});
    case ir::DType::kF16: return f(F16{});
    case ir::DType::kBF16: return f(BF16{});
    case ir::DType::kF32: return f(float{});
    case ir::DType::kF64: return f(double{});
  }
  STAX_UNREACHABLE();
}

template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, F16> || std::is_same_v<T, BF16> || std::is_floating_point_v<T>;

namespace detail {

// Bits of a float whose exponent field ends at `infinity`.
template <class U>
constexpr U float_key(U bits, U infinity) {
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  const U magnitude = bits & static_cast<U>(~kSign);
  if (magnitude > infinity) return static_cast<U>(~U{0});
  if (magnitude == 0) return kSign;
  return (bits & kSign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | kSign);
}

}  // namespace detail

constexpr uint16_t key_of(F16 x) { return detail::float_key<uint16_t>(x.bits, 0x7C00); }
constexpr uint16_t key_of(BF16 x) { return detail::float_key<uint16_t>(x.bits, 0x7F80); }
constexpr uint32_t key_of(float x) { return detail::float_key<uint32_t>(std::bit_cast<uint32_t>(x), 0x7F800000U); }
constexpr uint64_t key_of(double x) {
  return detail::float_key<uint64_t>(std::bit_cast<uint64_t>(x), 0x7FF0000000000000U);
}
template <class T>
  requires std::is_integral_v<T>
constexpr std::make_unsigned_t<T> key_of(T x) {
  using U = std::make_unsigned_t<T>;
  if constexpr (std::is_signed_v<T>) {
    return static_cast<U>(static_cast<U>(x) ^ static_cast<U>(U{1} << (8 * sizeof(U) - 1)));
  } else {
    return x;
  }
}

template <class T>
using KeyOf = decltype(key_of(T{}));

constexpr double to_double(F16 x) { return f16_to_float(x.bits); }
constexpr double to_double(BF16 x) { return bf16_to_float(x.bits); }
template <class T>
  requires std::is_arithmetic_v<T>
constexpr double to_double(T x) {
  return static_cast<double>(x);
}

template <class T>
constexpr T from_double(double x) {
  if constexpr (std::is_same_v<T, F16>) {
    return F16{double_to_f16(x)};
  } else if constexpr (std::is_same_v<T, BF16>) {
    return BF16{double_to_bf16(x)};
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace stax::procedures
