// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scalars and small operands that operator files spell alike.
#include "frontend/node_context.h"

namespace stax::frontend {

/// A number of the dtype of `x`.
inline Scalar like(Scalar x, double value) {
  if (ir::is_float(x->dtype)) return x->table->constant(x->dtype, value);
  return x->table->constant_int(x->dtype, static_cast<int64_t>(value));
}

/// The element of a tensor of one element as an i64: an expression where it is known without data.
inline Scalar int_of(tensor::Body& body, Value* v) {
  if (v->contents && v->contents->size() == 1) return body.index(v->contents->front());
  return ir::cast(DType::kI64, body.load(v));
}

/// Row-major position of a point.
inline Expr linear_index(Builder& b, std::span<const Expr> indices, std::span<const Expr> extents) {
  Expr at = b.constant_expr(0);
  for (size_t k = 0; k < indices.size(); ++k) at = at * extents[k] + indices[k];
  return at;
}

/// The smallest and largest int64 as bounds of host values.
inline constexpr symbolic::Interval kAnyInteger{symbolic::kNegInf, symbolic::kPosInf};
/// Sizes that the user gives at run time: what does not fit in memory is refused when it is allocated, with its bytes.
inline constexpr symbolic::Interval kAnySize{0, symbolic::kPosInf};

}  // namespace stax::frontend
