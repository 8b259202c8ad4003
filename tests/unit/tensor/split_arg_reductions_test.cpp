// SPDX-License-Identifier: Apache-2.0
// The place of an extreme element as two reductions: what one reduction that carries both gives.
#include <limits>

#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

constexpr Combiner kCombiners[] = {Combiner::kArgMaxFirst, Combiner::kArgMaxLast, Combiner::kArgMinFirst,
                                   Combiner::kArgMinLast};

class SplitArgReductionsTest : public PassesTest {
 protected:
  int carried() {
    int n = 0;
    for_each_op(graph.body, [&](Op& op) {
      const auto* c = op.as<Compute>();
      n += c != nullptr && is_arg(c->combiner);
    });
    return n;
  }
};

class SplitArgReductionsOfType : public SplitArgReductionsTest, public testing::WithParamInterface<DType> {};

TEST_P(SplitArgReductionsOfType, AnyAxesWithTies) {
  Value* x = input("x", GetParam(), {dim("n"), number(5), number(40)});
  for (const Combiner c : kCombiners)
    for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {2}, {1, 2}})
      output(b.reduce_axes(c, x, axes, axes.size() == 1, ir::compute_type(GetParam())));
  check(split_arg_reductions, {3});
  EXPECT_EQ(carried(), 0) << print(graph);
  check(split_arg_reductions, {0}, false);
}
INSTANTIATE_TEST_SUITE_P(Types, SplitArgReductionsOfType,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8,
                                         DType::kI32, DType::kI64));

TEST_F(SplitArgReductionsTest, NanWinsAndNothingIsAtZero) {
  Value* x = input("x", DType::kF32, {dim("n")});
  for (const Combiner c : kCombiners) output(b.reduce_axes(c, x, {0}, false, DType::kF32));
  ASSERT_TRUE(split_arg_reductions(graph));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto places = [&](const std::vector<double>& elements) {
    std::vector<double> all;
    for (const Item& r : interpret(graph, {item(DType::kF32, {static_cast<int64_t>(elements.size())}, elements)}))
      all.push_back(values_of(r.tensor)[0]);
    return all;
  };
  EXPECT_EQ(places({1, nan, kInf, nan, -kInf}), (std::vector<double>{1, 3, 1, 3}));
  EXPECT_EQ(places({-kInf, -kInf, -kInf}), (std::vector<double>{0, 2, 0, 2}));
  EXPECT_EQ(places({0.0, -0.0, 3, 3, -2, -2}), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(places({}), (std::vector<double>{0, 0, 0, 0}));
}

// Windows would be read twice, element by element.
TEST_F(SplitArgReductionsTest, WindowsStay) {
  Value* x = input("x", DType::kF32, {number(9)});
  output(b.reduce(Combiner::kArgMaxFirst, DType::kF32, {number(4)}, {number(3)},
                  [&](Body& body) { return body.load(x, {body.i[0] * 2 + body.r[0]}); }));
  check(split_arg_reductions, {}, false);
}

}  // namespace
}  // namespace stax::tensor
