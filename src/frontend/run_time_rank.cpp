// SPDX-License-Identifier: Apache-2.0
// Where the axes that an operator works on, or the rank of its result, are known only at run time.
//
// Axes become flags, one for each axis of the operand: an expression that is 1 where the axis is meant. Extents of the result
// are then selections over the operand's extents, and no operator needs a second form. A result whose number of axes is a
// constant keeps a static rank; else it becomes a value of run-time rank: kMaxRank extents, aligned to the right.
#include <algorithm>

#include "frontend/node_context.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

/// Row-major order is kept and the count is equal by construction.
Value* reinterpret(Builder& b, Value* v, std::vector<Expr> extents, Expr rank) {
  if (!rank && v->type.has_static_rank() && v->type.extents == extents) return v;
  tensor::Type type = tensor::Type::tensor(v->type.dtype, std::move(extents));
  type.rank = rank;
  return b.op(tensor::Reshape{}, {v}, {std::move(type)})->result();
}

/// The extent of the kept axis that has `before` kept ones on its left (or, from the right, on its right); 1 where there is
/// none. `order` lists the axes from that side.
Expr kept_extent(Builder& b, std::span<const Expr> extents, std::span<const Expr> dropped, std::span<const int> order,
                 int before) {
  Expr found = b.constant_expr(1);
  Expr passed = b.constant_expr(0);
  std::vector<Expr> passed_at;
  for (const int axis : order) {
    passed_at.push_back(passed);
    passed = passed + (1 - dropped[axis]);
  }
  for (size_t k = order.size(); k-- > 0;) {
    const Expr here = symbolic::logical_and(1 - dropped[order[k]], symbolic::equal(passed_at[k], before));
    found = symbolic::select(here, extents[order[k]], found);
  }
  return found;
}

}  // namespace

std::vector<Expr> axis_mask(Builder& b, std::span<const Expr> axes, int rank) {
  std::vector<Expr> mask;
  for (int axis = 0; axis < rank; ++axis) {
    Expr any = b.constant_expr(0);
    for (const Expr each : axes) {
      any = symbolic::logical_or(any,
                                 symbolic::logical_or(symbolic::equal(each, axis), symbolic::equal(each, axis - rank)));
    }
    mask.push_back(any);
  }
  return mask;
}

std::vector<Expr> axis_mask(Builder& b, std::span<const Expr> axes, const tensor::Type& type) {
  if (type.has_static_rank()) return axis_mask(b, axes, type.static_rank());
  std::vector<Expr> mask;
  for (int at = 0; at < tensor::kMaxRank; ++at) {
    const Expr axis = type.rank - (tensor::kMaxRank - at);  // counted from the front; negative before the first
    Expr any = b.constant_expr(0);
    for (const Expr each : axes) {
      any = symbolic::logical_or(
          any, symbolic::logical_or(symbolic::equal(each, axis), symbolic::equal(each, at - tensor::kMaxRank)));
    }
    mask.push_back(symbolic::logical_and(any, symbolic::less_equal(b.constant_expr(0), axis)));
  }
  return mask;
}

Expr rank_of(Builder& b, const Value* v) {
  return v->type.rank ? v->type.rank : b.constant_expr(v->type.static_rank());
}

Expr extent_from_front(Builder& b, const Value* v, int k) {
  if (v->type.has_static_rank()) return k < v->type.static_rank() ? v->type.extents[k] : b.constant_expr(1);
  Expr found = b.constant_expr(1);
  for (int rank = k + 1; rank <= tensor::kMaxRank; ++rank) {
    found = symbolic::select(symbolic::equal(v->type.rank, rank), v->type.extents[tensor::kMaxRank - rank + k], found);
  }
  return found;
}

Value* with_run_time_rank(Builder& b, Value* v, Expr rank) {
  if (!v->type.has_static_rank()) return v;
  const int have = v->type.static_rank();
  STAX_ASSERT(have <= tensor::kMaxRank);
  std::vector<Expr> extents(tensor::kMaxRank - have, b.constant_expr(1));
  extents.insert(extents.end(), v->type.extents.begin(), v->type.extents.end());
  if (rank.is_constant()) {
    extents.erase(extents.begin(), extents.end() - rank.constant());
    return reinterpret(b, v, std::move(extents), {});
  }
  return reinterpret(b, v, std::move(extents), rank);
}

Value* drop_axes(Builder& b, Value* v, std::span<const Expr> dropped, std::optional<int> known) {
  const std::vector<Expr>& extents = v->type.extents;
  const int rank = v->type.static_rank();
  STAX_ASSERT(static_cast<int>(dropped.size()) == rank);
  Expr kept = rank_of(b, v);
  for (const Expr flag : dropped) kept = kept - flag;
  if (known && v->type.has_static_rank()) kept = b.constant_expr(*known);
  std::vector<Expr> result;
  if (kept.is_constant()) {
    std::vector<int> order;
    for (int axis = 0; axis < rank; ++axis) order.push_back(axis);
    for (int at = 0; at < kept.constant(); ++at) result.push_back(kept_extent(b, extents, dropped, order, at));
    return reinterpret(b, v, std::move(result), {});
  }
  std::vector<int> order;
  for (int axis = rank - 1; axis >= 0; --axis) order.push_back(axis);
  for (int at = tensor::kMaxRank - 1; at >= 0; --at) result.push_back(kept_extent(b, extents, dropped, order, at));
  return reinterpret(b, v, std::move(result), kept);
}

Value* of_rank(Builder& b, Value* v, int rank) {
  if (v->type.has_static_rank()) return v;
  if (rank > tensor::kMaxRank) unsupported("{}: rank {} (at most {})", b.source, rank, tensor::kMaxRank);
  b.check(symbolic::equal(v->type.rank, rank), "'" + v->name + "' has rank {0}, not " + std::to_string(rank),
          {v->type.rank});
  return reinterpret(b, v, {v->type.extents.end() - rank, v->type.extents.end()}, {});
}

}  // namespace stax::frontend
