// SPDX-License-Identifier: Apache-2.0
// Weights of contractions, packed for the kernel that reads them.
//
// A contraction keeps a tile of results in registers whose columns are neighbours along one axis n, and walks the weights [k.., n] row by row, a tile's
// columns at a time. With wide weights each of those rows lies on a page of its own, and the walk is bound by address translation instead of arithmetic.
// Packed as [n / kColumns, k.., kColumns], the walk is sequential. The last panel is filled up with zeros, so that the loads need no masks.
// Done once, at compile time (the packing Compute is folded), and for constants only.
//
// Dot products of bytes take a group of kByteGroup rows at a time, four bytes of a column in a lane: [n / kColumns, k.., rows / 4, kColumns, 4].
// There is no other form in which the machine could read them, so what is not constant is packed at run time.
#include <algorithm>

#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

constexpr int64_t kColumns = kPackedColumns;

/// `v` of extents [k.., n] as [ceil(n / kColumns), k.., kColumns].
Value* insert_packing(Graph& graph, Op& before, Value* v) {
  const int rank = v->type.static_rank();
  const Expr n = v->type.extents.back();
  std::vector<Expr> extents{symbolic::ceildiv(n, kColumns)};
  extents.insert(extents.end(), v->type.extents.begin(), v->type.extents.end() - 1);
  extents.push_back(graph.exprs().constant(kColumns));
  Compute c;
  for (int k = 0; k <= rank; ++k) c.axes.push_back({graph.axis_var(k, extents[k], false), extents[k]});
  const Expr column = c.axes.front().var * kColumns + c.axes.back().var;
  std::vector<Scalar> indices;
  for (int k = 1; k < rank; ++k) indices.push_back(graph.scalars().index(c.axes[k].var));
  indices.push_back(graph.scalars().index(column));
  const Scalar element = graph.scalars().load(0, v->type.dtype, indices);
  const Scalar inside = graph.scalars().cast(DType::kBool, graph.scalars().index(symbolic::less(column, n)));
  c.body = ir::select(inside, element, graph.scalars().constant_int(v->type.dtype, 0));
  Op* op = graph.add_op(*before.block, std::move(c), {v}, {Type::tensor(v->type.dtype, extents)}, {}, before.source,
                        &before);
  op->result()->name = v->name.empty() ? "" : v->name + ".packed";
  return op->result();
}

/// `v` with index `column` and index `group` of a dot product taken out: [ceil(n / kColumns), the others.., ceil(k / 4), kColumns, 4].
Value* insert_byte_packing(Graph& graph, Op& before, Value* v, int column, int group) {
  const std::vector<Expr>& from = v->type.extents;
  std::vector<Expr> extents{symbolic::ceildiv(from[column], kColumns)};
  std::vector<int> others;
  for (int k = 0; k < v->type.static_rank(); ++k) {
    if (k == column || k == group) continue;
    others.push_back(k);
    extents.push_back(from[k]);
  }
  extents.push_back(symbolic::ceildiv(from[group], kByteGroup));
  extents.push_back(graph.exprs().constant(kColumns));
  extents.push_back(graph.exprs().constant(kByteGroup));
  Compute c;
  for (size_t k = 0; k < extents.size(); ++k)
    c.axes.push_back({graph.axis_var(static_cast<int>(k), extents[k], false), extents[k]});
  const size_t last = extents.size() - 1;
  const Expr n = c.axes.front().var * kColumns + c.axes[last - 1].var,
             k = c.axes[last - 2].var * kByteGroup + c.axes[last].var;
  std::vector<Scalar> indices(from.size());
  for (size_t o = 0; o < others.size(); ++o) indices[others[o]] = graph.scalars().index(c.axes[o + 1].var);
  indices[column] = graph.scalars().index(n);
  indices[group] = graph.scalars().index(k);
  const Expr inside = symbolic::logical_and(symbolic::less(n, from[column]), symbolic::less(k, from[group]));
  c.body = ir::select(graph.scalars().cast(DType::kBool, graph.scalars().index(inside)),
                      graph.scalars().load(0, v->type.dtype, indices), graph.scalars().constant_int(v->type.dtype, 0));
  Op* op = graph.add_op(*before.block, std::move(c), {v}, {Type::tensor(v->type.dtype, extents)}, {}, before.source,
                        &before);
  op->result()->name = v->name.empty() ? "" : v->name + ".packed";
  return op->result();
}

/// Makes `load` one of operand `slot`, at other indices.
void replace_load(Op& op, Scalar load, int slot, const std::vector<Scalar>& indices) {
  rewrite_scalars(op, [&](Scalar root) {
    return ir::rewrite(root, {}, [&](Scalar x) { return x == load ? x->table->load(slot, x->dtype, indices) : x; });
  });
  compact_operands(op);
}

void pack_bytes(Graph& graph, Op& op, const ByteDot& dot) {
  const Compute& c = *op.as<Compute>();
  const Expr column = c.axes[dot.column_axis].var, group = c.reductions[dot.group].var;
  const Scalar load = dot.columns;
  const int slot =
      slot_of(op, insert_byte_packing(graph, op, op.operands[load->slot], dot.column_index, dot.column_group));
  ir::ScalarTable& t = graph.scalars();
  std::vector<Scalar> indices{t.index(symbolic::floordiv(column, kColumns))};
  for (int k = 0; k < static_cast<int>(load->args.size()); ++k)
    if (k != dot.column_index && k != dot.column_group) indices.push_back(load->args[k]);
  indices.push_back(t.index(symbolic::floordiv(group, kByteGroup)));
  indices.push_back(t.index(symbolic::mod(column, kColumns)));
  indices.push_back(t.index(symbolic::mod(group, kByteGroup)));
  replace_load(op, load, slot, indices);
}

/// Packs a constant operand along the axis that is its last index.
bool pack_panels(Graph& graph, Op& op, Scalar load) {
  const Compute& c = *op.as<Compute>();
  Value* v = op.operands[load->slot];
  if (!is_constant(v) || load->args.empty()) return false;
  const Expr var = ir::as_expr(load->args.back());
  const auto axis = std::find_if(c.axes.begin(), c.axes.end(), [&](const Axis& a) { return a.var == var; });
  if (axis == c.axes.end()) return false;
  const Expr n = axis->extent;
  if (!n.is_constant() || n.constant() < kColumns / 2 || v->type.extents.back() != n) return false;
  for (size_t k = 0; k + 1 < load->args.size(); ++k) {
    bool moves = false;
    ir::visit(load->args[k],
              [&](Scalar x) { moves |= x->kind == ir::ScalarKind::kIndex && symbolic::depends_on(x->index, var); });
    if (moves) return false;
  }
  const int slot = slot_of(op, insert_packing(graph, op, v));
  std::vector<Scalar> indices = load->args;
  indices.back() = graph.scalars().index(symbolic::mod(var, kColumns));
  indices.insert(indices.begin(), graph.scalars().index(symbolic::floordiv(var, kColumns)));
  replace_load(op, load, slot, indices);
  return true;
}

bool pack(Graph& graph, Op& op) {
  const Compute& c = *op.as<Compute>();
  if (const auto dot = byte_dot_of(c)) {
    pack_bytes(graph, op, *dot);
    return true;
  }
  const Classification found = classify(c);
  if (found.kind != ComputeClass::kContraction) return false;
  const Contraction& r = found.contraction;
  if (r.vector_axis < 0 || !r.contiguous) return false;
  return pack_panels(graph, op, r.vector_load()) || pack_panels(graph, op, r.row_load());
}

bool pack_in(Graph& graph, Block& block) {
  bool changed = false;
  for (const auto& op : block.ops) {
    if (If* branch = op->as<If>()) {
      changed |= pack_in(graph, *branch->then_block);
      changed |= pack_in(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= pack_in(graph, *loop->body);
    } else if (op->kind() == OpKind::kCompute) {
      changed |= pack(graph, *op);
    }
  }
  return changed;
}

}  // namespace

bool pack_weights(Graph& graph) { return pack_in(graph, graph.body); }

}  // namespace stax::tensor
