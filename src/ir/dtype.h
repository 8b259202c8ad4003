// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types common to the IRs.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stax::ir {

enum class DType : uint8_t { kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64 };
inline constexpr int kDTypeCount = 13;

size_t byte_size(DType t);          // kBool is one byte, 0 or 1
std::string_view name_of(DType t);  // "bool", "i8", ..., "f64"
std::optional<DType> parse_dtype(std::string_view name);
std::string_view long_name_of(DType t);  // as users say it: "float32", "int64", "bfloat16"; for messages
bool is_float(DType t);
bool is_integer(DType t);  // excludes bool
bool is_signed(DType t);   // signed integers and floats
int bit_width(DType t);
/// The type in which arithmetic on `t` is done by generated code: f32 for f16 and bf16, `t` itself otherwise.
DType compute_type(DType t);

}  // namespace stax::ir
