// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using symbolic::Truth;

namespace {

class Canonicalizer {
 public:
  explicit Canonicalizer(Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (auto at = block.ops.begin(); at != block.ops.end();) {
      Op& op = **at++;  // `op` may be erased
      if (If* branch = op.as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
      } else if (Loop* loop = op.as<Loop>()) {
        changed |= run(*loop->body);
      } else if (op.kind() == OpKind::kReshape) {
        changed |= shorten_reshape(op);
      } else if (op.kind() == OpKind::kCompute) {
        changed |= simplify_body(op);
        changed |= compact_operands(op);
        changed |= remove_copy(op) || make_reshape(op);
      } else if (op.kind() == OpKind::kScatter) {
        changed |= compact_operands(op);
      }
    }
    return changed;
  }

 private:
  /// Where a value goes that only stands for another one. A block's output stays a value of its own if the other is an
  /// input or constant or an output itself: its reader owns the memory.
  bool forward(Op& op, Value* to) {
    Value* from = op.result();
    const std::vector<Value*>& outputs = op.block->outputs;
    const auto is_output = [&](const Value* v) {
      return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
    };
    const bool is_fixed =
        to->producer == nullptr || to->producer->kind() == OpKind::kConstant || to->producer->block != op.block;
    if (is_output(from) && (is_fixed || is_output(to))) return false;
    // Contents belong to a value of known count, which only `from` may be.
    const bool countable =
        std::all_of(to->type.extents.begin(), to->type.extents.end(), [](Expr e) { return e.is_constant(); });
    if (!to->contents && countable) to->contents = from->contents;
    replace_all_uses(graph_, from, to);
    erase_op(op);
    return true;
  }

  bool same_type(const Value* a, const Value* b) const {
    return a->type.dtype == b->type.dtype && a->type.rank == b->type.rank &&
           same_extents(graph_, a->type.extents, b->type.extents);
  }

  bool shorten_reshape(Op& op) {
    bool changed = false;
    Op* below = op.operands[0]->producer;
    while (below != nullptr && below->kind() == OpKind::kReshape) {
      op.operands[0] = below->operands[0];
      below = op.operands[0]->producer;
      changed = true;
    }
    if (same_type(op.operands[0], op.result())) changed |= forward(op, op.operands[0]);
    return changed;
  }

  /// A map that is one load and nothing else.
  static Scalar plain_load(const Op& op) {
    const Compute& c = *op.as<Compute>();
    if (c.combiner != Combiner::kNone || c.body->kind != ScalarKind::kLoad) return {};
    for (Scalar a : c.body->args) {
      if (!ir::as_expr(a)) return {};
    }
    return c.body;
  }

  bool remove_copy(Op& op) {
    const Scalar load = plain_load(op);
    if (!load) return false;
    const Compute& c = *op.as<Compute>();
    Value* from = op.operands[load->slot];
    if (load->args.size() != c.axes.size() || !same_type(from, op.result())) return false;
    for (size_t k = 0; k < c.axes.size(); ++k) {
      const Expr e = ir::as_expr(load->args[k]);
      if (e != c.axes[k].var && !(c.axes[k].extent.is_constant(1) && e.is_constant(0))) return false;
    }
    return forward(op, from);
  }

  /// An index map that keeps the row-major order of all elements.
  bool make_reshape(Op& op) {
    if (op.kind() != OpKind::kCompute) return false;
    const Scalar load = plain_load(op);
    if (!load) return false;
    const Compute& c = *op.as<Compute>();
    Value* from = op.operands[load->slot];
    const Value* to = op.result();
    if (!from->type.has_static_rank() || !to->type.has_static_rank()) return false;
    if (same_type(from, to)) return false;  // a copy that had to stay one
    const Expr from_count = product_of(graph_, from->type.extents), to_count = product_of(graph_, to->type.extents);
    if (from_count != to_count && graph_.constraints.equal(from_count, to_count) != Truth::kYes) return false;
    std::vector<Expr> indices, vars;
    for (Scalar a : load->args) indices.push_back(ir::as_expr(a));
    for (const Axis& a : c.axes) vars.push_back(a.extent.is_constant(1) ? graph_.exprs().constant(0) : a.var);
    const Expr read = linear_index(graph_.exprs(), indices, from->type.extents);
    const Expr written = linear_index(graph_.exprs(), vars, to->type.extents);
    if (read != written && facts_inside(graph_, c.axes, {}).simplify(read - written) != graph_.exprs().constant(0))
      return false;
    op.payload = Reshape{};
    op.operands = {from};
    return true;
  }

  /// Selects whose condition is known, and index expressions that the axes' ranges make simpler.
  bool simplify_body(Op& op) {
    const Compute& c = *op.as<Compute>();
    bool worth_it = false;
    visit_scalars(op, [&](Scalar x) {
      worth_it = worth_it || (x->kind == ScalarKind::kIndex && !x->index.args().empty() && !is_affine_sum(x->index));
    });
    if (!worth_it) return false;
    // The epilogue is there also where nothing is combined: what the reductions' indices say of their extents does not hold in it.
    const symbolic::ConstraintSet around = facts_inside(graph_, c.axes, {});
    const symbolic::ConstraintSet inside = facts_inside(graph_, c.axes, c.reductions);
    bool changed = false;
    rewrite_scalars(op, [&](Scalar root) {
      const symbolic::ConstraintSet& facts = root == c.epilogue ? around : inside;
      const Scalar simpler = ir::rewrite(root, {}, [&](Scalar x) {
        if (x->kind != ScalarKind::kIndex || is_affine_sum(x->index)) return x;
        const Truth truth = is_condition(x->index) ? facts.truth(x->index) : Truth::kUnknown;
        if (truth != Truth::kUnknown) return x->table->constant_int(DType::kI64, truth == Truth::kYes ? 1 : 0);
        const Expr e = facts.simplify(x->index);
        return e == x->index ? x : x->table->index(e);
      });
      changed |= simpler != root;
      return simpler;
    });
    return changed;
  }

  static bool is_condition(Expr e) {
    using symbolic::ExprKind;
    if (e.kind() == ExprKind::kLess || e.kind() == ExprKind::kEqual) return true;
    return e.range().lo >= 0 && e.range().hi <= 1;
  }

  /// Sums of multiples of symbols have no simpler form.
  static bool is_affine_sum(Expr e) {
    using symbolic::ExprKind;
    if (e.is_constant() || e.is_symbol()) return true;
    if (e.kind() != ExprKind::kAdd && e.kind() != ExprKind::kMul) return false;
    return std::all_of(e.args().begin(), e.args().end(), [](Expr a) { return is_affine_sum(a); });
  }

  Graph& graph_;
};

}  // namespace

bool canonicalize(Graph& graph) { return Canonicalizer(graph).run(graph.body); }

}  // namespace stax::tensor
