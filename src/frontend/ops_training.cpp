// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer (domain ai.onnx.preview.training). Operands: learning rate, update count, then for each optimized
// tensor x, gradient and states in groups: all x, all gradients, all states of the first kind, ..
#include "frontend/scalar_words.h"
#include "frontend/spelling.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

/// What a rule sees of one element; all in the compute type of x.
struct Point {
  Scalar rate, count, x, gradient;  // the gradient has its regularization
  std::vector<Scalar> states;
};
/// The new x, then the new states.
using Rule = std::function<std::vector<Scalar>(const Point&)>;

void optimize(Node& n, int states, const Rule& rule) {
  Builder& b = n.b();
  const int groups = 2 + states, tensors = (n.input_count() - 2) / groups;
  if (tensors < 1 || n.input_count() != 2 + tensors * groups)
    n.fault("it has " + std::to_string(n.input_count()) + " inputs");
  const double regularization = n.real("norm_coefficient", 0);
  Value* rate = b.reshape(n.input(0), {});
  Value* count = b.reshape(n.input(1), {});
  for (int k = 0; k < tensors; ++k) {
    std::vector<Value*> operands{rate, count};
    for (int group = 0; group < groups; ++group) {
      operands.push_back(n.input(2 + group * tensors + k));
      n.same_dtype(2, 2 + group * tensors + k);
    }
    const DType t = n.dtype(2), inner = ir::compute_type(t);
    n.require(ir::is_float(t), 2, "a float");
    for (int result = 0; result <= states; ++result) {
      n.output(result * tensors + k, b.pointwise(operands, [&](std::span<const Scalar> args) {
        Point point{
            ir::cast(inner, args[0]), ir::cast(inner, args[1]), ir::cast(inner, args[2]), ir::cast(inner, args[3]), {}};
        for (int state = 0; state < states; ++state) point.states.push_back(ir::cast(inner, args[4 + state]));
        point.gradient = like(point.x, regularization) * point.x + point.gradient;
        return ir::cast(t, rule(point)[result]);
      }));
    }
  }
}

Scalar root(Scalar x) { return ir::unary(ScalarOp::kSqrt, x); }
Scalar is_later(const Point& p) { return ir::less(like(p.count, 0), p.count); }

void import_adagrad(Node& n) {
  const double decay = n.real("decay_factor", 0), epsilon = n.real("epsilon", 1e-6f);
  optimize(n, 1, [&](const Point& p) {
    const Scalar rate = p.rate / (like(p.x, 1) + p.count * like(p.x, decay));
    const Scalar squares = p.states[0] + p.gradient * p.gradient;
    return std::vector<Scalar>{p.x - rate * p.gradient / (root(squares) + like(p.x, epsilon)), squares};
  });
}

void import_adam(Node& n) {
  const double alpha = n.real("alpha", 0.9f), beta = n.real("beta", 0.999f), epsilon = n.real("epsilon", 1e-6f);
  const double post = n.real("norm_coefficient_post", 0);
  optimize(n, 2, [&](const Point& p) {
    const auto number = [&](double value) { return like(p.x, value); };
    const Scalar mean = number(alpha) * p.states[0] + number(1 - alpha) * p.gradient;
    const Scalar squares = number(beta) * p.states[1] + number(1 - beta) * p.gradient * p.gradient;
    const auto decayed = [&](double base) { return number(1) - ir::binary(ScalarOp::kPow, number(base), p.count); };
    const Scalar rate = ir::select(is_later(p), p.rate * root(decayed(beta)) / decayed(alpha), p.rate);
    return std::vector<Scalar>{number(1 - post) * (p.x - rate * mean / (root(squares) + number(epsilon))), mean,
                               squares};
  });
}

void import_momentum(Node& n) {
  const double alpha = n.real("alpha", 0), beta = n.real("beta", 1);
  const bool nesterov = n.text("mode", "standard") == "nesterov";
  optimize(n, 1, [&](const Point& p) {
    const Scalar share = ir::select(is_later(p), like(p.x, beta), like(p.x, 1));
    const Scalar momentum = like(p.x, alpha) * p.states[0] + share * p.gradient;
    const Scalar direction = nesterov ? p.gradient + like(p.x, alpha) * momentum : momentum;
    return std::vector<Scalar>{p.x - p.rate * direction, momentum};
  });
}

constexpr OperatorRow kOperators[] = {
    {"ai.onnx.preview.training", "Adagrad", 1, import_adagrad},
    {"ai.onnx.preview.training", "Adam", 1, import_adam},
    {"ai.onnx.preview.training", "Momentum", 1, import_momentum},
};

}  // namespace

std::span<const OperatorRow> training_operators() { return kOperators; }

}  // namespace stax::frontend
