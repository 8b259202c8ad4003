// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "loop/interpret_evaluator.h"
#include "support/error.h"

namespace stax::loop {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::ExprKind;

Evaluator::Evaluator(Machine& machine, const std::vector<For>& box) : machine_(machine), ints_(machine) {
  for (const For& f : box) {
    variables_.push_back(f.var);
    extent_numbers_.push_back(ints_.expr(f.extent));
  }
  extents_.resize(box.size());
}

int Evaluator::add(BlockStep step) {
  for (int arg : step.args) step.uniform = step.uniform && steps_[arg].uniform;
  if (step.mask >= 0) step.uniform = step.uniform && steps_[step.mask].uniform;
  if (step.kind == BlockStep::Kind::kMask) {
    step.bytes.resize(block());
  } else {
    step.values.resize(block());
  }
  if (step.kind == BlockStep::Kind::kConstant) std::fill(step.values.begin(), step.values.end(), step.constant);
  steps_.push_back(std::move(step));
  return static_cast<int>(steps_.size()) - 1;
}

Form Evaluator::form(Expr e) {
  if (const auto found = forms_.find(e.node()); found != forms_.end()) return found->second;
  const Form result = make_form(e);
  forms_.emplace(e.node(), result);
  return result;
}

Form Evaluator::make_form(Expr e) {
  const auto is_free = [&](Expr x) {
    return std::none_of(variables_.begin(), variables_.end(), [&](Expr v) { return symbolic::depends_on(x, v); });
  };
  if (is_free(e)) return {ints_.expr(e), {}, -1};
  if (e.is_symbol()) {
    Form f{ints_.constant(0), std::vector<int64_t>(variables_.size(), 0), -1};
    const auto at = std::find(variables_.begin(), variables_.end(), e) - variables_.begin();
    f.coefficients[static_cast<size_t>(at)] = 1;
    return f;
  }
  if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul || e.kind() == ExprKind::kMin ||
      e.kind() == ExprKind::kMax) {
    Form result = form(e.args()[0]);
    for (Expr arg : e.args().subspan(1)) result = combine(e.kind(), result, form(arg));
    return result;
  }
  BlockStep step{.kind = BlockStep::Kind::kIndex, .index = e.kind()};
  for (Expr arg : e.args()) step.args.push_back(step_of(arg));
  return {0, {}, add(std::move(step))};
}

Form Evaluator::combine(ExprKind kind, const Form& a, const Form& b) {
  const bool affine = !a.is_array() && !b.is_array();
  if (affine && kind == ExprKind::kAdd) {
    Form sum{ints_.apply(kind, {a.uniform, b.uniform}), a.coefficients, -1};
    if (sum.coefficients.empty()) sum.coefficients.resize(b.coefficients.size());
    for (size_t d = 0; d < b.coefficients.size(); ++d) sum.coefficients[d] += b.coefficients[d];
    return sum;
  }
  if (affine && kind == ExprKind::kMul) {
    const Form *scale = &a, *scaled = &b;
    if (!scale->coefficients.empty()) std::swap(scale, scaled);
    const bool is_number = scale->coefficients.empty() && ints_.is_constant(scale->uniform);
    constexpr int64_t kLargest = int64_t{1} << 40;  // beyond, sums of products could overflow
    if (is_number && std::abs(ints_[scale->uniform]) < kLargest) {
      Form product{ints_.apply(kind, {scaled->uniform, scale->uniform}), scaled->coefficients, -1};
      bool fits = true;
      for (int64_t& c : product.coefficients) {
        fits = fits && std::abs(c) < kLargest;
        if (fits) c *= ints_[scale->uniform];
        fits = fits && std::abs(c) < kLargest;
      }
      if (fits) return product;
    }
  }
  if (affine && a.coefficients.empty() && b.coefficients.empty()) {
    return {ints_.apply(kind, {a.uniform, b.uniform}), {}, -1};
  }
  BlockStep step{.kind = BlockStep::Kind::kIndex, .index = kind};
  step.args = {step_of(a), step_of(b)};
  return {0, {}, add(std::move(step))};
}

int Evaluator::step_of(Expr e) {
  if (const auto found = arrays_.find(e.node()); found != arrays_.end()) return found->second;
  const int step = step_of(form(e));
  arrays_.emplace(e.node(), step);
  return step;
}

int Evaluator::step_of(const Form& f) {
  if (f.is_array()) return f.step;
  if (f.coefficients.empty()) return add({.kind = BlockStep::Kind::kInteger, .number = f.uniform});
  BlockStep step{.kind = BlockStep::Kind::kAffine, .uniform = false, .number = f.uniform};
  step.offsets.coefficients = f.coefficients;
  return add(std::move(step));
}

bool Evaluator::has_effect(Scalar x) {
  if (const auto found = effects_.find(x.node()); found != effects_.end()) return found->second;
  bool result = x->kind == ScalarKind::kLoad || (x->kind == ScalarKind::kOp && x->op == ScalarOp::kCheckedIndex);
  for (Scalar arg : x->args) result = has_effect(arg) || result;
  return effects_[x.node()] = result;
}

bool Evaluator::implies(int mask, int other) const {
  for (; mask >= 0; mask = steps_[mask].mask) {
    if (mask == other) return true;
  }
  return other < 0;
}

int Evaluator::mask_of(int condition, bool holds, int outer) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const BlockStep& s = steps_[i];
    if (s.kind == BlockStep::Kind::kMask && s.args[0] == condition && s.holds == holds && s.mask == outer) {
      return static_cast<int>(i);
    }
  }
  return add({.kind = BlockStep::Kind::kMask, .holds = holds, .mask = outer, .args = {condition}});
}

int Evaluator::scalar(Scalar x, int mask) {
  if (!has_effect(x)) mask = -1;
  for (const Version& v : versions_[x.node()]) {
    if (implies(mask, v.mask)) return v.step;
  }
  const int step = make_scalar(x, mask);
  versions_[x.node()].push_back({mask, step});
  return step;
}

int Evaluator::make_scalar(Scalar x, int mask) {
  BlockStep step{.dtype = x->dtype, .mask = mask};
  switch (x->kind) {
    case ScalarKind::kConstant:
      if (ir::is_float(x->dtype)) {
        step.constant.f = x->as_double();
      } else {
        step.constant.i = x->as_int();
      }
      return add(std::move(step));
    case ScalarKind::kIndex: return step_of(x->index);
    case ScalarKind::kLoad:
      step.kind = BlockStep::Kind::kLoad;
      step.place = place(x->slot, x->args, mask);
      for (const Form& f : places_[step.place]->index) {
        step.uniform = step.uniform && f.coefficients.empty() && (!f.is_array() || steps_[f.step].uniform);
      }
      return add(std::move(step));
    case ScalarKind::kAccumulator: break;
    case ScalarKind::kOp:
      step.op = x->op;
      if (x->op == ScalarOp::kSelect) {
        step.kind = BlockStep::Kind::kSelect;
        const int condition = scalar(x->args[0], mask);
        step.args = {condition, branch(x->args[1], condition, true, mask), branch(x->args[2], condition, false, mask)};
        return add(std::move(step));
      }
      step.kind = x->op == ScalarOp::kCheckedIndex ? BlockStep::Kind::kCheckedIndex : BlockStep::Kind::kOp;
      step.from = x->args[0]->dtype;
      for (Scalar arg : x->args) step.args.push_back(scalar(arg, mask));
      return add(std::move(step));
    case ScalarKind::kCast:
      step.kind = BlockStep::Kind::kCast;
      step.from = x->args[0]->dtype;
      step.args = {scalar(x->args[0], mask)};
      return add(std::move(step));
  }
  STAX_UNREACHABLE();
}

int Evaluator::branch(Scalar x, int condition, bool holds, int mask) {
  return scalar(x, has_effect(x) ? mask_of(condition, holds, mask) : -1);
}

int Evaluator::place(int slot, const std::vector<Scalar>& index, int mask) {
  auto p = std::make_unique<Place>();
  p->slot = slot;
  p->affine = true;
  for (Scalar i : index) {
    if (const Expr e = ir::as_expr(i)) {
      p->index.push_back(form(e));
    } else {
      p->index.push_back({0, {}, scalar(i, mask)});
    }
    p->affine = p->affine && !p->index.back().is_array();
    p->by_index.push_back({p->index.back().coefficients, {}, {}});
  }
  p->within.resize(index.size());
  if (p->affine) {
    const std::vector<int64_t>& strides = machine_.buffers[slot].strides;
    Form sum{ints_.constant(0), std::vector<int64_t>(variables_.size(), 0), -1};
    for (size_t k = 0; k < index.size() && p->affine; ++k) {
      const Form scaled = combine(ExprKind::kMul, p->index[k], {ints_.constant(strides[k]), {}, -1});
      p->affine = !scaled.is_array();
      if (p->affine) sum = combine(ExprKind::kAdd, sum, scaled);
    }
    p->base = sum.uniform;
    p->offsets.coefficients = sum.coefficients;
  }
  places_.push_back(std::move(p));
  return static_cast<int>(places_.size()) - 1;
}

}  // namespace stax::loop
