// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <limits>

#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// One operator on inputs of unknown extents; empty literals of rank 1 stand for what they are, missing ones for "".
Literal apply(const std::string& op, const std::vector<Literal>& inputs, const std::vector<Attribute>& attributes = {},
              int opset = 20, int output = 0) {
  ModelOf m(opset);
  Names names;
  ModelOf::Feed feed;
  for (size_t k = 0; k < inputs.size(); ++k) {
    names.push_back("x" + std::to_string(k));
    m.input(names.back(), inputs[k].dtype(), std::vector<Dim>(inputs[k].rank(), std::string()));
    feed[names.back()] = inputs[k];
  }
  Names outputs(output, "");
  outputs.push_back("y");
  m.node(op, names, outputs, attributes).output("y");
  return m.run_one(feed);
}

TEST(Reduction, SumsOfIntegersAreExact) {
  EXPECT_EQ(apply("ReduceSum", {ints({9007199254740992, 1}), ints({0})}).at(0).i, 9007199254740993);
}

TEST(Reduction, FloatsAreSummedInDouble) {
  expect_tensor(apply("ReduceSum", {floats({4}, {1e8, 1, 1, -1e8}), ints({0})}, {{"keepdims", 0}}), {}, {2});
}

TEST(Reduction, NeutralElements) {
  const Literal none = floats({2, 0}, {});
  const Literal axis = ints({1});
  expect_tensor(apply("ReduceSum", {none, axis}), {2, 1}, {0, 0});
  expect_tensor(apply("ReduceProd", {none, axis}), {2, 1}, {1, 1});
  expect_tensor(apply("ReduceMax", {none, axis}), {2, 1}, {-kInf, -kInf});
  expect_tensor(apply("ReduceMin", {none, axis}), {2, 1}, {kInf, kInf});
  expect_tensor(apply("ReduceMean", {none, axis}), {2, 1}, {kNan, kNan});
  expect_tensor(apply("ReduceLogSumExp", {none, axis}), {2, 1}, {-kInf, -kInf});
  expect_tensor(apply("ReduceMax", {tensor_of(DType::kI32, {0}, {}), ints({0})}), {1}, {-2147483648.0});
  expect_tensor(apply("ReduceMax", {bools({0}, {}), ints({0})}), {1}, {0});
}

TEST(Reduction, AxesArriveAtRunTime) {
  ModelOf m;
  m.input("x", DType::kF32, {2, 3, 4}).input("axes", DType::kI64, {2});
  m.node("ReduceSum", {"x", "axes"}, {"y"}, {{"keepdims", 0}})
      .node("ReduceMax", {"x", "axes"}, {"z"})
      .output("y")
      .output("z");
  const auto first = m.run({{"x", counting({2, 3, 4})}, {"axes", ints({-1, 0})}});
  expect_tensor(first.at("y"), {3}, {60, 92, 124});
  expect_tensor(first.at("z"), {1, 3, 1}, {15, 19, 23});
  expect_tensor(m.run({{"x", counting({2, 3, 4})}, {"axes", ints({1, 2})}}).at("y"), {2}, {66, 210});
  expect_words(m.fault({{"x", counting({2, 3, 4})}, {"axes", ints({3, 0})}}), {"axis 3", "rank 3"});
}

TEST(Reduction, EvenTheNumberOfAxesArrivesAtRunTime) {
  const auto reduce = [](const Literal& axes, int keep, int noop) {
    return apply("ReduceSum", {counting({2, 3}), axes}, {{"keepdims", keep}, {"noop_with_empty_axes", noop}});
  };
  expect_tensor(reduce(ints({1}), 0, 0), {2}, {3, 12});
  expect_tensor(reduce(ints({}), 0, 0), {}, {15});
  expect_tensor(reduce(ints({}), 1, 0), {1, 1}, {15});
  expect_tensor(reduce(ints({}), 0, 1), {2, 3}, {0, 1, 2, 3, 4, 5});
}

TEST(Reduction, WithoutAxesTheElementStillCounts) {
  const std::vector<Attribute> noop = {{"noop_with_empty_axes", 1}};
  expect_tensor(apply("ReduceSumSquare", {floats({2}, {-3, 2})}, noop), {2}, {9, 4});
  expect_tensor(apply("ReduceLogSum", {floats({1}, {1})}, noop), {1}, {0});
}

TEST(Reduction, ArgExtremesPreferNanAndTheEndThatIsAsked) {
  const Literal x = floats({5}, {1, 3, 3, 0, 0});
  expect_tensor(apply("ArgMax", {x}, {{"keepdims", 0}}), {}, {1});
  expect_tensor(apply("ArgMax", {x}, {{"keepdims", 0}, {"select_last_index", 1}}), {}, {2});
  expect_tensor(apply("ArgMin", {x}, {{"select_last_index", 1}}), {1}, {4});
  expect_tensor(apply("ArgMax", {floats({3}, {1, kNan, kInf})}), {1}, {1});
}

TEST(Reduction, RunningSums) {
  const Literal x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Literal rows = tensor_of(DType::kI32, {}, {0});
  expect_tensor(apply("CumSum", {x, int_scalar(-1)}, {{"exclusive", 1}, {"reverse", 1}}), {2, 3}, {5, 3, 0, 11, 6, 0});
  expect_tensor(apply("CumSum", {x, rows}), {2, 3}, {1, 2, 3, 5, 7, 9});
}

TEST(Softmax, FlattensBeforeOpset13) {
  const Literal x = floats({1, 2, 2}, {0, 0, 0, 0});
  expect_tensor(apply("Softmax", {x}, {}, 11), {1, 2, 2}, {0.25, 0.25, 0.25, 0.25});
  expect_tensor(apply("Softmax", {x}, {}, 13), {1, 2, 2}, {0.5, 0.5, 0.5, 0.5});
  expect_tensor(apply("Hardmax", {floats({2, 2}, {1, 1, 0, 2})}), {2, 2}, {1, 0, 0, 1});
}

TEST(Softmax, EdgesOfItsDomain) {
  expect_tensor(apply("Softmax", {floats({2, 2}, {1e14, 0, -kInf, -kInf})}), {2, 2}, {1, 0, kNan, kNan});
  expect_tensor(apply("LogSoftmax", {floats({1, 2}, {0, -200})}), {1, 2}, {0, -200}, 1e-5);
  expect_tensor(apply("Softmax", {floats({3, 0}, {})}), {3, 0}, {});
}

TEST(Norm, ALargeMeanCostsNoDigits) {
  for (const double mean : {0.0, 1e4, 1e7}) {
    const Literal x = floats({1, 4}, {mean - 1, mean + 1, mean - 1, mean + 1});
    expect_tensor(apply("LayerNormalization", {x, floats({4}, {1, 1, 1, 1})}, {{"epsilon", 0.0}}), {1, 4},
                  {-1, 1, -1, 1}, 1e-6);
  }
  const Literal constant = floats({1, 3}, {1e7, 1e7, 1e7});
  expect_tensor(apply("LayerNormalization", {constant, floats({3}, {1, 1, 1}), floats({3}, {5, 6, 7})}), {1, 3},
                {5, 6, 7});
}

// The moments are taken from the first element's distances, wherever that lies.
TEST(Norm, AnOutlierInFrontCostsNoDigits) {
  constexpr int kCount = 1000;
  for (const double outlier : {1e3, -1e6}) {
    std::vector<double> x(kCount), expected(kCount), ones(kCount, 1);
    double mean = 0, variance = 0;
    for (int i = 0; i < kCount; ++i) mean += (x[i] = i == 0 ? outlier : i % 2) / kCount;
    for (double v : x) variance += (v - mean) * (v - mean) / kCount;
    for (int i = 0; i < kCount; ++i) expected[i] = (x[i] - mean) / std::sqrt(variance);
    expect_tensor(apply("LayerNormalization", {floats({1, kCount}, x), floats({kCount}, ones)}, {{"epsilon", 0.0}}),
                  {1, kCount}, expected, 4e-6);
  }
}

TEST(Norm, MeanAndDeviationHaveTheStashType) {
  const Literal x = tensor_of(DType::kF16, {1, 2}, {1, 3}), scale = tensor_of(DType::kF16, {2}, {1, 1});
  const Literal mean = apply("LayerNormalization", {x, scale}, {}, 20, 1),
                inverse = apply("LayerNormalization", {x, scale}, {}, 20, 2);
  EXPECT_EQ(mean.dtype(), DType::kF32);
  expect_tensor(mean, {1, 1}, {2});
  expect_tensor(inverse, {1, 1}, {1}, 1e-4);
}

TEST(Norm, Groups) {
  const Literal x = floats({1, 4, 1}, {0, 2, 10, 14});
  const std::vector<Attribute> two = {{"num_groups", 2}, {"epsilon", 0.0}};
  expect_tensor(apply("GroupNormalization", {x, floats({4}, {1, 1, 1, 2}), floats({4}, {0, 0, 0, 5})}, two, 21),
                {1, 4, 1}, {-1, 1, -1, 7}, 1e-6);
  expect_tensor(apply("GroupNormalization", {x, floats({2}, {1, 2}), floats({2}, {0, 0})}, two, 18), {1, 4, 1},
                {-1, 1, -2, 2}, 1e-6);
}

TEST(Norm, BatchesInTraining) {
  ModelOf m(15);
  for (const char* name : {"s", "b", "m", "v"}) m.input(name, DType::kF32, {"c"});
  m.input("x", DType::kF32, {std::string(), "c"});
  m.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "mean", "var"},
         {{"training_mode", 1}, {"momentum", 0.5}, {"epsilon", 0.0}});
  m.output("y").output("mean").output("var");
  const Literal one = floats({1}, {1}), zero = floats({1}, {0});
  const auto r = m.run({{"x", floats({2, 1}, {2, 6})}, {"s", one}, {"b", zero}, {"m", zero}, {"v", one}});
  expect_tensor(r.at("y"), {2, 1}, {-1, 1}, 1e-6);
  expect_tensor(r.at("mean"), {1}, {2}, 1e-6);
  expect_tensor(r.at("var"), {1}, {2.5}, 1e-6);
}

TEST(Norm, ARowOfZerosStaysZero) {
  expect_tensor(apply("LpNormalization", {floats({2, 2}, {3, 4, 0, 0})}), {2, 2}, {0.6, 0.8, 0, 0}, 1e-7);
  expect_tensor(apply("LpNormalization", {floats({1, 2}, {3, -1})}, {{"p", 1}}), {1, 2}, {0.75, -0.25});
}

TEST(Loss, IgnoredSamplesDoNotCount) {
  const Literal scores = floats({3, 2}, {-1, -2, -3, -4, -5, -6});
  const Literal target = tensor_of(DType::kI64, {3}, {0, -7, 1});
  const std::vector<Attribute> ignore = {{"ignore_index", -7}};
  expect_tensor(apply("NegativeLogLikelihoodLoss", {scores, target}, ignore), {}, {3.5});
  expect_tensor(apply("NegativeLogLikelihoodLoss", {scores, target, floats({2}, {1, 3})}, ignore), {}, {19.0 / 4},
                1e-6);
  expect_tensor(apply("NegativeLogLikelihoodLoss", {scores, target}, {{"ignore_index", -7}, {"reduction", "none"}}),
                {3}, {1, 0, 6});
}

}  // namespace
}  // namespace stax::frontend
