// SPDX-License-Identifier: Apache-2.0
#pragma once
// The constructors of canonical nodes. Only symbolic/ includes this; everyone else writes a + b.
//
// A node is built bottom-up from canonical arguments, so each rule looks at one node. The canonical form is
//   sum         terms sorted by `compare`, like terms collected, the constant last
//   product     factors sorted by `compare`, the coefficient last; products of sums are multiplied out while they have at
//               most kMaxDistributedTerms terms, a constant times a sum always
//   less        both sides have positive coefficients, no term stands on both, the greatest common divisor is taken out
//   min, max    flat, sorted, without arguments that another one bounds
// Rules are numbered where they stand; S sums and products, D floordiv, M mod, L less and equal, E min and max, C select.
// Each holds for all integers (x / 0 = 0 included) that meet its guard; a guard is proved from `Facts` or the rule rests.
// Every rule makes the expression smaller or moves it towards the canonical form, so simplification ends.
#include "symbolic/facts.h"
#include "symbolic/polynomial.h"
#include "symbolic/table.h"

namespace stax::symbolic {

inline constexpr size_t kMaxDistributedTerms = 8;

class Simplifier {
 public:
  Simplifier(ExprStore& store, const Facts& facts) : store_(store), facts_(facts) {}

  Expr make(ExprKind kind, std::vector<Expr> args);

  // simplify.cpp
  Expr sum(Polynomial p);
  Expr product(const std::vector<Expr>& args);
  Expr add(Expr a, Expr b);
  Expr negate(Expr a);
  // simplify_division.cpp
  Expr floordiv(Expr a, Expr b);
  Expr mod(Expr a, Expr b);
  // simplify_logic.cpp
  Expr extremum(ExprKind kind, const std::vector<Expr>& args);
  Expr less(Expr a, Expr b);
  Expr equal(Expr a, Expr b);
  Expr select(Expr condition, Expr a, Expr b);

 private:
  Expr constant(int64_t value) { return store_.constant(value); }
  /// Interns; a node whose range is one value is that value.
  Expr finish(ExprKind kind, std::vector<Expr> args, Interval known = {});
  /// A product as it is, and one that may have to be multiplied out.
  Expr monomial(const Term& term);
  Expr product_of(const Term& term);
  bool recombine_division(Polynomial& p);
  bool is_boolean(Expr e) const;

  Polynomial extract_multiples(Polynomial& a, const Polynomial& b);
  void extract_constant_multiples(Polynomial& a, int64_t b, Polynomial& quotient);
  struct Factored {
    Polynomial x, y, r;  // a = factor * x + r, b = factor * y, and r = 0 or 0 <= r < factor
    Term factor;
  };
  std::optional<Factored> take_out_factor(const Polynomial& a, const Polynomial& b) const;
  bool strip_inner_mods(Polynomial& a, const Polynomial& b) const;

  ExprStore& store_;
  const Facts& facts_;
};

}  // namespace stax::symbolic
