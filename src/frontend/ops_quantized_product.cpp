// SPDX-License-Identifier: Apache-2.0
// Products of quantized matrices and images. They are sums in i32 of (a - zero_a) * (b - zero_b): the zero points are subtracted where
// an element is loaded, so that the form is that of any contraction; scales come in where the sum is done.
#include "frontend/decompositions.h"
#include "frontend/tables.h"
#include "frontend/windows.h"

namespace stax::frontend {
namespace {


constexpr DType kSum = DType::kI32;
constexpr DType kF = DType::kF32;

/// A zero point or scale of a factor: one number, one for each row (of a) or column (of b), or a tensor of extent 1 along the other axis.
Scalar factor_parameter(Body& body, Value* v, DType t, double fallback, const Product::Point& p, Expr line,
                        Expr lines) {
  if (!v || v->type.static_rank() < 2) return parameter_at(body, v, t, fallback, line, lines);
  Builder& b = body.builder();
  const int batch = v->type.static_rank() - 2, skipped = static_cast<int>(p.batch.size()) - batch;
  std::vector<Expr> at;
  for (int d = 0; d < batch; ++d)
    at.push_back(broadcast_index(b, p.batch[skipped + d], b.extent(v, d), p.batch_extents[skipped + d]));
  const bool by_row = p.row && line == p.row;
  at.push_back(by_row ? broadcast_index(b, line, b.extent(v, -2), lines) : zero_of(b));
  at.push_back(by_row || !line ? zero_of(b) : broadcast_index(b, line, b.extent(v, -1), lines));
  return ir::cast(t, body.load(v, at));
}

bool holds_one(const Value* v) {
  for (Expr extent : v->type.extents)
    if (!is_one(extent)) return false;
  return true;
}

/// The two factors of a product with their zero points (may be null) and, for real results, scales.
struct Factors {
  Value *a, *b, *zero_a = nullptr, *zero_b = nullptr, *scale_a = nullptr, *scale_b = nullptr;
  bool transpose_a = false, transpose_b = false;

  Expr rows(Builder& builder) const {
    return a->type.static_rank() == 1 ? builder.constant_expr(1) : builder.extent(a, transpose_a ? -1 : -2);
  }
  Expr columns(Builder& builder) const {
    return b->type.static_rank() == 1 ? builder.constant_expr(1) : builder.extent(b, transpose_b ? -2 : -1);
  }
  /// scale_a * scale_b at a point of the result.
  Scalar scale(Body& body, const Product::Point& p) const {
    return rounded_product(factor_parameter(body, scale_a, kF, 1, p, p.row, rows(body.builder())),
                           factor_parameter(body, scale_b, kF, 1, p, p.column, columns(body.builder())));
  }
};

void check_factor(Node& n, Value* v, Expr lines, const std::string& what) {
  if (v && v->type.static_rank() == 1) check_broadcast(n.b(), v->type.extents[0], lines, "length of the " + what);
}

Value* multiply(Node& n, const Factors& f,
                const std::function<Scalar(Body&, Scalar sum, const Product::Point&)>& finish) {
  Builder& b = n.b();
  for (Value* v : {f.zero_a, f.scale_a}) check_factor(n, v, f.rows(b), "parameter of the first factor");
  for (Value* v : {f.zero_b, f.scale_b}) check_factor(n, v, f.columns(b), "parameter of the second factor");
  Product p{.a = f.a, .b = f.b, .transpose_a = f.transpose_a, .transpose_b = f.transpose_b, .accumulate = kSum};
  const auto element = [](Value* zero, bool first, Expr lines) {
    return [=](Body& body, Scalar x, const Product::Point& at) {
      const Scalar wide = ir::cast(kSum, x);
      if (!zero) return wide;
      return wide - factor_parameter(body, zero, kSum, 0, at, first ? at.row : at.column, lines);
    };
  };
  p.element_a = element(f.zero_a, true, f.rows(b));
  p.element_b = element(f.zero_b, false, f.columns(b));
  p.finish = finish;
  return product(b, p);
}

/// sum * multiplier + zero, rounded and saturated.
Scalar requantized(Body& body, DType t, Scalar sum, Scalar multiplier, Scalar zero) {
  return quantized(body, t, rounded_product(ir::cast(kF, sum), multiplier), zero);
}

void import_mat_mul_integer(Node& n) {
  for (int k : {0, 1}) need_rank(n, k, 1);
  n.output(0, multiply(n, {n.input(0), n.input(1), n.optional(2), n.optional(3)}, {}));
}

void import_q_linear_mat_mul(Node& n) {
  for (int k : {0, 3}) need_rank(n, k, 1);
  Factors f{n.input(0), n.input(3), n.optional(2), n.optional(5), n.input(1), n.input(4)};
  Value *scale = n.input(6), *zero = n.optional(7);
  const DType t = zero ? zero->type.dtype : n.dtype();
  const auto step = [&](Body& body, const Product::Point& p) {
    return rounded_quotient(f.scale(body, p), parameter_at(body, scale, kF, 1));
  };
  Value* known = nullptr;  // of the whole result; a constant if the scales are
  if (holds_one(f.scale_a) && holds_one(f.scale_b)) known = n.b().map({}, [&](Body& body) { return step(body, {}); });
  n.output(0, multiply(n, f, [&](Body& body, Scalar sum, const Product::Point& p) {
             return requantized(body, t, sum, known ? body.load(known) : step(body, p),
                                parameter_at(body, zero, kF, 0));
           }));
}

/// Reals out of a quantized product; `bias` (may be null) broadcasts.
Value* real_product(Node& n, const Factors& f, Value* bias) {
  Value* y = multiply(
      n, f, [&](Body& body, Scalar sum, const Product::Point& p) { return ir::cast(kF, sum) * f.scale(body, p); });
  if (!bias) return y;
  return n.b().pointwise({y, bias}, [](std::span<const Scalar> v) { return v[0] + ir::cast(v[0]->dtype, v[1]); });
}

/// com.microsoft: A, B, scales, zero points, bias.
void import_mat_mul_integer_to_float(Node& n) {
  n.output(0, real_product(n, {n.input(0), n.input(1), n.optional(4), n.optional(5), n.input(2), n.input(3)},
                           n.optional(6)));
}

/// com.microsoft: A is real and quantized as a whole; B, its scale and zero point are given.
void import_dynamic_quantize_mat_mul(Node& n) {
  const DynamicRange a = quantize_dynamically(n.b(), n.input(0));
  n.output(0, real_product(n, {a.y, n.input(1), a.zero, n.optional(3), a.scale, n.input(2)}, n.optional(4)));
}

/// com.microsoft: A, its scale and zero point, B with its own, C (in i32, in steps of the product), and those of the result. Without
/// the latter the result is real.
void import_q_gemm(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 2, 2);
  need_rank(n, 3, 2, 2);
  Factors f{n.input(0), n.input(3), n.optional(2), n.optional(5), n.input(1), n.input(4)};
  f.transpose_a = n.integer("transA", 0) != 0;
  f.transpose_b = n.integer("transB", 0) != 0;
  const double alpha = n.real("alpha", 1);
  Value *c = n.optional(6), *scale = n.optional(7), *zero = n.optional(8);
  const std::vector<Expr> extents = {f.rows(b), f.columns(b)};
  if (c) {
    const int rank = need_rank(n, 6, 0, 2);
    for (int d = 0; d < rank; ++d) check_broadcast(b, b.extent(c, d), extents[2 - rank + d], "C");
  }
  const DType t = zero ? zero->type.dtype : scale ? n.dtype() : kF;
  n.output(0, multiply(n, f, [&](Body& body, Scalar sum, const Product::Point& p) {
             if (c) sum = sum + ir::cast(kSum, body.load_broadcast(c, p.all(), extents));
             Scalar step = f.scale(body, p);
             if (alpha != 1) step = rounded_product(step, body.number(kF, alpha));
             if (!scale) return ir::cast(kF, sum) * step;
             return requantized(body, t, sum, rounded_quotient(step, parameter_at(body, scale, kF, 1)),
                                parameter_at(body, zero, kF, 0));
           }));
}

/// The integer sum of a convolution, with padding that stands for real zeros.
Convolution integer_convolution(Node& n, Value* x, Value* w, Value* zero_x, Value* zero_w) {
  Builder& b = n.b();
  Convolution c;
  if (zero_x) n.same_dtype(0, 2);
  c.group = n.integer("group", 1);
  check_convolution(n, x, w, c.group);
  check_parameter(n, zero_x, one_of(b), "zero point of the input");
  check_parameter(n, zero_w, b.extent(w, 0), "zero point of the weight");
  c.window = read_window(n, extents_of(w, 2), extents_of(x, 2));
  c.output = window_counts(n, c.window, extents_of(x, 2), false);
  c.x = x;
  c.w = w;
  if (c.window.padded()) {
    const std::vector<Expr> none(2, zero_of(b));
    const std::vector<Expr> before = joined(none, c.window.before), after = joined(none, c.window.after);
    c.x = zero_x ? b.pad_with(x, before, after, zero_x) : b.pad_constant(x, before, after, {});
  }
  c.accumulate = kSum;
  c.element_x = [=](Body& body, Scalar v) {
    const Scalar wide = ir::cast(kSum, v);
    return zero_x ? wide - parameter_at(body, zero_x, kSum, 0) : wide;
  };
  c.element_w = [=, channels = b.extent(w, 0)](Body& body, Scalar v, Expr channel) {
    const Scalar wide = ir::cast(kSum, v);
    return zero_w ? wide - parameter_at(body, zero_w, kSum, 0, channel, channels) : wide;
  };
  return c;
}

void import_conv_integer(Node& n) {
  for (int k : {0, 1}) n.require(ir::is_integer(n.dtype(k)), k, "an integer");
  Value *w = n.input(1), *x = n.input_of_rank(0, need_rank(n, 1, 3));
  n.output(0, convolve(n.b(), integer_convolution(n, x, w, n.optional(2), n.optional(3))));
}

void import_q_linear_conv(Node& n) {
  Builder& b = n.b();
  Value *w = n.input(3), *x = n.input_of_rank(0, need_rank(n, 3, 3));
  Value *scale_x = n.input(1), *scale_w = n.input(4), *scale_y = n.input(6), *zero_y = n.optional(7),
        *bias = n.optional(8);
  Convolution c = integer_convolution(n, x, w, n.optional(2), n.optional(5));
  const Expr channels = b.extent(w, 0);
  check_parameter(n, scale_w, channels, "scale of the weight");
  if (bias) check_equal(b, b.extent(bias, 0), channels, "length of the bias and number of output channels");
  const DType t = zero_y ? zero_y->type.dtype : n.dtype();
  // Known scales make this a constant.
  const bool by_channel = !holds_one(scale_w);
  Value* multiplier = b.map(by_channel ? std::vector<Expr>{channels} : std::vector<Expr>{}, [&](Body& body) {
    const Expr channel = by_channel ? body.i[0] : Expr();
    const Scalar step =
        rounded_product(parameter_at(body, scale_x, kF, 1), parameter_at(body, scale_w, kF, 1, channel, channels));
    return rounded_quotient(step, parameter_at(body, scale_y, kF, 1));
  });
  c.finish = [=](Body& body, Scalar sum, Expr channel) {
    if (bias) sum = sum + ir::cast(kSum, body.load(bias, {channel}));
    return requantized(body, t, sum, by_channel ? body.load(multiplier, {channel}) : body.load(multiplier),
                       parameter_at(body, zero_y, kF, 0));
  };
  n.output(0, convolve(b, c));
}

constexpr OperatorRow kRows[] = {
    {"", "MatMulInteger", 10, import_mat_mul_integer},
    {"", "QLinearMatMul", 10, import_q_linear_mat_mul},
    {"", "ConvInteger", 10, import_conv_integer},
    {"", "QLinearConv", 10, import_q_linear_conv},
    {"com.microsoft", "MatMulIntegerToFloat", 1, import_mat_mul_integer_to_float},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, import_dynamic_quantize_mat_mul},
    {"com.microsoft", "QGemm", 1, import_q_gemm},
};

}  // namespace

Rows quantized_product_rows() { return kRows; }

}  // namespace stax::frontend
