// SPDX-License-Identifier: Apache-2.0
// Dot products of bytes: what machines do in one instruction, and what those without it do, against the loops that define them.
#include <fmt/format.h>

#include "loop/passes.h"
#include "loop/transform.h"
#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

// Rows of u8 times panels of i8, four of the reduction to a lane; the schedule is that of the contraction scheduler.
std::string product(int64_t columns, int64_t groups) {
  return fmt::format(R"(kernel @product contraction {{
    param m 0 .. 1000
    argument 0 @rows u8 [m, {0}]
    argument 1 @columns i8 [{2}, {1}, 32, 4]
    argument 2 @out i32 [m, {3}] written
    local 3 @acc i32 [] written
    for i in m {{
      for j in {3} {{
        allocate 3 {{
          %3[] = 0:i32
          for k in {0} {{
            %3[] sum= mul(cast<i32>(load0[i, k]), cast<i32>(load1[floordiv(j, 32), floordiv(k, 4), mod(j, 32), mod(k, 4)]))
          }}
          %2[i, j] = load3[]
        }}
      }}
    }}
  }})",
                     groups * 4, groups, (columns + 31) / 32, columns);
}

constexpr const char* kTile =
    "split k 4 -> ko ki exact; interchange i j; split i {0} -> io ii clamped; split j 32 -> jo ji padded; interchange "
    "ji io; "
    "interchange ji ii; interchange jo io; interchange io jo; sink ii; sink ji; interchange ki ii; interchange ki ji; "
    "unroll ki; "
    "vectorize ji 16; unroll ii";

TEST(ByteDot, IsExactOverTheWholeRangeOfBytes) {
  for (const int64_t columns : {32, 64, 45}) {
    for (const int rows : {1, 5, 8}) {
      const loop::Kernel naive = loop::parse_kernel(product(columns, 9));
      Comparison comparison(loop::apply_schedule(naive, fmt::format(fmt::runtime(kTile), rows)));
      comparison.tame = false;  // 0, 127, -128, 255 and everything between
      for (const int64_t m : {0, 1, 4, 8, 19}) comparison.check({m}, static_cast<uint64_t>(m * 100 + columns));
    }
  }
}

TEST(ByteDot, DoesNotSaturate) {
  // 255 * -128 four times is beyond 16 bits, and their sum over many groups stays exact in 32.
  Comparison comparison(
      loop::apply_schedule(loop::parse_kernel(product(32, 4000)), fmt::format(fmt::runtime(kTile), 4)));
  comparison.fill = [](int slot, int64_t) { return ir::Value64{.i = slot == 0 ? 255 : -128}; };
  comparison.check({3});
}

TEST(ByteDot, IsOneInstructionWhereTheMachineHasIt) {
  const loop::Kernel kernel =
      loop::apply_schedule(loop::parse_kernel(product(32, 8)), fmt::format(fmt::runtime(kTile), 8));
  for (const Isa isa : {Isa::kAvx512Vnni, Isa::kAvxVnni})
    EXPECT_NE(emit_asm_text(kernel, isa).find("vpdpbusd"), std::string::npos) << name_of(isa);
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kBaseline}) {
    const std::string text = emit_asm_text(kernel, isa);
    EXPECT_EQ(text.find("vpdpbusd"), std::string::npos) << name_of(isa);
    EXPECT_NE(text.find("pmaddwd"), std::string::npos) << name_of(isa);
  }
}

TEST(ByteDot, ColumnsAreMaskedWhereTheirNumberIsNotKnown) {
  const loop::Kernel naive = loop::parse_kernel(R"(kernel @product contraction {
    param n 0 .. 1000
    param panels 0 .. 100
    argument 0 @rows u8 [24]
    argument 1 @columns i8 [panels, 6, 32, 4]
    argument 2 @out i32 [n] written
    local 3 @acc i32 [] written
    for j in n {
      allocate 3 {
        %3[] = 0:i32
        for k in 24 {
          %3[] sum= mul(cast<i32>(load0[k]), cast<i32>(load1[floordiv(j, 32), floordiv(k, 4), mod(j, 32), mod(k, 4)]))
        }
        %2[j] = load3[]
      }
    }
  })");
  Comparison comparison(loop::hoist_loop_invariants(loop::apply_schedule(
      naive,
      "split k 4 -> ko ki exact; split j 32 -> jo ji guard; sink ji; interchange ki ji; unroll ki; vectorize ji 16")));
  comparison.tame = false;
  for (const int64_t n : {0, 1, 15, 16, 31, 33, 64, 77}) comparison.check({n, (n + 31) / 32}, static_cast<uint64_t>(n));
}

TEST(ByteDot, DecidesWhichImagesAProgramNeeds) {
  const std::vector<loop::Kernel> with{
      loop::apply_schedule(loop::parse_kernel(product(32, 8)), fmt::format(fmt::runtime(kTile), 8))};
  const std::vector<loop::Kernel> without{loop::parse_kernel(product(32, 8))};
  EXPECT_EQ(distinct_isas(kIsas, with), std::vector<Isa>(std::begin(kIsas), std::end(kIsas)));
  EXPECT_EQ(distinct_isas(kIsas, without), (std::vector<Isa>{Isa::kAvx512, Isa::kAvx2, Isa::kBaseline}));
  const Isa only[] = {Isa::kAvx512Vnni};
  EXPECT_EQ(distinct_isas(only, without), std::vector<Isa>{Isa::kAvx512Vnni});
}

TEST(ByteDot, OtherSignsAndStepsAreNotTakenForOne) {
  // The same loops over bytes of one sign, and over columns that lie side by side: plain products.
  for (const char* types : {"u8 i8 8", "i8 i8 4", "u8 u8 4"}) {
    const std::string text(types);
    const std::string left = text.substr(0, 2), right = text.substr(3, 2), pitch = text.substr(6);
    Comparison comparison(fmt::format(R"(kernel @other contraction {{
      argument 0 @a {} [4]
      argument 1 @b {} [32, {}]
      argument 2 @y i32 [32] written
      for j in 32 vector 16 {{
        %2[j] = 0:i32
      }}
      for j in 32 vector 16 {{
        for k in 4 unrolled {{ %2[j] sum= mul(cast<i32>(load0[k]), cast<i32>(load1[j, k])) }}
      }}
    }})",
                                      left, right, pitch));
    comparison.tame = false;
    comparison.check({}, 7);
  }
}

}  // namespace
}  // namespace stax::emit
