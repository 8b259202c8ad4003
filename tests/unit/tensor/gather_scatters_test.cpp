// SPDX-License-Identifier: Apache-2.0
// What a scatter gives, found from the result's side.
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

class GatherScattersTest : public PassesTest {
 protected:
  /// data[n, 4]; points of i64[p] go to rows, where they may meet.
  Value* rows(DType t, Combiner mode, bool with_guard = false) {
    const Expr p = dim("p");
    Value* data = input("data", t, {dim("n"), number(4)});
    Value* to = input("to", DType::kI64, {p});
    Value* updates = input("updates", t, {p, number(4)});
    return b.scatter(data, {p, number(4)}, mode, [&](Body& body) {
      const Scalar row = body.checked(body.load(to, {body.i[0]}), data->type.extents[0]);
      const Scalar value = body.load(updates, body.i);
      const Scalar guard =
          with_guard ? ir::less(body.number(t, 0), ir::unary(ScalarOp::kAbs, body.load(updates, body.i))) : Scalar{};
      return Builder::ScatterPoint{{row, body.index(body.i[1])}, value, guard};
    });
  }
};

class GatherScattersOfMode : public GatherScattersTest,
                             public testing::WithParamInterface<std::tuple<DType, Combiner>> {};

TEST_P(GatherScattersOfMode, RowsThatMayMeet) {
  const auto [t, mode] = GetParam();
  output(rows(t, mode, true));
  std::vector<std::pair<std::vector<Item>, std::vector<Item>>> calls;
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{3, 7}, {4, 0}, {5, 1}, {8, 40}, {0, 0}}) {
    const std::vector<Item> inputs = random_inputs(sizes);
    calls.emplace_back(inputs, interpret(graph, inputs));
  }
  ASSERT_TRUE(gather_scatters(graph));
  verify(graph);
  EXPECT_EQ(count(OpKind::kIf), 1) << print(graph);
  for (const auto& [inputs, want] : calls) expect_same(want, interpret(graph, inputs));
  EXPECT_FALSE(gather_scatters(graph)) << "once is enough";
}
INSTANTIATE_TEST_SUITE_P(Modes, GatherScattersOfMode,
                         testing::Combine(testing::Values(DType::kF32, DType::kF16, DType::kI32, DType::kU8,
                                                          DType::kI64),
                                          testing::Values(Combiner::kNone, Combiner::kSum, Combiner::kProd,
                                                          Combiner::kMin, Combiner::kMax)));

TEST_F(GatherScattersTest, SingleElementsAndShorterAxes) {
  // Points [p, 2, 3] into [3, 5]: rows are found by two axes and differ by column; columns are an axis of the points that is shorter.
  const Expr p = number(6);
  Value* data = input("data", DType::kF32, numbers({3, 5}));
  Value* to = input("to", DType::kI64, {p, number(2), number(3)});
  Value* updates = input("updates", DType::kF32, {p, number(2), number(3)});
  const auto points = [&](Body& body) {
    const Scalar row = body.checked(body.load(to, body.i), number(3));
    return Builder::ScatterPoint{{row, body.index(body.i[2])}, body.load(updates, body.i), {}};
  };
  output(b.scatter(data, {p, number(2), number(3)}, Combiner::kNone, points));
  output(b.scatter(data, {p, number(2), number(3)}, Combiner::kSum, points));
  check(gather_scatters, {});
  EXPECT_EQ(count(OpKind::kScatter), 0) << print(graph);
}

TEST_F(GatherScattersTest, AnIndexOutOfRangeIsSaid) {
  output(rows(DType::kF32, Combiner::kSum));
  ASSERT_TRUE(gather_scatters(graph));
  const auto call = [&](int64_t n, double to) {
    return message_of([&] {
      interpret(graph, {item(DType::kF32, {n, 4}, std::vector<double>(static_cast<size_t>(4 * n))),
                        item(DType::kI64, {1}, {to}), item(DType::kF32, {1, 4}, {1, 2, 3, 4})});
    });
  };
  EXPECT_EQ(call(3, -3), "no error");
  EXPECT_NE(call(3, 3), "no error");
  EXPECT_NE(call(0, 0), "no error") << "nothing to write to";
}

TEST_F(GatherScattersTest, PointsThatNeverMeetStay) {
  Value* data = input("data", DType::kF32, numbers({3, 4}));
  Value* updates = input("updates", DType::kF32, numbers({3, 2}));
  output(b.scatter(data, numbers({3, 2}), Combiner::kNone, [&](Body& body) {
    return Builder::ScatterPoint{{body.index(body.i[0]), body.index(body.i[1])}, body.load(updates, body.i), {}};
  }));
  check(gather_scatters, {}, false);
}

}  // namespace
}  // namespace stax::tensor
