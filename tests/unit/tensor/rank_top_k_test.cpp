// SPDX-License-Identifier: Apache-2.0
// The greatest elements of a row by their ranks: what a sort gives.
#include <limits>

#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

class RankTopKTest : public PassesTest {
 protected:
  /// The k greatest or least along the axis; both results are outputs.
  void top(Value* x, int axis, Expr k, bool largest) {
    std::vector<Expr> extents = x->type.extents;
    extents[static_cast<size_t>(axis)] = k;
    Op* op = b.op(TopK{axis, largest}, {x}, {Type::tensor(x->type.dtype, extents), Type::tensor(DType::kI64, extents)});
    output(op->result(0));
    output(op->result(1));
  }
};

class RankTopKOfType : public RankTopKTest, public testing::WithParamInterface<DType> {};

TEST_P(RankTopKOfType, BothEndsOfAnyAxisWithTies) {
  Value* x = input("x", GetParam(), {dim("n"), number(5), number(40)});
  top(x, 1, number(3), true);
  top(x, 2, number(40), false);
  check(rank_top_k, {3});
  EXPECT_EQ(count(OpKind::kTopK), 0) << print(graph);
  check(rank_top_k, {0}, false);
}
INSTANTIATE_TEST_SUITE_P(Types, RankTopKOfType,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8,
                                         DType::kI32, DType::kI64));

TEST_F(RankTopKTest, NanIsTheGreatest) {
  Value* x = input("x", DType::kF32, {number(8)});
  top(x, 0, number(8), true);
  top(x, 0, number(8), false);
  ASSERT_TRUE(rank_top_k(graph));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto r = interpret(graph, {item(DType::kF32, {8}, {0, nan, kInf, -0.0, -kInf, nan, 1, kInf})});
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{1, 5, 2, 7, 6, 0, 3, 4}));
  EXPECT_EQ(values_of(r[3].tensor), (std::vector<double>{4, 0, 3, 6, 2, 7, 1, 5}));
  EXPECT_TRUE(std::isnan(values_of(r[0].tensor)[1]));
}

TEST_F(RankTopKTest, RowsThatMayBeLongHaveBothWays) {
  Value* x = input("x", DType::kF32, {dim("n")});
  top(x, 0, number(2), true);
  check(rank_top_k, {9});
  EXPECT_EQ(count(OpKind::kIf), 1) << print(graph);
  EXPECT_EQ(count(OpKind::kTopK), 1) << print(graph);
  // Among 20000 elements a comparison of each with each would not end.
  const auto inputs = random_inputs({20000});
  EXPECT_EQ(values_of(interpret(graph, inputs)[0].tensor), (std::vector<double>{2, 2}));
}

TEST_F(RankTopKTest, LongRowsKeepTheProcedure) {
  top(input("x", DType::kF32, {dim("m"), number(100000)}), 1, number(2), true);
  check(rank_top_k, {1}, false);
}

}  // namespace
}  // namespace stax::tensor
