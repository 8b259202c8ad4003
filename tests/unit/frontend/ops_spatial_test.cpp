// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

Literal apply(const std::string& op, const std::vector<Literal>& inputs, const std::vector<Attribute>& attributes = {},
              int opset = 20, int output = 0) {
  ModelOf m(opset);
  Names names;
  ModelOf::Feed feed;
  for (size_t k = 0; k < inputs.size(); ++k) {
    // An input without elements of rank 1 is one that is left out.
    const bool absent = inputs[k].rank() == 1 && inputs[k].count() == 0;
    names.push_back(absent ? "" : "x" + std::to_string(k));
    if (absent) continue;
    m.input(names.back(), inputs[k].dtype(), std::vector<Dim>(inputs[k].rank(), std::string()));
    feed[names.back()] = inputs[k];
  }
  Names outputs(output, "");
  outputs.push_back("y");
  m.node(op, names, outputs, attributes).output("y");
  return m.run_one(feed);
}

using Ints = std::vector<int64_t>;
const Literal kNone = floats({0}, {});

TEST(Convolution, PadsStridesAndBias) {
  const Literal x = floats({1, 1, 4}, {1, 2, 3, 4}), w = floats({1, 1, 3}, {1, 10, 100});
  expect_tensor(apply("Conv", {x, w, floats({1}, {0.5})}, {{"pads", Ints{1, 1}}, {"strides", Ints{2}}}), {1, 1, 2},
                {210.5, 432.5});
  expect_tensor(apply("Conv", {x, w}, {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{3}}}), {1, 1, 2}, {210, 43});
  // Strides that leave elements out: convolutions begin at the first one, pools share what is left out between the ends.
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
    const Literal long_x = floats({1, 1, 6}, {1, 2, 3, 4, 5, 6}), one = floats({1, 1, 1}, {1});
    expect_tensor(apply("Conv", {long_x, one}, {{"auto_pad", mode}, {"strides", Ints{3}}}), {1, 1, 2}, {1, 4});
    const Literal pooled =
        apply("LpPool", {long_x}, {{"auto_pad", mode}, {"strides", Ints{3}}, {"kernel_shape", Ints{1}}, {"p", 1}});
    expect_tensor(pooled, {1, 1, 2},
                  std::string(mode) == "SAME_UPPER" ? std::vector<double>{2, 5} : std::vector<double>{1, 4});
  }
}

TEST(Convolution, GroupsAndDepthwise) {
  const Literal x = floats({1, 4, 1}, {1, 2, 3, 4});
  expect_tensor(apply("Conv", {x, floats({2, 2, 1}, {1, 10, 1, 10})}, {{"group", 2}}), {1, 2, 1}, {21, 43});
  expect_tensor(apply("Conv", {x, floats({4, 1, 1}, {1, 10, 100, 1000})}, {{"group", 4}}), {1, 4, 1},
                {1, 20, 300, 4000});
}

TEST(Convolution, AnInputSmallerThanTheKernelGivesNothing) {
  expect_tensor(apply("Conv", {floats({2, 1, 1}, {1, 2}), floats({1, 1, 3}, {1, 1, 1})}), {2, 1, 0}, {});
  expect_tensor(apply("Conv", {floats({0, 1, 4}, {}), floats({1, 1, 3}, {1, 1, 1})}), {0, 1, 2}, {});
}

TEST(Convolution, ChannelsHaveToFit) {
  ModelOf m;
  m.input("x", DType::kF32, {1, 3, 5}).input("w", DType::kF32, {2, 2, 1}).node("Conv", {"x", "w"}, {"y"}).output("y");
  expect_words(m.fault(), {"Conv", "3 channels", "2"});
}

TEST(Convolution, TransposedByStrides) {
  const Literal x = floats({1, 1, 2}, {1, 10}), w = floats({1, 1, 3}, {1, 2, 3});
  expect_tensor(apply("ConvTranspose", {x, w}, {{"strides", Ints{2}}}), {1, 1, 5}, {1, 2, 13, 20, 30});
  expect_tensor(
      apply("ConvTranspose", {x, w}, {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}),
      {1, 1, 4}, {2, 13, 20, 30});
  expect_tensor(apply("ConvTranspose", {x, w}, {{"dilations", Ints{2}}}), {1, 1, 6}, {1, 10, 2, 20, 3, 30});
}

TEST(Convolution, TransposedWeightsMayBeInfinite) {
  const Literal y =
      apply("ConvTranspose", {floats({1, 1, 2}, {1, 2}), floats({1, 1, 2}, {1, kInf})}, {{"strides", Ints{2}}});
  expect_tensor(y, {1, 1, 4}, {1, kInf, 2, kInf});
}

TEST(Pooling, PositionsOfMaxima) {
  const Literal x = floats({1, 1, 2, 3}, {1, 5, 3, 4, 2, 6});
  const std::vector<Attribute> rows = {{"kernel_shape", Ints{2, 2}}},
                               columns = {{"kernel_shape", Ints{2, 2}}, {"storage_order", 1}};
  expect_tensor(apply("MaxPool", {x}, rows), {1, 1, 1, 2}, {5, 6});
  expect_tensor(apply("MaxPool", {x}, rows, 20, 1), {1, 1, 1, 2}, {1, 5});
  expect_tensor(apply("MaxPool", {x}, columns, 20, 1), {1, 1, 1, 2}, {2, 5});
}

TEST(Pooling, SameUpperKnowsTheDilation) {
  const Literal x = floats({1, 1, 8}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_tensor(apply("MaxPool", {x}, {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}, {"auto_pad", "SAME_UPPER"}}),
                {1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 6});
}

TEST(Pooling, CeilModeDropsWindowsThatBeginInThePadding) {
  const Literal x = floats({1, 1, 3}, {1, 2, 3});
  expect_tensor(
      apply("MaxPool", {x}, {{"kernel_shape", Ints{1}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}, {"ceil_mode", 1}}),
      {1, 1, 2}, {1, 3});
  expect_tensor(apply("AveragePool", {x}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", 1}}),
                {1, 1, 2}, {1.5, 3});
}

TEST(Pooling, WhatCountsInAnAverage) {
  const Literal x = floats({1, 1, 2}, {3, 6});
  const std::vector<Attribute> edges = {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}};
  expect_tensor(apply("AveragePool", {x}, edges), {1, 1, 2}, {4.5, 4.5});
  expect_tensor(apply("AveragePool", {x}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"count_include_pad", 1}}),
                {1, 1, 2}, {3, 3});
  expect_tensor(apply("LpPool", {x}, {{"kernel_shape", Ints{2}}, {"p", 1}}), {1, 1, 1}, {9});
  expect_tensor(apply("GlobalAveragePool", {x}), {1, 1, 1}, {4.5});
}

TEST(Pooling, UnpoolUndoesIt) {
  const Literal x = floats({1, 1, 2}, {5, 6}), at = tensor_of(DType::kI64, {1, 1, 2}, {1, 2});
  const std::vector<Attribute> windows = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  expect_tensor(apply("MaxUnpool", {x, at}, windows), {1, 1, 4}, {0, 5, 6, 0});
  expect_tensor(apply("MaxUnpool", {x, at, ints({1, 1, 5})}, windows), {1, 1, 5}, {0, 5, 6, 0, 0});
}

TEST(Resize, ScalesRoundAsFloats) {
  // 0.7f is less than 0.7, but 0.7f * 10 rounds to 7.
  EXPECT_EQ(apply("Resize", {counting({10}), kNone, floats({1}, {0.7})}).extents(), (Ints{7}));
  EXPECT_EQ(apply("Resize", {counting({3}), kNone, floats({1}, {1.5})}).extents(), (Ints{4}));
}

TEST(Resize, NearestBreaksTiesAsAsked) {
  const Literal x = floats({2}, {1, 2}), twice = floats({1}, {2});
  const auto resize = [&](const char* mode) {
    return apply("Resize", {x, kNone, twice},
                 {{"nearest_mode", mode}, {"coordinate_transformation_mode", "asymmetric"}});
  };
  expect_tensor(resize("round_prefer_floor"), {4}, {1, 1, 2, 2});
  expect_tensor(resize("round_prefer_ceil"), {4}, {1, 2, 2, 2});
  expect_tensor(resize("ceil"), {4}, {1, 2, 2, 2});
}

TEST(Resize, ATieIsOneThoughTheScaleIsRounded) {
  // 1 / (2.0f / 7) is 3.4999998 and stands for 3.5.
  const auto resize = [&](const char* mode) {
    return apply("Resize", {counting({7}), kNone, kNone, ints({2})},
                 {{"nearest_mode", mode}, {"coordinate_transformation_mode", "asymmetric"}});
  };
  expect_tensor(resize("round_prefer_ceil"), {2}, {0, 4});
  expect_tensor(resize("round_prefer_floor"), {2}, {0, 3});
  expect_tensor(resize("floor"), {2}, {0, 3});
  // The fourth of 25 elements lies at 2 of 17.
  const Literal y = apply("Resize", {counting({17}), kNone, floats({1}, {1.5})},
                          {{"nearest_mode", "floor"}, {"coordinate_transformation_mode", "half_pixel_symmetric"}});
  EXPECT_EQ(y.at(3).f, 2);
}

TEST(Resize, SizesArriveAtRunTime) {
  const Literal x = floats({1, 1, 2}, {0, 4});
  expect_tensor(apply("Resize", {x, kNone, kNone, ints({1, 1, 4})}, {{"mode", "linear"}}), {1, 1, 4}, {0, 1, 3, 4});
  expect_tensor(apply("Resize", {x, kNone, kNone, ints({1, 1, 3})},
                      {{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}}),
                {1, 1, 3}, {0, 2, 4});
  expect_tensor(apply("Resize", {x, kNone, kNone, ints({1, 1, 1})}, {{"mode", "linear"}, {"antialias", 1}}), {1, 1, 1},
                {2});
}

TEST(Resize, NothingIsFilteredWithoutAScale) {
  for (const char* mode : {"linear", "cubic"}) {
    const auto extents = [&](std::vector<int64_t> from, std::vector<double> to) {
      return apply("Resize", {counting(from), kNone, kNone, ints(to)}, {{"mode", mode}, {"antialias", 1}}).extents();
    };
    EXPECT_EQ(extents({2, 3, 0}, {2, 5, 0}), (Ints{2, 5, 0})) << mode;
    EXPECT_EQ(extents({2, 3, 4}, {2, 0, 2}), (Ints{2, 0, 2})) << mode;
  }
}

TEST(Resize, TheRatioCanBeKept) {
  const Literal x = counting({2, 4});
  const auto extents = [&](const char* policy) {
    return apply("Resize", {x, kNone, kNone, ints({7, 8})}, {{"keep_aspect_ratio_policy", policy}}).extents();
  };
  EXPECT_EQ(extents("not_larger"), (Ints{4, 8}));
  EXPECT_EQ(extents("not_smaller"), (Ints{7, 14}));
}

TEST(Sampling, OutsideOfTheImage) {
  const Literal x = floats({1, 1, 1, 2}, {1, 3}), grid = floats({1, 1, 2, 2}, {0, 0, 5, 0});
  const auto sample = [&](const char* padding) {
    return apply("GridSample", {x, grid}, {{"padding_mode", padding}, {"align_corners", 1}});
  };
  expect_tensor(sample("zeros"), {1, 1, 1, 2}, {2, 0});
  expect_tensor(sample("border"), {1, 1, 1, 2}, {2, 3});
  expect_tensor(sample("reflection"), {1, 1, 1, 2}, {2, 3});
}

TEST(Sampling, BinsOfBoxesOfDifferentSizes) {
  // The whole image, one pixel that all bins share, and a box beside the image.
  const Literal x = counting({1, 1, 4, 6});
  const Literal boxes = floats({3, 5}, {0, 0, 0, 5, 3, 0, 1, 1, 1, 1, 0, 7, 0, 9, 0});
  expect_tensor(apply("MaxRoiPool", {x, boxes}, {{"pooled_shape", Ints{2, 2}}}), {3, 1, 2, 2},
                {8, 11, 20, 23, 7, 7, 7, 7, 0, 0, 0, 0});
  EXPECT_EQ(apply("MaxRoiPool", {x, floats({0, 5}, {})}, {{"pooled_shape", Ints{2, 2}}}).extents(), (Ints{0, 1, 2, 2}));
}

TEST(Sampling, ColumnsMakeAnImage) {
  // Two windows of two pixels, one apart: the middle pixel gets both.
  expect_tensor(apply("Col2Im", {floats({1, 2, 2}, {1, 2, 10, 20}), ints({1, 3}), ints({1, 2})}), {1, 1, 1, 3},
                {1, 12, 20});
}

TEST(Space, DepthAndBack) {
  const Literal x = counting({1, 4, 1, 2});
  const Literal wide = apply("DepthToSpace", {x}, {{"blocksize", 2}});
  expect_tensor(wide, {1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7});
  expect_tensor(apply("SpaceToDepth", {wide}, {{"blocksize", 2}}), {1, 4, 1, 2}, values_of(x));
}

}  // namespace
}  // namespace stax::frontend
