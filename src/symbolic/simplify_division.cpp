// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "symbolic/evaluate.h"
#include "symbolic/simplify.h"

namespace stax::symbolic {
namespace {

// Products of constants that are formed here stay far from saturation.
constexpr int64_t kLargest = int64_t{1} << 31;
bool is_small(const Polynomial& p) { return -kLargest < p.constant && p.constant < kLargest; }

bool is_single(const Polynomial& p, ExprKind kind) {
  return p.terms.size() == 1 && p.terms[0].coefficient == 1 && p.terms[0].factors.size() == 1 &&
         p.terms[0].factors[0].kind() == kind;
}

size_t length(const Polynomial& p) { return p.terms.size() + (p.constant != 0 ? 1 : 0); }

Polynomial negated(const Polynomial& p) {
  Polynomial result;
  result.add(p, -1);
  return result;
}

}  // namespace

Expr Simplifier::floordiv(Expr a, Expr b) {
  // D1  constants; 0 / b -> 0; a / 0 -> 0
  if (a.is_constant(0) || b.is_constant(0)) return constant(0);
  if (a.is_constant() && b.is_constant()) return constant(floor_div(a.constant(), b.constant()));
  // D2  a / 1 -> a
  if (b.is_constant(1)) return a;
  // D3  a / -c -> -a / c
  if (b.is_constant() && b.constant() < 0 && b.constant() != kNegInf)
    return floordiv(negate(a), constant(-b.constant()));

  Polynomial pa(a);
  const Polynomial pb(b);
  // D4  a / b -> 0   0 <= a < b
  if (facts_.is_digit(pa, pb)) return constant(0);
  // D5  (q*b + r) / b -> q + r / b   b != 0
  if (facts_.nonzero(b)) {
    Polynomial quotient = extract_multiples(pa, pb);
    if (!quotient.is_zero()) return add(sum(std::move(quotient)), floordiv(sum(std::move(pa)), b));
  }
  // D6  (f*x + r) / (f*y) -> x / y   r = 0 and f != 0, or 0 <= r < f and y >= 0
  if (auto factored = take_out_factor(pa, pb)) {
    const bool holds =
        factored->r.is_zero() ? facts_.nonzero(monomial(factored->factor)) : facts_.at_least(factored->y, 0);
    if (holds) return floordiv(sum(factored->x), sum(factored->y));
  }
  // D7  (x / d + k) / b -> (x + k*d) / (d*b)   b >= 1, and k = 0 or d != 0
  if (is_single(pa, ExprKind::kFloorDiv) && facts_.at_least(pb, 1)) {
    const Expr x = pa.terms[0].factors[0].args()[0], d = pa.terms[0].factors[0].args()[1];
    const Polynomial pd(d);
    const bool plain = pa.constant == 0 || (pd.is_constant() && pb.is_constant());
    if (plain && is_small(pa) && is_small(pb) && is_small(pd) && pd.as_term() && pb.as_term()) {
      Polynomial dividend(x);
      dividend.add(pd, pa.constant);
      return floordiv(sum(std::move(dividend)), product({d, b}));
    }
  }
  // D8  mod(x, b*c) / b -> mod(x / b, c)   b >= 1, c >= 0
  if (is_single(pa, ExprKind::kMod) && pa.constant == 0 && pb.as_term() && facts_.at_least(pb, 1)) {
    const Expr x = pa.terms[0].factors[0].args()[0];
    const auto modulus = Polynomial(pa.terms[0].factors[0].args()[1]).as_term();
    if (auto c = modulus ? divide(*modulus, *pb.as_term()) : std::nullopt; c && facts_.at_least(Polynomial(*c), 0))
      return mod(floordiv(x, b), product_of(*c));
  }
  // D9  -a / b -> -((a + b - 1) / b)   b >= 1: the first coefficient is made positive
  if (!pa.terms.empty() && pa.terms[0].coefficient < 0 && pb.as_term() && facts_.at_least(pb, 1)) {
    Polynomial dividend = negated(pa);
    dividend.add(pb);
    dividend.constant = saturating_add(dividend.constant, -1);
    if (dividend.terms.empty() || dividend.terms[0].coefficient > 0)
      return negate(floordiv(sum(std::move(dividend)), b));
  }
  return finish(ExprKind::kFloorDiv, {a, b});
}

Expr Simplifier::mod(Expr a, Expr b) {
  // M1  constants; 0 % b -> 0; a % 0 -> 0; a % 1 -> 0; a % c -> 0 where c is known to divide a
  if (a.is_constant(0) || b.is_constant(0) || b.is_constant(1) || b.is_constant(-1)) return constant(0);
  if (a.is_constant() && b.is_constant()) return constant(floor_mod(a.constant(), b.constant()));
  if (b.is_constant() && b.constant() != kNegInf && facts_.multiple(a) % b.constant() == 0) return constant(0);
  // M2  a % -c -> -(-a % c)
  if (b.is_constant() && b.constant() < 0 && b.constant() != kNegInf)
    return negate(mod(negate(a), constant(-b.constant())));

  Polynomial pa(a);
  const Polynomial pb(b);
  // M3  a % b -> a   0 <= a < b
  if (facts_.is_digit(pa, pb)) return a;
  // M4  (s * (x % d) + r) % b -> (s*x + r) % b   d != 0 and b divides s*d
  if (strip_inner_mods(pa, pb)) return mod(sum(std::move(pa)), b);
  // M5  (q*b + r) % b -> r % b
  if (!extract_multiples(pa, pb).is_zero()) return mod(sum(std::move(pa)), b);
  // M6  (f*x + r) % (f*y) -> f * (x % y) + r   r = 0, or 0 <= r < f and y >= 1
  if (auto factored = take_out_factor(pa, pb)) {
    if (factored->r.is_zero() || facts_.at_least(factored->y, 1)) {
      const Expr digits = product({mod(sum(factored->x), sum(factored->y)), monomial(factored->factor)});
      return add(digits, sum(factored->r));
    }
  }
  // M7  a % c -> a - q*c   q*c <= a < (q + 1)*c
  if (b.is_constant()) {
    const Interval r = facts_.range(pa);
    const int64_t quotient = floor_div(r.lo, b.constant());
    if (r.lo != kNegInf && r.hi != kPosInf && quotient == floor_div(r.hi, b.constant())) {
      pa.constant = saturating_add(pa.constant, -saturating_mul(quotient, b.constant()));
      return sum(std::move(pa));
    }
  }
  return finish(ExprKind::kMod, {a, b});
}

// Moves multiples of `b` out of `a` and gives their quotient.
Polynomial Simplifier::extract_multiples(Polynomial& a, const Polynomial& b) {
  Polynomial quotient;
  if (b.is_constant()) {
    extract_constant_multiples(a, b.constant, quotient);
    return quotient;
  }
  // One step of the long division at a time, kept if it makes the rest shorter.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Term& term : a.terms) {
      const std::optional<Term> factor = divide(term, b.leading());
      if (!factor) continue;
      Polynomial rest = a;
      rest.add(multiply(b, *factor), -1);
      if (length(rest) >= length(a)) continue;
      quotient.add(*factor);
      a = std::move(rest);
      changed = true;
      break;
    }
  }
  return quotient;
}

void Simplifier::extract_constant_multiples(Polynomial& a, int64_t b, Polynomial& quotient) {
  quotient.constant = floor_div(a.constant, b);
  Polynomial rest(floor_mod(a.constant, b));
  for (const Term& term : a.terms) {
    quotient.add(Term{term.coefficient / b, term.factors});
    rest.add(Term{term.coefficient % b, term.factors});
  }
  a = rest;
  // What is divisible because a factor is known to be: 6*n with n a multiple of 4, by 8.
  for (const Term& term : rest.terms) {
    const int64_t shared = std::gcd(term.coefficient, b), missing = b / shared;
    const bool alone = rest.terms.size() == 1 && rest.constant == 0 && term.coefficient == shared;
    if (alone && term.factors.size() == 1) continue;
    for (Expr factor : term.factors) {
      if (facts_.multiple(factor) % missing != 0) continue;
      Term others = without(term, factor);
      others.coefficient = term.coefficient / shared;
      quotient.add(multiply(Polynomial(floordiv(factor, constant(missing))), others));
      a.add(Term{-term.coefficient, term.factors});
      break;
    }
  }
}

std::optional<Simplifier::Factored> Simplifier::take_out_factor(const Polynomial& a, const Polynomial& b) const {
  const std::optional<Term> divisor = b.as_term();
  if (!divisor || a.terms.empty()) return std::nullopt;
  std::vector<Term> candidates{common_factor(a.terms[0], *divisor)};
  for (const Term& term : a.terms) {
    candidates.push_back(common_factor(term, *divisor));
    candidates.front() = common_factor(candidates.front(), term);  // of all terms
  }
  for (const Term& factor : candidates) {
    if (factor.coefficient == 1 && factor.factors.empty()) continue;
    Factored result;
    result.factor = factor;
    result.y = Polynomial(*divide(*divisor, factor));
    for (const Term& term : a.terms) {
      if (auto quotient = divide(term, factor))
        result.x.add(*quotient);
      else
        result.r.add(term);
    }
    result.r.constant = a.constant;
    if (factor.factors.empty()) {
      const int64_t least = facts_.range(result.r).lo;
      if (least == kNegInf || least == kPosInf) continue;
      const int64_t carry = floor_div(least, factor.coefficient);
      result.x.constant = carry;
      result.r.constant = saturating_add(result.r.constant, -saturating_mul(carry, factor.coefficient));
    }
    if (result.r.is_zero() || facts_.is_digit(result.r, Polynomial(factor))) return result;
  }
  return std::nullopt;
}

bool Simplifier::strip_inner_mods(Polynomial& a, const Polynomial& b) const {
  const std::optional<Term> modulus = b.as_term();
  if (!modulus) return false;
  for (const Term& term : a.terms) {
    for (Expr inner : term.factors) {
      if (inner.kind() != ExprKind::kMod) continue;
      const std::optional<Term> d = Polynomial(inner.args()[1]).as_term();
      const Term scale = without(term, inner);
      if (!d || !divide(multiply(scale, *d), *modulus) || !facts_.nonzero(inner.args()[1])) continue;
      Polynomial stripped = a;
      stripped.add(Term{-term.coefficient, term.factors});
      stripped.add(multiply(Polynomial(inner.args()[0]), scale));
      a = std::move(stripped);
      return true;
    }
  }
  return false;
}

}  // namespace stax::symbolic
