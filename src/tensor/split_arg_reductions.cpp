// SPDX-License-Identifier: Apache-2.0
// The place of the greatest or least element, as two reductions.
//
//   best[o]  = max over r of  x[o, r]
//   place[o] = min over r of  r if x[o, r] = best[o] or x[o, r] is NaN, else none
//
// A reduction that carries an element along with its place compares one element after the other, and nothing of it can be vectorized or spread over
// threads. A maximum and a minimum are reductions like any other: they are scheduled as such, and where they go over the same rows one kernel does both
// while the row is near. NaN wins in the maximum, and where there is one, no element is equal to it.
#include "tensor/alternatives.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarOp;

/// An element of an operand at axes and reductions alone: windows and what is computed on the way stay, as two reductions would do it twice.
bool reads_plainly(const Compute& c) {
  Scalar body = c.body;
  while (body->kind == ir::ScalarKind::kCast) body = body->args[0];
  if (body->kind != ir::ScalarKind::kLoad) return false;
  return std::all_of(body->args.begin(), body->args.end(), [](Scalar index) {
    const Expr e = ir::as_expr(index);
    return e && (e.is_symbol() || e.is_constant());
  });
}

Value* build(Builder& b, const Op& op, const Compute& c) {
  const bool greatest = c.combiner == Combiner::kArgMaxFirst || c.combiner == Combiner::kArgMaxLast,
             last = c.combiner == Combiner::kArgMaxLast || c.combiner == Combiner::kArgMinLast;
  Scalar load = c.body;
  while (load->kind == ir::ScalarKind::kCast) load = load->args[0];
  Value* x = op.operands[static_cast<size_t>(load->slot)];
  std::vector<Expr> extents, reductions;
  Expr count = b.constant_expr(1);
  for (const Axis& a : c.axes) extents.push_back(a.extent);
  for (const Axis& a : c.reductions) reductions.push_back(a.extent), count = count * a.extent;
  const auto element = [&](Body& body) {
    symbolic::Substitution at;
    for (size_t k = 0; k < c.axes.size(); ++k) at[c.axes[k].var.node()] = body.i[k];
    for (size_t k = 0; k < c.reductions.size(); ++k) at[c.reductions[k].var.node()] = body.r[k];
    std::vector<Expr> index;
    for (const Scalar s : load->args) index.push_back(symbolic::substitute(ir::as_expr(s), at));
    return ir::cast(c.body->dtype, body.load(x, index));
  };
  Value* best = b.reduce(greatest ? Combiner::kMax : Combiner::kMin, c.body->dtype, extents, reductions, element);
  // Extents are below 2^31, their product may be beyond.
  const DType t = reductions.size() == 1 ? DType::kI32 : DType::kI64;
  const int64_t none = last ? -1 : t == DType::kI32 ? std::numeric_limits<int32_t>::max() : symbolic::kPosInf;
  return b.reduce(
      last ? Combiner::kMax : Combiner::kMin, t, extents, reductions,
      [&](Body& body) {
        const Scalar mine = element(body);
        Scalar found = ir::equal(mine, body.load(best, body.i));
        if (ir::is_float(mine->dtype)) found = ir::binary(ScalarOp::kOr, found, ir::unary(ScalarOp::kIsNan, mine));
        Expr place = b.constant_expr(0);
        for (size_t k = 0; k < reductions.size(); ++k) place = place * reductions[k] + body.r[k];
        return ir::select(found, ir::cast(t, body.index(place)), body.integer(t, none));
      },
      // Nothing has its place at 0.
      [&](Body& body, Scalar place) {
        const Scalar zero = body.integer(t, 0), end = ir::cast(t, body.index(count));
        const Scalar is_none = last ? ir::less(place, zero) : ir::less_equal(end, place);
        return ir::cast(DType::kI64, ir::select(is_none, zero, place));
      });
}

}  // namespace

bool split_arg_reductions(Graph& graph) {
  bool changed = false;
  for (Op* op : ops_of(graph, OpKind::kCompute)) {
    const Compute c = *op->as<Compute>();
    if (!is_arg(c.combiner) || op->result()->type.rank || !reads_plainly(c)) continue;
    // A place goes out as it is until ops are fused.
    if (c.epilogue && c.epilogue->kind != ir::ScalarKind::kAccumulator) continue;
    changed |= compute_otherwise(*op, graph.exprs().constant(1),
                                 [&](Builder& b) { return std::vector<Value*>{build(b, *op, c)}; });
  }
  return changed;
}

}  // namespace stax::tensor
