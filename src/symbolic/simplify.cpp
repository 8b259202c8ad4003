// SPDX-License-Identifier: Apache-2.0
#include "symbolic/simplify.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::symbolic {

Expr Simplifier::make(ExprKind kind, std::vector<Expr> args) {
  // S1  a symbol whose range is one value -> the value
  for (Expr& arg : args) {
    STAX_ASSERT(arg, "arithmetic on an absent expression");
    STAX_ASSERT(arg.node()->table == store_.table, "expressions of two tables");
    if (arg.is_symbol())
      if (const Interval r = facts_.range(arg); r.is_constant()) arg = constant(r.lo);
  }
  const size_t arity = args.size();
  switch (kind) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
    case ExprKind::kAdd: {
      Polynomial p;
      for (Expr arg : args) p.add(arg, 1);
      return sum(std::move(p));
    }
    case ExprKind::kMul: return product(std::move(args));
    case ExprKind::kMin:
    case ExprKind::kMax: STAX_ASSERT(arity >= 1); return extremum(kind, args);
    case ExprKind::kFloorDiv: STAX_ASSERT(arity == 2); return floordiv(args[0], args[1]);
    case ExprKind::kMod: STAX_ASSERT(arity == 2); return mod(args[0], args[1]);
    case ExprKind::kLess: STAX_ASSERT(arity == 2); return less(args[0], args[1]);
    case ExprKind::kEqual: STAX_ASSERT(arity == 2); return equal(args[0], args[1]);
    case ExprKind::kSelect: STAX_ASSERT(arity == 3); return select(args[0], args[1], args[2]);
  }
  internal_error("constants and symbols have their own constructors");
}

Expr Simplifier::finish(ExprKind kind, std::vector<Expr> args, Interval known) {
  const Expr e = store_.intern(kind, 0, std::move(args), known);
  const Interval r = facts_.range(e);
  return r.is_constant() ? constant(r.lo) : e;
}

bool Simplifier::is_boolean(Expr e) const {
  const Interval r = facts_.range(e);
  return r.lo >= 0 && r.hi <= 1;
}

Expr Simplifier::add(Expr a, Expr b) {
  Polynomial p(a);
  p.add(b, 1);
  return sum(std::move(p));
}

Expr Simplifier::negate(Expr a) {
  Polynomial p;
  p.add(a, -1);
  return sum(std::move(p));
}

Expr Simplifier::monomial(const Term& term) {
  if (term.factors.empty() || term.coefficient == 0) return constant(term.coefficient);
  if (term.factors.size() == 1 && term.coefficient == 1) return term.factors[0];
  std::vector<Expr> args = term.factors;
  if (term.coefficient != 1) args.push_back(constant(term.coefficient));
  return finish(ExprKind::kMul, std::move(args));
}

Expr Simplifier::product_of(const Term& term) {
  std::vector<Expr> args = term.factors;
  args.push_back(constant(term.coefficient));
  return product(std::move(args));
}

// S2  k * (a + b) -> k*a + k*b, and products of sums where few terms result; else the sums stay as factors
Expr Simplifier::product(const std::vector<Expr>& args) {
  Term scalar;
  std::vector<Expr> sums;
  const std::function<void(Expr)> collect = [&](Expr arg) {
    if (arg.is_constant()) {
      scalar.coefficient = saturating_mul(scalar.coefficient, arg.constant());
    } else if (arg.kind() == ExprKind::kMul) {
      for (Expr inner : arg.args()) collect(inner);
    } else if (arg.kind() == ExprKind::kAdd) {
      sums.push_back(arg);
    } else {
      scalar = multiply(scalar, Term{1, {arg}});
    }
  };
  for (Expr arg : args) collect(arg);
  if (scalar.coefficient == 0) return constant(0);

  size_t terms = 1;
  for (Expr e : sums) terms *= std::min(e.args().size(), kMaxDistributedTerms + 1);
  const bool distribute = terms <= kMaxDistributedTerms || (sums.size() == 1 && scalar.factors.empty());
  if (!distribute) {
    for (Expr e : sums) {
      // The sign of the first term and what divides all of them go to the coefficient.
      Polynomial p(e);
      int64_t content = p.constant == kNegInf ? 1 : p.constant;
      for (const Term& term : p.terms) content = term.coefficient == kNegInf ? 1 : std::gcd(content, term.coefficient);
      if (p.terms[0].coefficient < 0) content = -content;
      for (Term& term : p.terms) term.coefficient /= content;
      p.constant /= content;
      scalar = multiply(scalar, Term{content, {sum(std::move(p))}});
    }
    return sum(Polynomial(scalar));
  }
  Polynomial result(scalar);
  for (Expr e : sums) result = multiply(result, Polynomial(e));
  return sum(std::move(result));
}

Expr Simplifier::sum(Polynomial p) {
  while (recombine_division(p)) {
  }
  if (p.terms.empty()) return constant(p.constant);
  if (p.terms.size() == 1 && p.constant == 0) return monomial(p.terms[0]);
  // S3  1 - (a < b) -> b < a + 1
  if (p.terms.size() == 1 && p.constant == 1 && p.terms[0].coefficient == -1 && p.terms[0].factors.size() == 1 &&
      p.terms[0].factors[0].kind() == ExprKind::kLess) {
    const Expr condition = p.terms[0].factors[0];
    return less(condition.args()[1], add(condition.args()[0], constant(1)));
  }
  // Terms that depend on each other: what the intervals of the terms alone do not show.
  Interval known;
  const auto depends_on_others = [](const Term& term) {
    return std::any_of(term.factors.begin(), term.factors.end(), [](Expr e) { return !e.is_symbol(); });
  };
  if (p.terms.size() > 1 && std::any_of(p.terms.begin(), p.terms.end(), depends_on_others)) {
    // Of the terms without the constant, so that a sum is known as well as what it is part of.
    Polynomial terms = p, negated;
    terms.constant = 0;
    negated.add(terms, -1);
    if (declared_facts().at_least(terms, 0)) known.lo = p.constant;
    if (declared_facts().at_least(negated, 0)) known.hi = p.constant;
  }
  std::vector<Expr> args;
  for (const Term& term : p.terms) args.push_back(monomial(term));
  // A product of a single value has become a constant.
  if (std::any_of(args.begin(), args.end(), [](Expr e) { return e.is_constant(); })) {
    Polynomial folded(p.constant);
    for (Expr arg : args) folded.add(arg, 1);
    return sum(std::move(folded));
  }
  if (p.constant != 0) args.push_back(constant(p.constant));
  return finish(ExprKind::kAdd, std::move(args), known);
}

// S4  s*c*floordiv(x, c) -> s*x - s*mod(x, c)   c != 0, if the sum becomes smaller
// S5  s*mod(x, c) -> s*x - s*c*floordiv(x, c)   c != 0, if the sum becomes smaller
// These cover c*floordiv(x, c) + mod(x, c) -> x,  x - c*floordiv(x, c) -> mod(x, c), and, where c divides x,
// c*floordiv(x, c) -> x.
bool Simplifier::recombine_division(Polynomial& p) {
  for (const Term& term : p.terms) {
    for (Expr factor : term.factors) {
      const bool is_quotient = factor.kind() == ExprKind::kFloorDiv;
      if (!is_quotient && (factor.kind() != ExprKind::kMod || p.terms.size() == 1)) continue;
      const Expr x = factor.args()[0], c = factor.args()[1];
      const Polynomial divisor(c);
      std::optional<Term> scale = without(term, factor);
      if (is_quotient) scale = divide(*scale, divisor.is_constant() ? Term{divisor.constant, {}} : divisor.leading());
      if (!scale || !facts_.nonzero(c)) continue;
      const Polynomial quotient(is_quotient ? factor : floordiv(x, c)), rest(is_quotient ? mod(x, c) : factor);
      Polynomial identity(x);  // x - c*(x / c) - x % c = 0
      identity.add(multiply(divisor, quotient), -1);
      identity.add(rest, -1);
      Polynomial candidate = p;
      candidate.add(multiply(identity, *scale));
      if (candidate.weight() >= p.weight()) continue;
      p = std::move(candidate);
      return true;
    }
  }
  return false;
}

}  // namespace stax::symbolic
