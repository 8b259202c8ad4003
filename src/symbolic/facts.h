// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the simplifier may rely on. The base class knows the declarations of the symbols; a ConstraintSet adds its own.
//
// Proofs are of the form "this sum is at least that constant": by interval arithmetic; where that is too weak because
// terms depend on each other (n - min(n, 8), n - floordiv(n, 2)), by replacing a term by what bounds it. The search is
// small and gives up: a failed proof says nothing.
#include "symbolic/expr.h"
#include "symbolic/polynomial.h"

namespace stax::symbolic {

class Facts {
 public:
  virtual ~Facts() = default;
  virtual Interval range(Expr e) const { return e.range(); }
  virtual int64_t multiple(Expr e) const { return e.multiple(); }

  Interval range(const Polynomial& p) const;
  bool at_least(const Polynomial& p, int64_t bound) const;
  bool at_least(Expr e, int64_t bound) const;
  bool less_equal(Expr a, Expr b) const;
  bool nonzero(Expr e) const;
  /// 0 <= a < b: `a` is a digit in base `b`.
  bool is_digit(const Polynomial& a, const Polynomial& b) const;

 protected:
  /// What a proof may cost.
  struct Effort {
    int depth = 3;
    int steps = 48;
  };
  virtual Effort effort() const { return {}; }
  struct Search {
    int depth;
    int* steps;
  };
  bool prove(const Polynomial& p, int64_t bound, Search search) const;
  /// Tried last.
  virtual bool prove_further(const Polynomial&, int64_t, Search) const { return false; }

 private:
  bool prove_by_term(const Polynomial& p, int64_t bound, const Term& term, Search search) const;
  bool prove_by_common_factor(const Polynomial& p, int64_t bound, Search search) const;
};

/// The facts of the declarations alone.
const Facts& declared_facts();

}  // namespace stax::symbolic
