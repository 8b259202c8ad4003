// SPDX-License-Identifier: Apache-2.0
// Steps for which the host needs data (branches, loops, procedures, sequences, bound values), on a device whose memory it cannot touch.
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "loop/loop_ir.h"
#include "unit/frontend/onnx_model.h"
#include "unit/runtime/fake_device.h"

#include "runtime/runtime.h"

namespace stax::session {
namespace {

using frontend::bools;
using frontend::counting;
using frontend::floats;
using frontend::GraphOf;
using frontend::int_scalar;
using frontend::ints;
using frontend::ModelOf;
using ir::DType;
using ir::Literal;

runtime::Tensor tensor_of(const Literal& l) {
  auto keep = std::make_shared<Literal>(l);
  return {l.dtype(), l.extents(), keep->data(), std::shared_ptr<void>(keep, keep->data())};
}

void expect_same(const runtime::Tensor& got, const Literal& want, const std::string& name) {
  EXPECT_EQ(got.dtype, want.dtype()) << name;
  ASSERT_EQ(got.extents, want.extents()) << name;
  for (int64_t i = 0; i < want.count(); ++i) {
    const ir::Value64 g = ir::load_element(got.dtype, got.data, i), w = want.at(i);
    if (ir::is_float(want.dtype())) {
      ASSERT_NEAR(g.f, w.f, 1e-4) << name << " at " << i;
    } else {
      ASSERT_EQ(g.i, w.i) << name << " at " << i;
    }
  }
}

/// Runs the model on the device and compares with the tensor interpreter, for each feed in one session.
void check(const ModelOf& model, const std::vector<ModelOf::Feed>& feeds) {
  const auto graph = model.import();
  const compile::Compiled compiled = compile::compile_graph(*graph, {});
  const program::Program& program = *compiled.program;
  const auto run = [&](const runtime::Launch& l) { loop::interpret(compiled.kernels[l.kernel], l.buffers, l.params); };
  runtime::Module module(compiled.program, std::make_unique<runtime::FakeDevice>(run), {.threads = 2});
  for (int round = 0; round < 2; ++round) {
    for (const ModelOf::Feed& feed : feeds) {
      std::vector<runtime::Item> items;
      for (const program::InputSpec& input : program.inputs) {
        runtime::Item& item = items.emplace_back();
        item.is_sequence = program.values[input.value].is_sequence;
        for (int k = 0; item.is_sequence && feed.contains(input.name + "[" + std::to_string(k) + "]"); ++k)
          item.sequence.push_back(tensor_of(feed.at(input.name + "[" + std::to_string(k) + "]")));
        if (!item.is_sequence) item.tensor = tensor_of(feed.at(input.name));
      }
      const std::map<std::string, Literal> want = model.run(feed);
      const std::vector<runtime::Item> got = module.run(items);
      size_t seen = 0;
      for (size_t k = 0; k < got.size(); ++k) {
        const std::string& name = program.outputs[k].name;
        if (!got[k].is_sequence) expect_same(got[k].tensor, want.at(name), name), ++seen;
        for (size_t i = 0; i < got[k].sequence.size(); ++i, ++seen)
          expect_same(got[k].sequence[i], want.at(name + "[" + std::to_string(i) + "]"), name);
      }
      EXPECT_EQ(seen, want.size());
    }
  }
}

TEST(HostSteps, BranchesReadTheirCondition) {
  ModelOf m;
  GraphOf flat, kept;
  flat.constant("axes", ints({0})).node("ReduceSum", {"t", "axes"}, {"a"}, {{"keepdims", 0}}).output("a");
  kept.node("Identity", {"x"}, {"b"}).output("b");
  m.input("x", DType::kF32, {"n", 2}).input("least", DType::kF32, {}).node("Exp", {"x"}, {"t"});
  m.node("ReduceSum", {"t"}, {"s"}, {{"keepdims", 0}})
      .node("Greater", {"s", "least"}, {"c"})
      .node("If", {"c"}, {"u"}, {{"then_branch", flat.proto}, {"else_branch", kept.proto}});
  m.node("Neg", {"u"}, {"y"}).output("y").output("u");
  const Literal x = floats({2, 2}, {0.1, 0.2, 0.3, 0.4});
  check(m, {{{"x", x}, {"least", floats({}, {1})}},
            {{"x", x}, {"least", floats({}, {100})}},
            {{"x", floats({0, 2}, {})}, {"least", floats({}, {-1})}}});
}

TEST(HostSteps, LoopsCarryStackAndCount) {
  ModelOf m;
  GraphOf body;
  // What is carried: a value, the number of the iteration before, and a list that grows. What is stacked: the number itself and the value.
  body.input("i").input("c").input("v").input("before").input("list");
  body.node("Cast", {"i"}, {"f"}, {{"to", 1}})
      .node("Add", {"v", "f"}, {"w"})
      .node("Cast", {"before"}, {"bf"}, {{"to", 1}})
      .node("Add", {"w", "bf"}, {"scan"})
      .node("Concat", {"list", "w"}, {"list2"}, {{"axis", 0}});
  body.node("ReduceMax", {"w"}, {"top"}, {{"keepdims", 0}})
      .node("Less", {"top", "most"}, {"go"})
      .node("Identity", {"i"}, {"number"});
  body.output("go").output("w").output("number").output("list2").output("scan").output("i");
  m.input("trips", DType::kI64, {}).input("x", DType::kF32, {"n"}).input("most", DType::kF32, {});
  m.constant("none", floats({0}, {})).constant("first", int_scalar(-5));
  m.node("Loop", {"trips", "", "x", "first", "none"}, {"last", "number", "list", "scans", "numbers"},
         {{"body", body.proto}});
  for (const char* o : {"last", "number", "list", "scans", "numbers"}) m.output(o);
  std::vector<ModelOf::Feed> feeds;
  for (const double trips : {5, 0, 1, 9})
    for (const double most : {4.0, 1e9})
      feeds.push_back({{"trips", int_scalar(trips)}, {"x", counting({3})}, {"most", floats({}, {most})}});
  check(m, feeds);
}

TEST(HostSteps, ProceduresOfEveryKind) {
  ModelOf m;
  m.input("x", DType::kF32, {"n", 4}).input("k", DType::kI64, {1}).input("square", DType::kF32, {"b", 3, 3});
  m.node("Mul", {"x", "x"}, {"t"})
      .node("TopK", {"t", "k"}, {"items", "places"}, {{"axis", 1}})
      .node("NonZero", {"t"}, {"where"})
      .node("Unique", {"t"}, {"u", "first", "inverse", "counts"})
      .node("Neg", {"u"}, {"after"});
  m.node("Neg", {"square"}, {"minus"}).node("Det", {"minus"}, {"det"});
  m.input("boxes", DType::kF32, {1, "boxes", 4}).input("scores", DType::kF32, {1, 2, "boxes"});
  m.constant("each", ints({3})).constant("iou", floats({1}, {0.5})).constant("least", floats({1}, {0.1}));
  m.node("NonMaxSuppression", {"boxes", "scores", "each", "iou", "least"}, {"chosen"});
  for (const char* o : {"items", "places", "where", "u", "first", "inverse", "counts", "after", "det", "chosen"})
    m.output(o);
  const ModelOf::Feed boxes{
      {"boxes", floats({1, 3, 4}, {0, 0, 1, 1, 0, 0.05, 1, 1, 2, 2, 3, 3})},
      {"scores", floats({1, 2, 3}, {0.9, 0.8, 0.3, 0.2, 0.05, 0.7})},
  };
  ModelOf::Feed some = boxes, none = boxes;
  some.merge(ModelOf::Feed{{"x", floats({2, 4}, {1, 0, -2, 3, 3, -1, 0, 2})},
                           {"k", ints({2})},
                           {"square", floats({2, 3, 3}, {2, 0, 1, 1, 3, 2, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1})}});
  none.merge(ModelOf::Feed{{"x", floats({0, 4}, {})}, {"k", ints({0})}, {"square", floats({0, 3, 3}, {})}});
  none["boxes"] = floats({1, 0, 4}, {}), none["scores"] = floats({1, 2, 0}, {});
  check(m, {some, none});
}

TEST(HostSteps, ShapesThatDataGives) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"})
      .input("shape", DType::kI64, {"r"})
      .input("from", DType::kI64, {})
      .input("to", DType::kI64, {});
  m.node("Neg", {"x"}, {"t"})
      .node("Mul", {"shape", "shape"}, {"twice"})
      .node("Div", {"twice", "shape"}, {"computed"})
      .node("Reshape", {"t", "computed"}, {"y"})
      .node("Exp", {"y"}, {"z"});
  m.constant("one", int_scalar(1)).node("Range", {"from", "to", "one"}, {"range"}).node("Neg", {"range"}, {"minus"});
  for (const char* o : {"y", "z", "range", "minus"}) m.output(o);
  check(m, {{{"x", counting({6})}, {"shape", ints({2, 3})}, {"from", int_scalar(2)}, {"to", int_scalar(7)}},
            {{"x", counting({6})}, {"shape", ints({3, 1, 2})}, {"from", int_scalar(2)}, {"to", int_scalar(2)}}});
}

TEST(HostSteps, SequencesOfEveryKind) {
  ModelOf m;
  GraphOf body;
  body.input("i").input("c").input("s").node("Cast", {"i"}, {"f"}, {{"to", 1}}).node("Add", {"x", "f"}, {"v"});
  body.node("SequenceInsert", {"s", "v"}, {"t"}).node("Identity", {"c"}, {"go"}).output("go").output("t");
  m.input("x", DType::kF32, {"n"}).input("trips", DType::kI64, {}).sequence_input("given", DType::kF32, 1);
  m.input("at", DType::kI64, {}).input("sizes", DType::kI64, {"parts"});
  m.node("Loop", {"trips", "", "given"}, {"grown"}, {{"body", body.proto}})
      .node("ConcatFromSequence", {"grown"}, {"all"}, {{"axis", 0}})
      .node("SequenceLength", {"grown"}, {"length"})
      .node("SequenceErase", {"grown", "at"}, {"less"})
      .node("SequenceAt", {"grown", "at"}, {"one"})
      .node("Neg", {"one"}, {"minus"})
      .node("Exp", {"x"}, {"e"})
      .node("SplitToSequence", {"e", "sizes"}, {"parts"}, {{"axis", 0}})
      .node("SequenceConstruct", {"e", "minus"}, {"pair"})
      .node("SequenceInsert", {"pair", "x", "at"}, {"triple"});
  for (const char* o : {"grown", "all", "length", "less", "one", "minus", "parts", "triple"}) m.output(o);
  check(m, {{{"x", floats({3}, {1, 2, 3})},
             {"trips", int_scalar(2)},
             {"given[0]", floats({2}, {7, 8})},
             {"at", int_scalar(1)},
             {"sizes", ints({1, 2})}},
            {{"x", floats({0}, {})},
             {"trips", int_scalar(1)},
             {"given[0]", floats({0}, {})},
             {"at", int_scalar(0)},
             {"sizes", ints({0})}}});
}

TEST(HostSteps, InputsAndConstantsMayBeOutputs) {
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).constant("w", floats({2}, {4, 5})).node("Identity", {"w"}, {"v"});
  m.node("Identity", {"x"}, {"y"}).node("Concat", {"x", "w"}, {"z"}, {{"axis", 0}}).output("y").output("v").output("z");
  check(m, {{{"x", floats({2}, {1, 2})}}, {{"x", floats({0}, {})}}});
}

}  // namespace
}  // namespace stax::session
