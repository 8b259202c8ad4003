// SPDX-License-Identifier: Apache-2.0
// Top-k without sorting, for machines that compare much at once.
//
// An element's rank is the number of elements of its row that come before it. The k results of a row are those whose ranks are below k:
//
//   rank[i]  = sum over j of  x[j] comes before x[i]
//   place[r] = sum over i of  i if rank[i] = r, else 0
//   top[r]   = x[place[r]]
//
// n comparisons for each of n elements, all independent of each other: reductions like any other, which are fused, scheduled and split as such. A
// sort needs fewer comparisons, in many steps that wait for each other. Rows that are too long for n * n go to the procedure, by a branch
// where only the call knows how long they are.
#include "tensor/alternatives.h"
#include "tensor/passes.h"

namespace stax::tensor {

namespace {

using ir::ScalarOp;

/// Some 10^8 comparisons a row, which take a GPU as long as the way to the host and back.
constexpr int64_t kLongestRow = 8192;

/// a > b where NaN is the greatest of all.
Scalar greater(Scalar a, Scalar b) {
  const Scalar plain = ir::less(b, a);
  if (!ir::is_float(a->dtype)) return plain;
  return ir::binary(ScalarOp::kOr, plain, ir::binary(ScalarOp::kAnd, ir::unary(ScalarOp::kIsNan, a), ir::equal(b, b)));
}

/// Values and places.
std::vector<Value*> build(Builder& b, Value* x, const TopK& top, const std::vector<Expr>& results) {
  const size_t axis = static_cast<size_t>(top.axis);
  const std::vector<Expr>& extents = x->type.extents;
  const Expr count = extents[axis];
  const auto along = [&](std::vector<Expr> at, Expr index) {
    at[axis] = index;
    return at;
  };
  Value* rank = b.reduce(Combiner::kSum, DType::kI32, extents, {count}, [&](Body& body) {
    const Expr i = body.i[axis], j = body.r[0];
    const Scalar mine = body.load(x, body.i), other = body.load(x, along(body.i, j));
    const auto before = [&](Scalar p, Scalar q) {
      return ir::cast(DType::kI32, top.largest ? greater(p, q) : greater(q, p));
    };
    // Of equals, the first comes first.
    return ir::select(ir::cast(DType::kBool, body.index(symbolic::less(j, i))),
                      body.integer(DType::kI32, 1) - before(mine, other), before(other, mine));
  });
  Value* places = b.reduce(
      Combiner::kSum, DType::kI32, results, {count},
      [&](Body& body) {
        const Expr i = body.r[0];
        const Scalar wanted = ir::cast(DType::kI32, body.index(body.i[axis]));
        return ir::select(ir::equal(body.load(rank, along(body.i, i)), wanted), ir::cast(DType::kI32, body.index(i)),
                          body.integer(DType::kI32, 0));
      },
      [&](Body&, Scalar place) { return ir::cast(DType::kI64, place); });
  Value* values = b.map(results, [&](Body& body) {
    std::vector<Scalar> at;
    for (const Expr index : body.i) at.push_back(body.index(index));
    at[axis] = body.load(places, body.i);
    return body.load(x, at);
  });
  return {values, places};
}

}  // namespace

bool rank_top_k(Graph& graph) {
  bool changed = false;
  for (Op* op : ops_of(graph, OpKind::kTopK)) {
    const TopK top = *op->as<TopK>();
    Value* x = op->operands[0];
    const std::vector<Expr> results = op->result()->type.extents;
    const Expr count = x->type.extents[static_cast<size_t>(top.axis)];
    changed |= compute_otherwise(*op, symbolic::less_equal(count, graph.exprs().constant(kLongestRow)),
                                 [&](Builder& b) { return build(b, x, top, results); });
  }
  return changed;
}

}  // namespace stax::tensor
