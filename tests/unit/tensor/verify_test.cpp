// SPDX-License-Identifier: Apache-2.0
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;

class VerifyTest : public GraphFixture {
 protected:
  std::string fault() {
    try {
      verify(graph);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "none";
  }
  // One op on x: f32[n].
  Value* simple() {
    Value* x = input("x", DType::kF32, {dim("n")});
    b.source = "Neg node 'a'";
    Value* y = b.unary(ScalarOp::kNeg, x);
    output(y);
    return y;
  }
};

TEST_F(VerifyTest, AcceptsWhatIsWellFormed) {
  simple();
  EXPECT_EQ(fault(), "none");
}

TEST_F(VerifyTest, NamesOpAndRule) {
  Value* y = simple();
  y->type.dtype = DType::kF16;
  EXPECT_EQ(fault(), "tensor IR, compute %1 from Neg node 'a': the result is f16, the body f32");
}

TEST_F(VerifyTest, OperandsAreDefinedBefore) {
  Value* y = simple();
  Value* z = b.unary(ScalarOp::kExp, y);
  y->producer->operands[0] = z;
  EXPECT_NE(fault().find("is visible"), std::string::npos);
}

TEST_F(VerifyTest, ValuesOfABlockStayInIt) {
  Value* y = simple();
  If branch;
  branch.then_block = std::make_unique<Block>();
  branch.else_block = std::make_unique<Block>();
  Builder then(graph, *branch.then_block);
  Value* inner = then.unary(ScalarOp::kExp, y);
  branch.then_block->outputs = {inner};
  branch.else_block->outputs = {y};
  Value* condition = b.constant(DType::kBool, 1);
  Op* op = b.op(std::move(branch), {condition}, {y->type});
  EXPECT_EQ(fault(), "none");
  op->as<If>()->else_block->outputs = {inner};
  EXPECT_NE(fault().find("outputs of a block are visible in it"), std::string::npos);
}

TEST_F(VerifyTest, SymbolsAreBoundOnceAndBeforeUse) {
  simple();
  const Expr m = b.new_symbol("m", {0, 10});
  Value* k = input("k", DType::kI64, {});
  output(b.map({m}, [&](Body& body) { return body.index(body.i[0]); }), "z");
  EXPECT_NE(fault().find("uses m, which is not bound there"), std::string::npos);
  Op* bind = graph.add_op(graph.body, Bind{}, {k}, {}, {m}, {}, graph.body.ops.front().get());
  EXPECT_EQ(fault(), "none");
  graph.add_op(graph.body, Bind{}, {k}, {}, {m}, {}, bind);
  EXPECT_NE(fault().find("m is defined once"), std::string::npos);
}

TEST_F(VerifyTest, BodiesUseTheirOwnAxes) {
  Value* y = simple();
  auto* compute = y->producer->as<Compute>();
  compute->body = b.scalars().op(
      ScalarOp::kAdd,
      {compute->body, b.scalars().cast(DType::kF32, b.scalars().index(graph.axis_var(3, number(5), false)))});
  EXPECT_NE(fault().find("is no axis of the op"), std::string::npos);
}

TEST_F(VerifyTest, LoadsFitTheirOperands) {
  Value* y = simple();
  auto* compute = y->producer->as<Compute>();
  const Scalar i = b.scalars().index(compute->axes[0].var);
  compute->body = b.scalars().load(1, DType::kF32, {i});
  EXPECT_NE(fault().find("load1 in the body has an operand"), std::string::npos);
  compute->body = b.scalars().load(0, DType::kF32, {i, i});
  EXPECT_NE(fault().find("2 indices for rank 1"), std::string::npos);
  compute->body = b.scalars().load(0, DType::kI32, {i});
  EXPECT_NE(fault().find("dtype"), std::string::npos);
  compute->body = b.scalars().accumulator(DType::kF32);
  EXPECT_NE(fault().find("no accumulator in the body"), std::string::npos);
}

TEST_F(VerifyTest, ReshapesKeepTheCount) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  output(graph.add_op(graph.body, Reshape{}, {x}, {Type::tensor(DType::kF32, numbers({7}))})->result());
  EXPECT_NE(fault().find("6 elements cannot be 7"), std::string::npos);
}

}  // namespace
}  // namespace stax::tensor
