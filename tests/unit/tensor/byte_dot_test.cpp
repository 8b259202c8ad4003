// SPDX-License-Identifier: Apache-2.0
// Quantized products as dot products of bytes: the same integers, in the form that kernels take.
#include "tensor/byte_dot.h"

#include <array>
#include <cmath>
#include <random>

#include "tensor/passes.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

struct Case {
  DType left, right;
  int64_t batch, rows, length, columns;
  bool known;       // the right side is a constant
  bool transposed;  // its columns lie one after the other
  int zeros;        // 0: none, 1: one number each, 2: one for each row and column
};

class ByteDotTest : public GraphFixture {
 protected:
  void check(const Case& c, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto bytes = [&](DType t, std::vector<int64_t> extents) {
      Item item;
      item.tensor = Literal(t, std::move(extents));
      for (int64_t i = 0; i < item.tensor.count(); ++i)
        item.tensor.set(i, {.i = ir::wrap_integer(t, static_cast<int64_t>(random()))});
      return item;
    };
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    std::vector<Item> inputs;
    const auto add = [&](const char* name, Item item, std::vector<Expr> extents) {
      Value* v = g.add_input(g.body, Type::tensor(item.tensor.dtype(), std::move(extents)), name);
      g.inputs.push_back({name, v});
      inputs.push_back(std::move(item));
      return v;
    };
    const auto n = [&](int64_t v) { return g.exprs().constant(v); };
    // The extents of the left side are known at the call only.
    const Expr batch = g.exprs().new_symbol({.name = "batch", .range = {0, 100}}),
               rows = g.exprs().new_symbol({.name = "rows", .range = {0, 100}});
    Value* a = add("a", bytes(c.left, {c.batch, c.rows, c.length}), {batch, rows, n(c.length)});
    const std::vector<int64_t> shape =
        c.transposed ? std::vector<int64_t>{c.columns, c.length} : std::vector<int64_t>{c.length, c.columns};
    const Item weights = bytes(c.right, shape);
    Value* w = c.known ? builder.constant(weights.tensor) : add("w", weights, {n(shape[0]), n(shape[1])});
    Value *za = nullptr, *zw = nullptr;
    if (c.zeros == 1) za = add("za", bytes(c.left, {}), {}), zw = add("zw", bytes(c.right, {}), {});
    if (c.zeros == 2)
      za = add("za", bytes(c.left, {c.rows}), {rows}), zw = add("zw", bytes(c.right, {c.columns}), {n(c.columns)});
    const auto wide = [](Scalar x) { return ir::cast(DType::kI32, x); };
    const auto less_zero = [&](Body& body, Scalar x, Value* zero, Expr at) {
      if (zero == nullptr) return wide(x);
      return wide(x) - wide(c.zeros == 2 ? body.load(zero, {at}) : body.load(zero));
    };
    Value* y = builder.reduce(
        Combiner::kSum, DType::kI32, {batch, rows, n(c.columns)}, {n(c.length)},
        [&](Body& body) {
          const Expr k = body.r[0], j = body.i[2];
          const Scalar x = body.load(a, {body.i[0], body.i[1], k});
          const Scalar v = body.load(w, c.transposed ? std::vector<Expr>{j, k} : std::vector<Expr>{k, j});
          return less_zero(body, x, za, body.i[1]) * less_zero(body, v, zw, j);
        },
        [&](Body& body, Scalar sum) { return ir::cast(DType::kF32, sum) * body.number(DType::kF32, 0.25); });
    g.outputs.push_back({"y", y});
    g.body.outputs.push_back(y);
    const std::vector<double> want = values_of(interpret(g, inputs).at(0).tensor);
    using Pass = std::pair<const char*, bool (*)(Graph&)>;
    for (const auto& [name, pass] : {Pass{"expand_zero_points", expand_zero_points},
                                     {"strengthen_integer_contractions", strengthen_integer_contractions},
                                     {"assign_layouts", assign_layouts},
                                     {"fold_constants", fold_constants},
                                     {"fuse_ops", fuse_ops},
                                     {"pack_weights", pack_weights},
                                     {"fold_constants", fold_constants},
                                     {"eliminate_dead_ops", eliminate_dead_ops}}) {
      pass(g);
      verify(g);
      if (pass == fuse_ops) {
        int dots = 0;
        for_each_op(g.body,
                    [&](Op& op) { dots += op.as<Compute>() != nullptr && byte_dot_of(*op.as<Compute>()) ? 1 : 0; });
        EXPECT_EQ(dots, 1) << "seed " << seed << "\n" << print(g);
      }
      ASSERT_EQ(values_of(interpret(g, inputs).at(0).tensor), want) << "seed " << seed << " after " << name << "\n"
                                                                    << print(g);
    }
  }
};

TEST_F(ByteDotTest, QuantizedProductsKeepTheirIntegers) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::initializer_list<int64_t> of) { return *(of.begin() + random() % of.size()); };
    const DType types[] = {DType::kU8, DType::kI8};
    Case c{types[random() % 2], types[random() % 2],         pick({0, 1, 2}),
           pick({1, 3, 9}),     pick({4, 5, 7, 8, 32, 131}), pick({16, 32, 45, 64}),
           random() % 3 != 0,   random() % 2 == 0,           static_cast<int>(random() % 3)};
    check(c, seed);
    if (HasFatalFailure()) return;
  }
}

// (qa - 3) * 0.5 times (qw - zero) * scale by column, with a bias: the floats of the model against the integers of the kernel.
TEST_F(ByteDotTest, DequantizedFactorsAreMultipliedAsIntegers) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const int64_t length = std::array<int64_t, 4>{4, 37, 64, 200}[random() % 4],
                  columns = std::array<int64_t, 3>{16, 40, 96}[random() % 3];
    const bool by_column = random() % 2 == 0, along_sum = seed % 4 == 0;
    const auto literal = [&](DType t, std::vector<int64_t> extents) {
      Literal l(t, std::move(extents));
      for (int64_t i = 0; i < l.count(); ++i) {
        if (ir::is_float(t))
          l.set(i, {.f = ir::round_to(t, static_cast<double>(random() % 1000 + 1) / 3000)});
        else
          l.set(i, {.i = ir::wrap_integer(t, static_cast<int64_t>(random()))});
      }
      return l;
    };
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    const Expr rows = g.exprs().new_symbol({.name = "rows", .range = {0, 100}}), k = g.exprs().constant(length),
               n = g.exprs().constant(columns);
    Value* a = g.add_input(g.body, Type::tensor(DType::kU8, {rows, k}), "a");
    Value* qw = g.add_input(g.body, Type::tensor(DType::kI8, {k, n}), "w");
    g.inputs.push_back({"a", a});
    g.inputs.push_back({"w", qw});
    Value* scales = builder.constant(literal(DType::kF32, {along_sum ? length : columns}));
    const auto dequantized = [&](Body& body, Value* v, int64_t zero, Scalar scale) {
      const Scalar q = ir::cast(DType::kI32, body.load(v, body.i)) - body.integer(DType::kI32, zero);
      return ir::cast(DType::kF32, q) * scale;
    };
    Value* x =
        builder.map({rows, k}, [&](Body& body) { return dequantized(body, a, 3, body.number(DType::kF32, 0.5)); });
    Value* w = builder.map({k, n}, [&](Body& body) {
      const Scalar own = body.load(scales, {body.i[along_sum ? 0 : 1]});
      return dequantized(body, qw, -5, by_column || along_sum ? own : body.number(DType::kF32, 0.125));
    });
    Value* y = builder.reduce(
        Combiner::kSum, DType::kF32, {rows, n}, {k},
        [&](Body& body) { return body.load(x, {body.i[0], body.r[0]}) * body.load(w, {body.r[0], body.i[1]}); },
        [&](Body& body, Scalar sum) { return sum + body.number(DType::kF32, 1.5); });
    g.outputs.push_back({"y", y});
    g.body.outputs.push_back(y);
    const std::vector<Item> inputs{{.tensor = literal(DType::kU8, {7, length})},
                                   {.tensor = literal(DType::kI8, {length, columns})}};
    const std::vector<double> want = values_of(interpret(g, inputs).at(0).tensor);
    // A scale that moves with the sum stays inside of it.
    EXPECT_EQ(contract_quantized(g), !along_sum) << "seed " << seed << "\n" << print(g);
    verify(g);
    const std::vector<double> got = values_of(interpret(g, inputs).at(0).tensor);
    double top = 0;
    for (const double v : want) top = std::max(top, std::fabs(v));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-5 * top) << "seed " << seed << ", element " << i;
  }
}

// The zeros around a dequantized image are its zero point around the bytes. A zero point that is no byte, and a scale that moves, stay as they are.
TEST_F(ByteDotTest, PaddedConvolutionsOfDequantizedValues) {
  struct PaddedCase {
    DType type;
    int64_t zero;
    bool scale_moves, changes;
  };
  for (const auto& [type, zero, scale_moves, changes] : {PaddedCase{DType::kU8, 117, false, true},
                                                         {DType::kU8, 0, false, true},
                                                         {DType::kI8, -100, false, true},
                                                         {DType::kU8, 300, false, false},
                                                         {DType::kU8, 7, true, false}}) {
    std::mt19937_64 random(static_cast<uint64_t>(zero + 1000));
    const int64_t channels = 5, columns = 32;
    const auto bytes = [&](DType t, std::vector<int64_t> extents) {
      Literal l(t, std::move(extents));
      for (int64_t i = 0; i < l.count(); ++i) l.set(i, {.i = ir::wrap_integer(t, static_cast<int64_t>(random()))});
      return l;
    };
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    const auto number = [&](int64_t v) { return g.exprs().constant(v); };
    const Expr h = g.exprs().new_symbol({.name = "h", .range = {0, 100}}), c = number(channels), n = number(columns);
    Value* q = g.add_input(g.body, Type::tensor(type, {c, h}), "q");
    Value* scales = g.add_input(g.body, Type::tensor(DType::kF32, {c}), "scales");
    g.inputs.push_back({"q", q});
    g.inputs.push_back({"scales", scales});
    Value* weights = g.add_input(g.body, Type::tensor(DType::kI8, {n, c, number(3)}), "weights");
    g.inputs.push_back({"weights", weights});
    Value* x = builder.map({c, h}, [&, zero = zero, scale_moves = scale_moves](Body& body) {
      const Scalar whole = ir::cast(DType::kI32, body.load(q, body.i)) - body.integer(DType::kI32, zero);
      return ir::cast(DType::kF32, whole) * body.load(scales, {scale_moves ? body.i[0] : number(2)});
    });
    Value* w = builder.map({n, c, number(3)}, [&](Body& body) {
      return ir::cast(DType::kF32, ir::cast(DType::kI32, body.load(weights, body.i))) * body.number(DType::kF32, 0.125);
    });
    Value* padded = builder.pad_constant(x, {number(0), number(1)}, {number(0), number(1)}, {});
    Value* y = builder.reduce(Combiner::kSum, DType::kF32, {n, h}, {c, number(3)}, [&](Body& body) {
      return body.load(padded, {body.r[0], body.i[1] + body.r[1]}) * body.load(w, {body.i[0], body.r[0], body.r[1]});
    });
    g.outputs.push_back({"y", y});
    g.body.outputs.push_back(y);
    Literal scale(DType::kF32, {channels});
    for (int64_t k = 0; k < channels; ++k) scale.set(k, {.f = 0.25 * static_cast<double>(k + 1)});
    const std::vector<Item> inputs{{.tensor = bytes(type, {channels, 9})},
                                   {.tensor = scale},
                                   {.tensor = bytes(DType::kI8, {columns, channels, 3})}};
    const std::vector<double> want = values_of(interpret(g, inputs).at(0).tensor);
    EXPECT_EQ(contract_quantized(g), changes) << zero << "\n" << print(g);
    verify(g);
    // Multiples of 1/32 below 2^24: exact either way.
    EXPECT_EQ(values_of(interpret(g, inputs).at(0).tensor), want) << zero << "\n" << print(g);
    const Compute& sum = *y->producer->as<Compute>();
    EXPECT_EQ(sum.accumulate, changes ? DType::kI32 : DType::kF32);
  }
}

TEST_F(ByteDotTest, SumsThatMayPass32BitsStayFloats) {
  for (const int64_t length : {33000, 34000}) {
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    const Expr k = g.exprs().constant(length), n = g.exprs().constant(32);
    Value* a = g.add_input(g.body, Type::tensor(DType::kU8, {n, k}), "a");
    Value* w = g.add_input(g.body, Type::tensor(DType::kU8, {k, n}), "w");
    const auto real = [&](Value* v) {
      return builder.map(v->type.extents, [&](Body& body) {
        return ir::cast(DType::kF32, ir::cast(DType::kI32, body.load(v, body.i))) * body.number(DType::kF32, 0.5);
      });
    };
    Value *x = real(a), *v = real(w);
    builder.reduce(Combiner::kSum, DType::kF32, {n, n}, {k}, [&](Body& body) {
      return body.load(x, {body.i[0], body.r[0]}) * body.load(v, {body.r[0], body.i[1]});
    });
    EXPECT_EQ(contract_quantized(g), length == 33000);
  }
}

TEST_F(ByteDotTest, FewColumnsAndShortSumsAreNotGrouped) {
  for (const auto& [length, columns] : {std::pair<int64_t, int64_t>{64, 3}, {2, 64}}) {
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    Value* a = g.add_input(g.body, Type::tensor(DType::kU8, {g.exprs().constant(5), g.exprs().constant(length)}), "a");
    Value* w =
        g.add_input(g.body, Type::tensor(DType::kI8, {g.exprs().constant(length), g.exprs().constant(columns)}), "w");
    builder.reduce(Combiner::kSum, DType::kI32, {g.exprs().constant(5), g.exprs().constant(columns)},
                   {g.exprs().constant(length)}, [&](Body& body) {
                     return ir::cast(DType::kI32, body.load(a, {body.i[0], body.r[0]})) *
                            ir::cast(DType::kI32, body.load(w, {body.r[0], body.i[1]}));
                   });
    EXPECT_FALSE(expand_zero_points(g));
  }
}

}  // namespace
}  // namespace stax::tensor
