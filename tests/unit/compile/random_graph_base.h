// SPDX-License-Identifier: Apache-2.0
#pragma once
// What random tensor graphs over symbolic extents are made with, and data for them.
//
// Numbers are chosen so that sums and products are exact in f32 (multiples of a quarter, small integers): what differs between two levels then
// is a fault and not rounding, except in functions like exp.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/builder.h"
#include "tensor/interpret.h"

namespace stax::compile {

using ir::DType;
using ir::Scalar;
using ir::ScalarOp;
using symbolic::Expr;
using tensor::Body;
using tensor::Combiner;
using tensor::Value;

inline constexpr int64_t kExtents[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65};

enum class Data { kTame, kSigns, kSpecial, kIndex };

/// Choices, inputs and outputs, scalars: what all kinds of ops are made with.
class RandomGraphBase {
 public:
  explicit RandomGraphBase(uint64_t seed) : random(seed) {
    for (const char* name : {"a", "b", "c"}) {
      dims.push_back(graph->exprs().new_symbol(
          {.name = name, .kind = symbolic::SymbolKind::kDim, .range = {0, symbolic::kMaxExtent}, .multiple = 1}));
      input(DType::kBool, {dims.back()});  // binds it
    }
  }

  std::mt19937_64 random;
  bool tame = false;  // no infinities and NaN
  std::unique_ptr<tensor::Graph> graph = std::make_unique<tensor::Graph>(std::make_shared<ir::Context>());
  tensor::Builder b{*graph, graph->body};
  std::vector<Expr> dims;

  // ---- choices
  int pick(int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(static_cast<int>(list.size()))];
  }
  Expr number(int64_t v) { return b.constant_expr(v); }
  Expr extent() { return chance(60) ? dims[pick(3)] : number(one_of<int64_t>({1, 2, 3, 5, 8, 16, 40, 64})); }
  std::vector<Expr> extents(int rank) {
    std::vector<Expr> result;
    for (int k = 0; k < rank; ++k) result.push_back(extent());
    return result;
  }

  // ---- inputs and outputs. Dims of inputs are constants or bare symbols: others get symbols of their own, with the extent stated by `related`.
  Value* input(DType t, std::vector<Expr> wanted, Data kind = Data::kTame, Expr limit = {}) {
    for (Expr& e : wanted) {
      if (e.is_constant() || e.is_symbol()) continue;
      const Expr symbol = graph->exprs().new_symbol(
          {.name = "r", .kind = symbolic::SymbolKind::kDim, .range = {0, symbolic::kMaxExtent}, .multiple = 1});
      b.check(symbolic::equal(symbol, e), "{0} instead of {1}", {symbol, e});
      related.push_back({symbol, e});
      e = symbol;
    }
    const std::string name = "x" + std::to_string(graph->inputs.size());
    Value* v = graph->add_input(graph->body, tensor::Type::tensor(t, std::move(wanted)), name);
    graph->inputs.push_back({name, v});
    kinds.push_back({tame && kind == Data::kSpecial ? Data::kTame : kind, limit});
    return v;
  }
  void output(Value* v) {
    graph->outputs.push_back({"y" + std::to_string(graph->outputs.size()), v});
    graph->body.outputs.push_back(v);
  }

  /// Extents of all symbols, and inputs of that size; nullopt where no index is in range.
  struct Call {
    std::vector<int64_t> extents;
    std::vector<tensor::Item> inputs;
  };
  std::optional<Call> call(uint64_t seed) const {
    std::mt19937_64 draw(seed);
    tensor::Bindings bound;
    Call result;
    for (const Expr dim : dims) bound[dim.node()] = result.extents.emplace_back(kExtents[draw() % std::size(kExtents)]);
    for (const auto& [symbol, e] : related) bound[symbol.node()] = symbolic::evaluate(e, bound);
    for (size_t k = 0; k < graph->inputs.size(); ++k) {
      const tensor::Type& type = graph->inputs[k].value->type;
      std::vector<int64_t> extents;
      for (const Expr e : type.extents) extents.push_back(symbolic::evaluate(e, bound));
      tensor::Item item;
      item.tensor = ir::Literal(type.dtype, extents);
      const int64_t limit = kinds[k].limit ? symbolic::evaluate(kinds[k].limit, bound) : 0;
      if (kinds[k].data == Data::kIndex && limit == 0 && item.tensor.count() > 0) return std::nullopt;
      for (int64_t i = 0; i < item.tensor.count(); ++i)
        item.tensor.set(i, value(type.dtype, kinds[k].data, limit, draw));
      result.inputs.push_back(std::move(item));
    }
    return result;
  }

  // ---- scalars
  Scalar combine(Scalar x, Scalar y) {
    const DType t = x->dtype;
    auto& s = b.scalars();
    if (t == DType::kBool) return s.op(one_of({ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor}), {x, y});
    if (ir::is_float(t)) {
      if (!inexact && chance(15)) return ir::select(ir::less(x, y), x + y, x - y);
      const ScalarOp op =
          one_of({ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kDiv});
      inexact |= op == ScalarOp::kDiv;
      return s.op(op, {x, y});
    }
    return s.op(one_of({ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kDiv,
                        ScalarOp::kModFloor, ScalarOp::kAnd, ScalarOp::kXor}),
                {x, y});
  }
  Scalar decorate(Scalar x) {
    const DType t = x->dtype;
    auto& s = b.scalars();
    if (t == DType::kBool) return chance(50) ? s.op(ScalarOp::kNot, {x}) : x;
    if (ir::is_float(t)) {
      switch (pick(8)) {
        case 0:
          inexact = true;
          return s.op(one_of({ScalarOp::kExp, ScalarOp::kTanh, ScalarOp::kSigmoid, ScalarOp::kErf}),
                      {s.op(ScalarOp::kMin, {x, s.constant(t, 4)})});
        case 1: inexact = true; return s.op(ScalarOp::kSqrt, {s.op(ScalarOp::kAbs, {x})});
        case 2: return s.op(ScalarOp::kNeg, {x});
        case 3: return s.op(ScalarOp::kMax, {x, s.constant(t, 0)});
        case 4: return inexact ? x : s.op(one_of({ScalarOp::kFloor, ScalarOp::kRoundEven}), {x});
        case 5: return ir::select(ir::unary(ScalarOp::kIsNan, x), s.constant(t, 3), x);
        default: return x;
      }
    }
    return chance(25) ? s.op(ScalarOp::kAbs, {x}) : x;
  }

 protected:
  struct Kind {
    Data data;
    Expr limit;
  };
  struct Relation {
    Expr symbol, extent;
  };

  static ir::Value64 value(DType t, Data data, int64_t limit, std::mt19937_64& draw) {
    ir::Value64 v{};
    const uint64_t bits = draw();
    if (data == Data::kIndex) {
      v.i = static_cast<int64_t>(bits % static_cast<uint64_t>(2 * limit)) - limit;
    } else if (t == DType::kBool) {
      v.i = static_cast<int64_t>(bits % 2);
    } else if (data == Data::kSigns) {
      const int64_t sign = bits % 4 == 0 ? -1 : 1;
      if (ir::is_float(t))
        v.f = static_cast<double>(sign);
      else
        v.i = ir::wrap_integer(t, sign);
    } else if (ir::is_float(t)) {
      static constexpr double kSpecial[] = {std::numeric_limits<double>::infinity(),
                                            -std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN(), -0.0, 0.0};
      v.f = data == Data::kSpecial && bits % 5 == 0 ? kSpecial[bits / 5 % std::size(kSpecial)]
                                                    : (static_cast<double>(bits / 64 % 17) - 8) / 4;
    } else {
      v.i = ir::wrap_integer(t, static_cast<int64_t>(bits % 15) - 7);
    }
    return v;
  }

  std::vector<Kind> kinds;
  std::vector<Relation> related;
  std::vector<Expr> current;  // extents of the op being made
  bool inexact = false;       // it has been rounded: steps and comparisons would make much of little
};

/// "[2, 0, 33]"
inline std::string text_of(const std::vector<int64_t>& extents) {
  std::string text;
  for (const int64_t e : extents) text += (text.empty() ? "[" : ", ") + std::to_string(e);
  return text.empty() ? "[]" : text + "]";
}

}  // namespace stax::compile
