// SPDX-License-Identifier: Apache-2.0
#include "emit/scalar_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stax::emit {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using ir::ScalarOp;

namespace {

struct Bounds {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

// Of the values that are not NaN.
Bounds bounds_of(Scalar s) {
  if (s->kind == ScalarKind::kConstant && ir::is_float(s->dtype)) return {s->as_double(), s->as_double()};
  if (s->kind == ScalarKind::kCast) {
    const DType from = s->args[0]->dtype;
    if (ir::is_float(from)) return bounds_of(s->args[0]);
    if (from == DType::kBool) return {0, 1};
    const int bits = ir::bit_width(from);
    if (ir::is_signed(from)) return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1)};
    return {0, std::ldexp(1.0, bits)};
  }
  if (s->kind != ScalarKind::kOp) return {};
  switch (s->op) {
    case ScalarOp::kMin: {
      Bounds x = bounds_of(s->args[0]), y = bounds_of(s->args[1]);
      return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    }
    case ScalarOp::kMax: {
      Bounds x = bounds_of(s->args[0]), y = bounds_of(s->args[1]);
      return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    }
    case ScalarOp::kAdd: {
      Bounds x = bounds_of(s->args[0]), y = bounds_of(s->args[1]);
      return {x.lo + y.lo, x.hi + y.hi};
    }
    case ScalarOp::kSelect: {
      Bounds x = bounds_of(s->args[1]), y = bounds_of(s->args[2]);
      return {std::min(x.lo, y.lo), std::max(x.hi, y.hi)};
    }
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: {
      Bounds x = bounds_of(s->args[0]);
      return {std::floor(x.lo), std::ceil(x.hi)};
    }
    default: return {};
  }
}

}  // namespace

bool fits_i32(Scalar s) {
  const Bounds bounds = bounds_of(s);
  return bounds.lo >= -0x1p31 && bounds.hi < 0x1p31;
}

}  // namespace stax::emit
