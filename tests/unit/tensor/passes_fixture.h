// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphs that passes are tried on: what they compute is compared before and after.
#include <array>
#include <cmath>
#include <random>

#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {

using ir::ScalarOp;

class PassesTest : public GraphFixture {
 protected:
  int count(OpKind kind) {
    int n = 0;
    for_each_op(graph.body, [&](Op& op) { n += op.kind() == kind ? 1 : 0; });
    return n;
  }
  int kernels() { return count(OpKind::kCompute); }
  std::vector<ComputeClass> classes() {
    std::vector<ComputeClass> result;
    for_each_op(graph.body, [&](Op& op) {
      if (const Compute* c = op.as<Compute>()) result.push_back(classify(*c).kind);
    });
    return result;
  }

  /// Random inputs for the declared extents, with `sizes` for the symbols in order of appearance.
  std::vector<Item> random_inputs(const std::vector<int64_t>& sizes) {
    std::vector<Item> items;
    Bindings bindings;
    size_t next = 0;
    for (const GraphInput& in : graph.inputs) {
      std::vector<int64_t> extents;
      int64_t n = 1;
      for (Expr e : in.value->type.extents) {
        if (e.is_symbol() && bindings.emplace(e.node(), 0).second) bindings[e.node()] = sizes.at(next++);
        extents.push_back(e.is_constant() ? e.constant() : bindings.at(e.node()));
        n *= extents.back();
      }
      std::vector<double> values(static_cast<size_t>(n));
      for (double& v : values) v = std::uniform_int_distribution<int>(-8, 8)(random_) / 4.0;
      items.push_back(item(in.value->type.dtype, extents, values));
    }
    return items;
  }

  /// Runs a pass; the graph stays well-formed and says the same.
  void check(bool (*pass)(Graph&), const std::vector<int64_t>& sizes, bool changes = true) {
    verify(graph);
    const auto inputs = random_inputs(sizes);
    const auto before = interpret(graph, inputs);
    const std::string text = print(graph);
    EXPECT_EQ(pass(graph), changes) << text;
    verify(graph);
    expect_same(before, interpret(graph, inputs));
  }
  void expect_same(const std::vector<Item>& before, const std::vector<Item>& after) {
    ASSERT_EQ(before.size(), after.size());
    for (size_t k = 0; k < before.size(); ++k) {
      ASSERT_EQ(before[k].tensor.extents(), after[k].tensor.extents());
      const auto a = values_of(before[k].tensor), b = values_of(after[k].tensor);
      for (size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(a[i]) && std::isnan(b[i])) continue;
        if (a[i] == b[i]) continue;
        ASSERT_NEAR(a[i], b[i], 1e-4 * std::max(1.0, std::abs(a[i]))) << "output " << k << " element " << i << "\n"
                                                                      << print(graph);
      }
    }
  }
  void fuse(const std::vector<int64_t>& sizes) {
    check(fuse_ops, sizes);
    eliminate_dead_ops(graph);
    verify(graph);
  }

  Value* relu(Value* v) {
    return b.pointwise({v}, [&](std::span<const Scalar> x) {
      return binary(ScalarOp::kMax, x[0], graph.scalars().constant(DType::kF32, 0));
    });
  }
  Value* add(Value* x, Value* y) { return b.binary(ScalarOp::kAdd, x, y); }
  Value* weights(std::vector<int64_t> extents) {
    Literal l(DType::kF32, std::move(extents));
    for (int64_t i = 0; i < l.count(); ++i) l.set(i, {.f = std::uniform_int_distribution<int>(-8, 8)(random_) / 8.0});
    return b.constant(l);
  }
  /// Convolution of [n, c, h, w] with [o, c, k, k], without padding.
  Value* convolve(Value* x, Value* w) {
    const auto& e = x->type.extents;
    const Expr k = w->type.extents[2];
    return b.reduce(Combiner::kSum, DType::kF32, {e[0], w->type.extents[0], e[2] - k + 1, e[3] - k + 1}, {e[1], k, k},
                    [&](Body& body) {
                      return body.load(x, {body.i[0], body.r[0], body.i[2] + body.r[1], body.i[3] + body.r[2]}) *
                             body.load(w, {body.i[1], body.r[0], body.r[1], body.r[2]});
                    });
  }
  std::mt19937_64 random_{11};
};

}  // namespace stax::tensor
