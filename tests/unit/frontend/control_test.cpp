// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan and sequences.
#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const Dim kUnnamed = std::string();

int count_ops(const tensor::Graph& graph, tensor::OpKind kind) {
  int count = 0;
  tensor::for_each_op(graph.body, [&](const tensor::Op& op) { count += op.kind() == kind; });
  return count;
}

// ---- If

TEST(If, OnlyTheBranchOfAConstantConditionIsImported) {
  ModelOf m;
  GraphOf good, bad;
  good.node("Neg", {"x"}, {"a"}).output("a");
  bad.node("Frobnicate", {"x"}, {"b"}, {}, "acme").output("b");
  m.input("x", DType::kF32, {"n"})
      .constant("c", bools({}, {1}))
      .node("If", {"c"}, {"y"}, {{"then_branch", good.proto}, {"else_branch", bad.proto}})
      .output("y");
  EXPECT_EQ(count_ops(*m.import(), tensor::OpKind::kIf), 0);
  expect_tensor(m.run_one({{"x", floats({1}, {2})}}), {1}, {-2});
}

TEST(If, AConditionOnExtentsMayBeKnown) {
  ModelOf m;
  GraphOf squeezed, kept;
  squeezed.constant("axes", ints({1})).node("Squeeze", {"x", "axes"}, {"a"}).output("a");
  kept.node("Identity", {"x"}, {"b"}).output("b");
  m.input("x", DType::kF32, {"n", 3})
      .constant("one", ints({1}))
      .node("Shape", {"x"}, {"s"})
      .node("Gather", {"s", "one"}, {"d"})
      .node("Equal", {"d", "one"}, {"c"});
  m.node("If", {"c"}, {"y"}, {{"then_branch", squeezed.proto}, {"else_branch", kept.proto}}).output("y");
  EXPECT_EQ(m.shape_text("y"), "n, 3");
}

ModelOf two_ranks() {
  ModelOf m;
  GraphOf flat, kept;
  flat.constant("axes", ints({0})).node("ReduceSum", {"x", "axes"}, {"a"}, {{"keepdims", 0}}).output("a");
  kept.node("Identity", {"x"}, {"b"}).output("b");
  m.input("x", DType::kF32, {"n", 2})
      .input("c", DType::kBool, {})
      .node("If", {"c"}, {"t"}, {{"then_branch", flat.proto}, {"else_branch", kept.proto}});
  m.node("Neg", {"t"}, {"y"}).output("y");
  return m;
}

TEST(If, BranchesMayDifferInRank) {
  const ModelOf m = two_ranks();
  expect_tensor(m.run_one({{"x", counting({2, 2})}, {"c", bools({}, {1})}}), {2}, {-2, -4});
  expect_tensor(m.run_one({{"x", counting({2, 2})}, {"c", bools({}, {0})}}), {2, 2}, {0, -1, -2, -3});
}

TEST(If, BranchesMayDifferInExtents) {
  ModelOf m;
  GraphOf twice, once;
  twice.node("Concat", {"x", "x"}, {"a"}, {{"axis", 0}}).output("a");
  once.node("Neg", {"x"}, {"b"}).output("b");
  m.input("x", DType::kF32, {"n", 2})
      .input("c", DType::kBool, {1})
      .node("If", {"c"}, {"y"}, {{"then_branch", twice.proto}, {"else_branch", once.proto}})
      .output("y");
  EXPECT_TRUE(m.import()->outputs[0].value->type.extents[1].is_constant(2)) << "only what differs becomes a symbol";
  EXPECT_EQ(m.run_one({{"x", counting({3, 2})}, {"c", bools({1}, {1})}}).extents(), (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(m.run_one({{"x", counting({3, 2})}, {"c", bools({1}, {0})}}).extents(), (std::vector<int64_t>{3, 2}));
}

TEST(If, WhatABranchChecksHoldsOnlyThere) {
  ModelOf m;
  GraphOf sum, kept;
  sum.node("Add", {"x", "z"}, {"s"}).node("Slice", {"s", "zero", "one"}, {"a"}).output("a");
  kept.node("Slice", {"x", "zero", "one"}, {"b"}).output("b");
  m.input("x", DType::kF32, {"n"})
      .input("z", DType::kF32, {"k"})
      .input("c", DType::kBool, {})
      .constant("zero", ints({0}))
      .constant("one", ints({1}));
  m.node("If", {"c"}, {"y"}, {{"then_branch", sum.proto}, {"else_branch", kept.proto}}).output("y");
  expect_tensor(m.run_one({{"x", counting({2})}, {"z", counting({3})}, {"c", bools({}, {0})}}), {1}, {0});
  expect_words(m.fault({{"x", counting({2})}, {"z", counting({3})}, {"c", bools({}, {1})}}), {"Add", "2", "3"});
}

// ---- Loop

TEST(Loop, CountsStacksAndStops) {
  ModelOf m;
  GraphOf body;
  body.input("i")
      .input("c")
      .input("v")
      .node("Add", {"v", "step"}, {"w"})
      .node("Less", {"w", "limit"}, {"go"})
      .node("Cast", {"i"}, {"f"}, {{"to", 1}});
  body.output("go").output("w").output("f");
  m.input("trips", DType::kI64, {})
      .input("v0", DType::kF32, {"n"})
      .constant("step", floats({}, {2}))
      .input("limit", DType::kF32, {1})
      .constant("yes", bools({}, {1}));
  m.node("Squeeze", {"limit"}, {"l"})
      .node("Loop", {"trips", "yes", "v0"}, {"v", "numbers"}, {{"body", body.proto}})
      .output("v")
      .output("numbers");
  ModelOf one = m;
  const auto made = m.run({{"trips", int_scalar(10)}, {"v0", floats({1}, {0})}, {"limit", floats({1}, {5})}});
  expect_tensor(made.at("v"), {1}, {6});
  expect_tensor(made.at("numbers"), {3}, {0, 1, 2});
  const auto none = m.run({{"trips", int_scalar(0)}, {"v0", floats({1}, {7})}, {"limit", floats({1}, {5})}});
  expect_tensor(none.at("v"), {1}, {7});
  EXPECT_EQ(none.at("numbers").count(), 0);
}

TEST(Loop, CarriedExtentsThatStayAreKnownThoseThatGrowAreFound) {
  ModelOf m;
  GraphOf body;
  body.input("i").input("c").input("kept").input("list");
  body.node("Tanh", {"kept"}, {"kept2"})
      .constant("shape", ints({1}))
      .node("ReduceSum", {"kept"}, {"sum"}, {{"keepdims", 0}})
      .node("Reshape", {"sum", "shape"}, {"r"});
  body.node("Concat", {"list", "r"}, {"list2"}, {{"axis", 0}})
      .node("Identity", {"c"}, {"go"})
      .output("go")
      .output("kept2")
      .output("list2");
  m.input("trips", DType::kI64, {}).input("x", DType::kF32, {"n", 3}).input("start", DType::kF32, {"k"});
  m.node("Loop", {"trips", "", "x", "start"}, {"y", "grown"}, {{"body", body.proto}}).output("y").output("grown");
  EXPECT_EQ(m.shape_text("y"), "n, 3");
  const auto made = m.run({{"trips", int_scalar(2)}, {"x", floats({1, 3}, {0, 0, 0})}, {"start", floats({0}, {})}});
  expect_tensor(made.at("grown"), {2}, {0, 0});
}

TEST(Loop, AnEmptyStartDoesNotContradictTheBody) {
  // On the first import the list seems to have extent 0, in which the body's reshape to [-1, 2] of a longer one makes no sense.
  ModelOf m;
  GraphOf body;
  body.input("i")
      .input("c")
      .input("list")
      .constant("shape", ints({1, 2}))
      .node("Concat", {"list", "row"}, {"longer"}, {{"axis", 0}});
  body.constant("last", ints({-1}))
      .node("Gather", {"longer", "last"}, {"g"}, {{"axis", 0}})
      .node("Reshape", {"g", "shape"}, {"scan"})
      .node("Identity", {"c"}, {"go"});
  body.output("go").output("longer").output("scan");
  m.input("row", DType::kF32, {1, 2}).constant("empty", floats({0, 2}, {})).constant("three", int_scalar(3));
  m.node("Loop", {"three", "", "empty"}, {"all", "rows"}, {{"body", body.proto}}).output("all").output("rows");
  const auto made = m.run({{"row", floats({1, 2}, {4, 5})}});
  expect_tensor(made.at("all"), {3, 2}, {4, 5, 4, 5, 4, 5});
  expect_tensor(made.at("rows"), {3, 1, 2}, {4, 5, 4, 5, 4, 5});
}

TEST(Loop, ARankThatChangesIsARunTimeRank) {
  ModelOf m;
  GraphOf body;
  body.input("i")
      .input("c")
      .input("v")
      .constant("axes", ints({0}))
      .node("Unsqueeze", {"v", "axes"}, {"w"})
      .node("Identity", {"c"}, {"go"})
      .output("go")
      .output("w");
  m.input("trips", DType::kI64, {})
      .input("x", DType::kF32, {"n"})
      .node("Loop", {"trips", "", "x"}, {"y"}, {{"body", body.proto}})
      .output("y");
  EXPECT_EQ(m.run_one({{"trips", int_scalar(3)}, {"x", counting({2})}}).extents(), (std::vector<int64_t>{1, 1, 1, 2}));
  EXPECT_EQ(m.run_one({{"trips", int_scalar(0)}, {"x", counting({2})}}).extents(), (std::vector<int64_t>{2}));
}

TEST(Loop, WithoutAnEndIsRefused) {
  ModelOf m;
  GraphOf body;
  body.input("i")
      .input("c")
      .input("v")
      .node("Neg", {"v"}, {"w"})
      .node("Identity", {"c"}, {"go"})
      .output("go")
      .output("w");
  m.input("x", DType::kF32, {"n"}).node("Loop", {"", "", "x"}, {"y"}, {{"body", body.proto}}).output("y");
  expect_words(m.fault(), {"Loop", "never end"});
}

// ---- Scan

TEST(Scan, DirectionsAndAxes) {
  ModelOf m;
  GraphOf body;
  body.input("s").input("v").node("Add", {"s", "v"}, {"t"}).node("Identity", {"t"}, {"y"}).output("t").output("y");
  m.input("s0", DType::kF32, {2}).input("x", DType::kF32, {2, "n"});
  m.node("Scan", {"s0", "x"}, {"last", "all"},
         {{"body", body.proto},
          {"num_scan_inputs", 1},
          {"scan_input_axes", std::vector<int64_t>{-1}},
          {"scan_input_directions", std::vector<int64_t>{1}},
          {"scan_output_axes", std::vector<int64_t>{1}},
          {"scan_output_directions", std::vector<int64_t>{1}}});
  m.output("last").output("all");
  const auto made = m.run({{"s0", floats({2}, {10, 20})}, {"x", counting({2, 3})}});
  expect_tensor(made.at("last"), {2}, {13, 32});
  expect_tensor(made.at("all"), {2, 3}, {13, 13, 12, 32, 29, 25});
  EXPECT_EQ(m.run({{"s0", floats({2}, {10, 20})}, {"x", counting({2, 0})}}).at("all").extents(),
            (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(m.shape_text("all"), "2, n");
}

// ---- sequences

TEST(Sequences, AListTakenApartAsItWasPutTogetherIsNone) {
  ModelOf m;
  m.input("a", DType::kF32, {"n"})
      .input("b", DType::kF32, {"k"})
      .constant("one", int_scalar(1))
      .node("SequenceConstruct", {"a", "b"}, {"s"});
  m.node("SequenceAt", {"s", "one"}, {"y"})
      .node("ConcatFromSequence", {"s"}, {"z"}, {{"axis", 0}})
      .node("SequenceLength", {"s"}, {"l"})
      .output("y")
      .output("z")
      .output("l");
  EXPECT_EQ(m.shape_text("z"), "k + n");
  const auto made = m.run({{"a", floats({1}, {1})}, {"b", floats({2}, {2, 3})}});
  expect_tensor(made.at("y"), {2}, {2, 3});
  expect_tensor(made.at("z"), {3}, {1, 2, 3});
  expect_tensor(made.at("l"), {}, {2});
}

TEST(Sequences, PiecesOfASplitAtKnownPositionsAreSlices) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", 2})
      .constant("size", int_scalar(2))
      .constant("one", int_scalar(1))
      .node("SplitToSequence", {"x", "size"}, {"s"}, {{"axis", 0}});
  m.node("SequenceAt", {"s", "one"}, {"y"}).output("y");
  expect_tensor(m.run_one({{"x", counting({3, 2})}}), {1, 2}, {4, 5});
  expect_words(m.fault({{"x", counting({2, 2})}}), {"piece 1", "2"});
}

TEST(Sequences, GrowInALoop) {
  ModelOf m;
  GraphOf body;
  body.input("i")
      .input("c")
      .input("s")
      .node("Cast", {"i"}, {"f"}, {{"to", 1}})
      .node("Add", {"x", "f"}, {"v"})
      .node("SequenceInsert", {"s", "v"}, {"t"});
  body.node("Identity", {"c"}, {"go"}).output("go").output("t");
  m.input("x", DType::kF32, {"n"}).input("trips", DType::kI64, {}).node("SequenceEmpty", {}, {"none"});
  m.node("Loop", {"trips", "", "none"}, {"s"}, {{"body", body.proto}})
      .node("ConcatFromSequence", {"s"}, {"y"}, {{"axis", 0}, {"new_axis", 1}})
      .output("y")
      .output("s");
  EXPECT_EQ(m.import()->outputs[0].value->type.static_rank(), 2)
      << "the rank of what is put into the empty sequence is found";
  const auto made = m.run({{"x", floats({2}, {1, 2})}, {"trips", int_scalar(2)}});
  expect_tensor(made.at("y"), {2, 2}, {1, 2, 2, 3});
  expect_tensor(made.at("s[1]"), {2}, {2, 3});
}

TEST(Sequences, MapsAndEdits) {
  ModelOf m;
  GraphOf body;
  body.input("v").input("w").node("Mul", {"v", "w"}, {"p"}).output("p");
  m.sequence_input("s", DType::kF32, 1).input("w", DType::kF32, {1}).input("at", DType::kI64, {});
  m.node("SequenceMap", {"s", "w"}, {"t"}, {{"body", body.proto}})
      .node("SequenceErase", {"t", "at"}, {"u"})
      .node("SequenceInsert", {"u", "w", "at"}, {"v"})
      .output("v");
  const auto made = m.run(
      {{"s[0]", floats({1}, {1})}, {"s[1]", floats({2}, {2, 3})}, {"w", floats({1}, {10})}, {"at", int_scalar(0)}});
  expect_tensor(made.at("v[0]"), {1}, {10});
  expect_tensor(made.at("v[1]"), {2}, {20, 30});
}

TEST(Optional, IsDecidedByTheFile) {
  ModelOf m;
  m.input("x", DType::kF32, {2})
      .node("Optional", {"x"}, {"o"})
      .node("OptionalHasElement", {"o"}, {"has"})
      .node("OptionalGetElement", {"o"}, {"y"});
  m.node("Optional", {}, {"none"})
      .node("OptionalHasElement", {"none"}, {"hasnt"})
      .output("y")
      .output("has")
      .output("hasnt");
  const auto made = m.run({{"x", floats({2}, {1, 2})}});
  expect_tensor(made.at("y"), {2}, {1, 2});
  expect_tensor(made.at("has"), {}, {1});
  expect_tensor(made.at("hasnt"), {}, {0});
}

}  // namespace
}  // namespace stax::frontend
