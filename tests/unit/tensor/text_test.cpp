// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <random>

#include "tensor/text.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;

class TextTest : public GraphFixture {
 protected:
  // The text, after it has been found to be read back as itself.
  std::string round_trip() {
    verify(graph);
    const std::string text = print(graph, {.full = true});
    std::unique_ptr<Graph> again;
    EXPECT_NO_THROW(again = parse_graph(text)) << text;
    if (again != nullptr) {
      EXPECT_EQ(print(*again, {.full = true}), text);
      EXPECT_NO_THROW(verify(*again)) << text;
    }
    return text;
  }
};

TEST_F(TextTest, Contraction) {
  const Expr n = dim("n", 0, 128);
  Value* x = input("x", DType::kF32, {n, number(4)});
  Value* w = input("w", DType::kF16, numbers({4, 64}));
  b.source = "MatMul node \"m\"";
  Value* y = b.matmul(x, b.cast(w, DType::kF32));
  y->name = "product";
  output(y, "y");
  EXPECT_EQ(round_trip(), R"(tensor_ir 1
symbol n: dim [0, 128]
graph(%x: f32[n, 4], %w: f16[4, 64]) {
  %2: f32[4, 64] = compute [i0_4: 4, i1_64: 64] { cast<f32>(load0[i0_4, i1_64]) } (%w) from "MatMul node \"m\""
  %product: f32[n, 64] = compute [i0_128: n, i1_64: 64] sum<f32> [r0_4: 4] { mul(load0[i0_128, r0_4], load1[r0_4, i1_64]) } (%x, %2) from "MatMul node \"m\""
  return %product as "y"
}
)");
}

TEST_F(TextTest, NamesThatAreNumbersOrTwice) {
  Value* x = input("7", DType::kF32, {dim("batch size")});
  Value* y = b.unary(ScalarOp::kNeg, x);
  Value* z = b.unary(ScalarOp::kExp, y);
  y->name = z->name = "same";
  output(z, "odd name");
  const std::string text = round_trip();
  EXPECT_NE(text.find("%0 \"7\": f32[\"batch size\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("%1 \"same\""), std::string::npos) << text;
  EXPECT_NE(text.find("%2 \"same\""), std::string::npos) << text;
}

TEST_F(TextTest, SpecialOps) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, m});
  Value* k = input("k", DType::kI64, {});
  const Expr count = b.host_int(b.binary(ScalarOp::kAdd, k, b.constant(DType::kI64, 1)), {0, 100});
  b.check(less_equal(count, m), "{0} of {1}", {count, m});
  Op* top = b.op(TopK{1, false}, {x}, {Type::tensor(DType::kF32, {n, count}), Type::tensor(DType::kI64, {n, count})});
  output(top->result(0), "values");
  output(top->result(1), "indices");
  output(b.op(PrefixScan{0, Combiner::kProd, true, true}, {x}, {x->type})->result(), "scan");
  const Expr found = b.new_symbol("found", {0, 1 << 20});
  output(b.op(NonZero{}, {x}, {Type::tensor(DType::kI64, {number(2), found})}, {found})->result(), "nonzero");
  const Expr items = b.new_symbol("items", {0, 1 << 20});
  const Type list = Type::tensor(DType::kI64, {items});
  Op* unique = b.op(Unique{0, false}, {x},
                    {Type::tensor(DType::kF32, {items, m}), list, Type::tensor(DType::kI64, {n}), list}, {items});
  output(unique->result(2), "inverse");
  output(b.mean(x, {0, 1}, false), "mean");
  output(b.scatter(x, {n}, Combiner::kMax,
                   [&](Body& body) {
                     return Builder::ScatterPoint{
                         {body.index(body.i[0]), body.index(number(0))},
                         body.number(DType::kF32, 0.5),
                         b.scalars().cast(DType::kBool, body.index(less(body.i[0], number(3))))};
                   }),
         "scatter");
  output(b.reduce_axes(Combiner::kArgMaxLast, x, {0}, true, DType::kF32), "arg");
  const std::string text = round_trip();
  EXPECT_NE(text.find("top_k axis 1 smallest"), std::string::npos) << text;
  EXPECT_NE(text.find("prefix_scan axis 0 prod exclusive reverse"), std::string::npos) << text;
  EXPECT_NE(text.find("nonzero (%x) defines [found]"), std::string::npos) << text;
}

TEST_F(TextTest, Constants) {
  const double inf = std::numeric_limits<double>::infinity();
  output(b.constant(item(DType::kF32, {2, 2}, {0.1, -inf, 3, 1e-42}).tensor), "a");
  output(b.constant(item(DType::kF64, {1}, {0.1}).tensor), "b");
  output(b.constant(item(DType::kBool, {2}, {1, 0}).tensor), "c");
  output(b.constant(item(DType::kF16, {0}, {}).tensor), "d");
  Literal least = Literal::ints({std::numeric_limits<int64_t>::min()});
  output(b.constant(least), "e");
  Literal large(DType::kU8, {50});
  for (int64_t i = 0; i < 50; ++i) large.set(i, {.i = i * 5});
  output(b.constant(large), "f");
  const std::string text = round_trip();
  EXPECT_NE(text.find("constant {1, 0}"), std::string::npos) << text;
  const auto again = parse_graph(text);
  EXPECT_EQ(values_of(interpret(*again, {}).at(5).tensor), values_of(large));
  EXPECT_EQ(values_of(interpret(*again, {}).at(0).tensor)[0], static_cast<double>(0.1f));
  // For reading only.
  EXPECT_NE(print(graph).find("checksum 0x"), std::string::npos);
  EXPECT_NE(message_of([&] { parse_graph(print(graph)); }).find("by its checksum only"), std::string::npos);
}

TEST_F(TextTest, DrawnConstants) {
  const ir::Drawn how{.seed = 3, .mean = 0, .deviation = 1, .low = -2, .high = 2};
  const ir::Literal drawn = ir::draw(DType::kF32, {10, 10}, how);
  Value *a = b.constant(drawn), *c = b.constant(ir::draw(DType::kF32, {10, 10}, {.seed = 4, .choices = {1, 2}}));
  output(b.binary(ScalarOp::kAdd, a, c));
  const std::string text = print_with_drawn(graph, {{drawn.data(), how}});
  EXPECT_NE(text.find("constant drawn 3 normal"), std::string::npos) << text;
  EXPECT_NE(text.find("base64"), std::string::npos) << "the other is not said to be drawn";
  EXPECT_EQ(print(*parse_graph(text), {.full = true}), print(graph, {.full = true}));
  EXPECT_THROW(
      parse_graph(
          "tensor_ir 1\ngraph() {\n  %0: f32[1073741824] = constant drawn 3 of {1.0}\n  return %0 as \"y\"\n}\n"),
      UserError);
}

TEST_F(TextTest, Blocks) {
  const Expr n = dim("n"), m = b.new_symbol("m", {0, 1000}), inside = b.new_symbol("inside", {0, 1000}),
             t = b.new_symbol("t", {0, 99});
  Value* x = input("x", DType::kF32, {n});
  Value* condition = input("condition", DType::kBool, {});
  Value* trips = input("trips", DType::kI64, {});

  If branch;
  branch.then_block = std::make_unique<Block>();
  branch.else_block = std::make_unique<Block>();
  Builder then(graph, *branch.then_block);
  branch.then_block->outputs = {then.unary(ScalarOp::kNeg, x)};
  branch.else_block->outputs = {x};
  Value* chosen = b.op(std::move(branch), {condition}, {x->type})->result();

  Loop loop;
  loop.body = std::make_unique<Block>();
  loop.has_trip_count = true;
  loop.carried = 1;
  loop.body_defines = {inside};
  Value* iteration = graph.add_input(*loop.body, Type::tensor(DType::kI64, {}), "iteration");
  Value* carried = graph.add_input(*loop.body, Type::tensor(DType::kF32, {inside}), "carried");
  Builder body(graph, *loop.body);
  loop.body->outputs = {body.concat({carried, carried}, 0), iteration};
  Op* op =
      b.op(std::move(loop), {trips, chosen}, {Type::tensor(DType::kF32, {m}), Type::tensor(DType::kI64, {t})}, {m, t});
  output(op->result(0), "y");
  output(op->result(1), "iterations");
  Value* sequence = b.op(SequenceConstruct{}, {x, chosen}, {Type::sequence(DType::kF32, 1)})->result();
  output(b.op(SequenceLength{}, {sequence}, {Type::tensor(DType::kI64, {})})->result(), "length");
  const std::string text = round_trip();
  EXPECT_NE(text.find("loop trip_count carried 1 (%trips, "), std::string::npos) << text;
  EXPECT_NE(text.find(" binds [inside] {"), std::string::npos) << text;
  EXPECT_NE(text.find("sequence<f32, 1>"), std::string::npos) << text;
}

TEST_F(TextTest, RunTimeRankAndContents) {
  std::vector<Expr> extents(7, number(1));
  const Expr n = dim("n"), r = b.new_symbol("r", {0, 8});
  extents.push_back(n);
  Type type = Type::tensor(DType::kF32, extents);
  type.rank = r;
  Value* x = input("x", DType::kF32, {n});
  Value* shape = input("shape", DType::kI64, {dim("k")});
  Value* y = b.op(ReshapeDynamic{.allow_zero = true}, {x, shape}, {type}, {r})->result();
  output(b.binary(ScalarOp::kAdd, y, x), "y");
  output(b.ints({n, n * 2 + 1}), "shape");
  const std::string text = round_trip();
  EXPECT_NE(text.find("f32[1, 1, 1, 1, 1, 1, 1, n] rank r = reshape_dynamic allow_zero"), std::string::npos) << text;
  EXPECT_NE(text.find("contents {n, n*2 + 1}"), std::string::npos) << text;
}

// Damaged text is refused with a message for its writer, or it is another graph.
TEST_F(TextTest, DamagedTextIsTheUsersFault) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, number(4)});
  Value* k = input("k", DType::kI64, {});
  b.check(less_equal(b.host_int(k), n), "{0} of {1}", {b.host_int(k), n});
  output(b.mean(b.softmax(x, 1), {0}, true), "y");
  output(b.reduce_axes(Combiner::kArgMaxFirst, b.concat({x, x}, 0), {0}, false, DType::kF32), "z");
  const std::string text = print(graph, {.full = true});
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = text;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % damaged.size();
      const size_t other = random() % text.size();
      switch (random() % 3) {
        case 0: damaged.erase(at, 1 + random() % 5); break;
        case 1: damaged[at] = text[other]; break;
        case 2: damaged.insert(at, text.substr(other, random() % 12)); break;
      }
    }
    try {
      parse_graph(damaged);
    } catch (const UserError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << damaged;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST_F(TextTest, ErrorsNameLineAndColumn) {
  const auto message = [](const std::string& text) { return message_of([&] { parse_graph(text); }); };
  EXPECT_NE(message("tensor_ir 1\nsymbol n: dim [12, 4]\n").find("the range of n is empty"), std::string::npos);
  EXPECT_NE(message("tensor_ir 1\ngraph() {\n  %0: f32[] = nothing (%1)\n return }").find(":3:"), std::string::npos);
  EXPECT_NE(message("tensor_ir 1\ngraph() {\n  %0: f32[n] = constant {1}\n return }").find("no symbol 'n'"),
            std::string::npos);
  EXPECT_NE(message("tensor_ir 1\ngraph() {\n  %0: f32[] = reshape (%1)\n return }").find("no value %1"),
            std::string::npos);
  EXPECT_NE(message("tensor_ir 2").find("version"), std::string::npos);
  EXPECT_NE(message("").find("tensor_ir"), std::string::npos);
  EXPECT_NE(
      message("tensor_ir 1\ngraph(%0: f32[2]) {\n  %1: f32[2] = compute [i0_2: 2] { load1[i0_2] } (%0)\n return }")
          .find("load1"),
      std::string::npos);
}

}  // namespace
}  // namespace stax::tensor
