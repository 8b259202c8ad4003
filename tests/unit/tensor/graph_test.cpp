// SPDX-License-Identifier: Apache-2.0
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

class GraphTest : public GraphFixture {};

TEST_F(GraphTest, AxisVariablesAreSharedByBound) {
  const Expr n = dim("n"), m = dim("m");
  EXPECT_EQ(graph.axis_var(0, n, false), graph.axis_var(0, m, false));
  EXPECT_NE(graph.axis_var(0, n, false), graph.axis_var(0, n, true));
  EXPECT_NE(graph.axis_var(0, n, false), graph.axis_var(1, n, false));
  EXPECT_EQ(graph.axis_var(1, number(64), false).symbol().name, "i1_64");
  EXPECT_EQ(graph.axis_var(1, number(64), false).range(), (symbolic::Interval{0, 63}));
  EXPECT_EQ(graph.axis_var(2, number(0), true).range(), (symbolic::Interval{0, 0}));
  EXPECT_EQ(graph.axis_var(0, n, false).symbol().kind, symbolic::SymbolKind::kLoop);
}

TEST_F(GraphTest, OpsAreInsertedBeforeAnother) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Op* last = graph.add_op(graph.body, Reshape{}, {x}, {x->type});
  Op* first = graph.add_op(graph.body, Reshape{}, {x}, {x->type}, {}, "first", last);
  EXPECT_EQ(graph.body.ops.front().get(), first);
  EXPECT_EQ(graph.body.ops.back().get(), last);
  EXPECT_EQ(first->kind(), OpKind::kReshape);
  EXPECT_EQ(name_of(first->kind()), "reshape");
}

TEST_F(GraphTest, UsesOfNestedBlocksCount) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* c = input("c", DType::kBool, {});
  If branch;
  branch.then_block = std::make_unique<Block>();
  branch.else_block = std::make_unique<Block>();
  branch.then_block->outputs = {x};
  Op* inner = graph.add_op(*branch.else_block, Reshape{}, {x}, {x->type});
  branch.else_block->outputs = {inner->result()};
  Op* op = graph.add_op(graph.body, std::move(branch), {c}, {x->type});
  output(op->result(), "y");
  EXPECT_EQ(op->as<If>()->then_block->parent, op);
  auto uses = count_uses(graph);
  EXPECT_EQ(uses[x], 2);
  EXPECT_EQ(uses[op->result()], 1);
  EXPECT_EQ(uses[inner->result()], 1);

  Value* z = input("z", DType::kF32, {dim("n")});
  replace_all_uses(graph, x, z);
  uses = count_uses(graph);
  EXPECT_EQ(uses[x], 0);
  EXPECT_EQ(uses[z], 2);
  replace_all_uses(graph, op->result(), z);
  EXPECT_EQ(graph.outputs[0].value, z);
  EXPECT_EQ(graph.body.outputs[0], z);

  std::vector<const Op*> order;
  for_each_op(graph.body, [&](Op& each) { order.push_back(&each); });
  EXPECT_EQ(order, (std::vector<const Op*>{op, inner}));
}

TEST_F(GraphTest, UsedSymbolsLeaveOutAxes) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n});
  Value* y = b.map({n}, [&](Body& body) {
    return body.load(x, {body.index(body.i[0])}) * b.scalars().cast(DType::kF32, body.index(m + body.i[0]));
  });
  EXPECT_EQ(used_symbols(*y->producer), (std::vector<Expr>{n, m}));
}

}  // namespace
}  // namespace stax::tensor
