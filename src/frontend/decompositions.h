// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computations that operators of more than one file consist of.
#include <functional>
#include <vector>

#include "frontend/spelling.h"

namespace stax::frontend {

// ---- softmax and norms (ops_softmax.cpp, ops_norm.cpp)

Value* log_softmax(Builder& b, Value* x, int axis);

/// Mean and a function of the variance over `axes`, with extent 1 there. The mean has the type in which sums of x are formed;
/// `finish` maps the variance (of that type) to an element of type `result`.
struct Moments {
  Value* mean;
  Value* deviation;
};
using VarianceFn = std::function<Scalar(Body&, Scalar variance)>;
Moments moments(Builder& b, Value* x, const std::vector<int>& axes, DType result, const VarianceFn& finish);
/// x - mean in x's compute type, with the digits that the mean has beyond that type.
Scalar centered(Scalar x, Scalar mean);
/// 1 / sqrt(variance + epsilon) as `result`.
VarianceFn inverse_deviation(DType result, double epsilon);

struct Normalized {
  Value* y;
  Value* mean;
  Value* inverse;
};
/// Over the axes from `first_axis` on; scale and bias (may be null) broadcast to x.
Normalized layer_norm(Builder& b, Value* x, int first_axis, double epsilon, Value* scale, Value* bias);
/// x / sqrt(mean(x^2) + epsilon) * scale; y has scale's type, `mean` is null.
Normalized rms_norm(Builder& b, Value* x, int first_axis, double epsilon, Value* scale);

// ---- products (ops_linear.cpp)

/// a [batch.., m, k] times b [batch.., k, n], numpy's rules for vectors and batches. What is multiplied and what becomes of the
/// sum may be said; `row`, `column` and `batch` are the point's indices in the result (before vectors lose their axis).
struct Product {
  Value* a = nullptr;
  Value* b = nullptr;
  bool transpose_a = false, transpose_b = false;
  DType accumulate = DType::kF32;
  struct Point {
    std::vector<Expr> batch;
    std::vector<Expr> batch_extents;
    Expr row, column;
    std::vector<Expr> all() const;
  };
  std::function<Scalar(Body&, Scalar element, const Point&)> element_a = {},
                                                             element_b = {};   // to `accumulate`; empty: a cast
  std::function<Scalar(Body&, Scalar accumulator, const Point&)> finish = {};  // empty: as accumulated
};
Value* product(Builder& b, const Product& p);

// ---- quantization (ops_quantized.cpp)

/// The element of a scale or zero point `v` for index `i` of an axis of extent n, as `t`: v holds one number, or n. Null: `fallback`.
Scalar parameter_at(Body& body, Value* v, DType t, double fallback, Expr i = {}, Expr n = {});
/// Demands that v (may be null) holds one number, or n.
void check_parameter(Node& n, Value* v, Expr count, const std::string& what);
/// round(x) + zero, saturated to t; x is an f32 in steps of the scale, zero an f32, too. NaN gives the least integer.
Scalar quantized(Body& body, DType t, Scalar x, Scalar zero);
/// As one tensor whose range includes 0, to u8: the steps of DynamicQuantizeLinear. Scale and zero point have rank 0.
struct DynamicRange {
  Value* y;
  Value* scale;
  Value* zero;
};
DynamicRange quantize_dynamically(Builder& b, Value* x);

// ---- activations by name (ops_recurrent.cpp)

using Activation = std::function<Scalar(Body&, Scalar)>;
/// As attributes of LSTM and fused operators name them, in any case; parameters that are not given have their defaults. UserError for an
/// unknown name. alpha and beta are asked for where the function has them.
struct ActivationParameters {
  std::function<std::optional<double>()> alpha, beta;
};
Activation activation_named(const Node& n, const std::string& name, const ActivationParameters& parameters);

// ---- pooling (ops_pooling.cpp)

/// AveragePool by the node's attributes of `x`, which stands for input 0.
Value* average_pool(Node& n, Value* x);

}  // namespace stax::frontend
