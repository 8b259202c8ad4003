// SPDX-License-Identifier: Apache-2.0
// Functions of one byte become look-ups in a table, with the same bytes for each of the 256 values; other functions stay.
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

class TabulateBytesTest : public PassesTest {
 protected:
  Value* dequantized(Value* q, double scale, int zero) {
    return b.pointwise({q}, [&](std::span<const Scalar> x) {
      ir::ScalarTable& t = graph.scalars();
      return ir::cast(DType::kF32, ir::cast(DType::kI32, x[0]) - t.constant_int(DType::kI32, zero)) *
             t.constant(DType::kF32, scale);
    });
  }
  Value* quantized(Value* x, DType type, double scale, int zero) {
    return b.pointwise({x}, [&](std::span<const Scalar> s) {
      ir::ScalarTable& t = graph.scalars();
      const auto number = [&](double v) { return t.constant(DType::kF32, v); };
      const bool is_signed = type == DType::kI8;
      const Scalar steps = unary(ScalarOp::kRoundEven, s[0] / number(scale)) + number(zero);
      return ir::cast(type, binary(ScalarOp::kMax, binary(ScalarOp::kMin, steps, number(is_signed ? 127 : 255)),
                                   number(is_signed ? -128 : 0)));
    });
  }
  Value* sigmoid(Value* x) { return b.unary(ScalarOp::kSigmoid, x); }

  /// Runs the pass, and removes what it leaves behind; each output says the same of every byte, bit for bit.
  void tabulate(DType t, bool changes = true) {
    std::vector<double> bytes(256);
    for (int k = 0; k < 256; ++k) bytes[static_cast<size_t>(k)] = t == DType::kI8 ? k - 128 : k;
    std::vector<Item> inputs;
    for (size_t k = 0; k < graph.inputs.size(); ++k) {
      inputs.push_back(item(t, {4, 64}, bytes));
      std::rotate(bytes.begin(), bytes.begin() + 77, bytes.end());
    }
    const auto before = interpret(graph, inputs);
    EXPECT_EQ(tabulate_bytes(graph), changes) << print(graph);
    verify(graph);
    eliminate_dead_ops(graph);
    fold_constants(graph);
    eliminate_dead_ops(graph);
    verify(graph);
    const auto after = interpret(graph, inputs);
    ASSERT_EQ(before.size(), after.size());
    for (size_t k = 0; k < before.size(); ++k)
      EXPECT_EQ(values_of(before[k].tensor), values_of(after[k].tensor)) << print(graph);
  }
  Value* bytes_input(const char* name, DType t) { return input(name, t, {number(4), number(64)}); }
};

class TabulateBytesOfType : public TabulateBytesTest, public testing::WithParamInterface<DType> {};

TEST_P(TabulateBytesOfType, AFunctionOfOneByteIsALookUp) {
  Value* q = bytes_input("q", GetParam());
  output(quantized(sigmoid(dequantized(q, 0.03, 11)), GetParam(), 1.0 / 256, -3));
  tabulate(GetParam());
  EXPECT_EQ(kernels(), 1) << print(graph);
  EXPECT_EQ(count(OpKind::kConstant), 1) << print(graph);
}

TEST_P(TabulateBytesOfType, RootsThatAreFunctionsOfOneAreOne) {
  Value* q = bytes_input("q", GetParam());
  Value* x = dequantized(q, 0.05, -20);
  Value* gate = quantized(sigmoid(x), GetParam(), 1.0 / 256, 0);
  Value* y = quantized(b.binary(ScalarOp::kMul, x, dequantized(gate, 1.0 / 256, 0)), GetParam(), 0.04, 5);
  output(y);
  output(b.binary(ScalarOp::kAdd, dequantized(y, 0.04, 5), x));
  tabulate(GetParam());
  EXPECT_EQ(kernels(), 4) << "the gate is inside of the table; the sum is no byte\n" << print(graph);
  EXPECT_EQ(y->producer->operands.front(), q);
}
INSTANTIATE_TEST_SUITE_P(Types, TabulateBytesOfType, testing::Values(DType::kU8, DType::kI8));

TEST_F(TabulateBytesTest, TheNearestRootIsRead) {
  Value* q = bytes_input("q", DType::kU8);
  Value* first = quantized(sigmoid(dequantized(q, 0.05, 100)), DType::kI8, 1.0 / 128, 0);
  Value* second = quantized(b.unary(ScalarOp::kTanh, dequantized(first, 1.0 / 128, 0)), DType::kU8, 1.0 / 128, 99);
  output(first);
  output(second);
  tabulate(DType::kU8);
  EXPECT_EQ(second->producer->operands.front(), first) << print(graph);
}

TEST_F(TabulateBytesTest, LittleWorkStays) {
  Value* q = bytes_input("q", DType::kU8);
  output(quantized(dequantized(q, 0.05, 100), DType::kU8, 0.04, 90));
  tabulate(DType::kU8, false);
}

TEST_F(TabulateBytesTest, TwoTensorsAndOtherPlacesStay) {
  Value* p = bytes_input("p", DType::kU8);
  Value* q = bytes_input("q", DType::kU8);
  Value* sum = b.binary(ScalarOp::kAdd, dequantized(p, 0.05, 100), dequantized(q, 0.05, 100));
  output(quantized(sigmoid(sum), DType::kU8, 1.0 / 256, 0));
  // A scale for each column.
  Value* column = weights({64});
  Value* scaled = b.binary(ScalarOp::kMul, dequantized(p, 0.05, 100), column);
  output(quantized(sigmoid(scaled), DType::kU8, 1.0 / 256, 0));
  // An element and the one that faces it.
  Value* turned =
      b.map({number(4), number(64)}, [&](Body& body) { return body.load(p, {body.i[0], number(63) - body.i[1]}); });
  output(quantized(sigmoid(dequantized(turned, 0.05, 100)), DType::kU8, 1.0 / 256, 0));
  tabulate(DType::kU8);
  EXPECT_EQ(kernels(), 11) << "the turned image is a tensor of bytes itself\n" << print(graph);
}

}  // namespace
}  // namespace stax::tensor
