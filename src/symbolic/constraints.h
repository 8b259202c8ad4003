// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is known of the symbols of a program beyond their declarations: equalities (union-find), bounds, multiples,
// and equal products. Facts only ever come from the file's named dims, from the user, and from what an operator's
// semantics state. Queries answer yes, no or unknown; unknown is always treated as dynamic.
#include <vector>

#include "symbolic/expr.h"

namespace stax::symbolic {

class ConstraintSet {
 public:
  void assume_equal(Expr a, Expr b);  // also product equalities: a*b*c == d*e
  void assume_true(Expr condition);   // less / equal / and of such
  Truth equal(Expr a, Expr b) const;  // no only if they differ for every assignment
  Truth less(Expr a, Expr b) const;
  Truth less_equal(Expr a, Expr b) const;
  Truth truth(Expr condition) const;
  Truth divisible(Expr a, int64_t by) const;
  Interval range(Expr e) const;
  Expr simplify(Expr e) const;  // replaces symbols by their class representative, uses ranges
 private:
  friend class ConstraintFacts;
  Expr representative(Expr e) const;  // of a symbol; itself where it stands for itself
  Expr rewrite_products(Expr e, const Facts& facts) const;
  void identify(Expr symbol, Expr with);
  void tighten(Expr e, Interval range);
  void add_multiple(Expr e, int64_t multiple);
  bool propagate_bounds(Expr condition);
  void restate();  // all facts anew, after symbols or ranges have changed
  std::unordered_map<const ExprNode*, Expr> parent_;
  RangeOverrides ranges_;
  std::vector<std::pair<Expr, int64_t>> multiples_;
  std::vector<std::pair<Expr, Expr>>
      products_;              // first == second; where both are products, first is replaced by second
  std::vector<Expr> truths_;  // conditions, most of them less(a, b)
};

}  // namespace stax::symbolic
