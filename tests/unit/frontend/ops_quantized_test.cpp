// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

std::map<std::string, Literal> apply(const std::string& op, const std::vector<Literal>& inputs,
                                     const std::vector<Attribute>& attributes = {}, int outputs = 1, int opset = 21) {
  ModelOf m(opset);
  Names names, results;
  ModelOf::Feed feed;
  for (size_t k = 0; k < inputs.size(); ++k) {
    names.push_back("x" + std::to_string(k));
    m.input(names.back(), inputs[k].dtype(), std::vector<Dim>(inputs[k].rank(), std::string()));
    feed[names.back()] = inputs[k];
  }
  for (int k = 0; k < outputs; ++k) results.push_back("y" + std::to_string(k));
  m.node(op, names, results, attributes);
  for (const std::string& name : results) m.output(name);
  return m.run(feed);
}

Literal scale(double v) { return floats({}, {v}); }
Literal i8(std::vector<int64_t> extents, const std::vector<double>& v) {
  return tensor_of(DType::kI8, std::move(extents), v);
}
Literal u8(std::vector<int64_t> extents, const std::vector<double>& v) {
  return tensor_of(DType::kU8, std::move(extents), v);
}

TEST(Quantized, TiesAndTheEndsOfTheRange) {
  const Literal x = floats({7}, {0.125, 0.375, kNan, kInf, -kInf, 1e30, 0.25});
  expect_tensor(apply("QuantizeLinear", {x, scale(0.25), i8({}, {3})}).at("y0"), {7}, {3, 5, -128, 127, -128, 127, 4});
  // 0.25f / 0.1f and 0.35f / 0.1f are 2.5 and 3.5 in f32, and a little less in f64.
  expect_tensor(apply("QuantizeLinear", {floats({2}, {0.25, 0.35}), scale(0.1), u8({}, {0})}).at("y0"), {2}, {2, 4});
}

TEST(Quantized, ScalesOfAxesAndBlocks) {
  const Literal x = i8({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_tensor(apply("DequantizeLinear", {x, floats({2}, {1, 10}), i8({2}, {0, 1})}, {{"axis", 0}}).at("y0"), {2, 3},
                {1, 2, 3, 30, 40, 50});
  expect_tensor(
      apply("DequantizeLinear", {x, floats({2, 2}, {1, 10, 2, 20})}, {{"axis", -1}, {"block_size", 2}}).at("y0"),
      {2, 3}, {1, 2, 30, 8, 10, 120});
}

TEST(Quantized, ARangeOfTheData) {
  const auto r = apply("DynamicQuantizeLinear", {floats({3}, {-1, 0, 4.1})}, {}, 3);
  expect_tensor(r.at("y1"), {}, {0.02}, 1e-7);
  expect_tensor(r.at("y2"), {}, {50});
  expect_tensor(r.at("y0"), {3}, {0, 50, 255});
  expect_tensor(apply("DynamicQuantizeLinear", {floats({2}, {0, 0})}, {}, 3).at("y0"), {2}, {0, 0});
}

TEST(Quantized, ProductsOfNothing) {
  expect_tensor(apply("MatMulInteger", {u8({1, 0}, {}), i8({0, 2}, {})}).at("y0"), {1, 2}, {0, 0});
}

TEST(Quantized, ZeroPointsOfRowsAndColumns) {
  const Literal a = u8({2, 2}, {10, 10, 20, 20}), b = i8({2, 2}, {1, 2, 3, 4});
  expect_tensor(apply("MatMulInteger", {a, b, u8({2}, {9, 18}), i8({2}, {0, 1})}).at("y0"), {2, 2}, {4, 4, 8, 8});
}

TEST(Quantized, PaddingStandsForRealZeros) {
  const Literal x = u8({1, 1, 2}, {5, 6}), w = i8({1, 1, 3}, {1, 1, 1});
  expect_tensor(apply("ConvInteger", {x, w, u8({}, {4})}, {{"pads", std::vector<int64_t>{1, 1}}}).at("y0"), {1, 1, 2},
                {3, 3});
  expect_tensor(apply("QLinearConv", {x, scale(0.5), u8({}, {4}), w, scale(2), i8({}, {0}), scale(1), u8({}, {100})},
                      {{"pads", std::vector<int64_t>{1, 1}}})
                    .at("y0"),
                {1, 1, 2}, {103, 103});
}

}  // namespace
}  // namespace stax::frontend
