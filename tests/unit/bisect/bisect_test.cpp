// SPDX-License-Identifier: Apache-2.0
// Planted faults are named, and their repros tell whether they are still there.
#include "bisect/bisect.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

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

TEST(Bisect, FindsNothingWhereAllLevelsAgree) {
  plant("");
  for (const int64_t n : {0, 1, 2, 5, 37}) {
    const auto found = bisect(source(), {Model::rows(n, 5)}, {.threads = 2});
    EXPECT_FALSE(found) << n << " rows: " << text_of(*found);
  }
}

class PlantedFault : public testing::TestWithParam<Fault> {
 protected:
  void TearDown() override { plant(""); }
};

TEST_P(PlantedFault, IsNamedAndItsReproTellsWhetherItIsThere) {
  const Fault& fault = GetParam();
  plant(fault.name);
  const auto found = bisect(source(), {Model::rows(37, 5)}, {.threads = 1});
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
  std::string name = info.param.name;
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

}  // namespace
}  // namespace stax::bisect
