// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

using ir::DType;

TEST(Reduction, EveryCombinerOnEveryType) {
  for (int t = 0; t < ir::kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    for (const char* combiner : {"sum", "prod", "min", "max", "and", "or"}) {
      const bool logical = combiner[0] == 'a' || combiner[0] == 'o';
      const bool order = combiner[0] == 'm';
      if (type == DType::kBool ? !logical && !order : logical && ir::is_float(type)) continue;
      Comparison comparison(fmt::format(R"(kernel @reduce reduction {{
        param n 0 .. 1000
        argument 0 @x {0} [n]
        argument 1 @y {0} [1] written
        argument 2 @z {0} [2] written
        for i in n vector 16 {{ %1[0] {1}= load0[i] }}
        for i2 in 37 vector 16 {{ if cast<bool>([less(i2, n)]) {{ %2[1] {1}= load0[i2] }} }}
      }})",
                                        ir::name_of(type), combiner));
      // Order changes rounding; products of these values stay in range for short rows only.
      const double unit = type == DType::kF16 ? 0x1p-9 : type == DType::kBF16 ? 0x1p-6 : 1e-6;
      if (ir::is_float(type)) comparison.tolerance = {30 * unit, 100 * unit};
      comparison.fill = [&](int, int64_t i) {
        ir::Value64 v;
        const int64_t k = (i * 29 + 3) % 17 - 8;
        if (!ir::is_float(type))
          v.i = ir::wrap_integer(type, type == DType::kBool ? k & 1 : k);
        else
          v.f = combiner[0] == 'p' ? 1 + static_cast<double>(k) / 64 : static_cast<double>(k) / 4;
        if (ir::is_float(type)) v.f = ir::round_to(type, v.f);
        return v;
      };
      for (int64_t n : kExtents) {
        comparison.check({n});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduction, NanAndInfinityOfMinMax) {
  Comparison comparison(R"(kernel @extremes reduction {
    param n 0 .. 1000
    argument 0 @x f32 [n]
    argument 1 @lo f32 [1] written
    argument 2 @hi f32 [1] written
    %1[0] = inf:f32
    %2[0] = -inf:f32
    for i in n vector 16 { %1[0] min= load0[i] %2[0] max= load0[i] }
  })");
  for (int64_t n : {0, 1, 16, 17, 100}) {
    for (int64_t special : {0, 5, 16, 63, 99}) {
      for (double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
        comparison.fill = [=](int, int64_t i) {
          ir::Value64 v;
          v.f = i == special ? value : static_cast<double>(i);
          return v;
        };
        comparison.check({n});
      }
    }
  }
}

// NaN may be looked for in several vectors at a time: it must be seen in each lane of each, in loops of known and of unknown extent, beside other rows and
// behind a condition.
TEST(Reduction, NanInEveryLane) {
  Comparison comparison(R"(kernel @extremes reduction {
    param n 0 .. 1000
    argument 0 @x f32 [2, n]
    argument 1 @few f32 [96]
    argument 2 @y f32 [6] written
    for k in 6 { %2[k] = select(cast<bool>([less(k, 3)]), -inf:f32, inf:f32) }
    for i in n vector 16 { for r in 2 unrolled { %2[r] max= load0[r, i] } }
    for j in 96 vector 16 { %2[2] max= load1[j] %2[3] min= load1[j] }
    for j2 in 83 vector 16 { if cast<bool>([less(j2, n)]) { %2[4] min= load1[j2] } }
    for i2 in n vector 16 { %2[5] min= abs(load0[1, i2]) }
  })");
  for (int64_t n : {15, 96, 200}) {
    for (int64_t special = 0; special < 2 * n; ++special) {
      comparison.fill = [=](int, int64_t i) {
        ir::Value64 v;
        v.f = i == special ? NAN : static_cast<double>(i * 37 % 101);
        return v;
      };
      comparison.check({n});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Reduction, SoftmaxAndDotProduct) {
  Comparison softmax(R"(kernel @softmax reduction {
    param m 0 .. 1000
    param n 0 .. 1000
    argument 0 @x f32 [m, n]
    argument 1 @y f32 [m, n] written
    local 2 @largest f32 []
    local 3 @sum f32 []
    for r in m parallel { allocate 2 { allocate 3 {
      %2[] = -inf:f32
      for i in n vector 16 { %2[] max= load0[r, i] }
      %3[] = 0.0:f32
      for i2 in n vector 16 { %1[r, i2] = exp(sub(load0[r, i2], load2[])) }
      for i3 in n vector 16 { %3[] sum= load1[r, i3] }
      for i4 in n vector 16 { %1[r, i4] = div(load1[r, i4], load3[]) }
    } } }
  })");
  softmax.tolerance = {1e-5, 0};
  for (int64_t m : {0, 1, 3}) {
    softmax.parallel = m;
    for (int64_t n : {0, 1, 15, 16, 17, 100, 300}) softmax.check({m, n});
  }
  Comparison dot(R"(kernel @dot reduction {
    param n 0 .. 1000
    argument 0 @x f16 [n]
    argument 1 @y f32 [n]
    argument 2 @z f32 [2] written
    %2[0] = 0.0:f32
    %2[1] = 0.0:f32
    for i in n vector 16 { %2[0] sum= mul(cast<f32>(load0[i]), load1[i]) %2[1] sum= load1[i] }
  })");
  dot.tolerance = {1e-5, 1e-4};
  for (int64_t n : kExtents) dot.check({n});
}

TEST(Reduction, PlacesThatMoveInside) {
  Comparison comparison(R"(kernel @columns reduction {
    param n 0 .. 1000
    argument 0 @x f32 [n, 5]
    argument 1 @y f32 [5] written
    for c in 5 { %1[c] = 0.0:f32 }
    for i in n vector 16 { for u in 5 unrolled { %1[u] sum= load0[i, u] } }
  })");
  comparison.tolerance = {1e-5, 1e-4};
  for (int64_t n : kExtents) comparison.check({n});
}

TEST(Reduction, StripsInRegisters) {
  Comparison comparison(R"(kernel @strip reduction {
    param m 0 .. 1000
    param n 0 .. 1000
    argument 0 @x f32 [m, n]
    argument 1 @y f32 [n] written
    local 2 @part f32 [64]
    for io in floordiv(n + 63, 64) parallel {
      allocate 2 {
        for i in min(64, n - io*64) vector 16 { %2[i] = 0.0:f32 }
        for r in m { for i2 in min(64, n - io*64) vector 16 { %2[i2] sum= load0[r, io*64 + i2] } }
        for i3 in min(64, n - io*64) vector 16 { %1[io*64 + i3] = load2[i3] }
      }
    }
  })");
  comparison.tolerance = {1e-5, 1e-4};
  for (int64_t m : {0, 1, 7}) {
    for (int64_t n : {0, 1, 16, 63, 64, 65, 130}) {
      comparison.parallel = (n + 63) / 64;
      comparison.check({m, n});
    }
  }
}

}  // namespace
}  // namespace stax::emit
