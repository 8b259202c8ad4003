// SPDX-License-Identifier: Apache-2.0
// com.microsoft's operators on quantized tensors: the elements are made real where they are loaded, and the result is quantized again.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

constexpr DType kF = DType::kF32;

/// Three inputs from `first` on: a tensor, its scale, its zero point.
struct Quantized {
  Value *v, *scale, *zero;
};

Quantized quantized_input(Node& n, int first) { return {n.input(first), n.input(first + 1), n.optional(first + 2)}; }

Scalar real(Body& body, Scalar q, Value* scale, Value* zero) {
  const Scalar steps = ir::cast(DType::kI32, q) - parameter_at(body, zero, DType::kI32, 0);
  return ir::cast(kF, steps) * parameter_at(body, scale, kF, 1);
}

Scalar quantized_real(Body& body, DType t, Scalar x, Value* scale, Value* zero) {
  return quantized(body, t, rounded_quotient(x, parameter_at(body, scale, kF, 1)), parameter_at(body, zero, kF, 0));
}

Value* real_tensor(Builder& b, const Quantized& q) {
  return keep_rank(
      b.map(q.v->type.extents, [&](Body& body) { return real(body, body.load(q.v, body.i), q.scale, q.zero); }), q.v);
}

Value* quantize(Node& n, Value* x, DType t, int scale) {
  Value* y = n.b().map(x->type.extents, [&](Body& body) {
    return quantized_real(body, t, body.load(x, body.i), n.input(scale), n.optional(scale + 1));
  });
  return keep_rank(y, x);
}

void binary(Node& n, ScalarOp op) {
  Builder& b = n.b();
  const Quantized x = quantized_input(n, 0), y = quantized_input(n, 3);
  Value* z = b.pointwise({real_tensor(b, x), real_tensor(b, y)},
                         [&](std::span<const Scalar> v) { return ir::binary(op, v[0], v[1]); });
  n.output(0, quantize(n, z, n.dtype(), 6));
}

void import_q_linear_add(Node& n) { binary(n, ScalarOp::kAdd); }
void import_q_linear_mul(Node& n) { binary(n, ScalarOp::kMul); }

void unary(Node& n, const std::function<Scalar(Body&, Scalar)>& f) {
  Builder& b = n.b();
  const Quantized x = quantized_input(n, 0);
  const DType t = n.dtype();
  n.output(0, keep_rank(b.map(x.v->type.extents,
                              [&](Body& body) {
                                const Scalar value = f(body, real(body, body.load(x.v, body.i), x.scale, x.zero));
                                return quantized_real(body, t, value, n.input(3), n.optional(4));
                              }),
                        x.v));
}

void import_q_linear_sigmoid(Node& n) {
  unary(n, [](Body&, Scalar x) { return ir::unary(ScalarOp::kSigmoid, x); });
}

void import_q_linear_leaky_relu(Node& n) {
  const double alpha = n.real("alpha", 0.01);
  unary(n, [=](Body& body, Scalar x) { return ir::select(less_than_zero(body, x), x * body.number(kF, alpha), x); });
}

/// Images whose channels come last are looked at with the channels second, and turned back.
Value* channels_second(Node& n, Value* x, bool back) {
  if (n.integer("channels_last", 0) == 0) return x;
  const int rank = x->type.static_rank();
  std::vector<int> order = {0};
  if (!back) order.push_back(rank - 1);
  for (int d = back ? 2 : 1; d < (back ? rank : rank - 1); ++d) order.push_back(d);
  if (back) order.push_back(1);
  return n.b().transpose(x, order);
}

void import_q_linear_global_average_pool(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 2);
  Value* x = channels_second(n, real_tensor(b, quantized_input(n, 0)), false);
  std::vector<int> axes;
  for (int d = 2; d < rank; ++d) axes.push_back(d);
  n.output(0, quantize(n, channels_second(n, b.mean(x, axes, true), true), n.dtype(), 3));
}

void import_q_linear_average_pool(Node& n) {
  Value* x = channels_second(n, real_tensor(n.b(), quantized_input(n, 0)), false);
  n.output(0, quantize(n, channels_second(n, average_pool(n, x), true), n.dtype(), 3));
}

/// Scale and zero point of the result, then three inputs for each part.
void import_q_linear_concat(Node& n) {
  Builder& b = n.b();
  if (n.input_count() < 5 || n.input_count() % 3 != 2)
    n.fault("needs scale and zero point of the result, and three inputs for each part");
  std::vector<Value*> parts;
  for (int k = 2; k < n.input_count(); k += 3)
    parts.push_back(quantize(n, real_tensor(b, quantized_input(n, k)), n.dtype(2), 0));
  n.output(0, b.concat(parts, axis_of(n, n.integer("axis", 0), n.input(2))));
}

void import_q_linear_softmax(Node& n) {
  Builder& b = n.b();
  Value* x = real_tensor(b, quantized_input(n, 0));
  const int axis = axis_of(n, n.integer("axis", -1), x);
  Value* y = nullptr;
  if (n.integer("opset", 13) >= 13) {
    y = b.softmax(x, axis);
  } else {
    // As the operator of that time: over all axes from `axis` on.
    Value* flat = b.reshape(x, {b.product(extents_of(x, 0, axis)), b.product(extents_of(x, axis))});
    y = b.reshape(b.softmax(flat, 1), x->type.extents);
  }
  n.output(0, quantize(n, y, n.dtype(), 3));
}

void import_q_linear_where(Node& n) {
  Builder& b = n.b();
  const Quantized x = quantized_input(n, 1), y = quantized_input(n, 4);
  Value* z = b.pointwise({n.input(0), real_tensor(b, x), real_tensor(b, y)},
                         [](std::span<const Scalar> v) { return ir::select(v[0], v[1], v[2]); });
  n.output(0, quantize(n, z, n.dtype(1), 7));
}

void import_q_linear_reduce_mean(Node& n) {
  Builder& b = n.b();
  Value* x = real_tensor(b, quantized_input(n, 0));
  std::vector<int> axes;
  if (const auto given = n.integers("axes")) {
    for (int64_t a : *given) axes.push_back(axis_of(n, a, x));
  } else {
    for (int d = 0; d < x->type.static_rank(); ++d) axes.push_back(d);
  }
  n.output(0, quantize(n, b.mean(x, axes, n.integer("keepdims", 1) != 0), n.dtype(), 3));
}

constexpr OperatorRow kRows[] = {
    {"com.microsoft", "QLinearAdd", 1, import_q_linear_add},
    {"com.microsoft", "QLinearMul", 1, import_q_linear_mul},
    {"com.microsoft", "QLinearSigmoid", 1, import_q_linear_sigmoid},
    {"com.microsoft", "QLinearLeakyRelu", 1, import_q_linear_leaky_relu},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, import_q_linear_global_average_pool},
    {"com.microsoft", "QLinearAveragePool", 1, import_q_linear_average_pool},
    {"com.microsoft", "QLinearConcat", 1, import_q_linear_concat},
    {"com.microsoft", "QLinearSoftmax", 1, import_q_linear_softmax},
    {"com.microsoft", "QLinearWhere", 1, import_q_linear_where},
    {"com.microsoft", "QLinearReduceMean", 1, import_q_linear_reduce_mean},
};

}  // namespace

Rows quantized_pointwise_rows() { return kRows; }

}  // namespace stax::frontend
