// SPDX-License-Identifier: Apache-2.0
// Quantization: real = (q - zero) * scale. Going back, real / scale is rounded to the nearest integer, ties to even, and the
// zero point is added before the result is saturated. Ties are frequent (0.25 / 0.1f is one in f32 and none in f64), so that the
// quotient is rounded to f32 once, whatever computes it.
//
// Here: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and what all share. Products of quantized matrices and images are in
// ops_quantized_product.cpp, the elementwise ones of com.microsoft in ops_quantized_pointwise.cpp.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {

using ir::ScalarOp;

Scalar parameter_at(Body& body, Value* v, DType t, double fallback, Expr i, Expr n) {
  if (!v) return ir::is_float(t) ? body.number(t, fallback) : body.integer(t, static_cast<int64_t>(fallback));
  const bool one = v->type.static_rank() == 0 || v->type.extents[0].is_constant(1) || !i;
  if (one) return ir::cast(t, body.load(v));
  return ir::cast(t, body.load(v, {broadcast_index(body.builder(), i, v->type.extents[0], n)}));
}

void check_parameter(Node& n, Value* v, Expr count, const std::string& what) {
  if (!v || v->type.static_rank() == 0) return;
  if (v->type.static_rank() > 1) n.fault(what + " has to be a number or a list");
  check_broadcast(n.b(), v->type.extents[0], count, "length of " + what);
}

Scalar quantized(Body& body, DType t, Scalar x, Scalar zero) {
  const Scalar shifted = ir::unary(ScalarOp::kRoundEven, x) + zero;
  const Scalar least = body.number(x->dtype, least_integer(t)), greatest = body.number(x->dtype, greatest_integer(t));
  return ir::cast(t, ir::select(ir::less(least, shifted), ir::binary(ScalarOp::kMin, shifted, greatest), least));
}

DynamicRange quantize_dynamically(Builder& b, Value* x) {
  constexpr DType f = DType::kF32;
  std::vector<int> axes;
  for (int d = 0; d < x->type.static_rank(); ++d) axes.push_back(d);
  const auto extreme = [&](Combiner combiner, ScalarOp with_zero) {
    Value* flat = b.reduce(
        combiner, f, {}, x->type.extents, [&](Body& body) { return body.load(x, body.r); },
        [&](Body& body, Scalar a) { return ir::binary(with_zero, a, body.number(f, 0)); });
    return flat;
  };
  Value *top = extreme(Combiner::kMax, ScalarOp::kMax), *bottom = extreme(Combiner::kMin, ScalarOp::kMin);
  DynamicRange r{};
  r.scale = b.map({}, [&](Body& body) {
    const Scalar hi = body.load(top), lo = body.load(bottom);
    const Scalar range = ir::cast(f, ir::cast(DType::kF64, hi) - ir::cast(DType::kF64, lo));
    return ir::select(ir::equal(hi, lo), body.number(f, 1), rounded_quotient(range, body.number(f, 255)));
  });
  r.zero = b.map({}, [&](Body& body) {
    const Scalar steps = ir::unary(ScalarOp::kRoundEven, -rounded_quotient(body.load(bottom), body.load(r.scale)));
    // Never below 0; what is no number, of a range without an end, is the greatest one.
    const Scalar greatest = body.number(f, greatest_integer(DType::kU8));
    return ir::cast(DType::kU8, ir::select(ir::less(steps, greatest), steps, greatest));
  });
  r.y = b.map(x->type.extents, [&](Body& body) {
    const Scalar steps = rounded_quotient(body.load(x, body.i), body.load(r.scale));
    return quantized(body, DType::kU8, steps, ir::cast(f, body.load(r.zero)));
  });
  keep_rank(r.y, x);
  return r;
}

namespace {

/// Where the scale of a point of x is: one number, one for each index of an axis, or one for each block along it.
class Granularity {
 public:
  Granularity(Node& n, Value* x, Value* scale, Value* zero) : b_(n.b()), x_(x) {
    const int rank = x->type.static_rank(), own = scale->type.static_rank();
    block_ = n.integer("block_size", 0);
    if (own == 0 || (own == 1 && is_one(scale->type.extents[0]))) {
      kind_ = kOne;
    } else if (own == 1 && (block_ == 0 || rank != 1)) {
      kind_ = kAxis;
      axis_ = rank == 1 ? 0 : axis_of(n, n.integer("axis", 1), x);
      check_broadcast(b_, scale->type.extents[0], b_.extent(x, axis_), "length of the scale");
    } else if (own == rank && block_ > 0) {
      kind_ = kBlocks;
      axis_ = axis_of(n, n.integer("axis", 1), x);
      for (int d = 0; d < rank; ++d) {
        const Expr blocks = d == axis_ ? symbolic::ceildiv(b_.extent(x, d), block_) : b_.extent(x, d);
        check_equal(b_, b_.extent(scale, d), blocks, "extents of the scale and of the blocks");
      }
    } else {
      n.fault("a scale of rank " + std::to_string(own) + " needs block_size and an input of that rank");
    }
    if (!zero) return;
    if (zero->type.static_rank() != own && kind_ != kOne) n.fault("scale and zero point differ in rank");
    for (int d = 0; kind_ != kOne && d < own; ++d)
      check_equal(b_, b_.extent(zero, d), b_.extent(scale, d), "extents of scale and zero point");
  }

  Scalar load(Body& body, Value* v, DType t) const {
    if (kind_ == kOne) return ir::cast(t, body.load(v));
    if (kind_ == kAxis)
      return ir::cast(t, body.load(v, {broadcast_index(b_, body.i[axis_], b_.extent(v, 0), b_.extent(x_, axis_))}));
    std::vector<Expr> at = body.i;
    at[axis_] = symbolic::floordiv(at[axis_], block_);
    return ir::cast(t, body.load(v, at));
  }

 private:
  enum Kind { kOne, kAxis, kBlocks };
  Builder& b_;
  Value* x_;
  Kind kind_ = kOne;
  int axis_ = 0;
  int64_t block_ = 0;
};

bool is_quantized_type(DType t) {
  return t == DType::kU8 || t == DType::kI8 || t == DType::kU16 || t == DType::kI16 || t == DType::kI32;
}

void import_quantize_linear(Node& n) {
  Builder& b = n.b();
  Value *x = n.input(0), *scale = n.input(1), *zero = n.optional(2);
  const DType t = zero                                ? zero->type.dtype
                  : n.integer("output_dtype", 0) != 0 ? n.dtype_attribute("output_dtype", DType::kU8)
                                                      : DType::kU8;
  if (!is_quantized_type(t) || t == DType::kI32) n.unsupported("quantization to " + std::string(ir::long_name_of(t)));
  const bool named = n.integer("precision", 0) != 0;
  const DType precision = named                             ? n.dtype_attribute("precision", DType::kF32)
                          : ir::is_float(scale->type.dtype) ? scale->type.dtype
                                                            : DType::kF32;
  const Granularity parameters(n, x, scale, zero);
  Value* y = b.map(x->type.extents, [&](Body& body) {
    // The quotient is rounded to its type, then counted in f32.
    const Scalar value = ir::cast(precision, body.load(x, body.i));
    const Scalar quotient = ir::cast(
        precision, ir::cast(DType::kF64, value) / ir::cast(DType::kF64, parameters.load(body, scale, precision)));
    const Scalar offset = zero ? parameters.load(body, zero, DType::kF32) : body.number(DType::kF32, 0);
    return quantized(body, t, ir::cast(DType::kF32, quotient), offset);
  });
  n.output(0, keep_rank(y, x));
}

void import_dequantize_linear(Node& n) {
  Builder& b = n.b();
  Value *x = n.input(0), *scale = n.input(1), *zero = n.optional(2);
  if (!is_quantized_type(n.dtype()))
    n.unsupported("quantized elements of type " + std::string(ir::long_name_of(n.dtype())));
  const DType t =
      n.integer("output_dtype", 0) != 0 ? n.dtype_attribute("output_dtype", DType::kF32) : scale->type.dtype;
  const Granularity parameters(n, x, scale, zero);
  Value* y = b.map(x->type.extents, [&](Body& body) {
    Scalar q = ir::cast(DType::kI32, body.load(x, body.i));
    if (zero) q = q - parameters.load(body, zero, DType::kI32);
    return ir::cast(t, q) * parameters.load(body, scale, t);
  });
  n.output(0, keep_rank(y, x));
}

void import_dynamic_quantize_linear(Node& n) {
  if (n.dtype() != DType::kF32) n.fault("its input has to be of type float32");
  const DynamicRange r = quantize_dynamically(n.b(), n.input(0));
  n.output(0, r.y);
  if (n.wants(1)) n.output(1, r.scale);
  if (n.wants(2)) n.output(2, r.zero);
}

constexpr OperatorRow kRows[] = {
    {"", "QuantizeLinear", 10, import_quantize_linear},
    {"", "DequantizeLinear", 10, import_dequantize_linear},
    {"com.microsoft", "QuantizeLinear", 1, import_quantize_linear},
    {"com.microsoft", "DequantizeLinear", 1, import_dequantize_linear},
    {"", "DynamicQuantizeLinear", 11, import_dynamic_quantize_linear},
    {"com.microsoft", "DynamicQuantizeLinear", 1, import_dynamic_quantize_linear},
};

}  // namespace

std::span<const OperatorRow> quantized_operators() {
  static const std::vector<OperatorRow> rows =
      joined_rows({kRows, quantized_product_rows(), quantized_pointwise_rows()});
  return rows;
}

}  // namespace stax::frontend
