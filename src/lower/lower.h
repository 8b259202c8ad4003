// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor IR -> loop IR: the only code that sees both. Each lowering gives naive nests, exactly as the op's semantics read; making them
// fast is the scheduler's work.
#include <vector>

#include "loop/loop_ir.h"
#include "tensor/graph.h"

namespace stax::lower {

/// A kernel in a context of its own, so that kernels of one meaning have one text wherever they come from.
struct LoweredKernel {
  loop::Kernel kernel;
  /// Value of each kernel parameter as an expression over the graph's symbols.
  std::vector<symbolic::Expr> param_values;
  /// What each argument is: an operand of the op (>= 0), or a result (~k for result k).
  std::vector<int> arguments;
  /// About how many scalar operations the kernel does, and the number of elements it writes; over the graph's symbols.
  symbolic::Expr work;
  symbolic::Expr written;
  /// How many scalar operations it has to do: those of its definition, a multiplication and an addition counting two, an elementary function one.
  symbolic::Expr operations;
};

/// Whether adjacent axes that every operand walks alike are merged first (collapse_axes.cpp), so that the loops are few and long. Apart, they mean
/// the same: that is how bisect tells which of both is wrong.
enum class Axes : uint8_t { kMerged, kApart };

/// Compute -> one kernel.
LoweredKernel lower_compute(const tensor::Op& op, Axes axes = Axes::kMerged);

/// RowGroup -> one kernel of several passes over each row (row_group.cpp).
LoweredKernel lower_row_group(const tensor::Op& op, Axes axes = Axes::kMerged);

/// Scatter -> one serial kernel that works in place on result 0 (which holds a copy of operand 0 already).
LoweredKernel lower_scatter(const tensor::Op& op);

/// PrefixScan -> one kernel: serial along the axis, parallel over the others.
LoweredKernel lower_prefix_scan(const tensor::Op& op);

/// A Compute whose adjacent axes are merged where each operand has them adjacent and whole (or not at all). The operands' extents in the new
/// view come with it.
struct CollapsedCompute {
  tensor::Compute compute;
  std::vector<std::vector<symbolic::Expr>> operand_extents;
};
CollapsedCompute collapse_axes(const tensor::Op& op, Axes axes = Axes::kMerged);

/// The same for a RowGroup, whose ops have to agree on what is merged. Values are numbered: first the operands, then the results of the body's
/// ops in order; loads are of these numbers.
struct CollapsedRows {
  std::vector<tensor::Axis> rows;
  std::vector<tensor::Compute> computes;
  std::vector<std::vector<symbolic::Expr>> extents;  // of each value
  std::vector<ir::DType> dtypes;
  std::vector<int> outputs;  // which values are results of the group
};
CollapsedRows collapse_axes_of_rows(const tensor::Op& op, Axes axes = Axes::kMerged);

}  // namespace stax::lower
