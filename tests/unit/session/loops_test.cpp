// SPDX-License-Identifier: Apache-2.0
// Loops and recurrent layers on the CPU: what the tensor interpreter gives, and the same bits with any number of threads and trip by trip.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "compile/pipeline.h"
#include "program/steps.h"
#include "runtime/runtime.h"
#include "session/devices.h"
#include "unit/frontend/onnx_model.h"

namespace stax::session {
namespace {

using frontend::Attribute;
using frontend::GraphOf;
using frontend::int_scalar;
using frontend::ints;
using frontend::ModelOf;
using ir::DType;
using ir::Literal;
using runtime::Item;

std::mt19937_64& draw() {
  static std::mt19937_64 engine = [] {
    const char* text = std::getenv("STAX_TEST_SEED");
    const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device()();
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    return std::mt19937_64(seed);
  }();
  return engine;
}

Literal random_floats(std::vector<int64_t> extents, double scale = 1) {
  Literal literal(DType::kF32, std::move(extents));
  std::normal_distribution<double> normal(0, scale);
  for (int64_t k = 0; k < literal.count(); ++k) literal.set(k, {.f = normal(draw())});
  return literal;
}

std::vector<Item> items_of(const program::Program& program, const ModelOf::Feed& feed) {
  std::vector<Item> items;
  for (const program::InputSpec& input : program.inputs) {
    auto keep = std::make_shared<Literal>(feed.at(input.name));
    items.emplace_back().tensor = {keep->dtype(), keep->extents(), keep->data(),
                                   std::shared_ptr<void>(keep, keep->data())};
  }
  return items;
}

bool same_bits(const std::vector<Item>& a, const std::vector<Item>& b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].tensor.extents != b[k].tensor.extents ||
        (a[k].tensor.bytes() > 0 && std::memcmp(a[k].tensor.data, b[k].tensor.data, a[k].tensor.bytes()) != 0))
      return false;
  return true;
}

size_t loops_beside(const program::Program& program) {
  size_t count = 0;
  for (const program::BlockSpec& block : program.blocks)
    for (const program::Step& step : block.steps)
      if (const auto* loop = std::get_if<program::LoopStep>(&step)) count += loop->beside_next ? 1 : 0;
  return count;
}

/// Runs each feed on 1, 2 and 4 threads, twice, and trip by trip. `near` is relative to the largest value of an output.
std::shared_ptr<program::Program> check(const ModelOf& model, const std::vector<ModelOf::Feed>& feeds,
                                        double near = 1e-5) {
  const auto graph = model.import();
  compile::CompileOptions options;
  options.isas = isas_for_host();
  const compile::Compiled compiled = compile::compile_graph(*graph, options);
  const auto open = [&](int threads) {
    runtime::ModuleOptions module;
    module.threads = threads;
    return runtime::Module(compiled.program, runtime::open_cpu(*compiled.program), module);
  };
  runtime::Module one = open(1), two = open(2), four = open(4);
  for (int round = 0; round < 2; ++round) {
    for (const ModelOf::Feed& feed : feeds) {
      const std::vector<Item> inputs = items_of(*compiled.program, feed);
      const std::map<std::string, Literal> want = model.run(feed);
      runtime::CallStatistics statistics;
      const std::vector<Item> got = one.run(inputs);
      EXPECT_TRUE(same_bits(got, one.run(inputs, &statistics, true))) << "trip by trip";
      EXPECT_TRUE(same_bits(got, two.run(inputs))) << "two threads";
      EXPECT_TRUE(same_bits(got, four.run(inputs))) << "four threads";
      for (size_t k = 0; k < got.size(); ++k) {
        const std::string& name = compiled.program->outputs[k].name;
        const Literal& right = want.at(name);
        EXPECT_EQ(got[k].tensor.extents, right.extents()) << name;
        double top = 0;
        for (int64_t i = 0; i < right.count(); ++i)
          if (ir::is_float(right.dtype())) top = std::max(top, std::fabs(right.at(i).f));
        for (int64_t i = 0; i < right.count(); ++i) {
          const ir::Value64 g = ir::load_element(right.dtype(), got[k].tensor.data, i), w = right.at(i);
          if (ir::is_float(right.dtype())) {
            EXPECT_LE(std::fabs(g.f - w.f), near * (1 + top)) << name << " at " << i;
          } else {
            EXPECT_EQ(g.i, w.i) << name << " at " << i;
          }
          if (::testing::Test::HasFailure()) return compiled.program;
        }
      }
    }
  }
  return compiled.program;
}

struct Layer {
  std::string op, direction = "bidirectional";
  bool bias = true, lengths = false, states = false, peepholes = false, batch_first = false;
  std::vector<Attribute> attributes = {};
};

void check_layer(const Layer& layer) {
  constexpr int64_t kWidth = 5, kHidden = 19;
  const int64_t gates = layer.op == "LSTM" ? 4 : layer.op == "GRU" ? 3 : 1;
  const int64_t d = layer.direction == "bidirectional" ? 2 : 1;
  ModelOf m(22);
  m.input("x", DType::kF32, {std::string(), std::string(), static_cast<int>(kWidth)});
  m.constant("w", random_floats({d, gates * kHidden, kWidth}, 0.3));
  m.constant("r", random_floats({d, gates * kHidden, kHidden}, 0.3));
  frontend::Names inputs = {"x", "w", "r", "", "", "", "", ""};
  if (layer.bias) m.constant(inputs[3] = "b", random_floats({d, 2 * gates * kHidden}, 0.3));
  if (layer.lengths) m.input(inputs[4] = "lengths", DType::kI32, {std::string()});
  if (layer.states) m.input(inputs[5] = "h0", DType::kF32, {std::string(), std::string(), std::string()});
  if (layer.states && layer.op == "LSTM")
    m.input(inputs[6] = "c0", DType::kF32, {std::string(), std::string(), std::string()});
  if (layer.peepholes) m.constant(inputs[7] = "p", random_floats({d, 3 * kHidden}, 0.3));
  while (inputs.back().empty()) inputs.pop_back();
  frontend::Names outputs = {"y", "h"};
  if (layer.op == "LSTM") outputs.push_back("c");
  std::vector<Attribute> attributes = layer.attributes;
  attributes.emplace_back("hidden_size", kHidden);
  attributes.emplace_back("direction", layer.direction.c_str());
  if (layer.batch_first) attributes.emplace_back("layout", 1);
  m.node(layer.op, inputs, outputs, attributes);
  for (const std::string& o : outputs) m.output(o);
  std::vector<ModelOf::Feed> feeds;
  for (const auto& [steps, batch] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 3}, {1, 1}, {0, 2}, {3, 0}, {40, 9}, {2, 2}}) {
    const auto shape = [&](int64_t a, int64_t b, int64_t c) {
      return layer.batch_first ? std::vector<int64_t>{b, a, c} : std::vector<int64_t>{a, b, c};
    };
    ModelOf::Feed feed = {{"x", random_floats(shape(steps, batch, kWidth))}};
    if (layer.lengths) {
      Literal lengths(DType::kI32, {batch});
      for (int64_t k = 0; k < batch; ++k)
        lengths.set(k, {.i = static_cast<int64_t>(draw()() % static_cast<uint64_t>(steps + 1))});
      feed["lengths"] = lengths;
    }
    if (layer.states) feed["h0"] = random_floats(shape(d, batch, kHidden));
    if (layer.states && layer.op == "LSTM") feed["c0"] = random_floats(shape(d, batch, kHidden));
    feeds.push_back(std::move(feed));
  }
  const auto program = check(m, feeds);
  EXPECT_EQ(loops_beside(*program), d == 2 ? 1 : 0) << "the two directions";
}

TEST(Loops, RecurrentLayersOfEveryKind) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    SCOPED_TRACE(op);
    check_layer({.op = op});
    check_layer({.op = op, .direction = "reverse", .bias = false, .states = true});
    check_layer({.op = op, .lengths = true, .states = true});
  }
  check_layer({.op = "LSTM", .peepholes = true});
  check_layer({.op = "LSTM", .direction = "forward", .states = true, .batch_first = true});
  check_layer({.op = "LSTM", .attributes = {{"input_forget", 1}}});
  check_layer({.op = "GRU", .attributes = {{"linear_before_reset", 1}}});
}

/// Two layers that need nothing of each other, with what prepares the second and what reads the first in between, in any order.
TEST(Loops, LayersWithOthersInBetween) {
  constexpr int64_t kWidth = 5, kHidden = 7;
  std::vector<int> order = {0, 1, 2, 3};
  do {
    if (std::find(order.begin(), order.end(), 0) > std::find(order.begin(), order.end(), 1)) continue;  // 1 needs 0
    SCOPED_TRACE(::testing::PrintToString(order));
    ModelOf m(22);
    m.input("x", DType::kF32, {std::string(), std::string(), static_cast<int>(kWidth)});
    for (const char* layer : {"1", "2"}) {
      m.constant(std::string("w") + layer, random_floats({1, 3 * kHidden, kWidth}, 0.3));
      m.constant(std::string("r") + layer, random_floats({1, 3 * kHidden, kHidden}, 0.3));
    }
    m.node("GRU", {"x", "w1", "r1"}, {"y1", "h1"}, {{"hidden_size", kHidden}});
    for (const int step : order) {
      if (step == 0) m.node("Softmax", {"x"}, {"p"}, {{"axis", 2}});
      if (step == 1) m.node("Softmax", {"p"}, {"q"}, {{"axis", 0}});
      if (step == 2) m.node("Softmax", {"h1"}, {"a"}, {{"axis", 1}});
      if (step == 3) m.node("LogSoftmax", {"y1"}, {"b"}, {{"axis", 0}});
    }
    m.node("GRU", {"q", "w2", "r2"}, {"y2", "h2"}, {{"hidden_size", kHidden}});
    for (const char* name : {"a", "b", "y2", "h2"}) m.output(name);
    const auto program = check(m, {{{"x", random_floats({6, 3, kWidth})}}});
    EXPECT_EQ(loops_beside(*program), 1);
  } while (std::next_permutation(order.begin(), order.end()));
}

/// Whatever a body does with what it carries and scans.
TEST(Loops, BodiesOfEveryForm) {
  GraphOf body;
  // a = a + x[i], scanned twice; b stays; c and d change places; e is what a was; f is a number of the body's own.
  body.input("i").input("go").input("a").input("b").input("c").input("d").input("e").input("f");
  body.node("Gather", {"x", "i"}, {"row"}).node("Add", {"a", "row"}, {"a2"}).node("Add", {"c", "b"}, {"c2"});
  body.node("Mul", {"a2", "half"}, {"e2"}).node("Mul", {"f", "half"}, {"f2"}).node("Sub", {"d", "row"}, {"d2"});
  body.node("Identity", {"b"}, {"b2"}).node("Identity", {"row"}, {"seen"});
  body.constant("on", frontend::bools({}, {1}));
  body.node("Neg", {"e"}, {"before"});
  for (const bool swap : {false, true}) {
    GraphOf one = body;
    for (const char* o : {"on", "a2", "b2"}) one.output(o);
    one.output(swap ? "d2" : "c2").output(swap ? "c2" : "d2").output("e2").output("f2");
    for (const char* o : {"a2", "a2", "b", "seen", "before"}) {
      const std::string name = std::string(o) + std::to_string(one.proto.output_size());
      one.node("Identity", {o}, {name}).output(name);
    }
    ModelOf m;
    m.input("x", DType::kF32, {"t", "n"}).input("trips", DType::kI64, {}).input("s", DType::kF32, {"n"});
    m.constant("half", frontend::floats({}, {0.5}));
    m.node("Neg", {"s"}, {"t0"}).node("Abs", {"s"}, {"u0"});
    frontend::Names outputs;
    for (int k = 0; k < 11; ++k) outputs.push_back("o" + std::to_string(k));
    m.node("Loop", {"trips", "", "s", "s", "t0", "u0", "s", "t0"}, outputs, {{"body", one.proto}});
    for (const std::string& o : outputs) m.output(o);
    std::vector<ModelOf::Feed> feeds;
    for (const double trips : {3, 1, 0, 6})
      feeds.push_back({{"x", random_floats({6, 4})}, {"trips", int_scalar(trips)}, {"s", random_floats({4})}});
    check(m, feeds);
  }
}

/// A condition that ends it, with nothing scanned.
TEST(Loops, ACondition) {
  GraphOf body;
  body.input("i").input("go").input("a").node("Add", {"a", "a"}, {"a2"});
  body.node("ReduceMax", {"a2"}, {"top"}, {{"keepdims", 0}}).node("Less", {"top", "most"}, {"on"});
  body.output("on").output("a2");
  ModelOf m;
  m.input("x", DType::kF32, {"n"}).input("most", DType::kF32, {}).constant("trips", int_scalar(20));
  m.constant("yes", frontend::bools({}, {1}));
  m.node("Loop", {"trips", "yes", "x"}, {"y"}, {{"body", body.proto}}).output("y");
  std::vector<ModelOf::Feed> feeds;
  for (const double most : {0.0, 50.0, 1e30})
    feeds.push_back({{"x", frontend::counting({5})}, {"most", frontend::floats({}, {most})}});
  check(m, feeds);
}

}  // namespace
}  // namespace stax::session
