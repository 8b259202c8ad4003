// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/interpret_block_ops.h"
#include "tensor/interpret_blocks.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

using ir::ScalarOp;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

class InterpretTest : public GraphFixture {
 protected:
  std::vector<double> random_values(int64_t n, double scale = 1) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v)
      x = static_cast<double>(static_cast<float>(std::uniform_real_distribution<double>(-scale, scale)(random_)));
    return v;
  }
  std::vector<double> random_ints(int64_t n, int64_t lo, int64_t hi) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = static_cast<double>(std::uniform_int_distribution<int64_t>(lo, hi)(random_));
    return v;
  }
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) ASSERT_NEAR(actual[k], expected[k], tolerance) << "element " << k;
  }
  std::mt19937_64 random_{7};
};

// ---- operations on blocks

TEST(InterpretBlocks, FastLoopsAreTheDefinition) {
  using ir::Value64;
  const std::vector<double> floats{0.0,          -0.0,   1,     -1,   0.5,   -0.5, 1.5,   -2.5, 3,
                                   1e-300,       5e-324, 1e300, kInf, -kInf, kNan, 127.5, 128,  -129,
                                   4294967296.0, 9e18,   -9e18, 1e19, 0.1,   70000};
  const std::vector<int64_t> ints{
      0,          1,         -1,       2, 3, 7, 63, 64, 127, -128, 255, 32767, 65535, 2147483647, -2147483648LL,
      4294967295, INT64_MAX, INT64_MIN};
  for (int t = 0; t < ir::kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    std::vector<Value64> values;
    for (double f : floats) {
      if (ir::is_float(type)) values.push_back({.f = ir::round_to(type, f)});
    }
    for (int64_t i : ints) {
      if (!ir::is_float(type)) values.push_back({.i = type == DType::kBool ? i & 1 : ir::wrap_integer(type, i)});
    }
    std::vector<Value64> a, c;
    for (Value64 x : values) {
      for (Value64 y : values) {
        a.push_back(x);
        c.push_back(y);
      }
    }
    const auto n = static_cast<int64_t>(a.size());
    std::vector<Value64> out(a.size());
    const auto expect_bits = [&](Value64 want, Value64 got, bool is_float, const std::string& what) {
      const bool same = is_float && std::isnan(want.f) ? std::isnan(got.f) : want.i == got.i;
      EXPECT_TRUE(same) << what;
    };
    for (int k = 0; k <= static_cast<int>(ScalarOp::kHash); ++k) {
      const auto op = static_cast<ScalarOp>(k);
      if (op == ScalarOp::kSelect || op == ScalarOp::kCheckedIndex || op == ScalarOp::kHash) continue;
      const void* arguments[] = {a.data(), c.data()};
      const std::vector<DType> types(static_cast<size_t>(ir::arity_of(op)), type);
      try {
        ir::result_dtype(op, types);
      } catch (const InternalError&) {
        continue;  // not an operation on this type
      }
      reference::apply_op_block(op, type, arguments, out.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const Value64 both[] = {a[i], c[i]};
        expect_bits(ir::evaluate_scalar_op(op, type, {both, types.size()}), out[i],
                    ir::is_float(ir::result_dtype(op, types)),
                    fmt::format("{} {} of values {} and {}", ir::name_of(op), ir::name_of(type),
                                i / static_cast<int64_t>(values.size()), i % static_cast<int64_t>(values.size())));
      }
    }
    for (int u = 0; u < ir::kDTypeCount; ++u) {
      const auto to = static_cast<DType>(u);
      reference::apply_cast_block(to, type, values.data(), out.data(), static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); ++i) {
        expect_bits(ir::evaluate_cast(to, type, values[i]), out[i], ir::is_float(to),
                    fmt::format("cast {} to {} of value {}", ir::name_of(type), ir::name_of(to), i));
      }
      // Through memory and back.
      std::vector<char> memory(values.size() * 8);
      if (to != type) continue;
      reference::store_block(type, memory.data(), 0, values.data(), static_cast<int64_t>(values.size()));
      reference::load_strided_block(type, memory.data(), 0, 1, out.data(), static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); ++i)
        expect_bits(values[i], out[i], ir::is_float(type), fmt::format("{} {}", ir::name_of(type), i));
    }
  }
}

TEST_F(InterpretTest, MaximumOfZerosIsPositive) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  output(b.reduce_axes(Combiner::kMax, x, {1}, false, DType::kF32));
  output(b.reduce_axes(Combiner::kMin, x, {1}, false, DType::kF32));
  const auto r = interpret(graph, {item(DType::kF32, {2, 3}, {-0.0, 0.0, -0.0, 0.0, -0.0, 0.0})});
  for (double v : values_of(r[0].tensor)) EXPECT_FALSE(std::signbit(v));
  for (double v : values_of(r[1].tensor)) EXPECT_TRUE(std::signbit(v));
}

// ---- maps

TEST_F(InterpretTest, MapOverAnyRank) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, number(3)});
  output(b.map({number(3), n}, [&](Body& body) { return body.load(x, std::vector<Expr>{body.i[1], body.i[0]}); }));
  EXPECT_EQ(run({item(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_TRUE(run({item(DType::kF32, {0, 3}, {})}).empty());
  EXPECT_EQ(run({item(DType::kF32, {1, 3}, {1, 2, 3})}), (std::vector<double>{1, 2, 3}));
}

TEST_F(InterpretTest, LongAndShortRowsGiveTheSame) {
  // Every pair of extents around the lengths at which blocks are formed in another way.
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, m});
  Value* y = input("y", DType::kF32, {m});
  output(b.map({n, m}, [&](Body& body) {
    return body.load(x, body.i) * body.load(y, std::vector<Expr>{m - 1 - body.i[1]}) +
           b.scalars().cast(DType::kF32, body.index(mod(body.i[0] * 3 + body.i[1], 5)));
  }));
  for (int64_t rows : {1, 2, 33, 1025}) {
    for (int64_t columns : {1, 3, 31, 32, 33, 1024, 1025}) {
      const auto a = random_values(rows * columns), c = random_values(columns);
      std::vector<double> expected;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          expected.push_back(
              static_cast<float>(a[i * columns + j] * c[columns - 1 - j] + static_cast<double>((i * 3 + j) % 5)));
        }
      }
      EXPECT_EQ(run({item(DType::kF32, {rows, columns}, a), item(DType::kF32, {columns}, c)}), expected)
          << rows << " x " << columns;
    }
  }
}

TEST_F(InterpretTest, FloatsAreDoubleWithinABody) {
  Value* x = input("x", DType::kF32, numbers({2}));
  output(b.pointwise({x}, [&](std::span<const Scalar> v) {
    const Scalar tiny = b.scalars().constant(DType::kF32, 0x1p-40);
    return (v[0] + tiny) - v[0];
  }));
  EXPECT_EQ(run({item(DType::kF32, {2}, {1, 2})}), (std::vector<double>{0x1p-40, 0x1p-40}));
}

TEST_F(InterpretTest, CastsAndStoresRound) {
  Value* x = input("x", DType::kF32, numbers({3}));
  output(b.cast(b.cast(x, DType::kF16), DType::kF32));
  EXPECT_EQ(run({item(DType::kF32, {3}, {1.0001f, 70000, 1e-8f})}), (std::vector<double>{1, kInf, 0}));
}

TEST_F(InterpretTest, IntegersWrap) {
  Value* x = input("x", DType::kI8, numbers({2}));
  output(b.pointwise({x}, [](std::span<const Scalar> v) { return v[0] * v[0] + v[0]; }));
  EXPECT_EQ(run({item(DType::kI8, {2}, {100, -128})}),
            (std::vector<double>{static_cast<int8_t>(100 * 100 + 100), -128}));
}

TEST_F(InterpretTest, UnsignedComparisonsAndDivisionAreUnsigned) {
  Value* x = input("x", DType::kU64, numbers({2}));
  output(b.pointwise({x}, [&](std::span<const Scalar> v) {
    const Scalar three = b.scalars().constant_int(DType::kU64, 3);
    return select(ir::less(v[0], three), v[0], v[0] / three);
  }));
  EXPECT_EQ(run({item(DType::kU64, {2}, {-1, 2})}),
            (std::vector<double>{static_cast<double>(0xFFFFFFFFFFFFFFFFU / 3), 2}));
}

TEST_F(InterpretTest, BranchesNotTakenMayLoadOutOfBounds) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  output(b.map({n + 4}, [&](Body& body) {
    const Scalar i = body.index(body.i[0]);
    const Scalar inside = binary(ScalarOp::kAnd, less_equal(body.index(number(2)), i), less(i, body.index(n + 2)));
    return select(inside, body.load(x, std::vector<Expr>{body.i[0] - 2}), body.number(DType::kF32, -1));
  }));
  EXPECT_EQ(run({item(DType::kF32, {2}, {7, 8})}), (std::vector<double>{-1, -1, 7, 8, -1, -1}));
  EXPECT_EQ(run({item(DType::kF32, {0}, {})}), (std::vector<double>{-1, -1, -1, -1}));
}

TEST_F(InterpretTest, ConditionThatItselfLoadsIsLazyToo) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  output(b.map({n + 1}, [&](Body& body) {
    const Scalar element = body.load(x, {body.i[0]});
    const Scalar guarded = select(less(body.index(body.i[0]), body.index(n)), element, body.number(DType::kF32, 0));
    return select(less(body.number(DType::kF32, 5), guarded), element, body.number(DType::kF32, 1));
  }));
  EXPECT_EQ(run({item(DType::kF32, {2}, {4, 6})}), (std::vector<double>{1, 6, 1}));
}

TEST_F(InterpretTest, LoadOutOfBoundsIsAnInternalErrorThatNamesTheIndex) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  b.source = "Slice node 's'";
  output(b.map({n}, [&](Body& body) { return body.load(x, {body.i[0] + 1}); }));
  try {
    run({item(DType::kF32, {3}, {1, 2, 3})});
    FAIL();
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("Slice node 's'"), std::string::npos) << text;
    EXPECT_NE(text.find("index 3 of axis 0, whose extent is 3"), std::string::npos) << text;
  }
}

TEST_F(InterpretTest, GatherChecksItsIndices) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n, number(2)});
  Value* at = input("at", DType::kI64, numbers({3}));
  b.source = "Gather node 'pick'";
  output(b.gather(x, at, 0));
  const Item data = item(DType::kF32, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run({data, item(DType::kI64, {3}, {1, -2, -1})}), (std::vector<double>{3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(message_of([&] { run({data, item(DType::kI64, {3}, {1, 2, 0})}); }),
            "Gather node 'pick': index 2 is out of range for an extent of 2");
  EXPECT_EQ(message_of([&] { run({data, item(DType::kI64, {3}, {0, 0, -3})}); }),
            "Gather node 'pick': index -3 is out of range for an extent of 2");
  EXPECT_EQ(message_of([&] { run({item(DType::kF32, {0, 2}, {}), item(DType::kI64, {3}, {0, 0, 0})}); }),
            "Gather node 'pick': index 0 is out of range for an extent of 0");
}

TEST_F(InterpretTest, NegativeExtentIsAUserError) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  b.source = "Slice node 's'";
  output(b.map({n - 5}, [&](Body& body) { return body.load(x, {body.i[0]}); }));
  const std::string text = message_of([&] { interpret(graph, {item(DType::kF32, {3}, {1, 2, 3})}); });
  EXPECT_EQ(text, "Slice node 's': an extent of the result is -2");
}

TEST_F(InterpretTest, AbsurdSizeIsAUserErrorThatNamesBytes) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  b.source = "Expand node 'e'";
  output(b.map({number(1 << 30), number(1 << 30), n}, [&](Body& body) { return body.load(x, {body.i[2]}); }));
  const std::string text = message_of([&] { interpret(graph, {item(DType::kF32, {3}, {1, 2, 3})}); });
  EXPECT_NE(text.find("Expand node 'e'"), std::string::npos) << text;
  EXPECT_NE(text.find("bytes"), std::string::npos) << text;
}

// ---- reductions

TEST_F(InterpretTest, EveryCombinerOverNothingIsNeutral) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  Value* k = input("k", DType::kI32, {n});
  Value* p = input("p", DType::kBool, {n});
  const auto reduce = [&](Combiner c, Value* v) { output(b.reduce_axes(c, v, {0}, false, v->type.dtype)); };
  for (Combiner c : {Combiner::kSum, Combiner::kProd, Combiner::kMax, Combiner::kMin, Combiner::kArgMaxFirst})
    reduce(c, x);
  for (Combiner c : {Combiner::kSum, Combiner::kProd, Combiner::kMax, Combiner::kMin, Combiner::kArgMinLast})
    reduce(c, k);
  for (Combiner c : {Combiner::kAnd, Combiner::kOr}) reduce(c, p);
  verify(graph);
  const auto results =
      interpret(graph, {item(DType::kF32, {0}, {}), item(DType::kI32, {0}, {}), item(DType::kBool, {0}, {})});
  std::vector<double> values;
  for (const Item& r : results) values.push_back(values_of(r.tensor)[0]);
  EXPECT_EQ(values, (std::vector<double>{0, 1, -kInf, kInf, 0, 0, 1, -2147483648.0, 2147483647.0, 0, 1, 0}));
}

TEST_F(InterpretTest, NanWinsAndTiesFollowTheCombiner) {
  Value* x = input("x", DType::kF32, numbers({2, 4}));
  for (Combiner c : {Combiner::kMax, Combiner::kMin, Combiner::kArgMaxFirst, Combiner::kArgMaxLast,
                     Combiner::kArgMinFirst, Combiner::kArgMinLast}) {
    output(b.reduce_axes(c, x, {1}, false, DType::kF32));
  }
  const auto results = interpret(graph, {item(DType::kF32, {2, 4}, {1, kNan, 3, kNan, 5, 2, 5, 2})});
  std::vector<std::vector<double>> v;
  for (const Item& r : results) v.push_back(values_of(r.tensor));
  EXPECT_TRUE(std::isnan(v[0][0]) && std::isnan(v[1][0]));
  EXPECT_EQ(v[0][1], 5);
  EXPECT_EQ(v[1][1], 2);
  EXPECT_EQ(v[2], (std::vector<double>{1, 0}));
  EXPECT_EQ(v[3], (std::vector<double>{3, 2}));
  EXPECT_EQ(v[4], (std::vector<double>{1, 1}));
  EXPECT_EQ(v[5], (std::vector<double>{3, 3}));
}

TEST_F(InterpretTest, ArgOfInfinitiesIsTheirPlace) {
  Value* x = input("x", DType::kF32, numbers({3}));
  output(b.reduce_axes(Combiner::kArgMaxFirst, x, {0}, false, DType::kF32));
  EXPECT_EQ(run({item(DType::kF32, {3}, {-kInf, -kInf, -kInf})}), (std::vector<double>{0}));
}

TEST_F(InterpretTest, SumsOfAllShapesMatchPlainLoops) {
  const Expr n = dim("n"), m = dim("m"), k = dim("k");
  Value* x = input("x", DType::kF32, {n, m, k});
  output(b.reduce_axes(Combiner::kSum, x, {0, 2}, false, DType::kF32));
  for (auto [p, q, r] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {2, 40, 70}, {1, 3, 3000}, {1100, 2, 1}, {4, 1, 0}}) {
    const auto v = random_values(p * q * r);
    std::vector<double> expected(static_cast<size_t>(q), 0.0);
    for (int64_t i = 0; i < p * q * r; ++i) expected[i / r % q] += v[i];
    expect_near(run({item(DType::kF32, {p, q, r}, v)}), expected, 1e-4);
  }
}

TEST_F(InterpretTest, IntegerSumsWrapToTheirType) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kI32, {n});
  output(b.reduce_axes(Combiner::kSum, x, {0}, false, DType::kI32));
  EXPECT_EQ(run({item(DType::kI32, {3}, {2147483647, 2147483647, 3})}), (std::vector<double>{1}));
}

TEST_F(InterpretTest, EpilogueSeesTheAccumulatorAndLoads) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, m});
  Value* bias = input("bias", DType::kF32, {n});
  output(b.reduce(
      Combiner::kSum, DType::kF32, {n}, {m}, [&](Body& body) { return body.load(x, {body.i[0], body.r[0]}); },
      [&](Body& body, Scalar sum) { return sum * sum + body.load(bias, body.i); }));
  EXPECT_EQ(run({item(DType::kF32, {2, 2}, {1, 2, 3, 4}), item(DType::kF32, {2}, {10, 20})}),
            (std::vector<double>{19, 69}));
}

// ---- contractions

TEST_F(InterpretTest, MatrixProductsOfAllLayouts) {
  const Expr m = dim("m"), n = dim("n"), k = dim("k");
  for (int layout = 0; layout < 4; ++layout) {
    graph.inputs.clear();
    graph.outputs.clear();
    graph.body.outputs.clear();
    graph.body.ops.clear();
    graph.body.inputs.clear();
    const bool a_transposed = layout & 1, b_transposed = layout & 2;
    Value* x = input("x", DType::kF32, a_transposed ? std::vector<Expr>{k, m} : std::vector<Expr>{m, k});
    Value* y = input("y", DType::kF32, b_transposed ? std::vector<Expr>{n, k} : std::vector<Expr>{k, n});
    output(b.reduce(Combiner::kSum, DType::kF32, {m, n}, {k}, [&](Body& body) {
      const Expr i = body.i[0], j = body.i[1], r = body.r[0];
      return body.load(x, a_transposed ? std::vector<Expr>{r, i} : std::vector<Expr>{i, r}) *
             body.load(y, b_transposed ? std::vector<Expr>{j, r} : std::vector<Expr>{r, j});
    }));
    for (auto [p, q, s] : {std::array<int64_t, 3>{1, 1, 1},
                           {7, 5, 3},
                           {33, 70, 41},
                           {1, 600, 30},
                           {600, 1, 31},
                           {1, 1, 9000},
                           {5, 6, 0}}) {
      const auto u = random_values(p * s), v = random_values(s * q);
      std::vector<double> expected(static_cast<size_t>(p * q), 0.0);
      for (int64_t i = 0; i < p; ++i) {
        for (int64_t j = 0; j < q; ++j) {
          for (int64_t r = 0; r < s; ++r) {
            expected[i * q + j] += u[a_transposed ? r * p + i : i * s + r] * v[b_transposed ? j * s + r : r * q + j];
          }
        }
      }
      expect_near(run({item(DType::kF32, a_transposed ? std::vector<int64_t>{s, p} : std::vector<int64_t>{p, s}, u),
                       item(DType::kF32, b_transposed ? std::vector<int64_t>{q, s} : std::vector<int64_t>{s, q}, v)}),
                  expected, 1e-4);
    }
  }
}

TEST_F(InterpretTest, StridedConvolutionMatchesPlainLoops) {
  constexpr int64_t kChannels = 5, kOut = 6, kSize = 13, kWindow = 3, kStride = 2,
                    kResult = (kSize - kWindow) / kStride + 1;
  Value* x = input("x", DType::kF32, numbers({2, kChannels, kSize, kSize}));
  Value* w = input("w", DType::kF32, numbers({kOut, kChannels, kWindow, kWindow}));
  output(b.reduce(Combiner::kSum, DType::kF32, numbers({2, kOut, kResult, kResult}),
                  numbers({kChannels, kWindow, kWindow}), [&](Body& body) {
                    return body.load(x, {body.i[0], body.r[0], body.i[2] * kStride + body.r[1],
                                         body.i[3] * kStride + body.r[2]}) *
                           body.load(w, {body.i[1], body.r[0], body.r[1], body.r[2]});
                  }));
  const auto u = random_values(2 * kChannels * kSize * kSize), v = random_values(kOut * kChannels * kWindow * kWindow);
  std::vector<double> expected;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t o = 0; o < kOut; ++o) {
      for (int64_t y = 0; y < kResult; ++y) {
        for (int64_t z = 0; z < kResult; ++z) {
          double sum = 0;
          for (int64_t c = 0; c < kChannels; ++c) {
            for (int64_t p = 0; p < kWindow; ++p) {
              for (int64_t q = 0; q < kWindow; ++q) {
                sum += u[((n * kChannels + c) * kSize + y * kStride + p) * kSize + z * kStride + q] *
                       v[((o * kChannels + c) * kWindow + p) * kWindow + q];
              }
            }
          }
          expected.push_back(sum);
        }
      }
    }
  }
  expect_near(run({item(DType::kF32, {2, kChannels, kSize, kSize}, u),
                   item(DType::kF32, {kOut, kChannels, kWindow, kWindow}, v)}),
              expected, 1e-4);
}

TEST_F(InterpretTest, PackedWeightsAndPaddedInputs) {
  // Indices that are not affine: weights in panels of 8 columns, and an input that is padded where it is read.
  constexpr int64_t kM = 30, kN = 20, kK = 25;
  Value* x = input("x", DType::kF32, numbers({kM, kK - 4}));
  Value* w = input("w", DType::kF32, numbers({3, kK, 8}));
  output(b.reduce(Combiner::kSum, DType::kF32, numbers({kM, kN}), numbers({kK}), [&](Body& body) {
    const Expr r = body.r[0], j = body.i[1];
    const Scalar inside = binary(ScalarOp::kAnd, less_equal(body.index(number(2)), body.index(r)),
                                 less(body.index(r), body.index(number(kK - 2))));
    const Scalar element = select(inside, body.load(x, {body.i[0], r - 2}), body.number(DType::kF32, 0));
    return element * body.load(w, {floordiv(j, 8), r, mod(j, 8)});
  }));
  const auto u = random_values(kM * (kK - 4)), v = random_values(3 * kK * 8);
  std::vector<double> expected;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (int64_t r = 2; r < kK - 2; ++r) sum += u[i * (kK - 4) + r - 2] * v[(j / 8 * kK + r) * 8 + j % 8];
      expected.push_back(sum);
    }
  }
  expect_near(run({item(DType::kF32, {kM, kK - 4}, u), item(DType::kF32, {3, kK, 8}, v)}), expected, 1e-4);
}

TEST_F(InterpretTest, ContractionsReportFaultsToo) {
  Value* x = input("x", DType::kF32, numbers({40, 40}));
  Value* at = input("at", DType::kI64, numbers({40}));
  Value* w = input("w", DType::kF32, numbers({40, 40}));
  b.source = "Gather node 'g'";
  output(b.reduce(Combiner::kSum, DType::kF32, numbers({40, 40}), numbers({40}), [&](Body& body) {
    const Scalar row = body.checked(body.load(at, {body.i[0]}), number(40));
    return body.load(x, std::vector<Scalar>{row, body.index(body.r[0])}) * body.load(w, {body.r[0], body.i[1]});
  }));
  std::vector<double> rows(40, 3.0);
  const auto u = random_values(1600), v = random_values(1600);
  const auto result =
      run({item(DType::kF32, {40, 40}, u), item(DType::kI64, {40}, rows), item(DType::kF32, {40, 40}, v)});
  EXPECT_EQ(result[0], result[40]);
  rows[17] = 40;
  EXPECT_EQ(message_of([&] {
              run({item(DType::kF32, {40, 40}, u), item(DType::kI64, {40}, rows), item(DType::kF32, {40, 40}, v)});
            }),
            "Gather node 'g': index 40 is out of range for an extent of 40");
}

TEST_F(InterpretTest, IntegerProductsWithZeroPointsAreExact) {
  const Expr m = dim("m"), n = dim("n"), k = dim("k");
  Value* x = input("x", DType::kU8, {m, k});
  Value* y = input("y", DType::kI8, {k, n});
  Value* zx = input("zx", DType::kU8, {});
  Value* zy = input("zy", DType::kI8, {n});
  output(b.reduce(Combiner::kSum, DType::kI32, {m, n}, {k}, [&](Body& body) {
    const auto wide = [&](Scalar s) { return b.scalars().cast(DType::kI32, s); };
    return (wide(body.load(x, {body.i[0], body.r[0]})) - wide(body.load(zx))) *
           (wide(body.load(y, {body.r[0], body.i[1]})) - wide(body.load(zy, {body.i[1]})));
  }));
  constexpr int64_t kM = 9, kN = 20, kK = 77;
  const auto u = random_ints(kM * kK, 0, 255), v = random_ints(kK * kN, -128, 127), z = random_ints(kN, -128, 127);
  std::vector<double> expected;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < kK; ++r) sum += (u[i * kK + r] - 17) * (v[r * kN + j] - z[j]);
      expected.push_back(sum);
    }
  }
  EXPECT_EQ(run({item(DType::kU8, {kM, kK}, u), item(DType::kI8, {kK, kN}, v), item(DType::kU8, {}, {17}),
                 item(DType::kI8, {kN}, z)}),
            expected);
}

}  // namespace
}  // namespace stax::tensor
