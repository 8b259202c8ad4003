// SPDX-License-Identifier: Apache-2.0
// Rows of half floats become floats where they are read for every panel of weights, and say the same.
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

class WidenRowsTest : public PassesTest {
 protected:
  Value* weights_of(DType t, std::vector<int64_t> extents) {
    int64_t count = 1;
    for (int64_t e : extents) count *= e;
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k % 9) / 4 - 1;
    return b.constant(item(t, std::move(extents), values).tensor);
  }
  Value* positive(Value* v) { return b.unary(ScalarOp::kAbs, v); }
  Value* product(Value* x, int64_t length) { return b.matmul(x, weights_of(x->type.dtype, {length, 32})); }
};

class WidenRowsOfType : public WidenRowsTest, public testing::WithParamInterface<DType> {};

TEST_P(WidenRowsOfType, ByWhoeverComputesThem) {
  Value* x = positive(input("x", GetParam(), {dim("m"), number(8)}));
  Value* first = product(x, 8);
  output(product(first, 32));
  check(widen_rows, {3});
  EXPECT_EQ(kernels(), 3) << print(graph);
  EXPECT_EQ(x->type.dtype, DType::kF32);
  EXPECT_EQ(first->type.dtype, DType::kF32);
  EXPECT_EQ(graph.outputs.back().value->type.dtype, GetParam());
  check(widen_rows, {3}, false);
}
INSTANTIATE_TEST_SUITE_P(Types, WidenRowsOfType, testing::Values(DType::kF16, DType::kBF16));

TEST_F(WidenRowsTest, InFrontOfProductsWhereOthersReadThem) {
  Value* x = input("x", DType::kF16, {dim("m"), number(8)});
  Value* y = positive(x);
  output(y);
  output(product(x, 8));
  output(product(x, 8));
  output(product(y, 8));
  check(widen_rows, {5});
  EXPECT_EQ(kernels(), 6) << "one conversion of x and one of y\n" << print(graph);
  EXPECT_EQ(y->type.dtype, DType::kF16);
}

TEST_F(WidenRowsTest, UnderPadding) {
  const Expr n = dim("n"), h = dim("h");
  Value* x = positive(input("x", DType::kF16, {n, number(16), h, number(6)}));
  const std::vector<Expr> pads{number(0), number(1), number(0), number(0)};
  Value* padded = b.pad_constant(b.transpose(x, {0, 2, 3, 1}), pads, pads, {});
  Value* w = weights_of(DType::kF16, {3, 6, 16, 32});
  output(b.reduce(Combiner::kSum, DType::kF32, {n, h, number(32)}, {number(3), number(6), number(16)}, [&](Body& body) {
    const auto wide = [](Scalar s) { return ir::cast(DType::kF32, s); };
    return wide(body.load(padded, {body.i[0], body.i[1] + body.r[0], body.r[1], body.r[2]})) *
           wide(body.load(w, {body.r[0], body.r[1], body.r[2], body.i[2]}));
  }));
  fuse({2, 5});
  check(widen_rows, {2, 5});
  int halves = 0;
  for_each_op(graph.body, [&](Op& op) {
    if (op.kind() == OpKind::kCompute && op.as<Compute>()->combiner == Combiner::kSum)
      visit_scalars(op,
                    [&](Scalar s) { halves += s->kind == ir::ScalarKind::kLoad && s->dtype == DType::kF16 ? 1 : 0; });
  });
  EXPECT_EQ(halves, 1) << "the weights\n" << print(graph);
}

TEST_F(WidenRowsTest, FloatsAndProductsOfTwoResultsStay) {
  output(product(positive(input("x", DType::kF32, {dim("m"), number(8)})), 8));
  Value* q = positive(input("q", DType::kF16, {dim("k"), number(8)}));
  output(b.matmul(q, b.transpose(q, {1, 0})));
  check(widen_rows, {3, 4}, false);
}

}  // namespace
}  // namespace stax::tensor
