// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "symbolic/evaluate.h"
#include "symbolic/simplify.h"

namespace stax::symbolic {
namespace {

int64_t shared_divisor(const Polynomial& p) {
  int64_t result = 0;
  for (const Term& term : p.terms) {
    if (term.coefficient == kNegInf) return 1;
    result = std::gcd(result, term.coefficient);
  }
  return result;
}

// p = right - left, both with positive coefficients. The constant stands with the side that then needs no sign, unless the
// other side is otherwise empty.
struct Sides {
  Polynomial left, right;
};

Sides split_sides(const Polynomial& p) {
  Sides sides;
  for (const Term& term : p.terms) {
    if (term.coefficient > 0)
      sides.right.add(term);
    else
      sides.left.add(Term{saturating_mul(term.coefficient, -1), term.factors});
  }
  const bool to_left = sides.right.is_zero() ? false : sides.left.is_zero() ? true : p.constant < 0;
  if (to_left)
    sides.left.constant = saturating_mul(p.constant, -1);
  else
    sides.right.constant = p.constant;
  return sides;
}

}  // namespace

Expr Simplifier::extremum(ExprKind kind, const std::vector<Expr>& args) {
  // E1  nested ones are flattened, constants folded, repetitions dropped
  std::vector<Expr> flat;
  std::optional<int64_t> bound;
  const auto take = [&](Expr arg) {
    if (!arg.is_constant()) {
      flat.push_back(arg);
      return;
    }
    const int64_t v = arg.constant();
    bound = !bound ? v : kind == ExprKind::kMin ? std::min(*bound, v) : std::max(*bound, v);
  };
  for (Expr arg : args) {
    if (arg.kind() == kind) {
      for (Expr inner : arg.args()) take(inner);
    } else {
      take(arg);
    }
  }
  if (bound) flat.push_back(constant(*bound));
  std::sort(flat.begin(), flat.end(), [](Expr a, Expr b) { return compare(a, b) < 0; });
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // E2  min(a, b) -> a   a <= b;  max(a, b) -> b   a <= b
  for (size_t i = 0; i < flat.size(); ++i) {
    for (size_t k = 0; k < flat.size(); ++k) {
      if (i == k) continue;
      const Expr keep = flat[i], drop = flat[k];
      if (kind == ExprKind::kMin ? !facts_.less_equal(keep, drop) : !facts_.less_equal(drop, keep)) continue;
      flat.erase(flat.begin() + static_cast<std::ptrdiff_t>(k));
      if (k < i) --i;
      --k;
    }
  }
  if (flat.size() == 1) return flat[0];
  return finish(kind, std::move(flat));
}

Expr Simplifier::less(Expr a, Expr b) {
  // L1  a < b -> 0 < b - a, decided by the range of the difference
  Polynomial gap(sum(difference(b, a)));
  if (facts_.at_least(gap, 1)) return constant(1);
  Polynomial excess;
  excess.add(gap, -1);
  if (facts_.at_least(excess, 0)) return constant(0);
  // L2  0 < g*x + k -> 0 < x + (k - 1) / g + 1
  if (const int64_t g = shared_divisor(gap); g > 1) {
    Polynomial reduced(saturating_add(floor_div(saturating_add(gap.constant, -1), g), 1));
    for (const Term& term : gap.terms) reduced.add(Term{term.coefficient / g, term.factors});
    gap = Polynomial(sum(std::move(reduced)));
  }
  if (gap.is_constant()) return constant(gap.constant > 0 ? 1 : 0);
  // L3  0 < x -> x and x < 1 -> 1 - x   0 <= x <= 1
  if (gap.terms.size() == 1 && gap.terms[0].factors.size() == 1) {
    const Expr x = gap.terms[0].factors[0];
    if (gap.terms[0].coefficient == 1 && gap.constant == 0 && is_boolean(x)) return x;
    if (gap.terms[0].coefficient == -1 && gap.constant == 1 && is_boolean(x)) return add(constant(1), negate(x));
  }
  const Sides sides = split_sides(gap);
  return finish(ExprKind::kLess, {sum(sides.left), sum(sides.right)});
}

Expr Simplifier::equal(Expr a, Expr b) {
  // L4  a = b -> 0 = b - a, decided by the range of the difference
  Polynomial gap(sum(difference(b, a)));
  if (gap.is_constant()) return constant(gap.constant == 0 ? 1 : 0);
  Polynomial negated;
  negated.add(gap, -1);
  if (facts_.at_least(gap, 1) || facts_.at_least(negated, 1)) return constant(0);
  if (facts_.at_least(gap, 0) && facts_.at_least(negated, 0)) return constant(1);
  // L5  0 = g*x + k -> 0   g does not divide k
  int64_t g = 0;
  for (const Term& term : gap.terms) {
    int64_t divisor = term.coefficient == kNegInf ? 1 : term.coefficient;
    for (Expr factor : term.factors) {
      int64_t product = 0;
      if (!__builtin_mul_overflow(divisor, facts_.multiple(factor), &product)) divisor = product;
    }
    g = std::gcd(g, divisor);
  }
  if (g != 0 && gap.constant % g != 0) return constant(0);
  // L6  0 = g*x + g*k -> 0 = x + k;  0 = -x -> 0 = x
  if (const int64_t content = shared_divisor(gap); content > 1) {
    Polynomial reduced(gap.constant / content);
    for (const Term& term : gap.terms) reduced.add(Term{term.coefficient / content, term.factors});
    gap = Polynomial(sum(std::move(reduced)));
    if (gap.is_constant()) return constant(gap.constant == 0 ? 1 : 0);
  }
  if (gap.terms[0].coefficient > 0) {
    negated = Polynomial();
    negated.add(gap, -1);
    gap = std::move(negated);
  }
  // L7  x = 1 -> x and x = 0 -> 1 - x   0 <= x <= 1
  if (gap.terms.size() == 1 && gap.terms[0].coefficient == -1 && gap.terms[0].factors.size() == 1) {
    const Expr x = gap.terms[0].factors[0];
    if (gap.constant == 1 && is_boolean(x)) return x;
    if (gap.constant == 0 && is_boolean(x)) return add(constant(1), negate(x));
  }
  const Sides sides = split_sides(gap);
  return finish(ExprKind::kEqual, {sum(sides.left), sum(sides.right)});
}

Expr Simplifier::select(Expr condition, Expr a, Expr b) {
  // C1  constant conditions and equal branches
  const Interval r = facts_.range(condition);
  if (!r.contains(0)) return a;
  if (r.is_constant()) return b;
  if (a == b) return a;
  // C2  c ? (c ? x : y) : z -> c ? x : z
  if (a.kind() == ExprKind::kSelect && a.args()[0] == condition) return select(condition, a.args()[1], b);
  if (b.kind() == ExprKind::kSelect && b.args()[0] == condition) return select(condition, a, b.args()[2]);
  if (is_boolean(condition)) {
    // C3  c ? 1 : 0 -> c;  c ? 0 : 1 -> 1 - c   c is 0 or 1
    if (a.is_constant(1) && b.is_constant(0)) return condition;
    if (a.is_constant(0) && b.is_constant(1)) return add(constant(1), negate(condition));
    // C4  1 - c ? a : b -> c ? b : a   c is 0 or 1
    const Polynomial p(condition);
    if (p.terms.size() == 1 && p.constant == 1 && p.terms[0].coefficient == -1 && p.terms[0].factors.size() == 1 &&
        is_boolean(p.terms[0].factors[0]))
      return select(p.terms[0].factors[0], b, a);
  }
  if (condition.kind() == ExprKind::kLess) {
    // C5  x < y ? x : y -> min(x, y);  x < y ? y : x -> max(x, y), also with the same added to all
    const Polynomial gap = difference(condition.args()[1], condition.args()[0]);
    if (Polynomial rest = gap; rest.add(difference(b, a), -1), rest.is_zero()) return extremum(ExprKind::kMin, {a, b});
    if (Polynomial rest = gap; rest.add(difference(a, b), -1), rest.is_zero()) return extremum(ExprKind::kMax, {a, b});
  }
  if (condition.kind() == ExprKind::kEqual) {
    // C6  x = y ? x : y -> y, also with the same added to all
    const Polynomial gap = difference(condition.args()[1], condition.args()[0]);
    if (Polynomial rest = gap; rest.add(difference(b, a), -1), rest.is_zero()) return b;
    if (Polynomial rest = gap; rest.add(difference(a, b), -1), rest.is_zero()) return b;
    // C7  x = k ? f(x) : b -> x = k ? f(k) : b   k is a constant
    for (const bool left : {true, false}) {
      const Expr x = condition.args()[left ? 0 : 1], k = condition.args()[left ? 1 : 0];
      if (x.is_symbol() && k.is_constant() && depends_on(a, x))
        return select(condition, substitute(a, {{x.node(), k}}), b);
    }
  }
  return finish(ExprKind::kSelect, {condition, a, b});
}

}  // namespace stax::symbolic
