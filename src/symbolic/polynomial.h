// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of products, taken apart. Expr nodes are rebuilt from these only by the simplifier; the arithmetic here is plain
// algebra that creates no nodes, so that provers can use it freely.
#include <vector>

#include "symbolic/expr.h"
#include "symbolic/interval.h"

namespace stax::symbolic {

/// The structural order of canonical arguments: by kind, then names and arguments. It does not depend on the order of
/// creation, so printed text is read back in the same order. Negative, zero or positive; constants come last.
int compare(Expr a, Expr b);

/// coefficient * product of factors; the factors are sorted by `compare` and none is a constant.
struct Term {
  int64_t coefficient = 1;
  std::vector<Expr> factors;
};

Term multiply(const Term& a, const Term& b);
/// a / b where that leaves no rest.
std::optional<Term> divide(const Term& a, const Term& b);
/// The largest term that divides both; its coefficient is positive.
Term common_factor(const Term& a, const Term& b);
/// a without one factor, which it has.
Term without(const Term& a, Expr factor);

/// terms + constant, sorted, with like terms collected.
struct Polynomial {
  Polynomial() = default;
  explicit Polynomial(int64_t constant) : constant(constant) {}
  explicit Polynomial(const Term& term) { add(term); }
  explicit Polynomial(Expr e) { add(e, 1); }

  void add(const Term& term);
  void add(const Polynomial& other, int64_t scale = 1);
  void add(Expr e, int64_t scale);
  bool is_zero() const { return terms.empty() && constant == 0; }
  bool is_constant() const { return terms.empty(); }
  /// As one term, if it is one (a constant other than 0 is a term without factors).
  std::optional<Term> as_term() const;
  /// The term with the most factors, the first of such.
  const Term& leading() const;
  /// Size of the expression, to see whether a rewrite makes it smaller.
  uint64_t weight() const;

  std::vector<Term> terms;
  int64_t constant = 0;
};

Polynomial multiply(const Polynomial& a, const Term& b);
Polynomial multiply(const Polynomial& a, const Polynomial& b);
Polynomial difference(Expr a, Expr b);

}  // namespace stax::symbolic
