// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Literal unary(const std::string& op, const Literal& x, const std::vector<Attribute>& attributes = {}, int opset = 20) {
  ModelOf m(opset);
  m.input("x", x.dtype(), {std::string()}).node(op, {"x"}, {"y"}, attributes).output("y");
  return m.run_one({{"x", x}});
}

Literal binary(const std::string& op, const Literal& x, const Literal& y, const std::vector<Attribute>& attributes = {},
               int opset = 20) {
  ModelOf m(opset);
  m.input("x", x.dtype(), {std::string()})
      .input("z", y.dtype(), {std::string()})
      .node(op, {"x", "z"}, {"y"}, attributes)
      .output("y");
  return m.run_one({{"x", x}, {"z", y}});
}

TEST(Elementwise, IntegerDivisionTruncates) {
  expect_tensor(binary("Div", ints({7, -7, 7}), ints({2, 2, -2})), {3}, {3, -3, -3});
}

TEST(Elementwise, BiasAdd) {
  expect_tensor(
      run_op("BiasAdd", {floats({2, 1, 2}, {1, 2, 3, 4}), floats({2}, {10, 20}), floats({2, 1, 2}, {.5, .25, 0, -1})},
             {}, 17, "com.microsoft"),
      {2, 1, 2}, {11.5, 22.25, 13, 23});
}

TEST(Elementwise, ModOfEitherSign) {
  expect_tensor(binary("Mod", ints({7, -7, 7, -7}), ints({3, 3, -3, -3})), {4}, {1, 2, -2, -1});
  expect_tensor(binary("Mod", floats({2}, {5.5, -5.5}), floats({1}, {3}), {{"fmod", 1}}), {2}, {2.5, -2.5}, 1e-6);
}

TEST(Elementwise, PowersOfMixedTypes) {
  expect_tensor(binary("Pow", floats({3}, {2, 3, -2}), ints({3, 2, 2})), {3}, {8, 9, 4});
  expect_tensor(binary("Pow", ints({2, 9}), floats({2}, {3, 0.5})), {2}, {8, 3});
  expect_tensor(binary("Pow", floats({4}, {4, 0, -kInf, -1}), floats({1}, {0.5})), {4}, {2, 0, kInf, kNan});
}

TEST(Elementwise, ShiftsBeyondTheWidth) {
  expect_tensor(binary("BitShift", tensor_of(DType::kU8, {2}, {3, 255}), tensor_of(DType::kU8, {2}, {1, 8}),
                       {{"direction", "LEFT"}}),
                {2}, {6, 0});
  expect_tensor(binary("BitShift", tensor_of(DType::kI8, {3}, {-8, 4, -1}), tensor_of(DType::kI8, {3}, {8, -1, 127}),
                       {{"direction", "RIGHT"}}, 28),
                {3}, {-1, 0, -1});
}

TEST(Elementwise, ReluAndClipOfIntegers) {
  expect_tensor(unary("Relu", ints({-3, 4})), {2}, {0, 4});
  ModelOf m;
  m.input("x", DType::kI64, {std::string()})
      .constant("hi", int_scalar(2))
      .node("Clip", {"x", "", "hi"}, {"y"})
      .output("y");
  expect_tensor(m.run_one({{"x", ints({-5, 1, 9})}}), {3}, {-5, 1, 2});
  expect_tensor(unary("Clip", floats({3}, {-5, kNan, 9}), {{"min", -1.0}}, 10), {3}, {-1, kNan, 9});
}

TEST(Elementwise, SoftplusDoesNotOverflow) {
  expect_tensor(unary("Softplus", floats({3}, {-1000, 0, 1000})), {3}, {0, std::log(2.0), 1000}, 1e-6);
}

TEST(Elementwise, HalfPrecisionRoundsOnce) {
  const Literal y = unary("Gelu", tensor_of(DType::kF16, {1}, {1}));
  EXPECT_EQ(y.dtype(), DType::kF16);
  expect_tensor(y, {1}, {0.8413447}, 5e-4);
}

TEST(Elementwise, CastsOfNumbers) {
  expect_tensor(unary("Cast", floats({4}, {1.9, -1.9, 0, kNan}), {{"to", static_cast<int>(onnx::TensorProto::BOOL)}}),
                {4}, {1, 1, 0, 1});
  expect_tensor(unary("Cast", floats({2}, {1.9, -1.9}), {{"to", static_cast<int>(onnx::TensorProto::INT32)}}), {2},
                {1, -1});
}

TEST(Elementwise, VariadicSumMeanMax) {
  ModelOf m;
  m.input("a", DType::kF32, {2}).input("b", DType::kF32, {1}).input("c", DType::kF32, {2, 1});
  m.node("Sum", {"a", "b", "c"}, {"s"})
      .node("Mean", {"a", "b"}, {"mean"})
      .node("Max", {"a", "b", "c"}, {"max"})
      .output("s")
      .output("mean")
      .output("max");
  const auto made = m.run({{"a", floats({2}, {1, 2})}, {"b", floats({1}, {3})}, {"c", floats({2, 1}, {10, kNan})}});
  expect_tensor(made.at("s"), {2, 2}, {14, 15, kNan, kNan});
  expect_tensor(made.at("mean"), {2}, {2, 2.5});
  expect_tensor(made.at("max"), {2, 2}, {10, 10, kNan, kNan});
}

TEST(Makers, RangesOfIntegersAndFloats) {
  ModelOf m;
  for (const char* name : {"a", "b", "d"}) m.input(name, DType::kI64, {});
  m.node("Range", {"a", "b", "d"}, {"y"}).output("y");
  const auto range = [&](double a, double b, double d) {
    return values_of(m.run_one({{"a", int_scalar(a)}, {"b", int_scalar(b)}, {"d", int_scalar(d)}}));
  };
  EXPECT_EQ(range(1, 8, 3), (std::vector<double>{1, 4, 7}));
  EXPECT_EQ(range(5, 0, -2), (std::vector<double>{5, 3, 1}));
  EXPECT_EQ(range(5, 9, -2), (std::vector<double>{}));
  ModelOf f;
  for (const char* name : {"a", "b", "d"}) f.input(name, DType::kF32, {});
  f.node("Range", {"a", "b", "d"}, {"y"}).output("y");
  expect_tensor(f.run_one({{"a", floats({}, {0.5})}, {"b", floats({}, {1.3})}, {"d", floats({}, {0.25})}}), {4},
                {0.5, 0.75, 1, 1.25}, 1e-6);
}

TEST(Makers, ConstantOfAGivenShape) {
  ModelOf m;
  m.input("s", DType::kI64, {2}).node("ConstantOfShape", {"s"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"s", ints({1, 2})}}), {1, 2}, {0, 0});
  expect_words(m.fault({{"s", ints({3, -5})}}), {"-5"});
  ModelOf any;
  any.input("s", DType::kI64, {std::string()}).node("ConstantOfShape", {"s"}, {"y"}).output("y");
  EXPECT_EQ(any.run_one({{"s", ints({})}}).rank(), 0);
  EXPECT_EQ(any.run_one({{"s", ints({2, 0, 3})}}).extents(), (std::vector<int64_t>{2, 0, 3}));
}

TEST(Makers, RandomNumbersAreThoseOfTheirDistribution) {
  ModelOf m;
  m.node("RandomNormal", {}, {"n"}, {{"shape", std::vector<int64_t>{100, 100}}, {"mean", 3.0}, {"scale", 2.0}});
  m.node("RandomUniform", {}, {"u"}, {{"shape", std::vector<int64_t>{10000}}, {"low", -1.0}, {"high", 1.0}});
  m.input("p", DType::kF32, {std::string()}).node("Bernoulli", {"p"}, {"b"}).output("n").output("u").output("b");
  const Literal p = floats({4}, {0, 1, 0, 1});
  const auto made = m.run({{"p", p}});
  double mean = 0, square = 0, low = 0, high = 0;
  for (const double x : values_of(made.at("n"))) mean += x / 1e4, square += (x - 3) * (x - 3) / 1e4;
  EXPECT_NEAR(mean, 3, 0.1);
  EXPECT_NEAR(std::sqrt(square), 2, 0.1);
  for (const double x : values_of(made.at("u"))) low = std::min(low, x), high = std::max(high, x);
  EXPECT_GE(low, -1);
  EXPECT_LT(high, 1);
  EXPECT_LT(low, -0.99);
  EXPECT_GT(high, 0.99);
  expect_tensor(made.at("b"), {4}, {0, 1, 0, 1});
  EXPECT_EQ(values_of(made.at("n")), values_of(m.run({{"p", p}}).at("n"))) << "the same in each run";
}

TEST(Makers, DropoutDropsOnlyInTraining) {
  ModelOf m;
  m.input("x", DType::kF32, {std::string()}).input("training", DType::kBool, {}).constant("ratio", floats({}, {0.5}));
  m.node("Dropout", {"x", "ratio", "training"}, {"y", "mask"}).output("y").output("mask");
  std::vector<double> ones(1000, 1.0);
  const auto off = m.run({{"x", floats({1000}, ones)}, {"training", bools({}, {0})}});
  EXPECT_EQ(values_of(off.at("y")), ones);
  EXPECT_EQ(values_of(off.at("mask")), ones);
  double kept = 0;
  const auto on = m.run({{"x", floats({1000}, ones)}, {"training", bools({}, {1})}});
  for (const double x : values_of(on.at("y"))) {
    EXPECT_TRUE(x == 0 || x == 2);
    kept += x / 2;
  }
  EXPECT_NEAR(kept, 500, 80);
}

}  // namespace
}  // namespace stax::frontend
