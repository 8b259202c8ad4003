// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the lowerings make their nests of.
#include "lower/kernel_scope.h"

namespace stax::lower {

/// The loops of a nest, outermost first.
struct Loops {
  std::vector<loop::For> loops;
  loop::Stmt around(loop::Stmt body) const;
};

/// One serial loop for each axis, called prefix0, prefix1, ..; the axes' variables become theirs.
Loops make_loops(KernelScope& scope, loop::Kernel& kernel, const std::vector<tensor::Axis>& axes, const char* prefix);

/// Adds a global buffer and returns its slot.
int add_buffer(loop::Kernel& kernel, KernelScope& scope, const std::string& name, ir::DType dtype,
               const std::vector<symbolic::Expr>& extents, bool written);

/// The number of points of axes.
symbolic::Expr count_of(tensor::Graph& graph, const std::vector<tensor::Axis>& axes);
/// The scalar operations of a definition: those of the body and one of the combiner for each point, those of the epilogue for each result.
symbolic::Expr operations_of(tensor::Graph& graph, const tensor::Compute& c);

}  // namespace stax::lower
