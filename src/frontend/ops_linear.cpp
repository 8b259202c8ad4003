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
      b.check(symbolic::less_equal(b.constant_expr(2), rank_of(b, v)), "a factor has rank {0}, less than 2",
              {rank_of(b, v)});
  }
  const Expr depth = b.extent(p.a, turn_a ? -2 : -1), depth_b = b.extent(p.b, vector_b || turn_b ? -1 : -2);
  check_equal(b, depth, depth_b, "inner extents of a matrix product");

  std::vector<Expr> extents;
  for (int d = 0; d < batch; ++d) {
    const int in_a = d - (batch - batch_a), in_b = d - (batch - batch_b);
    if (in_a < 0)
      extents.push_back(b.extent(p.b, in_b));
    else if (in_b < 0)
      extents.push_back(b.extent(p.a, in_a));
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
    Scalar x =
        body.load(p.a, turn_a ? index(p.a, batch_a, point, k, point.row) : index(p.a, batch_a, point, point.row, k));
    Scalar y = body.load(
        p.b, turn_b ? index(p.b, batch_b, point, point.column, k) : index(p.b, batch_b, point, k, point.column));
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

void import_mat_mul(Node& n) {
  n.same_dtype(0, 1);
  for (int k = 0; k < 2; ++k)
    if (n.rank(k) == 0) n.fault("a factor is a number, not a vector or matrix");
  n.output(0, n.b().matmul(n.input(0), n.input(1)));
}

/// v * factor, also of integers.
Scalar scaled(Body& body, Scalar v, double factor) {
  if (factor == 1) return v;
  if (ir::is_float(v->dtype)) return v * body.number(v->dtype, factor);
  return ir::cast(v->dtype, ir::cast(DType::kF64, v) * body.number(DType::kF64, factor));
}

/// alpha * A * B + beta * C, in the type of the sum completed by `finish` (may be empty). C does not count where beta is 0.
Value* gemm(Node& n, const Activation& finish) {
  Builder& b = n.b();
  n.same_dtype(0, 1);
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
    a = scaled(body, a, alpha);
    if (c && beta != 0) a = a + scaled(body, ir::cast(a->dtype, body.load_broadcast(c, body.i, extents)), beta);
    return ir::cast(t, finish ? finish(body, a) : a);
  };
  return product(b, p);
}

void import_gemm(Node& n) { n.output(0, gemm(n, {})); }

void import_fused_gemm(Node& n) {
  const auto parameter = [&n](const char* name) {
    return [&n, name] { return n.has_attribute(name) ? std::optional<double>(n.real(name, 0)) : std::nullopt; };
  };
  const std::string name = n.text("activation", "");
  n.output(0, gemm(n, name.empty()
                          ? Activation()
                          : activation_named(n, name, {parameter("activation_alpha"), parameter("activation_beta")})));
}

/// com.microsoft: B [n, blocks, bytes] holds weights of 2, 4 or 8 bits, the lowest bits of a byte first; each block along K has a scale
/// and perhaps a zero point, which is packed in the same way or a number of A's type.
void import_mat_mul_n_bits(Node& n) {
  Builder& b = n.b();
  const DType t = n.dtype(), work = product_accumulator(t);
  const int64_t depth = n.integer("K", 0), columns = n.integer("N", 0), bits = n.integer("bits", 4),
                block = n.integer("block_size", 0);
  if (depth < 1 || columns < 1 || block < 1) n.fault("K, N and block_size have to be given");
  if (bits != 2 && bits != 4 && bits != 8) n.unsupported("weights of " + std::to_string(bits) + " bits");
  if (n.integer("weight_prepacked", 0) != 0) n.unsupported("prepacked weights");
  if (n.has(4)) n.unsupported("g_idx");
  const int64_t blocks = (depth + block - 1) / block, of_byte = 8 / bits;
  const Expr k = b.constant_expr(depth), m = b.constant_expr(columns);
  Value* packed = b.reshape(n.input(1), {m, b.constant_expr(blocks), b.constant_expr(block / of_byte)});
  Value* scales = b.reshape(n.input(2), {m, b.constant_expr(blocks)});
  Value* zeros = n.optional(3);
  const bool packed_zeros = zeros && zeros->type.dtype == DType::kU8;
  if (zeros) zeros = b.reshape(zeros, {m, b.constant_expr(packed_zeros ? (blocks + of_byte - 1) / of_byte : blocks)});
  // The number `place` of those in a byte.
  const auto unpacked = [&](Body& body, Scalar byte, Expr place) {
    if (bits == 8) return ir::cast(work, byte);
    const Scalar shifted = ir::binary(ScalarOp::kShiftRight, byte, ir::cast(DType::kU8, body.index(place * bits)));
    return ir::cast(work, ir::binary(ScalarOp::kAnd, shifted, body.integer(DType::kU8, (1 << bits) - 1)));
  };
  Value* weights = b.map({m, k}, [&](Body& body) {
    const Expr row = body.i[0], in = symbolic::floordiv(body.i[1], block), at = symbolic::mod(body.i[1], block);
    const Scalar q =
        unpacked(body, body.load(packed, {row, in, symbolic::floordiv(at, of_byte)}), symbolic::mod(at, of_byte));
    Scalar zero = body.number(work, static_cast<double>(1 << (bits - 1)));
    if (zeros && !packed_zeros) zero = ir::cast(work, body.load(zeros, {row, in}));
    if (packed_zeros)
      zero = unpacked(body, body.load(zeros, {row, symbolic::floordiv(in, of_byte)}), symbolic::mod(in, of_byte));
    return ir::cast(t, (q - zero) * ir::cast(work, body.load(scales, {row, in})));
  });
  Product p{.a = n.input(0), .b = weights, .transpose_b = true, .accumulate = work};
  Value* bias = n.optional(5);
  if (bias) check_equal(b, n.extent(5, 0), m, "length of the bias and N");
  p.finish = [&](Body& body, Scalar a, const Product::Point& at) {
    if (bias) a = a + ir::cast(work, body.load(bias, {at.column}));
    return ir::cast(t, a);
  };
  n.output(0, product(b, p));
}

/// com.microsoft: `transBatch` moves the first axis to the place before the last.
void import_fused_mat_mul(Node& n) {
  Builder& b = n.b();
  n.same_dtype(0, 1);
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
    {"com.microsoft", "FusedGemm", 1, import_fused_gemm},
    {"com.microsoft", "MatMulNBits", 1, import_mat_mul_n_bits},
    {"com.microsoft", "FusedMatMul", 1, import_fused_mat_mul},
    {"com.microsoft", "TransposeMatMul", 1, import_fused_mat_mul},
    {"", "Det", 11, import_det},
};

}  // namespace

std::span<const OperatorRow> linear_operators() {
  static const std::vector<OperatorRow> rows =
      joined_rows({kRows, einsum_rows(), attention_rows(), transformer_rows()});
  return rows;
}

}  // namespace stax::frontend
