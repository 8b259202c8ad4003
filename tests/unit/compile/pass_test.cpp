// SPDX-License-Identifier: Apache-2.0
// The wrapper around every pass: leaving out, printing, verifying, observing, and the repro of a pass that fails.
#include "compile/pass.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "compile/pipeline.h"
#include "compile/repro.h"
#include "support/debug.h"
#include "unit/compile/random_graph.h"

namespace stax::compile {
namespace {

namespace fs = std::filesystem;

// The environment is read once, at first use: before main is early enough.
const std::string kFolder = [] {
  std::string folder = (fs::temp_directory_path() / "stax-pass-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) std::abort();
  ::setenv("STAX_REPRO_DIR", folder.c_str(), 1);
  ::setenv("STAX_DISABLE", "left_out, other", 1);
  ::setenv("STAX_DUMP", "shown", 1);
  ::setenv("STAX_VERIFY", "0", 1);
  return folder;
}();

int runs = 0;
bool nothing(tensor::Graph&) { return ++runs, false; }
bool something(tensor::Graph&) { return ++runs, true; }
bool spoils_and_fails(tensor::Graph& graph) {
  graph.outputs.clear();
  graph.body.outputs.clear();
  throw std::runtime_error("after it has done half of its work");
}
bool fails(tensor::Graph&) { throw InternalError("a rule met what it must not"); }
bool fails_otherwise(tensor::Graph&) { throw std::out_of_range("index"); }
bool users_fault(tensor::Graph&) { user_error("extents 3 and 4 cannot meet"); }
bool out_of_memory(tensor::Graph&) { throw std::bad_alloc(); }
bool breaks_the_graph(tensor::Graph& graph) {
  graph.body.ops.back()->operands[0] = graph.body.ops.back()->result();  // of itself
  return true;
}

class Pass : public testing::Test {
 protected:
  Pass() : random(1) {
    Value* x = random.input(DType::kF32, {random.dims[0], random.number(3)});
    random.output(random.b.softmax(x, 1));
    runs = 0;
    for (const auto& old : fs::directory_iterator(kFolder)) fs::remove(old);
  }
  std::string fault(bool (*pass)(tensor::Graph&), const PassContext& context = {}) {
    try {
      run_pass("probe", pass, *random.graph, context);
    } catch (const InternalError& e) {
      return e.what();
    }
    return {};
  }
  RandomGraph random;
};

TEST_F(Pass, SaysWhetherItChangedAnything) {
  EXPECT_FALSE(run_pass("probe", nothing, *random.graph, {}));
  EXPECT_TRUE(run_pass("probe", something, *random.graph, {}));
  EXPECT_EQ(runs, 2);
}

TEST_F(Pass, CanBeLeftOut) {
  EXPECT_TRUE(is_disabled("left_out"));
  EXPECT_TRUE(is_disabled("other"));
  EXPECT_FALSE(is_disabled("left"));
  EXPECT_FALSE(run_pass("left_out", something, *random.graph, {}));
  EXPECT_EQ(runs, 0);
}

TEST_F(Pass, IsShownWhereItIsAskedFor) {
  testing::internal::CaptureStderr();
  run_pass("shown", nothing, *random.graph, {});
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_EQ(shown, "// after shown: nothing\n" + tensor::print(*random.graph) + "\n");
  testing::internal::CaptureStderr();
  run_pass("probe", something, *random.graph, {});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Pass, IsObserved) {
  std::string seen;
  PassContext context;
  context.observer = [&](std::string_view pass, const tensor::Graph& after) {
    seen += std::string(pass) + (&after == random.graph.get() ? "!" : "?");
  };
  run_pass("first", nothing, *random.graph, context);
  run_pass("left_out", nothing, *random.graph, context);
  run_pass("second", something, *random.graph, context);
  EXPECT_EQ(seen, "first!second!");
}

TEST_F(Pass, ThatFailsIsNamedWithItsReasonAndARepro) {
  const std::string before = tensor::print(*random.graph);
  const std::string message = fault(fails);
  EXPECT_NE(message.find("probe"), std::string::npos) << message;
  EXPECT_NE(message.find("a rule met what it must not"), std::string::npos) << message;
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(kFolder)) files.push_back(file.path());
  ASSERT_EQ(files.size(), 1u) << message;
  EXPECT_NE(message.find(files[0].string()), std::string::npos) << message;
  std::stringstream text;
  text << std::ifstream(files[0]).rdbuf();
  const Repro repro = parse_repro(text.str());
  EXPECT_EQ(repro.name, "probe");
  EXPECT_NE(repro.fault.find("a rule met what it must not"), std::string::npos);
  EXPECT_EQ(tensor::print(*tensor::parse_graph(repro.model)), before);
}

TEST_F(Pass, AReproHoldsTheGraphAsThePassGotIt) {
  const auto source = [] {
    RandomGraph made(41);
    made.chain(4);
    return std::move(made.graph);
  };
  const std::string got = tensor::print(*source(), {.full = true});
  PassContext context;
  context.source = source;
  const std::unique_ptr<tensor::Graph> graph = source();
  EXPECT_THROW(run_pass("probe", spoils_and_fails, *graph, context), InternalError);
  ASSERT_NE(tensor::print(*graph, {.full = true}), got);
  std::stringstream text;
  for (const auto& file : fs::directory_iterator(kFolder)) text << std::ifstream(file.path()).rdbuf();
  EXPECT_EQ(parse_repro(text.str()).model, got);
}

TEST_F(Pass, GraphsAfterSomePassesAreTheSequenceCutShort) {
  const auto source = [] {
    RandomGraph made(43);
    made.chain(9);
    return std::move(made.graph);
  };
  std::vector<std::string> steps;
  PassContext context;
  context.observer = [&](std::string_view, const tensor::Graph& after) { steps.push_back(tensor::print(after)); };
  optimize(*source(), context);
  const PassedGraph all = graph_after(source, -1);
  ASSERT_EQ(all.passes.size(), steps.size());
  for (size_t k = 0; k < steps.size(); ++k)
    EXPECT_EQ(tensor::print(*graph_after(source, static_cast<int>(k) + 1).graph), steps[k]) << all.passes[k];
  const std::unique_ptr<tensor::Graph> once = source();
  run_named_pass("canonicalize", *once);
  EXPECT_EQ(tensor::print(*once), steps[0]);
  EXPECT_THROW(run_named_pass("no_such_pass", *source()), UserError);
}

TEST(Repro, IsReadAsItWasWritten) {
  Repro repro;
  repro.kind = Repro::Kind::kKernel;
  repro.name = "split";
  repro.version = 2;
  repro.fault = "a \"quoted\" value\nof two lines";
  repro.disable = "simplify,fuse_ops";
  repro.device = "cuda";
  repro.emit = "cuda";
  repro.inputs = "tensor_ir 1\ngraph() {\n  return\n}\n";
  repro.model = repro.inputs;
  const std::string text = print(repro);
  EXPECT_TRUE(is_repro(text));
  EXPECT_TRUE(is_repro("// a comment\n\n" + text));
  EXPECT_FALSE(is_repro(repro.model));
  const Repro read = parse_repro("// a comment\n" + text);
  EXPECT_EQ(read.notes, std::vector<std::string>{"a comment"}) << "what is said to the reader stays";
  EXPECT_EQ(print(parse_repro(print(read))), print(read));
  EXPECT_EQ(print(parse_repro(text)), text);
  EXPECT_EQ(read.fault, repro.fault);
  EXPECT_EQ(read.emit, repro.emit);
  for (const char* wrong : {"stax_repro 2\n", "stax_repro 1\npass a\nfault \"\"\n", "stax_repro 1\nmodel\n", ""})
    EXPECT_THROW(parse_repro(wrong), UserError) << wrong;
}

TEST_F(Pass, AnyExceptionIsAFaultOfOurs) {
  EXPECT_NE(fault(fails_otherwise).find("pass probe: index"), std::string::npos);
}

TEST_F(Pass, WhatBreaksTheGraphIsFoundByTheVerifier) {
  PassContext context;
  context.verify = true;
  const std::string message = fault(breaks_the_graph, context);
  EXPECT_NE(message.find("pass probe"), std::string::npos) << message;
  EXPECT_FALSE(fs::is_empty(kFolder));
}

TEST_F(Pass, FaultsOfTheUserAndOfTheMachineAreNotOurs) {
  EXPECT_THROW(run_pass("probe", users_fault, *random.graph, {}), UserError);
  EXPECT_THROW(run_pass("probe", out_of_memory, *random.graph, {}), std::bad_alloc);
  EXPECT_TRUE(fs::is_empty(kFolder));
}

// ---- the pipeline itself

TEST_F(Pass, TheVerifierHoldsAfterEveryPassOfThePipeline) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomGraph graph(80'000 + seed);
    graph.chain(2 + graph.pick(15));
    PassContext context;
    context.verify = true;
    std::string last;
    context.observer = [&](std::string_view pass, const tensor::Graph& after) {
      last = pass;
      const std::string text = tensor::print(after, {.full = true});
      EXPECT_EQ(tensor::print(*tensor::parse_graph(text), {.full = true}), text) << pass;
    };
    ASSERT_NO_THROW(optimize(*graph.graph, context)) << "seed " << 80'000 + seed;
    ASSERT_FALSE(HasFailure()) << "seed " << 80'000 + seed << " after " << last;
  }
}

TEST_F(Pass, ASecondRoundOfThePipelineAddsNothing) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomGraph graph(90'000 + seed);
    graph.chain(2 + graph.pick(10));
    optimize(*graph.graph, {});
    size_t before = 0, after = 0;
    tensor::for_each_op(graph.graph->body, [&](const tensor::Op&) { ++before; });
    optimize(*graph.graph, {});
    tensor::for_each_op(graph.graph->body, [&](const tensor::Op&) { ++after; });
    // It may fuse a transpose that assign_layouts put in and that the first round's fusion left alone.
    EXPECT_LE(after, before) << "seed " << 90'000 + seed << "\n" << tensor::print(*graph.graph);
  }
}

TEST_F(Pass, AllPassesLeaveTheMeaningOfAGraph) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomGraph graph(95'000 + seed);
    graph.chain(2 + graph.pick(12));
    std::vector<RandomGraph::Call> calls;
    std::vector<std::vector<tensor::Item>> want;
    for (uint64_t c = 0; c < 3; ++c) {
      auto call = graph.call(seed * 10 + c);
      if (!call) continue;
      want.push_back(tensor::interpret(*graph.graph, call->inputs));
      calls.push_back(std::move(*call));
    }
    PassContext context;
    context.observer = [&](std::string_view pass, const tensor::Graph& after) {
      for (size_t c = 0; c < calls.size() && !HasFailure(); ++c) {
        const std::vector<tensor::Item> got = tensor::interpret(after, calls[c].inputs);
        for (size_t k = 0; k < got.size(); ++k) {
          const ir::Literal &g = got[k].tensor, &w = want[c][k].tensor;
          ASSERT_EQ(g.extents(), w.extents()) << pass << ", seed " << 95'000 + seed;
          for (int64_t i = 0; i < w.count(); ++i) {
            if (!ir::is_float(w.dtype())) {
              ASSERT_EQ(g.at(i).i, w.at(i).i) << pass << ", seed " << 95'000 + seed;
            } else if (!(std::isnan(w.at(i).f) && std::isnan(g.at(i).f))) {
              ASSERT_NEAR(g.at(i).f, w.at(i).f, (w.dtype() == DType::kF16 ? 2e-2 : 1e-4) * (1 + std::fabs(w.at(i).f)))
                  << pass << ", seed " << 95'000 + seed;
            }
          }
        }
      }
    };
    optimize(*graph.graph, context);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace stax::compile
