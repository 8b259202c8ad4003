// SPDX-License-Identifier: Apache-2.0
// Products of matrices. A product is a sum over one axis of the product of two loads, whose indices are the bare axis
// variables: the form by which the scheduler knows a contraction. Transposed operands only change the order of indices.
#include <algorithm>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {

using ir::ScalarOp;

std::vector<Expr> Product::Point::all() const {
  std::vector<Expr> out = batch;
  if (row) out.push_back(row);
  if (column) out.push_back(column);
  return out;
}

Value* product(Builder& b, const Product& p) {
  const int rank_a = p.a->type.static_rank(), rank_b = p.b->type.static_rank();
  const bool vector_a = rank_a == 1, vector_b = rank_b == 1;
  const bool turn_a = p.transpose_a && !vector_a, turn_b = p.transpose_b && !vector_b;
  const int batch_a = vector_a ? 0 : rank_a - 2, batch_b = vector_b ? 0 : rank_b - 2;
  const int batch = std::max(batch_a, batch_b);
  // A vector would lose an axis that a view of run-time rank cannot drop.
  Expr rank;
  if (!p.a->type.has_static_rank() || !p.b->type.has_static_rank()) {
    rank = symbolic::max(rank_of(b, p.a), rank_of(b, p.b));
    for (const Value* v : {p.a, p.b})
      b.check(symbolic::less_equal(b.constant_expr(2), rank_of(b, v)), "a factor has rank {0}, less than 2", {rank_of(b, v)});
  }
  const Expr depth = b.extent(p.a, turn_a ? -2 : -1), depth_b = b.extent(p.b, vector_b || turn_b ? -1 : -2);
  check_equal(b, depth, depth_b, "inner extents of a matrix product");

  std::vector<Expr> extents;
  for (int d = 0; d < batch; ++d) {
    const int in_a = d - (batch - batch_a), in_b = d - (batch - batch_b);
    if (in_a < 0) extents.push_back(b.extent(p.b, in_b));
    else if (in_b < 0) extents.push_back(b.extent(p.a, in_a));
    else
      extents.push_back(b.broadcast_extent(b.extent(p.a, in_a), b.extent(p.b, in_b),
                                           "batch axis " + std::to_string(d) + " of a matrix product"));
  }
  const std::vector<Expr> batch_extents = extents;
  if (!vector_a) extents.push_back(b.extent(p.a, turn_a ? -1 : -2));
  if (!vector_b) extents.push_back(b.extent(p.b, turn_b ? -2 : -1));

  const auto point_of = [&](const std::vector<Expr>& i) {
    Product::Point point;
    point.batch = part(i, 0, batch);
    point.batch_extents = batch_extents;
    if (!vector_a) point.row = i[batch];
    if (!vector_b) point.column = i.back();
    return point;
  };
  const auto index = [&](const Value* v, int own, const Product::Point& point, Expr first, Expr second) {
    std::vector<Expr> at;
    for (int d = 0; d < own; ++d) {
      const int of_result = d + batch - own;
      at.push_back(broadcast_index(b, point.batch[of_result], b.extent(v, d), batch_extents[of_result]));
    }
    if (first) at.push_back(first);
    if (second) at.push_back(second);
    return at;
  };
  const auto body = [&](Body& body) {
    const Product::Point point = point_of(body.i);
    const Expr k = body.r[0];
    Scalar x = body.load(p.a, turn_a ? index(p.a, batch_a, point, k, point.row) : index(p.a, batch_a, point, point.row, k));
    Scalar y = body.load(p.b, turn_b ? index(p.b, batch_b, point, point.column, k)
                                     : index(p.b, batch_b, point, k, point.column));
    x = p.element_a ? p.element_a(body, x, point) : ir::cast(p.accumulate, x);
    y = p.element_b ? p.element_b(body, y, point) : ir::cast(p.accumulate, y);
    return x * y;
  };
  tensor::EpilogueFn finish;
  if (p.finish) finish = [&](Body& body, Scalar a) { return p.finish(body, a, point_of(body.i)); };
  Value* y = b.reduce(Combiner::kSum, p.accumulate, extents, {depth}, body, finish);
  y->type.rank = rank;
  return y;
}

namespace {

Value* plain_product(Builder& b, Value* x, Value* y, bool turn_x, bool turn_y, double alpha) {
  const DType t = x->type.dtype;
  Product p{.a = x, .b = y, .transpose_a = turn_x, .transpose_b = turn_y, .accumulate = product_accumulator(t)};
  p.finish = [&](Body& body, Scalar a, const Product::Point&) {
    return ir::cast(t, alpha == 1 ? a : a * body.number(a->dtype, alpha));
  };
  return product(b, p);
}

void need_same_type(const Node& n) {
  if (n.dtype(0) != n.dtype(1)) n.fault("both factors have to have one type");
}

void import_mat_mul(Node& n) {
  need_same_type(n);
  for (int k = 0; k < 2; ++k)
    if (n.rank(k) == 0) n.fault("a factor is a number, not a vector or matrix");
  n.output(0, n.b().matmul(n.input(0), n.input(1)));
}

/// alpha * A * B + beta * C. C does not count where beta is 0.
void import_gemm(Node& n) {
  Builder& b = n.b();
  need_same_type(n);
  need_rank(n, 0, 2, 2);
  need_rank(n, 1, 2, 2);
  const DType t = n.dtype();
  const double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  Value* c = n.optional(2);
  Product p{.a = n.input(0), .b = n.input(1), .accumulate = product_accumulator(t)};
  p.transpose_a = n.integer("transA", 0) != 0;
  p.transpose_b = n.integer("transB", 0) != 0;
  const std::vector<Expr> extents = {n.extent(0, p.transpose_a ? 1 : 0), n.extent(1, p.transpose_b ? 0 : 1)};
  if (c) {
    const int rank = need_rank(n, 2, 0, 2);
    for (int d = 0; d < rank; ++d) check_broadcast(b, b.extent(c, d), extents[2 - rank + d], "C");
  }
  p.finish = [&](Body& body, Scalar a, const Product::Point&) {
    const DType s = a->dtype;
    if (alpha != 1) a = ir::is_float(s) ? a * body.number(s, alpha) : ir::cast(s, ir::cast(DType::kF64, a) * body.number(DType::kF64, alpha));
    if (c && beta != 0) {
      Scalar shift = ir::cast(s, body.load_broadcast(c, body.i, extents));
      if (beta != 1) shift = ir::is_float(s) ? shift * body.number(s, beta) : ir::cast(s, ir::cast(DType::kF64, shift) * body.number(DType::kF64, beta));
      a = a + shift;
    }
    return ir::cast(t, a);
  };
  n.output(0, product(b, p));
}

/// com.microsoft: `transBatch` moves the first axis to the place before the last.
void import_fused_mat_mul(Node& n) {
  Builder& b = n.b();
  need_same_type(n);
  const auto operand = [&](int k, const char* flag) {
    Value* v = n.input(k);
    const int rank = need_rank(n, k, 1);
    if (n.integer(flag, 0) == 0 || rank < 3) return v;
    std::vector<int> order;
    for (int d = 1; d < rank - 1; ++d) order.push_back(d);
    order.push_back(0);
    order.push_back(rank - 1);
    return b.transpose(v, order);
  };
  n.output(0, plain_product(b, operand(0, "transBatchA"), operand(1, "transBatchB"), n.integer("transA", 0) != 0,
                            n.integer("transB", 0) != 0, n.real("alpha", 1)));
}

void import_det(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 2);
  Value* x = n.input(0);
  const DType t = n.dtype();
  check_equal(b, n.extent(0, rank - 2), n.extent(0, rank - 1), "rows and columns of a square matrix");
  Value* wide = as_type(b, x, ir::compute_type(t));
  const tensor::Type type = tensor::Type::tensor(wide->type.dtype, extents_of(x, 0, rank - 2));
  n.output(0, as_type(b, b.op(tensor::Determinant{}, {wide}, {type})->result(), t));
}

constexpr OperatorRow kRows[] = {
    {"", "MatMul", 1, import_mat_mul},
    {"", "Gemm", 7, import_gemm},
    {"com.microsoft", "FusedMatMul", 1, import_fused_mat_mul},
    {"com.microsoft", "TransposeMatMul", 1, import_fused_mat_mul},
    {"", "Det", 11, import_det},
};

}  // namespace

std::span<const OperatorRow> linear_operators() {
  static const std::vector<OperatorRow> rows = joined_rows({kRows, einsum_rows(), attention_rows(), transformer_rows()});
  return rows;
}

}  // namespace stax::frontend
