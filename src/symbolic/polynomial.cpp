// SPDX-License-Identifier: Apache-2.0
#include "symbolic/polynomial.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::symbolic {
namespace {

int rank_of(ExprKind kind) {
  if (kind == ExprKind::kSymbol) return 0;
  if (kind == ExprKind::kConstant) return 100;
  return static_cast<int>(kind);
}

// Higher powers of the same factors first: i*n + i.
int compare_factors(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (int order = compare(a[i], b[i]); order != 0) return order;
  return a.size() == b.size() ? 0 : a.size() > b.size() ? -1 : 1;
}

bool factor_less(Expr a, Expr b) { return compare(a, b) < 0; }

// A 0-or-1 factor to any power is itself.
void drop_repeated_booleans(std::vector<Expr>& factors) {
  auto repeated = [](Expr a, Expr b) { return a == b && a.range().lo >= 0 && a.range().hi <= 1; };
  factors.erase(std::unique(factors.begin(), factors.end(), repeated), factors.end());
}

}  // namespace

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  if (int order = rank_of(a.kind()) - rank_of(b.kind()); order != 0) return order;
  if (a.is_constant()) return a.constant() < b.constant() ? -1 : 1;
  if (a.is_symbol()) return a.symbol().name.compare(b.symbol().name);
  const auto x = a.args(), y = b.args();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (int order = compare(x[i], y[i]); order != 0) return order;
  return x.size() < y.size() ? -1 : 1;
}

Term multiply(const Term& a, const Term& b) {
  Term result{saturating_mul(a.coefficient, b.coefficient), {}};
  result.factors.reserve(a.factors.size() + b.factors.size());
  std::merge(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), std::back_inserter(result.factors),
             factor_less);
  drop_repeated_booleans(result.factors);
  return result;
}

std::optional<Term> divide(const Term& a, const Term& b) {
  if (b.coefficient == 0 || floor_mod(a.coefficient, b.coefficient) != 0) return std::nullopt;
  // Most divisions that provers try leave a rest: whether this one does is seen before anything is allocated.
  size_t next = 0;
  for (size_t i = 0; i < a.factors.size() && next < b.factors.size(); ++i)
    if (a.factors[i] == b.factors[next]) ++next;
  if (next != b.factors.size()) return std::nullopt;
  Term result{floor_div(a.coefficient, b.coefficient), {}};
  result.factors.reserve(a.factors.size() - b.factors.size());
  next = 0;
  for (Expr factor : a.factors) {
    if (next < b.factors.size() && factor == b.factors[next])
      ++next;
    else
      result.factors.push_back(factor);
  }
  return result;
}

Term common_factor(const Term& a, const Term& b) {
  Term result;
  result.coefficient =
      a.coefficient == kNegInf || b.coefficient == kNegInf ? 1 : std::gcd(a.coefficient, b.coefficient);
  std::set_intersection(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                        std::back_inserter(result.factors), factor_less);
  return result;
}

Term without(const Term& a, Expr factor) {
  Term result = a;
  auto found = std::find(result.factors.begin(), result.factors.end(), factor);
  STAX_ASSERT(found != result.factors.end());
  result.factors.erase(found);
  return result;
}

void Polynomial::add(const Term& term) {
  if (term.coefficient == 0) return;
  if (term.factors.empty()) {
    constant = saturating_add(constant, term.coefficient);
    return;
  }
  auto place = std::lower_bound(terms.begin(), terms.end(), term,
                                [](const Term& a, const Term& b) { return compare_factors(a.factors, b.factors) < 0; });
  if (place == terms.end() || place->factors != term.factors) {
    terms.insert(place, term);
    return;
  }
  place->coefficient = saturating_add(place->coefficient, term.coefficient);
  if (place->coefficient == 0) terms.erase(place);
}

void Polynomial::add(const Polynomial& other, int64_t scale) {
  for (const Term& term : other.terms) add(Term{saturating_mul(term.coefficient, scale), term.factors});
  constant = saturating_add(constant, saturating_mul(other.constant, scale));
}

void Polynomial::add(Expr e, int64_t scale) {
  STAX_ASSERT(e, "arithmetic on an absent expression");
  switch (e.kind()) {
    case ExprKind::kConstant: constant = saturating_add(constant, saturating_mul(e.constant(), scale)); return;
    case ExprKind::kAdd:
      for (Expr arg : e.args()) add(arg, scale);
      return;
    case ExprKind::kMul: {
      const auto args = e.args();
      Term term{scale, {}};
      for (Expr arg : args) {
        if (arg.is_constant())
          term.coefficient = saturating_mul(term.coefficient, arg.constant());
        else
          term.factors.push_back(arg);
      }
      add(term);
      return;
    }
    default: add(Term{scale, {e}}); return;
  }
}

std::optional<Term> Polynomial::as_term() const {
  if (terms.empty() && constant != 0) return Term{constant, {}};
  if (terms.size() == 1 && constant == 0) return terms[0];
  return std::nullopt;
}

const Term& Polynomial::leading() const {
  STAX_ASSERT(!terms.empty());
  const Term* best = &terms[0];
  for (const Term& term : terms)
    if (term.factors.size() > best->factors.size()) best = &term;
  return *best;
}

uint64_t Polynomial::weight() const {
  uint64_t result = 0;
  for (const Term& term : terms) {
    result += 1;
    for (Expr factor : term.factors) result += factor.node()->size;
  }
  return result;
}

Polynomial multiply(const Polynomial& a, const Term& b) {
  Polynomial result;
  for (const Term& term : a.terms) result.add(multiply(term, b));
  if (a.constant != 0) result.add(multiply(Term{a.constant, {}}, b));
  return result;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (const Term& term : b.terms) result.add(multiply(a, term));
  if (b.constant != 0) result.add(a, b.constant);
  return result;
}

Polynomial difference(Expr a, Expr b) {
  Polynomial result(a);
  result.add(b, -1);
  return result;
}

}  // namespace stax::symbolic
