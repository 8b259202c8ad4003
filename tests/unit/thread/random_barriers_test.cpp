// SPDX-License-Identifier: Apache-2.0
// Barriers of random kernels, looked at by the interpreter: none is missing, and threads come to all of them.
#include <gtest/gtest.h>

#include <random>

#include "support/error.h"
#include "thread/interpret.h"
#include "thread/passes.h"

namespace stax::thread {
namespace {

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::string kernel() {
    std::string text =
        "kernel @k map {\n param n 1 .. 6\n global 0 @x f32 [64]\n global 1 @y f32 [4096] written\n shared 2 @s f32 "
        "[256]\n"
        " shared 3 @u f32 [256]\n local 4 @l f32 [4]\n grid bx 2 by 1 bz 1\n block t 64 warp 32\n"
        " for z in 4 { %2[t + z*64] = 0.0:f32 %3[t + z*64] = 0.0:f32 }\n barrier\n %4[0] = 0.0:f32\n";
    for (int i = 0; i < 4; ++i) text += statement(2);
    return text + "}";
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::string index() {
    const std::string loop =
        loops_.empty() ? "bx" : loops_[static_cast<size_t>(below(static_cast<int>(loops_.size())))];
    switch (below(9)) {
      case 0: return "t";
      case 1: return "63 - t";
      case 2: return "mod(t + 1, 64)";
      case 3: return "t + mod(" + loop + ", 2)*64";
      case 4: return "mod(" + loop + " + 1, 2)*64 + 63 - t";
      case 5: return "floordiv(t, 2)";
      case 6: return loop;
      case 7: return "t + mod(" + loop + ", 3)*64";
      default: return "t + " + std::to_string(below(4) * 64);
    }
  }

  std::string access() {
    const std::string slot = std::to_string(2 + below(2));
    switch (below(6)) {
      // Writes that do not meet each other within a statement: that would be no matter of barriers.
      case 0: return "%" + slot + "[t + " + std::to_string(below(4) * 64) + "] = load4[0]\n";
      case 1: return "%" + slot + "[63 - t] = load4[0]\n";
      case 2:
        return "if cast<bool>([equal(t, " + std::to_string(below(3)) + ")]) { %" + slot + "[" + index() +
               "] = 1.0:f32 }\n";
      case 3: return "%" + slot + "[t + mod(" + (loops_.empty() ? "bx" : loops_.back()) + ", 2)*64] = load4[0]\n";
      default: return "%4[0] = load" + slot + "[" + index() + "]\n";
    }
  }

  std::string statement(int depth) {
    std::string inner;
    if (depth == 0 || below(3) == 0) return access();
    const bool is_loop = below(2) == 0;
    const std::string var = "i" + std::to_string(variables_);
    if (is_loop) ++variables_, loops_.push_back(var);
    for (int i = 0; i < 3; ++i) inner += statement(depth - 1);
    if (is_loop) loops_.pop_back();
    if (is_loop) return "for " + var + " in " + (below(2) == 0 ? "n" : "3") + " {\n" + inner + "}\n";
    const char* const conditions[] = {"less(t, 32)", "equal(mod(t, 2), 0)", "less(bx, 1)", "less(t, n)", "less(n, 3)"};
    const int which = below(5);
    std::string text = std::string("if cast<bool>([") + conditions[which] + "]) {\n" + inner + "}";
    // Threads that go different ways have no order.
    const bool is_uniform = which == 2 || which == 4;
    if (is_uniform && below(3) == 0) text += " else {\n" + statement(0) + "}";
    return text + "\n";
  }

  std::mt19937 random_;
  std::vector<std::string> loops_;
  int variables_ = 0;
};

Outcome run(const Kernel& kernel, int64_t n) {
  std::vector<float> x(64), y(4096);
  void* buffers[] = {x.data(), y.data()};
  Launch launch;
  launch.buffers = buffers;
  launch.params = {&n, 1};
  return interpret(kernel, launch);
}

TEST(InsertBarriers, RandomKernels) {
  const unsigned first = testing::UnitTest::GetInstance()->random_seed() != 0
                             ? static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()) * 1000
                             : std::random_device{}();
  int without = 0, with = 0;
  for (unsigned seed = first; seed < first + 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Kernel kernel = parse_kernel(Generator(seed).kernel());
    verify(kernel, Stage::kStructured);
    const Kernel result = insert_barriers(kernel);
    verify(result, Stage::kFinal);
    EXPECT_EQ(insert_barriers(result).body, result.body) << print(result);
    for (const int64_t n : {1, 2, 5}) {
      without += static_cast<int>(run(kernel, n).reports.size());
      const Outcome outcome = run(result, n);
      with += static_cast<int>(outcome.counters.barriers);
      for (const Report& r : outcome.reports) ADD_FAILURE() << "n = " << n << ": " << r.str() << "\n" << print(result);
      if (testing::Test::HasFailure()) return;
    }
  }
  // The kernels are such that something is to be done.
  EXPECT_GT(without, 30);
  EXPECT_GT(with, 100);
}

}  // namespace
}  // namespace stax::thread
