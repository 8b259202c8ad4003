// SPDX-License-Identifier: Apache-2.0
// Shapes, symbols, control flow and the operators that are procedures, on the tensor interpreter.
#include <cmath>

#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;

const double kNan = std::nan("");

class InterpretProgramsTest : public GraphFixture {
 protected:
  std::unique_ptr<Block> block() {
    auto result = std::make_unique<Block>();
    result->graph = &graph;
    return result;
  }
};

// ---- shapes and symbols

TEST_F(InterpretProgramsTest, BindGivesSymbolsTheirValues) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* k = input("k", DType::kI64, {});
  b.source = "Slice node 's'";
  const Expr count = b.host_int(k, {0, 4});
  output(b.map({count}, [&](Body& body) { return body.load(x, {body.i[0]}); }));
  const Item data = item(DType::kF32, {5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(run({data, item(DType::kI64, {}, {2})}), (std::vector<double>{1, 2}));
  const std::string text = message_of([&] { run({data, item(DType::kI64, {}, {5})}); });
  EXPECT_NE(text.find("Slice node 's'"), std::string::npos) << text;
  EXPECT_NE(text.find("is 5, outside its range 0 .. 4"), std::string::npos) << text;
}

TEST_F(InterpretProgramsTest, CheckFormatsItsMessage) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n});
  Value* y = input("y", DType::kF32, {m});
  output(b.binary(ScalarOp::kAdd, x, y));
  graph.add_op(graph.body, Check{equal(n, m), "extents {0} and {1} {differ} {7}", {n, m}}, {}, {}, {}, "Op node 'o'",
               graph.body.ops.front().get());
  EXPECT_EQ(message_of([&] { interpret(graph, {item(DType::kF32, {2}, {1, 2}), item(DType::kF32, {3}, {1, 2, 3})}); }),
            "extents 2 and 3 {differ} {7}");
}

class ReshapeDynamicTest : public InterpretProgramsTest {
 protected:
  std::vector<int64_t> reshape(const std::vector<int64_t>& from, const std::vector<double>& shape,
                               bool allow_zero = false) {
    Graph g(std::make_shared<ir::Context>());
    std::vector<Expr> extents, all;
    for (int64_t e : from) extents.push_back(g.exprs().constant(e));
    Value* x = g.add_input(g.body, Type::tensor(DType::kF32, extents), "x");
    Value* s = g.add_input(g.body, Type::tensor(DType::kI64, {g.exprs().constant(static_cast<int64_t>(shape.size()))}),
                           "shape");
    g.inputs = {{"x", x}, {"shape", s}};
    Type type = Type::tensor(DType::kF32, {});
    const auto symbol = [&](const char* name) {
      all.push_back(g.exprs().new_symbol({.name = name, .kind = symbolic::SymbolKind::kValue}));
      return all.back();
    };
    type.rank = symbol("rank");
    for (int k = 0; k < kMaxRank; ++k) type.extents.push_back(symbol("e"));
    Op* op = g.add_op(g.body, ReshapeDynamic{allow_zero}, {x, s}, {type}, all, "Reshape node 'r'");
    g.outputs = {{"y", op->result()}};
    g.body.outputs = {op->result()};
    verify(g);
    int64_t count = 1;
    for (int64_t e : from) count *= e;
    return interpret(g, {item(DType::kF32, from, std::vector<double>(static_cast<size_t>(count), 1.0)),
                         item(DType::kI64, {static_cast<int64_t>(shape.size())}, shape)})[0]
        .tensor.extents();
  }
};

TEST_F(ReshapeDynamicTest, FollowsOnnx) {
  using E = std::vector<int64_t>;
  EXPECT_EQ(reshape({2, 6}, {3, 4}), (E{3, 4}));
  EXPECT_EQ(reshape({2, 6}, {0, 3, -1}), (E{2, 3, 2}));
  EXPECT_EQ(reshape({1}, {}), (E{}));
}

TEST_F(ReshapeDynamicTest, NamesBothCounts) {
  EXPECT_EQ(message_of([&] { reshape({2, 6}, {5, 2}); }),
            "Reshape node 'r': a tensor of [2, 6] with 12 elements cannot be reshaped to [5, 2], which has 10");
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-1, -1}); }).find("more than one -1"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-1, 5}); }).find("-1 of the shape [-1, 5]"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-2}); }).find("negative"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({4}, {4, 0}); }).find("copies axis 1"), std::string::npos);
}

TEST_F(InterpretProgramsTest, RunTimeRankGoesThroughOps) {
  // Reshape to a shape of unknown length, negate, give back.
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* s = input("shape", DType::kI64, {dim("rank", 0, kMaxRank)});
  std::vector<Expr> defines;
  Type type = Type::tensor(DType::kF32, {});
  type.rank = b.new_symbol("rank", {0, kMaxRank});
  defines.push_back(type.rank);
  for (int k = 0; k < kMaxRank; ++k) type.extents.push_back(b.new_symbol("e", {0, symbolic::kMaxExtent}));
  defines.insert(defines.end(), type.extents.begin(), type.extents.end());
  Value* r = b.op(ReshapeDynamic{}, {x, s}, {type}, defines)->result();
  output(b.unary(ScalarOp::kNeg, r));
  verify(graph);
  const auto result = interpret(graph, {item(DType::kF32, {4}, {1, 2, 3, 4}), item(DType::kI64, {3}, {2, 1, 2})});
  EXPECT_EQ(result[0].tensor.extents(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(values_of(result[0].tensor), (std::vector<double>{-1, -2, -3, -4}));
}

// ---- inputs

class BindInputsTest : public InterpretProgramsTest {
 protected:
  void SetUp() override {
    const Expr batch = dim("batch", 1, 64);
    input("pixels", DType::kF32, {batch, number(3)});
    Value* y = input("offsets", DType::kF32, {batch});
    output(b.unary(ScalarOp::kNeg, y));
  }
  std::string bind(const Item& pixels, const Item& offsets) {
    return message_of([&] { bind_inputs(graph, {pixels, offsets}); });
  }
  Item zeros(DType t, const std::vector<int64_t>& extents) {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return item(t, extents, std::vector<double>(static_cast<size_t>(n), 0.0));
  }
};

TEST_F(BindInputsTest, SaysWhatIsWrong) {
  const Item offsets = zeros(DType::kF32, {2});
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 3}), offsets), "no error");
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 3, 1}), offsets), "input 'pixels' has rank 3, expected 2");
  EXPECT_EQ(bind(zeros(DType::kF64, {2, 3}), offsets), "input 'pixels' has type float64, expected float32");
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 4}), offsets), "input 'pixels' has extent 4 on axis 1, expected 3");
  EXPECT_EQ(bind(zeros(DType::kF32, {3, 3}), offsets),
            "dim 'batch' is 3 in input 'pixels' (axis 0) but 2 in input 'offsets' (axis 0); they must agree");
  EXPECT_EQ(bind(zeros(DType::kF32, {65, 3}), zeros(DType::kF32, {65})),
            "input 'pixels': dim 'batch' (axis 0) is 65, outside its range 1 .. 64");
  EXPECT_EQ(message_of([&] { bind_inputs(graph, {offsets}); }), "1 inputs are given, the model has 2");
  Item sequence;
  sequence.is_sequence = true;
  EXPECT_EQ(bind(sequence, offsets), "input 'pixels' is a sequence, expected a tensor");
}

// ---- scatter, scans, control flow

TEST_F(InterpretProgramsTest, ScatterOverwritesInOrderAndAdds) {
  Value* x = input("x", DType::kF16, {dim("n")});
  Value* at = input("at", DType::kI64, {dim("m")});
  Value* v = input("v", DType::kF16, {dim("m2")});
  for (Combiner mode : {Combiner::kNone, Combiner::kSum, Combiner::kMax}) {
    output(b.scatter(x, {at->type.extents[0]}, mode, [&](Body& body) {
      const Scalar index = body.checked(body.load(at, body.i), x->type.extents[0]);
      return Builder::ScatterPoint{
          {index}, body.load(v, body.i), less(body.load(v, body.i), body.number(DType::kF16, 100))};
    }));
  }
  const std::vector<Item> inputs{item(DType::kF16, {3}, {1, 2, 3}), item(DType::kI64, {4}, {0, -1, 0, 77}),
                                 item(DType::kF16, {4}, {10, 20, 30, 200})};
  verify(graph);
  const auto r = interpret(graph, inputs);
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{30, 2, 20}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{41, 2, 23}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{30, 2, 20}));
}

TEST_F(InterpretProgramsTest, PrefixScans) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  for (int k = 0; k < 4; ++k) {
    output(b.op(PrefixScan{1, Combiner::kSum, (k & 1) != 0, (k & 2) != 0}, {x}, {x->type})->result());
  }
  output(b.op(PrefixScan{0, Combiner::kProd, false, false}, {x}, {x->type})->result());
  const auto r = interpret(graph, {item(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(values_of(r[3].tensor), (std::vector<double>{5, 3, 0, 11, 6, 0}));
  EXPECT_EQ(values_of(r[4].tensor), (std::vector<double>{1, 2, 3, 4, 10, 18}));
}

TEST_F(InterpretProgramsTest, NonzeroDefinesItsCount) {
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  const Expr found = b.new_symbol("found", {0, symbolic::kMaxExtent});
  Value* at = b.op(NonZero{}, {x}, {Type::tensor(DType::kI64, {number(2), found})}, {found})->result();
  output(b.pointwise({at}, [&](std::span<const Scalar> v) { return v[0] + v[0]; }));
  EXPECT_EQ(run({item(DType::kF32, {2, 2}, {0, 1, kNan, 0})}), (std::vector<double>{0, 2, 2, 0}));
  EXPECT_TRUE(run({item(DType::kF32, {1, 2}, {0, 0})}).empty());
}

TEST_F(InterpretProgramsTest, IfTakesOneBranchAndBindsExtents) {
  Value* c = input("c", DType::kBool, {});
  Value* x = input("x", DType::kF32, {dim("n")});
  If branch;
  branch.then_block = block();
  branch.else_block = block();
  Builder then_builder(graph, *branch.then_block), else_builder(graph, *branch.else_block);
  branch.then_block->outputs = {then_builder.unary(ScalarOp::kNeg, x)};
  branch.else_block->outputs = {else_builder.slice(x, 0, number(0), number(1), number(1))};
  const Expr m = b.new_symbol("m", {0, symbolic::kMaxExtent});
  Value* y = b.op(std::move(branch), {c}, {Type::tensor(DType::kF32, {m})}, {m})->result();
  output(b.pointwise({y}, [](std::span<const Scalar> v) { return v[0] + v[0]; }));
  const Item data = item(DType::kF32, {2}, {1, 2});
  EXPECT_EQ(run({item(DType::kBool, {}, {1}), data}), (std::vector<double>{-2, -4}));
  EXPECT_EQ(run({item(DType::kBool, {}, {0}), data}), (std::vector<double>{2}));
}

class LoopTest : public InterpretProgramsTest {
 protected:
  // sum += x[iteration]; scans the sum; goes on while sum < limit.
  void SetUp() override {
    Value* trips = input("trips", DType::kI64, {});
    Value* go = input("go", DType::kBool, {});
    Value* start = input("start", DType::kF32, {});
    Value* x = input("x", DType::kF32, {dim("n")});
    Loop loop;
    loop.has_trip_count = loop.has_condition = true;
    loop.carried = 1;
    loop.body = block();
    Value* iteration = graph.add_input(*loop.body, Type::tensor(DType::kI64, {}), "iteration");
    Value* sum = graph.add_input(*loop.body, Type::tensor(DType::kF32, {}), "sum");
    Builder inner(graph, *loop.body);
    Value* next = inner.map({}, [&](Body& body) {
      return body.load(sum) + body.load(x, std::vector<Scalar>{body.checked(body.load(iteration), x->type.extents[0])});
    });
    Value* condition = inner.pointwise(
        {next}, [&](std::span<const Scalar> v) { return less(v[0], graph.scalars().constant(DType::kF32, 10)); });
    loop.body->outputs = {condition, next, next};
    const Expr count = b.new_symbol("count", {0, symbolic::kMaxExtent});
    Op* op = b.op(std::move(loop), {trips, go, start},
                  {Type::tensor(DType::kF32, {}), Type::tensor(DType::kF32, {count})}, {count});
    output(op->result(0), "sum");
    output(op->result(1), "scan");
  }
  std::pair<double, std::vector<double>> loop(int64_t trips, bool go) {
    verify(graph);
    const auto r =
        interpret(graph, {item(DType::kI64, {}, {static_cast<double>(trips)}), item(DType::kBool, {}, {go ? 1.0 : 0.0}),
                          item(DType::kF32, {}, {0.5}), item(DType::kF32, {4}, {1, 2, 3, 40})});
    return {values_of(r[0].tensor)[0], values_of(r[1].tensor)};
  }
};

TEST_F(LoopTest, RunsWhileBothHold) {
  EXPECT_EQ(loop(2, true), (std::pair{3.5, std::vector<double>{1.5, 3.5}}));
  EXPECT_EQ(loop(9, true), (std::pair{46.5, std::vector<double>{1.5, 3.5, 6.5, 46.5}})) << "the condition ends it";
  EXPECT_EQ(loop(0, true), (std::pair{0.5, std::vector<double>{}}));
  EXPECT_EQ(loop(5, false), (std::pair{0.5, std::vector<double>{}}));
}

TEST_F(InterpretProgramsTest, LoopCarriesAGrowingTensor) {
  Value* trips = input("trips", DType::kI64, {});
  Value* start = input("start", DType::kF32, {number(1)});
  Loop loop;
  loop.has_trip_count = true;
  loop.carried = 1;
  loop.body = block();
  const Expr inside = b.new_symbol("inside", {0, symbolic::kMaxExtent}),
             after = b.new_symbol("after", {0, symbolic::kMaxExtent});
  loop.body_defines = {inside};
  graph.add_input(*loop.body, Type::tensor(DType::kI64, {}), "iteration");
  Value* x = graph.add_input(*loop.body, Type::tensor(DType::kF32, {inside}), "x");
  Builder inner(graph, *loop.body);
  loop.body->outputs = {inner.concat({x, x}, 0)};
  output(b.op(std::move(loop), {trips, start}, {Type::tensor(DType::kF32, {after})}, {after})->result());
  EXPECT_EQ(run({item(DType::kI64, {}, {3}), item(DType::kF32, {1}, {5})}), std::vector<double>(8, 5.0));
  EXPECT_EQ(run({item(DType::kI64, {}, {0}), item(DType::kF32, {1}, {5})}), std::vector<double>(1, 5.0));
}

TEST_F(InterpretProgramsTest, Sequences) {
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  Value* at = input("at", DType::kI64, {});
  const Type list = Type::sequence(DType::kF32, 2);
  b.source = "SequenceAt node 'a'";
  Value* parts = b.op(SplitToSequence{0, true}, {x}, {list})->result();
  Value* length = b.op(SequenceLength{}, {parts}, {Type::tensor(DType::kI64, {})})->result();
  Value* grown = b.op(SequenceInsert{}, {parts, x, at}, {list})->result();
  Value* less_one = b.op(SequenceErase{}, {grown}, {list})->result();
  const Expr rows = b.new_symbol("rows", {0, symbolic::kMaxExtent}),
             columns = b.new_symbol("columns", {0, symbolic::kMaxExtent});
  const Expr rows2 = b.new_symbol("rows", {0, symbolic::kMaxExtent}),
             columns2 = b.new_symbol("columns", {0, symbolic::kMaxExtent});
  output(length, "length");
  output(b.op(SequenceAt{}, {grown, at}, {Type::tensor(DType::kF32, {rows, columns})}, {rows, columns})->result(),
         "picked");
  output(
      b.op(ConcatFromSequence{0, false}, {less_one}, {Type::tensor(DType::kF32, {rows2, columns2})}, {rows2, columns2})
          ->result(),
      "joined");
  verify(graph);
  const Item data = item(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto r = interpret(graph, {data, item(DType::kI64, {}, {1})});
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{2}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{1, 2, 1, 2, 3, 4}));
  EXPECT_EQ(message_of([&] { interpret(graph, {data, item(DType::kI64, {}, {9})}); }),
            "SequenceAt node 'a': position 9 is out of range for a sequence of 2");
}

TEST_F(InterpretProgramsTest, TopKAndUniqueAndDeterminant) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  Op* top = b.op(TopK{1, true}, {x},
                 {Type::tensor(DType::kF32, numbers({2, 2})), Type::tensor(DType::kI64, numbers({2, 2}))});
  const Expr m = b.new_symbol("m", {0, symbolic::kMaxExtent});
  Op* unique = b.op(Unique{}, {x},
                    {Type::tensor(DType::kF32, {m}), Type::tensor(DType::kI64, {m}),
                     Type::tensor(DType::kI64, numbers({6})), Type::tensor(DType::kI64, {m})},
                    {m});
  Value* square = input("square", DType::kF64, numbers({1, 2, 2}));
  Value* determinant = b.op(Determinant{}, {square}, {Type::tensor(DType::kF64, numbers({1}))})->result();
  for (int k : {0, 1}) output(top->result(k));
  for (int k : {0, 1, 2, 3}) output(unique->result(k));
  output(determinant);
  verify(graph);
  const auto r =
      interpret(graph, {item(DType::kF32, {2, 3}, {3, 1, 3, kNan, 1, 0}), item(DType::kF64, {1, 2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{0, 2, 0, 1}));
  EXPECT_EQ(values_of(r[3].tensor), (std::vector<double>{5, 1, 0, 3}));
  EXPECT_EQ(values_of(r[4].tensor), (std::vector<double>{2, 1, 2, 3, 1, 0}));
  EXPECT_EQ(values_of(r[5].tensor), (std::vector<double>{1, 2, 2, 1}));
  EXPECT_EQ(values_of(r[6].tensor), (std::vector<double>{-2}));
}

}  // namespace
}  // namespace stax::tensor
