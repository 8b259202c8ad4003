// SPDX-License-Identifier: Apache-2.0
// Merging of adjacent axes.
//
// [batch, length, 768] + [768] has three axes, but both operands walk batch and length alike, so [batch * length, 768] says the same with
// longer loops. Two adjacent axes a, b (b the inner one, of extent m) merge into f = a * m + b where
//   - every load has either both, as neighbouring bare indices [.., a, b, ..] with the operand's extent at b equal to m, or neither;
//   - neither variable appears anywhere else in the body.
// As the result is row-major and contiguous it always allows the merge. The same rule merges neighbouring reduction axes.
#include <algorithm>

#include "lower/lower.h"

namespace stax::lower {
namespace {

using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;
using tensor::Axis;

struct State {
  tensor::Compute compute;
  std::vector<std::vector<Expr>> operand_extents;
};

std::vector<Scalar> nodes_of(const tensor::Compute& c) {
  std::vector<Scalar> nodes;
  auto add = [&](Scalar s) { nodes.push_back(s); };
  if (c.body) ir::visit(c.body, add);
  if (c.epilogue) ir::visit(c.epilogue, add);
  return nodes;
}

// Position of the bare variable `var` among a load's indices, -1 if absent, -2 if it appears in any other way.
int bare_position(Scalar load, Expr var) {
  int position = -1;
  for (size_t k = 0; k < load->args.size(); ++k) {
    Expr e = ir::as_expr(load->args[k]);
    if (e && e == var) {
      if (position != -1) return -2;
      position = static_cast<int>(k);
    } else {
      bool inside = false;
      ir::visit(load->args[k], [&](Scalar s) {
        if (s->kind == ScalarKind::kIndex && symbolic::depends_on(s->index, var)) inside = true;
      });
      if (inside) return -2;
    }
  }
  return position;
}

// Whether axes a, b may merge; fills, for each operand slot, the position of `a` in its loads (or -1).
bool may_merge(const State& s, const Axis& a, const Axis& b, std::vector<int>& positions) {
  positions.assign(s.operand_extents.size(), -3);
  for (Scalar node : nodes_of(s.compute)) {
    if (node->kind == ScalarKind::kLoad) {
      int pa = bare_position(node, a.var), pb = bare_position(node, b.var);
      if (pa == -2 || pb == -2) return false;
      if ((pa < 0) != (pb < 0)) return false;
      if (pa >= 0 && (pb != pa + 1 || s.operand_extents[node->slot][pb] != b.extent ||
                      s.operand_extents[node->slot][pa] != a.extent))
        return false;
      int& known = positions[node->slot];
      if (known == -3)
        known = pa;
      else if (known != pa)
        return false;  // one operand walked in two ways keeps its view
    }
  }
  // Any use outside of a load's bare index forbids the merge; indices inside loads were seen above.
  for (Scalar node : nodes_of(s.compute)) {
    if (node->kind != ScalarKind::kIndex) continue;
    if (node->index == a.var || node->index == b.var) continue;  // judged where it is used, below
    if (symbolic::depends_on(node->index, a.var) || symbolic::depends_on(node->index, b.var)) return false;
  }
  for (Scalar node : nodes_of(s.compute)) {
    if (node->kind == ScalarKind::kLoad) continue;
    for (Scalar arg : node->args)
      if (arg->kind == ScalarKind::kIndex && (arg->index == a.var || arg->index == b.var)) return false;
  }
  for (Scalar root : {s.compute.body, s.compute.epilogue})
    if (root && root->kind == ScalarKind::kIndex && (root->index == a.var || root->index == b.var)) return false;
  return true;
}

Scalar rewrite_loads(Scalar root, const Axis& a, Expr merged, const std::vector<int>& positions) {
  if (!root) return root;
  return ir::rewrite(root, {}, [&](Scalar node) -> Scalar {
    if (node->kind != ScalarKind::kLoad || positions[node->slot] < 0) return node;
    std::vector<Scalar> indices = node->args;
    int at = positions[node->slot];
    (void)a;
    indices[at] = node->table->index(merged);
    indices.erase(indices.begin() + at + 1);
    return node->table->load(node->slot, node->dtype, std::move(indices));
  });
}

void merge(State& s, std::vector<Axis>& axes, size_t at, const std::vector<int>& positions, tensor::Graph& graph,
           bool reduction) {
  Axis a = axes[at], b = axes[at + 1];
  Expr extent = a.extent * b.extent;
  Expr var = graph.axis_var(static_cast<int>(at) + 64, extent,
                            reduction);  // positions from 64 on never clash with those of plain axes
  s.compute.body = rewrite_loads(s.compute.body, a, var, positions);
  s.compute.epilogue = rewrite_loads(s.compute.epilogue, a, var, positions);
  for (size_t slot = 0; slot < positions.size(); ++slot) {
    if (positions[slot] < 0) continue;
    auto& extents = s.operand_extents[slot];
    extents[positions[slot]] = extent;
    extents.erase(extents.begin() + positions[slot] + 1);
  }
  axes[at] = {var, extent};
  axes.erase(axes.begin() + static_cast<long>(at) + 1);
}

}  // namespace

CollapsedCompute collapse_axes(const tensor::Op& op) {
  State s{*op.as<tensor::Compute>(), {}};
  tensor::Graph& graph = *op.block->graph;
  for (tensor::Value* v : op.operands) s.operand_extents.push_back(v->type.extents);
  // An axis of extent 1 is no axis.
  symbolic::Substitution ones;
  auto drop_ones = [&](std::vector<Axis>& axes) {
    std::erase_if(axes, [&](const Axis& a) {
      if (!a.extent.is_constant(1)) return false;
      ones[a.var.node()] = graph.exprs().constant(0);
      return true;
    });
  };
  drop_ones(s.compute.axes);
  if (!tensor::is_arg(s.compute.combiner)) drop_ones(s.compute.reductions);
  if (!ones.empty()) {
    if (s.compute.body) s.compute.body = ir::substitute(s.compute.body, ones);
    if (s.compute.epilogue) s.compute.epilogue = ir::substitute(s.compute.epilogue, ones);
  }
  // An operand's extent of 1, always read at 0, is no axis of it either: [1, n] and [n] are one view.
  std::vector<std::vector<bool>> removable(s.operand_extents.size());
  for (size_t k = 0; k < removable.size(); ++k)
    for (Expr e : s.operand_extents[k]) removable[k].push_back(e.is_constant(1));
  for (Scalar node : nodes_of(s.compute)) {
    if (node->kind != ScalarKind::kLoad) continue;
    for (size_t k = 0; k < node->args.size(); ++k) {
      Expr e = ir::as_expr(node->args[k]);
      if (!e || !e.is_constant(0)) removable[node->slot][k] = false;
    }
  }
  auto shrink = [&](Scalar root) -> Scalar {
    if (!root) return root;
    return ir::rewrite(root, {}, [&](Scalar node) -> Scalar {
      if (node->kind != ScalarKind::kLoad) return node;
      std::vector<Scalar> kept;
      for (size_t k = 0; k < node->args.size(); ++k)
        if (!removable[node->slot][k]) kept.push_back(node->args[k]);
      if (kept.size() == node->args.size()) return node;
      return node->table->load(node->slot, node->dtype, std::move(kept));
    });
  };
  s.compute.body = shrink(s.compute.body);
  s.compute.epilogue = shrink(s.compute.epilogue);
  for (size_t k = 0; k < removable.size(); ++k) {
    std::vector<Expr> kept;
    for (size_t d = 0; d < removable[k].size(); ++d)
      if (!removable[k][d]) kept.push_back(s.operand_extents[k][d]);
    s.operand_extents[k] = kept;
  }
  std::vector<int> positions;
  auto collapse = [&](std::vector<Axis>& axes, bool reduction) {
    for (size_t at = 0; at + 1 < axes.size();) {
      if (may_merge(s, axes[at], axes[at + 1], positions))
        merge(s, axes, at, positions, graph, reduction);
      else
        ++at;
    }
  };
  collapse(s.compute.axes, false);
  if (!tensor::is_arg(s.compute.combiner)) collapse(s.compute.reductions, true);
  return {std::move(s.compute), std::move(s.operand_extents)};
}

}  // namespace stax::lower
