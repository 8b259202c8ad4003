// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the implementations of the schedule steps share. Each step is one function from Edit to Kernel in
// transform_<verb>.cpp; those of a few lines are in transform.cpp.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "loop/access.h"
#include "loop/transform.h"

namespace stax::loop {

/// A step on its way: the kernel as far as it is changed.
struct Edit {
  Kernel kernel;
  const Step& step;
  mutable std::set<std::string> claimed =
      {};  // names of loops that the step has made, but that are not in the kernel yet

  /// Throws IllegalTransform with the step, the loop or buffer, and the rule.
  [[noreturn]] void fail(const std::string& subject, const std::string& reason) const;

  ir::Context& context() const { return *kernel.context; }
  const std::string& word(size_t i) const { return step.words[i]; }
  int64_t number(size_t i, int64_t least, int64_t most) const;
  int slot(size_t i) const;
  /// The kernel's parameter of that name, which is at least 1.
  Expr parameter(size_t i) const;

  /// The variable of the loops that are called so: by the variable's full name, or by the name without the number that
  /// keeps symbols of one table apart. One variable may belong to several loops, one after the other.
  Expr loop(const std::string& name) const;
  /// Makes a loop variable; the name must be new in the kernel.
  Expr new_loop(const std::string& name, Expr extent) const;
  /// Claims `name`, with `suffix` after it as often as it takes to be new.
  std::string fresh_name(std::string name, const std::string& suffix) const;
  /// Makes a loop variable for a nest that the step adds.
  Expr fresh_loop(const std::string& name, Expr extent) const;
  /// Makes a local buffer and returns its slot.
  int new_local(std::string name, DType dtype, std::vector<Expr> extents);

  /// Replaces each loop of `var` by f of it and of the loops around it.
  void replace_loops(Expr var, const std::function<Stmt(const For&, const LoopScope&)>& f);
  /// The extent of the loops of `var`; it must be one.
  Expr common_extent(Expr var) const;
  void require_kind(const For& loop, LoopKind kind) const;
};

/// All names of loops in the kernel, as schedules call them.
std::set<std::string> loop_names(const Stmt& root);

/// Copies nests within one step: variables of loops inside get the suffix "_t" (as often as it takes to be new), local
/// buffers that are allocated inside get slots of their own.
class NestCopier {
 public:
  explicit NestCopier(Edit& edit) : edit_(edit) {}
  Stmt copy(const Stmt& nest);

 private:
  Edit& edit_;
  std::unordered_map<const symbolic::ExprNode*, Expr> variables_;
  std::unordered_map<int, int> slots_;
};

/// The tree with each access of slot `from` put through f.
Stmt map_accesses(const Stmt& root, int slot, int new_slot,
                  const std::function<std::vector<Scalar>(const std::vector<Scalar>&)>& index);

/// The box that all accesses of a slot inside `root` lie in: of each dimension the least and greatest index over the
/// loops inside `root`, as expressions of what is outside. Nullopt if one is not known without data or has no bounds.
struct Footprint {
  std::vector<Expr> low, high;
};
std::optional<Footprint> footprint_of(const Stmt& root, int slot, const LoopScope& outer);

/// max(extent, 0), where it may be negative.
Expr trip_count(Expr extent);
/// A bound of `extent` that depends on parameters only, for the axis of a local buffer: the upper bound where it is a
/// small constant, else the extent, or its upper bound over the loops. Null where there is none.
Expr local_extent(Expr extent, const LoopScope& outer);

Kernel split(Edit edit);
Kernel interchange(Edit edit);
Kernel fuse(Edit edit);
Kernel tile(Edit edit);
Kernel sink(Edit edit);
Kernel unroll(Edit edit);
Kernel vectorize(Edit edit);
Kernel parallelize(Edit edit);
Kernel spread_over_threads(Edit edit);
Kernel spread_over_warps(Edit edit);
Kernel matrix(Edit edit);
Kernel pipeline(Edit edit);
Kernel stage(Edit edit);
Kernel cache(Edit edit);
Kernel compute_at(Edit edit);
Kernel double_buffer(Edit edit);
Kernel split_reduction(Edit edit);
Kernel split_scan(Edit edit);
Kernel align(Edit edit);
Kernel phase_reduction(Edit edit);
Kernel phase_scan(Edit edit);
Kernel prefetch(Edit edit);
Kernel skip(Edit edit);
Kernel hint(Edit edit);

}  // namespace stax::loop
