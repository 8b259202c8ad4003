// SPDX-License-Identifier: Apache-2.0
#include "ir/dtype.h"

#include <array>

#include "support/error.h"

namespace stax::ir {
namespace {

struct Row {
  std::string_view name, long_name;
  int bits;
  bool is_float, is_integer, is_signed;
};

constexpr std::array<Row, kDTypeCount> kRows = {{
    {"bool", "bool", 8, false, false, false},
    {"i8", "int8", 8, false, true, true},
    {"i16", "int16", 16, false, true, true},
    {"i32", "int32", 32, false, true, true},
    {"i64", "int64", 64, false, true, true},
    {"u8", "uint8", 8, false, true, false},
    {"u16", "uint16", 16, false, true, false},
    {"u32", "uint32", 32, false, true, false},
    {"u64", "uint64", 64, false, true, false},
    {"f16", "float16", 16, true, false, true},
    {"bf16", "bfloat16", 16, true, false, true},
    {"f32", "float32", 32, true, false, true},
    {"f64", "float64", 64, true, false, true},
}};

const Row& row(DType t) {
  const auto number = static_cast<size_t>(t);
  STAX_ASSERT(number < kRows.size());
  return kRows[number];
}

}  // namespace

size_t byte_size(DType t) { return static_cast<size_t>(row(t).bits) / 8; }
std::string_view name_of(DType t) { return row(t).name; }
std::string_view long_name_of(DType t) { return row(t).long_name; }
bool is_float(DType t) { return row(t).is_float; }
bool is_integer(DType t) { return row(t).is_integer; }
bool is_signed(DType t) { return row(t).is_signed; }
int bit_width(DType t) { return row(t).bits; }
DType compute_type(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kRows[static_cast<size_t>(i)].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace stax::ir
