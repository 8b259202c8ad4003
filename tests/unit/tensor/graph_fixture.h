// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tests of tensor IR share: a graph, a builder, and short ways to spell inputs, run, and print.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/error.h"
#include "tensor/builder.h"
#include "tensor/interpret.h"

namespace stax::tensor {

class GraphFixture : public testing::Test {
 protected:
  Expr dim(const std::string& name, int64_t lo = 0, int64_t hi = symbolic::kMaxExtent) {
    return graph.exprs().new_symbol(
        {.name = name, .kind = symbolic::SymbolKind::kDim, .range = {lo, hi}, .multiple = 1});
  }
  Expr number(int64_t v) { return graph.exprs().constant(v); }
  std::vector<Expr> numbers(const std::vector<int64_t>& values) {
    std::vector<Expr> result;
    for (const int64_t v : values) result.push_back(number(v));
    return result;
  }

  Value* input(const std::string& name, DType t, std::vector<Expr> extents) {
    Value* v = graph.add_input(graph.body, Type::tensor(t, std::move(extents)), name);
    graph.inputs.push_back({name, v});
    return v;
  }
  void output(Value* v, const std::string& name = "y") {
    graph.outputs.push_back({name, v});
    graph.body.outputs.push_back(v);
  }

  static Item item(DType t, std::vector<int64_t> extents, const std::vector<double>& values) {
    Item result;
    result.tensor = Literal(t, std::move(extents));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (ir::is_float(t)) {
        result.tensor.set(at, {.f = values[i]});
      } else {
        result.tensor.set(at, {.i = static_cast<int64_t>(values[i])});
      }
    }
    return result;
  }
  static std::vector<double> values_of(const Literal& literal) {
    std::vector<double> result;
    for (int64_t i = 0; i < literal.count(); ++i) {
      result.push_back(ir::is_float(literal.dtype()) ? literal.at(i).f : static_cast<double>(literal.at(i).i));
    }
    return result;
  }
  // The elements of the graph's only output.
  std::vector<double> run(const std::vector<Item>& inputs) {
    verify(graph);
    return values_of(interpret(graph, inputs).at(0).tensor);
  }
  // The elements of a value as text: "2 n+1".
  static std::string contents(const Value* v) {
    if (!v->contents) return "unknown";
    std::string text;
    for (Expr e : *v->contents) text += (text.empty() ? "" : " ") + e.str();
    return text;
  }
  static std::string extents(const Value* v) {
    std::string text;
    for (Expr e : v->type.extents) text += (text.empty() ? "" : ", ") + e.str();
    return text;
  }
  int checks() {
    int count = 0;
    for_each_op(graph.body, [&](Op& op) { count += op.kind() == OpKind::kCheck ? 1 : 0; });
    return count;
  }
  template <class F>
  static std::string message_of(const F& f) {
    try {
      f();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  Graph graph{std::make_shared<ir::Context>()};
  Builder b{graph, graph.body};
};

}  // namespace stax::tensor
