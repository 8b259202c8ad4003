// SPDX-License-Identifier: Apache-2.0
#include "lower/kernel_scope.h"

#include "support/error.h"

namespace stax::lower {

using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;
using symbolic::ExprKind;

Expr KernelScope::new_param(Expr value, bool is_extent) {
  const symbolic::Interval known = value.range();
  symbolic::SymbolInfo info;
  info.name = "p" + std::to_string(kernel_.params.size());
  info.kind = symbolic::SymbolKind::kParam;
  // Ranges are coarse on purpose: a kernel is shared by all extents alike. That a choice is 0 or 1 is kept.
  if (is_extent)
    info.range = {known.lo >= 1 ? 1 : 0, known.hi <= symbolic::kMaxExtent ? symbolic::kMaxExtent : symbolic::kPosInf};
  else
    info.range = {known.lo >= 0 ? 0 : symbolic::kNegInf, known.hi <= 1 ? 1 : symbolic::kPosInf};
  Expr param = exprs().new_symbol(std::move(info));
  kernel_.params.push_back(param);
  param_values_.push_back(value);
  exprs_[value.node()] = param;
  return param;
}

namespace {

// A choice or a division in a function of the shape alone: the host computes it once a call.
bool is_choice_of_shape(Expr e) {
  bool choice = false, of_shape = true;
  symbolic::visit(e, [&](Expr x) {
    if (x.is_symbol()) {
      of_shape &= x.symbol().kind != symbolic::SymbolKind::kLoop;
    } else {
      choice |= !x.is_constant() && x.kind() != ExprKind::kAdd && x.kind() != ExprKind::kMul;
    }
  });
  return choice && of_shape;
}

int64_t constant_term(Expr sum) {
  for (Expr term : sum.args())
    if (term.is_constant()) return term.constant();
  return 0;
}

bool depends_on_loops(Expr e) {
  for (Expr s : symbolic::free_symbols(e))
    if (s.symbol().kind == symbolic::SymbolKind::kLoop) return true;
  return false;
}

}  // namespace

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
  if (is_choice_of_shape(e)) {
    // The bounds of padding are those of an extent, moved.
    const int64_t offset = e.kind() == ExprKind::kAdd ? constant_term(e) : 0;
    if (offset == 0) return new_param(e, false);
    return exprs_[e.node()] = expr(e - offset) + offset;
  }
  std::vector<Expr> args;
  if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul) return sum(e);
  for (Expr a : e.args()) args.push_back(expr(a));
  Expr result = exprs().make(e.kind(), std::move(args));
  exprs_[e.node()] = result;
  return result;
}

// What depends on the shape alone is collected for each loop variable (or product of them): a broadcast's strides are such sums.
Expr KernelScope::sum(Expr e) {
  symbolic::ExprTable& table = e.table();
  std::vector<std::pair<Expr, Expr>> terms;  // what depends on loops, and its factor
  const auto add = [&](Expr term) {
    std::vector<Expr> of_loops, of_shape;
    const std::vector<Expr> factors =
        term.kind() == ExprKind::kMul ? std::vector<Expr>(term.args().begin(), term.args().end()) : std::vector{term};
    for (Expr f : factors) (depends_on_loops(f) ? of_loops : of_shape).push_back(f);
    const Expr variable = table.make(ExprKind::kMul, std::move(of_loops)),
               factor = table.make(ExprKind::kMul, std::move(of_shape));
    for (auto& [known, sum] : terms) {
      if (known != variable) continue;
      sum = sum + factor;
      return;
    }
    terms.emplace_back(variable, factor);
  };
  if (e.kind() == ExprKind::kAdd) {
    for (Expr term : e.args()) add(term);
  } else {
    add(e);
  }
  const auto by_parts = [&](Expr x) {
    if (x.kind() != ExprKind::kAdd && x.kind() != ExprKind::kMul) return expr(x);
    if (auto it = exprs_.find(x.node()); it != exprs_.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : x.args()) args.push_back(expr(a));
    return exprs().make(x.kind(), std::move(args));
  };
  Expr result = constant(0);
  for (const auto& [variable, factor] : terms)
    result = result + by_parts(variable) * (is_choice_of_shape(factor) ? expr(factor) : by_parts(factor));
  return exprs_[e.node()] = result;
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
