// SPDX-License-Identifier: Apache-2.0
// Activations. Those of several steps compute f16 and bf16 in f32 and round once.
#include <cmath>
#include <functional>
#include <numbers>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

/// y = f(x).
void activate(Node& n, const std::function<Scalar(Scalar)>& f) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  const DType t = n.dtype();
  n.output(0, n.b().pointwise({n.input(0)}, [&](std::span<const Scalar> x) {
    return ir::cast(t, f(ir::cast(ir::compute_type(t), x[0])));
  }));
}

/// y = f(x + bias), bias optional.
void activate_biased(Node& n, const std::function<Scalar(Scalar)>& f) {
  if (!n.has(1)) return activate(n, f);
  n.require(ir::is_float(n.dtype()), 0, "a float");
  n.same_dtype(0, 1);
  const DType t = n.dtype(), inner = ir::compute_type(t);
  n.output(0, n.b().pointwise({n.input(0), n.input(1)}, [&](std::span<const Scalar> x) {
    return ir::cast(t, f(ir::cast(inner, x[0]) + ir::cast(inner, x[1])));
  }));
}

Scalar is_negative(Scalar x) { return ir::less(x, like(x, 0)); }
Scalar is_positive(Scalar x) { return ir::less(like(x, 0), x); }
Scalar relu(Scalar x) { return ir::binary(ScalarOp::kMax, x, like(x, 0)); }
Scalar sigmoid(Scalar x) { return ir::unary(ScalarOp::kSigmoid, x); }
Scalar tanh(Scalar x) { return ir::unary(ScalarOp::kTanh, x); }
Scalar expm1(Scalar x) { return ir::unary(ScalarOp::kExpm1, x); }
/// log(1 + exp(x)), without overflow.
Scalar softplus(Scalar x) {
  return relu(x) + ir::unary(ScalarOp::kLog1p, ir::unary(ScalarOp::kExp, -ir::unary(ScalarOp::kAbs, x)));
}
/// max(0, min(1, x)).
Scalar unit(Scalar x) { return clamp(x, like(x, 0), like(x, 1)); }
Scalar gelu(Scalar x) {
  return like(x, 0.5) * x * (like(x, 1) + ir::unary(ScalarOp::kErf, x * like(x, std::numbers::sqrt2 / 2)));
}
Scalar gelu_tanh(Scalar x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  return like(x, 0.5) * x * (like(x, 1) + tanh(like(x, root) * (x + like(x, 0.044715) * x * x * x)));
}

void import_relu(Node& n) {
  n.require(n.dtype() != DType::kBool, 0, "a number");
  n.output(0, n.b().pointwise({n.input(0)}, [](std::span<const Scalar> x) { return relu(x[0]); }));
}

void import_leaky_relu(Node& n) {
  const double alpha = n.real("alpha", 0.01f);
  activate(n, [&](Scalar x) { return ir::select(is_negative(x), like(x, alpha) * x, x); });
}

void import_prelu(Node& n) {
  n.require(n.dtype() != DType::kBool, 0, "a number");
  n.same_dtype(0, 1);
  n.output(0, n.b().pointwise({n.input(0), n.input(1)}, [](std::span<const Scalar> x) {
    return ir::select(is_negative(x[0]), x[1] * x[0], x[0]);
  }));
}

void import_thresholded_relu(Node& n) {
  const double alpha = n.real("alpha", 1);
  activate(n, [&](Scalar x) { return ir::select(ir::less(like(x, alpha), x), x, like(x, 0)); });
}

void import_elu(Node& n) {
  const double alpha = n.real("alpha", 1);
  activate(n, [&](Scalar x) { return ir::select(is_negative(x), like(x, alpha) * expm1(x), x); });
}

void import_selu(Node& n) {
  const double alpha = n.real("alpha", 1.67326319217681884765625), gamma = n.real("gamma", 1.05070102214813232421875);
  activate(n, [&](Scalar x) { return like(x, gamma) * ir::select(is_positive(x), x, like(x, alpha) * expm1(x)); });
}

void import_celu(Node& n) {
  const double alpha = n.real("alpha", 1);
  activate(n, [&](Scalar x) {
    const Scalar negative = like(x, alpha) * expm1(x / like(x, alpha));
    return relu(x) + ir::binary(ScalarOp::kMin, like(x, 0), negative);
  });
}

void import_hard_sigmoid(Node& n) {
  const double alpha = n.real("alpha", 0.2f), beta = n.real("beta", 0.5);
  activate(n, [&](Scalar x) { return unit(like(x, alpha) * x + like(x, beta)); });
}

void import_hard_swish(Node& n) {
  activate(n, [](Scalar x) { return x * unit(x * like(x, static_cast<double>(1.0F / 6)) + like(x, 0.5)); });
}

void import_swish(Node& n) {
  const double alpha = n.real("alpha", 1);
  activate(n, [&](Scalar x) { return x * sigmoid(like(x, alpha) * x); });
}

void import_swiglu(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  n.same_dtype(0, 1);
  const double alpha = n.real("alpha", 1);
  const DType t = n.dtype(), inner = ir::compute_type(t);
  n.output(0, n.b().pointwise({n.input(0), n.input(1)}, [&](std::span<const Scalar> args) {
    const Scalar x = ir::cast(inner, args[0]);
    return ir::cast(t, x * sigmoid(like(x, alpha) * x) * ir::cast(inner, args[1]));
  }));
}

void import_quick_gelu(Node& n) {
  const double alpha = n.real("alpha", 1.702f);
  activate(n, [&](Scalar x) { return x * sigmoid(like(x, alpha) * x); });
}

void import_mish(Node& n) {
  activate(n, [](Scalar x) { return x * tanh(softplus(x)); });
}

void import_softplus(Node& n) { activate(n, softplus); }

void import_softsign(Node& n) {
  activate(n, [](Scalar x) { return x / (like(x, 1) + ir::unary(ScalarOp::kAbs, x)); });
}

void import_shrink(Node& n) {
  n.require(n.dtype() != DType::kBool, 0, "a number");
  const DType t = n.dtype();
  // Integers too: threshold and bias are floats.
  const DType inner = ir::is_float(t) ? ir::compute_type(t) : DType::kF64;
  const double lambd = n.real("lambd", 0.5), bias = n.real("bias", 0);
  n.output(0, n.b().pointwise({n.input(0)}, [&](std::span<const Scalar> args) {
    const Scalar x = ir::cast(inner, args[0]);
    const Scalar right = ir::select(ir::less(like(x, lambd), x), x - like(x, bias), like(x, 0));
    return ir::cast(t, ir::select(ir::less(x, like(x, -lambd)), x + like(x, bias), right));
  }));
}

void import_gelu(Node& n) {
  const std::string approximate = n.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    n.fault("its attribute 'approximate' is '" + approximate + "', not none or tanh");
  activate(n, approximate == "tanh" ? gelu_tanh : gelu);
}

void import_microsoft_gelu(Node& n) { activate(n, gelu); }
void import_bias_gelu(Node& n) { activate_biased(n, gelu); }
void import_fast_gelu(Node& n) { activate_biased(n, gelu_tanh); }

/// y = x + bias + skip, in this order.
void import_bias_add(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  n.same_dtype(0, 1);
  n.same_dtype(0, 2);
  const DType t = n.dtype(), inner = ir::compute_type(t);
  n.output(0, n.b().pointwise({n.input(0), n.input(1), n.input(2)}, [&](std::span<const Scalar> x) {
    return ir::cast(t, ir::cast(inner, x[0]) + ir::cast(inner, x[1]) + ir::cast(inner, x[2]));
  }));
}

constexpr OperatorRow kOperators[] = {
    {"", "Relu", 6, import_relu},
    {"", "LeakyRelu", 6, import_leaky_relu},
    {"", "PRelu", 7, import_prelu},
    {"", "ThresholdedRelu", 1, import_thresholded_relu},
    {"", "Elu", 6, import_elu},
    {"", "Selu", 6, import_selu},
    {"", "Celu", 12, import_celu},
    {"", "HardSigmoid", 6, import_hard_sigmoid},
    {"", "HardSwish", 14, import_hard_swish},
    {"", "Swish", 24, import_swish},
    {"", "SwiGLU", 28, import_swiglu},
    {"", "Mish", 18, import_mish},
    {"", "Softplus", 1, import_softplus},
    {"", "Softsign", 1, import_softsign},
    {"", "Shrink", 9, import_shrink},
    {"", "Gelu", 20, import_gelu},
    {"com.microsoft", "Gelu", 1, import_microsoft_gelu},
    {"com.microsoft", "BiasAdd", 1, import_bias_add},
    {"com.microsoft", "BiasGelu", 1, import_bias_gelu},
    {"com.microsoft", "FastGelu", 1, import_fast_gelu},
    {"com.microsoft", "QuickGelu", 1, import_quick_gelu},
};

}  // namespace

std::span<const OperatorRow> activation_operators() { return kOperators; }

}  // namespace stax::frontend
