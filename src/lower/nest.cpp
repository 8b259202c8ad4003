// SPDX-License-Identifier: Apache-2.0
#include "lower/nest.h"

#include "support/error.h"

namespace stax::lower {

using ir::DType;
using loop::Stmt;
using symbolic::Expr;
using tensor::Axis;

Stmt Loops::around(Stmt body) const {
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) {
    loop::For f = *it;
    f.body = body;
    body = loop::make(std::move(f));
  }
  return body;
}

Loops make_loops(KernelScope& scope, loop::Kernel& kernel, const std::vector<Axis>& axes, const char* prefix) {
  Loops result;
  for (size_t k = 0; k < axes.size(); ++k) {
    Expr extent = scope.extent(axes[k].extent);
    Expr var = loop::loop_var(*kernel.context, prefix + std::to_string(k), extent);
    scope.map(axes[k].var, var);
    result.loops.push_back({var, extent, loop::LoopKind::kSerial, 0, {}});
  }
  return result;
}

int add_buffer(loop::Kernel& kernel, KernelScope& scope, const std::string& name, DType dtype,
               const std::vector<Expr>& extents, bool written) {
  loop::Buffer b;
  b.name = name;
  b.dtype = dtype;
  for (Expr e : extents) b.extents.push_back(scope.extent(e));
  b.written = written;
  kernel.buffers.push_back(std::move(b));
  return static_cast<int>(kernel.buffers.size()) - 1;
}

Expr count_of(tensor::Graph& graph, const std::vector<tensor::Axis>& axes) {
  Expr n = graph.exprs().constant(1);
  for (const tensor::Axis& a : axes) n = n * a.extent;
  return n;
}

Expr operations_of(tensor::Graph& graph, const tensor::Compute& c) {
  const Expr points = count_of(graph, c.axes);
  const int64_t each = static_cast<int64_t>(ir::operation_count(c.body)) + (c.reductions.empty() ? 0 : 1);
  const int64_t last = c.epilogue ? static_cast<int64_t>(ir::operation_count(c.epilogue)) : 0;
  return points * count_of(graph, c.reductions) * each + points * last;
}

}  // namespace stax::lower
