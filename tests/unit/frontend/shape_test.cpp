// SPDX-License-Identifier: Apache-2.0
// Shapes, slices and indices, with parameters in the file, computed from extents, and given at run time.
#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const Dim kUnnamed = std::string();

// ---- Reshape

TEST(Reshape, ShapeArithmeticGivesItsExtents) {
  ModelOf m;
  m.input("x", DType::kF32, {"b", "n", 6})
      .constant("zero", ints({0}))
      .constant("one", ints({1}))
      .constant("minus", ints({-1}));
  m.node("Shape", {"x"}, {"s"})
      .node("Gather", {"s", "zero"}, {"sb"})
      .node("Gather", {"s", "one"}, {"sn"})
      .node("Mul", {"sb", "sn"}, {"bn"});
  m.node("Concat", {"bn", "minus"}, {"t"}, {{"axis", 0}}).node("Reshape", {"x", "t"}, {"y"}).output("y");
  EXPECT_EQ(m.run_one({{"x", counting({2, 3, 6})}}).extents(), (std::vector<int64_t>{6, 6}));
  EXPECT_EQ(m.run_one({{"x", counting({5, 0, 6})}}).extents(), (std::vector<int64_t>{0, 6}))
      << "a multiple of the copied extent stays what it is";
  m.options.dims["b"] = m.options.dims["n"] = {1, 1000};
  EXPECT_EQ(m.shape_text("y"), "b*n, 6");
}

TEST(Reshape, ExtentsThatAreGivenBackStayKnown) {
  // n is an extent that may be 0, and stands where the input has 8: a choice at run time would hide what the extents are.
  ModelOf m;
  m.input("x", DType::kF32, {"b", "n", 8})
      .constant("flat", ints({-1, 8}))
      .node("Shape", {"x"}, {"s"})
      .node("Reshape", {"x", "flat"}, {"t"});
  m.node("Reshape", {"t", "s"}, {"y"}).output("y");
  EXPECT_EQ(m.shape_text("y"), "b, n, 8");
  EXPECT_EQ(m.run_one({{"x", counting({2, 0, 8})}}).extents(), (std::vector<int64_t>{2, 0, 8}));
}

TEST(Reshape, AComputedZeroBesideAnInferredExtentCopiesAConstant) {
  ModelOf m;
  m.input("x", DType::kF32, {"a", "b", 1})
      .constant("one", ints({1}))
      .constant("minus", ints({-1}))
      .node("Shape", {"x"}, {"s"})
      .node("Gather", {"s", "one"}, {"sb"});
  m.node("Concat", {"minus", "one", "sb"}, {"t"}, {{"axis", 0}}).node("Reshape", {"x", "t"}, {"y"}).output("y");
  EXPECT_EQ(m.run_one({{"x", counting({2, 3, 1})}}).extents(), (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(m.run_one({{"x", counting({2, 0, 1})}}).extents(), (std::vector<int64_t>{0, 1, 1}));
}

TEST(Reshape, ZeroCopiesUnlessAllowed) {
  ModelOf m;
  m.input("x", DType::kF32, {"b", "n", 6})
      .constant("s", ints({0, -1, 2}))
      .node("Reshape", {"x", "s"}, {"y"})
      .output("y");
  EXPECT_EQ(m.shape_text("y"), "b, n*3, 2");
  ModelOf zero;
  zero.input("x", DType::kF32, {kUnnamed})
      .constant("s", ints({0, 5}))
      .node("Reshape", {"x", "s"}, {"y"}, {{"allowzero", 1}})
      .output("y");
  EXPECT_EQ(zero.run_one({{"x", counting({0})}}).extents(), (std::vector<int64_t>{0, 5}));
  expect_words(zero.fault({{"x", counting({5})}}), {"5", "0"});
}

TEST(Reshape, AGivenShapeMayCopyAndInfer) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, kUnnamed})
      .input("s", DType::kI64, {2})
      .node("Reshape", {"x", "s"}, {"y"})
      .output("y");
  const auto shape_for = [&](const std::vector<double>& s) {
    return m.run_one({{"x", counting({4, 6})}, {"s", ints(s)}}).extents();
  };
  EXPECT_EQ(shape_for({3, 8}), (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(shape_for({0, -1}), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(shape_for({-1, 2}), (std::vector<int64_t>{12, 2}));
  EXPECT_EQ(shape_for({-1, 0}), (std::vector<int64_t>{4, 6}));
  expect_words(m.fault({{"x", counting({2, 17})}, {"s", ints({19, 2})}}), {"34", "19", "Reshape"});
}

TEST(Reshape, AShapeOfUnknownLengthGivesARunTimeRank) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, 6}).input("s", DType::kI64, {kUnnamed}).node("Reshape", {"x", "s"}, {"y"});
  m.node("Exp", {"y"}, {"e"}).node("Shape", {"e"}, {"shape"}).output("y").output("shape");
  for (const std::vector<double>& s : {std::vector<double>{12}, {3, -1}, {2, 3, 2}, {1, 1, 12, 1}}) {
    const auto made = m.run({{"x", counting({2, 6})}, {"s", ints(s)}});
    EXPECT_EQ(made.at("y").rank(), static_cast<int>(s.size()));
    EXPECT_EQ(made.at("shape").count(), static_cast<int64_t>(s.size()));
  }
}

TEST(Flatten, JoinsAxes) {
  ModelOf m;
  m.input("x", DType::kF32, {"a", "b", 3})
      .node("Flatten", {"x"}, {"y"}, {{"axis", 2}})
      .node("Flatten", {"x"}, {"z"}, {{"axis", -3}})
      .output("y")
      .output("z");
  EXPECT_EQ(m.shape_text("y"), "a*b, 3");
  EXPECT_EQ(m.shape_text("z"), "1, a*b*3");
}

// ---- Squeeze, Unsqueeze

TEST(Squeeze, GivenAxesKeepAStaticRank) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, kUnnamed, kUnnamed})
      .input("axes", DType::kI64, {1})
      .node("Squeeze", {"x", "axes"}, {"y"})
      .output("y");
  EXPECT_EQ(m.import()->outputs[0].value->type.static_rank(), 2);
  EXPECT_EQ(m.run_one({{"x", counting({2, 1, 3})}, {"axes", ints({1})}}).extents(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(m.run_one({{"x", counting({2, 3, 1})}, {"axes", ints({-1})}}).extents(), (std::vector<int64_t>{2, 3}));
  expect_words(m.fault({{"x", counting({2, 3, 1})}, {"axes", ints({0})}}), {"axis 0", "2"});
  expect_words(m.fault({{"x", counting({2, 3, 1})}, {"axes", ints({5})}}), {"5", "3"});
}

TEST(Squeeze, WithoutAxesTheRankIsDecidedAtRunTime) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, 1, kUnnamed}).node("Squeeze", {"x"}, {"y"}).output("y");
  EXPECT_EQ(m.run_one({{"x", counting({2, 1, 3})}}).extents(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(m.run_one({{"x", counting({1, 1, 3})}}).extents(), (std::vector<int64_t>{3}));
  EXPECT_EQ(m.run_one({{"x", counting({1, 1, 1})}}).extents(), (std::vector<int64_t>{}));
}

TEST(Squeeze, AnOperatorThatIsLegalForOneRankOnlyTakesThat) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, 1, 4}).node("Squeeze", {"x"}, {"t"}).node("Neg", {"t"}, {"u"});
  m.node("Split", {"u"}, {"a", "b"}, {{"axis", 1}, {"num_outputs", 2}}).output("b");
  expect_tensor(m.run_one({{"x", counting({2, 1, 4})}}), {2, 2}, {-2, -3, -6, -7});
  expect_words(m.fault({{"x", counting({1, 1, 4})}}), {"rank 1", "2"});
}

TEST(Unsqueeze, AxesMayBeGivenInAnyNumber) {
  ModelOf m;
  m.input("x", DType::kF32, {2, 3})
      .input("axes", DType::kI64, {kUnnamed})
      .node("Unsqueeze", {"x", "axes"}, {"y"})
      .node("Squeeze", {"y", "axes"}, {"z"});
  m.output("y").output("z");
  const auto shape_for = [&](const std::vector<double>& axes) {
    const auto made = m.run({{"x", counting({2, 3})}, {"axes", ints(axes)}});
    EXPECT_EQ(made.at("z").extents(), (std::vector<int64_t>{2, 3}));
    return made.at("y").extents();
  };
  EXPECT_EQ(shape_for({0}), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(shape_for({-1, 1}), (std::vector<int64_t>{2, 1, 3, 1}));
  EXPECT_EQ(shape_for({}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(shape_for({0, 1, 4}), (std::vector<int64_t>{1, 1, 2, 3, 1}));
}

TEST(RunTimeRank, AnOperatorThatNeedsARankIsChosenByIt) {
  // The tuples' length, and with it the rank of what is gathered, is known only at run time.
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, 2, 2})
      .input("i", DType::kI64, {kUnnamed, kUnnamed})
      .node("GatherND", {"x", "i"}, {"t"});
  m.node("Concat", {"t", "t"}, {"y"}, {{"axis", 1}})
      .node("CumSum", {"t", "first"}, {"z"})
      .constant("first", int_scalar(0))
      .output("y")
      .output("z");
  const Literal x = counting({2, 2, 2});
  const auto flat = m.run({{"x", x}, {"i", tensor_of(DType::kI64, {1, 2}, {1, 0})}});
  expect_tensor(flat.at("y"), {1, 4}, {4, 5, 4, 5});
  expect_tensor(flat.at("z"), {1, 2}, {4, 5});
  const auto whole = m.run({{"x", x}, {"i", tensor_of(DType::kI64, {2, 1}, {1, 0})}});
  expect_tensor(whole.at("y"), {2, 4, 2}, {4, 5, 6, 7, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2, 3});
  expect_tensor(whole.at("z"), {2, 2, 2}, {4, 5, 6, 7, 4, 6, 8, 10});
  expect_words(m.fault({{"x", x}, {"i", tensor_of(DType::kI64, {1, 3}, {1, 0, 1})}}), {"rank 1", "Concat"});
}

// ---- Expand, Tile, Concat, Split, Transpose

TEST(Expand, GivenShapes) {
  ModelOf m;
  m.input("x", DType::kF32, {kUnnamed, 1})
      .input("s", DType::kI64, {kUnnamed})
      .node("Expand", {"x", "s"}, {"y"})
      .output("y");
  const auto expanded = [&](const std::vector<double>& s) {
    return m.run_one({{"x", counting({2, 1})}, {"s", ints(s)}});
  };
  expect_tensor(expanded({2, 3}), {2, 3}, {0, 0, 0, 1, 1, 1});
  expect_tensor(expanded({2, 1, 2}), {2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1});
  expect_tensor(expanded({1}), {2, 1}, {0, 1});
  expect_words(m.fault({{"x", counting({2, 1})}, {"s", ints({3, 1})}}), {"2", "3"});
}

TEST(Tile, RepeatsMayBeZero) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).input("r", DType::kI64, {1}).node("Tile", {"x", "r"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"x", counting({2})}, {"r", ints({2})}}), {4}, {0, 1, 0, 1});
  expect_tensor(m.run_one({{"x", counting({2})}, {"r", ints({0})}}), {0}, {});
  expect_words(m.fault({{"x", counting({2})}, {"r", ints({-1})}}), {"-1"});
}

TEST(Split, UnevenAndGivenSizes) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).node("Split", {"x"}, {"a", "b"}, {{"axis", 0}, {"num_outputs", 2}});
  m.input("sizes", DType::kI64, {2}).node("Split", {"x", "sizes"}, {"c", "d"}, {{"axis", -1}});
  for (const char* name : {"a", "b", "c", "d"}) m.output(name);
  const auto made = m.run({{"x", counting({5})}, {"sizes", ints({4, 1})}});
  expect_tensor(made.at("a"), {3}, {0, 1, 2});
  expect_tensor(made.at("b"), {2}, {3, 4});
  expect_tensor(made.at("c"), {4}, {0, 1, 2, 3});
  expect_tensor(made.at("d"), {1}, {4});
  expect_words(m.fault({{"x", counting({5})}, {"sizes", ints({3, 1})}}), {"4", "5"});
}

// ---- Slice, Pad

TEST(Slice, BoundsAreClampedAsTheSpecificationSays) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"})
      .input("start", DType::kI64, {1})
      .input("end", DType::kI64, {1})
      .input("step", DType::kI64, {1})
      .constant("axes", ints({0}));
  m.node("Slice", {"x", "start", "end", "axes", "step"}, {"y"}).output("y");
  const auto sliced = [&](double start, double end, double step) {
    return values_of(
        m.run_one({{"x", counting({5})}, {"start", ints({start})}, {"end", ints({end})}, {"step", ints({step})}}));
  };
  using Row = std::vector<double>;
  EXPECT_EQ(sliced(1, 1000, 1), (Row{1, 2, 3, 4}));
  EXPECT_EQ(sliced(-2, 1000, 1), (Row{3, 4}));
  EXPECT_EQ(sliced(0, -1, 2), (Row{0, 2}));
  EXPECT_EQ(sliced(3, 1, 1), (Row{}));
  EXPECT_EQ(sliced(-1, -1000, -1), (Row{4, 3, 2, 1, 0}));
  EXPECT_EQ(sliced(1000, 0, -2), (Row{4, 2}));
  EXPECT_EQ(sliced(-100, -1000, -1), (Row{0})) << "a start below the axis is clamped to 0";
  expect_words(m.fault({{"x", counting({5})}, {"start", ints({0})}, {"end", ints({1})}, {"step", ints({0})}}),
               {"step"});
}

TEST(Slice, AxesMayBeGivenInAnyNumber) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", "m"});
  for (const char* name : {"starts", "ends", "axes"}) m.input(name, DType::kI64, {kUnnamed});
  m.node("Slice", {"x", "starts", "ends", "axes"}, {"y"}).output("y");
  const Literal x = counting({2, 3});
  expect_tensor(m.run_one({{"x", x}, {"starts", ints({1})}, {"ends", ints({2})}, {"axes", ints({-1})}}), {2, 1},
                {1, 4});
  expect_tensor(m.run_one({{"x", x}, {"starts", ints({1, 0})}, {"ends", ints({3, 1})}, {"axes", ints({1, 0})}}), {1, 2},
                {1, 2});
  expect_tensor(m.run_one({{"x", x}, {"starts", ints({})}, {"ends", ints({})}, {"axes", ints({})}}), {2, 3},
                {0, 1, 2, 3, 4, 5});
}

TEST(Slice, OneKnownNumberOfBoundsIsTheNumberOfAll) {
  // As exporters write the rows of a bag: a start cut out of the offsets, which may be none, and an end that is one element.
  for (const char* known : {"starts", "ends", "axes"}) {
    ModelOf m;
    m.input("x", DType::kF32, {"n", "m"});
    for (const char* name : {"starts", "ends", "axes"})
      m.input(name, DType::kI64, {name == std::string(known) ? Dim(1) : kUnnamed});
    m.node("Slice", {"x", "starts", "ends", "axes"}, {"y"}).output("y");
    const Literal x = counting({3, 2});
    expect_tensor(m.run_one({{"x", x}, {"starts", ints({1})}, {"ends", ints({2})}, {"axes", ints({0})}}), {1, 2},
                  {2, 3});
    for (const char* other : {"starts", "ends"}) {
      if (other == std::string(known)) continue;
      expect_words(m.fault({{"x", x},
                            {"starts", other == std::string("starts") ? ints({}) : ints({1})},
                            {"ends", other == std::string("ends") ? ints({2, 3}) : ints({2})},
                            {"axes", ints({0})}}),
                   {"differ in number"});
    }
  }
}

TEST(Slice, OfAShapeIsArithmetic) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", "m", 4})
      .constant("one", ints({1}))
      .constant("end", ints({9}))
      .constant("low", ints({-1}));
  m.node("Shape", {"x"}, {"s"})
      .node("Slice", {"s", "one", "end"}, {"t"})
      .node("Concat", {"low", "t"}, {"u"}, {{"axis", 0}})
      .node("Reshape", {"x", "u"}, {"y"})
      .output("y");
  EXPECT_EQ(m.shape_text("y"), "n, m, 4");
}

ModelOf pad_model(const char* mode) {
  ModelOf m(19);
  m.input("x", DType::kF32, {"n"})
      .input("pads", DType::kI64, {2})
      .node("Pad", {"x", "pads"}, {"y"}, {{"mode", mode}})
      .output("y");
  return m;
}

std::vector<double> padded(const char* mode, int n, double before, double after) {
  return values_of(pad_model(mode).run_one({{"x", counting({n})}, {"pads", ints({before, after})}}));
}

TEST(Pad, AllModes) {
  using Row = std::vector<double>;
  EXPECT_EQ(padded("constant", 3, 1, 2), (Row{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(padded("edge", 3, 2, 1), (Row{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(padded("reflect", 3, 2, 2), (Row{2, 1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(padded("wrap", 3, 2, 2), (Row{1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(padded("constant", 4, -1, -1), (Row{1, 2}));
  EXPECT_EQ(padded("edge", 4, -1, 1), (Row{1, 2, 3, 3}));
  EXPECT_EQ(padded("reflect", 1, 2, 2), (Row{0, 0, 0, 0, 0}));
}

TEST(Pad, GivenAxesAndValue) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", 2})
      .input("pads", DType::kI64, {kUnnamed})
      .input("axes", DType::kI64, {kUnnamed})
      .constant("v", floats({}, {7}));
  m.node("Pad", {"x", "pads", "v", "axes"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"x", counting({1, 2})}, {"pads", ints({1, 0})}, {"axes", ints({-1})}}), {1, 3}, {7, 0, 1});
  expect_tensor(m.run_one({{"x", counting({1, 2})}, {"pads", ints({0, 0, 1, 1})}, {"axes", ints({0, 1})}}), {2, 3},
                {0, 1, 7, 7, 7, 7});
  expect_words(m.fault({{"x", counting({1, 2})}, {"pads", ints({1, 0, 1})}, {"axes", ints({0})}}), {"3", "1"});
}

TEST(CenterCropPad, CropsAndPadsByTheSameRule) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).input("s", DType::kI64, {1}).node("CenterCropPad", {"x", "s"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"x", counting({5})}, {"s", ints({2})}}), {2}, {1, 2});
  expect_tensor(m.run_one({{"x", counting({2})}, {"s", ints({5})}}), {5}, {0, 0, 1, 0, 0});
}

// ---- indices

TEST(Gather, NegativeIndicesCountFromTheEnd) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", 2}).input("i", DType::kI64, {kUnnamed}).node("Gather", {"x", "i"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"x", counting({3, 2})}, {"i", ints({-1, 0})}}), {2, 2}, {4, 5, 0, 1});
  expect_words(m.fault({{"x", counting({3, 2})}, {"i", ints({0, 77})}}), {"Gather", "77"});
}

TEST(GatherND, TuplesOfAnyLength) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", 2})
      .input("i", DType::kI64, {kUnnamed, kUnnamed})
      .node("GatherND", {"x", "i"}, {"y"})
      .output("y");
  const Literal x = counting({3, 2});
  expect_tensor(m.run_one({{"x", x}, {"i", tensor_of(DType::kI64, {2, 1}, {2, 0})}}), {2, 2}, {4, 5, 0, 1});
  expect_tensor(m.run_one({{"x", x}, {"i", tensor_of(DType::kI64, {2, 2}, {2, 1, 0, -1})}}), {2}, {5, 1});
}

TEST(Scatter, ElementsAndTuplesWithReductions) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).input("i", DType::kI64, {"k"}).input("u", DType::kF32, {"k"});
  m.node("ScatterElements", {"x", "i", "u"}, {"y"}, {{"reduction", "add"}});
  m.constant("last", ints({-1}))
      .node("Unsqueeze", {"i", "last"}, {"j"})
      .node("ScatterND", {"x", "j", "u"}, {"z"}, {{"reduction", "max"}});
  m.output("y").output("z");
  const auto made = m.run({{"x", floats({3}, {1, 1, 1})}, {"i", ints({0, -1, 0})}, {"u", floats({3}, {5, 7, 9})}});
  expect_tensor(made.at("y"), {3}, {15, 1, 8});
  expect_tensor(made.at("z"), {3}, {9, 1, 7});
}

TEST(OneHot, DepthAtRunTime) {
  ModelOf m;
  m.input("i", DType::kI64, {"n"})
      .input("depth", DType::kI64, {})
      .constant("values", floats({2}, {-1, 2}))
      .node("OneHot", {"i", "depth", "values"}, {"y"})
      .output("y");
  expect_tensor(m.run_one({{"i", ints({1, -1, 9})}, {"depth", int_scalar(3)}}), {3, 3},
                {-1, 2, -1, -1, -1, 2, -1, -1, -1});
}

TEST(DataDependent, NonZeroCompressUniqueTopK) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"})
      .constant("zero", floats({}, {0}))
      .node("Greater", {"x", "zero"}, {"c"})
      .node("NonZero", {"c"}, {"at"})
      .node("Compress", {"x", "c"}, {"kept"});
  m.node("Unique", {"x"}, {"u", "first", "inverse", "counts"})
      .input("k", DType::kI64, {1})
      .node("TopK", {"x", "k"}, {"top", "where"});
  for (const char* name : {"at", "kept", "u", "first", "inverse", "counts", "top", "where"}) m.output(name);
  const auto made = m.run({{"x", floats({5}, {2, -1, 2, 0, 3})}, {"k", ints({2})}});
  expect_tensor(made.at("at"), {1, 3}, {0, 2, 4});
  expect_tensor(made.at("kept"), {3}, {2, 2, 3});
  expect_tensor(made.at("u"), {4}, {-1, 0, 2, 3});
  expect_tensor(made.at("first"), {4}, {1, 3, 0, 4});
  expect_tensor(made.at("inverse"), {5}, {2, 0, 2, 1, 3});
  expect_tensor(made.at("counts"), {4}, {1, 1, 2, 1});
  expect_tensor(made.at("top"), {2}, {3, 2});
  expect_tensor(made.at("where"), {2}, {4, 0});
  expect_words(m.fault({{"x", floats({1}, {2})}, {"k", ints({2})}}), {"TopK", "2", "1"});
}

TEST(TensorScatter, WrapsRoundInACircularCache) {
  ModelOf m(24);
  m.input("cache", DType::kF32, {"b", "n", 1})
      .input("update", DType::kF32, {"b", kUnnamed, 1})
      .input("at", DType::kI64, {"b"});
  m.node("TensorScatter", {"cache", "update", "at"}, {"y"}, {{"mode", "circular"}}).output("y");
  expect_tensor(
      m.run_one({{"cache", floats({1, 3, 1}, {0, 0, 0})}, {"update", floats({1, 2, 1}, {5, 6})}, {"at", ints({2})}}),
      {1, 3, 1}, {6, 0, 5});
}

}  // namespace
}  // namespace stax::frontend
