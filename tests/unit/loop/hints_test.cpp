// SPDX-License-Identifier: Apache-2.0
// Steps that say what memory will be needed: prefetch and hint.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "kernels.h"
#include "loop/access.h"

namespace stax::loop::testing {
namespace {

// Panels of 4 columns: b[c, r, j]
const char* const kPanels = R"(kernel @panels contraction {
    param n 0 .. 100
    argument 0 @a f32 [n, 5]
    argument 1 @b f32 [3, 5, 4]
    argument 2 @out f32 [n, 12] written
    local 3 @acc f32 [4]
    for c in 3 { for i in n { allocate 3 {
      for j in 4 { %3[j] = 0.0:f32 }
      for r in 5 { for j in 4 { %3[j] sum= mul(load0[i, r], load1[c, r, j]) } }
      for j in 4 { %2[i, c*4 + j] = load3[j] }
    } } }
  })";

TEST(Prefetch, KeepsTheResults) {
  expect_schedule(kPanels, "prefetch 1 r 8");
  expect_schedule(kPanels, "prefetch 1 r 2; prefetch 1 r next c over i; fuse c i -> p; parallelize p");
  expect_schedule(kMatmul, "split j 8 -> jo ji; sink ji; prefetch 1 r 4; vectorize ji 8; stage 1 at r -> near");
}

// Of several passes over a row, the one before that which writes, and the last one that reads.
TEST(Prefetch, HintsTheNextRows) {
  const std::string passes = R"(kernel @passes rows {
    param n 0 .. 100
    param m 0 .. 100
    argument 0 @x f32 [n, m]
    argument 1 @out f32 [n, m] written
    local 2 @total f32 []
    local 3 @row f32 [m]
    for i in n { allocate 2 { allocate 3 {
      %2[] = 0.0:f32
      for r in m { %2[] sum= load0[i, r] }
      for r in m { %3[r] = mul(load0[i, r], load2[]) }
      for r in m { %1[i, r] = add(load3[r], load3[0]) }
    } } }
  })";
  const std::string hints = "prefetch 0 r row io; prefetch 1 r row io; ";
  expect_schedule(passes, "prefetch 0 r row i; prefetch 1 r row i; vectorize r 8; parallelize i");
  expect_schedule(passes, "split i 4 -> io ii cases it; " + hints + "sink ii apart; unroll ii; vectorize r 4");
  const Kernel after = apply_schedule(parse_kernel(passes), "split i 4 -> io ii cases it; " + hints);
  std::vector<std::string> found;  // by the loops r in order
  visit(after.body, [&](const Stmt& s) {
    const For* f = s->as<For>();
    if (f == nullptr || loop_name(f->var) != "r") return;
    found.emplace_back();
    visit(f->body, [&](const Stmt& inner) {
      const Prefetch* p = inner->as<Prefetch>();
      if (p == nullptr) return;
      EXPECT_EQ(p->level, 1);
      found.back() +=
          fmt::format("{}[{}, {}] ", p->slot, ir::as_expr(p->index[0]).str(), ir::as_expr(p->index[1]).str());
    });
  });
  EXPECT_EQ(found, (std::vector<std::string>{"", "1[ii + io*4, r] 0[ii + io*4 + 4, r] ", ""}));
  expect_illegal(passes, "prefetch 2 r row i", "prefetch 2 r row i", "global");
  expect_illegal(passes, "prefetch 0 i row r", "prefetch 0 i row r", "loops inside");
  expect_illegal(passes, "prefetch 0 r row q", "prefetch 0 r row q", "q");
}

// All that the loop will read in the next iteration of the outer one, each part once, by the iterations of the one between.
TEST(Prefetch, SharesTheNextPanel) {
  const Kernel after = apply_schedule(parse_kernel(kPanels), "prefetch 1 r next c over i");
  std::vector<Expr> at;
  visit(after.body, [&](const Stmt& s) {
    if (const Prefetch* p = s->as<Prefetch>()) {
      EXPECT_EQ(p->level, 2);
      at = {ir::as_expr(p->index[0]), ir::as_expr(p->index[1]), ir::as_expr(p->index[2])};
    }
  });
  ASSERT_EQ(at.size(), 3U) << print(after);
  std::map<std::string, Expr> loops;
  visit(after.body, [&](const Stmt& s) {
    if (const For* f = s->as<For>()) loops[loop_name(f->var)] = f->var;
  });
  for (int64_t n = 1; n <= 9; ++n) {
    std::set<int64_t> touched;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t r = 0; r < 5; ++r) {
        const std::unordered_map<const symbolic::ExprNode*, int64_t> values = {{after.params[0].node(), n},
                                                                               {loops.at("c").node(), 1},
                                                                               {loops.at("i").node(), i},
                                                                               {loops.at("r").node(), r}};
        const auto value = [&](Expr e) { return symbolic::evaluate(e, values); };
        touched.insert((value(at[0]) * 5 + value(at[1])) * 4 + value(at[2]));
      }
    }
    // The panel is elements 40 to 59; a line has 16.
    EXPECT_EQ(*touched.begin(), 40) << n;
    EXPECT_GE(*touched.rbegin(), 60 - 16) << n;
    for (auto it = touched.begin(); std::next(it) != touched.end(); ++it) EXPECT_LE(*std::next(it) - *it, 16) << n;
  }
}

TEST(Prefetch, Illegal) {
  expect_illegal(kMatmul, "prefetch 3 r 8", "prefetch 3 r 8", "global");
  expect_illegal(kMatmul, "prefetch 2 r 8", "prefetch 2 r 8", "does not read");
  expect_illegal(kMatmul, "prefetch 1 r 0", "prefetch 1 r 0", "0");
  expect_illegal(kMatmul, "prefetch 1 r next j over", "prefetch 1 r next j over", "next");
  expect_illegal(kMatmul, "prefetch 1 r next j", "prefetch 1 r next j", "contiguous");
  expect_illegal(kPanels, "prefetch 1 c next r", "prefetch 1 c next r", "loop r");
  expect_illegal(kWindow, "prefetch 0 w next x", "prefetch 0 w next x", "loop x");
}

const std::string kAddend = R"(kernel @sum contraction {
  param n 0 .. 1000
  argument 0 @x f32 [n, 5]
  argument 1 @w f32 [5, 64]
  argument 2 @z f32 [n, 64]
  argument 3 @y f32 [n, 64] written
  local 4 @acc f32 [] written
  for i in n { for j in 64 { allocate 4 {
    %4[] = 0.0:f32
    for r in 5 { %4[] sum= mul(load0[i, r], load1[r, j]) }
    %3[i, j] = add(load4[], load2[i, j])
  } } }
})";

TEST(Hint, KeepsTheResults) {
  expect_schedule(kAddend, "hint 2 before r");
  expect_schedule(
      kAddend,
      "split i 4 -> io ii clamped; split j 32 -> jo ji exact; interchange ii jo; sink ii; sink ji; vectorize ji 16; "
      "unroll ii; hint 2 before r; fuse io jo -> p; parallelize p");
}

// Each line of the tile once, in front of the sum.
TEST(Hint, TouchesTheLinesOfATile) {
  const Kernel after = apply_schedule(
      parse_kernel(kAddend),
      "split i 4 -> io ii clamped; split j 32 -> jo ji exact; interchange ii jo; sink ii; sink ji; hint 2 before r");
  std::map<std::string, Expr> loops;
  std::vector<std::vector<Expr>> hints;
  bool is_summed = false;
  visit(after.body, [&](const Stmt& s) {
    if (const For* f = s->as<For>()) loops[loop_name(f->var)] = f->var;
    is_summed |= s->as<Update>() != nullptr;
    const Prefetch* p = s->as<Prefetch>();
    if (p == nullptr) return;
    EXPECT_FALSE(is_summed) << print(after);
    EXPECT_EQ(p->slot, 2);
    hints.push_back({ir::as_expr(p->index[0]), ir::as_expr(p->index[1])});
  });
  std::multiset<std::pair<int64_t, int64_t>> touched, expected;
  for (int64_t i = 0; i < 4; ++i) {
    const std::unordered_map<const symbolic::ExprNode*, int64_t> values = {{after.params[0].node(), 100},
                                                                           {loops.at("io").node(), 3},
                                                                           {loops.at("jo").node(), 1},
                                                                           {loops.at("ii_h").node(), i}};
    for (const auto& at : hints) touched.insert({symbolic::evaluate(at[0], values), symbolic::evaluate(at[1], values)});
    for (int64_t j : {32, 48}) expected.insert({12 + i, j});
  }
  EXPECT_EQ(touched, expected) << print(after);
}

TEST(Hint, Illegal) {
  expect_illegal(kAddend, "hint 4 before r", "hint 4 before r", "global");
  expect_illegal(kAddend, "hint 0 before r", "hint 0 before r", "nothing of buffer 0");
  expect_illegal(kAddend, "hint 2 behind r", "hint 2 behind r", "before LOOP");
  expect_illegal(kAddend, "sink i; hint 2 before r", "hint 2 before r", "not known");
}

}  // namespace
}  // namespace stax::loop::testing
