// SPDX-License-Identifier: Apache-2.0
#include "lower/kernel_scope.h"

#include "support/error.h"

namespace stax::lower {

using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;
using symbolic::ExprKind;

Expr KernelScope::new_param(Expr value, bool is_extent) {
  symbolic::Interval known = value.range();
  symbolic::SymbolInfo info;
  info.name = "p" + std::to_string(kernel_.params.size());
  info.kind = symbolic::SymbolKind::kParam;
  // Ranges are coarse on purpose: a kernel is shared by all extents alike.
  if (is_extent)
    info.range = {known.lo >= 1 ? 1 : 0, known.hi <= symbolic::kMaxExtent ? symbolic::kMaxExtent : symbolic::kPosInf};
  else
    info.range = {known.lo >= 0 ? 0 : symbolic::kNegInf, symbolic::kPosInf};
  Expr param = exprs().new_symbol(std::move(info));
  kernel_.params.push_back(param);
  param_values_.push_back(value);
  exprs_[value.node()] = param;
  return param;
}

Expr KernelScope::extent(Expr e) {
  if (e.is_constant()) return constant(e.constant());
  if (auto it = exprs_.find(e.node()); it != exprs_.end()) return it->second;
  return new_param(e, true);
}

Expr KernelScope::expr(Expr e) {
  if (e.is_constant()) return constant(e.constant());
  if (auto it = exprs_.find(e.node()); it != exprs_.end()) return it->second;
  if (e.is_symbol()) {
    STAX_ASSERT(e.symbol().kind != symbolic::SymbolKind::kLoop, "axis variable {} used outside of its op",
                e.symbol().name);
    return new_param(e, e.symbol().kind == symbolic::SymbolKind::kDim);
  }
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(expr(a));
  Expr result = exprs().make(e.kind(), std::move(args));
  exprs_[e.node()] = result;
  return result;
}

Scalar KernelScope::scalar(Scalar s) {
  if (auto it = scalars_.find(s.node()); it != scalars_.end()) return it->second;
  Scalar result;
  std::vector<Scalar> args;
  for (Scalar a : s->args) args.push_back(scalar(a));
  switch (s->kind) {
    case ScalarKind::kConstant:
      result = ir::is_float(s->dtype) ? scalars().constant(s->dtype, s->as_double())
                                      : scalars().constant_int(s->dtype, s->as_int());
      break;
    case ScalarKind::kIndex: result = scalars().index(expr(s->index)); break;
    case ScalarKind::kLoad:
    case ScalarKind::kAccumulator: result = leaf(s, std::move(args)); break;
    case ScalarKind::kOp: result = scalars().op(s->op, std::move(args)); break;
    case ScalarKind::kCast: result = scalars().cast(s->dtype, args[0]); break;
  }
  if (s->kind != ScalarKind::kAccumulator) scalars_[s.node()] = result;
  return result;
}

}  // namespace stax::lower
