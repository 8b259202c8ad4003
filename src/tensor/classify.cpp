// SPDX-License-Identifier: Apache-2.0
// The vector axis of a contraction, in order of preference:
//   1. the last axis of the result, if it is a bare index of one load only: the result is then written as it is read.
//   For a matrix product
//      that is the column, whatever the layout of the second operand;
//   2. another axis that is a bare index of a load all of whose indices are bare: the output channel of a convolution,
//   whose weights can be
//      laid out freely;
//   3. an axis along which one load is contiguous as it stands: the width of a depthwise convolution.
// The others are left without: laying out a window's operand anew costs more than it brings.
#include "tensor/classify.h"

#include <algorithm>

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;

namespace {

bool depends_on_any(Scalar x, const std::vector<Axis>& axes) {
  bool found = false;
  visit(x, [&](Scalar node) {
    if (found || node->kind != ScalarKind::kIndex) return;
    found =
        std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return symbolic::depends_on(node->index, a.var); });
  });
  return found;
}

/// The one load of a factor that moves with the reductions; null if the factor is of another form.
Scalar factor_load(Scalar factor, const std::vector<Axis>& reductions) {
  Scalar load;
  bool legal = true;
  visit(factor, [&](Scalar x) {
    switch (x->kind) {
      case ScalarKind::kLoad:
        for (Scalar index : x->args) legal = legal && ir::as_expr(index);
        if (!legal || !depends_on_any(x, reductions)) return;
        legal = !load;
        load = x;
        return;
      case ScalarKind::kOp:
        legal =
            legal && (x->op == ScalarOp::kAdd || x->op == ScalarOp::kSub || x->op == ScalarOp::kMul || padded_load(x));
        return;
      case ScalarKind::kConstant:
      case ScalarKind::kCast:
      case ScalarKind::kIndex: return;
      case ScalarKind::kAccumulator: legal = false; return;
    }
  });
  if (!legal || !load) return {};
  // The load moves linearly through the factor: below it stand only casts and sums and products with what does not
  // move.
  for (Scalar x = factor; x != load;) {
    if (padded_load(x)) {
      x = x->args[1];
      continue;
    }
    std::vector<Scalar> moving;
    for (Scalar a : x->args) {
      if (depends_on_any(a, reductions)) moving.push_back(a);
    }
    if (moving.size() != 1) return {};
    x = moving[0];
  }
  return load;
}

/// Indices of a load that mention an axis.
std::vector<int> indices_with(Scalar load, Expr var) {
  std::vector<int> found;
  for (size_t k = 0; k < load->args.size(); ++k) {
    if (symbolic::depends_on(ir::as_expr(load->args[k]), var)) found.push_back(static_cast<int>(k));
  }
  return found;
}

bool is_bare(Scalar load, int index, Expr var) { return ir::as_expr(load->args[index]) == var; }

bool all_bare(Scalar load) {
  return std::all_of(load->args.begin(), load->args.end(), [](Scalar a) {
    const Expr e = ir::as_expr(a);
    return e.is_constant() || e.is_symbol();
  });
}

bool is_unit_step(Scalar load, int index, Expr var) {
  const auto form = symbolic::affine_in(ir::as_expr(load->args[index]), var);
  return form && form->coefficient.is_constant(1);
}

void choose_vector_axis(const Compute& c, Contraction& r) {
  // A register tile has 32 columns: an axis of few elements leaves most of it empty.
  constexpr int64_t kShort = 16, kLong = 64;
  constexpr int kUnfit = 8, kNone = 16;
  int best_rank = kNone;
  for (int d = static_cast<int>(c.axes.size()) - 1; d >= 0; --d) {
    const Axis& axis = c.axes[d];
    if (axis.extent.is_constant(1)) continue;
    const std::vector<int> in_left = indices_with(r.left, axis.var), in_right = indices_with(r.right, axis.var);
    if (in_left.empty() == in_right.empty()) continue;
    const Scalar load = in_left.empty() ? r.right : r.left;
    const std::vector<int>& at = in_left.empty() ? in_right : in_left;
    if (at.size() != 1) continue;
    const bool last_index = at[0] + 1 == static_cast<int>(load->args.size());
    const auto shorter_than = [&](int64_t n) { return axis.extent.is_constant() && axis.extent.constant() < n; };
    int rank = kNone;
    if (is_bare(load, at[0], axis.var)) {
      if (d + 1 == static_cast<int>(c.axes.size())) {
        rank = shorter_than(kLong) && !all_bare(load) ? 3 : 1;
      } else if (all_bare(load)) {
        rank = 2;
      }
    }
    if (rank == kNone && last_index && is_unit_step(load, at[0], axis.var)) rank = 4;
    if (rank != kNone && shorter_than(kShort)) rank += kUnfit;
    if (rank >= best_rank) continue;
    best_rank = rank;
    r.vector_axis = d;
    r.vector_in_left = in_right.empty();
    r.vector_index = at[0];
    r.contiguous = last_index;
  }
}

}  // namespace

Scalar padded_load(Scalar x) {
  if (x->kind != ScalarKind::kOp || x->op != ScalarOp::kSelect) return {};
  const Scalar condition = x->args[0], load = x->args[1], zero = x->args[2];
  const bool on_indices = condition->kind == ScalarKind::kCast && condition->args[0]->kind == ScalarKind::kIndex;
  const bool is_zero = zero->kind == ScalarKind::kConstant && zero->bits == 0;
  return on_indices && is_zero && load->kind == ScalarKind::kLoad && ir::is_float(load->dtype) ? load : Scalar();
}

Classification classify(const Compute& c) {
  Classification out;
  if (c.combiner == Combiner::kNone) return out;
  out.kind = ComputeClass::kReduction;
  if (c.combiner != Combiner::kSum || c.reductions.empty()) return out;
  Scalar product = c.body;
  while (product->kind == ScalarKind::kCast) product = product->args[0];
  if (product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul) return out;
  Contraction r;
  r.left = factor_load(product->args[0], c.reductions);
  r.right = factor_load(product->args[1], c.reductions);
  if (!r.left || !r.right || r.left == r.right) return out;
  r.left_slot = r.left->slot;
  r.right_slot = r.right->slot;
  choose_vector_axis(c, r);
  for (int d = 0; d < static_cast<int>(c.axes.size()); ++d) {
    const bool by_left = !indices_with(r.left, c.axes[d].var).empty(),
               by_right = !indices_with(r.right, c.axes[d].var).empty();
    if (by_left && by_right) {
      r.batch_axes.push_back(d);
    } else if (by_left || by_right) {
      const bool with_vector = r.vector_axis >= 0 && r.vector_in_left == by_left;
      (with_vector ? r.n_axes : r.m_axes).push_back(d);
    }
  }
  out.kind = ComputeClass::kContraction;
  out.contraction = r;
  return out;
}

}  // namespace stax::tensor
