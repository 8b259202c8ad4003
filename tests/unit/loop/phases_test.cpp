// SPDX-License-Identifier: Apache-2.0
// Reductions and scans in parts, and as kernels one after the other.
#include <fmt/format.h>

#include <cmath>

#include "kernels.h"
#include "loop/access.h"
#include "loop/phases.h"

namespace stax::loop::testing {
namespace {

TEST(SplitReduction, KeepsTheResults) {
  expect_schedule(kMatmul, "split_reduction r 4 -> ro ri");
  expect_schedule(kMatmul, "split_reduction r 4 -> ro ri; vectorize ri 4");
  expect_schedule(kMatmul, "split j 8 -> jo ji; sink ji; split_reduction r 4 -> ro ri; unroll ri");
  expect_schedule(kRow, "split_reduction r 8 -> ro ri");
  const std::string total = R"(kernel @total reduction {
    param n 0 .. 1000
    argument 0 @x i32 [n]
    argument 1 @y i32 [] written
    argument 2 @z i32 [] written
    for r in n { %1[] sum= load0[r]
      %2[] prod= load0[r] }
  })";
  expect_schedule(total, "split_reduction r 8 -> ro ri; unroll ri");
  expect_schedule(kRow, "split_reduction r 8 -> ro ri outside");
  expect_schedule(kMatmul, "split_reduction r 3 -> ro ri outside; unroll ri");
  expect_schedule(total, "split_reduction r 8 -> ro ri outside; unroll ri");
  expect_illegal(kRow, "split_reduction r 8 -> ro ri inside", "split_reduction r 8", "inside");
  expect_illegal(kMap, "split_reduction j 4 -> jo ji", "split_reduction j 4", "loop j");
  expect_illegal(kMatmul, "split_reduction i 4 -> io ii", "split_reduction i 4", "loop i");
}

TEST(Align, KeepsTheResults) {
  const std::string sum = R"(kernel @sum reduction {
    param n 0 .. 1000
    param m 0 .. 1000
    argument 0 @x i32 [n, m]
    argument 1 @y i32 [n] written
    local 2 @acc i32 [] written
    for i in n {
      allocate 2 {
        %2[] = 0:i32
        for r in m { %2[] sum= load0[i, r] }
        %1[i] = load2[]
      }
    }
  })";
  expect_schedule(sum, "align r 4 of 0 -> rh");
  expect_schedule(sum, "align r 4 of 0 -> rh; split r 4 -> rv lanes separate rt; vectorize lanes 4");
  expect_schedule(kMap, "align j 8 of 0 -> jh");
  expect_illegal(sum, "align i 4 of 0 -> ih", "align i 4", "loop i");
  expect_illegal(sum, "align r 4 of 1 -> rh", "align r 4", "loop r");
  expect_illegal(sum, "align r 1 of 0 -> rh", "align r 1", "1");
  // Where vectors begin is a multiple for everyone to see.
  const Kernel after = apply_schedule(parse_kernel(sum), "align r 4 of 0 -> rh");
  int seen = 0;
  visit(after.body, [&](const Stmt& s) {
    const auto* f = s->as<For>();
    if (f == nullptr || loop_name(f->var) != "r") return;
    for (const Access& a : accesses_in(f->body)) {
      if (a.slot != 0) continue;
      const Expr address = ir::as_expr(a.index[0]) * after.buffers[0].extents[1] + ir::as_expr(a.index[1]);
      EXPECT_EQ((address - f->var).multiple() % 4, 0) << address.str();
      ++seen;
    }
  });
  EXPECT_EQ(seen, 1);
}

// Passes over a row are cut at one place, and what they keep of it is aligned as the row is.
TEST(Align, OfSeveralPasses) {
  const std::string passes = R"(kernel @passes rows {
    param n 0 .. 1000
    param m 0 .. 1000
    argument 0 @x i32 [n, m]
    argument 1 @y i32 [n, m] written
    local 2 @row i32 [m] written
    local 3 @acc i32 [] written
    for i in n {
      allocate 2 {
        allocate 3 {
          %3[] = 0:i32
          for r in m {
            %2[r] = mul(load0[i, r], 3:i32)
            %3[] sum= load2[r]
          }
          for r in m { %1[i, r] = sub(load2[r], load3[]) }
        }
      }
    }
  })";
  expect_schedule(passes, "align r 4 of 0 -> rh");
  expect_schedule(passes, "align r 4 of 0 -> rh; split r 4 -> rv lanes separate rt; thread rh; thread rv; thread rt");
  const Kernel after = apply_schedule(parse_kernel(passes), "align r 4 of 0 -> rh");
  int seen = 0;
  visit(after.body, [&](const Stmt& s) {
    const auto* f = s->as<For>();
    if (f == nullptr || loop_name(f->var) != "r") return;
    for (const Access& a : accesses_in(f->body)) {
      if (a.slot != 2) continue;
      EXPECT_EQ((ir::as_expr(a.index[0]) - f->var).multiple() % 4, 0) << print(after);
      ++seen;
    }
  });
  EXPECT_EQ(seen, 3);
}

// A running value along the rows of a matrix.
std::string scan(const char* combiner, const char* at, bool exclusive) {
  const std::string update = fmt::format("%2[] {}= load0[i, {}]", combiner, at),
                    store = fmt::format("%1[i, {}] = load2[]", at);
  return fmt::format(R"(kernel @scan scan {{
    param n 0 .. 1000
    param m 0 .. 1000
    argument 0 @x i32 [n, m]
    argument 1 @y i32 [n, m] written
    local 2 @acc i32 [] written
    for i in n {{
      allocate 2 {{
        %2[] = {}:i32
        for s in m {{
          {}
          {}
        }}
      }}
    }}
  }})",
                     combiner == std::string("sum")    ? 0
                     : combiner == std::string("prod") ? 1
                                                       : -2147483648,
                     exclusive ? store : update, exclusive ? update : store);
}

TEST(SplitScan, KeepsTheResults) {
  expect_schedule(scan("sum", "s", false), "split_scan s 4 2 8 -> so");
  expect_schedule(scan("sum", "m - 1 - s", true), "split_scan s 8 1 8 -> so; unroll so_f");
  expect_schedule(scan("prod", "s", true),
                  "split_scan s 2 3 8 -> so; thread so_sum; thread so_step0; thread so_out; parallelize i");
  expect_schedule(scan("max", "s", false), "split_scan s 16 4 8 -> so; thread so_sum; thread so_step3; thread so_out");
  expect_illegal(scan("sum", "s", false), "split_scan s 6 2 8 -> so", "split_scan s 6", "no power of two");
  expect_illegal(scan("sum", "s", false), "split_scan i 4 2 8 -> so", "split_scan i 4", "no scan");
  expect_illegal(scan("sum", "0", false), "split_scan s 4 2 8 -> so", "split_scan s 4", "not independent");
  expect_illegal(kMatmul, "split_scan r 4 2 8 -> so", "split_scan r 4", "no scan");
}

std::string with_part(std::string kernel) {
  return kernel.insert(kernel.find("argument"), "param part 1 .. 2147483647\n  ");
}

// A scan in parts: their sums, what is in front of each, and each from there on.
TEST(PhaseScan, KeepsTheResults) {
  expect_schedule(with_part(scan("sum", "s", false)), "phase_scan s part -> c");
  expect_schedule(with_part(scan("max", "m - 1 - s", true)), "phase_scan s part -> c");
  expect_illegal(with_part(scan("sum", "0", false)), "phase_scan s part -> c", "phase_scan s part", "not independent");
  expect_illegal(with_part(scan("sum", "s", false)), "phase_scan i part -> c", "phase_scan i part", "loop i");
  expect_illegal(with_part(scan("sum", "s", false)), "phase_scan s n -> c", "phase_scan s n", "less than 1");
  const Kernel k = apply_schedule(parse_kernel(with_part(scan("prod", "s", true))), "phase_scan s part -> c");
  EXPECT_EQ(phases_of(k).size(), 3u);
}

// A reduction in parts of p elements, and what they are together.
TEST(PhaseReduction, KeepsTheResults) {
  const std::string window = with_part(kWindow);
  expect_schedule(window, "phase_reduction w part first -> s");
  expect_schedule(window, "phase_reduction w part last -> s");
  const std::string largest = with_part(R"(kernel @largest reduction {
    param n 0 .. 2147483647
    param m 0 .. 2147483647
    argument 0 @x f32 [n, m]
    argument 1 @y f32 [] written
    local 2 @acc f32 []
    allocate 2 {
      %2[] = -inf:f32
      for i in n { for j in m { %2[] max= load0[i, j] } }
      %1[] = add(load2[], cast<f32>([n]))
    }
  })");
  expect_schedule(largest, "phase_reduction i part first -> s");
  expect_schedule(largest, "fuse i j -> r; phase_reduction r part last -> s");
  expect_illegal(largest, "phase_reduction j part last -> s", "phase_reduction j", "only accumulator");
  expect_illegal(largest, "phase_reduction i part middle -> s", "phase_reduction i", "first or the last");
  expect_illegal(largest, "phase_reduction i n first -> s", "phase_reduction i", "less than 1");
  expect_illegal(largest, "phase_reduction i q first -> s", "phase_reduction i", "parameter q");
  expect_schedule(with_part(kRow), "phase_reduction r part first -> s");
  // In turns, with a rest or without one, with loops around it or without.
  expect_schedule(window, "phase_reduction w part first -> s every 4 turn");
  expect_schedule(window, "phase_reduction w part last -> s every 3 turn");
  expect_schedule(largest, "phase_reduction i part first -> s every 4 turn");
  expect_schedule(largest, "fuse i j -> r; phase_reduction r part first -> s every 2 turn");
  expect_schedule(with_part(kMatmul), "phase_reduction r part first -> s every 4 turn; fuse turn j_t -> q");
  expect_illegal(largest, "phase_reduction i part first -> s each 4 turn", "phase_reduction i", "expected every");
  expect_illegal(largest, "phase_reduction i part first -> s every 1 turn", "phase_reduction i", "1");
  expect_illegal(with_part(kRow), "phase_reduction j part first -> s", "phase_reduction j", "loop j");
  expect_illegal(with_part(kMap), "phase_reduction j part first -> s", "phase_reduction j", "accumulator");
}

// The phases of a kernel, run one after the other, are the kernel.
TEST(Phases, AreTheKernel) {
  std::string text = kMatmul;
  text.insert(text.find("  argument"), "  param part 1 .. 2147483647\n");
  const Kernel whole = parse_kernel(text);
  EXPECT_TRUE(phases_of(whole).empty());
  for (const int64_t turns : {1, 4}) {
    const Kernel split =
        apply_schedule(parse_kernel(text),
                       "phase_reduction r part last -> s" + (turns > 1 ? fmt::format(" every {} turn", turns) : ""));
    const std::vector<Phase> phases = phases_of(split);
    ASSERT_EQ(phases.size(), 2u);
    for (const Parameters& params : std::vector<Parameters>{
             {3, 5, 17, 4}, {2, 1, 8, 4}, {1, 4, 3, 100}, {4, 3, 0, 2}, {0, 3, 5, 2}, {2, 3, 5, 1}}) {
      Memory want = make_memory(whole, params), got = want;
      run(whole, want, params);
      const int64_t parts = (params[2] / turns + params[3] - 1) / params[3];
      std::vector<float> part(static_cast<size_t>(params[0] * params[1] * parts * turns), std::nanf(""));
      for (const Phase& phase : phases) {
        verify(phase.kernel);
        std::vector<void*> buffers;
        for (const int slot : phase.arguments)
          buffers.push_back(slot < split.arguments ? static_cast<void*>(got[static_cast<size_t>(slot)].data())
                                                   : part.data());
        interpret(phase.kernel, buffers, params);
      }
      EXPECT_EQ(got, want) << ::testing::PrintToString(params);
    }
  }
}

}  // namespace
}  // namespace stax::loop::testing
