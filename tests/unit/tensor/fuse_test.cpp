// SPDX-License-Identifier: Apache-2.0
// What fuse_ops makes one kernel, and what it leaves apart.
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

class FusionTest : public PassesTest {};

TEST_F(FusionTest, MatrixProductTakesBiasAndGelu) {
  const Expr m = dim("m");
  Value* x = input("x", DType::kF32, {m, number(8)});
  Value* h = add(b.matmul(x, weights({8, 16})), weights({16}));
  // As exporters spell it: two uses of the sum.
  Value* half =
      b.pointwise({h}, [&](std::span<const Scalar> v) { return v[0] * graph.scalars().constant(DType::kF32, 0.7071); });
  Value* erf = b.unary(ScalarOp::kErf, half);
  Value* one =
      b.pointwise({erf}, [&](std::span<const Scalar> v) { return v[0] + graph.scalars().constant(DType::kF32, 1); });
  output(b.binary(ScalarOp::kMul, h, one));
  fuse({5});
  EXPECT_EQ(classes(), (std::vector<ComputeClass>{ComputeClass::kContraction})) << print(graph);
}

TEST_F(FusionTest, ResidualIsTakenIntoTheSecondProduct) {
  const Expr m = dim("m");
  Value* x = input("x", DType::kF32, {m, number(8)});
  Value* h = relu(b.matmul(x, weights({8, 16})));
  output(relu(add(x, b.matmul(h, weights({16, 8})))));
  fuse({5});
  EXPECT_EQ(kernels(), 2) << print(graph);
}

TEST_F(FusionTest, LayerNormIsThreeKernels) {
  Value* x = input("x", DType::kF32, {dim("m"), number(8)});
  Value* y = relu(x);
  output(b.layer_norm(y, 1, 1e-5, weights({8}), weights({8})));
  fuse({5});
  EXPECT_EQ(classes(),
            (std::vector<ComputeClass>{ComputeClass::kReduction, ComputeClass::kReduction, ComputeClass::kMap}))
      << print(graph);
}

TEST_F(FusionTest, SoftmaxTakesItsScale) {
  Value* x = input("x", DType::kF32, {dim("m"), dim("n")});
  Value* scaled =
      b.pointwise({x}, [&](std::span<const Scalar> v) { return v[0] * graph.scalars().constant(DType::kF32, 0.125); });
  output(b.softmax(scaled, 1));
  fuse({5, 7});
  EXPECT_EQ(kernels(), 3) << print(graph);
}

TEST_F(FusionTest, ExpensiveMapsAreNotDoneTwice) {
  Value* x = input("x", DType::kF32, {dim("m"), dim("n")});
  Value* e = b.unary(ScalarOp::kExp, x);
  output(b.reduce_axes(Combiner::kSum, e, {0}, false, DType::kF32), "columns");
  output(b.reduce_axes(Combiner::kSum, e, {1}, false, DType::kF32), "rows");
  check(fuse_ops, {5, 7}, false);
  EXPECT_EQ(kernels(), 3);
}

TEST_F(FusionTest, ExpensiveMapsAreNotBroadcast) {
  const Expr m = dim("m"), n = dim("n", 2);
  Value* x = input("x", DType::kF32, {m, number(1)});
  Value* y = input("y", DType::kF32, {m, n});
  output(b.binary(ScalarOp::kMul, b.unary(ScalarOp::kTanh, x), y));
  check(fuse_ops, {5, 7}, false);
}

TEST_F(FusionTest, ExpensiveMapGoesIntoASoleReader) {
  Value* x = input("x", DType::kF32, {dim("m"), dim("n")});
  Value* e = b.unary(ScalarOp::kExp, relu(x));
  output(relu(b.reduce_axes(Combiner::kSum, e, {1}, true, DType::kF32)));
  fuse({5, 7});
  EXPECT_EQ(kernels(), 1) << print(graph);
}

TEST_F(FusionTest, ContractionsDoNotRecomputeOperands) {
  Value* x = input("x", DType::kF32, {dim("m"), number(8)});
  output(b.matmul(relu(x), weights({8, 16})));
  check(fuse_ops, {5}, false);
}

TEST_F(FusionTest, ContractionsReadThroughCastsAndTransposes) {
  // [batch, length, heads, size] -> [batch, heads, length, size], in half precision.
  const Expr n = dim("n"), s = dim("s");
  Value* q = input("q", DType::kF16, {n, s, number(2), number(4)});
  Value* v = input("v", DType::kF16, {n, s, number(2), number(4)});
  Value* left = b.cast(b.transpose(q, {0, 2, 1, 3}), DType::kF32);
  Value* right = b.cast(b.transpose(v, {0, 2, 3, 1}), DType::kF32);
  output(b.matmul(left, right));
  fuse({2, 5});
  // The right one has its last axis contiguous only after the transpose.
  EXPECT_EQ(kernels(), 2) << print(graph);
  EXPECT_TRUE(classify(*graph.outputs[0].value->producer->as<Compute>()).contraction.contiguous);
}

TEST_F(FusionTest, ContractionsReadThroughSplitAxes) {
  // [batch, length, 8] reshaped to heads and moved, as exported attention does.
  const Expr n = dim("n"), s = dim("s");
  Value* x = input("x", DType::kF32, {n, s, number(8)});
  Value* y = input("y", DType::kF32, {n, number(2), number(4), s});
  Value* heads = b.transpose(b.reshape(x, {n, s, number(2), number(4)}), {0, 2, 1, 3});
  output(b.matmul(heads, y));
  fuse({2, 5});
  EXPECT_EQ(kernels(), 1) << print(graph);
}

TEST_F(FusionTest, PaddedConvolutionKeepsItsPad) {
  Value* x = input("x", DType::kF32, {dim("n"), number(4), dim("h"), dim("w")});
  const std::vector<Expr> pads{number(0), number(0), number(1), number(1)};
  Value* padded = b.pad_constant(relu(x), pads, pads, {});
  output(relu(convolve(padded, weights({32, 4, 3, 3}))));
  fuse({2, 5, 6});
  EXPECT_EQ(classes(), (std::vector<ComputeClass>{ComputeClass::kMap, ComputeClass::kContraction})) << print(graph);
}

TEST_F(FusionTest, EpilogueIsReachedThroughAReshape) {
  // A grouped convolution: [n, group, out, h, w] is a view of [n, channels, h, w].
  const Expr n = dim("n"), h = dim("h");
  Value* x = input("x", DType::kF32, {n, number(2), number(3), h});
  Value* w = weights({2, 5, 3});
  Value* y = b.reduce(Combiner::kSum, DType::kF32, {n, number(2), number(5), h}, {number(3)}, [&](Body& body) {
    return body.load(x, {body.i[0], body.i[1], body.r[0], body.i[3]}) * body.load(w, {body.i[1], body.i[2], body.r[0]});
  });
  Value* flat = b.reshape(y, {n, number(10), h});
  output(relu(add(flat, weights({10, 1}))));
  fuse({2, 4});
  EXPECT_EQ(kernels(), 1) << print(graph);
  EXPECT_EQ(graph.outputs[0].value->producer->kind(), OpKind::kReshape);
}

TEST_F(FusionTest, EpilogueOfAnElementMayLoseItsAxes) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, n});
  const auto sum = [&](Body& body) { return body.load(x, {body.r[0], body.r[1]}); };
  output(relu(b.reshape(b.reduce(Combiner::kSum, DType::kF32, numbers({1}), {n, n}, sum), {})));
  fuse({3});
  EXPECT_EQ(kernels(), 1) << print(graph);
  EXPECT_EQ(graph.outputs[0].value->type.static_rank(), 0);
}

TEST_F(FusionTest, RowsThatAReshapePartsAreTheEpiloguesAxes) {
  const Expr n = dim("n"), s = dim("s");
  Value* rows = b.reshape(input("x", DType::kF32, {n, s, number(3)}), {n * s, number(3)});
  Value* y = b.reshape(b.matmul(rows, weights({3, 5})), {n, s, number(5)});
  output(add(relu(y), input("old", DType::kF32, {n, s, number(5)})));
  fuse({2, 4});
  EXPECT_EQ(kernels(), 1) << print(graph);
  EXPECT_EQ(graph.outputs[0].value->producer->kind(), OpKind::kCompute);
}

TEST_F(FusionTest, ContractionWritesItsTranspose) {
  // Attention's result goes back from heads to length first.
  const Expr n = dim("n"), s = dim("s");
  Value* y =
      b.matmul(input("p", DType::kF32, {n, number(2), s, s}), input("v", DType::kF32, {n, number(2), s, number(4)}));
  output(b.reshape(b.transpose(y, {0, 2, 1, 3}), {n, s, number(8)}));
  fuse({3, 5});
  EXPECT_EQ(kernels(), 1) << print(graph);
}

TEST_F(FusionTest, ContractionDoesNotWriteAcrossItsVectorAxis) {
  Value* y = b.matmul(input("x", DType::kF32, {dim("m"), number(4)}), input("w", DType::kF32, {number(4), dim("n")}));
  output(b.transpose(y, {1, 0}));
  check(fuse_ops, {3, 5}, false);
}

TEST_F(FusionTest, ContractionDoesNotWritePiecesOfItsVectorAxis) {
  // DepthToSpace: the axis of 64 elements would be taken apart, and none but the last piece is contiguous in the weights.
  const Expr n = dim("n");
  Value* y = b.matmul(input("x", DType::kF32, {n, number(4)}), weights({4, 64}));
  output(b.transpose(b.reshape(y, {n, number(16), number(4)}), {0, 2, 1}));
  check(fuse_ops, {3}, false);
}

TEST_F(FusionTest, AValueThatCannotExistIsAlwaysFused) {
  Value* x = input("x", DType::kF32, numbers({1 << 16}));
  Value* huge = b.broadcast_to(b.reshape(x, numbers({1, 1 << 16})), numbers({1 << 16, 1 << 16}));
  Value* e = b.unary(ScalarOp::kExp, huge);
  output(b.reduce_axes(Combiner::kSum, e, {0}, false, DType::kF32), "columns");
  output(b.reduce_axes(Combiner::kMax, e, {0}, false, DType::kF32), "most");
  verify(graph);
  EXPECT_TRUE(fuse_ops(graph));
  eliminate_dead_ops(graph);
  verify(graph);
  EXPECT_EQ(classes(), (std::vector<ComputeClass>{ComputeClass::kReduction, ComputeClass::kReduction})) << print(graph);
}

TEST_F(FusionTest, GatheredRowsAreReadInPlace) {
  Value* table = input("table", DType::kF32, {dim("words", 20), number(4)});
  Value* ids = input("ids", DType::kI64, {dim("n"), dim("s")});
  Value* p = input("p", DType::kF32, {number(4)});
  b.source = "Gather node 'g'";
  Value* rows = b.gather(relu(table), ids, 0);
  output(add(rows, p));
  fuse({20, 3, 4});
  EXPECT_EQ(kernels(), 1) << print(graph);
}

TEST_F(FusionTest, KernelsStaySmall) {
  Value* x = input("x", DType::kF32, {dim("n")});
  std::vector<Value*> others;
  Value* y = x;
  for (int k = 0; k < 40; ++k) y = add(y, input("x" + std::to_string(k), DType::kF32, x->type.extents));
  output(y);
  fuse({4});
  EXPECT_LE(kernels(), 6);
  for_each_op(graph.body, [&](Op& op) { EXPECT_LE(op.operands.size(), 12U); });
}

// ---- everything, on random graphs

TEST_F(FusionTest, OperandsOfOpsWithoutBodiesStay) {
  Value* x = input("x", DType::kF32, {dim("n", 0, 9), number(4)});
  Value* y = b.reshape(x, {dim("m", 0, 36)});
  output(y);
  EXPECT_FALSE(compact_operands(*y->producer));
  EXPECT_EQ(y->producer->operands.size(), 1U);
}

}  // namespace
}  // namespace stax::tensor
