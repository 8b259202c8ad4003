// SPDX-License-Identifier: Apache-2.0
#include "symbolic/interval.h"

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::symbolic {
namespace {

int64_t multiply_ends(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kNegInf || a == kPosInf || b == kNegInf || b == kPosInf) return (a < 0) == (b < 0) ? kPosInf : kNegInf;
  return saturating_mul(a, b);
}

int64_t negate_end(int64_t a) { return a == kNegInf ? kPosInf : a == kPosInf ? kNegInf : -a; }
Interval negate(Interval a) { return {negate_end(a.hi), negate_end(a.lo)}; }

// For b.lo >= 1. The quotient grows with the dividend and moves towards 0 (or -1) as the divisor grows.
Interval divide_by_positive(Interval a, Interval b) {
  Interval result;
  result.lo = a.lo == kNegInf ? kNegInf : floor_div(a.lo, a.lo >= 0 ? b.hi : b.lo);
  result.hi = a.hi == kPosInf ? kPosInf : floor_div(a.hi, a.hi >= 0 ? b.lo : b.hi);
  return result;
}

// Joins the cases of a positive, a negative and a zero divisor; a zero divisor gives 0.
template <typename Positive>
Interval by_sign_of_divisor(Interval a, Interval b, bool negates_result, Positive positive) {
  Interval result{kPosInf, kNegInf};
  if (b.hi >= 1) result = positive(a, Interval{std::max<int64_t>(b.lo, 1), b.hi});
  if (b.lo <= -1) {
    Interval other = positive(negate(a), negate({b.lo, std::min<int64_t>(b.hi, -1)}));
    result = hull(result, negates_result ? negate(other) : other);
  }
  if (b.contains(0)) result = hull(result, {0, 0});
  return result;
}

Interval mod_by_positive(Interval a, Interval b) {
  if (a.lo >= 0 && a.hi < b.lo) return a;
  if (b.is_constant() && a.lo != kNegInf && a.hi != kPosInf && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo))
    return {floor_mod(a.lo, b.lo), floor_mod(a.hi, b.lo)};
  Interval result{0, b.hi == kPosInf ? kPosInf : b.hi - 1};
  if (a.lo >= 0) result.hi = std::min(result.hi, a.hi);
  return result;
}

}  // namespace

Interval add(Interval a, Interval b) {
  return {a.lo == kNegInf || b.lo == kNegInf ? kNegInf : saturating_add(a.lo, b.lo),
          a.hi == kPosInf || b.hi == kPosInf ? kPosInf : saturating_add(a.hi, b.hi)};
}

Interval multiply(Interval a, Interval b) {
  const auto ends = {multiply_ends(a.lo, b.lo), multiply_ends(a.lo, b.hi), multiply_ends(a.hi, b.lo),
                     multiply_ends(a.hi, b.hi)};
  return {std::min(ends), std::max(ends)};
}

Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }
Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval round_inwards(Interval a, int64_t multiple) {
  if (multiple <= 1) return a;
  Interval result = a;
  if (a.lo != kNegInf && a.lo != kPosInf) {
    int64_t up = floor_mod(a.lo, multiple) == 0 ? 0 : multiple - floor_mod(a.lo, multiple);
    result.lo = saturating_add(a.lo, up);
  }
  if (a.hi != kPosInf && a.hi != kNegInf) result.hi = saturating_add(a.hi, -floor_mod(a.hi, multiple));
  return result.lo <= result.hi ? result : a;
}

Interval range_from(ExprKind kind, std::span<const Interval> args) {
  switch (kind) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
    case ExprKind::kAdd: {
      Interval result{0, 0};
      for (Interval arg : args) result = add(result, arg);
      return result;
    }
    case ExprKind::kMul: {
      Interval result{1, 1};
      for (Interval arg : args) result = multiply(result, arg);
      return result;
    }
    case ExprKind::kFloorDiv: return by_sign_of_divisor(args[0], args[1], false, divide_by_positive);
    case ExprKind::kMod: return by_sign_of_divisor(args[0], args[1], true, mod_by_positive);
    case ExprKind::kMin: {
      Interval result = args[0];
      for (Interval arg : args) result = {std::min(result.lo, arg.lo), std::min(result.hi, arg.hi)};
      return result;
    }
    case ExprKind::kMax: {
      Interval result = args[0];
      for (Interval arg : args) result = {std::max(result.lo, arg.lo), std::max(result.hi, arg.hi)};
      return result;
    }
    case ExprKind::kLess:
      if (args[0].hi < args[1].lo) return {1, 1};
      if (args[0].lo >= args[1].hi) return {0, 0};
      return {0, 1};
    case ExprKind::kEqual:
      if (args[0].hi < args[1].lo || args[1].hi < args[0].lo) return {0, 0};
      if (args[0].is_constant() && args[0] == args[1]) return {1, 1};
      return {0, 1};
    case ExprKind::kSelect:
      if (!args[0].contains(0)) return args[1];
      if (args[0].is_constant()) return args[2];
      return hull(args[1], args[2]);
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::symbolic
