// SPDX-License-Identifier: Apache-2.0
// Quantized products as dot products of bytes: the same integers, in the form that kernels take.
#include "tensor/byte_dot.h"

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
