// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "kernels.h"
#include "loop/access.h"

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

TEST(Sink, StaysAboveTheLoopsThatAreNamed) {
  const std::string row = R"(kernel @kept rows {
    param n 0 .. 100
    param m 0 .. 100
    argument 0 @x f32 [n, m]
    argument 1 @out f32 [n, m] written
    local 2 @total f32 []
    for i in n { allocate 2 {
      %2[] = 0.0:f32
      for r in m { %1[i, r] = mul(load0[i, r], load0[i, r])
        %2[] sum= load1[i, r] }
      for s in m { %1[i, s] = sub(load1[i, s], load2[]) }
    } }
  })";
  expect_schedule(row, "split i 4 -> io ii separate it; sink ii above r");
  expect_schedule(row, "split i 4 -> io ii separate it; sink ii apart above r s");
  const Kernel after = apply_schedule(parse_kernel(row), "split i 4 -> io ii separate it; sink ii above r");
  std::vector<std::string> inside;
  visit(after.body, [&](const Stmt& s) {
    const auto* f = s->as<For>();
    const auto* inner = f ? f->body->as<For>() : nullptr;
    if (inner) inside.push_back(loop_name(f->var) + " " + loop_name(inner->var));
  });
  EXPECT_EQ(inside, (std::vector<std::string>{"ii r", "s ii"}));
  expect_illegal(kMap, "sink i above", "sink i above", "above");
  expect_illegal(kMap, "sink i above nothing", "sink i above nothing", "nothing");
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
