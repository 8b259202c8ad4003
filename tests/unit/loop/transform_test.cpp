// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "kernels.h"
#include "loop/access.h"
#include "loop/phases.h"

namespace stax::loop::testing {
namespace {

TEST(Split, AllModesKeepTheResults) {
  expect_schedule(kMap, "split j 8 -> jo ji");
  expect_schedule(kMap, "split j 8 -> jo ji guard");
  expect_schedule(kMap, "split j 8 -> jo ji separate jt");
  expect_schedule(kMap, "split j 8 -> jo ji cases jt");
  expect_schedule(kMap, "split i 1 -> io ii exact");
  expect_schedule(kMap, "split j 8 -> jo ji bounded; vectorize ji 8");
  expect_schedule(kMap, "split j 8 -> jo ji clamped; vectorize ji 8");
  expect_schedule(kMatmul,
                  "split i 4 -> io ii clamped; split j 8 -> jo ji guard; sink ii; sink ji; unroll ii; vectorize ji 8");
  expect_schedule(kMatmul, "split r 8 -> ro ri zeros");
  expect_schedule(kRow, "split i 8 -> io ii separate it; split r 4 -> ro ri separate rt; split j 8 -> jo ji");
}

TEST(Split, ExactNeedsAProof) {
  const std::string even = R"(kernel @even map {
    param n 0 .. 64 multiple 8
    argument 0 @y f32 [n] written
    for i in n { %0[i] = cast<f32>([i]) }
  })";
  expect_schedule(even.substr(0, even.find("param")) + "param n 0 .. 64\n" + even.substr(even.find("argument")),
                  "split i 8 -> io ii separate it");
  const Kernel after = apply_schedule(parse_kernel(even), "split i 8 -> io ii exact; split ii 4 -> iio iii");
  EXPECT_EQ(print(after).find("if "), std::string::npos) << print(after);
  for (int64_t n : {0, 8, 64}) expect_same(parse_kernel(even), after, {n});
  expect_illegal(kMap, "split j 8 -> jo ji exact", "split j 8", "loop j");
}

TEST(Split, TailCopiesAreNamed) {
  const Kernel k =
      apply_schedule(parse_kernel(kMatmul), "split j 8 -> jo ji separate jt; split i 4 -> io ii separate it");
  const std::string text = print(k);
  for (const char* loop :
       {"for jt in", "for r_t in", "for jo_t in", "for ji_t in", "for jt_t in", "for r_t_t in", "for r_t_t_t in"}) {
    EXPECT_NE(text.find(loop), std::string::npos) << loop << "\n" << text;
  }
}

TEST(Split, Illegal) {
  expect_illegal(kMap, "split x 8 -> a b", "split x 8", "loop x");
  expect_illegal(kMap, "split j 8 -> i b", "split j 8", "loop i");
  expect_illegal(kMap, "split j 8 -> a a", "split j 8", "loop a");
  expect_illegal(kMap, "split j 0 -> a b", "split j 0", "0");
  expect_illegal(kMap, "vectorize j 8; split j 8 -> a b", "split j 8", "loop j");
  expect_illegal(kMatmul, "split r 8 -> a b clamped", "split r 8", "loop r");
  expect_illegal(kMap, "split j 8 -> a b zeros", "split j 8", "loop j");
  expect_illegal(kMap, "split j 8 -> a b sometimes", "split j 8", "sometimes");
}

TEST(RegisterTile, OfAContraction) {
  expect_schedule(kMatmul,
                  "split j 8 -> jo ji separate jt; split i 4 -> io ii separate it; sink ii; sink ji; vectorize ji 4;"
                  "unroll ii; sink jt; vectorize jt 4; sink it; sink ji_t; vectorize ji_t 4");
  expect_schedule(kMatmul,
                  "split j 8 -> jo ji cases jt; interchange i jo; split i 4 -> io ii cases it; fuse jo io -> p;"
                  "parallelize p; sink ii; sink ji; vectorize ji 4; unroll ii; sink jt; vectorize jt 8; sink it;"
                  "sink ji_t; vectorize ji_t 8; sink jt_t; vectorize jt_t 8");
  expect_schedule(kMatmul,
                  "split j 8 -> jo ji guard; split i 4 -> io ii guard; sink ii; sink ji; unroll ii; vectorize ji 8");
}

TEST(Interchange, KeepsTheResults) {
  expect_schedule(kMap, "interchange i j");
  expect_schedule(kMatmul, "interchange i j");
  expect_schedule(kMatmul, "sink j; interchange r j");
}

TEST(Interchange, Illegal) {
  expect_illegal(kMatmul, "interchange j r", "interchange j r", "loop r");
  // Each element depends on its upper right neighbour, so neither direction may turn.
  const std::string wave = R"(kernel @wave map {
    param n 0 .. 100
    argument 0 @x f32 [n + 1, n + 1] written
    for i in n { for j in n { %0[i + 1, j] = load0[i, j + 1] } }
  })";
  expect_illegal(wave, "interchange i j", "interchange i j", "loops i and j");
  expect_illegal(wave, "parallelize i", "parallelize i", "loop i");
  expect_illegal(wave, "vectorize j 4; parallelize i", "parallelize i", "loop i");
  const std::string triangle = R"(kernel @triangle map {
    param n 0 .. 100
    argument 0 @x f32 [n, n] written
    for i in n { for j in i + 1 { %0[i, j] = 1.0:f32 } }
  })";
  expect_illegal(triangle, "interchange i j", "interchange i j", "loop j");
  expect_illegal(triangle, "fuse i j -> f", "fuse i j", "loop j");
  expect_schedule(triangle, "split j 4 -> jo ji separate jt; parallelize i");
}

TEST(Fuse, KeepsTheResults) {
  expect_schedule(kMap, "fuse i j -> f");
  expect_schedule(kMap, "fuse i j -> f; split f 8 -> fo fi separate ft; vectorize fi 8; vectorize ft 8");
  expect_schedule(kMap, "fuse i j -> f; split f 8 -> fo fi cases ft; parallelize fo");
  expect_schedule(kMatmul, "fuse i j -> f; parallelize f");
  expect_schedule(kMatmul, "split j 8 -> jo ji; fuse i jo -> p; fuse p ji -> q; parallelize q");
  expect_illegal(kMatmul, "fuse j r -> f", "fuse j r", "loop r");
}

// Points of an image of 20 columns in tiles of 8: the remainder is written without the one inside, whose multiples of 40 are multiples of 20.
TEST(Parallelize, KnowsARemainderByItsQuotient) {
  const std::string points = R"(kernel @points map {
    param n 0 .. 100
    argument 0 @x f32 [2, 20, n] written
    for p in n * 5 { for q in 8 { %0[floordiv(q + mod(p, 5) * 8, 20), mod(p * 8 + q, 20), floordiv(p, 5)] = 1.0:f32 } }
  })";
  expect_schedule(points, "parallelize p");
  std::string overlapping = points;
  overlapping.replace(overlapping.find("mod(p, 5) * 8"), 13, "mod(p, 5) * 4");
  overlapping.replace(overlapping.find("mod(p * 8 + q, 20)"), 18, "mod(p * 4 + q, 20)");
  expect_illegal(overlapping, "parallelize p", "parallelize p", "loop p");
}

TEST(Tile, KeepsTheResults) {
  expect_schedule(kMap, "tile i j 4 8 -> io jo ii ji");
  expect_schedule(kMatmul, "tile i j 4 8 -> io jo ii ji guard; sink ii; sink ji; fuse io jo -> p; parallelize p");
  expect_illegal(kMap, "tile i j 4 8 -> io jo ii ji exact", "tile i j", "loops i and j");
  expect_illegal(kMap, "tile i j 4 8 -> io jo io ji", "tile i j", "loop io");
}

TEST(Sink, KeepsTheResults) {
  expect_schedule(kMatmul, "sink j; sink i");
  expect_schedule(kRow, "split i 4 -> io ii separate it; sink ii; unroll ii");
  expect_schedule(kWindow,
                  "split j 8 -> jo ji separate jt; sink ji; unroll w; vectorize ji 8; sink jt; vectorize jt 8");
  expect_schedule(kWindow, "split j 8 -> jo ji guard; sink ji; unroll w; vectorize ji 4");
}

TEST(Sink, Illegal) {
  const std::string scan = R"(kernel @scan map {
    param n 0 .. 100
    argument 0 @x f32 [n] written
    argument 1 @y f32 [n] written
    for i in n { %0[i] = load1[i]
      %1[i] = select(cast<bool>([less(0, i)]), load0[i - 1], 0.0:f32) }
  })";
  expect_illegal(scan, "sink i", "sink i", "loop i");
  const std::string triangle = R"(kernel @triangle reduction {
    param n 0 .. 100
    argument 0 @x f32 [n, n]
    argument 1 @y f32 [n] written
    for i in n { %1[i] = 0.0:f32
      for j in i { %1[i] sum= load0[i, j] } }
  })";
  expect_illegal(triangle, "sink i", "sink i", "loop i");
}

TEST(Vectorize, KeepsTheResults) {
  expect_schedule(kMap, "vectorize j 8");
  expect_schedule(kMatmul, "vectorize r 8");
  expect_schedule(kRow, "vectorize r 4; vectorize j 16");
  expect_schedule(kWindow, "split j 8 -> jo ji separate jt; sink ji; split ji 4 -> a b exact; unroll b; vectorize a 2");
}

TEST(Vectorize, Illegal) {
  expect_illegal(kMap, "vectorize i 8", "vectorize i 8", "loop i");
  expect_illegal(kMatmul, "unroll r", "unroll r", "loop r");
  expect_illegal(kMatmul, "vectorize j 8", "vectorize j 8", "loop j");
  expect_illegal(kMap, "vectorize j 8; vectorize j 8", "vectorize j 8", "loop j");
  const std::string histogram = R"(kernel @histogram scatter {
    param n 0 .. 100
    argument 0 @x i64 [n]
    argument 1 @y f32 [7] written
    for i in n { %1[{load0[i]}] sum= 1.0:f32 }
  })";
  expect_illegal(histogram, "vectorize i 8", "vectorize i 8", "loop i");
  expect_illegal(histogram, "parallelize i", "parallelize i", "loop i");
  expect_schedule(histogram, "split i 8 -> io ii; interchange io ii");
}

TEST(Parallelize, KeepsTheResults) {
  expect_schedule(kMap, "parallelize i");
  expect_schedule(kMap, "parallelize j");
  expect_schedule(kMatmul, "split j 8 -> jo ji cases jt; parallelize jo");
  expect_schedule(kRow, "parallelize i");
}

TEST(Parallelize, Illegal) {
  expect_illegal(kMatmul, "parallelize r", "parallelize r", "loop r");
  expect_illegal(kRow, "split i 4 -> io ii separate it; parallelize io", "parallelize io", "loop io");
  expect_illegal(kMap, "parallelize i; parallelize i", "parallelize i", "loop i");
}

TEST(Stage, KeepsTheResults) {
  expect_schedule(kMatmul, "split j 8 -> jo ji; sink ji; split r 4 -> ro ri; stage 1 at ro -> near");
  expect_schedule(kWindow, "split i 8 -> io ii; stage 0 at io -> near");
  expect_schedule(kWindow, "tile i j 8 4 -> io jo ii ji; stage 0 at jo -> near; stage 1 at jo -> taps");
  expect_schedule(kMap, "parallelize i; stage 1 at i -> near");
  expect_illegal(kMap, "stage 2 at i -> near", "stage 2 at i", "loop i");
  expect_illegal(kMap, "stage 0 at i -> bias", "stage 0 at i", "bias");
  expect_illegal(kMap, "stage 7 at i -> near", "stage 7 at i", "7");
}

// A tile of 8 x 8 results as a product of matrices; each warp has 4 x 8 of them.
const std::string kMatrices =
    "split i 8 -> io ii clamped; split j 8 -> jo ji clamped; interchange ii jo; fuse io jo -> p; split r 8 -> ko ki "
    "zeros;"
    "sink ii; sink ji; cache 0 at ko over ii ki pad 1 -> left; cache 1 at ko over ki ji -> right;"
    "split ii 4 -> wm mi exact; split ki 4 -> ks kk exact; interchange kk wm; interchange ks wm; interchange kk mi;"
    "interchange kk ji; cache 4 at ks over mi kk -> rows; cache 5 at ks over kk ji -> columns;";

TEST(Matrix, KeepsTheResults) {
  expect_schedule(kMatmul, kMatrices + "matrix mi ji kk; matrix rows_0 - rows_1; parallelize p");
  expect_schedule(kMatmul, kMatrices +
                               "matrix mi ji kk; matrix rows_0 - rows_1; matrix - columns_1 columns_0; warp wm;"
                               "fuse left_0 left_1 -> copy; thread copy; parallelize p");
}

TEST(Matrix, Illegal) {
  expect_illegal(kMatmul, kMatrices + "matrix mi ji -", "matrix mi ji -", "loop kk");
  expect_illegal(kMatmul, kMatrices + "matrix mi mi kk", "matrix mi mi kk", "loop mi");
  expect_illegal(kMatmul, kMatrices + "matrix rows_0 - -", "matrix rows_0 - -", "loop rows_1");
  expect_illegal(kMatmul, kMatrices + "matrix rows_0 ko -", "matrix rows_0 ko -", "loop ko");
  // Factors in global memory belong to no warp.
  expect_illegal(
      kMatmul,
      "split i 8 -> io ii clamped; split j 8 -> jo ji clamped; split r 8 -> ko ki zeros; interchange ii jo; sink ii;"
      "sink ji; interchange ki ii; interchange ki ji; matrix ii ji ki",
      "matrix ii ji ki", "loop ki");
  expect_illegal(kMap, "split j 8 -> jo ji; split i 8 -> io ii; interchange ii jo; thread ii; warp jo", "warp jo",
                 "loop jo");
}

TEST(Pipeline, KeepsTheResults) {
  const std::string fills = "split r 4 -> ro ri zeros; cache 0 at ro over ri -> left; cache 1 at ro over ri -> right;";
  for (int stages = 2; stages <= 4; ++stages)
    expect_schedule(kMatmul, fills + "pipeline 4 5 at ro " + std::to_string(stages));
  expect_schedule(kMatmul, fills + "pipeline 5 at ro 3; unroll ri");
  // Whole tiles alone: what comes behind them is not read.
  const std::string even = R"(kernel @even reduction {
    param n 0 .. 64 multiple 4
    argument 0 @x f32 [n]
    argument 1 @y f32 [] written
    local 2 @acc f32 []
    allocate 2 {
      %2[] = 0.0:f32
      for r in n { %2[] sum= load0[r] }
      %1[] = load2[]
    }
  })";
  const Kernel after =
      apply_schedule(parse_kernel(even), "split r 4 -> ro ri exact; cache 0 at ro over ri -> near; pipeline 3 at ro 3");
  for (int64_t n : {0, 4, 8, 64}) expect_same(parse_kernel(even), after, {n});
}

TEST(Pipeline, Illegal) {
  const std::string fills = "split r 4 -> ro ri zeros; cache 0 at ro over ri -> left; cache 1 at ro over ri -> right;";
  expect_illegal(kMatmul, fills + "pipeline 4 at ro 3", "pipeline 4 at ro", "buffer left");
  expect_illegal(kMatmul, fills + "pipeline 5 at i 3", "pipeline 5 at i", "buffer right");
  expect_illegal(kMatmul, fills + "pipeline 4 5 at ro 1", "pipeline 4 5 at ro 1", "1");
  expect_illegal(kMatmul, fills + "pipeline 3 at ro 2", "pipeline 3 at ro 2", "buffer acc");
}

TEST(Cache, OfALocalBufferAndOfAChoice) {
  const std::string near = "split r 8 -> ro ri zeros; cache 1 at ro over ri -> near";
  expect_schedule(kMatmul, near);
  expect_schedule(kMatmul, near + "; split ri 4 -> rio rii exact; cache 4 at rio over rii -> nearer");
  expect_illegal(kMatmul, near + "; cache 4 at ro over ri -> nearer", "cache 4 at ro", "buffer near");
}

TEST(ComputeAt, KeepsTheResults) {
  expect_schedule(kStencil, "compute_at 2 i");
  expect_schedule(kStencil, "split i 8 -> io ii guard; compute_at 2 io; double_buffer 2 io");
}

TEST(ComputeAt, Illegal) {
  expect_illegal(kStencil, "compute_at 2 a", "compute_at 2 a", "loop a");
  expect_illegal(kStencil, "split i 8 -> io ii separate it; compute_at 2 io", "compute_at 2 io", "loop io");
  expect_illegal(kStencil, "compute_at 0 i", "compute_at 0 i", "buffer x");
  expect_illegal(kMatmul, "compute_at 3 r", "compute_at 3 r", "buffer acc");
}

TEST(DoubleBuffer, KeepsTheResults) {
  expect_schedule(kStencil, "compute_at 2 i; double_buffer 2 i");
  expect_schedule(kMatmul, "split r 4 -> ro ri; stage 1 at ro -> near; double_buffer 4 ro");
  expect_illegal(kStencil, "double_buffer 2 i", "double_buffer 2 i", "loop i");
  expect_illegal(kMatmul, "double_buffer 3 r", "double_buffer 3 r", "loop r");
}

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

TEST(Sink, BuffersOfIterationsLieApart) {
  expect_schedule(kRow, "split i 2 -> io ii cases it; sink ii apart; unroll ii");
  const std::string kept = R"(kernel @kept rows {
    param n 0 .. 100
    param m 0 .. 100
    argument 0 @x f32 [n, m]
    argument 1 @out f32 [n, m] written
    local 2 @total f32 []
    local 3 @row f32 [m]
    for i in n { allocate 2 { allocate 3 {
      %2[] = 0.0:f32
      for r in m { %3[r] = mul(load0[i, r], load0[i, r])
        %2[] sum= load3[r] }
      for r in m { %1[i, r] = sub(load3[r], load2[]) }
    } } }
  })";
  expect_schedule(kept, "split i 2 -> io ii cases it; sink ii apart; unroll ii; vectorize r 4; vectorize r_t 4");
  const Kernel after = apply_schedule(parse_kernel(kept), "split i 2 -> io ii clamped; sink ii apart");
  const Buffer& row = after.buffers[3];
  EXPECT_EQ(row.extents.front().str(), "2");
  EXPECT_EQ(row.extents.back(), after.params[1]);
  expect_illegal(kMap, "sink i aside", "sink i aside", "aside");
}

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

const std::string kPadded = R"(kernel @window contraction {
  param n 0 .. 1000
  argument 0 @x f32 [n, 5]
  argument 1 @w f32 [3, 5, 16] finite
  argument 2 @y f32 [n, 16] written
  local 3 @acc f32 [] written
  for i in n { for j in 16 { allocate 3 {
    %3[] = 0.0:f32
    for k in 3 { for r in 5 {
      %3[] sum= mul(select(cast<bool>([min(less(0, i + k), less(i + k, n + 1))]), load0[i + k - 1, r], 0.0:f32), load1[k, r, j])
    } }
    %2[i, j] = load3[]
  } } }
})";

TEST(Skip, KeepsTheResults) {
  expect_schedule(kPadded, "skip r");
  expect_schedule(kPadded,
                  "split i 4 -> io ii clamped; sink ii; sink j; vectorize j 16; unroll ii; skip r; prefetch 1 r 2");
  expect_schedule(kPadded, "interchange i j; split i 2 -> io ii guard; fuse j io -> p; parallelize p; skip r");
}

// How often the loop runs is what it is for.
TEST(Skip, LeavesOutWhatIsPadding) {
  const Kernel after = apply_schedule(parse_kernel(kPadded), "split i 4 -> io ii clamped; sink ii; sink j; skip r");
  std::vector<Expr> conditions;
  std::map<std::string, Expr> loops;
  visit(after.body, [&](const Stmt& s) {
    if (const For* f = s->as<For>()) loops[loop_name(f->var)] = f->var;
    const If* i = s->as<If>();
    if (i != nullptr && i->then_body->as<For>() != nullptr && loop_name(i->then_body->as<For>()->var) == "r")
      conditions.push_back(condition_expr(i->condition));
  });
  ASSERT_EQ(conditions.size(), 1U) << print(after);
  // Of one row, the middle of the window alone is there; of two, neither neighbour of both is padding.
  for (int64_t n : {1, 2, 9}) {
    for (int64_t k : {0, 1, 2}) {
      const int64_t runs = symbolic::evaluate(
          conditions[0], {{after.params[0].node(), n}, {loops.at("io").node(), 0}, {loops.at("k").node(), k}});
      EXPECT_EQ(runs, n > 1 || k == 1 ? 1 : 0) << n << " rows, tap " << k;
    }
  }
}

TEST(Skip, Illegal) {
  const auto with = [](std::string from, const std::string& what, const std::string& by) {
    return from.replace(from.find(what), what.size(), by);
  };
  expect_illegal(with(kPadded, " finite", ""), "skip r", "skip r", "finite");
  expect_illegal(with(kPadded, "load1[k, r, j]", "add(load1[k, r, j], 1.0:f32)"), "skip r", "skip r", "finite");
  expect_illegal(with(kPadded, "sum=", "max="), "skip r", "skip r", "products");
  expect_illegal(with(kPadded, "0.0:f32), load1", "1.0:f32), load1"), "skip r", "skip r", "0 under");
  expect_illegal(kPadded, "skip k", "skip k", "loop k");
  expect_illegal(kPadded, "skip j", "skip j", "more in it");
  expect_illegal(kPadded, "sink i; skip r", "skip r", "loop i");
}

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
  expect_schedule(scan("sum", "s", false), "split_scan s 4 2 -> so");
  expect_schedule(scan("sum", "m - 1 - s", true), "split_scan s 8 1 -> so; unroll so_f");
  expect_schedule(scan("prod", "s", true),
                  "split_scan s 2 3 -> so; thread so_sum; thread so_step0; thread so_out; parallelize i");
  expect_schedule(scan("max", "s", false), "split_scan s 16 4 -> so; thread so_sum; thread so_step3; thread so_out");
  expect_illegal(scan("sum", "s", false), "split_scan s 6 2 -> so", "split_scan s 6", "no power of two");
  expect_illegal(scan("sum", "s", false), "split_scan i 4 2 -> so", "split_scan i 4", "no scan");
  expect_illegal(scan("sum", "0", false), "split_scan s 4 2 -> so", "split_scan s 4", "not independent");
  expect_illegal(kMatmul, "split_scan r 4 2 -> so", "split_scan r 4", "no scan");
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
  expect_illegal(with_part(kRow), "phase_reduction j part first -> s", "phase_reduction j", "loop j");
  expect_illegal(with_part(kMap), "phase_reduction j part first -> s", "phase_reduction j", "accumulator");
}

// The phases of a kernel, run one after the other, are the kernel.
TEST(Phases, AreTheKernel) {
  std::string text = kMatmul;
  text.insert(text.find("  argument"), "  param part 1 .. 2147483647\n");
  const Kernel whole = parse_kernel(text);
  const Kernel split = apply_schedule(parse_kernel(text), "phase_reduction r part last -> s");
  EXPECT_TRUE(phases_of(whole).empty());
  const std::vector<Phase> phases = phases_of(split);
  ASSERT_EQ(phases.size(), 2u);
  for (const Parameters& params :
       std::vector<Parameters>{{3, 5, 17, 4}, {2, 1, 8, 4}, {1, 4, 3, 100}, {4, 3, 0, 2}, {0, 3, 5, 2}, {2, 3, 5, 1}}) {
    Memory want = make_memory(whole, params), got = want;
    run(whole, want, params);
    const int64_t parts = (params[2] + params[3] - 1) / params[3];
    std::vector<float> part(static_cast<size_t>(params[0] * params[1] * parts), std::nanf(""));
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

TEST(Schedule, Text) {
  const auto steps = parse_schedule("split i 8 -> io ii separate it\n  # a comment\ninterchange io j ; sink ii");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].str(), "split i 8 -> io ii separate it");
  EXPECT_EQ(steps[1].str(), "interchange io j");
  EXPECT_THROW(parse_schedule("twist i"), IllegalTransform);
  EXPECT_THROW(parse_schedule("split i 8 io ii"), IllegalTransform);
  EXPECT_THROW(parse_schedule("split i 8 ->"), IllegalTransform);
  EXPECT_THROW(parse_schedule("unroll -> i"), IllegalTransform);
}

}  // namespace
}  // namespace stax::loop::testing
