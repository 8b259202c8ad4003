// SPDX-License-Identifier: Apache-2.0
// What a body computes over and over, once.
//
//   y[n, c, h, w] = x[n, c, row(h), column(w)] * weight(w) + ..
//
// Coordinates and weights of an interpolation, of regions or of a position's bias do not vary along images and channels, and cost more than the elements
// that are read with them. Loops keep what does not vary along the innermost of them; where that is the axis of the coordinates, every channel computes them
// again. Here each such part of a body is a tensor of its own over the axes along which it does vary: a table, small beside the result, that the body reads.
//
// A part is taken as large as it can be; a table's own body is looked at like any other, so that what varies along one axis only comes out of what varies
// along two. Taken are parts that cost several operations and are computed at least kLeastTimes times. A part is computed for every point of its
// axes, wherever the body needs it: one whose loads are not in bounds everywhere, or that may end the run with an error, stays.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/alternatives.h"
#include "tensor/classify.h"
#include "tensor/fusion_cost.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;

namespace {

// An addition is 1.
constexpr int kLeastWeight = 6;
// Fewer computations would not pay for a pass over memory; an extent that is not known counts as this many.
constexpr int64_t kLeastTimes = 8, kUnknownExtent = 8;
// A kernel more takes longer than that many points.
constexpr int64_t kFewPoints = 4096;
constexpr size_t kMostTables = 12;
// Points of a window along one axis.
constexpr int64_t kFewTaps = 64;

using Axes = uint64_t;  // a set, as bits

class Hoister {
 public:
  explicit Hoister(Op& op) : op_(op), compute_(*op.as<Compute>()) {
    all_ = compute_.axes;
    all_.insert(all_.end(), compute_.reductions.begin(), compute_.reductions.end());
  }

  /// The tables, in front of the op.
  std::vector<Op*> run() {
    const bool known = std::all_of(all_.begin(), all_.end(), [](const Axis& a) { return a.extent.is_constant(); });
    if (all_.size() > 32 || (known && times(0) < kFewPoints)) return {};
    find(compute_.body);
    std::vector<Op*> tables;
    for (Scalar part : parts_) tables.push_back(table_of(part));
    if (!tables.empty()) op_.as<Compute>()->body = with_tables(compute_.body);
    compact_operands(op_);
    return tables;
  }

 private:
  /// How often the body has the same value where it varies along these axes.
  int64_t times(Axes varying) const {
    int64_t n = 1;
    for (size_t k = 0; k < all_.size(); ++k) {
      if ((varying >> k & 1) != 0) continue;
      n = symbolic::saturating_mul(n, all_[k].extent.is_constant() ? all_[k].extent.constant() : kUnknownExtent);
    }
    return n;
  }

  /// Whether a table over these axes is no larger than what exists anyway: what is reduced over many points need not fit into memory.
  bool is_small(Axes varying) const {
    if ((varying & (varying - 1)) == 0) return true;
    for (size_t k = compute_.axes.size(); k < all_.size(); ++k)
      if ((varying >> k & 1) != 0 && all_[k].extent.range().hi > kFewTaps) return false;
    return true;
  }

  Axes axes_of(Expr e) const {
    Axes found = 0;
    for (size_t k = 0; k < all_.size(); ++k)
      if (symbolic::depends_on(e, all_[k].var)) found |= Axes{1} << k;
    return found;
  }

  /// Whether the element exists at every point.
  bool is_in_bounds(Scalar load) const {
    const std::vector<Expr>& extents = op_.operands[static_cast<size_t>(load->slot)]->type.extents;
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr e = ir::as_expr(load->args[d]);
      if (!e) return false;
      if (e.is_constant() && extents[d].range().lo > e.constant() && e.constant() >= 0) continue;
      const auto axis = std::find_if(all_.begin(), all_.end(), [&](const Axis& a) { return a.var == e; });
      if (axis == all_.end() || axis->extent != extents[d]) return false;
    }
    return true;
  }

  bool may_run_anywhere(Scalar x) const {
    if (x->kind == ScalarKind::kLoad) return is_in_bounds(x);
    return x->kind != ScalarKind::kAccumulator && (x->kind != ScalarKind::kOp || x->op != ScalarOp::kCheckedIndex);
  }

  struct Known {
    Axes axes = 0;
    bool may_move = true;
  };
  Known known(Scalar x) {
    if (const auto at = known_.find(x.node()); at != known_.end()) return at->second;
    Known k;
    if (x->kind == ScalarKind::kIndex) k.axes = axes_of(x->index);
    k.may_move = may_run_anywhere(x);
    for (Scalar a : x->args) {
      const Known inner = known(a);
      k.axes |= inner.axes;
      k.may_move = k.may_move && inner.may_move;
    }
    known_.emplace(x.node(), k);
    return k;
  }

  /// An index with a division by what only the call knows, in a form that loops do not take apart: a reflection.
  static bool is_costly(Scalar x) {
    if (x->kind != ScalarKind::kIndex) return false;
    bool divides = false, chooses = false;
    symbolic::visit(x->index, [&](Expr e) {
      const symbolic::ExprKind kind = e.kind();
      divides |=
          (kind == symbolic::ExprKind::kFloorDiv || kind == symbolic::ExprKind::kMod) && !e.args()[1].is_constant();
      chooses |=
          kind == symbolic::ExprKind::kMin || kind == symbolic::ExprKind::kMax || kind == symbolic::ExprKind::kSelect;
    });
    return divides && chooses;
  }

  static int weight(Scalar root) {
    int sum = 0;
    ir::visit(root, [&](Scalar x) { sum += is_costly(x) ? kLeastWeight : weight_of_node(x); });
    return sum;
  }

  void find(Scalar x) {
    if (!visited_.insert(x.node()).second) return;
    const Known k = known(x);
    const bool computes = x->kind == ScalarKind::kOp || x->kind == ScalarKind::kCast || is_costly(x);
    if (computes && k.may_move && k.axes != 0 && times(k.axes) >= kLeastTimes && is_small(k.axes) &&
        weight(x) >= kLeastWeight && parts_.size() < kMostTables) {
      parts_.push_back(x);
      return;
    }
    for (Scalar a : x->args) find(a);
  }

  Op* table_of(Scalar part) {
    Block& block = *op_.block;
    Builder b(*block.graph, block);
    b.source = op_.source;
    std::vector<Expr> extents;
    std::vector<Scalar> index;
    std::vector<size_t> axes;
    for (size_t k = 0; k < all_.size(); ++k) {
      if ((known(part).axes >> k & 1) == 0) continue;
      axes.push_back(k);
      extents.push_back(all_[k].extent);
      index.push_back(part->table->index(all_[k].var));
    }
    Value* table = b.map(extents, [&](Body& body) {
      symbolic::Substitution at;
      for (size_t k = 0; k < axes.size(); ++k) at[all_[axes[k]].var.node()] = body.i[k];
      return ir::rewrite(part, at, [&](Scalar x) {
        return x->kind == ScalarKind::kLoad ? body.load(op_.operands[static_cast<size_t>(x->slot)], x->args) : x;
      });
    });
    replaced_.emplace(part.node(), part->table->load(slot_of(op_, table), part->dtype, index));
    // From the end of the block to where it is needed.
    const auto here = std::find_if(block.ops.begin(), block.ops.end(), [&](const auto& o) { return o.get() == &op_; });
    if (block.ops.back().get() == table->producer) block.ops.splice(here, block.ops, std::prev(block.ops.end()));
    return table->producer;
  }

  Scalar with_tables(Scalar x) {
    if (const auto at = replaced_.find(x.node()); at != replaced_.end()) return at->second;
    if (x->args.empty()) return x;
    std::vector<Scalar> args;
    for (Scalar a : x->args) args.push_back(with_tables(a));
    Scalar result;
    switch (x->kind) {
      case ScalarKind::kOp: result = x->table->op(x->op, std::move(args)); break;
      case ScalarKind::kCast: result = x->table->cast(x->dtype, args[0]); break;
      case ScalarKind::kLoad: result = x->table->load(x->slot, x->dtype, std::move(args)); break;
      default: STAX_UNREACHABLE();
    }
    replaced_.emplace(x.node(), result);
    return result;
  }

  Op& op_;
  const Compute compute_;
  std::vector<Axis> all_;
  std::vector<Scalar> parts_;
  std::unordered_map<const ir::ScalarNode*, Known> known_;
  std::unordered_set<const ir::ScalarNode*> visited_;
  std::unordered_map<const ir::ScalarNode*, Scalar> replaced_;
};

}  // namespace

bool hoist_repeated(Graph& graph) {
  bool changed = false;
  std::vector<Op*> ops = ops_of(graph, OpKind::kCompute);
  for (size_t k = 0; k < ops.size(); ++k) {
    Op* op = ops[k];
    const bool in_rows = op->block->parent != nullptr && op->block->parent->kind() == OpKind::kRowGroup;
    if (in_rows || op->result()->type.rank || classify(*op->as<Compute>()).kind == ComputeClass::kContraction) continue;
    const std::vector<Op*> tables = Hoister(*op).run();
    changed |= !tables.empty();
    // A literal is one already.
    for (Op* table : tables)
      if (table->kind() == OpKind::kCompute) ops.push_back(table);
  }
  return changed;
}

}  // namespace stax::tensor
