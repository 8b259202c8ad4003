// SPDX-License-Identifier: Apache-2.0
#include "ir/dtype.h"

#include <gtest/gtest.h>

namespace stax::ir {
namespace {

TEST(DTypes, NamesRoundTrip) {
  for (int n = 0; n < kDTypeCount; ++n) {
    const DType t = static_cast<DType>(n);
    EXPECT_EQ(parse_dtype(name_of(t)), t);
    EXPECT_EQ(byte_size(t) * 8, static_cast<size_t>(bit_width(t)));
    EXPECT_EQ(is_float(t) + is_integer(t) + (t == DType::kBool), 1);
  }
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(long_name_of(DType::kBF16), "bfloat16");
}

TEST(DTypes, Properties) {
  EXPECT_EQ(byte_size(DType::kBool), 1U);
  EXPECT_FALSE(is_signed(DType::kBool));
  EXPECT_FALSE(is_signed(DType::kU16));
  EXPECT_TRUE(is_signed(DType::kF16));
  EXPECT_EQ(compute_type(DType::kF16), DType::kF32);
  EXPECT_EQ(compute_type(DType::kBF16), DType::kF32);
  EXPECT_EQ(compute_type(DType::kF64), DType::kF64);
  EXPECT_EQ(compute_type(DType::kI8), DType::kI8);
}

}  // namespace
}  // namespace stax::ir
