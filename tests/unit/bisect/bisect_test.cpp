// SPDX-License-Identifier: Apache-2.0
// Planted faults are named, and their repros tell whether they are still there.
#include "bisect/bisect.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "bisect/compare.h"
#include "bisect/crash.h"
#include "bisect/fewer_ops.h"
#include "bisect/graph_check.h"
#include "bisect/isolated.h"
#include "bisect/small_data.h"
#include "runtime/runtime.h"
#include "tensor/builder.h"
#include "unit/bisect/faults.h"

namespace stax::bisect {
namespace {

using ir::DType;
using tensor::Item;
using tensor::Value;

/// Two layers, a softmax and a maximum, over rows whose number only the call knows.
class Model {
 public:
  std::unique_ptr<tensor::Graph> graph = std::make_unique<tensor::Graph>(std::make_shared<ir::Context>());

  Model() {
    using symbolic::Expr;
    tensor::Builder b(*graph, graph->body);
    Expr n = graph->exprs().new_symbol({.name = "n"});
    auto number = [&](int64_t v) { return graph->exprs().constant(v); };
    Value* x = graph->add_input(graph->body, tensor::Type::tensor(DType::kF32, {n, number(24)}), "x");
    graph->inputs.push_back({"x", x});
    b.source = "MatMul node 'first'";
    Value* h = b.matmul(x, weights(b, 24, 40, 1));
    b.source = "Relu node 'clamp'";
    h = b.binary(ir::ScalarOp::kMax, h, b.constant(DType::kF32, 0));
    b.source = "Softmax node 'scores'";
    Value* s = b.softmax(h, 1);
    b.source = "MatMul node 'second'";
    Value* y = b.matmul(s, weights(b, 40, 24, 2));
    b.source = "Add node 'residual'";
    y = b.binary(ir::ScalarOp::kAdd, y, x);
    b.source = "ReduceMax node 'best'";
    Value* m = b.reduce_axes(tensor::Combiner::kMax, y, {1}, false, DType::kF32);
    int k = 0;
    for (Value* v : {y, m}) {
      graph->outputs.push_back({"output" + std::to_string(k++), v});
      graph->body.outputs.push_back(v);
    }
  }

  static Item rows(int64_t n, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Item item;
    item.tensor = ir::Literal(DType::kF32, {n, 24});
    for (int64_t k = 0; k < item.tensor.count(); ++k) item.tensor.set(k, {.f = normal(random)});
    return item;
  }

 private:
  // The second operand as its transpose, as exporters like to have it.
  static Value* weights(tensor::Builder& b, int64_t rows, int64_t columns, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 0.3);
    ir::Literal l(DType::kF32, {columns, rows});
    for (int64_t k = 0; k < l.count(); ++k) l.set(k, {.f = normal(random)});
    return b.transpose(b.constant(l), {1, 0});
  }
};

compile::GraphSource source() {
  return [] { return std::move(Model().graph); };
}

/// Empty if programs can run on the device, else why not. Drivers do not survive a fork, so another process is asked.
std::string missing(const std::string& device) {
  if (device != "opencl") return {};
  return run_isolated([] { runtime::open_opencl(program::Program()); }, 60);
}

// A busy machine lets a child wait; that is no endless loop.
TEST(RunIsolated, CountsTheTimeThatTheChildRuns) {
  EXPECT_EQ(run_isolated([] { ::usleep(1'500'000); }, 1), "");
  EXPECT_EQ(run_isolated(
                [] {
                  volatile bool forever = true;
                  while (forever) continue;
                },
                1),
            "it does not end within 1 s");
}

// What begins where vectors may be read ends in front of the page that nobody may touch; the bytes between are looked at, too.
TEST(GuardedMemory, SeesWhatIsWrittenBehindAnAlignedRange) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5}, size_t{16}, size_t{4096}, size_t{4099}}) {
    const GuardedMemory memory(bytes, 0xFF, 16);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 16, 0u) << bytes;
    EXPECT_TRUE(memory.intact()) << bytes;
    if (bytes % 16 == 0) continue;
    static_cast<char*>(memory.data())[bytes] = 0;
    EXPECT_FALSE(memory.intact()) << bytes;
  }
}

TEST(GoOnApart, SaysHowTheOtherProcessHasEnded) {
  const auto ended = go_on_apart();
  if (!ended) ::_exit(7);
  EXPECT_EQ(ended->status, 7);
  const auto crashed = go_on_apart();
  if (!crashed) ::kill(::getpid(), SIGKILL);
  EXPECT_TRUE(crashed->crash.starts_with("it crashes")) << crashed->crash;
}

// A compiler that dies takes the process with it that looks for the fault; parts of its way in processes of their own say where.
TEST(Bisect, NamesWhatKillsTheCompiler) {
  plant("a crash where axes are merged");
  const std::vector<Item> inputs{Model::rows(37, 5)};
  const auto found = crash_of(source(), [&] { return inputs; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "collapse_axes") << text_of(*found);
  EXPECT_EQ(found->level, "loop");
  EXPECT_TRUE(found->what.starts_with("it crashes")) << found->what;
  const compile::Repro repro = compile::parse_repro(compile::print(found->repro));
  const auto ends = [&] { return run_isolated([&] { replay(repro, {.threads = 1}); }, 60); };
  EXPECT_TRUE(ends().starts_with("it crashes")) << ends();
  plant("");
  EXPECT_EQ(ends(), "");
  EXPECT_FALSE(replay(repro, {.threads = 1}));
  EXPECT_FALSE(crash_of(source(), [&] { return inputs; }));
}

TEST(Bisect, NamesThePassThatKillsTheCompiler) {
  plant("a crash in fusion");
  const std::vector<Item> inputs{Model::rows(3, 5)};
  const auto found = crash_of(source(), [&] { return inputs; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "fuse_ops") << text_of(*found);
  const compile::Repro repro = compile::parse_repro(compile::print(found->repro));
  EXPECT_TRUE(run_isolated([&] { replay(repro, {.threads = 1}); }, 60).starts_with("it crashes"));
  plant("");
  EXPECT_FALSE(replay(repro, {.threads = 1}));
}

TEST(Bisect, FindsNothingWhereAllLevelsAgree) {
  plant("");
  for (const char* device : {"cpu", "sim", "opencl"}) {
    if (!missing(device).empty()) continue;
    for (const int64_t n : {0, 1, 2, 5, 37}) {
      const auto found = bisect(source(), {Model::rows(n, 5)}, {.threads = 2, .device = device});
      EXPECT_FALSE(found) << device << ", " << n << " rows: " << text_of(*found);
    }
  }
}

class PlantedFault : public testing::TestWithParam<Fault> {
 protected:
  void TearDown() override { plant(""); }
};

TEST_P(PlantedFault, IsNamedAndItsReproTellsWhetherItIsThere) {
  const Fault& fault = GetParam();
  if (const std::string why = missing(fault.device); !why.empty()) GTEST_SKIP() << why;
  plant(fault.name);
  const auto found = bisect(source(), {Model::rows(37, 5)}, {.threads = 1, .device = fault.device});
  ASSERT_TRUE(found) << fault.name << " was planted " << damages() << " times";
  EXPECT_EQ(found->pass, fault.pass) << text_of(*found);
  EXPECT_EQ(found->level, fault.level) << text_of(*found);
  EXPECT_FALSE(found->what.empty());
  const std::string text = compile::print(found->repro);
  const compile::Repro repro = compile::parse_repro(text);
  EXPECT_EQ(compile::print(repro), text);
  const auto again = replay(repro, {.threads = 1});
  EXPECT_TRUE(again) << "the repro shows nothing:\n" << text.substr(0, 3000);
  EXPECT_EQ(again ? again->pass : "", fault.pass);
  plant("");
  const auto gone = replay(repro, {.threads = 1});
  EXPECT_FALSE(gone) << text_of(*gone);
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFault, testing::ValuesIn(faults()), [](const auto& info) {
  std::string name = std::string(info.param.name) + " on " + info.param.device;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(Bisect, AKernelsReproIsTheKernelAlone) {
  plant("a store dropped by simplification");
  const auto found = bisect(source(), {Model::rows(200, 5)}, {.threads = 1});
  plant("");
  ASSERT_TRUE(found);
  const auto graph = tensor::parse_graph(found->repro.model);
  int computes = 0;
  tensor::for_each_op(graph->body, [&](const tensor::Op& op) { computes += op.kind() == tensor::OpKind::kCompute; });
  EXPECT_EQ(computes, 1) << found->repro.model;
  EXPECT_LT(found->repro.inputs.size(), 20'000u) << "200 rows have become few";
  EXPECT_FALSE(found->kernel.empty());
  EXPECT_TRUE(found->version.has_value());
}

// Weights of 1 MB, in front of and behind what has none.
compile::GraphSource wide_source() {
  return [] {
    auto graph = std::make_unique<tensor::Graph>(std::make_shared<ir::Context>());
    tensor::Builder b(*graph, graph->body);
    const auto n = graph->exprs().new_symbol({.name = "n"});
    Value* x = graph->add_input(graph->body, tensor::Type::tensor(DType::kF32, {n, graph->exprs().constant(24)}), "x");
    graph->inputs.push_back({"x", x});
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal(0, 0.3);
    ir::Literal first(DType::kF32, {6000, 24}), second(DType::kF32, {24, 6000});
    for (ir::Literal* l : {&first, &second})
      for (int64_t k = 0; k < l->count(); ++k) l->set(k, {.f = normal(random)});
    Value* h = b.matmul(x, b.transpose(b.constant(first), {1, 0}));
    h = b.softmax(b.binary(ir::ScalarOp::kMax, h, b.constant(DType::kF32, 0)), 1);
    Value* y = b.matmul(h, b.transpose(b.constant(second), {1, 0}));
    graph->outputs.push_back({"y", y});
    graph->body.outputs.push_back(y);
    return graph;
  };
}

TEST(Bisect, LargeConstantsAreDrawnAgain) {
  for (const char* name :
       {"a layout that loses a term", "a wrong neutral element in lowering", "an off-by-one bound in emission",
        "a stale alias in the memory plan", "a division in the runtime's evaluator"}) {
    SCOPED_TRACE(name);
    plant("");
    EXPECT_FALSE(bisect(wide_source(), {Model::rows(7, 5)}, {.threads = 1}));
    plant(name);
    const auto found = bisect(wide_source(), {Model::rows(7, 5)}, {.threads = 1});
    ASSERT_TRUE(found);
    const std::string text = compile::print(found->repro);
    EXPECT_LT(text.size(), 20'000u) << text_of(*found);
    EXPECT_TRUE(found->repro.notes.empty()) << found->repro.notes[0];
    const auto again = replay(compile::parse_repro(text), {.threads = 1});
    EXPECT_TRUE(again) << text.substr(0, 3000);
    EXPECT_EQ(again ? again->pass : "", found->pass);
    plant("");
    EXPECT_FALSE(replay(compile::parse_repro(text), {.threads = 1}));
  }
}

// The result's extent is that of its axis because of the check.
TEST(Cut, KeepsWhatChecksSayOfExtents) {
  Part part{tensor::parse_graph(R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n]) {
  check { less_equal(n, 100) } "n is above 100" [] from "x"
  %y: f32[min(n, 100)] = compute [i0: n] { neg(load0[i0]) } (%x) from "y"
  return %y as "y"
}
)"),
            {}};
  cut(part, {part.graph->body.ops.back().get()}, [](const Value&) { return nullptr; });
  EXPECT_EQ(part.graph->body.ops.size(), 2u);
  EXPECT_NO_THROW(tensor::parse_graph(tensor::print(*part.graph, {.full = true})));
}

TEST(Bisect, ATensorThatMattersIsKeptAndSaidSo) {
  const auto item = [](double first) {
    Item i;
    i.tensor = ir::Literal(DType::kF32, {500});
    for (int64_t k = 0; k < 500; ++k) i.tensor.set(k, {.f = first + static_cast<double>(k)});
    return i;
  };
  std::vector<Item> items = {item(0), item(1000), item(2000)};
  const auto matters = [&](const auto&) { return items[1].tensor.at(499).f == 1499; };
  const SmallData data = draw_large(large_tensors(items, "operand"), matters);
  ASSERT_EQ(data.notes.size(), 1u);
  EXPECT_EQ(data.notes[0], "operand 1 is kept whole, 2000 bytes: with drawn elements the fault does not show");
  EXPECT_EQ(data.drawn.size(), 2u);
  EXPECT_TRUE(data.drawn.contains(items[0].tensor.data()) && data.drawn.contains(items[2].tensor.data()));
  EXPECT_EQ(items[1].tensor.at(7).f, 1007);
  EXPECT_NE(items[0].tensor.at(7).f, 7);
  const compile::Repro repro{.name = "fuse_ops", .fault = "f", .model = "m\n", .notes = data.notes};
  EXPECT_EQ(compile::parse_repro(compile::print(repro)).notes, data.notes);
}

// What is kept between calls: the expressions of the call before, at another shape.
TEST(Bisect, CallsInOneSession) {
  const std::vector<std::vector<Item>> calls = {{Model::rows(2, 1)}, {Model::rows(2, 2)}, {Model::rows(31, 3)}};
  plant("");
  EXPECT_FALSE(bisect_session(source(), calls, {.threads = 1}));
  plant("a plan of another shape");
  for (const auto& call : calls) EXPECT_FALSE(bisect(source(), call, {.threads = 1}));
  const auto found = bisect_session(source(), calls, {.threads = 1});
  ASSERT_TRUE(found) << damages();
  EXPECT_EQ(found->level, "runtime");
  EXPECT_EQ(found->pass, "session");
  EXPECT_EQ(found->repro.more_inputs.size(), 1u) << "two calls are enough";
  const std::string text = compile::print(found->repro);
  const compile::Repro repro = compile::parse_repro(text);
  EXPECT_EQ(compile::print(repro), text);
  EXPECT_TRUE(replay(repro, {.threads = 1}));
  plant("");
  EXPECT_FALSE(replay(repro, {.threads = 1}));
}

// A kernel of three results, the second of which is never stored.
TEST(Bisect, KernelsOfSeveralResultsAreFollowedThroughTheirStages) {
  const char* const text = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %m: f32[n, 1] = compute [i0: n, i1: 1] max<f32> [r0: 24] { load0[i0, r0] } (%x)
  %e: f32[n, 24] = compute [i0: n, i1: 24] { exp(sub(load0[i0, i1], load1[i0, 0])) } (%x, %m)
  %s: f32[n, 1] = compute [i0: n, i1: 1] sum<f32> [r0: 24] { load0[i0, r0] } (%e)
  %y: f32[n, 24] = compute [i0: n, i1: 24] { div(load0[i0, i1], load1[i0, 0]) } (%e, %s)
  return %y as "y", %s as "s", %m as "m"
}
)";
  const compile::GraphSource three = [text] { return tensor::parse_graph(text); };
  plant("");
  EXPECT_FALSE(bisect(three, {Model::rows(9, 5)}, {.threads = 1}));
  plant("a store of a row group dropped");
  const auto found = bisect(three, {Model::rows(9, 5)}, {.threads = 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "simplify");
  EXPECT_EQ(found->level, "loop");
  EXPECT_NE(found->what.find("result "), std::string::npos) << found->what;
  const auto graph = tensor::parse_graph(found->repro.model);
  EXPECT_EQ(graph->outputs.size(), 3u);
  EXPECT_EQ(graph->body.ops.size(), 1u) << found->repro.model;
  EXPECT_TRUE(replay(found->repro, {.threads = 1}));
  plant("");
  EXPECT_FALSE(replay(found->repro, {.threads = 1}));
}

/// What a fault that is planted in a model gives, which is gone when it is.
Finding finding_in(const char* model, const Item& input, const char* fault, const char* device = "cpu") {
  const compile::GraphSource source = [model] { return tensor::parse_graph(model); };
  plant("");
  EXPECT_FALSE(bisect(source, {input}, {.threads = 2, .device = device}));
  plant(fault);
  const auto found = bisect(source, {input}, {.threads = 2, .device = device});
  EXPECT_TRUE(found) << fault << " was planted " << damages() << " times";
  if (!found) return {};
  const compile::Repro repro = compile::parse_repro(compile::print(found->repro));
  EXPECT_TRUE(replay(repro, {.threads = 2})) << compile::print(found->repro);
  plant("");
  EXPECT_FALSE(replay(repro, {.threads = 2}));
  return *found;
}

// What all levels share: they agree, and are wrong.
TEST(Bisect, RulesOfTheSimplifierAreLookedAt) {
  const char* const model = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %y: f32[n, 24] = compute [i0: n, i1: 24] { load0[i0, floordiv(i1 + 3, 5)] } (%x)
  return %y as "y"
}
)";
  const Finding found = finding_in(model, Model::rows(9, 5), "a rule of division");
  EXPECT_EQ(found.level, "symbolic");
  EXPECT_EQ(found.pass, "floordiv");
  EXPECT_NE(found.detail.find("floordiv(i1"), std::string::npos) << found.detail;
  EXPECT_NE(found.what.find("instead of"), std::string::npos) << found.what;
}

// The interpreter shares no procedure with the program.
TEST(Bisect, ProceduresAreLookedAt) {
  const char* const model = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %k: i64[] = constant {3}
  %v: f32[n, 3], %i: i64[n, 3] = top_k axis 1 largest (%x, %k)
  return %v as "v", %i as "i"
}
)";
  const Finding found = finding_in(model, Model::rows(9, 5), "the order of top-k");
  EXPECT_EQ(found.level, "runtime");
  EXPECT_EQ(found.pass, "procedure");
}

// GPUs have passes of their own, and leave out some of the CPU's.
TEST(Bisect, TheGraphPassesAreThoseOfTheDevice) {
  const char* const model = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %k: i64[] = constant {3}
  %v: f32[n, 3], %i: i64[n, 3] = top_k axis 1 largest (%x, %k)
  return %v as "v", %i as "i"
}
)";
  Item x = Model::rows(9, 5);
  for (int64_t row = 0; row < 9; ++row) x.tensor.set(row * 24 + 23, {.f = 100});  // what the bound leaves out
  const Finding found = finding_in(model, x, "an off-by-one bound in ranking", "sim");
  EXPECT_EQ(found.pass, "rank_top_k");
  EXPECT_EQ(found.level, "graph");
  EXPECT_EQ(found.repro.target, "sim");
  plant("an off-by-one bound in ranking");
  EXPECT_FALSE(bisect([&] { return tensor::parse_graph(model); }, {x}, {.threads = 1})) << "the CPU has no such pass";
  plant("");
}

// What only a run that nobody looks at does.
TEST(Bisect, LoopsAreEnteredOnceAsInASession) {
  const char* const model = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %k: i64[] = constant {5}
  %a: f32[n, 24] = loop trip_count carried 1 (%k, %x) body(%i: i64[], %h: f32[n, 24]) {
    %g: f32[n, 24] = compute [i0: n, i1: 24] { tanh(add(load0[i0, i1], load1[i0, 23 - i1])) } (%h, %h)
    yield %g
  }
  return %a as "a"
}
)";
  const Finding found = finding_in(model, Model::rows(3, 5), "a trip less in loops that are entered once");
  EXPECT_EQ(found.pass, "loop_replay");
  EXPECT_EQ(found.level, "runtime");
  EXPECT_NE(found.what.find("element [0, 0]"), std::string::npos) << found.what;
}

// Two loops that need nothing of each other.
constexpr const char* kTwoLoops = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %k: i64[] = constant {5}
  %j: i64[] = constant {4}
  %a: f32[n, 24] = loop trip_count carried 1 (%k, %x) body(%i: i64[], %h: f32[n, 24]) {
    %g: f32[n, 24] = compute [i0: n, i1: 24] { tanh(add(load0[i0, i1], load1[i0, 23 - i1])) } (%h, %h)
    yield %g
  }
  %y: f32[n, 24] = compute [i0: n, i1: 24] { exp(load0[n - 1 - i0, i1]) } (%x)
  %b: f32[n, 24] = loop trip_count carried 1 (%j, %y) body(%l: i64[], %p: f32[n, 24]) {
    %q: f32[n, 24] = compute [i0: n, i1: 24] { sin(add(load0[i0, i1], load1[i0, 23 - i1])) } (%p, %p)
    yield %q
  }
  return %a as "a", %b as "b"
}
)";

// What a program says of a step that is right about what it reads.
TEST(Bisect, WhatAProgramIsBuiltOfIsLookedAt) {
  const char* const constants = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %c: f32[4] = constant {1.0, 2.0, 3.0, 4.0}
  %d: f32[4] = constant {5.0, 6.0, 7.0, 8.0}
  %a: f32[n, 4] = compute [i0: n, i1: 4] { mul(load0[i0, i1], load1[i1]) } (%x, %c)
  %e: f32[n, 4] = compute [i0: n, i1: 4] { add(load0[i0, 5 + i1], load1[i1]) } (%x, %d)
  return %a as "a", %e as "e"
}
)";
  const char* const product = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {
  %p: f32[n, n] = compute [i0: n, i1: n] sum<f32> [r0: 24] { mul(load0[i0, r0], load1[i1, r0]) } (%x, %x)
  return %p as "p"
}
)";
  const auto named = [](const char* model, const char* fault, const char* device, const char* detail) {
    SCOPED_TRACE(fmt::format("{} on {}", fault, device));
    const Finding found = finding_in(model, Model::rows(37, 5), fault, device);
    EXPECT_EQ(found.pass, "build_program") << text_of(found);
    EXPECT_EQ(found.level, "program") << text_of(found);
    EXPECT_NE(found.detail.find(detail), std::string::npos) << text_of(found);
  };
  for (const char* device : {"cpu", "sim"}) {
    named(constants, "constants mixed up", device, "the program's");
    named(constants, "kernels mixed up", device, "a kernel of another op");
    named(kTwoLoops, "loops mixed up", device, "of the loop is");
  }
  named(product, "a guard left out", "sim", "the guard");
}

// A pass over the program: what it breaks is no fault of the verifier behind it, nor of the steps that it leaves wrong.
TEST(Bisect, PassesOverTheProgramAreNamed) {
  for (const char* device : {"cpu", "sim"})
    for (const char* fault : {"a loop placed in front of what it needs", "a loop placed with what another begins with",
                              "a loop that is placed loses a trip"}) {
      SCOPED_TRACE(fmt::format("{} on {}", fault, device));
      const Finding found = finding_in(kTwoLoops, Model::rows(3, 5), fault, device);
      EXPECT_EQ(found.pass, "place_loops_side_by_side") << text_of(found);
      EXPECT_EQ(found.level, "program") << text_of(found);
      EXPECT_EQ(found.repro.name, "place_loops_side_by_side");
    }
}

// A pass that goes wrong with several ops at once: no op alone shows it, and the model is larger than those.
TEST(Bisect, ThePassesReproIsAsManyOpsAsItTakes) {
  std::string weights;
  for (int k = 0; k < 24 * 8; ++k) weights += fmt::format("{}{:.2f}", k ? ", " : "", 0.01 * (k * 37 % 100) - 0.5);
  const std::string model = fmt::format(R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 24]) {{
  %w: f32[24, 8] = constant {{{}}}
  %u: f32[24, 8] = constant {{{}}}
  %e: f32[n, 24] = compute [i0: n, i1: 24] {{ exp(load0[i0, i1]) }} (%x)
  %f: f32[n, 24] = compute [i0: n, i1: 24] {{ sqrt(load0[i0, i1]) }} (%e)
  %p: f32[n, 8] = compute [i0: n, i1: 8] sum<f32> [r0: 24] {{ mul(load0[i0, r0], load1[r0, i1]) }} (%f, %w)
  %q: f32[n, 8] = compute [i0: n, i1: 8] sum<f32> [r0: 24] {{ mul(load0[i0, r0], load1[r0, i1]) }} (%f, %u)
  %s: f32[n, 8] = compute [i0: n, i1: 8] {{ tanh(load0[i0, i1]) }} (%p)
  %t: f32[n, 8] = compute [i0: n, i1: 8] {{ abs(load0[i0, i1]) }} (%q)
  %m: f32[n] = compute [i0: n] max<f32> [r0: 24] {{ load0[i0, r0] }} (%f)
  return %s as "s", %t as "t", %m as "m"
}}
)",
                                        weights, weights.substr(0, weights.size() - 4) + "0.75");
  const Finding found = finding_in(model.c_str(), Model::rows(3, 5), "a weight of joined products");
  EXPECT_EQ(found.pass, "fuse_siblings");
  const auto graph = tensor::parse_graph(found.repro.model);
  int ops = 0;
  for (const auto& op : graph->body.ops) ops += op->kind() == tensor::OpKind::kCompute;
  EXPECT_LE(ops, 4) << found.repro.model;
  EXPECT_EQ(found.repro.model.find("exp"), std::string::npos) << found.repro.model;
}

// A chain of floats that comes from whole numbers and ends as one: rounded after each operation or not, it is right.
TEST(Bisect, ARoundingOnTheWayToAWholeNumberIsNoFault) {
  const char* const model = R"(tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: i64[n]) {
  %a: f32[n] = compute [i0: n] { cast<f32>(load0[i0]) } (%x)
  %b: f32[n] = compute [i0: n] { div(load0[i0], 4.0:f32) } (%a)
  %c: f32[n] = compute [i0: n] { log(load0[i0]) } (%b)
  %d: f32[n] = compute [i0: n] { div(load0[i0], 2.7725887:f32) } (%c)
  %e: f32[n] = compute [i0: n] { mul(load0[i0], 4.0:f32) } (%d)
  %f: i64[n] = compute [i0: n] { cast<i64>(load0[i0]) } (%e)
  return %f as "f"
}
)";
  Item x;
  x.tensor = ir::Literal::ints({1, 2, 4, 8, 16, 32, 64, 128, 5});
  plant("");
  const auto found = bisect([&] { return tensor::parse_graph(model); }, {x}, {.threads = 1});
  EXPECT_FALSE(found) << text_of(*found);
}

// The same over several ops none of whose results the imported graph has: a quantized product is rounded in its own way.
TEST(Bisect, ARoundingInFrontOfUnknownValuesIsNoFault) {
  const auto before = tensor::parse_graph(R"(tensor_ir 1
graph(%x: f32[4]) {
  %a: i32[4] = compute [i0: 4] { cast<i32>(mul(load0[i0], 10.0:f32)) } (%x)
  return %a as "a"
}
)");
  const auto after = [](const char* factor) {
    return tensor::parse_graph(fmt::format(R"(tensor_ir 1
graph(%x: f32[4]) {{
  %h: f32[4] = compute [i0: 4] {{ mul(load0[i0], {}:f32) }} (%x)
  %i: i32[4] = compute [i0: 4] {{ cast<i32>(load0[i0]) }} (%h)
  %a: i32[4] = compute [i0: 4] {{ mul(load0[i0], 1:i32) }} (%i)
  return %a as "a"
}}
)",
                                           factor));
  };
  Item x;
  x.tensor = ir::Literal(DType::kF32, {4});
  for (int64_t k = 0; k < 4; ++k) x.tensor.set(k, {.f = 0.3 * static_cast<double>(k + 1)});
  Values want;
  const std::vector<Item> outputs = run_reference(*before, {x}, nullptr, want);
  EXPECT_FALSE(check_graph(*after("9.999999"), {x}, Values(), outputs, nullptr)) << "3, 6, 9 and 12 are ties";
  EXPECT_TRUE(check_graph(*after("11.0"), {x}, Values(), outputs, nullptr));
}

// Values that a kernel rounds on its way to whole numbers: a result that lies near such a step may take it, however exact its operands are.
TEST(Compare, AStepWithinARowGroupIsNoFault) {
  const auto graph = tensor::parse_graph(R"(tensor_ir 1
graph(%q: i8[1, 64]) {
  %y: f32[1, 1] = row_group [i0: 1] (%q) body(%a: i8[1, 64]) {
    %e: f32[1, 64] = compute [i0: 1, i1: 64] { exp(mul(cast<f32>(load0[i0, i1]), 0.0078125:f32)) } (%a)
    %r: f32[1, 64] = compute [i0: 1, i1: 64] { round_even(mul(load0[i0, i1], 1048576.0:f32)) } (%e)
    %s: f32[1, 1] = compute [i0: 1, i1: 1] sum<f32> [r0: 64] { mul(load0[i0, r0], 1000.0:f32) } epilogue { sub(acc:f32, 68719476736.0:f32) } (%r)
    yield %s
  }
  return %y as "y"
}
)");
  const tensor::Op& op = *graph->body.ops.front();
  Item q;
  q.tensor = ir::Literal(DType::kI8, {1, 64});
  for (int64_t k = 0; k < 64; ++k) q.tensor.set(k, {.i = k - 32});
  tensor::Bindings bindings;
  const Item want = tensor::evaluate_op(op, {&q}, bindings)[0];
  Item near;
  near.tensor = ir::Literal(DType::kF32, {1, 1});
  near.tensor.set(0, {.f = want.tensor.at(0).f + 8000});  // a few roundings
  Item far = near;
  far.tensor = ir::Literal(DType::kF32, {1, 1});
  far.tensor.set(0, {.f = want.tensor.at(0).f + 1e8});
  const Again again{[&](Draw draw) -> std::optional<Item> { return (*evaluate_moved(op, {&q}, bindings, draw))[0]; }};
  EXPECT_FALSE(compare(near, want, again)) << compare(near, want, again)->text();
  EXPECT_TRUE(compare(far, want, again));
}

}  // namespace
}  // namespace stax::bisect
