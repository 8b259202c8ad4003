// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "symbolic/evaluate.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;
using symbolic::Truth;

class BuilderTest : public GraphFixture {};

// ---- facts

TEST_F(BuilderTest, CheckIsProvedDisprovedOrLeftToRunTime) {
  const Expr n = dim("n", 1, 8);
  b.source = "Op node 'x'";
  b.check(less(n, number(9)), "{0} is too large", {n});
  EXPECT_EQ(checks(), 0);
  EXPECT_EQ(
      message_of([&] { b.check(less(number(12), number(9)), "{0} is too large for {1}", {number(12), number(9)}); }),
      "Op node 'x': 12 is too large for 9");
  b.check(less(n, number(5)), "{0} is too large", {n});
  EXPECT_EQ(checks(), 1);
  EXPECT_EQ(graph.body.ops.back()->as<Check>()->message, "Op node 'x': {0} is too large");
  b.check(less(n, number(5)), "{0} is too large", {n});
  EXPECT_EQ(checks(), 1) << "what has been checked holds";
}

TEST_F(BuilderTest, ChecksStandWhereTheirSymbolsAreBound) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  b.unary(ScalarOp::kNeg, x);
  b.check(less(n, number(5)), "first", {});
  b.check(less(number(2), n), "second", {});
  ASSERT_EQ(graph.body.ops.size(), 3u);
  EXPECT_EQ(graph.body.ops.front()->as<Check>()->message, "first");
  EXPECT_EQ(graph.body.ops.back()->kind(), OpKind::kCompute);
  output(b.unary(ScalarOp::kAbs, x));
  EXPECT_EQ(message_of([&] { run({item(DType::kF32, {5}, {1, 2, 3, 4, 5})}); }).find("first") == std::string::npos,
            false);
}

TEST_F(BuilderTest, FactsOfABlockStayInIt) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n});
  Value* y = input("y", DType::kF32, {m});
  auto block = std::make_unique<Block>();
  Builder inner(graph, *block);
  inner.binary(ScalarOp::kAdd, x, y);
  inner.binary(ScalarOp::kMul, x, y);
  EXPECT_EQ(graph.constraints.equal(n, m), Truth::kUnknown);
  int inner_checks = 0;
  for (const auto& op : block->ops) inner_checks += op->kind() == OpKind::kCheck ? 1 : 0;
  EXPECT_EQ(inner_checks, 1);
  // What cannot hold there is no fault unless the block runs.
  inner.check(number(0), "never", {});
  EXPECT_TRUE(block->ops.back()->as<Check>()->condition.is_constant(0));
}

TEST_F(BuilderTest, BroadcastExtent) {
  const Expr n = dim("n"), m = dim("m"), k = dim("k", 2, 8);
  EXPECT_EQ(b.broadcast_extent(n, n, "a and b"), n);
  EXPECT_EQ(b.broadcast_extent(number(1), n, "a and b"), n);
  EXPECT_EQ(b.broadcast_extent(n, number(1), "a and b"), n);
  EXPECT_EQ(checks(), 0);
  EXPECT_EQ(b.broadcast_extent(n, number(64), "a and b"), number(64));
  EXPECT_EQ(checks(), 1);
  const Expr other = dim("other");
  EXPECT_EQ(b.broadcast_extent(m, other, "a and b"), select(equal(m, 1), other, m));
  EXPECT_EQ(checks(), 2);
  const Expr l = dim("l");
  EXPECT_EQ(b.broadcast_extent(l, k, "a and b"), k) << "k is not 1, so l has to be 1 or k";
  EXPECT_EQ(message_of([&] { b.broadcast_extent(number(3), number(4), "a and b"); }),
            "cannot broadcast extent 3 with 4 (a and b)");
}

TEST_F(BuilderTest, BroadcastMessageNamesOperands) {
  b.source = "Add node 'x' (inputs pixels, filters)";
  Value* pixels = input("pixels", DType::kF32, numbers({2, 31}));
  Value* filters = input("filters", DType::kF32, numbers({37}));
  EXPECT_EQ(
      message_of([&] { b.binary(ScalarOp::kAdd, pixels, filters); }),
      "Add node 'x' (inputs pixels, filters): cannot broadcast extent 31 of 'pixels' with 37 of 'filters' (axis -1)");
}

TEST_F(BuilderTest, BroadcastLoadsDecideAtRunTime) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n});
  Value* y = input("y", DType::kF32, {m});
  output(b.binary(ScalarOp::kAdd, x, y));
  EXPECT_EQ(run({item(DType::kF32, {3}, {1, 2, 3}), item(DType::kF32, {1}, {10})}), (std::vector<double>{11, 12, 13}));
  EXPECT_EQ(run({item(DType::kF32, {1}, {10}), item(DType::kF32, {2}, {1, 2})}), (std::vector<double>{11, 12}));
  EXPECT_EQ(run({item(DType::kF32, {2}, {10, 20}), item(DType::kF32, {2}, {1, 2})}), (std::vector<double>{11, 22}));
  EXPECT_EQ(run({item(DType::kF32, {0}, {}), item(DType::kF32, {1}, {1})}), (std::vector<double>{}));
  EXPECT_NE(message_of([&] {
              run({item(DType::kF32, {2}, {1, 2}), item(DType::kF32, {3}, {1, 2, 3})});
            }).find("cannot broadcast extent 2 of 'x' with 3 of 'y'"),
            std::string::npos);
}

// ---- contents

TEST_F(BuilderTest, ShapeArithmeticIsSymbolic) {
  const Expr n = dim("n"), h = dim("h");
  input("x", DType::kF32, {n, h});
  Value* shape = b.ints({n, h, number(64)});
  EXPECT_EQ(contents(shape), "n h 64");
  Value* first = b.gather(shape, b.constant(DType::kI64, 0), 0);
  EXPECT_EQ(contents(first), "n");
  Value* doubled = b.binary(ScalarOp::kMul, first, b.constant(DType::kI64, 2));
  EXPECT_EQ(*doubled->contents, std::vector<Expr>{n * 2});
  Value* joined = b.concat({b.reshape(doubled, {number(1)}), b.slice(shape, 0, number(1), number(2), number(1))}, 0);
  EXPECT_EQ(*joined->contents, (std::vector<Expr>{n * 2, h, number(64)}));
  Value* negative = b.gather(shape, b.constant(Literal::ints({-1, -3})), 0);
  EXPECT_EQ(*negative->contents, (std::vector<Expr>{number(64), n}));
  Value* total = b.reduce_axes(Combiner::kProd, shape, {0}, false, DType::kI64);
  EXPECT_EQ(*total->contents, std::vector<Expr>{n * h * 64});
  Value* is_one = b.binary(ScalarOp::kEqual, first, b.constant(DType::kI64, 1));
  EXPECT_EQ(*is_one->contents, std::vector<Expr>{equal(n, 1)});
  Value* half = b.binary(ScalarOp::kDiv, first, b.constant(DType::kI64, 2));
  EXPECT_EQ(*half->contents, std::vector<Expr>{floordiv(n, 2)});
  Value* unknown = b.binary(ScalarOp::kMul, b.cast(first, DType::kI32), b.constant(DType::kI32, 2));
  EXPECT_EQ(contents(unknown), "unknown") << "it may wrap";
  EXPECT_EQ(contents(b.cast(first, DType::kI32)), "n");
  output(joined, "joined");
  output(total, "total");
  verify(graph);
}

TEST_F(BuilderTest, KnownNumbersBecomeConstants) {
  Value* shape = b.ints(numbers({2, 3, 4}));
  ASSERT_NE(b.literal(shape), nullptr);
  Value* product = b.reduce_axes(Combiner::kProd, shape, {0}, false, DType::kI64);
  ASSERT_NE(b.literal(product), nullptr);
  EXPECT_EQ(values_of(*b.literal(product)), (std::vector<double>{24}));
  const Expr n = dim("n");
  Value* picked = b.gather(b.ints({n, number(7)}), b.constant(DType::kI64, 1), 0);
  ASSERT_NE(b.literal(picked), nullptr);
}

TEST_F(BuilderTest, ConstantsAreFolded) {
  Value* x = b.constant(item(DType::kF32, {3}, {1, 2, 3}).tensor);
  Value* y = b.binary(ScalarOp::kMul, x, x);
  ASSERT_NE(b.literal(y), nullptr);
  EXPECT_EQ(values_of(*b.literal(y)), (std::vector<double>{1, 4, 9}));
  Value* wide = b.broadcast_to(b.constant(DType::kF32, 1), {number(2048), number(2048)});
  EXPECT_EQ(b.literal(wide), nullptr) << "a large fill stays a formula";
}

TEST_F(BuilderTest, HostIntsBindAtTheLeaves) {
  Value* k = input("k", DType::kI64, {});
  Value* next = b.binary(ScalarOp::kAdd, k, b.constant(DType::kI64, 1));
  const Expr e = b.host_int(next);
  ASSERT_TRUE(k->contents.has_value());
  EXPECT_EQ(e, (*k->contents)[0] + 1);
  EXPECT_EQ(b.host_int(k), (*k->contents)[0]);
  EXPECT_EQ(graph.body.ops.front()->kind(), OpKind::kBind);
  output(b.int_scalar(e * 2));
  EXPECT_EQ(run({item(DType::kI64, {}, {20})}), (std::vector<double>{42}));
}

TEST_F(BuilderTest, HostIntsOfDataBindTheValueItself) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* largest = b.cast(b.reduce_axes(Combiner::kMax, x, {0}, false, DType::kF32), DType::kI64);
  const Expr e = b.host_int(largest, {0, 100});
  EXPECT_TRUE(e.is_symbol());
  EXPECT_EQ(e.range(), (symbolic::Interval{0, 100}));
  output(b.map({e}, [&](Body& body) { return body.index(body.i[0]); }));
  EXPECT_EQ(run({item(DType::kF32, {2}, {1, 3})}), (std::vector<double>{0, 1, 2}));
  EXPECT_NE(message_of([&] { run({item(DType::kF32, {1}, {-1})}); }), "no error");
}

TEST_F(BuilderTest, HostIntsKeepTheElementsThatAreKnown) {
  // [0, ceil(n / 2 + 0.25), n]: a size that went through floats beside others that did not.
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  Value* half = b.binary(ScalarOp::kDiv, b.cast(b.int_scalar(n), DType::kF32), b.constant(DType::kF32, 2));
  Value* up =
      b.cast(b.unary(ScalarOp::kCeil, b.binary(ScalarOp::kAdd, half, b.constant(DType::kF32, 0.25))), DType::kI64);
  const auto vector_of = [&](Value* v) { return b.reshape(v, {number(1)}); };
  Value* sizes = b.concat({vector_of(b.constant(DType::kI64, 0)), vector_of(up), b.ints({n})}, 0);
  const std::vector<Expr> known = b.host_ints(sizes);
  ASSERT_EQ(known.size(), 3U);
  EXPECT_TRUE(known[0].is_constant(0));
  EXPECT_TRUE(known[1].is_symbol());
  EXPECT_EQ(known[2], n);
  output(b.map({known[1]}, [&](Body& body) { return body.index(body.i[0] + known[2]); }));
  EXPECT_EQ(run({item(DType::kF32, {3}, {0, 0, 0})}), (std::vector<double>{3, 4}));
  (void)x;
}

TEST_F(BuilderTest, HostIntsInARange) {
  EXPECT_EQ(message_of([&] { b.host_int(b.constant(DType::kI64, 7), {-2, 1}); }),
            "'value0' is 7, which is outside -2 .. 1");
}

// Random shape arithmetic: what the contents say at given sizes is what the ops compute there.
TEST(BuilderContents, AgreeWithTheInterpreter) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Graph graph(std::make_shared<ir::Context>());
    Builder b(graph, graph.body);
    const Expr n = graph.exprs().new_symbol({.name = "n", .range = {0, 40}});
    const Expr m = graph.exprs().new_symbol({.name = "m", .range = {1, 9}});
    graph.inputs.push_back({"x", graph.add_input(graph.body, Type::tensor(DType::kF32, {n, m}), "x")});
    std::vector<Value*> values = {b.ints({n, m, b.constant_expr(3)}), b.ints({m, n - m, b.constant_expr(-2)}),
                                  b.constant(Literal::ints({2, 0, -5}))};
    static constexpr ScalarOp kOps[] = {
        ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul,   ScalarOp::kDiv,  ScalarOp::kModFloor,  ScalarOp::kModTrunc,
        ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kEqual, ScalarOp::kLess, ScalarOp::kLessEqual, ScalarOp::kNotEqual};
    static constexpr ScalarOp kUnary[] = {ScalarOp::kNeg, ScalarOp::kAbs, ScalarOp::kSign, ScalarOp::kNot};
    for (int step = 0; step < 6; ++step) {
      Value* x = values[pick(values.size())];
      Value* y = values[pick(values.size())];
      switch (pick(6)) {
        case 0:
        case 1: values.push_back(b.cast(b.binary(kOps[pick(std::size(kOps))], x, y), DType::kI64)); break;
        case 2: values.push_back(b.unary(kUnary[pick(std::size(kUnary))], x)); break;
        case 3: {
          const DType narrow = std::array{DType::kI32, DType::kI8, DType::kU8, DType::kBool}[pick(4)];
          values.push_back(b.cast(b.cast(x, narrow), DType::kI64));
          break;
        }
        case 4:
          values.push_back(
              b.gather(b.concat({x, y}, 0), b.constant(Literal::ints({static_cast<int64_t>(pick(6)), -1, 2})), 0));
          break;
        case 5:
          values.push_back(b.pointwise(
              {x, y, values[0]}, [&](std::span<const Scalar> v) { return select(less(v[0], v[1]), v[2], v[0]); }));
          break;
      }
    }
    for (Value* v : values) {
      graph.outputs.push_back({"y" + std::to_string(v->id), v});
      graph.body.outputs.push_back(v);
    }
    verify(graph);
    for (const auto& [size_n, size_m] : {std::pair{0, 1}, {1, 9}, {40, 7}, {13, 2}}) {
      Item data;
      data.tensor = Literal(DType::kF32, {size_n, size_m});
      for (int64_t i = 0; i < data.tensor.count(); ++i) data.tensor.set(i, {.f = 0});
      const std::vector<Item> results = interpret(graph, {data});
      for (size_t k = 0; k < values.size(); ++k) {
        if (!values[k]->contents) continue;
        for (int64_t i = 0; i < 3; ++i) {
          const Expr e = (*values[k]->contents)[static_cast<size_t>(i)];
          ASSERT_EQ(symbolic::evaluate(e, {{n.node(), size_n}, {m.node(), size_m}}), results[k].tensor.at(i).i)
              << "seed " << seed << ", n " << size_n << ", m " << size_m << ", element " << i << " of " << k << ": "
              << e.str() << "\n"
              << print(graph);
        }
      }
    }
  }
}

// ---- helpers

TEST_F(BuilderTest, AxesOfOnePointAreIndexZero) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, number(1)});
  Value* y = b.unary(ScalarOp::kNeg, x);
  EXPECT_EQ(y->producer->as<Compute>()->body.str(), "neg(load0[i0, 0])");
  EXPECT_EQ(b.reduce_axes(Combiner::kSum, x, {1}, false, DType::kF32)->producer->as<Compute>()->combiner,
            Combiner::kNone);
}

TEST_F(BuilderTest, ReshapeChecksTheCount) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, number(4)});
  EXPECT_EQ(b.reshape(x, {n, number(4)}), x);
  b.reshape(x, {n * 4});
  EXPECT_EQ(checks(), 0);
  b.reshape(x, {m, number(8)});
  EXPECT_EQ(checks(), 1);
  Value* y = input("y", DType::kF32, numbers({2, 3}));
  EXPECT_EQ(message_of([&] { b.reshape(y, numbers({7})); }), "cannot reshape the 6 elements of 'y' to 7");
}

TEST_F(BuilderTest, Views) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kI64, {n, number(3)});
  Value* turned = b.transpose(x, {1, 0});
  EXPECT_EQ(extents(turned), "3, n");
  Value* sliced = b.slice(turned, 0, number(2), number(3), number(-1));
  Value* padded = b.pad_constant(sliced, numbers({1, -1}), numbers({0, 0}), b.scalars().constant_int(DType::kI64, 9));
  output(padded);
  EXPECT_EQ(run({item(DType::kI64, {2, 3}, {1, 2, 3, 4, 5, 6})}), (std::vector<double>{9, 6, 5, 4}));
}

TEST_F(BuilderTest, Concat) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kI64, {n, number(2)});
  Value* y = input("y", DType::kI64, {m, number(2)});
  Value* z = b.concat({x, y, x}, 0);
  EXPECT_EQ(z->type.extents[0], n * 2 + m);
  output(z);
  EXPECT_EQ(run({item(DType::kI64, {1, 2}, {1, 2}), item(DType::kI64, {2, 2}, {3, 4, 5, 6})}),
            (std::vector<double>{1, 2, 3, 4, 5, 6, 1, 2}));
  EXPECT_EQ(run({item(DType::kI64, {0, 2}, {}), item(DType::kI64, {1, 2}, {3, 4})}), (std::vector<double>{3, 4}));
}

TEST_F(BuilderTest, GatherChecksIndices) {
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  Value* i = input("i", DType::kI32, {dim("k")});
  output(b.gather(x, i, 0));
  const Item data = item(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run({data, item(DType::kI32, {2}, {-1, 0})}), (std::vector<double>{5, 6, 1, 2}));
  EXPECT_NE(message_of([&] { run({data, item(DType::kI32, {1}, {3})}); }), "no error");
}

TEST_F(BuilderTest, MatmulIsAContraction) {
  const Expr batch = dim("batch"), m = dim("m"), k = dim("k"), rows = dim("rows");
  Value* x = input("x", DType::kF32, {batch, m, k});
  Value* w = input("w", DType::kF32, {rows, number(4)});
  Value* y = b.matmul(x, w);
  EXPECT_EQ(extents(y), "batch, m, 4");
  EXPECT_EQ(checks(), 1);
  const auto* compute = y->producer->as<Compute>();
  EXPECT_EQ(compute->body.str(), "mul(load0[i0, i1, r0], load1[r0, i2_4])");
  EXPECT_EQ(compute->combiner, Combiner::kSum);
  Value* half = b.matmul(b.cast(x, DType::kF16), b.cast(w, DType::kF16));
  EXPECT_EQ(half->type.dtype, DType::kF16);
  EXPECT_EQ(half->producer->as<Compute>()->accumulate, DType::kF32);
}

TEST_F(BuilderTest, MatmulOfVectorsAndBatches) {
  Value* x = input("x", DType::kF32, {dim("a"), number(1), dim("m"), number(2)});
  Value* v = input("v", DType::kF32, {number(2)});
  Value* y = b.matmul(x, v);
  EXPECT_EQ(extents(y), "a, 1, m");
  EXPECT_EQ(extents(b.matmul(v, v)), "");
  EXPECT_EQ(extents(b.matmul(v, input("w", DType::kF32, numbers({5, 2, 3})))), "5, 3");
  output(y);
  EXPECT_EQ(run({item(DType::kF32, {1, 1, 2, 2}, {1, 2, 3, 4}), item(DType::kF32, {2}, {1, 10}),
                 item(DType::kF32, {5, 2, 3}, std::vector<double>(30, 0))}),
            (std::vector<double>{21, 43}));
}

TEST_F(BuilderTest, Softmax) {
  Value* x = input("x", DType::kF32, {dim("n"), dim("m")});
  output(b.softmax(x, -1));
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> y = run({item(DType::kF32, {2, 2}, {0, 1, -inf, -inf})});
  EXPECT_NEAR(y[0], 1 / (1 + std::exp(1)), 1e-6);
  EXPECT_NEAR(y[0] + y[1], 1, 1e-6);
  EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
  EXPECT_EQ(run({item(DType::kF32, {2, 0}, {})}), (std::vector<double>{}));
}

TEST_F(BuilderTest, MeanAndLayerNorm) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, number(4)});
  Value* scale = input("scale", DType::kF32, {number(4)});
  EXPECT_EQ(b.mean(x, {1}, false)->producer->as<Compute>()->accumulate, DType::kF64);
  EXPECT_EQ(extents(b.mean(x, {0, 1}, true)), "1, 1");
  Value* mean = nullptr;
  Value* inverse = nullptr;
  Value* y = b.layer_norm(x, -1, 0, scale, nullptr, &mean, &inverse);
  EXPECT_EQ(extents(mean), "n, 1");
  EXPECT_EQ(extents(inverse), "n, 1");
  output(y);
  const std::vector<double> z = run({item(DType::kF32, {1, 4}, {1, 1, 3, 3}), item(DType::kF32, {4}, {1, 2, 3, 4})});
  EXPECT_EQ(z, (std::vector<double>{-1, -2, 3, 4}));
}

TEST_F(BuilderTest, ArgMaxAndMeanOfNothing) {
  Value* x = input("x", DType::kF32, {dim("n"), number(3)});
  Value* i = b.reduce_axes(Combiner::kArgMaxFirst, x, {1}, false, DType::kF32);
  EXPECT_EQ(i->type.dtype, DType::kI64);
  Value* mean = b.mean(x, {0, 1}, false);
  output(b.binary(ScalarOp::kAdd, b.cast(i, DType::kF32), mean));
  EXPECT_EQ(run({item(DType::kF32, {1, 3}, {0, 3, 3})}), (std::vector<double>{3}));
  graph.outputs.clear();
  graph.body.outputs.clear();
  output(mean);
  EXPECT_TRUE(std::isnan(run({item(DType::kF32, {0, 3}, {})})[0]));
}

TEST_F(BuilderTest, RunTimeRankIsRightAligned) {
  const Expr r = b.new_symbol("r", {0, 8});
  std::vector<Expr> extents_of;
  for (int k = 0; k < kMaxRank; ++k)
    extents_of.push_back(b.new_symbol("e" + std::to_string(k), {0, symbolic::kMaxExtent}));
  Type type = Type::tensor(DType::kF32, extents_of);
  type.rank = r;
  std::vector<Expr> defines = extents_of;
  defines.push_back(r);
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  Value* shape = input("shape", DType::kI64, {dim("k")});
  Value* v = b.op(ReshapeDynamic{}, {x, shape}, {type}, defines)->result();
  Value* y = b.binary(ScalarOp::kAdd, v, x);
  EXPECT_EQ(y->type.rank, max(r, number(2)));
  EXPECT_EQ(y->type.static_rank(), kMaxRank);
  output(y);
  EXPECT_EQ(run({item(DType::kF32, {2, 2}, {1, 2, 3, 4}), item(DType::kI64, {3}, {1, 2, 2})}),
            (std::vector<double>{2, 4, 6, 8}));
}

TEST_F(BuilderTest, ScatterAdds) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* i = input("i", DType::kI64, {dim("k")});
  output(b.scatter(x, {i->type.extents[0]}, Combiner::kSum, [&](Body& body) {
    return Builder::ScatterPoint{
        {body.checked(body.load(i, {body.index(body.i[0])}), x->type.extents[0])}, body.number(DType::kF32, 1), {}};
  }));
  EXPECT_EQ(run({item(DType::kF32, {3}, {5, 6, 7}), item(DType::kI64, {3}, {0, 2, 2})}),
            (std::vector<double>{6, 6, 9}));
}

}  // namespace
}  // namespace stax::tensor
