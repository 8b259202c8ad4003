// SPDX-License-Identifier: Apache-2.0
#include "tensor/byte_dot.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;
using ir::ScalarOp;

/// The only index of `load` that mentions `var`, if it is the variable itself; -1 otherwise, -2 where there is none.
int bare_index(Scalar load, Expr var) {
  constexpr int kOther = -1, kNone = -2;
  int found = kNone;
  for (size_t k = 0; k < load->args.size(); ++k) {
    const Expr e = ir::as_expr(load->args[k]);
    if (!e) return kOther;
    if (!symbolic::depends_on(e, var)) continue;
    if (found != kNone || e != var) return kOther;
    found = static_cast<int>(k);
  }
  return found;
}

double extent_of(const Axis& axis) {
  constexpr double kUnknown = 64;
  return axis.extent.is_constant() ? static_cast<double>(axis.extent.constant()) : kUnknown;
}

Scalar widened_load(Scalar s, DType type) {
  if (s->kind != ScalarKind::kCast || s->dtype != DType::kI32) return {};
  const Scalar load = s->args[0];
  return load->kind == ScalarKind::kLoad && load->dtype == type ? load : Scalar();
}

}  // namespace

std::optional<ByteDot> match_byte_dot(const Compute& c, Scalar rows, Scalar columns) {
  // Fewer columns leave most of a tile empty; a shorter group most of the products.
  constexpr double kFewestColumns = 16, kShortestGroup = 3;
  ByteDot dot{rows, columns};
  double widest = 0, longest = 0;
  for (size_t d = 0; d < c.axes.size(); ++d) {
    const int at = bare_index(columns, c.axes[d].var);
    if (at < 0 || bare_index(rows, c.axes[d].var) != -2 || extent_of(c.axes[d]) < std::max(widest, kFewestColumns))
      continue;
    widest = extent_of(c.axes[d]);
    dot.column_axis = static_cast<int>(d);
    dot.column_index = at;
  }
  for (size_t r = 0; r < c.reductions.size(); ++r) {
    const int row = bare_index(rows, c.reductions[r].var), column = bare_index(columns, c.reductions[r].var);
    if (row < 0 || column < 0) continue;
    // As it lies in memory rather than longer.
    const bool last = row + 1 == static_cast<int>(rows->args.size());
    const double length = extent_of(c.reductions[r]) * (last ? 1e6 : 1);
    if (extent_of(c.reductions[r]) < kShortestGroup || length < longest) continue;
    longest = length;
    dot.group = static_cast<int>(r);
    dot.row_group = row;
    dot.column_group = column;
  }
  if (dot.column_axis < 0 || dot.group < 0) return std::nullopt;
  return dot;
}

std::optional<ByteDot> byte_dot_of(const Compute& c) {
  if (c.combiner != Combiner::kSum || c.accumulate != DType::kI32) return std::nullopt;
  const Scalar product = c.body;
  if (product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Scalar rows = widened_load(product->args[side], DType::kU8),
                 columns = widened_load(product->args[1 - side], DType::kI8);
    if (!rows || !columns) continue;
    const auto dot = match_byte_dot(c, rows, columns);
    if (!dot || dot->row_group + 1 != static_cast<int>(rows->args.size())) continue;
    if (!symbolic::mod(c.reductions[dot->group].extent, kByteGroup).is_constant(0)) continue;
    return dot;
  }
  return std::nullopt;
}

}  // namespace stax::tensor
