// SPDX-License-Identifier: Apache-2.0
// Layouts of contraction operands.
//
// The results of a contraction are computed side by side along its vector axis (classify.cpp chooses it), which takes
// neighbours from one operand. Where they are not adjacent there, the operand is laid out anew by a transposing
// Compute. For weights that is done once, at compile time; for activations it costs one pass over the operand, which
// pays where every element is used by many rows.
#include <algorithm>

#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

/// Rows that use each element of the vector operand, if they are known to be few.
bool has_few_rows(const Compute& c, const Contraction& r) {
  constexpr int64_t kFewRows = 4;
  int64_t rows = 1;
  for (int d : r.m_axes) {
    if (!c.axes[d].extent.is_constant()) return false;
    rows *= std::max<int64_t>(c.axes[d].extent.constant(), 1);
    if (rows > kFewRows) return false;
  }
  return true;
}

/// `v` with axis `axis` moved last.
Value* insert_transpose(Graph& graph, Op& before, Value* v, int axis) {
  const int rank = v->type.static_rank();
  std::vector<int> order;
  for (int k = 0; k < rank; ++k) {
    if (k != axis) order.push_back(k);
  }
  order.push_back(axis);
  Compute c;
  std::vector<Scalar> indices(rank);
  std::vector<Expr> extents;
  for (int k = 0; k < rank; ++k) {
    const Expr extent = v->type.extents[order[k]];
    c.axes.push_back({graph.axis_var(k, extent, false), extent});
    extents.push_back(extent);
    indices[order[k]] = graph.scalars().index(c.axes[k].var);
  }
  c.body = graph.scalars().load(0, v->type.dtype, indices);
  Op* op = graph.add_op(*before.block, std::move(c), {v}, {Type::tensor(v->type.dtype, extents)}, {}, before.source,
                        &before);
  op->result()->name = v->name.empty() ? "" : v->name + ".transposed";
  return op->result();
}

/// Makes index `axis` of `load` its last one.
void move_last(Graph& graph, Op& op, Scalar load, int axis) {
  const int slot = slot_of(op, insert_transpose(graph, op, op.operands[load->slot], axis));
  rewrite_scalars(op, [&](Scalar root) {
    return ir::rewrite(root, {}, [&](Scalar x) {
      if (x != load) return x;
      std::vector<Scalar> indices = x->args;
      std::rotate(indices.begin() + axis, indices.begin() + axis + 1, indices.end());
      return x->table->load(slot, x->dtype, indices);
    });
  });
  compact_operands(op);
}

/// The index of the rows' operand that is its widest axis of known extent, bare; -1 where there is none.
int widest_row_index(const Compute& c, const Contraction& r) {
  constexpr int64_t kFewest = 16;
  const Scalar load = r.row_load();
  int64_t widest = kFewest - 1;
  int found = -1;
  for (int d : r.m_axes) {
    if (!c.axes[d].extent.is_constant() || c.axes[d].extent.constant() <= widest) continue;
    for (size_t k = 0; k < load->args.size(); ++k) {
      if (ir::as_expr(load->args[k]) != c.axes[d].var) continue;
      widest = c.axes[d].extent.constant();
      found = static_cast<int>(k);
    }
  }
  return found;
}

bool assign_layout(Graph& graph, Op& op) {
  const Compute& c = *op.as<Compute>();
  if (byte_dot_of(c)) return false;  // pack_weights has an order of its own for these
  const Classification found = classify(c);
  if (found.kind != ComputeClass::kContraction) return false;
  const Contraction& r = found.contraction;
  if (r.vector_axis < 0) return false;
  if (r.contiguous) {
    // Weights that are spread over the lanes can take their place where lanes along the other operand would be few.
    const Scalar rows = r.row_load();
    const int axis = widest_row_index(c, r);
    if (axis < 0 || axis + 1 == static_cast<int>(rows->args.size()) || !is_constant(op.operands[rows->slot]))
      return false;
    move_last(graph, op, rows, axis);
    return true;
  }
  const Scalar load = r.vector_load();
  const Value* v = op.operands[load->slot];
  if (!v->type.has_static_rank() || (!is_constant(v) && has_few_rows(c, r))) return false;
  move_last(graph, op, load, r.vector_index);
  return true;
}

bool assign_layouts_in(Graph& graph, Block& block) {
  bool changed = false;
  for (const auto& op : block.ops) {  // what is inserted goes before the op at hand
    if (If* branch = op->as<If>()) {
      changed |= assign_layouts_in(graph, *branch->then_block);
      changed |= assign_layouts_in(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= assign_layouts_in(graph, *loop->body);
    } else if (op->kind() == OpKind::kCompute) {
      changed |= assign_layout(graph, *op);
    }
  }
  return changed;
}

}  // namespace

bool assign_layouts(Graph& graph) { return assign_layouts_in(graph, graph.body); }

}  // namespace stax::tensor
