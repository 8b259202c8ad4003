// SPDX-License-Identifier: Apache-2.0
// Where the values of a program lie: none that is still needed is overwritten, at any shape, and little is wasted.
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "program/steps.h"
#include "unit/compile/random_graph.h"

namespace stax::compile {
namespace {

using namespace program;  // what is looked at

Program planned(tensor::Graph& graph) {
  optimize(graph, {});
  Compiled compiled = build_program(graph, ir::find_target("cpu"));
  place_loops_side_by_side(*compiled.program, compiled.origin);
  plan_memory(*compiled.program);
  verify(*compiled.program);
  return *compiled.program;
}

std::vector<int64_t> values_at(const Program& p, const std::function<int64_t(const SymbolSpec&)>& of) {
  std::vector<int64_t> symbols, values(p.exprs.nodes().size());
  for (const SymbolSpec& s : p.symbols) symbols.push_back(of(s));
  p.exprs.evaluate(0, values.size(), symbols, values);
  return values;
}

void for_each_use(const Program& p, const Step& step, const std::function<void(ValueRef)>& f) {
  for_each_operand(step, f);
  for_each_result(step, f);
  for_each_block(step, [&](uint32_t b) {
    for (const Step& inner : p.blocks[b].steps) for_each_use(p, inner, f);
    for (const ValueRef v : p.blocks[b].outputs) f(v);
  });
}

struct Placed {
  ValueRef value;
  uint32_t segment;
  int64_t begin, end;
  size_t first, last;
};

std::vector<Placed> placed_in(const Program& p, const BlockSpec& block, const std::vector<int64_t>& values) {
  std::map<ValueRef, Placed> found;
  std::vector<bool> own(p.values.size(), false);
  for (size_t s = 0; s < block.steps.size(); ++s) for_each_result(block.steps[s], [&](ValueRef v) { own[v] = true; });
  for (size_t s = 0; s < block.steps.size(); ++s) {
    for_each_use(p, block.steps[s], [&](ValueRef v) {
      const ValueRef root = root_of(p, v);
      const ValueSpec& spec = p.values[root];
      if (spec.storage != Storage::kArena || !own[root]) return;
      const int64_t begin = values[spec.offset];
      auto [at, fresh] =
          found.try_emplace(root, Placed{root, spec.arena_segment, begin, begin + values[spec.bytes], s, s});
      at->second.last = s;
    });
  }
  std::vector<Placed> result;
  for (const auto& [v, placed] : found) result.push_back(placed);
  return result;
}

struct Use {
  double arena = 0, live = 0;
};

/// Checks one shape; adds up what the arenas take and the least that they could.
void check_plan(const Program& p, const std::vector<int64_t>& values, Use& use) {
  for (const BlockSpec& block : p.blocks) {
    const std::vector<Placed> all = placed_in(p, block, values);
    for (const Placed& a : all) {
      const int64_t size = values[block.segments.at(a.segment).arena_bytes];
      ASSERT_GE(a.begin, 0);
      ASSERT_LE(a.end, size) << "value %" << a.value << " ends behind its arena";
      ASSERT_EQ(a.begin % 64, 0);
      for (const Placed& b : all) {
        if (&a == &b || a.segment != b.segment || a.last < b.first || b.last < a.first) continue;
        ASSERT_TRUE(a.end <= b.begin || b.end <= a.begin)
            << "values %" << a.value << " and %" << b.value << " overlap\n"
            << print(p);
      }
    }
    for (const ValueRef v : block.outputs)
      ASSERT_NE(p.values[root_of(p, v)].storage, Storage::kArena) << "%" << v << " leaves its block";
    for (const Step& step : block.steps) {
      const auto* loop = std::get_if<LoopStep>(&step);
      if (loop == nullptr) continue;
      for (const ValueRef v : loop->initial)
        ASSERT_NE(p.values[root_of(p, v)].storage, Storage::kArena) << "%" << v << " may pass through a loop";
    }
    for (uint32_t k = 0; k < block.segments.size(); ++k) {
      double live = 0;
      for (size_t s = 0; s < block.steps.size(); ++s) {
        double now = 0;
        for (const Placed& a : all)
          if (a.segment == k && a.first <= s && s <= a.last) now += static_cast<double>(a.end - a.begin);
        live = std::max(live, now);
      }
      use.live += live;
      if (block.segments[k].arena_bytes != kNone)
        use.arena += static_cast<double>(values[block.segments[k].arena_bytes]);
    }
  }
}

TEST(PlanMemory, NoTwoLiveValuesOverlapAtAnyShape) {
  Use use;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    RandomGraph random(70'000 + seed);
    random.chain(3 + random.pick(20));
    const Program p = planned(*random.graph);
    std::mt19937_64 draw(seed);
    for (int c = 0; c < 8; ++c) {
      Use unused;
      check_plan(p, values_at(p, [&](const SymbolSpec&) { return kExtents[draw() % std::size(kExtents)]; }), unused);
      ASSERT_FALSE(HasFailure()) << "seed " << 70'000 + seed;
    }
    check_plan(p, values_at(p, [](const SymbolSpec& s) { return std::clamp<int64_t>(48, s.lo, s.hi); }), use);
    ASSERT_FALSE(HasFailure()) << "seed " << 70'000 + seed;
  }
  EXPECT_LE(use.arena, 1.5 * use.live) << use.arena << " bytes of arenas for " << use.live << " live ones";
}

TEST(PlanMemory, AChainNeedsTwoSlots) {
  RandomGraph random(1);
  Value* v = random.input(DType::kF32, {random.dims[0], random.number(64)});
  for (int k = 0; k < 12; ++k)
    v = random.b.matmul(v, random.input(DType::kF32, {random.number(64), random.number(64)}));
  random.output(v);
  const Program p = planned(*random.graph);
  for (const int64_t n : {1, 48, 1000}) {
    const std::vector<int64_t> values = values_at(p, [&](const SymbolSpec&) { return n; });
    Use use;
    check_plan(p, values, use);
    EXPECT_LE(use.arena, 2.0 * static_cast<double>(n * 64 * 4));
  }
}

TEST(PlanMemory, ValuesOfDifferentSymbolsShareASlotOfTheLarger) {
  RandomGraph random(2);
  const auto step = [&](Value* v, Expr n) {
    return random.b.matmul(v, random.input(DType::kF32, {v->type.extents[1], n}));
  };
  Value* v = random.input(DType::kF32, {random.number(4), random.number(8)});
  for (const Expr n : {random.dims[0], random.dims[1], random.dims[2], random.dims[0] * 2, random.dims[1] + 3})
    v = step(v, n);
  random.output(step(v, random.number(8)));
  const Program p = planned(*random.graph);
  std::mt19937_64 draw(3);
  for (int c = 0; c < 50; ++c) {
    Use use;
    check_plan(p, values_at(p, [&](const SymbolSpec&) { return static_cast<int64_t>(draw() % 2000); }), use);
    ASSERT_FALSE(HasFailure());
  }
}

// What runs has been checked by no interpreter here: every expression that a step reads is computed before it.
TEST(PlanMemory, EveryExpressionHasItsPlace) {
  RandomGraph random(4);
  Value* x = random.input(DType::kF32, {random.dims[0], random.number(4)});
  tensor::Builder& b = random.b;
  tensor::Op* found =
      b.op(tensor::NonZero{}, {x},
           {tensor::Type::tensor(DType::kI64, {b.constant_expr(2), b.new_symbol("found", {0, symbolic::kMaxExtent})})});
  found->defines = {found->result()->type.extents[1]};
  Value* rows = b.slice(found->result(), 0, b.constant_expr(0), b.constant_expr(1), b.constant_expr(1));
  Value* picked = b.gather(x, b.reshape(rows, {found->result()->type.extents[1]}), 0);
  random.output(b.reduce_axes(Combiner::kSum, picked, {0}, false, DType::kF32));
  random.output(b.softmax(picked, 1));
  const Program p = planned(*random.graph);
  EXPECT_GE(p.blocks[0].segments.size(), 2u);
  Use use;
  check_plan(p, values_at(p, [](const SymbolSpec&) { return 9; }), use);
}

}  // namespace
}  // namespace stax::compile
