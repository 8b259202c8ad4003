// SPDX-License-Identifier: Apache-2.0
#pragma once
// What statements touch: their scalars, their accesses of buffers, and the bounds of index expressions over loops.
#include <functional>
#include <string>
#include <vector>

#include "loop/loop_ir.h"
#include "support/overloaded.h"
#include "symbolic/facts.h"

namespace stax::loop {

/// The scalars that the statement itself evaluates (not those of statements inside it).
void visit_scalars(const StmtNode& statement, const std::function<void(Scalar)>& f);
/// The statement with each of its own scalars replaced by f of it.
Stmt map_scalars(const Stmt& statement, const std::function<Scalar(Scalar)>& f);

bool depends_on(Scalar root, Expr symbol);
bool loads_from(Scalar root, int slot);
/// bool <-> 0 or 1.
Scalar condition_of(ir::Context& context, Expr truth);
/// The Expr of a condition that is known without data, else null.
Expr condition_expr(Scalar condition);
Scalar logical_not(Scalar condition);

struct LoopRange {
  Expr var;
  Expr extent;
};

enum class AccessKind : uint8_t { kLoad, kStore, kUpdate };

struct Access {
  AccessKind kind = AccessKind::kLoad;
  Combiner combiner = Combiner::kSum;  // of an update
  int slot = 0;
  std::vector<Scalar> index;
  std::vector<LoopRange> loops;  // those between the root of the query and the access, outer first
};

/// All accesses in `root`, loads in indices and conditions included.
std::vector<Access> accesses_in(const Stmt& root);
/// Slots that are allocated in `root`, in order of appearance.
std::vector<int> slots_allocated_in(const Stmt& root);
/// Slots written (stored or updated) in `root`, ascending.
std::vector<int> slots_written_in(const Stmt& root);
bool reads_any(Scalar root, const std::vector<int>& slots);

/// The loops around a statement and what follows from them. An analysis: built on the way down, thrown away after.
class LoopScope : private symbolic::Facts {
 public:
  LoopScope() = default;
  explicit LoopScope(const std::vector<LoopRange>& loops) {
    for (const LoopRange& l : loops) push(l.var, l.extent);
  }
  void push(Expr var, Expr extent);
  void pop();
  void push(const std::vector<LoopRange>& loops) {
    for (const LoopRange& l : loops) push(l.var, l.extent);
  }
  /// A condition that holds here (an enclosing If), as 0 / 1.
  void assume(Expr condition, bool holds);
  size_t assumptions() const { return known_.size(); }
  void forget(size_t assumptions) { known_.resize(assumptions); }
  const std::vector<LoopRange>& loops() const { return loops_; }

  /// The largest / least value of `e` over all iterations of the loops from number `first` on, as an expression of what
  /// is outside them; null where nothing is known. All of this is said of places where the loops run: a symbol without
  /// which an extent is 0 is not 0 there.
  Expr upper(Expr e, size_t first = 0) const { return bound(e, first, true); }
  Expr lower(Expr e, size_t first = 0) const { return bound(e, first, false); }
  /// Whether e >= 0 in every iteration; false is "not known".
  bool is_nonnegative(Expr e) const;
  bool is_nonzero(Expr e) const { return nonzero(e) || at_least(e, 1); }
  symbolic::Truth truth(Expr condition) const;
  /// An equal expression, where the ranges of the loops make a simpler one.
  Expr simplify(Expr e) const;

 private:
  symbolic::Interval range(Expr e) const override;
  Expr bound(Expr e, size_t first, bool up) const;
  /// Bounds `e` over one loop; the extents of the others stay.
  Expr bound_over(Expr e, const LoopRange& loop, bool up) const;
  bool prove_further(const symbolic::Polynomial& p, int64_t bound, Search search) const override;
  bool prove_by_rounded_extremum(const symbolic::Polynomial& p, int64_t bound, Search search) const;

  std::vector<LoopRange> loops_;
  std::vector<Expr> above_least_;  // symbols and quotients that are not the least of their range, as the loops run
  std::vector<size_t> above_least_before_;  // for each loop
  std::vector<std::pair<Expr, bool>> known_;
};

/// One term of a sum: coefficient * atom, where all of `coefficient` is invariant and `atom` is not.
struct Term {
  Expr coefficient;
  Expr atom;
};
struct Terms {
  std::vector<Term> varying;
  Expr rest;  // the invariant part
};
/// Splits a sum by what depends on the symbols of `loops`.
Terms terms_of(Expr e, const std::vector<LoopRange>& loops);

}  // namespace stax::loop
