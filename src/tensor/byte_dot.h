// SPDX-License-Identifier: Apache-2.0
#pragma once
// Contractions of bytes in the form that dot-product instructions take: sums over k of rows[.., k] * columns[.., k, c], rows of
// u8, columns of i8, four k at a time.
#include <optional>

#include "tensor/graph.h"

namespace stax::tensor {

/// Products of one instruction and lane.
inline constexpr int64_t kByteGroup = 4;

struct ByteDot {
  Scalar rows, columns;   // the two loads
  int column_axis = -1;   // of the result: neighbours along it run in lanes
  int column_index = -1;  // the index of `columns` that it is, bare
  int group = -1;         // the reduction whose elements are grouped
  int row_group = -1;     // the index of each load that it is, bare
  int column_group = -1;
};

/// How a contraction of these two loads could be grouped; nullopt where no reduction or no axis is suitable. Nothing is asked of types,
/// of layouts, or of divisibility.
std::optional<ByteDot> match_byte_dot(const Compute& c, Scalar rows, Scalar columns);

/// A contraction that is in this form: products of a u8 and an i8 in 32 bits, the rows contiguous along the group, its extent a
/// multiple of kByteGroup.
std::optional<ByteDot> byte_dot_of(const Compute& c);

}  // namespace stax::tensor
