// SPDX-License-Identifier: Apache-2.0
#pragma once
// Carries expressions of a graph over into the context of one kernel.
//
// The kernel's parameters are chosen so that kernels of one meaning get one text: every extent that is not a constant becomes one parameter,
// whatever expression it is in the graph; symbols that are left in index expressions become parameters of their own, and so do choices and
// divisions in functions of the shape (equal(n, 1), a stride that a broadcast makes 0).
#include <unordered_map>
#include <vector>

#include "loop/loop_ir.h"
#include "tensor/graph.h"

namespace stax::lower {

class KernelScope {
 public:
  explicit KernelScope(loop::Kernel& kernel) : kernel_(kernel) { kernel_.context = std::make_shared<ir::Context>(); }

  /// The parameter that stands for a non-constant extent (made at its first appearance), or the constant.
  symbolic::Expr extent(symbolic::Expr e);
  /// Any integer expression: extents seen before and axis variables are replaced whole, other symbols become parameters.
  symbolic::Expr expr(symbolic::Expr e);
  ir::Scalar scalar(ir::Scalar s);
  /// From now on the graph's expression `from` is `to` in the kernel.
  void map(symbolic::Expr from, symbolic::Expr to) { exprs_[from.node()] = to; }
  /// From now on loads and accumulators are made by `f` (with indices already carried over).
  std::function<ir::Scalar(ir::Scalar original, std::vector<ir::Scalar> args)> leaf;

  const std::vector<symbolic::Expr>& param_values() const { return param_values_; }
  ir::ScalarTable& scalars() { return kernel_.context->scalars; }
  symbolic::ExprTable& exprs() { return kernel_.context->exprs; }
  symbolic::Expr constant(int64_t v) { return exprs().constant(v); }

 private:
  symbolic::Expr new_param(symbolic::Expr value, bool is_extent);
  symbolic::Expr sum(symbolic::Expr e);
  loop::Kernel& kernel_;
  std::unordered_map<const symbolic::ExprNode*, symbolic::Expr> exprs_;
  std::unordered_map<const ir::ScalarNode*, ir::Scalar> scalars_;
  std::vector<symbolic::Expr> param_values_;
};

}  // namespace stax::lower
