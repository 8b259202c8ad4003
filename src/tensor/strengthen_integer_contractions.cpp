// SPDX-License-Identifier: Apache-2.0
// Contractions of 8-bit integers in floating-point arithmetic, where that is exact: those that are no dot products of bytes, such as
// convolutions of each channel by itself.
//
// A product of two bytes less their zero points is at most 255 * 255, and a float holds every integer up to 2^24. As long as the magnitudes that one
// result sums stay below that, no partial sum is ever rounded, in whatever order it is made, and fused multiply-add on floats gives the same
// integers as 32-bit multiplication at several times the rate. Whether it holds is decided from the weights themselves, which are constants. The
// activations are converted once, in front of the contraction; the weights stay bytes in memory and are converted as they are read.
#include <algorithm>
#include <cmath>

#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;
using ir::ScalarOp;

constexpr double kExact = 1 << 24;
constexpr double kMostActivation = 255;  // |a - zero point| for two bytes

const Literal* literal_of(const Value* v) {
  while (v->producer != nullptr && v->producer->kind() == OpKind::kReshape) v = v->producer->operands[0];
  const Constant* c = v->producer != nullptr ? v->producer->as<Constant>() : nullptr;
  return c != nullptr ? &c->literal : nullptr;
}

bool moves(Scalar x, const Compute& c) {
  bool found = false;
  visit(x, [&](Scalar node) {
    if (node->kind != ScalarKind::kIndex) return;
    for (const auto* axes : {&c.axes, &c.reductions})
      for (const Axis& a : *axes) found |= symbolic::depends_on(node->index, a.var);
  });
  return found;
}

/// A factor `load` or `load - zero`, in 32 bits; nullopt if it is of another form.
struct Weight {
  double zero = 0;
};
std::optional<Weight> weight_form(Scalar factor, Scalar load) {
  Weight w;
  if (factor->kind == ScalarKind::kOp && factor->op == ScalarOp::kSub &&
      factor->args[1]->kind == ScalarKind::kConstant) {
    w.zero = static_cast<double>(factor->args[1]->as_int());
    factor = factor->args[0];
  }
  while (factor->kind == ScalarKind::kCast) factor = factor->args[0];
  if (factor != load) return std::nullopt;
  return w;
}

/// The largest sum of magnitudes of one result's weights.
double largest_sum(const Compute& c, Scalar load, const Literal& weights, double zero) {
  const std::vector<int64_t>& extents = weights.extents();
  std::vector<bool> summed(extents.size(), false);
  for (size_t k = 0; k < load->args.size(); ++k) {
    const Expr e = ir::as_expr(load->args[k]);
    if (!e) return HUGE_VAL;
    for (const Axis& r : c.reductions) summed[k] = summed[k] || symbolic::depends_on(e, r.var);
  }
  std::vector<double> sums;
  std::vector<int64_t> index(extents.size(), 0);
  for (int64_t linear = 0; linear < weights.count(); ++linear) {
    int64_t kept = 0;
    for (size_t k = 0; k < extents.size(); ++k)
      if (!summed[k]) kept = kept * extents[k] + index[k];
    if (static_cast<size_t>(kept) >= sums.size()) sums.resize(static_cast<size_t>(kept) + 1, 0);
    sums[static_cast<size_t>(kept)] += std::fabs(static_cast<double>(weights.at(linear).i) - zero);
    for (size_t k = extents.size(); k-- > 0;) {
      if (++index[k] < extents[k]) break;
      index[k] = 0;
    }
  }
  return sums.empty() ? 0 : *std::max_element(sums.begin(), sums.end());
}

/// The factor over all of its load's operand, as floats.
Value* insert_conversion(Graph& graph, Op& before, Scalar factor, Scalar load) {
  Value* v = before.operands[load->slot];
  Compute c;
  std::vector<Scalar> indices;
  for (int k = 0; k < v->type.static_rank(); ++k) {
    c.axes.push_back({graph.axis_var(k, v->type.extents[k], false), v->type.extents[k]});
    indices.push_back(graph.scalars().index(c.axes.back().var));
  }
  const Scalar element = graph.scalars().load(load->slot, load->dtype, indices);
  const Scalar all = ir::rewrite(factor, {}, [&](Scalar x) { return x == load ? element : x; });
  c.body = graph.scalars().cast(DType::kF32, all);
  Op* op = graph.add_op(*before.block, std::move(c), before.operands, {Type::tensor(DType::kF32, v->type.extents)}, {},
                        before.source, &before);
  compact_operands(*op);
  op->result()->name = v->name.empty() ? "" : v->name + ".float";
  return op->result();
}

bool strengthen(Graph& graph, Op& op) {
  Compute& c = *op.as<Compute>();
  if (c.accumulate != DType::kI32 || byte_dot_of(c)) return false;
  const Classification found = classify(c);
  if (found.kind != ComputeClass::kContraction) return false;
  const Contraction& r = found.contraction;
  Scalar product = c.body;
  while (product->kind == ScalarKind::kCast) product = product->args[0];
  if (product->dtype != DType::kI32 || !is_byte(r.left->dtype) || !is_byte(r.right->dtype)) return false;
  for (const bool weight_left : {false, true}) {
    const Scalar weight_load = weight_left ? r.left : r.right, load = weight_left ? r.right : r.left;
    const Scalar weight = product->args[weight_left ? 0 : 1], factor = product->args[weight_left ? 1 : 0];
    const Literal* weights = literal_of(op.operands[weight_load->slot]);
    if (!weights || weights->rank() != static_cast<int>(weight_load->args.size()) ||
        !op.operands[load->slot]->type.has_static_rank())
      continue;
    const std::optional<Weight> form = weight_form(weight, weight_load);
    if (!form) continue;
    bool plain = true;  // nothing but the load moves in the other factor
    visit(factor, [&](Scalar x) { plain &= x->kind != ScalarKind::kLoad || x == load || !moves(x, c); });
    if (!plain || largest_sum(c, weight_load, *weights, form->zero) * kMostActivation > kExact) continue;
    const int slot = slot_of(op, insert_conversion(graph, op, factor, load));
    ir::ScalarTable& t = graph.scalars();
    Scalar converted = t.load(slot, DType::kF32, load->args);
    Scalar bytes = t.cast(DType::kF32, weight);
    Compute& now = *op.as<Compute>();
    now.body = weight_left ? bytes * converted : converted * bytes;
    now.accumulate = DType::kF32;
    const Scalar sum = t.cast(DType::kI32, t.accumulator(DType::kF32));
    now.epilogue = now.epilogue ? ir::rewrite(now.epilogue, {},
                                              [&](Scalar x) { return x->kind == ScalarKind::kAccumulator ? sum : x; })
                                : t.cast(op.result()->type.dtype, sum);
    compact_operands(op);
    return true;
  }
  return false;
}

bool strengthen_in(Graph& graph, Block& block) {
  bool changed = false;
  for (const auto& op : block.ops) {
    if (If* branch = op->as<If>()) {
      changed |= strengthen_in(graph, *branch->then_block);
      changed |= strengthen_in(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= strengthen_in(graph, *loop->body);
    } else if (op->kind() == OpKind::kCompute) {
      changed |= strengthen(graph, *op);
    }
  }
  return changed;
}

}  // namespace

bool strengthen_integer_contractions(Graph& graph) { return strengthen_in(graph, graph.body); }

}  // namespace stax::tensor
