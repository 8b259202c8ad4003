// SPDX-License-Identifier: Apache-2.0
// Products of dequantized values as products of what they were quantized to.
//
// A quantized model in QDQ form multiplies floats: each factor is (q - zero) * scale, element by element. Where the scales and zero points
// do not move with the sum,
//
//   sum (qa - za) * sa * (qw - zw) * sw  =  sa * sw * sum (qa - za) * (qw - zw)
//
// and the sum on the right is one of small integers: exact, as long as it fits 32 bits, and several times faster (expand_zero_points).
// Of the roundings on the left, one is left. The dequantized values need not exist. The padding of a convolution, zeros among dequantized values, becomes
// one of bytes by their zero point.
#include <algorithm>

#include "symbolic/evaluate.h"
#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;
using ir::ScalarOp;

/// (integers, the element less its zero point, in i32) * scale.
struct Dequantized {
  Scalar integers, scale, load;
};

bool mentions_any(Scalar x, const std::vector<Axis>& axes) {
  bool found = false;
  visit(x, [&](Scalar node) {
    if (node->kind != ScalarKind::kIndex) return;
    for (const Axis& a : axes) found |= symbolic::depends_on(node->index, a.var);
  });
  return found;
}

/// `factor`, the element that a contraction over `reductions` sees.
std::optional<Dequantized> match(Scalar factor, const std::vector<Axis>& reductions) {
  if (factor->dtype != DType::kF32 || factor->kind != ScalarKind::kOp || factor->op != ScalarOp::kMul)
    return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Scalar cast = factor->args[side], scale = factor->args[1 - side];
    if (cast->kind != ScalarKind::kCast || mentions_any(scale, reductions)) continue;
    Dequantized d{cast->args[0], scale, cast->args[0]};
    if (d.load->kind == ScalarKind::kOp && d.load->op == ScalarOp::kSub && d.load->dtype == DType::kI32) {
      if (mentions_any(d.load->args[1], reductions)) continue;
      d.load = d.load->args[0];
    }
    while (d.load->kind == ScalarKind::kCast) d.load = d.load->args[0];
    if (d.load->kind != ScalarKind::kLoad || !is_byte(d.load->dtype)) continue;
    d.integers = ir::cast(DType::kI32, d.integers);
    return d;
  }
  return std::nullopt;
}

/// Whether sums over `reductions` of products of nine-bit numbers fit 32 bits.
bool fits(const std::vector<Axis>& reductions) {
  constexpr int64_t kMost = (int64_t{1} << 31) / (255 * 255);
  int64_t terms = 1;
  for (const Axis& r : reductions)
    terms = symbolic::saturating_mul(terms, r.extent.is_constant() ? r.extent.constant() : r.extent.range().hi);
  return terms <= kMost;
}

/// The load of a factor as the body of the map that makes the operand, over operands of `op`; null where there is no such map.
Scalar seen_through(Op& op, Scalar load) {
  const Op* producer = op.operands[load->slot]->producer;
  const Compute* map = producer != nullptr ? producer->as<Compute>() : nullptr;
  if (map == nullptr || map->combiner != Combiner::kNone || load->kind != ScalarKind::kLoad) return {};
  std::vector<int> slots;
  slots.reserve(producer->operands.size());
  for (Value* v : producer->operands) slots.push_back(slot_of(op, v));
  const Scalar body = ir::rewrite(map->body, {}, [&](Scalar x) {
    return x->kind == ScalarKind::kLoad ? x->table->load(slots[x->slot], x->dtype, x->args) : x;
  });
  return at_indices(body, map->axes, load->args);
}

/// The zero point of a dequantized element in the type of the bytes; null where it need not fit.
Scalar zero_byte(const Dequantized& d) {
  ir::ScalarTable& t = *d.load->table;
  const DType type = d.load->dtype;
  if (d.integers->op != ScalarOp::kSub || d.integers->kind != ScalarKind::kOp) return t.constant_int(type, 0);
  const Scalar zero = d.integers->args[1];
  if (zero->kind == ScalarKind::kConstant)
    return ir::wrap_integer(type, zero->as_int()) == zero->as_int() ? t.constant_int(type, zero->as_int()) : Scalar();
  return zero->kind == ScalarKind::kCast && zero->args[0]->dtype == type ? zero->args[0] : Scalar();
}

/// The load of a factor that is padded with zeros as the dequantized load of padded bytes, which an op in front of `op` makes; null if it is
/// of another form.
Scalar seen_through_padding(Graph& graph, Op& op, Scalar load) {
  const Op* pad = op.operands[load->slot]->producer;
  const Compute* padding = pad != nullptr ? pad->as<Compute>() : nullptr;
  const Scalar inner =
      padding != nullptr && padding->combiner == Combiner::kNone ? padded_load(padding->body) : Scalar();
  if (!inner) return {};
  const Op* source = pad->operands[inner->slot]->producer;
  const Compute* map = source != nullptr ? source->as<Compute>() : nullptr;
  if (map == nullptr || map->combiner != Combiner::kNone) return {};
  // One scale and one zero point for all elements.
  const std::optional<Dequantized> d = match(map->body, map->axes);
  const Scalar zero = d ? zero_byte(*d) : Scalar();
  if (!zero) return {};
  Compute bytes;
  bytes.axes = padding->axes;
  bytes.body = ir::select(padding->body->args[0], at_indices(d->load, map->axes, inner->args), zero);
  Op* made = graph.add_op(*op.block, std::move(bytes), source->operands,
                          {Type::tensor(d->load->dtype, pad->result()->type.extents)}, {}, pad->source, &op);
  made->result()->name = pad->result()->name;
  compact_operands(*made);
  const int slot = slot_of(op, made->result());
  return ir::rewrite(map->body, {}, [&](Scalar x) {
    if (x == d->load) return x->table->load(slot, x->dtype, load->args);
    return x->kind == ScalarKind::kLoad ? x->table->load(slot_of(op, source->operands[x->slot]), x->dtype, x->args) : x;
  });
}

bool contract(Graph& graph, Op& op) {
  const Compute c = *op.as<Compute>();
  if (c.accumulate != DType::kF32 || c.body->kind != ScalarKind::kOp || c.body->op != ScalarOp::kMul ||
      !fits(c.reductions))
    return false;
  const Classification found = classify(c);
  if (found.kind != ComputeClass::kContraction) return false;
  const std::vector<Value*> operands = op.operands;
  std::optional<Dequantized> factors[2];
  const auto is_dot = [&](Scalar x, Scalar y) { return match_byte_dot(c, x, y) || match_byte_dot(c, y, x); };
  for (size_t side : {size_t{0}, size_t{1}})
    if (const Scalar load = c.body->args[side]; load->kind == ScalarKind::kLoad)
      if (const Scalar seen = seen_through(op, load)) factors[side] = match(seen, c.reductions);
  for (size_t side : {size_t{0}, size_t{1}}) {
    const Scalar load = c.body->args[side];
    const std::optional<Dequantized>& other = factors[1 - side];
    if (factors[side] || !other || load->kind != ScalarKind::kLoad || !is_dot(load, other->load)) continue;
    if (const Scalar seen = seen_through_padding(graph, op, load)) factors[side] = match(seen, c.reductions);
  }
  const bool worth = factors[0] && factors[1] && is_dot(factors[0]->load, factors[1]->load);
  if (!worth) {
    op.operands = operands;
    return false;
  }
  ir::ScalarTable& t = graph.scalars();
  Compute& now = *op.as<Compute>();
  now.body = factors[0]->integers * factors[1]->integers;
  now.accumulate = DType::kI32;
  const Scalar sum = t.cast(DType::kF32, t.accumulator(DType::kI32)) * (factors[0]->scale * factors[1]->scale);
  now.epilogue =
      c.epilogue ? ir::rewrite(c.epilogue, {}, [&](Scalar x) { return x->kind == ScalarKind::kAccumulator ? sum : x; })
                 : t.cast(op.result()->type.dtype, sum);
  compact_operands(op);
  return true;
}

bool contract_in(Graph& graph, Block& block) {
  bool changed = false;
  for (const auto& op : block.ops) {
    if (If* branch = op->as<If>()) {
      changed |= contract_in(graph, *branch->then_block);
      changed |= contract_in(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= contract_in(graph, *loop->body);
    } else if (op->kind() == OpKind::kCompute) {
      changed |= contract(graph, *op);
    }
  }
  return changed;
}

}  // namespace

bool contract_quantized(Graph& graph) { return contract_in(graph, graph.body); }

}  // namespace stax::tensor
