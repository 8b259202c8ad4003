// SPDX-License-Identifier: Apache-2.0
#include "frontend/spelling.h"

#include <algorithm>
#include <limits>

#include "support/error.h"

namespace stax::frontend {

using ir::ScalarOp;

Expr zero_of(Builder& b) { return b.constant_expr(0); }
Expr one_of(Builder& b) { return b.constant_expr(1); }

Expr within(Expr i, Expr n) {
  return symbolic::logical_and(symbolic::less_equal(n.table().constant(0), i), symbolic::less(i, n));
}

Scalar holds(Body& body, Expr condition) { return ir::cast(DType::kBool, body.index(condition)); }

Scalar number_of(Body& body, DType t, Expr e) { return ir::cast(t, body.index(e)); }

bool is_one(Expr e) { return e.is_constant(1); }
bool is_zero(Expr e) { return e.is_constant(0); }

Expr broadcast_index(Builder& b, Expr i, Expr have, Expr want) {
  if (is_one(have)) return zero_of(b);
  if (have == want || have.range().lo > 1) return i;
  if (b.graph().constraints.equal(have, want) == symbolic::Truth::kYes) return i;
  if (b.graph().constraints.equal(have, one_of(b)) == symbolic::Truth::kNo) return i;
  return i * symbolic::select(symbolic::equal(have, 1), zero_of(b), one_of(b));
}

void check_broadcast(Builder& b, Expr have, Expr want, const std::string& what) {
  if (is_one(have) || have == want) return;
  b.check(symbolic::logical_or(symbolic::equal(have, 1), symbolic::equal(have, want)),
          what + ": {0} does not broadcast to {1}", {have, want});
}

void check_equal(Builder& b, Expr have, Expr want, const std::string& what) {
  if (have == want) return;
  b.check(symbolic::equal(have, want), what + ": {0} and {1} have to be equal", {have, want});
}

DType product_accumulator(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

DType sum_accumulator(DType t) { return t == DType::kF32 ? DType::kF64 : product_accumulator(t); }

Scalar clamp(Scalar x, Scalar lo, Scalar hi) {
  return ir::binary(ScalarOp::kMin, ir::binary(ScalarOp::kMax, x, lo), hi);
}

Scalar square(Scalar x) { return x * x; }
Scalar logical_and(Scalar a, Scalar b) { return ir::binary(ScalarOp::kAnd, a, b); }
Scalar logical_or(Scalar a, Scalar b) { return ir::binary(ScalarOp::kOr, a, b); }
Scalar logical_not(Scalar a) { return ir::unary(ScalarOp::kNot, a); }
Scalar less_than_zero(Body& body, Scalar x) { return ir::less(x, body.integer(x->dtype, 0)); }

Scalar rounded_sum(Scalar a, Scalar b) {
  return ir::cast(DType::kF32, ir::cast(DType::kF64, a) + ir::cast(DType::kF64, b));
}

Scalar rounded_difference(Scalar a, Scalar b) {
  return ir::cast(DType::kF32, ir::cast(DType::kF64, a) - ir::cast(DType::kF64, b));
}

Scalar rounded_product(Scalar a, Scalar b) {
  return ir::cast(DType::kF32, ir::cast(DType::kF64, a) * ir::cast(DType::kF64, b));
}

Scalar rounded_quotient(Scalar a, Scalar b) {
  return ir::cast(DType::kF32, ir::cast(DType::kF64, a) / ir::cast(DType::kF64, b));
}

double least_integer(DType t) {
  if (t == DType::kBool || !ir::is_signed(t)) return 0;
  return -static_cast<double>(uint64_t{1} << (ir::bit_width(t) - 1));
}

double greatest_integer(DType t) {
  if (t == DType::kBool) return 1;
  const int bits = ir::bit_width(t) - (ir::is_signed(t) ? 1 : 0);
  return bits == 64 ? 18446744073709551615.0 : static_cast<double>((uint64_t{1} << bits) - 1);
}

Scalar saturate(Body& body, DType t, Scalar x) {
  const DType f = x->dtype;
  return ir::cast(t, clamp(ir::unary(ScalarOp::kRoundEven, x), body.number(f, least_integer(t)),
                           body.number(f, greatest_integer(t))));
}

Scalar lowest(Body& body, DType t) {
  if (ir::is_float(t)) return body.number(t, -std::numeric_limits<double>::infinity());
  if (t == DType::kI64) return body.integer(t, std::numeric_limits<int64_t>::min());
  return body.integer(t, static_cast<int64_t>(least_integer(t)));
}

Value* as_type(Builder& b, Value* v, DType t) { return v->type.dtype == t ? v : b.cast(v, t); }

Value* keep_rank(Value* result, const Value* like) {
  if (like->type.rank && !result->type.rank) result->type.rank = like->type.rank;
  return result;
}

Value* with_leading_extents(Builder& b, Value* v, const std::vector<Expr>& extents, Expr rank) {
  std::vector<Expr> view;  // aligned to the right, with ones in front
  for (int from_end = tensor::kMaxRank; from_end >= 1; --from_end) {
    Expr extent = one_of(b);
    for (int r = from_end; r <= static_cast<int>(extents.size()); ++r)
      extent = symbolic::select(symbolic::equal(rank, r), extents[r - from_end], extent);
    view.push_back(extent);
  }
  tensor::Type type = tensor::Type::tensor(v->type.dtype, std::move(view));
  type.rank = rank;
  return b.op(tensor::Reshape{}, {v}, {std::move(type)})->result();
}

int axis_of(const Node& n, int64_t a, const Value* v) {
  if (!v->type.has_static_rank() && a >= 0)
    n.unsupported("an axis counted from the front of a tensor whose rank is known only at run time");
  return n.axis(a, v->type.static_rank());
}

int need_rank(const Node& n, int k, int least, int greatest) {
  const Value* v = n.input(k);
  if (!v->type.is_tensor()) n.fault("input " + std::to_string(k) + " is a sequence, not a tensor");
  if (!v->type.has_static_rank()) n.unsupported("an input whose rank is known only at run time");
  const int rank = v->type.static_rank();
  if (rank < least || rank > greatest) {
    const std::string want = least == greatest ? "rank " + std::to_string(least)
                             : greatest >= tensor::kMaxRank
                                 ? "rank " + std::to_string(least) + " or more"
                                 : "rank " + std::to_string(least) + " to " + std::to_string(greatest);
    n.fault("input " + std::to_string(k) + " has rank " + std::to_string(rank) + ", expected " + want);
  }
  return rank;
}

std::optional<double> constant_number(const Builder& b, const Value* v) {
  const Literal* literal = b.literal(v);
  if (!literal || literal->count() != 1) return std::nullopt;
  const ir::Value64 x = literal->at(0);
  return ir::is_float(literal->dtype()) ? x.f : static_cast<double>(x.i);
}

std::vector<Expr> exprs_of(Builder& b, const std::vector<int64_t>& values) {
  std::vector<Expr> out;
  out.reserve(values.size());
  for (int64_t v : values) out.push_back(b.constant_expr(v));
  return out;
}

Scalar load_one(Body& body, Value* v) { return body.load(v); }

std::vector<Expr> extents_of(const Value* v, int first, int last) { return part(v->type.extents, first, last); }

std::vector<Expr> part(const std::vector<Expr>& list, int from, int to) {
  const int end = to < 0 ? static_cast<int>(list.size()) : to;
  return {list.begin() + from, list.begin() + end};
}

std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b, const std::vector<Expr>& c) {
  return joined(joined(std::move(a), b), c);
}

}  // namespace stax::frontend
