// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax, Hardmax. Before opset 13 they act on the tensor flattened to a matrix at `axis`.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

Value* softmax(Builder& b, Value* x, int axis) { return b.softmax(x, axis); }

/// (x - max) - log(sum exp(x - max)): no quotient, so that small probabilities keep their digits.
Value* log_softmax_along(Builder& b, Value* x, int axis) {
  const DType t = x->type.dtype, work = ir::compute_type(t);
  Value* wide = as_type(b, x, work);
  Value* top = b.reduce_axes(Combiner::kMax, wide, {axis}, true, work);
  const Expr width = x->type.extents[axis];
  std::vector<Expr> rows = x->type.extents;
  rows[axis] = one_of(b);
  const auto at = [axis](std::vector<Expr> i, Expr along) {
    i[axis] = along;
    return i;
  };
  Value* spread = b.reduce(
      Combiner::kSum, work, rows, {width},
      [&](Body& body) {
        return ir::unary(ScalarOp::kExp,
                         body.load(wide, at(body.i, body.r[0])) - body.load(top, at(body.i, zero_of(b))));
      },
      [](Body&, Scalar a) { return ir::unary(ScalarOp::kLog, a); });
  return b.map(x->type.extents, [&](Body& body) {
    const std::vector<Expr> row = at(body.i, zero_of(b));
    return ir::cast(t, body.load(wide, body.i) - body.load(top, row) - body.load(spread, row));
  });
}

/// 1 at the first greatest element, 0 elsewhere.
Value* hardmax(Builder& b, Value* x, int axis) {
  const DType t = x->type.dtype;
  Value* best = b.reduce_axes(Combiner::kArgMaxFirst, x, {axis}, true, ir::compute_type(t));
  return b.map(x->type.extents, [&](Body& body) {
    std::vector<Expr> row = body.i;
    row[axis] = zero_of(b);
    return ir::cast(t, ir::equal(body.index(body.i[axis]), body.load(best, row)));
  });
}

void along_axis(Node& n, Value* (*f)(Builder&, Value*, int)) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  if (n.opset() >= 13) {
    n.output(0, keep_rank(f(b, x, axis_of(n, n.integer("axis", -1), x)), x));
    return;
  }
  const int axis = axis_of(n, n.integer("axis", 1), x), rank = x->type.static_rank();
  if (axis == rank - 1) {
    n.output(0, keep_rank(f(b, x, axis), x));
    return;
  }
  const Expr rows = b.product(extents_of(x, 0, axis)), columns = b.product(extents_of(x, axis));
  n.output(0, keep_rank(b.reshape(f(b, b.reshape(x, {rows, columns}), 1), x->type.extents), x));
}

void import_softmax(Node& n) { along_axis(n, softmax); }
void import_log_softmax(Node& n) { along_axis(n, log_softmax_along); }
void import_hardmax(Node& n) { along_axis(n, hardmax); }

constexpr OperatorRow kRows[] = {
    {"", "Softmax", 1, import_softmax},
    {"", "LogSoftmax", 1, import_log_softmax},
    {"", "Hardmax", 1, import_hardmax},
};

}  // namespace

Value* log_softmax(Builder& b, Value* x, int axis) { return log_softmax_along(b, x, axis); }

Rows softmax_rows() { return kRows; }

}  // namespace stax::frontend
