// SPDX-License-Identifier: Apache-2.0
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
  std::unique_ptr<Block> block() {
    auto result = std::make_unique<Block>();
    result->graph = &graph;
    return result;
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

// ---- shapes and symbols

TEST_F(InterpretTest, BindGivesSymbolsTheirValues) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* k = input("k", DType::kI64, {});
  b.source = "Slice node 's'";
  const Expr count = b.host_int(k, {0, 4});
  output(b.map({count}, [&](Body& body) { return body.load(x, {body.i[0]}); }));
  const Item data = item(DType::kF32, {5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(run({data, item(DType::kI64, {}, {2})}), (std::vector<double>{1, 2}));
  const std::string text = message_of([&] { run({data, item(DType::kI64, {}, {5})}); });
  EXPECT_NE(text.find("Slice node 's'"), std::string::npos) << text;
  EXPECT_NE(text.find("is 5, outside its range 0 .. 4"), std::string::npos) << text;
}

TEST_F(InterpretTest, CheckFormatsItsMessage) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n});
  Value* y = input("y", DType::kF32, {m});
  output(b.binary(ScalarOp::kAdd, x, y));
  graph.add_op(graph.body, Check{equal(n, m), "extents {0} and {1} {differ} {7}", {n, m}}, {}, {}, {}, "Op node 'o'",
               graph.body.ops.front().get());
  EXPECT_EQ(message_of([&] { interpret(graph, {item(DType::kF32, {2}, {1, 2}), item(DType::kF32, {3}, {1, 2, 3})}); }),
            "extents 2 and 3 {differ} {7}");
}

class ReshapeDynamicTest : public InterpretTest {
 protected:
  std::vector<int64_t> reshape(const std::vector<int64_t>& from, const std::vector<double>& shape,
                               bool allow_zero = false) {
    Graph g(std::make_shared<ir::Context>());
    std::vector<Expr> extents, all;
    for (int64_t e : from) extents.push_back(g.exprs().constant(e));
    Value* x = g.add_input(g.body, Type::tensor(DType::kF32, extents), "x");
    Value* s = g.add_input(g.body, Type::tensor(DType::kI64, {g.exprs().constant(static_cast<int64_t>(shape.size()))}),
                           "shape");
    g.inputs = {{"x", x}, {"shape", s}};
    Type type = Type::tensor(DType::kF32, {});
    const auto symbol = [&](const char* name) {
      all.push_back(g.exprs().new_symbol({.name = name, .kind = symbolic::SymbolKind::kValue}));
      return all.back();
    };
    type.rank = symbol("rank");
    for (int k = 0; k < kMaxRank; ++k) type.extents.push_back(symbol("e"));
    Op* op = g.add_op(g.body, ReshapeDynamic{allow_zero}, {x, s}, {type}, all, "Reshape node 'r'");
    g.outputs = {{"y", op->result()}};
    g.body.outputs = {op->result()};
    verify(g);
    int64_t count = 1;
    for (int64_t e : from) count *= e;
    return interpret(g, {item(DType::kF32, from, std::vector<double>(static_cast<size_t>(count), 1.0)),
                         item(DType::kI64, {static_cast<int64_t>(shape.size())}, shape)})[0]
        .tensor.extents();
  }
};

TEST_F(ReshapeDynamicTest, FollowsOnnx) {
  using E = std::vector<int64_t>;
  EXPECT_EQ(reshape({2, 6}, {3, 4}), (E{3, 4}));
  EXPECT_EQ(reshape({2, 6}, {0, 3, -1}), (E{2, 3, 2}));
  EXPECT_EQ(reshape({1}, {}), (E{}));
}

TEST_F(ReshapeDynamicTest, NamesBothCounts) {
  EXPECT_EQ(message_of([&] { reshape({2, 6}, {5, 2}); }),
            "Reshape node 'r': a tensor of [2, 6] with 12 elements cannot be reshaped to [5, 2], which has 10");
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-1, -1}); }).find("more than one -1"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-1, 5}); }).find("-1 of the shape [-1, 5]"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({2, 6}, {-2}); }).find("negative"), std::string::npos);
  EXPECT_NE(message_of([&] { reshape({4}, {4, 0}); }).find("copies axis 1"), std::string::npos);
}

TEST_F(InterpretTest, RunTimeRankGoesThroughOps) {
  // Reshape to a shape of unknown length, negate, give back.
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* s = input("shape", DType::kI64, {dim("rank", 0, kMaxRank)});
  std::vector<Expr> defines;
  Type type = Type::tensor(DType::kF32, {});
  type.rank = b.new_symbol("rank", {0, kMaxRank});
  defines.push_back(type.rank);
  for (int k = 0; k < kMaxRank; ++k) type.extents.push_back(b.new_symbol("e", {0, symbolic::kMaxExtent}));
  defines.insert(defines.end(), type.extents.begin(), type.extents.end());
  Value* r = b.op(ReshapeDynamic{}, {x, s}, {type}, defines)->result();
  output(b.unary(ScalarOp::kNeg, r));
  verify(graph);
  const auto result = interpret(graph, {item(DType::kF32, {4}, {1, 2, 3, 4}), item(DType::kI64, {3}, {2, 1, 2})});
  EXPECT_EQ(result[0].tensor.extents(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(values_of(result[0].tensor), (std::vector<double>{-1, -2, -3, -4}));
}

// ---- inputs

class BindInputsTest : public InterpretTest {
 protected:
  void SetUp() override {
    const Expr batch = dim("batch", 1, 64);
    input("pixels", DType::kF32, {batch, number(3)});
    Value* y = input("offsets", DType::kF32, {batch});
    output(b.unary(ScalarOp::kNeg, y));
  }
  std::string bind(const Item& pixels, const Item& offsets) {
    return message_of([&] { bind_inputs(graph, {pixels, offsets}); });
  }
  Item zeros(DType t, const std::vector<int64_t>& extents) {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return item(t, extents, std::vector<double>(static_cast<size_t>(n), 0.0));
  }
};

TEST_F(BindInputsTest, SaysWhatIsWrong) {
  const Item offsets = zeros(DType::kF32, {2});
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 3}), offsets), "no error");
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 3, 1}), offsets), "input 'pixels' has rank 3, expected 2");
  EXPECT_EQ(bind(zeros(DType::kF64, {2, 3}), offsets), "input 'pixels' has type float64, expected float32");
  EXPECT_EQ(bind(zeros(DType::kF32, {2, 4}), offsets), "input 'pixels' has extent 4 on axis 1, expected 3");
  EXPECT_EQ(bind(zeros(DType::kF32, {3, 3}), offsets),
            "dim 'batch' is 3 in input 'pixels' (axis 0) but 2 in input 'offsets' (axis 0); they must agree");
  EXPECT_EQ(bind(zeros(DType::kF32, {65, 3}), zeros(DType::kF32, {65})),
            "input 'pixels': dim 'batch' (axis 0) is 65, outside its range 1 .. 64");
  EXPECT_EQ(message_of([&] { bind_inputs(graph, {offsets}); }), "1 inputs are given, the model has 2");
  Item sequence;
  sequence.is_sequence = true;
  EXPECT_EQ(bind(sequence, offsets), "input 'pixels' is a sequence, expected a tensor");
}

// ---- scatter, scans, control flow

TEST_F(InterpretTest, ScatterOverwritesInOrderAndAdds) {
  Value* x = input("x", DType::kF16, {dim("n")});
  Value* at = input("at", DType::kI64, {dim("m")});
  Value* v = input("v", DType::kF16, {dim("m2")});
  for (Combiner mode : {Combiner::kNone, Combiner::kSum, Combiner::kMax}) {
    output(b.scatter(x, {at->type.extents[0]}, mode, [&](Body& body) {
      const Scalar index = body.checked(body.load(at, body.i), x->type.extents[0]);
      return Builder::ScatterPoint{
          {index}, body.load(v, body.i), less(body.load(v, body.i), body.number(DType::kF16, 100))};
    }));
  }
  const std::vector<Item> inputs{item(DType::kF16, {3}, {1, 2, 3}), item(DType::kI64, {4}, {0, -1, 0, 77}),
                                 item(DType::kF16, {4}, {10, 20, 30, 200})};
  verify(graph);
  const auto r = interpret(graph, inputs);
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{30, 2, 20}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{41, 2, 23}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{30, 2, 20}));
}

TEST_F(InterpretTest, PrefixScans) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  for (int k = 0; k < 4; ++k) {
    output(b.op(PrefixScan{1, Combiner::kSum, (k & 1) != 0, (k & 2) != 0}, {x}, {x->type})->result());
  }
  output(b.op(PrefixScan{0, Combiner::kProd, false, false}, {x}, {x->type})->result());
  const auto r = interpret(graph, {item(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(values_of(r[3].tensor), (std::vector<double>{5, 3, 0, 11, 6, 0}));
  EXPECT_EQ(values_of(r[4].tensor), (std::vector<double>{1, 2, 3, 4, 10, 18}));
}

TEST_F(InterpretTest, NonzeroDefinesItsCount) {
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  const Expr found = b.new_symbol("found", {0, symbolic::kMaxExtent});
  Value* at = b.op(NonZero{}, {x}, {Type::tensor(DType::kI64, {number(2), found})}, {found})->result();
  output(b.pointwise({at}, [&](std::span<const Scalar> v) { return v[0] + v[0]; }));
  EXPECT_EQ(run({item(DType::kF32, {2, 2}, {0, 1, kNan, 0})}), (std::vector<double>{0, 2, 2, 0}));
  EXPECT_TRUE(run({item(DType::kF32, {1, 2}, {0, 0})}).empty());
}

TEST_F(InterpretTest, IfTakesOneBranchAndBindsExtents) {
  Value* c = input("c", DType::kBool, {});
  Value* x = input("x", DType::kF32, {dim("n")});
  If branch;
  branch.then_block = block();
  branch.else_block = block();
  Builder then_builder(graph, *branch.then_block), else_builder(graph, *branch.else_block);
  branch.then_block->outputs = {then_builder.unary(ScalarOp::kNeg, x)};
  branch.else_block->outputs = {else_builder.slice(x, 0, number(0), number(1), number(1))};
  const Expr m = b.new_symbol("m", {0, symbolic::kMaxExtent});
  Value* y = b.op(std::move(branch), {c}, {Type::tensor(DType::kF32, {m})}, {m})->result();
  output(b.pointwise({y}, [](std::span<const Scalar> v) { return v[0] + v[0]; }));
  const Item data = item(DType::kF32, {2}, {1, 2});
  EXPECT_EQ(run({item(DType::kBool, {}, {1}), data}), (std::vector<double>{-2, -4}));
  EXPECT_EQ(run({item(DType::kBool, {}, {0}), data}), (std::vector<double>{2}));
}

class LoopTest : public InterpretTest {
 protected:
  // sum += x[iteration]; scans the sum; goes on while sum < limit.
  void SetUp() override {
    Value* trips = input("trips", DType::kI64, {});
    Value* go = input("go", DType::kBool, {});
    Value* start = input("start", DType::kF32, {});
    Value* x = input("x", DType::kF32, {dim("n")});
    Loop loop;
    loop.has_trip_count = loop.has_condition = true;
    loop.carried = 1;
    loop.body = block();
    Value* iteration = graph.add_input(*loop.body, Type::tensor(DType::kI64, {}), "iteration");
    Value* sum = graph.add_input(*loop.body, Type::tensor(DType::kF32, {}), "sum");
    Builder inner(graph, *loop.body);
    Value* next = inner.map({}, [&](Body& body) {
      return body.load(sum) + body.load(x, std::vector<Scalar>{body.checked(body.load(iteration), x->type.extents[0])});
    });
    Value* condition = inner.pointwise(
        {next}, [&](std::span<const Scalar> v) { return less(v[0], graph.scalars().constant(DType::kF32, 10)); });
    loop.body->outputs = {condition, next, next};
    const Expr count = b.new_symbol("count", {0, symbolic::kMaxExtent});
    Op* op = b.op(std::move(loop), {trips, go, start},
                  {Type::tensor(DType::kF32, {}), Type::tensor(DType::kF32, {count})}, {count});
    output(op->result(0), "sum");
    output(op->result(1), "scan");
  }
  std::pair<double, std::vector<double>> loop(int64_t trips, bool go) {
    verify(graph);
    const auto r =
        interpret(graph, {item(DType::kI64, {}, {static_cast<double>(trips)}), item(DType::kBool, {}, {go ? 1.0 : 0.0}),
                          item(DType::kF32, {}, {0.5}), item(DType::kF32, {4}, {1, 2, 3, 40})});
    return {values_of(r[0].tensor)[0], values_of(r[1].tensor)};
  }
};

TEST_F(LoopTest, RunsWhileBothHold) {
  EXPECT_EQ(loop(2, true), (std::pair{3.5, std::vector<double>{1.5, 3.5}}));
  EXPECT_EQ(loop(9, true), (std::pair{46.5, std::vector<double>{1.5, 3.5, 6.5, 46.5}})) << "the condition ends it";
  EXPECT_EQ(loop(0, true), (std::pair{0.5, std::vector<double>{}}));
  EXPECT_EQ(loop(5, false), (std::pair{0.5, std::vector<double>{}}));
}

TEST_F(InterpretTest, LoopCarriesAGrowingTensor) {
  Value* trips = input("trips", DType::kI64, {});
  Value* start = input("start", DType::kF32, {number(1)});
  Loop loop;
  loop.has_trip_count = true;
  loop.carried = 1;
  loop.body = block();
  const Expr inside = b.new_symbol("inside", {0, symbolic::kMaxExtent}),
             after = b.new_symbol("after", {0, symbolic::kMaxExtent});
  loop.body_defines = {inside};
  graph.add_input(*loop.body, Type::tensor(DType::kI64, {}), "iteration");
  Value* x = graph.add_input(*loop.body, Type::tensor(DType::kF32, {inside}), "x");
  Builder inner(graph, *loop.body);
  loop.body->outputs = {inner.concat({x, x}, 0)};
  output(b.op(std::move(loop), {trips, start}, {Type::tensor(DType::kF32, {after})}, {after})->result());
  EXPECT_EQ(run({item(DType::kI64, {}, {3}), item(DType::kF32, {1}, {5})}), std::vector<double>(8, 5.0));
  EXPECT_EQ(run({item(DType::kI64, {}, {0}), item(DType::kF32, {1}, {5})}), std::vector<double>(1, 5.0));
}

TEST_F(InterpretTest, Sequences) {
  Value* x = input("x", DType::kF32, {dim("n"), number(2)});
  Value* at = input("at", DType::kI64, {});
  const Type list = Type::sequence(DType::kF32, 2);
  b.source = "SequenceAt node 'a'";
  Value* parts = b.op(SplitToSequence{0, true}, {x}, {list})->result();
  Value* length = b.op(SequenceLength{}, {parts}, {Type::tensor(DType::kI64, {})})->result();
  Value* grown = b.op(SequenceInsert{}, {parts, x, at}, {list})->result();
  Value* less_one = b.op(SequenceErase{}, {grown}, {list})->result();
  const Expr rows = b.new_symbol("rows", {0, symbolic::kMaxExtent}),
             columns = b.new_symbol("columns", {0, symbolic::kMaxExtent});
  const Expr rows2 = b.new_symbol("rows", {0, symbolic::kMaxExtent}),
             columns2 = b.new_symbol("columns", {0, symbolic::kMaxExtent});
  output(length, "length");
  output(b.op(SequenceAt{}, {grown, at}, {Type::tensor(DType::kF32, {rows, columns})}, {rows, columns})->result(),
         "picked");
  output(
      b.op(ConcatFromSequence{0, false}, {less_one}, {Type::tensor(DType::kF32, {rows2, columns2})}, {rows2, columns2})
          ->result(),
      "joined");
  verify(graph);
  const Item data = item(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto r = interpret(graph, {data, item(DType::kI64, {}, {1})});
  EXPECT_EQ(values_of(r[0].tensor), (std::vector<double>{2}));
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(values_of(r[2].tensor), (std::vector<double>{1, 2, 1, 2, 3, 4}));
  EXPECT_EQ(message_of([&] { interpret(graph, {data, item(DType::kI64, {}, {9})}); }),
            "SequenceAt node 'a': position 9 is out of range for a sequence of 2");
}

TEST_F(InterpretTest, TopKAndUniqueAndDeterminant) {
  Value* x = input("x", DType::kF32, numbers({2, 3}));
  Op* top = b.op(TopK{1, true}, {x},
                 {Type::tensor(DType::kF32, numbers({2, 2})), Type::tensor(DType::kI64, numbers({2, 2}))});
  const Expr m = b.new_symbol("m", {0, symbolic::kMaxExtent});
  Op* unique = b.op(Unique{}, {x},
                    {Type::tensor(DType::kF32, {m}), Type::tensor(DType::kI64, {m}),
                     Type::tensor(DType::kI64, numbers({6})), Type::tensor(DType::kI64, {m})},
                    {m});
  Value* square = input("square", DType::kF64, numbers({1, 2, 2}));
  Value* determinant = b.op(Determinant{}, {square}, {Type::tensor(DType::kF64, numbers({1}))})->result();
  for (int k : {0, 1}) output(top->result(k));
  for (int k : {0, 1, 2, 3}) output(unique->result(k));
  output(determinant);
  verify(graph);
  const auto r =
      interpret(graph, {item(DType::kF32, {2, 3}, {3, 1, 3, kNan, 1, 0}), item(DType::kF64, {1, 2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values_of(r[1].tensor), (std::vector<double>{0, 2, 0, 1}));
  EXPECT_EQ(values_of(r[3].tensor), (std::vector<double>{5, 1, 0, 3}));
  EXPECT_EQ(values_of(r[4].tensor), (std::vector<double>{2, 1, 2, 3, 1, 0}));
  EXPECT_EQ(values_of(r[5].tensor), (std::vector<double>{1, 2, 2, 1}));
  EXPECT_EQ(values_of(r[6].tensor), (std::vector<double>{-2}));
}

}  // namespace
}  // namespace stax::tensor
