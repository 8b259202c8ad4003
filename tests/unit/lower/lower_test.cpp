// SPDX-License-Identifier: Apache-2.0
// Which axes are merged, and what is said of a kernel beside its loops. That the loops mean what the op means is held by compile/levels_test.cpp.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include "symbolic/evaluate.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::lower {
namespace {

using ir::DType;
using ir::Scalar;
using ir::ScalarOp;
using symbolic::Expr;
using tensor::Body;
using tensor::Combiner;
using tensor::Value;

class Lower : public tensor::GraphFixture {
 protected:
  const Expr n = dim("n"), m = dim("m"), k = dim("k");
  static const tensor::Op& op_of(const Value* v) { return *v->producer; }
  static std::string text(const std::vector<tensor::Axis>& axes) {
    std::string text;
    for (const tensor::Axis& a : axes) text += (text.empty() ? "" : ", ") + a.extent.str();
    return text;
  }
  /// "axes; reductions | operand; operand"
  static std::string collapsed(const Value* v) {
    const CollapsedCompute c = collapse_axes(op_of(v));
    std::string result = text(c.compute.axes);
    if (!c.compute.reductions.empty()) result += "; " + text(c.compute.reductions);
    for (const auto& extents : c.operand_extents) {
      result += " |";
      for (size_t d = 0; d < extents.size(); ++d) result += (d ? ", " : " ") + extents[d].str();
    }
    return result;
  }
  Value* f32(const std::string& name, std::vector<Expr> extents) {
    return input(name, DType::kF32, std::move(extents));
  }
};

// ---- collapse_axes

TEST_F(Lower, AxesThatAllOperandsWalkAlikeAreOne) {
  Value* x = f32("x", {n, m, number(4)});
  EXPECT_EQ(collapsed(b.unary(ScalarOp::kExp, x)), "m*n*4 | m*n*4");
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kAdd, x, f32("y", {n, m, number(4)}))), "m*n*4 | m*n*4 | m*n*4");
}

TEST_F(Lower, ABroadcastVectorKeepsItsAxisApart) {
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kAdd, f32("x", {n, m, number(768)}), f32("bias", {number(768)}))),
            "m*n, 768 | m*n, 768 | 768");
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kAdd, f32("x2", {n, m, k}), f32("row", {n, number(1), number(1)}))),
            "n, k*m | n, k*m | n");
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kAdd, f32("x3", {n, m, k}), f32("middle", {n, number(1), k}))),
            "n, m, k | n, m, k | n, k");
}

TEST_F(Lower, AScalarStandsInNobodysWay) {
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kMul, f32("x", {n, m}), f32("s", {}))), "m*n | m*n |");
  EXPECT_EQ(collapsed(b.binary(ScalarOp::kMul, f32("x2", {n, m}), f32("s2", {number(1), number(1)}))), "m*n | m*n |");
}

TEST_F(Lower, AxesOfExtentOneAreNone) {
  EXPECT_EQ(collapsed(b.unary(ScalarOp::kExp, f32("x", {number(1), n, number(1)}))), "n | n");
  EXPECT_EQ(collapsed(b.unary(ScalarOp::kExp, f32("y", {number(1), number(1)}))), " |");
}

TEST_F(Lower, ATransposedOperandKeepsAxesApart) {
  EXPECT_EQ(collapsed(b.transpose(f32("x", {n, m}), {1, 0})), "m, n | n, m");
  EXPECT_EQ(collapsed(b.transpose(f32("y", {n, m, k}), {2, 0, 1})), "k, m*n | m*n, k");
}

TEST_F(Lower, AnOperandWalkedInTwoWaysKeepsItsView) {
  Value* x = f32("x", {n, n});
  EXPECT_EQ(collapsed(b.map({n, n},
                            [&](Body& body) {
                              return body.load(x, {body.i[0], body.i[1]}) + body.load(x, {body.i[1], body.i[0]});
                            })),
            "n, n | n, n");
}

TEST_F(Lower, AnIndexMayHaveThemMergedAlready) {
  Value *x = f32("x", {n * m, k}), *y = f32("y", {n, m, k});
  const auto sum = [&](Expr pitch) {
    return b.map({n, m, k}, [&](Body& body) {
      return body.load(x, {body.i[0] * pitch + body.i[1], body.i[2]}) + body.load(y, body.i);
    });
  };
  EXPECT_EQ(collapsed(sum(m)), "k*m*n | k*m*n | k*m*n");
  EXPECT_EQ(collapsed(sum(m + 1)), "n, m, k | n, m, k | m*n, k") << "rows that lie apart";
}

TEST_F(Lower, PartsAndShiftsKeepAxesApart) {
  Value* x = f32("x", {n, number(8)});
  EXPECT_EQ(collapsed(b.slice(x, 1, number(0), number(4), number(1))), "n, 4 | n, 8") << "the inner axis in part";
  EXPECT_EQ(collapsed(b.slice(x, 1, number(1), number(7), number(1))), "n, 7 | n, 8");
  Value* y = f32("y", {n, m, number(8)});
  EXPECT_EQ(collapsed(b.map({n, m, number(8)},
                            [&](Body& body) { return body.load(y, {n - 1 - body.i[0], body.i[1], body.i[2]}); })),
            "n, m*8 | n, m*8")
      << "reversed: the others still merge";
}

TEST_F(Lower, AxesThatTheBodyNamesKeepApart) {
  Value* x = f32("x", {n, m});
  EXPECT_EQ(collapsed(b.map({n, m},
                            [&](Body& body) {
                              return body.load(x, body.i) + graph.scalars().cast(DType::kF32, body.index(body.i[1]));
                            })),
            "n, m | n, m");
  EXPECT_EQ(collapsed(b.map({n, m},
                            [&](Body& body) {
                              return ir::select(ir::less(body.index(body.i[0]), body.index(k)), body.load(x, body.i),
                                                body.number(DType::kF32, 0));
                            })),
            "n, m | n, m");
}

TEST_F(Lower, IndicesFromDataKeepApart) {
  Value* x = f32("x", {n, m});
  Value* at = input("at", DType::kI64, {k});
  EXPECT_EQ(collapsed(b.gather(x, at, 0)).substr(0, 4), "k, m");
}

TEST_F(Lower, ReductionsMergeAmongThemselvesOnly) {
  Value* x = f32("x", {n, m, k});
  EXPECT_EQ(collapsed(b.reduce_axes(Combiner::kSum, x, {1, 2}, false, DType::kF32)), "n; k*m | n, k*m");
  EXPECT_EQ(collapsed(b.reduce_axes(Combiner::kSum, x, {0}, false, DType::kF32)), "k*m; n | n, k*m");
  EXPECT_EQ(collapsed(b.reduce_axes(Combiner::kSum, x, {0, 2}, false, DType::kF32)), "m; n, k | n, m, k");
  EXPECT_EQ(collapsed(b.reduce_axes(Combiner::kMax, x, {0, 1, 2}, false, DType::kF32)), "; k*m*n | k*m*n");
}

TEST_F(Lower, ArgumentsCountTheirOwnAxes) {
  Value* x = f32("x", {n, m, k});
  Value* arg = b.reduce(Combiner::kArgMaxFirst, DType::kF32, {n}, {m, k},
                        [&](Body& body) { return body.load(x, {body.i[0], body.r[0], body.r[1]}); });
  EXPECT_EQ(collapsed(arg), "n; m, k | n, m, k");
}

TEST_F(Lower, ABatchOfProductsIsOneAxis) {
  EXPECT_EQ(collapsed(b.matmul(f32("x", {n, m, k, number(8)}), f32("y", {n, m, number(8), number(5)}))),
            "m*n, k, 5; 8 | m*n, k, 8 | m*n, 8, 5");
}

// ---- kernels

TEST_F(Lower, KernelsOfOneMeaningHaveOneText) {
  Value* first = b.binary(ScalarOp::kAdd, f32("x", {n, number(64)}), f32("bias", {number(64)}));
  Value* second = b.binary(ScalarOp::kAdd, f32("other", {m, number(64)}), f32("more", {number(64)}));
  Value* third = b.binary(ScalarOp::kAdd, f32("wide", {n, number(65)}), f32("wider", {number(65)}));
  const auto text = [](const Value* v) { return loop::print(lower_compute(op_of(v)).kernel, true); };
  EXPECT_EQ(text(first), text(second));
  EXPECT_NE(text(first), text(third)) << "constant extents are part of the meaning";
}

TEST_F(Lower, ParametersStandForExtentsOfTheGraph) {
  Value* sum = b.binary(ScalarOp::kAdd, f32("x", {n, m}), f32("y", {m}));
  const LoweredKernel lowered = lower_compute(op_of(sum));
  ASSERT_EQ(lowered.param_values.size(), lowered.kernel.params.size());
  ASSERT_EQ(lowered.param_values.size(), 2u);
  tensor::Bindings values{{n.node(), 5}, {m.node(), 7}};
  EXPECT_EQ(symbolic::evaluate(lowered.param_values[0], values) * symbolic::evaluate(lowered.param_values[1], values),
            35);
  EXPECT_EQ(symbolic::evaluate(lowered.written, values), 35);
  EXPECT_GE(symbolic::evaluate(lowered.work, values), 35);
  EXPECT_EQ(lowered.arguments, (std::vector<int>{0, 1, ~0}));
}

TEST_F(Lower, NothingIsWrittenWhereAnExtentIsZero) {
  const LoweredKernel lowered =
      lower_compute(op_of(b.reduce_axes(Combiner::kSum, f32("x", {n, m}), {1}, false, DType::kF32)));
  EXPECT_EQ(symbolic::evaluate(lowered.written, {{n.node(), 0}, {m.node(), 7}}), 0);
  EXPECT_EQ(symbolic::evaluate(lowered.written, {{n.node(), 3}, {m.node(), 0}}), 3) << "a sum over nothing is written";
}

TEST_F(Lower, ClassesSayWhatAKernelIs) {
  Value* x = f32("x", {n, m});
  EXPECT_EQ(lower_compute(op_of(b.unary(ScalarOp::kExp, x))).kernel.kernel_class, "map");
  EXPECT_EQ(lower_compute(op_of(b.reduce_axes(Combiner::kSum, x, {1}, false, DType::kF32))).kernel.kernel_class,
            "reduction");
  EXPECT_EQ(lower_compute(op_of(b.matmul(x, f32("w", {m, k})))).kernel.kernel_class, "contraction");
  Value* max = b.reduce(Combiner::kMax, DType::kF32, {n}, {m}, [&](Body& body) {
    return body.load(x, {body.i[0], body.r[0]}) * body.load(x, {body.i[0], body.r[0]});
  });
  EXPECT_EQ(lower_compute(op_of(max)).kernel.kernel_class, "reduction") << "a product that is not summed";
  Value* at = input("at", DType::kI64, {k});
  Value* scattered = b.scatter(x, {k}, Combiner::kSum, [&](Body& body) {
    return tensor::Builder::ScatterPoint{
        {body.checked(body.load(at, {body.i[0]}), n), body.index(number(0))}, body.number(DType::kF32, 1), {}};
  });
  EXPECT_EQ(lower_scatter(op_of(scattered)).kernel.kernel_class, "scatter");
  EXPECT_EQ(lower_prefix_scan(*b.op(tensor::PrefixScan{}, {x}, {x->type})).kernel.kernel_class, "scan");
}

TEST_F(Lower, KernelsAreWellFormedAndReadBack) {
  Value* x = f32("x", {n, m});
  for (Value* v : {b.softmax(x, 1), b.mean(x, {0}, true), b.concat({x, x}, 1), b.cast(x, DType::kI8),
                   b.matmul(x, f32("w", {m, n}))}) {
    const loop::Kernel kernel = lower_compute(op_of(v)).kernel;
    loop::verify(kernel);
    EXPECT_EQ(loop::print(loop::parse_kernel(loop::print(kernel))), loop::print(kernel));
  }
}

}  // namespace
}  // namespace stax::lower
