// SPDX-License-Identifier: Apache-2.0
// What a body computes for every channel again becomes a table, where it may be computed for every point.
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;

class HoistRepeatedTest : public PassesTest {
 protected:
  /// exp(sqrt(|x|)), which costs enough.
  static Scalar costly(Scalar x) {
    return ir::unary(ScalarOp::kExp, ir::unary(ScalarOp::kSqrt, ir::unary(ScalarOp::kAbs, x)));
  }
  static Scalar number_of(Body& body, Expr e) { return ir::cast(DType::kF32, body.index(e)); }
};

TEST_F(HoistRepeatedTest, CoordinatesAndWeightsOfEachAxis) {
  const Expr h = dim("h"), w = dim("w");
  Value* x = input("x", DType::kF32, {dim("n"), number(32), h, w});
  output(b.map({x->type.extents[0], number(32), h * 2, w * 2}, [&](Body& body) {
    const auto place = [&](Expr i, Expr extent) {
      const Scalar at = ir::unary(ScalarOp::kFloor,
                                  (number_of(body, i) + body.number(DType::kF32, 0.5)) * body.number(DType::kF32, 0.5));
      const Scalar last = body.index(extent - 1), whole = ir::cast(DType::kI64, at);
      return ir::binary(ScalarOp::kMin, ir::binary(ScalarOp::kMax, whole, body.integer(DType::kI64, 0)), last);
    };
    const Scalar weight = costly(number_of(body, body.i[2])) * costly(number_of(body, body.i[3]));
    return body.load(x, {body.index(body.i[0]), body.index(body.i[1]), place(body.i[2], h), place(body.i[3], w)}) *
           weight;
  }));
  check(hoist_repeated, {2, 3, 5});
  // Rows, columns, and a weight of both, made of two tables.
  EXPECT_EQ(count(OpKind::kCompute), 6) << print(graph);
  check(hoist_repeated, {1, 4, 3}, false);
}

TEST_F(HoistRepeatedTest, Reflections) {
  Value* x = input("x", DType::kF32, {dim("n"), number(32), dim("w")});
  const Expr w = x->type.extents[2];
  output(b.map({x->type.extents[0], number(32), w + 6}, [&](Body& body) {
    const Expr there = symbolic::mod(body.i[2] - 3, w * 2 - 2);
    return body.load(x, {body.i[0], body.i[1], symbolic::min(there, w * 2 - 2 - there)});
  }));
  check(hoist_repeated, {2, 9});
  EXPECT_EQ(count(OpKind::kCompute), 2) << print(graph);
}

TEST_F(HoistRepeatedTest, OfReductions) {
  Value* x = input("x", DType::kF32, {dim("n"), number(32), dim("k")});
  Value* scale = input("scale", DType::kF32, {x->type.extents[2]});
  output(b.reduce(Combiner::kMax, DType::kF32, {x->type.extents[0], number(32)}, {x->type.extents[2]}, [&](Body& body) {
    return body.load(x, {body.i[0], body.i[1], body.r[0]}) + costly(body.load(scale, {body.r[0]}));
  }));
  check(hoist_repeated, {3, 7});
  EXPECT_EQ(count(OpKind::kCompute), 2) << print(graph);
}

// What goes over pairs of many points never exists.
TEST_F(HoistRepeatedTest, PairsOfAReductionStay) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* y = input("y", DType::kF32, {dim("m")});
  Value* z = input("z", DType::kF32, {number(32)});
  output(b.reduce(Combiner::kMax, DType::kF32, {x->type.extents[0], number(32)}, {y->type.extents[0]}, [&](Body& body) {
    return costly(body.load(x, {body.i[0]}) - body.load(y, {body.r[0]})) + body.load(z, {body.i[1]});
  }));
  check(hoist_repeated, {3, 7}, false);
}

// An element that a condition keeps from being read where there is none.
TEST_F(HoistRepeatedTest, WhatIsNotEverywhereStays) {
  Value* x = input("x", DType::kF32, {dim("n"), number(32), dim("m")});
  const Expr m = x->type.extents[2];
  Value* head = input("head", DType::kF32, {dim("k")});
  output(b.map({x->type.extents[0], number(32), m}, [&](Body& body) {
    const Scalar exists = ir::cast(DType::kBool, body.index(symbolic::less(body.i[2], head->type.extents[0])));
    return body.load(x, body.i) + ir::select(exists, costly(body.load(head, {body.i[2]})), body.number(DType::kF32, 0));
  }));
  check(hoist_repeated, {2, 40, 3}, false);
}

TEST_F(HoistRepeatedTest, WhatMayFailStays) {
  Value* x = input("x", DType::kF32, {dim("n"), number(32), number(8)});
  Value* places = input("places", DType::kI64, {number(8)});
  output(b.map(x->type.extents, [&](Body& body) {
    const Scalar at = body.checked(body.load(places, {body.i[2]}), number(1000));
    return body.load(x, body.i) + costly(ir::cast(DType::kF32, at));
  }));
  verify(graph);
  EXPECT_FALSE(hoist_repeated(graph));
}

TEST_F(HoistRepeatedTest, FewPointsAndFewRepetitionsStay) {
  Value* small = input("small", DType::kF32, {number(16), number(16)});
  output(b.map(small->type.extents,
               [&](Body& body) { return body.load(small, body.i) + costly(number_of(body, body.i[1])); }));
  Value* narrow = input("narrow", DType::kF32, {number(4), dim("n")});
  output(b.map(narrow->type.extents,
               [&](Body& body) { return body.load(narrow, body.i) + costly(number_of(body, body.i[1])); }));
  check(hoist_repeated, {5}, false);
}

}  // namespace
}  // namespace stax::tensor
