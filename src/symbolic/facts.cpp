// SPDX-License-Identifier: Apache-2.0
#include "symbolic/facts.h"

#include <algorithm>

#include "symbolic/evaluate.h"

namespace stax::symbolic {
namespace {

// Beyond this, scaled bounds could saturate and a proof would mean nothing.
constexpr int64_t kLargest = int64_t{1} << 40;
bool is_small(int64_t v) { return -kLargest < v && v < kLargest; }
bool is_small(const Polynomial& p) {
  return is_small(p.constant) &&
         std::all_of(p.terms.begin(), p.terms.end(), [](const Term& term) { return is_small(term.coefficient); });
}

Polynomial replace_term(const Polynomial& p, const Term& term, Expr by) {
  Polynomial result = p;
  result.add(Term{-term.coefficient, term.factors});
  result.add(by, term.coefficient);
  return result;
}

}  // namespace

const Facts& declared_facts() {
  static const Facts facts;
  return facts;
}

Interval Facts::range(const Polynomial& p) const {
  Interval result{p.constant, p.constant};
  for (const Term& term : p.terms) {
    Interval product{term.coefficient, term.coefficient};
    for (Expr factor : term.factors) product = multiply(product, range(factor));
    result = add(result, product);
  }
  return result;
}

bool Facts::at_least(const Polynomial& p, int64_t bound) const {
  Effort limit = effort();
  return prove(p, bound, Search{limit.depth, &limit.steps});
}

bool Facts::at_least(Expr e, int64_t bound) const {
  const Interval r = range(e);
  if (r.lo >= bound) return true;
  if (r.hi < bound) return false;
  return at_least(Polynomial(e), bound);
}

bool Facts::less_equal(Expr a, Expr b) const {
  if (a == b || range(a).hi <= range(b).lo) return true;
  if (range(a).lo > range(b).hi) return false;
  if (a.kind() == ExprKind::kLess && b.kind() == ExprKind::kLess) {
    // a implies b if b's gap is at least a's.
    Polynomial gap = difference(b.args()[1], b.args()[0]);
    gap.add(difference(a.args()[1], a.args()[0]), -1);
    if (at_least(gap, 0)) return true;
  }
  return at_least(difference(b, a), 0);
}

bool Facts::nonzero(Expr e) const {
  const Interval r = range(e);
  if (!r.contains(0)) return true;
  if (r.is_constant()) return false;
  if (e.kind() == ExprKind::kMul)
    return std::all_of(e.args().begin(), e.args().end(), [&](Expr factor) { return nonzero(factor); });
  return at_least(e, 1);
}

bool Facts::is_digit(const Polynomial& a, const Polynomial& b) const {
  if (!at_least(a, 0)) return false;
  Polynomial gap = b;
  gap.add(a, -1);
  return at_least(gap, 1);
}

bool Facts::prove(const Polynomial& p, int64_t bound, Search search) const {
  const Interval r = range(p);
  if (r.lo >= bound) return true;
  if (r.hi < bound || --*search.steps < 0) return false;
  if (search.depth == 0) return false;
  const Search inner{search.depth - 1, search.steps};
  for (const Term& term : p.terms)
    if (term.factors.size() == 1 && prove_by_term(p, bound, term, inner)) return true;
  return prove_by_common_factor(p, bound, inner) || prove_further(p, bound, inner);
}

bool Facts::prove_by_term(const Polynomial& p, int64_t bound, const Term& term, Search search) const {
  const Expr x = term.factors[0];
  const bool positive = term.coefficient > 0;
  auto with = [&](Expr by) { return prove(replace_term(p, term, by), bound, search); };
  switch (x.kind()) {
    case ExprKind::kMin:
    case ExprKind::kMax:
      // From below, the term is bounded by its smallest argument or by any: k*min(a, b) >= all of them, if k > 0.
      if ((x.kind() == ExprKind::kMin) == positive) return std::all_of(x.args().begin(), x.args().end(), with);
      return std::any_of(x.args().begin(), x.args().end(), with);
    case ExprKind::kSelect: return with(x.args()[1]) && with(x.args()[2]);
    case ExprKind::kMod:
      // -mod(a, b) >= -a for a >= 0, and > -b for b >= 1.
      if (positive) return false;
      if (range(x.args()[0]).lo >= 0 && with(x.args()[0])) return true;
      if (range(x.args()[1]).lo >= 1) {
        Polynomial q = replace_term(p, term, x.args()[1]);
        q.constant = saturating_add(q.constant, -term.coefficient);
        return prove(q, bound, search);
      }
      return false;
    case ExprKind::kFloorDiv: {
      // c*floordiv(y, c) = y - (0 .. c-1), so with p = q + k*floordiv(y, c):  c*p = c*q + k*y - k*(0 .. c-1).
      // p >= bound  <=>  c*p >= c*bound - (c - 1).
      const Expr y = x.args()[0], divisor = x.args()[1];
      if (!divisor.is_constant() || divisor.constant() < 2) return false;
      const int64_t c = divisor.constant(), k = term.coefficient;
      if (c > (int64_t{1} << 20) || !is_small(bound) || !is_small(p)) return false;
      Polynomial scaled;
      scaled.add(p, c);
      scaled.add(Term{-(k * c), {x}});
      scaled.add(y, k);
      return prove(scaled, c * bound - (c - 1) + (positive ? k * (c - 1) : 0), search);
    }
    default: return false;
  }
}

// p = f * q with f >= 0 and q >= 0 is at least 0; with f >= 1 and q >= bound >= 1 at least bound.
bool Facts::prove_by_common_factor(const Polynomial& p, int64_t bound, Search search) const {
  if (p.constant != 0 || p.terms.size() < 2) return false;
  Term shared = p.terms[0];
  for (const Term& term : p.terms) shared = common_factor(shared, term);
  shared.coefficient = 1;
  if (shared.factors.empty()) return false;
  Interval factor{1, 1};
  for (Expr e : shared.factors) factor = multiply(factor, range(e));
  if (factor.lo < (bound > 0 ? 1 : 0)) return false;
  Polynomial quotient;
  for (const Term& term : p.terms) quotient.add(*divide(term, shared));
  return prove(quotient, std::max<int64_t>(bound, 0), search);
}

}  // namespace stax::symbolic
