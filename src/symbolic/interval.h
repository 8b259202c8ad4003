// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interval arithmetic: the range of a node from the ranges of its arguments. The ends kNegInf and kPosInf absorb what is
// added to them and keep their sign under products, so that "unbounded" stays unbounded.
#include <span>

#include "symbolic/expr.h"

namespace stax::symbolic {

Interval add(Interval a, Interval b);
Interval multiply(Interval a, Interval b);
Interval intersect(Interval a, Interval b);
Interval hull(Interval a, Interval b);
/// The values of `a` that are divisible by `multiple`; unbounded and saturated ends stay.
Interval round_inwards(Interval a, int64_t multiple);
/// Not for kConstant and kSymbol.
Interval range_from(ExprKind kind, std::span<const Interval> args);

}  // namespace stax::symbolic
