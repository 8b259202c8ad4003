// SPDX-License-Identifier: Apache-2.0
#include "tensor/fusion_cost.h"

#include <algorithm>

#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::Truth;

namespace {

// More elements than this are never worth a tensor of their own.
constexpr int64_t kTooManyElements = int64_t{1} << 31;

struct OpCost {
  int weight = 1;
  bool expensive = false;
};

OpCost cost_of_op(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSign:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven:
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight:
    case ScalarOp::kEqual:
    case ScalarOp::kNotEqual:
    case ScalarOp::kLess:
    case ScalarOp::kLessEqual:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSelect:
    case ScalarOp::kCheckedIndex: return {1, false};
    case ScalarOp::kDiv:
    case ScalarOp::kModFloor:
    case ScalarOp::kModTrunc:
    case ScalarOp::kSqrt: return {4, false};
    case ScalarOp::kPow:
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
    case ScalarOp::kHash: return {20, true};
  }
  return {20, true};
}

bool is_known_positive_or_negative(Expr coefficient) {
  return coefficient.is_constant() && coefficient.constant() != 0;
}

}  // namespace

bool is_affine(Expr e, const std::vector<Axis>& axes) {
  for (const Axis& a : axes) {
    if (!symbolic::depends_on(e, a.var)) continue;
    const auto form = symbolic::affine_in(e, a.var);
    if (!form) return false;
    for (const Axis& other : axes) {
      if (symbolic::depends_on(form->coefficient, other.var)) return false;
    }
    e = form->rest;
  }
  return true;
}

int weight_of_node(Scalar x) {
  if (x->kind == ScalarKind::kOp) return cost_of_op(x->op).weight;
  return x->kind == ScalarKind::kCast ? 1 : 0;
}

namespace {

bool picks_row(Scalar load, const Axis& last) {
  constexpr int64_t kShortest = 16;
  const bool is_long = !last.extent.is_constant() || last.extent.constant() >= kShortest;
  return is_long && load->args.size() > 1 && ir::as_expr(load->args.back()) == last.var &&
         std::any_of(load->args.begin(), load->args.end(), [](Scalar index) { return !ir::as_expr(index); });
}

}  // namespace

BodyCost cost_of(const Compute& map) {
  BodyCost cost;
  visit(map.body, [&](Scalar x) {
    switch (x->kind) {
      case ScalarKind::kLoad:
        ++cost.loads;
        cost.picks_rows |= !map.axes.empty() && picks_row(x, map.axes.back());
        break;
      case ScalarKind::kOp: {
        const OpCost own = cost_of_op(x->op);
        cost.weight += own.weight;
        cost.expensive = cost.expensive || own.expensive;
        cost.checked = cost.checked || x->op == ScalarOp::kCheckedIndex;
        break;
      }
      case ScalarKind::kCast: cost.weight += 1; break;
      case ScalarKind::kConstant:
      case ScalarKind::kIndex:
      case ScalarKind::kAccumulator: break;
    }
  });
  Scalar core = map.body;
  while (core->kind == ScalarKind::kCast) core = core->args[0];
  if (core->kind != ScalarKind::kLoad) return cost;
  cost.index_map =
      std::all_of(core->args.begin(), core->args.end(), [](Scalar a) { return static_cast<bool>(ir::as_expr(a)); });
  if (!cost.index_map) return cost;
  cost.affine =
      std::all_of(core->args.begin(), core->args.end(), [&](Scalar a) { return is_affine(ir::as_expr(a), map.axes); });
  // The last axis that is more than one element long.
  for (auto axis = map.axes.rbegin(); axis != map.axes.rend(); ++axis) {
    if (axis->extent.is_constant(1)) continue;
    for (size_t k = 0; k + 1 < core->args.size(); ++k) {
      cost.transposes = cost.transposes || symbolic::depends_on(ir::as_expr(core->args[k]), axis->var);
    }
    break;
  }
  return cost;
}

bool is_too_large(Graph& graph, const std::vector<Axis>& axes) {
  std::vector<Expr> extents;
  extents.reserve(axes.size());
  for (const Axis& a : axes) extents.push_back(a.extent);
  return graph.constraints.range(product_of(graph, extents)).lo >= kTooManyElements;
}

bool reads_once(Graph& graph, const std::vector<Axis>& axes, const std::vector<Axis>& reductions,
                const std::vector<Scalar>& indices, const std::vector<Expr>& extents) {
  std::vector<Axis> domain = axes;
  domain.insert(domain.end(), reductions.begin(), reductions.end());
  std::erase_if(domain, [](const Axis& a) { return a.extent.is_constant(1); });
  // Each axis moves an index of its own: different points read different elements.
  std::vector<bool> taken(indices.size(), false);
  const auto has_own_index = [&](const Axis& axis) {
    for (size_t k = 0; k < indices.size(); ++k) {
      const Expr e = ir::as_expr(indices[k]);
      if (!e || taken[k] || !symbolic::depends_on(e, axis.var)) continue;
      const auto form = symbolic::affine_in(e, axis.var);
      if (!form || !is_known_positive_or_negative(form->coefficient)) continue;
      const bool alone = std::none_of(domain.begin(), domain.end(),
                                      [&](const Axis& o) { return symbolic::depends_on(form->rest, o.var); });
      if (!alone) continue;
      taken[k] = true;
      return true;
    }
    return false;
  };
  if (std::all_of(domain.begin(), domain.end(), has_own_index)) return true;
  // Or there are no more points than elements.
  std::vector<Expr> points;
  points.reserve(domain.size());
  for (const Axis& a : domain) points.push_back(a.extent);
  return graph.constraints.less_equal(product_of(graph, points), product_of(graph, extents)) == Truth::kYes;
}

}  // namespace stax::tensor
