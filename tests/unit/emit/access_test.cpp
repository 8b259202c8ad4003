// SPDX-License-Identifier: Apache-2.0
// Ways to reach memory: contiguous, strided, gathered, guarded, local; with nothing out of bounds touched.
#include <fmt/format.h>

#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

void check_extents(Comparison& comparison, const std::vector<int64_t>& extents = kExtents) {
  for (int64_t n : extents) {
    comparison.check({n}, static_cast<uint64_t>(n) + 3);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Access, StridedReversedAndBroadcast) {
  for (const char* type : {"f32", "f64", "u8", "i16", "bool", "f16"}) {
    Comparison comparison(fmt::format(R"(kernel @strides map {{
      param n 0 .. 1000
      argument 0 @x {0} [n, 3]
      argument 1 @one {0} [1]
      argument 2 @y {0} [n, 2] written
      argument 3 @z {0} [n] written
      argument 4 @w {0} [n] written
      for i in n vector 16 {{
        %2[i, 0] = load0[i, 1]
        %2[i, 1] = load0[i, 2]
        %3[n - 1 - i] = load0[i, 0]
        %4[i] = load1[0]
      }}
    }})",
                                      type));
    check_extents(comparison);
  }
}

TEST(Access, StridesFromParameters) {
  Comparison comparison(R"(kernel @transpose map {
    param m 0 .. 1000
    param n 0 .. 1000
    argument 0 @x f32 [m, n]
    argument 1 @y f32 [n, m] written
    for j in n { for i in m vector 16 { %1[j, i] = load0[i, j] } }
  })");
  for (int64_t m : {0, 1, 5, 16, 17, 33}) {
    for (int64_t n : {0, 1, 3, 16, 18}) comparison.check({m, n});
  }
}

TEST(Access, BlocksWithRowsAndColumnsExchanged) {
  for (const char* type : {"f32", "f64", "u8", "i16", "bool", "f16", "i64"}) {
    for (int rows : {8, 9, 12, 16, 17}) {
      // The last row of x ends where memory does; what a select keeps from being read is not there at all.
      Comparison comparison(fmt::format(R"(kernel @turned map {{
        param m 0 .. 1000
        param n 0 .. 1000
        argument 0 @x {0} [m, n*{1}]
        argument 1 @few {0} [m]
        argument 2 @y {0} [n*{1}, m] written
        argument 3 @z {0} [n*{1}, m] written
        for j in n {{
          for i in m vector 16 {{ for k in {1} unrolled {{ %2[j*{1} + k, i] = load0[i, j*{1} + k] }} }}
          for i2 in m vector 16 {{ for k2 in {1} unrolled {{
            %3[j*{1} + k2, i2] = select(cast<bool>([less(k2 + j, 3)]), load0[i2, j*{1} + k2 + 1 - less(j*{1} + k2, 1)], load1[i2])
          }} }}
        }}
      }})",
                                        type, rows));
      for (int64_t m : {0, 1, 15, 16, 17, 40})
        for (int64_t n : {0, 1, 3}) {
          comparison.check({m, n}, static_cast<uint64_t>(m * 7 + n));
          if (HasFatalFailure()) return;
        }
    }
  }
}

TEST(Access, DivisionAndModulo) {
  Comparison comparison(R"(kernel @fold map {
    param n 0 .. 1000
    argument 0 @x i32 [n, 12]
    argument 1 @y i32 [12*n] written
    argument 2 @z i32 [12*n] written
    argument 3 @w i64 [12*n] written
    for i in 12*n vector 16 {
      %1[i] = load0[floordiv(i, 12), mod(i, 12)]
      %2[i] = cast<i32>([floordiv(n - i, 5) + mod(i - 7, n)])
      %3[i] = [floordiv(i, n) + mod(i, 8) + min(i, 20) + max(i, n)]
    }
  })");
  check_extents(comparison, {0, 1, 2, 3, 7, 16, 33});
}

TEST(Access, PaddingReadsNothingOutside) {
  for (const char* type : {"f32", "u8", "i64", "bf16"}) {
    Comparison comparison(fmt::format(R"(kernel @pad map {{
      param n 0 .. 1000
      argument 0 @x {0} [n]
      argument 1 @y {0} [n + 10] written
      for i in n + 10 vector 16 {{
        %1[i] = select(and(cast<bool>([less(4, i)]), cast<bool>([less(i, n + 5)])), load0[i - 5], cast<{0}>([7]))
      }}
    }})",
                                      type));
    check_extents(comparison);
  }
}

TEST(Access, ConcatenationAsSelects) {
  Comparison comparison(R"(kernel @concat map {
    param n 0 .. 1000
    argument 0 @x f32 [n]
    argument 1 @y f32 [3]
    argument 2 @z f32 [2*n + 3] written
    for i in 2*n + 3 vector 16 {
      %2[i] = select(cast<bool>([less(i, n)]), load0[i], select(cast<bool>([less(i, n + 3)]), load1[i - n], load0[2*(i - n - 3) - (i - n - 3)]))
    }
  })");
  check_extents(comparison);
}

TEST(Access, ScalarSelectsAreBranches) {
  Comparison comparison(R"(kernel @pad map {
    param n 0 .. 1000
    argument 0 @x f32 [n]
    argument 1 @y f32 [n + 4] written
    for i in n + 4 { %1[i] = select(cast<bool>([less(1, i)]), select(cast<bool>([less(i, n + 2)]), exp(load0[i - 2]), 1.0:f32), 2.0:f32) }
  })");
  comparison.tolerance = {1e-6, 0};
  check_extents(comparison);
}

TEST(Access, UniformLoadsUnderAMask) {
  Comparison comparison(R"(kernel @uniform map {
    param n 0 .. 1000
    argument 0 @x f32 [n]
    argument 1 @y f32 [40] written
    for i in 40 vector 16 {
      %1[i] = select(cast<bool>([less(i, n)]), load0[n - 1], 5.0:f32)
    }
  })");
  check_extents(comparison, {0, 1, 5, 16, 33, 40, 50});
}

TEST(Access, GatherAndScatterByData) {
  for (const char* type : {"f32", "f64", "i8", "i16", "bool"}) {
    for (const char* index_type : {"i64", "i32"}) {
      Comparison comparison(fmt::format(R"(kernel @gather map {{
        param n 0 .. 1000
        argument 0 @x {0} [50]
        argument 1 @index {1} [n]
        argument 2 @y {0} [n] written
        argument 3 @z {0} [n, 2] written
        argument 4 @permutation {1} [n]
        for i in n vector 16 {{
          %2[i] = load0[{{cast<i64>(load1[i])}}]
          %3[{{cast<i64>(load4[i])}}, 0] = load2[i]
          %3[{{cast<i64>(load4[i])}}, 1] = load0[{{add(cast<i64>(load1[i]), [1])}}]
        }}
      }})",
                                        type, index_type));
      for (int64_t n : kExtents) {
        comparison.fill = [n](int slot, int64_t i) {
          ir::Value64 v;
          v.i = slot == 1 ? (i * 7) % 49 : slot == 4 ? n - 1 - i : (i * 13) % 2;
          return v;
        };
        if (type[0] == 'f') {
          comparison.fill = [n](int slot, int64_t i) {
            ir::Value64 v;
            if (slot == 0)
              v.f = static_cast<double>(i) / 4;
            else
              v.i = slot == 1 ? (i * 7) % 49 : n - 1 - i;
            return v;
          };
        }
        comparison.check({n});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Access, RowsChosenByDataAreContiguous) {
  const char* text = R"(kernel @embedding map {
    param m 0 .. 1000
    argument 0 @table f32 [10, 40]
    argument 1 @index i64 [m]
    argument 2 @y f32 [m, 40] written
    for r in m parallel { for i in 40 vector 16 { %2[r, i] = load0[{checked_index(load1[r], [10])}, i] } }
  })";
  Comparison comparison(text);
  comparison.fill = [](int slot, int64_t i) {
    ir::Value64 v;
    if (slot == 0)
      v.f = static_cast<double>(i);
    else
      v.i = i % 20 - 10;
    return v;
  };
  for (int64_t m : {0, 1, 7, 20}) {
    comparison.parallel = m;
    comparison.check({m});
  }
  EXPECT_EQ(emit_asm_text(loop::parse_kernel(text), Isa::kAvx512).find("gather"), std::string::npos);
}

TEST(Access, ScatterAddsInOrder) {
  for (const char* type : {"f32", "i16", "f64", "bf16"}) {
    for (const char* combiner : {"sum", "max"}) {
      Comparison comparison(fmt::format(R"(kernel @scatter scatter {{
        param n 0 .. 1000
        argument 0 @index i64 [n]
        argument 1 @x {0} [n]
        argument 2 @y {0} [5] written
        for i in n vector 16 {{ %2[{{load0[i]}}] {1}= load1[i] }}
      }})",
                                        type, combiner));
      comparison.tolerance = {1e-6, 1e-6};
      comparison.fill = [&](int slot, int64_t i) {
        ir::Value64 v;
        if (slot == 0)
          v.i = (i * i) % 5;
        else if (type[0] == 'i')
          v.i = i % 11 - 5;
        else
          v.f = static_cast<double>(i % 11 - 5);
        return v;
      };
      check_extents(comparison);
    }
  }
}

TEST(Access, GuardsBecomeMasks) {
  for (const char* type : {"f32", "u8", "f64"}) {
    Comparison comparison(fmt::format(R"(kernel @guard map {{
      param n 0 .. 1000
      argument 0 @x {0} [n]
      argument 1 @y {0} [n] written
      argument 2 @z {0} [n] written
      for io in floordiv(n + 31, 32) {{
        for ii in 32 vector 16 {{
          if cast<bool>([less(io*32 + ii, n)]) {{
            %1[io*32 + ii] = load0[io*32 + ii]
            if lt(load0[io*32 + ii], cast<{0}>([1])) {{ %2[io*32 + ii] = cast<{0}>([1]) }} else {{ %2[io*32 + ii] = load0[n - 1 - io*32 - ii] }}
          }}
        }}
      }}
    }})",
                                      type));
    check_extents(comparison);
  }
}

TEST(Access, LocalBuffers) {
  Comparison comparison(R"(kernel @local map {
    param n 0 .. 1000
    argument 0 @x f32 [n, 20]
    argument 1 @y f32 [n, 20] written
    argument 2 @z f32 [n] written
    local 3 @row f32 [20]
    local 4 @own f32 [3]
    for r in n {
      allocate 3 {
        for i in 20 vector 16 { %3[i] = mul(load0[r, i], 2.0:f32) }
        for i2 in 20 vector 16 { %1[r, i2] = load3[19 - i2] }
        for i3 in 19 { %3[i3 + 1] sum= load3[i3] }
        %2[r] = load3[19]
      }
    }
    for v in n vector 16 {
      allocate 4 {
        for u in 3 unrolled { %4[u] = load0[v, u] }
        for u2 in 2 unrolled { %4[u2 + 1] max= load4[u2] }
        %2[v] sum= load4[2]
      }
    }
  })");
  comparison.tolerance = {1e-5, 1e-5};
  check_extents(comparison, {0, 1, 2, 15, 16, 17, 40});
}

TEST(Access, LocalBuffersOfDynamicExtent) {
  Comparison comparison(R"(kernel @scratch map {
    param m 0 .. 1000
    param n 0 .. 1000
    argument 0 @x f64 [m, n]
    argument 1 @y f64 [m, n] written
    local 2 @row f64 [n]
    local 3 @flags bool [n + 1]
    for r in m parallel {
      allocate 2 { allocate 3 {
        for i in n vector 8 { %2[i] = load0[r, i] %3[i + 1] = lt(load0[r, i], 0.0:f64) }
        for i2 in n vector 8 { %1[r, i2] = select(load3[i2 + 1], load2[n - 1 - i2], 1.0:f64) }
      } }
    }
  })");
  for (int64_t m : {0, 1, 3}) {
    for (int64_t n : {0, 1, 7, 8, 9, 100}) {
      comparison.parallel = m;
      comparison.check({m, n});
    }
  }
  auto kernel = loop::parse_kernel(
      "kernel @k map { param n 0 .. 1000 argument 0 @y f32 [1] written local 1 @a f32 [n] local 2 @b u8 [3*n] local 3 "
      "@c f32 [16] "
      "allocate 1 { allocate 2 { allocate 3 { %1[0] = 0.0:f32 %2[0] = cast<u8>([0]) %3[0] = 1.0:f32 } } } }");
  std::unordered_map<const symbolic::ExprNode*, int64_t> values{{kernel.params[0].node(), 20}};
  EXPECT_EQ(symbolic::evaluate(scratch_bytes(kernel), values), 128 + 64);
}

TEST(Access, RegisterTilesOfAnyShape) {
  for (const char* type : {"f32", "f64", "i32", "bf16"}) {
    Comparison comparison(fmt::format(R"(kernel @tile contraction {{
      param m 0 .. 1000
      param n 0 .. 1000
      param k 0 .. 1000
      argument 0 @a {0} [m, k]
      argument 1 @b {0} [k, n]
      argument 2 @c {0} [m, n] written
      local 3 @acc {0} [4, 32]
      for io in floordiv(m + 3, 4) {{ for jo in floordiv(n + 31, 32) {{
        allocate 3 {{
          for i in 4 unrolled {{ for j in min(32, n - jo*32) vector 16 {{ %3[i, j] = cast<{0}>([0]) }} }}
          for kk in k {{ for i2 in 4 unrolled {{ for j2 in min(32, n - jo*32) vector 16 {{
            %3[i2, j2] sum= mul(load0[min(io*4 + i2, m - 1), kk], load1[kk, jo*32 + j2]) }} }} }}
          for i3 in 4 unrolled {{ for j3 in 32 vector 16 {{
            if and(cast<bool>([less(io*4 + i3, m)]), cast<bool>([less(jo*32 + j3, n)])) {{ %2[io*4 + i3, jo*32 + j3] = load3[i3, j3] }} }} }}
        }}
      }} }}
    }})",
                                      type));
    comparison.tolerance = {std::string(type) == "bf16" ? 0.1 : 1e-5, std::string(type) == "bf16" ? 0.5 : 1e-5};
    for (int64_t m : {0, 1, 4, 5}) {
      for (int64_t n : {0, 1, 15, 16, 31, 32, 33, 50}) {
        for (int64_t k : {0, 1, 9}) {
          comparison.check({m, n, k});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Access, InPlace) {
  Comparison comparison(R"(kernel @in_place map {
    param n 0 .. 1000
    argument 0 @x f32 [n] written
    for i in n vector 16 { %0[i] = mul(load0[i], add(load0[i], 1.0:f32)) }
  })");
  comparison.tolerance = {1e-6, 0};
  check_extents(comparison);
}

// Results of 64 MiB and more are stored past the caches, where vectors are aligned: none of a row of odd length but each sixteenth.
TEST(Access, LargeResults) {
  for (Isa isa : testable_isas()) {
    const Native native(R"(kernel @large map {
      param m 0 .. 2147483647
      param n 0 .. 2147483647
      argument 0 @x f32 [n]
      argument 1 @y f32 [m, n] written
      for i in m parallel { for j in n vector 16 { %1[i, j] = mul(load0[j], 3.0:f32) } }
    })",
                        isa);
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{4096, 4096}, {4099, 4097}}) {
      const Guarded x(static_cast<size_t>(n) * 4), y(static_cast<size_t>(m * n) * 4);
      for (int64_t j = 0; j < n; ++j) x.as<float>()[j] = static_cast<float>(j % 1021);
      native.run({x.data(), y.data()}, {m, n}, 0, m / 2);
      native.run({x.data(), y.data()}, {m, n}, m / 2, m);
      int64_t wrong = 0;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) wrong += y.as<float>()[i * n + j] != static_cast<float>(j % 1021) * 3;
      EXPECT_EQ(wrong, 0) << name_of(isa) << " " << m << " x " << n;
    }
  }
}

}  // namespace
}  // namespace stax::emit
