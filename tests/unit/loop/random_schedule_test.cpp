// SPDX-License-Identifier: Apache-2.0
// Random schedules on kernels of all kinds: what is legal keeps the results, what is illegal says so and is left out.
#include <cstdlib>
#include <set>

#include "kernels.h"

namespace stax::loop::testing {
namespace {

// In place, shifted by one; and a sum along a row that every element of the row needs.
const char* const kShift = R"(
kernel @shift map {
  param n 0 .. 100
  param m 0 .. 100
  argument 0 @x f32 [n + 1, m] written
  argument 1 @y f32 [n, m] written
  for i in n {
    for j in m {
      %0[i, j] = add(load0[i + 1, j], 1.0:f32)
      %1[i, j] = load0[i, j]
    }
  }
})";

const char* const kInPlace = R"(
kernel @in_place map {
  param n 0 .. 100
  param m 0 .. 100
  argument 0 @x f32 [n, m] written
  for i in n {
    for j in m {
      if cast<bool>([less(j, i + 3)]) {
        %0[i, j] = mul(load0[i, j], 2.0:f32)
      } else {
        %0[i, j] = neg(load0[i, j])
      }
    }
  }
})";

const char* const kTransposed = R"(
kernel @transposed reduction {
  param n 0 .. 100
  param m 0 .. 100
  argument 0 @x i32 [m, n]
  argument 1 @sum i32 [n] written
  argument 2 @top i32 [m] written
  for i in n {
    %1[i] = 0:i32
  }
  for i in n {
    for r in m {
      %1[i] sum= load0[r, i]
    }
  }
  for j in m {
    %2[j] = -100:i32
    for s in n {
      %2[j] max= add(load0[j, s], load1[s])
    }
  }
})";

const char* const kScatter = R"(
kernel @scatter scatter {
  param n 0 .. 100
  param m 0 .. 100
  argument 0 @at i64 [n]
  argument 1 @x f32 [n, m]
  argument 2 @y f32 [7, m] written
  for i in n {
    for j in m {
      %2[{load0[i]}, j] sum= load1[i, j]
    }
  }
})";

const char* const kTriangle = R"(
kernel @triangle contraction {
  param n 0 .. 100
  argument 0 @x f32 [n, n]
  argument 1 @y f32 [n, n] written
  local 2 @acc f32 []
  for i in n {
    for j in n {
      allocate 2 {
        %2[] = 0.0:f32
        for r in min(i + 1, j + 1) {
          %2[] sum= mul(load0[i, r], load0[r, j])
        }
        %1[i, j] = load2[]
      }
    }
  }
})";

class Randomizer {
 public:
  explicit Randomizer(unsigned seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }

  std::string step(const Kernel& kernel) {
    std::set<std::string> names;
    visit(kernel.body, [&](const Stmt& s) {
      if (const For* f = s->as<For>()) names.insert(loop_name(f->var));
    });
    if (names.empty()) return {};
    const std::vector<std::string> loops(names.begin(), names.end());
    const auto loop = [&] { return pick(loops); };
    const auto fresh = [&] { return "v" + std::to_string(count_++); };
    const auto factor = [&] { return std::to_string(pick<int>({1, 2, 3, 4, 8})); };
    const auto slot = [&] { return std::to_string(below(static_cast<int64_t>(kernel.buffers.size()))); };
    switch (below(15)) {
      case 0: return "split " + loop() + " " + factor() + " -> " + fresh() + " " + fresh();
      case 1: return "split " + loop() + " " + factor() + " -> " + fresh() + " " + fresh() + " separate " + fresh();
      case 2: return "split " + loop() + " " + factor() + " -> " + fresh() + " " + fresh() + " cases " + fresh();
      case 3:
        return "split " + loop() + " " + factor() + " -> " + fresh() + " " + fresh() +
               pick<const char*>({" exact", " bounded", " clamped"});
      case 4:
      case 5: return "interchange " + loop() + " " + loop();
      case 6: return "fuse " + loop() + " " + loop() + " -> " + fresh();
      case 7:
        return "tile " + loop() + " " + loop() + " " + factor() + " " + factor() + " -> " + fresh() + " " + fresh() +
               " " + fresh() + " " + fresh();
      case 8: return "sink " + loop() + (below(3) == 0 ? " above " + loop() : "");
      case 9: return "unroll " + loop();
      case 10: return "vectorize " + loop() + " " + factor();
      case 11:
        return below(2) != 0 ? "parallelize " + loop()
                             : "split_reduction " + loop() + " " + factor() + " -> " + fresh() + " " + fresh() +
                                   pick<const char*>({"", " outside"});
      case 12:
        return below(2) != 0
                   ? "align " + loop() + " " + pick<const char*>({"2", "4", "8"}) + " of " + slot() + " -> " + fresh()
                   : "stage " + slot() + " at " + loop() + " -> " + fresh();
      case 13:
        switch (below(3)) {
          case 0: return "prefetch " + slot() + " " + loop() + " next " + loop() + " over " + loop();
          case 1: return "prefetch " + slot() + " " + loop() + " row " + loop();
          default: return "prefetch " + slot() + " " + loop() + " 3";
        }
      default: return (below(2) != 0 ? "compute_at " : "double_buffer ") + slot() + " " + loop();
    }
  }

 private:
  std::mt19937 random_;
  int count_ = 0;
};

TEST(RandomSchedule, KeepsTheResults) {
  const char* rounds = std::getenv("STAX_TEST_ROUNDS");
  const char* first = std::getenv("STAX_TEST_SEED");
  const unsigned begin = first != nullptr ? static_cast<unsigned>(std::atoi(first)) : 1;
  const unsigned end = begin + (rounds != nullptr ? static_cast<unsigned>(std::atoi(rounds)) : 80);
  const std::vector<const char*> kernels = {kMatmul, kMap,     kWindow,     kRow,     kStencil,
                                            kShift,  kInPlace, kTransposed, kScatter, kTriangle};
  int legal = 0;
  for (unsigned seed = begin; seed < end; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Randomizer random(seed);
    const Kernel before = parse_kernel(random.pick(kernels));
    verify(before);
    Kernel after = before;
    for (int64_t tries = 4 + random.below(60); tries > 0; --tries) {
      const std::string step = random.step(after);
      if (step.empty()) break;
      SCOPED_TRACE(after.schedule + "; " + step);
      try {
        after = apply_schedule(after, step);
        ++legal;
        ASSERT_NO_THROW(verify(after)) << print(after);
      } catch (const IllegalTransform&) {
      }
      if (print(after).size() > 20000) break;
    }
    SCOPED_TRACE(after.schedule);
    ASSERT_EQ(print(parse_kernel(print(after))), print(after));
    ASSERT_EQ(print(apply_schedule(before, after.schedule), true), print(after, true));
    const Kernel simple = simplify(after);
    const Kernel partitioned = partition_loops(simple);
    const Kernel hoisted = simplify(hoist_loop_invariants(partitioned));
    const Kernel backwards = reversed(after);
    for (int shape = 0; shape < 4; ++shape) {
      Parameters params;
      for (size_t p = 0; p < before.params.size(); ++p)
        params.push_back(random.pick<int64_t>({0, 1, 2, 3, 5, 7, 8, 9, 13}));
      for (const Kernel* k : {&static_cast<const Kernel&>(after), &simple, &partitioned, &hoisted, &backwards}) {
        expect_same(before, *k, params);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  RecordProperty("legal_steps", legal);
  EXPECT_GT(legal, static_cast<int>(end - begin));
}

}  // namespace
}  // namespace stax::loop::testing
