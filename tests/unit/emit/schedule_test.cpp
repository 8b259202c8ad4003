// SPDX-License-Identifier: Apache-2.0
// Kernels under random schedules: whatever nest comes out, machine code does what the interpreter does.
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "loop/passes.h"
#include "loop/transform.h"
#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

struct Case {
  const char* text;
  std::vector<std::vector<int64_t>> shapes;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{R"(kernel @matmul contraction {
        param m 0 .. 1000 param n 0 .. 1000 param k 0 .. 1000
        argument 0 @a f32 [m, k] argument 1 @b f32 [k, n] argument 2 @bias f32 [n] argument 3 @c f32 [m, n] written local 4 @acc f32 []
        for i in m { for j in n { allocate 4 {
          %4[] = 0.0:f32
          for r in k { %4[] sum= mul(load0[i, r], load1[r, j]) }
          %3[i, j] = tanh(add(load4[], load2[j]))
        } } }
      })",
                                         {{0, 3, 2}, {1, 1, 1}, {5, 17, 4}, {9, 33, 0}, {8, 32, 7}, {17, 50, 3}}},
                                        {R"(kernel @window reduction {
        param n 0 .. 1000 param c 0 .. 1000
        argument 0 @x f32 [n, c] argument 1 @f f32 [3, c] argument 2 @y f32 [n, c] written local 3 @acc f32 []
        for i in n { for j in c { allocate 3 {
          %3[] = 0.0:f32
          for w in 3 { %3[] sum= select(and(cast<bool>([less(0, i + w)]), cast<bool>([less(i + w, n + 1)])), mul(load0[i + w - 1, j], load1[w, j]), 0.0:f32) }
          %2[i, j] = load3[]
        } } }
      })",
                                         {{0, 1}, {1, 1}, {4, 16}, {7, 35}, {18, 3}}},
                                        {R"(kernel @norm reduction {
        param n 0 .. 1000 param m 0 .. 1000
        argument 0 @x f64 [n, m] argument 1 @y f32 [n, m] written local 2 @top f64 [] local 3 @sum f64 []
        for i in n { allocate 2 { allocate 3 {
          %2[] = -inf:f64
          for r in m { %2[] max= load0[i, r] }
          %3[] = 0.0:f64
          for s in m { %3[] sum= exp(sub(load0[i, s], load2[])) }
          for j in m { %1[i, j] = cast<f32>(div(exp(sub(load0[i, j], load2[])), load3[])) }
        } } }
      })",
                                         {{0, 5}, {1, 1}, {3, 16}, {5, 70}, {20, 9}}},
                                        {R"(kernel @shuffle map {
        param n 0 .. 1000 param m 0 .. 1000
        argument 0 @x i16 [m, n] argument 1 @y i16 [n, m] written argument 2 @z bool [m*n] written
        for i in n { for j in m {
          %1[i, j] = add(load0[m - 1 - j, i], cast<i16>([floordiv(i*m + j, 3) - mod(j, n)]))
          if cast<bool>([less(j, i + 4)]) { %2[i*m + j] = lt(load0[j, i], cast<i16>([2])) } else { %2[i*m + j] = cast<bool>([mod(i, 2)]) }
        } }
      })",
                                         {{0, 5}, {1, 1}, {3, 16}, {5, 40}, {33, 18}}},
                                        {R"(kernel @triangle contraction {
        param n 0 .. 1000
        argument 0 @x f32 [n, n] argument 1 @y f32 [n, n] written local 2 @acc f32 []
        for i in n { for j in n { allocate 2 {
          %2[] = 0.0:f32
          for r in min(i + 1, j + 1) { %2[] sum= mul(load0[i, r], load0[r, j]) }
          %1[i, j] = load2[]
        } } }
      })",
                                         {{0}, {1}, {7}, {20}, {35}}},
                                        {R"(kernel @bytes reduction {
        param n 0 .. 1000 param m 0 .. 1000
        argument 0 @x u8 [n, m] argument 1 @w i8 [m] argument 2 @y i32 [n] written local 3 @acc i32 []
        for i in n { allocate 3 {
          %3[] = 0:i32
          for r in m { %3[] sum= mul(cast<i32>(load0[i, r]), cast<i32>(load1[r])) }
          %2[i] = load3[]
        } }
      })",
                                         {{0, 3}, {1, 1}, {3, 64}, {40, 75}}},
                                        {R"(kernel @rows map {
        param n 0 .. 1000 param m 0 .. 1000
        argument 0 @table f16 [10, m] argument 1 @index i32 [n] argument 2 @y f16 [n, m] written
        for i in n { for j in m { %2[i, j] = mul(load0[{cast<i64>(load1[i])}, j], cast<f16>(0.5:f32)) } }
      })",
                                         {{0, 3}, {1, 1}, {3, 64}, {40, 33}}}};
  return all;
}

class Randomizer {
 public:
  explicit Randomizer(unsigned seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T pick(const std::vector<T>& items) {
    return items[below(items.size())];
  }

  std::string step(const loop::Kernel& kernel) {
    std::set<std::string> names;
    loop::visit(kernel.body, [&](const Stmt& s) {
      if (auto* f = s->as<loop::For>()) names.insert(loop::loop_name(f->var));
    });
    const std::vector<std::string> loops(names.begin(), names.end());
    const auto loop = [&] { return pick(loops); };
    const auto fresh = [&] { return "v" + std::to_string(count_++); };
    const auto size = [&] { return pick<std::string>({"2", "4", "8", "16", "32"}); };
    switch (below(13)) {
      case 0:
      case 1:
        return "split " + loop() + " " + size() + " -> " + fresh() + " " + fresh() +
               pick<std::string>({"", " bounded", " clamped", " exact"});
      case 2: return "split " + loop() + " " + size() + " -> " + fresh() + " " + fresh() + " cases " + fresh();
      case 3: return "interchange " + loop() + " " + loop();
      case 4: return "fuse " + loop() + " " + loop() + " -> " + fresh();
      case 5:
      case 6: return "sink " + loop();
      case 7: return "unroll " + loop();
      case 8: return "split_reduction " + loop() + " 4 -> " + fresh() + " " + fresh();
      case 9: return "parallelize " + loop();
      case 10: return "prefetch " + std::to_string(below(2)) + " " + loop() + (below(2) != 0 ? " 5" : " row " + loop());
      default: return "vectorize " + loop() + " " + pick<std::string>({"4", "8", "16", "32"});
    }
  }

 private:
  using Stmt = loop::Stmt;
  std::mt19937 random_;
  int count_ = 0;
};

TEST(Schedules, DoNotChangeWhatIsComputed) {
  const char* wanted_rounds = std::getenv("STAX_TEST_ROUNDS");
  const char* wanted_seed = std::getenv("STAX_TEST_SEED");
  const unsigned first = wanted_seed != nullptr ? static_cast<unsigned>(std::atoi(wanted_seed)) : 1;
  const unsigned rounds = wanted_rounds != nullptr ? static_cast<unsigned>(std::atoi(wanted_rounds)) : 60;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(fmt::format("STAX_TEST_SEED={}", seed));
    Randomizer random(seed);
    const Case& one = cases()[seed % cases().size()];
    loop::Kernel kernel = loop::parse_kernel(one.text);
    for (int steps = 0, tries = 0; steps < 7 && tries < 60; ++tries) {
      const std::string step = random.step(kernel);
      try {
        kernel = loop::apply_schedule(kernel, step);
        ++steps;
      } catch (const UserError&) {
      }
    }
    if (seed % 2 == 0) kernel = loop::simplify(kernel);
    if (loop::print(kernel).size() > 20000) continue;
    const std::vector<Isa> isas = testable_isas();
    Comparison comparison(kernel, {isas[seed % isas.size()]});
    const bool half = kernel.name == "rows";
    comparison.tolerance = {half ? 2e-3 : 1e-5, half ? 1e-3 : 1e-5};
    if (half) {
      comparison.fill = [](int slot, int64_t i) {
        ir::Value64 v;
        if (slot == 1)
          v.i = i * 7 % 10;
        else
          v.f = static_cast<double>(i % 64) / 8;
        return v;
      };
    }
    for (const std::vector<int64_t>& shape : one.shapes) {
      // The trip count of the parallel loop.
      comparison.parallel = 1;
      if (auto* outer = kernel.body->as<loop::For>(); outer != nullptr && outer->kind == loop::LoopKind::kParallel) {
        std::unordered_map<const symbolic::ExprNode*, int64_t> values;
        for (size_t i = 0; i < shape.size(); ++i) values[kernel.params[i].node()] = shape[i];
        comparison.parallel = symbolic::evaluate(outer->extent, values);
      }
      comparison.check(shape, seed);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace stax::emit
