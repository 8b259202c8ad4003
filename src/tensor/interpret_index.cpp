// SPDX-License-Identifier: Apache-2.0
#include "tensor/interpret_index.h"

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "symbolic/interval.h"

namespace stax::tensor::reference {

using symbolic::ExprKind;
using symbolic::Interval;
using symbolic::kNegInf;
using symbolic::kPosInf;
using symbolic::saturating_add;
using symbolic::saturating_mul;

bool AffineForm::is_constant() const {
  return std::all_of(coefficients.begin(), coefficients.end(), [](int64_t c) { return c == 0; });
}

IndexForms::IndexForms(const std::vector<Expr>& vars, std::vector<int64_t> extents, const Bindings& bindings)
    : extents_(std::move(extents)), bindings_(bindings) {
  for (size_t d = 0; d < vars.size(); ++d) {
    if (vars[d]) axis_of_.emplace(vars[d].node(), static_cast<int>(d));
  }
}

AffineForm IndexForms::constant(int64_t v) const { return {v, std::vector<int64_t>(extents_.size(), 0), {v, v}}; }

void IndexForms::set_range(AffineForm& f) const {
  f.range = {f.base, f.base};
  for (size_t d = 0; d < extents_.size(); ++d) {
    const int64_t c = f.coefficients[d];
    if (c != 0) f.range = symbolic::add(f.range, symbolic::multiply({c, c}, {0, extents_[d] - 1}));
  }
}

const IndexForm& IndexForms::of(Expr e) {
  if (const auto found = forms_.find(e.node()); found != forms_.end()) return found->second;
  IndexForm f = make(e);
  if (f.affine) f.range = f.affine->range;
  return forms_.emplace(e.node(), std::move(f)).first->second;
}

IndexForm IndexForms::make(Expr e) {
  IndexForm f;
  if (const auto axis = axis_of_.find(e.node()); axis != axis_of_.end()) {
    f.affine = constant(0);
    f.affine->coefficients[axis->second] = 1;
    set_range(*f.affine);
    return f;
  }
  if (e.is_constant() || e.is_symbol()) {
    f.affine = constant(symbolic::evaluate(e, bindings_));
    return f;
  }
  std::vector<const IndexForm*> args;
  std::vector<Interval> ranges;
  std::vector<int64_t> values;
  bool all_affine = true;
  for (Expr a : e.args()) {
    const IndexForm& form = of(a);
    args.push_back(&form);
    ranges.push_back(form.range);
    all_affine = all_affine && form.affine;
    if (form.affine && form.affine->is_constant()) values.push_back(form.affine->base);
  }
  if (values.size() == args.size()) {
    f.affine = constant(symbolic::apply(e.kind(), values));
    return f;
  }
  if (e.kind() == ExprKind::kSelect && (ranges[0] == Interval{0, 0} || ranges[0].lo > 0))
    return *args[ranges[0].lo > 0 ? 1 : 2];
  if (all_affine) f.affine = combine(e.kind(), args, ranges);
  if (f.affine) return f;
  f.range = symbolic::range_from(e.kind(), ranges);
  if (f.range.is_constant()) {
    f.affine = constant(f.range.lo);
    return f;
  }
  f.kind = e.kind();
  f.args.assign(e.args().begin(), e.args().end());
  return f;
}

/// The affine form of an operation on affine forms, or nullopt. A form whose bounds reach the ends of int64 is computed
/// point by point, as saturation is not affine.
std::optional<AffineForm> IndexForms::combine(ExprKind kind, const std::vector<const IndexForm*>& args,
                                              const std::vector<Interval>& ranges) const {
  AffineForm r = constant(0);
  switch (kind) {
    case ExprKind::kAdd:
      for (const IndexForm* a : args) {
        r.base = saturating_add(r.base, a->affine->base);
        for (size_t d = 0; d < extents_.size(); ++d) {
          r.coefficients[d] = saturating_add(r.coefficients[d], a->affine->coefficients[d]);
        }
      }
      break;
    case ExprKind::kMul: {
      int64_t factor = 1;
      const AffineForm* varying = nullptr;
      for (const IndexForm* a : args) {
        if (a->affine->is_constant()) {
          factor = saturating_mul(factor, a->affine->base);
        } else if (varying == nullptr) {
          varying = &*a->affine;
        } else {
          return std::nullopt;
        }
      }
      r.base = saturating_mul(varying->base, factor);
      for (size_t d = 0; d < extents_.size(); ++d) {
        r.coefficients[d] = saturating_mul(varying->coefficients[d], factor);
      }
      break;
    }
    case ExprKind::kMod:
      if (!ranges[1].is_constant() || ranges[0].lo < 0 || ranges[0].hi >= ranges[1].lo) return std::nullopt;
      return args[0]->affine;
    case ExprKind::kFloorDiv:
      if (ranges[1] != Interval{1, 1}) return std::nullopt;
      return args[0]->affine;
    case ExprKind::kMin:
    case ExprKind::kMax:
      for (size_t k = 0; k < args.size(); ++k) {
        bool wins = true;
        for (size_t j = 0; j < args.size(); ++j) {
          const bool beats = kind == ExprKind::kMin ? ranges[k].hi <= ranges[j].lo : ranges[k].lo >= ranges[j].hi;
          wins = wins && (j == k || beats);
        }
        if (wins) return args[k]->affine;
      }
      return std::nullopt;
    case ExprKind::kLess:
    case ExprKind::kEqual:
    case ExprKind::kSelect:
    case ExprKind::kConstant:
    case ExprKind::kSymbol: return std::nullopt;
  }
  set_range(r);
  if (r.range.lo == kNegInf || r.range.hi == kPosInf) return std::nullopt;
  return r;
}

void evaluate_expr_block(ExprKind kind, const std::vector<const int64_t*>& x, int64_t* out, int64_t n) {
  const auto fold = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t r = x[0][i];
      for (size_t k = 1; k < x.size(); ++k) r = f(r, x[k][i]);
      out[i] = r;
    }
  };
  switch (kind) {
    case ExprKind::kAdd: return fold(saturating_add);
    case ExprKind::kMul: return fold(saturating_mul);
    case ExprKind::kMin: return fold([](int64_t a, int64_t b) { return std::min(a, b); });
    case ExprKind::kMax: return fold([](int64_t a, int64_t b) { return std::max(a, b); });
    case ExprKind::kFloorDiv: return fold(symbolic::floor_div);
    case ExprKind::kMod: return fold(symbolic::floor_mod);
    case ExprKind::kLess: return fold([](int64_t a, int64_t b) { return int64_t{a < b}; });
    case ExprKind::kEqual: return fold([](int64_t a, int64_t b) { return int64_t{a == b}; });
    case ExprKind::kSelect:
      for (int64_t i = 0; i < n; ++i) out[i] = x[0][i] != 0 ? x[1][i] : x[2][i];
      return;
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::tensor::reference
