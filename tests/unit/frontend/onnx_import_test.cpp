// SPDX-License-Identifier: Apache-2.0
// The walk over a model: dims, names, faults, initializers, external data, functions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

const Dim kUnnamed = std::string();

ModelOf sum_and_project() {
  ModelOf m;
  m.input("pixels", DType::kF32, {"batch", 2})
      .input("offsets", DType::kF32, {"batch", 2})
      .constant("w", floats({2, 2}, {1, 2, 3, 4}));
  m.node("Add", {"pixels", "offsets"}, {"t"}).node("MatMul", {"t", "w"}, {"y"}).output("y");
  return m;
}

TEST(OnnxImport, RunsASmallModel) {
  const Literal y =
      sum_and_project().run_one({{"pixels", floats({1, 2}, {1, 2})}, {"offsets", floats({1, 2}, {10, 20})}});
  expect_tensor(y, {1, 2}, {11 + 66, 22 + 88});
}

// ---- dims

TEST(OnnxImport, NamedDimsAreOneSymbolUnnamedOnesArePositions) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", kUnnamed})
      .input("z", DType::kF32, {"n", kUnnamed})
      .node("Add", {"x", "z"}, {"y"})
      .output("y")
      .output("x");
  const auto graph = m.import();
  EXPECT_EQ(graph->inputs[0].value->type.extents[0], graph->inputs[1].value->type.extents[0]);
  EXPECT_NE(graph->inputs[0].value->type.extents[1], graph->inputs[1].value->type.extents[1]);
  EXPECT_EQ(graph->inputs[0].value->type.extents[1].symbol().name, "x[1]");
}

TEST(OnnxImport, RangesComeFromTheOptions) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", kUnnamed}).node("Relu", {"x"}, {"y"}).output("y");
  m.options.dims["n"] = {1, 64};
  m.options.dims["x[1]"] = {3, 5};
  const auto graph = m.import();
  EXPECT_EQ(graph->inputs[0].value->type.extents[0].symbol().range, (symbolic::Interval{1, 64}));
  EXPECT_EQ(graph->inputs[0].value->type.extents[1].symbol().range, (symbolic::Interval{3, 5}));
}

TEST(OnnxImport, AnUnknownDimIsRefusedWithTheKnownOnes) {
  ModelOf m = sum_and_project();
  m.options.dims["sequence"] = {1, 8};
  expect_words(m.fault(), {"sequence", "batch"});
}

TEST(OnnxImport, ADimThatTheFileFixesIsNoOption) {
  ModelOf m = sum_and_project();
  m.options.dims["pixels[1]"] = {1, 8};
  expect_words(m.fault(), {"pixels[1]", "fixed", "2"});
}

TEST(OnnxImport, ADimNamedByAnExpressionIsARelation) {
  ModelOf m;
  m.input("past", DType::kF32, {"p"}).input("fresh", DType::kF32, {"s"}).input("mask", DType::kF32, {"p + s"});
  m.node("Concat", {"past", "fresh"}, {"all"}, {{"axis", 0}}).node("Mul", {"all", "mask"}, {"y"}).output("y");
  EXPECT_EQ(m.shape_text("y"), "p + s");
  expect_tensor(
      m.run_one({{"past", floats({1}, {2})}, {"fresh", floats({2}, {3, 4})}, {"mask", floats({3}, {1, 0, 1})}}), {3},
      {2, 0, 4});
  expect_words(m.fault({{"past", floats({1}, {2})}, {"fresh", floats({2}, {3, 4})}, {"mask", floats({1}, {1})}}),
               {"p + s", "1", "3"});
}

// ---- faults

TEST(OnnxImport, AValueThatDoesNotExist) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Add", {"x", "ghost"}, {"y"}).output("y");
  expect_words(m.fault(), {"Add", "ghost"});
}

TEST(OnnxImport, ACycle) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Add", {"x", "b"}, {"a"}).node("Add", {"a", "x"}, {"b"}).output("b");
  expect_words(m.fault(), {"'a'", "cycle"});
}

TEST(OnnxImport, ACycleThatNothingElseReads) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Relu", {"x"}, {"y"}).node("Add", {"x", "a"}, {"a"}).output("y");
  expect_words(m.fault(), {"'a'", "cycle"});
}

TEST(OnnxImport, NodesMayStandInAnyOrder) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 draw(seed);
  // v(k) = 2*v(k - 1) + v(j) for some j < k, modulo 1000 so that every value is exact.
  constexpr int kCount = 300;
  std::vector<double> expected{3};
  std::vector<std::pair<int, onnx::NodeProto>> nodes;
  for (int k = 1; k < kCount; ++k) {
    const int j = static_cast<int>(draw() % k);
    const auto name = [](const char* stem, int i) { return stem + std::to_string(i); };
    expected.push_back(std::fmod(2 * expected.back() + expected[j], 1000));
    nodes.emplace_back(k, node_of("Mul", {name("v", k - 1), "two"}, {name("t", k)}));
    nodes.emplace_back(k, node_of("Add", {name("t", k), name("v", j)}, {name("u", k)}));
    nodes.emplace_back(k, node_of("Mod", {name("u", k), "thousand"}, {name("v", k)}));
  }
  std::shuffle(nodes.begin(), nodes.end(), draw);
  ModelOf m;
  m.input("v0", DType::kI64, {1}).constant("two", ints({2})).constant("thousand", ints({1000}));
  for (const auto& [k, node] : nodes) *m.proto.add_node() = node;
  m.output("v" + std::to_string(kCount - 1));
  expect_tensor(m.run_one({{"v0", ints({3})}}), {1}, {expected.back()});
}

TEST(OnnxImport, ABodyMayReadWhatALaterNodeMakes) {
  GraphOf doubled, kept;
  doubled.node("Add", {"later", "inner"}, {"y"}).node("Relu", {"later"}, {"inner"}).output("y");
  kept.output("later");
  ModelOf m;
  m.input("c", DType::kBool, {}).input("x", DType::kF32, {2});
  m.node("If", {"c"}, {"z"}, {{"then_branch", doubled.proto}, {"else_branch", kept.proto}});
  // Of the name of a value that only a body knows.
  m.node("Neg", {"z"}, {"inner"}).node("Exp", {"x"}, {"later"}).output("z").output("inner");
  const auto taken = m.run({{"c", bools({}, {1})}, {"x", floats({2}, {0, 0})}});
  expect_tensor(taken.at("z"), {2}, {2, 2});
  expect_tensor(taken.at("inner"), {2}, {-2, -2});
  expect_tensor(m.run({{"c", bools({}, {0})}, {"x", floats({2}, {0, 0})}}).at("z"), {2}, {1, 1});
}

TEST(OnnxImport, ANameMadeTwice) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Relu", {"x"}, {"y"}).node("Exp", {"x"}, {"y"}).output("y");
  expect_words(m.fault(), {"'y'", "Exp"});
}

TEST(OnnxImport, AnOutputThatNobodyMakes) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Relu", {"x"}, {"t"}).output("result");
  expect_words(m.fault(), {"result"});
}

TEST(OnnxImport, AllThatIsUnsupportedAtOnce) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).node("Frobnicate", {"x"}, {"t"}, {}, "acme").node("Whirl", {"t"}, {"u"}, {}, "acme");
  m.node("Cast", {"x"}, {"v"}, {{"to", static_cast<int>(onnx::TensorProto::FLOAT8E5M2)}})
      .node("Add", {"u", "x"}, {"y"})
      .output("y");
  const std::string text = m.fault();
  EXPECT_TRUE(text.starts_with("unsupported:")) << text;
  expect_words(text, {"acme.Frobnicate", "acme.Whirl", "float8e5m2"});
}

TEST(OnnxImport, UnknownOperatorsInsideASkippedBodyAreReportedToo) {
  ModelOf m;
  GraphOf branch;
  branch.node("Whirl", {"x"}, {"inner"}, {}, "acme").output("inner");
  m.input("x", DType::kF32, {2}).node("Frobnicate", {"x"}, {"c"}, {}, "acme");
  m.node("If", {"c"}, {"y"}, {{"then_branch", branch.proto}, {"else_branch", branch.proto}}).output("y");
  expect_words(m.fault(), {"Frobnicate", "Whirl"});
}

TEST(OnnxImport, AnOperatorOfALaterOpset) {
  ModelOf m(13);
  m.input("x", DType::kF32, {2}).node("Gelu", {"x"}, {"y"}).output("y");
  expect_words(m.fault(), {"Gelu", "13", "20"});
}

TEST(OnnxImport, DamagedFiles) {
  EXPECT_THROW(import_onnx_bytes("", ".", "m.onnx", {}), UserError);
  EXPECT_THROW(import_onnx_bytes("hello, world\n", ".", "m.onnx", {}), UserError);
  const std::string good = sum_and_project().bytes();
  EXPECT_THROW(import_onnx_bytes(good.substr(0, good.size() / 2), ".", "m.onnx", {}), UserError);
  EXPECT_THROW(import_onnx("/does/not/exist.onnx", {}), UserError);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    try {
      import_onnx_bytes(good.substr(0, cut), ".", "m.onnx", {});
    } catch (const UserError&) {
    }
  }
}

TEST(OnnxImport, VersionsOutsideAreUnsupported) {
  ModelOf old = sum_and_project();
  old.model.set_ir_version(2);
  EXPECT_TRUE(old.fault().starts_with("unsupported:"));
  ModelOf modern(29);
  modern.input("x", DType::kF32, {2}).node("Relu", {"x"}, {"y"}).output("y");
  expect_words(modern.fault(), {"unsupported:", "29"});
}

TEST(OnnxImport, TypesThatDoNotMeetAreTheUsersFault) {
  ModelOf m;
  m.input("x", DType::kF32, {2}).input("z", DType::kI64, {2}).node("Add", {"x", "z"}, {"y"}).output("y");
  expect_words(m.fault(), {"Add", "float32", "int64"});
}

// ---- values

TEST(OnnxImport, InputsConstantsAndOneValueTwiceAsOutputs) {
  ModelOf m;
  m.input("x", DType::kF32, {2})
      .constant("c", floats({1}, {7}))
      .node("Relu", {"x"}, {"y"})
      .node("Identity", {"y"}, {"z"});
  m.output("x").output("c").output("y").output("z");
  const auto made = m.run({{"x", floats({2}, {-1, 2})}});
  expect_tensor(made.at("x"), {2}, {-1, 2});
  expect_tensor(made.at("c"), {1}, {7});
  expect_tensor(made.at("y"), {2}, {0, 2});
  expect_tensor(made.at("z"), {2}, {0, 2});
}

TEST(OnnxImport, AnInitializerThatIsAlsoAnInputIsAConstant) {
  ModelOf m;
  m.input("x", DType::kF32, {2})
      .input("w", DType::kF32, {2})
      .constant("w", floats({2}, {3, 4}))
      .node("Mul", {"x", "w"}, {"y"})
      .output("y");
  EXPECT_EQ(m.import()->inputs.size(), 1u);
  expect_tensor(m.run_one({{"x", floats({2}, {1, 2})}}), {2}, {3, 8});
}

TEST(OnnxImport, NamesMayBeAnyText) {
  ModelOf m;
  m.input("onnx::x:0, \"größe\"", DType::kF32, {"batch size"})
      .node("Relu", {"onnx::x:0, \"größe\""}, {"σ/1"})
      .output("σ/1");
  expect_tensor(m.run({{"onnx::x:0, \"größe\"", floats({1}, {-3})}}).at("σ/1"), {1}, {0});
}

TEST(OnnxImport, TypedFieldsOfInitializers) {
  ModelOf m;
  auto& half = *m.proto.add_initializer();
  half.set_name("half");
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.add_dims(2);
  half.add_int32_data(0x3C00);
  half.add_int32_data(0xC000);
  auto& small = *m.proto.add_initializer();
  small.set_name("small");
  small.set_data_type(onnx::TensorProto::INT8);
  small.add_dims(1);
  small.add_int32_data(-5);
  auto& large = *m.proto.add_initializer();
  large.set_name("large");
  large.set_data_type(onnx::TensorProto::UINT32);
  large.add_dims(1);
  large.add_uint64_data(4000000000);
  m.input("x", DType::kF32, {1}).output("half").output("small").output("large");
  const auto made = m.run({{"x", floats({1}, {0})}});
  expect_tensor(made.at("half"), {2}, {1, -2});
  expect_tensor(made.at("small"), {1}, {-5});
  expect_tensor(made.at("large"), {1}, {4000000000});
}

TEST(OnnxImport, AnInitializerOfTheWrongSize) {
  ModelOf m;
  m.constant("w", floats({3}, {1, 2, 3})).input("x", DType::kF32, {3}).node("Add", {"x", "w"}, {"y"}).output("y");
  m.proto.mutable_initializer(0)->set_dims(0, int64_t{1} << 60);
  expect_words(m.fault(), {"'w'", "12"});
  m.proto.mutable_initializer(0)->set_dims(0, -1);
  expect_words(m.fault(), {"'w'", "-1"});
}

TEST(OnnxImport, DeclaredOutputsAreHints) {
  ModelOf m;
  m.input("x", DType::kF32, {3}).node("Relu", {"x"}, {"y"}).output("y");
  auto& tensor = *m.proto.mutable_output(0)->mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_value(4);
  const auto graph = m.import();
  ASSERT_EQ(graph->warnings.size(), 1u);
  expect_words(graph->warnings[0], {"'y'", "4", "3"});
}

// ---- external data

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("stax_external_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::vector<float>& values) {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  ModelOf model(const std::string& location, int64_t offset, int count) {
    ModelOf m;
    m.folder = folder_.string();
    auto& w = *m.proto.add_initializer();
    w.set_name("w");
    w.set_data_type(onnx::TensorProto::FLOAT);
    w.add_dims(count);
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const std::string& key, const std::string& value) {
      auto& added = *w.add_external_data();
      added.set_key(key);
      added.set_value(value);
    };
    entry("location", location);
    entry("offset", std::to_string(offset));
    entry("length", std::to_string(count * 4));
    m.input("x", DType::kF32, {1}).node("Add", {"x", "w"}, {"y"}).output("y");
    return m;
  }
  std::filesystem::path folder_;
};

TEST_F(ExternalData, IsReadAtItsOffset) {
  write("w.bin", {9, 1, 2, 3});
  expect_tensor(model("w.bin", 4, 3).run_one({{"x", floats({1}, {10})}}), {3}, {11, 12, 13});
}

TEST_F(ExternalData, LargeTensorsAreMapped) {
  std::vector<float> values(1 << 19, 1.0F);
  values.back() = 5;
  write("w.bin", values);
  const Literal y = model("w.bin", 0, 1 << 19).run_one({{"x", floats({1}, {1})}});
  EXPECT_EQ(y.at(0).f, 2);
  EXPECT_EQ(y.at((1 << 19) - 1).f, 6);
}

TEST_F(ExternalData, FaultsNameTheFile) {
  write("w.bin", {1, 2});
  expect_words(model("absent.bin", 0, 2).fault(), {"'w'", "absent.bin"});
  expect_words(model("w.bin", 0, 3).fault(), {"w.bin", "8"});
  expect_words(model("w.bin", 4000, 1).fault(), {"w.bin"});
  expect_words(model("../w.bin", 0, 2).fault(), {"../w.bin", "outside"});
  expect_words(model("/etc/passwd", 0, 2).fault(), {"/etc/passwd", "outside"});
  expect_words(model(".", 0, 2).fault(), {"folder"});
}

// ---- functions

onnx::FunctionProto function(const std::string& name, const Names& inputs, const Names& outputs,
                             const std::vector<onnx::NodeProto>& nodes) {
  onnx::FunctionProto made;
  made.set_domain("mine");
  made.set_name(name);
  for (const std::string& each : inputs) made.add_input(each);
  for (const std::string& each : outputs) made.add_output(each);
  for (const onnx::NodeProto& node : nodes) *made.add_node() = node;
  auto& opset = *made.add_opset_import();
  opset.set_version(18);
  return made;
}

TEST(Functions, AreInlinedWithTheirAttributes) {
  ModelOf m;
  onnx::FunctionProto leak = function(
      "Leak", {"x"}, {"y"},
      {node_of("LeakyRelu", {"x"}, {"y"}, {Attribute::reference("alpha", "slope", onnx::AttributeProto::FLOAT)})});
  *leak.add_attribute_proto() = Attribute("slope", 0.5).proto;
  *m.model.add_functions() = leak;
  m.input("x", DType::kF32, {2})
      .node("Leak", {"x"}, {"a"}, {}, "mine")
      .node("Leak", {"x"}, {"b"}, {{"slope", 0.25}}, "mine");
  m.output("a").output("b");
  const auto made = m.run({{"x", floats({2}, {-4, 4})}});
  expect_tensor(made.at("a"), {2}, {-2, 4});
  expect_tensor(made.at("b"), {2}, {-1, 4});
}

TEST(Functions, CallEachOtherAndLeaveInputsOut) {
  ModelOf m;
  *m.model.add_functions() = function("Bounded", {"x", "lo", "hi"}, {"y"}, {node_of("Clip", {"x", "lo", "hi"}, {"y"})});
  *m.model.add_functions() =
      function("Twice", {"x", "lo"}, {"y"},
               {node_of("Bounded", {"x", "lo"}, {"t"}, {}, "mine"), node_of("Add", {"t", "t"}, {"y"})});
  m.input("x", DType::kF32, {2})
      .constant("zero", floats({}, {0}))
      .node("Twice", {"x", "zero"}, {"y"}, {}, "mine")
      .output("y");
  expect_tensor(m.run_one({{"x", floats({2}, {-4, 4})}}), {2}, {0, 8});
}

TEST(Functions, OverloadsAreDifferentFunctions) {
  ModelOf m;
  onnx::FunctionProto first = function("F", {"x"}, {"y"}, {node_of("Neg", {"x"}, {"y"})});
  onnx::FunctionProto second = function("F", {"x"}, {"y"}, {node_of("Abs", {"x"}, {"y"})});
  second.set_overload("abs");
  *m.model.add_functions() = first;
  *m.model.add_functions() = second;
  m.input("x", DType::kF32, {1}).node("F", {"x"}, {"y"}, {}, "mine").node("F", {"y"}, {"z"}, {}, "mine").output("z");
  m.proto.mutable_node(1)->set_overload("abs");
  expect_tensor(m.run_one({{"x", floats({1}, {3})}}), {1}, {3});
}

TEST(Functions, AFunctionThatCallsItselfIsRefused) {
  ModelOf m;
  *m.model.add_functions() = function("F", {"x"}, {"y"}, {node_of("F", {"x"}, {"y"}, {}, "mine")});
  m.input("x", DType::kF32, {1}).node("F", {"x"}, {"y"}, {}, "mine").output("y");
  expect_words(m.fault(), {"F", "itself"});
}

}  // namespace
}  // namespace stax::frontend
