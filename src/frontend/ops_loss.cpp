// SPDX-License-Identifier: Apache-2.0
// Losses over classes: axis 1 of the scores is the class, the target has the other axes.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

/// The axes of the target at a point of the scores' layout with class `c`.
std::vector<Scalar> with_class(Body& body, const std::vector<Expr>& sample, Scalar c) {
  std::vector<Scalar> at;
  for (size_t d = 0; d < sample.size(); ++d) {
    at.push_back(body.index(sample[d]));
    if (d == 0) at.push_back(c);
  }
  return at;
}

struct Target {
  Value* classes;
  Value* weight;  // or null
  std::optional<int64_t> ignored;
};

/// `f` of the checked class of a sample, or 0 where the sample is ignored.
Scalar of_class(Body& body, const Target& target, Expr classes, DType t, const std::vector<Expr>& sample,
                const std::function<Scalar(Scalar c)>& f) {
  const Scalar c = ir::cast(DType::kI64, body.load(target.classes, sample));
  const Scalar value = f(body.checked(c, classes));
  if (!target.ignored) return value;
  return ir::select(ir::equal(c, body.integer(DType::kI64, *target.ignored)), body.number(t, 0), value);
}

Scalar weight_of(Body& body, const Target& target, DType t, Scalar c) {
  return target.weight ? ir::cast(t, body.load(target.weight, std::vector<Scalar>{c})) : body.number(t, 1);
}

Value* loss_of(Node& n, Value* log_probability, const Target& target) {
  Builder& b = n.b();
  const DType t = log_probability->type.dtype, work = ir::compute_type(t), sum = sum_accumulator(t);
  const Expr classes = b.extent(log_probability, 1);
  const std::vector<Expr> samples = target.classes->type.extents;
  if (target.classes->type.static_rank() + 1 != log_probability->type.static_rank())
    n.fault("the target has to have one axis less than the scores");
  for (int d = 0; d < target.classes->type.static_rank(); ++d)
    check_equal(b, samples[d], b.extent(log_probability, d == 0 ? 0 : d + 1), "extents of target and scores");
  if (target.weight) check_equal(b, b.extent(target.weight, 0), classes, "number of weights and of classes");
  const std::string reduction = n.text("reduction", "mean");
  const auto loss_at = [&](Body& body, const std::vector<Expr>& sample) {
    return of_class(body, target, classes, work, sample, [&](Scalar c) {
      const Scalar score = ir::cast(work, body.load(log_probability, with_class(body, sample, c)));
      return target.weight ? -(score * weight_of(body, target, work, c)) : -score;
    });
  };
  if (reduction == "none") return b.map(samples, [&](Body& body) { return ir::cast(t, loss_at(body, body.i)); });
  if (reduction != "sum" && reduction != "mean") n.fault("reduction has to be none, sum or mean, not " + reduction);
  Value* total = b.reduce(Combiner::kSum, sum, {}, samples, [&](Body& body) { return loss_at(body, body.r); });
  if (reduction == "sum") return as_type(b, total, t);
  Value* weights = b.reduce(Combiner::kSum, sum, {}, samples, [&](Body& body) {
    return of_class(body, target, classes, work, body.r, [&](Scalar c) { return weight_of(body, target, work, c); });
  });
  return b.pointwise({total, weights}, [t](std::span<const Scalar> v) { return ir::cast(t, v[0] / v[1]); });
}

void import_negative_log_likelihood(Node& n) {
  need_rank(n, 0, 2);
  n.output(0, loss_of(n, n.input(0), {n.input(1), n.optional(2), n.integer("ignore_index")}));
}

void import_softmax_cross_entropy(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  need_rank(n, 0, 2);
  Value* log_probability = log_softmax(n.b(), n.input(0), 1);
  n.output(0, loss_of(n, log_probability, {n.input(1), n.optional(2), n.integer("ignore_index")}));
  if (n.wants(1)) n.output(1, log_probability);
}

constexpr OperatorRow kRows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, import_negative_log_likelihood},
    {"", "SoftmaxCrossEntropyLoss", 12, import_softmax_cross_entropy},
};

}  // namespace

Rows loss_rows() { return kRows; }

}  // namespace stax::frontend
