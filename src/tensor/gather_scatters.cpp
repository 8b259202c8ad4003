// SPDX-License-Identifier: Apache-2.0
// Scatters as gathers, for machines with many threads.
//
// The points of a scatter may meet, and what the result is then depends on their order, so that one thread goes through them. Seen from the
// result there is no such thing: each element looks for the points that hit it, in order,
//
//   result[o] = data[o] combined with the values of all points p with index(p) = o
//
// and where the last one wins, for the last of them. An axis of the points that goes straight to an axis of the result, as features of rows that are
// added up do, is not searched. That compares (elements of the result) x (points to search) times: little for a GPU, as long as it is some 10^8.
#include <algorithm>

#include "tensor/alternatives.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;
using ir::ScalarOp;

constexpr int64_t kMostComparisons = int64_t{1} << 28;

/// A scatter as its result sees it.
class Gathered {
 public:
  Gathered(const Scatter& scatter, std::vector<Value*> operands)
      : s_(scatter), operands_(std::move(operands)), extents_(operands_[0]->type.extents) {
    std::vector<bool> is_straight(s_.axes.size(), false);
    for (const Scalar index : s_.index) {
      int axis = -1;
      for (size_t k = 0; k < s_.axes.size(); ++k)
        if (!is_straight[k] && ir::as_expr(index) == s_.axes[k].var) axis = static_cast<int>(k);
      if (axis >= 0) is_straight[static_cast<size_t>(axis)] = true;
      straight_.push_back(axis);
    }
    for (size_t k = 0; k < s_.axes.size(); ++k)
      if (!is_straight[k]) searched_.push_back(k);
  }

  bool searches() const { return !searched_.empty(); }
  std::vector<Expr> searched_extents() const {
    std::vector<Expr> extents;
    for (const size_t k : searched_) extents.push_back(s_.axes[k].extent);
    return extents;
  }

  Value* build(Builder& b) const { return s_.mode == Combiner::kNone ? last(b) : combined(b); }

 private:
  /// A scalar of the scatter, at a point that `axes` gives.
  Scalar at(Body& body, Scalar x, const std::vector<Scalar>& axes) const {
    const Scalar loads = ir::rewrite(x, {}, [&](Scalar node) {
      return node->kind == ScalarKind::kLoad ? body.load(operands_[static_cast<size_t>(node->slot)], node->args) : node;
    });
    return at_indices(loads, s_.axes, axes);
  }
  /// The point that hits the element body.i, if `searched` of the other axes do.
  std::vector<Scalar> point(Body& body, const std::vector<Scalar>& searched) const {
    std::vector<Scalar> axes(s_.axes.size());
    for (size_t d = 0; d < straight_.size(); ++d)
      if (straight_[d] >= 0) axes[static_cast<size_t>(straight_[d])] = body.index(body.i[d]);
    for (size_t k = 0; k < searched_.size(); ++k) axes[searched_[k]] = searched[k];
    return axes;
  }
  std::vector<Scalar> reductions(Body& body) const {
    std::vector<Scalar> indices;
    for (const Expr r : body.r) indices.push_back(body.index(r));
    return indices;
  }
  /// One condition after the other: what a later one loads may not be there where an earlier one fails.
  Scalar is_hit(Body& body, const std::vector<Scalar>& axes) const {
    std::vector<Scalar> conditions;
    const symbolic::ConstraintSet& facts = body.builder().graph().constraints;
    for (size_t d = 0; d < straight_.size(); ++d) {
      if (straight_[d] < 0) continue;
      const Expr extent = s_.axes[static_cast<size_t>(straight_[d])].extent;
      if (facts.less_equal(extents_[d], extent) != symbolic::Truth::kYes)
        conditions.push_back(ir::cast(DType::kBool, body.index(symbolic::less(body.i[d], extent))));
    }
    for (size_t d = 0; d < straight_.size(); ++d)
      if (straight_[d] < 0) conditions.push_back(ir::equal(at(body, s_.index[d], axes), body.index(body.i[d])));
    if (s_.guard) conditions.push_back(at(body, s_.guard, axes));
    Scalar hit = conditions.back();
    for (size_t k = conditions.size() - 1; k-- > 0;)
      hit = ir::select(conditions[k], hit, body.integer(DType::kBool, 0));
    return hit;
  }

  Value* combined(Builder& b) const {
    const DType t = operands_[0]->type.dtype;
    const DType accumulate = t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t;
    const ir::Combiner combiner = plain_combiner(s_.mode);
    return b.reduce(
        s_.mode, accumulate, extents_, searched_extents(),
        [&](Body& body) {
          const std::vector<Scalar> axes = point(body, reductions(body));
          return ir::select(is_hit(body, axes), ir::cast(accumulate, ir::cast(t, at(body, s_.value, axes))),
                            ir::neutral(*b.graph().context, combiner, accumulate));
        },
        [&](Body& body, Scalar found) {
          const Scalar before = ir::cast(accumulate, body.load(operands_[0], body.i));
          return ir::cast(t, ir::combine(combiner, before, found));
        });
  }

  /// The number of the last point that hits, from 1 on, and then its value.
  Value* last(Builder& b) const {
    const std::vector<Expr> searched = searched_extents();
    Value* hits = b.reduce(Combiner::kMax, DType::kI32, extents_, searched, [&](Body& body) {
      const Expr number = linear_index(b.exprs(), body.r, searched) + 1;
      return ir::select(is_hit(body, point(body, reductions(body))), ir::cast(DType::kI32, body.index(number)),
                        body.integer(DType::kI32, 0));
    });
    return b.map(extents_, [&](Body& body) {
      const Scalar hit = body.load(hits, body.i), none = body.integer(DType::kI32, 0);
      Scalar rest = ir::cast(DType::kI64, hit) - body.integer(DType::kI64, 1);
      std::vector<Scalar> indices(searched.size());
      for (size_t k = searched.size(); k-- > 0;) {
        const Scalar extent = body.index(searched[k]);
        indices[k] = k == 0 ? rest : ir::binary(ScalarOp::kModTrunc, rest, extent);
        if (k > 0) rest = rest / extent;
      }
      const Scalar value = ir::cast(operands_[0]->type.dtype, at(body, s_.value, point(body, indices)));
      return ir::select(ir::less(none, hit), value, body.load(operands_[0], body.i));
    });
  }

  const Scatter& s_;
  std::vector<Value*> operands_;
  std::vector<Expr> extents_;
  std::vector<int> straight_;     // for each axis of the result: the axis of the points that it is, or -1
  std::vector<size_t> searched_;  // the other axes of the points
};

}  // namespace

bool gather_scatters(Graph& graph) {
  bool changed = false;
  for (Op* op : ops_of(graph, OpKind::kScatter)) {
    const Scatter scatter = *op->as<Scatter>();
    if (scatter.mode != Combiner::kNone && op->result()->type.dtype == DType::kBool) continue;
    const Gathered gathered(scatter, op->operands);
    if (!gathered.searches()) continue;
    // Without an element, nobody would see that an index is out of range.
    const Expr elements = product_of(graph, op->result()->type.extents);
    const Expr comparisons = elements * product_of(graph, gathered.searched_extents());
    const Expr pays =
        symbolic::logical_and(symbolic::less(graph.exprs().constant(0), elements),
                              symbolic::less_equal(comparisons, graph.exprs().constant(kMostComparisons)));
    changed |= compute_otherwise(*op, pays, [&](Builder& b) { return std::vector<Value*>{gathered.build(b)}; });
  }
  return changed;
}

}  // namespace stax::tensor
