// SPDX-License-Identifier: Apache-2.0
#include "thread/interpret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "support/error.h"
#include "support/float16.h"
#include "thread/mma.h"

namespace stax::thread {
namespace {

// Memory of a launch: one vector for each argument.
template <class... T>
Outcome run(const Kernel& kernel, const std::vector<int64_t>& params, bool check, std::vector<T>&... buffers) {
  void* pointers[] = {buffers.data()...};
  Launch launch;
  launch.buffers = pointers;
  launch.params = params;
  launch.check = check;
  return interpret(kernel, launch);
}

std::string reports_of(const Outcome& outcome) {
  std::string text;
  for (const Report& r : outcome.reports) text += r.str() + "\n";
  return text;
}

std::vector<float> numbers(int64_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> result(static_cast<size_t>(count));
  for (float& x : result) x = std::uniform_real_distribution<float>(-4, 4)(random);
  return result;
}

const char* const kSaxpy = R"(kernel @saxpy map {
  param n 0 .. 1000000
  global 0 @x f32 [n]
  global 1 @y f32 [n] written
  grid bx floordiv(n + 255, 256) by 1 bz 1
  block t 256 warp 32
  if cast<bool>([less(t + bx*256, n)]) {
    %1[t + bx*256] = add(mul(load0[t + bx*256], 2.0:f32), load1[t + bx*256])
  }
})";

TEST(Interpret, Elementwise) {
  const Kernel kernel = parse_kernel(kSaxpy);
  for (const int64_t n : {0, 1, 255, 256, 257, 1000, 100000}) {
    std::vector<float> x = numbers(n), y = numbers(n, 2), before = y;
    const Outcome outcome = run(kernel, {n}, true, x, y);
    EXPECT_EQ(reports_of(outcome), "");
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i] * 2 + before[i]);
    EXPECT_EQ(outcome.counters.loads, 2 * n);
    EXPECT_EQ(outcome.counters.stores, n);
    EXPECT_EQ(outcome.counters.float_ops, 2 * n);
  }
}

// A sum over a row: threads, shuffles in a warp, shared memory between warps.
const char* const kRowSum = R"(kernel @row_sum reduction {
  param n 0 .. 1000000
  param m 0 .. 1000000
  global 0 @x f32 [n*m]
  global 1 @y f32 [n] written
  shared 2 @part f32 [8]
  local 3 @sum f32 [1]
  local 4 @other f32 [1]
  grid bx n by 1 bz 1
  block t 256 warp 32
  %3[0] = 0.0:f32
  for j in floordiv(m - t + 255, 256) {
    %3[0] = add(load3[0], load0[bx*m + t + j*256])
  }
  shuffle %4[0] = load3[0] xor 16
  %3[0] = add(load3[0], load4[0])
  shuffle %4[0] = load3[0] xor 8
  %3[0] = add(load3[0], load4[0])
  shuffle %4[0] = load3[0] xor 4
  %3[0] = add(load3[0], load4[0])
  shuffle %4[0] = load3[0] xor 2
  %3[0] = add(load3[0], load4[0])
  shuffle %4[0] = load3[0] xor 1
  %3[0] = add(load3[0], load4[0])
  if cast<bool>([equal(mod(t, 32), 0)]) {
    %2[floordiv(t, 32)] = load3[0]
  }
  barrier
  if cast<bool>([equal(t, 0)]) {
    %3[0] = 0.0:f32
    for w in 8 {
      %3[0] = add(load3[0], load2[w])
    }
    %1[bx] = load3[0]
  }
})";

TEST(Interpret, RowSums) {
  const Kernel kernel = parse_kernel(kRowSum);
  verify(kernel, Stage::kFinal);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {3, 1}, {2, 255}, {7, 1000}, {40, 3000}}) {
    std::vector<float> x(static_cast<size_t>(n * m)), y(static_cast<size_t>(n), NAN);
    std::mt19937 random(7);
    for (float& v : x) v = static_cast<float>(random() % 17);
    EXPECT_EQ(reports_of(run(kernel, {n, m}, true, x, y)), "");
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < m; ++j) sum += x[static_cast<size_t>(i * m + j)];
      EXPECT_EQ(y[static_cast<size_t>(i)], sum);
    }
  }
}

// ---- Faults, each planted

struct Fault {
  const char* body;
  Report::Kind kind;
  const char* statement;
  int64_t thread, other;
  const char* buffer;
};

TEST(Interpret, FaultsAreReported) {
  const std::string header =
      "kernel @k map {\n  param n 0 .. 1000\n  global 0 @x f32 [n] align 16\n  global 1 @y f32 [n] align 16 written\n"
      "  shared 2 @s f32 [64]\n  local 3 @l f32 [4]\n  local 4 @i i64 [1]\n  local 5 @b bool [1]\n"
      "  grid bx floordiv(n, 64) by 1 bz 1\n  block t 64 warp 32\n";
  const int first_line = 11;
  using Kind = Report::Kind;
  const std::vector<Fault> faults = {
      // A missing barrier, in both directions, and two writes.
      {"%2[t] = 1.0:f32\n%3[0] = load2[63 - t]", Kind::kRace, "%3[0] = load2[-t + 63]", 0, 63, "s"},
      {"%2[t] = 1.0:f32\nbarrier\n%3[0] = load2[63 - t]\n%2[t] = 2.0:f32", Kind::kRace, "%2[t] = 2.0:f32", 0, 63, "s"},
      {"%2[0] = 1.0:f32", Kind::kRace, "%2[0] = 1.0:f32", 1, 0, "s"},
      {"%1[bx*64 + floordiv(t, 2)] = 1.0:f32", Kind::kRace, "%1[bx*64 + floordiv(t, 2)] = 1.0:f32", 1, 0, "y"},
      // A plain access beside atomics.
      {"%2[t] = 1.0:f32\nbarrier\natomic %2[0] sum= 1.0:f32\n%3[0] = load2[0]", Kind::kRace, "%3[0] = load2[0]", 0, 63,
       "s"},
      // Between blocks.
      {"%1[t] = 1.0:f32", Kind::kRace, "%1[t] = 1.0:f32", 0, 0, "y"},
      {"if cast<bool>([equal(bx, 0)]) {\n%1[t] = 1.0:f32\n}\nif cast<bool>([equal(bx, 1)]) {\n%3[0] = load1[t]\n}",
       Kind::kRace, "%3[0] = load1[t]", 0, 0, "y"},
      // Out of bounds.
      {"%3[0] = load0[t + bx*64 + 1]", Kind::kOutOfBounds, "%3[0] = load0[bx*64 + t + 1]", 63, -1, "x"},
      {"%3[0] = load2[t - 1]", Kind::kOutOfBounds, "%3[0] = load2[t - 1]", 0, -1, "s"},
      {"%3[t] = 1.0:f32", Kind::kOutOfBounds, "%3[t] = 1.0:f32", 4, -1, "l"},
      {"load %3[0] = %0[t*4 + bx*64] width 4", Kind::kOutOfBounds, "load %3[0] = %0[bx*64 + t*4] width 4", 32, -1, "x"},
      // Nothing was written there.
      {"%3[0] = load2[t]", Kind::kUninitialized, "%3[0] = load2[t]", 0, -1, "s"},
      {"if cast<bool>([less(t, 63)]) {\n%2[t] = 1.0:f32\n}\nbarrier\n%3[0] = load2[63 - t]", Kind::kUninitialized,
       "%3[0] = load2[-t + 63]", 0, -1, "s"},
      // A barrier that some do not come to.
      {"%4[0] = [t]\nif lt(load4[0], [40]) {\nbarrier\n}", Kind::kDivergentBarrier, "barrier", 0, 40, ""},
      {"load %3[0] = %0[mod(t, 8) + bx*64] width 2", Kind::kMisaligned, "load %3[0] = %0[bx*64 + mod(t, 8)] width 2", 1,
       -1, "x"},
      {"%2[t] = 1.0:f32\nbarrier\nload %3[0] = %2[2] width 4", Kind::kMisaligned, "load %3[0] = %2[2] width 4", 0, -1,
       "s"},
      // Lanes that do not take part, or do not exist.
      {"if cast<bool>([less(t, 20)]) {\nshuffle %3[0] = 1.0:f32 xor 1\n}", Kind::kBadLane,
       "shuffle %3[0] = 1.0:f32 xor 1", 19, 31, ""},
      {"shuffle %3[0] = 1.0:f32 lane mod(t, 32) + 1", Kind::kBadLane, "shuffle %3[0] = 1.0:f32 lane mod(t, 32) + 1", 31,
       -1, ""},
      {"if cast<bool>([less(t, 40)]) {\nvote %5[0] = any true:bool\n}", Kind::kBadLane, "vote %5[0] = any true:bool",
       39, 63, ""},
      // The values of a copy before it has arrived, and of others before a barrier.
      {"if cast<bool>([less(t, 16)]) {\nasync_copy %2[t*4] = %0[t*4] width 4\nasync_commit\n%3[0] = load2[t*4]\n}",
       Kind::kRace, "%3[0] = load2[t*4]", 0, 0, "s"},
      {"if cast<bool>([less(t, 16)]) {\nasync_copy %2[t*4] = %0[t*4] width 4\nasync_commit\nasync_wait 0\n}\n%3[0] = "
       "load2[t]",
       Kind::kRace, "%3[0] = load2[t]", 1, 0, "s"},
      {"if cast<bool>([less(t, 16)]) {\nasync_copy %2[t*4] = %0[t*4] width 4\nasync_commit\nasync_wait 1\n}\nbarrier\n"
       "%3[0] = load2[t]",
       Kind::kRace, "%3[0] = load2[t]", 0, 0, "s"},
  };
  for (const Fault& fault : faults) {
    const Kernel kernel = parse_kernel(header + fault.body + "\n}");
    std::vector<float> x = numbers(128), y(128);
    const Outcome outcome = run(kernel, {128}, true, x, y);
    ASSERT_FALSE(outcome.reports.empty()) << fault.body;
    const Report& r = outcome.reports.front();
    EXPECT_EQ(name_of(r.kind), name_of(fault.kind)) << fault.body << "\n" << reports_of(outcome);
    EXPECT_EQ(r.thread, fault.thread) << fault.body << "\n" << reports_of(outcome);
    EXPECT_EQ(r.other_thread, fault.other) << fault.body << "\n" << reports_of(outcome);
    EXPECT_EQ(r.buffer, fault.buffer) << fault.body;
    // The line is that of the printed kernel.
    std::istringstream printed(print(kernel));
    std::string line;
    for (int i = 0; i < r.line; ++i) std::getline(printed, line);
    EXPECT_EQ(line.substr(line.find_first_not_of(' ')), r.statement);
    EXPECT_EQ(r.statement, r.statement.find(fault.statement) == 0 ? fault.statement : r.statement) << fault.body;
    EXPECT_EQ(r.statement, fault.statement) << fault.body;
    EXPECT_GE(r.line, first_line);
    EXPECT_NE(r.str().find(fault.statement), std::string::npos);
  }
}

TEST(Interpret, WithoutChecksFaultsOfMemoryAreStillCaught) {
  Kernel kernel = parse_kernel(
      "kernel @k map { param n 0 .. 9 global 0 @x f32 [n] global 1 @y f32 [n] written grid bx 1 by 1 bz 1 block t 64 "
      "warp "
      "32 %1[t] = load0[t - 1] }");
  std::vector<float> x{1, 2, 3}, y{7, 7, 7};
  const Outcome outcome = run(kernel, {3}, false, x, y);
  EXPECT_EQ(y, (std::vector<float>{0, 1, 2}));
  ASSERT_EQ(outcome.reports.size(), 2U) << reports_of(outcome);
  EXPECT_EQ(outcome.reports[0].kind, Report::Kind::kOutOfBounds);
}

// ---- Counters

TEST(Counters, CoalescedAndStridedAccess) {
  const auto run_with = [](const std::string& index, const std::string& statement) {
    const Kernel kernel = parse_kernel(
        "kernel @k map { param n 0 .. 100000 global 0 @x f32 [n] align 16 local 1 @l f32 [4] grid bx 1 by 1 bz 1 block "
        "t 64 warp "
        "32 " +
        statement + "0[" + index + "]" + (statement.starts_with("load") ? " width 4" : "") + " }");
    std::vector<float> x(8192);
    return run(kernel, {8192}, true, x).counters;
  };
  // 32 lanes of 4 bytes side by side: 4 sectors.
  const Counters near = run_with("t", "%1[0] = load");
  EXPECT_EQ(near.global_requests, 2);
  EXPECT_EQ(near.global_sectors, 8);
  EXPECT_EQ(near.least_sectors, 8);
  EXPECT_EQ(run_with("t + 1", "%1[0] = load").global_sectors, 10);
  EXPECT_EQ(run_with("t*2", "%1[0] = load").global_sectors, 16);
  EXPECT_EQ(run_with("t*8", "%1[0] = load").global_sectors, 64);
  EXPECT_EQ(run_with("t*100", "%1[0] = load").global_sectors, 64);
  EXPECT_EQ(run_with("t*100", "%1[0] = load").least_sectors, 8);
  EXPECT_EQ(run_with("5", "%1[0] = load").global_sectors, 2);
  EXPECT_EQ(run_with("5", "%1[0] = load").least_sectors, 2);
  EXPECT_EQ(run_with("t*4", "load %1[0] = %").global_sectors, 32);
}

TEST(Counters, BankConflicts) {
  const auto cycles = [](const std::string& index, const std::string& extra = "", const char* type = "f32") {
    const Kernel kernel = parse_kernel(
        std::string("kernel @k map { shared 0 @s ") + type + " [4096] local 1 @l " + type +
        " [4] grid bx 1 by 1 bz 1 block t 32 warp 32 " +
        (extra.empty() ? "%1[0] = load0[" + index + "]" : "load %1[0] = %0[" + index + "] " + extra) + " }");
    Launch launch;
    launch.check = false;
    const Outcome outcome = interpret(kernel, launch);
    EXPECT_EQ(outcome.counters.shared_requests, 1);
    return outcome.counters.shared_cycles;
  };
  EXPECT_EQ(cycles("t"), 1);
  EXPECT_EQ(cycles("31 - t"), 1);
  EXPECT_EQ(cycles("0"), 1);
  EXPECT_EQ(cycles("floordiv(t, 2)"), 1);
  EXPECT_EQ(cycles("t*2"), 2);
  EXPECT_EQ(cycles("t*32"), 32);  // a column of a tile of 32 x 32
  EXPECT_EQ(cycles("t*33"), 1);   // with padding
  EXPECT_EQ(cycles("t*4", "width 4"), 4);
  EXPECT_EQ(cycles("t*2", "width 2"), 2);
  EXPECT_EQ(cycles("t*64", "width 2"), 32);
  EXPECT_EQ(cycles("t", "", "f16"), 1);
  EXPECT_EQ(cycles("t*2", "", "f16"), 1);
  EXPECT_EQ(cycles("t*64", "", "f16"), 32);
  EXPECT_EQ(cycles("t", "", "f64"), 2);
}

TEST(Counters, Branches) {
  const auto run_with = [](const std::string& condition) {
    const Kernel kernel =
        parse_kernel("kernel @k map { local 0 @l f32 [1] grid bx 2 by 1 bz 1 block t 128 warp 32 if cast<bool>([" +
                     condition + "]) { %0[0] = 1.0:f32 } }");
    return interpret(kernel, {}).counters;
  };
  EXPECT_EQ(run_with("less(t, 64)").branches, 8);
  EXPECT_EQ(run_with("less(t, 64)").divergent_branches, 0);
  EXPECT_EQ(run_with("less(t, 70)").divergent_branches, 2);
  EXPECT_EQ(run_with("equal(mod(t, 2), 0)").divergent_branches, 8);
  EXPECT_EQ(run_with("equal(bx, 0)").divergent_branches, 0);
}

// ---- Values

TEST(Interpret, DtypesAndRounding) {
  const Kernel kernel = parse_kernel(R"(kernel @k map {
  global 0 @h f16 [64]
  global 1 @b bf16 [64]
  global 2 @o f32 [64] written
  global 3 @q i8 [64] written
  global 4 @u u64 [64] written
  global 5 @ho f16 [64] written
  local 6 @l f16 [1]
  grid bx 1 by 1 bz 1
  block t 64 warp 32
  %6[0] = add(load0[t], 0.001:f16)
  %2[t] = add(cast<f32>(mul(load0[t], load0[t])), cast<f32>(load1[t]))
  %3[t] = add(cast<i8>([t*3]), 100:i8)
  %4[t] = div(cast<u64>([t - 32]), 3:u64)
  %5[t] = load6[0]
})");
  std::vector<uint16_t> h(64), b(64), ho(64);
  std::vector<float> o(64);
  std::vector<int8_t> q(64);
  std::vector<uint64_t> u(64);
  for (size_t i = 0; i < 64; ++i)
    h[i] = float_to_f16(1 + static_cast<float>(i) / 7), b[i] = float_to_bf16(static_cast<float>(i) / 3);
  EXPECT_EQ(reports_of(run(kernel, {}, true, h, b, o, q, u, ho)), "");
  for (size_t i = 0; i < 64; ++i) {
    const float x = f16_to_float(h[i]);
    EXPECT_EQ(o[i], x * x + bf16_to_float(b[i]));
    EXPECT_EQ(q[i], static_cast<int8_t>(static_cast<int8_t>(i * 3) + 100));
    EXPECT_EQ(u[i], (static_cast<uint64_t>(i) - 32) / 3);
    EXPECT_EQ(ho[i], float_to_f16(x + f16_to_float(float_to_f16(0.001F))));
  }
}

TEST(Interpret, SelectGuardsItsLoads) {
  const Kernel kernel = parse_kernel(R"(kernel @k map {
  param n 0 .. 99
  global 0 @x f32 [n]
  global 1 @y f32 [64] written
  grid bx 1 by 1 bz 1
  block t 64 warp 32
  %1[t] = select(cast<bool>([less(t, n)]), exp(load0[t]), add(select(cast<bool>([less(0, t)]), load0[0], 1.0:f32), 0.5:f32))
})");
  std::vector<float> x = numbers(20), y(64);
  EXPECT_EQ(reports_of(run(kernel, {20}, true, x, y)), "");
  for (size_t i = 0; i < 64; ++i) {
    if (i < 20) {
      EXPECT_NEAR(y[i], std::exp(x[i]), 2e-6 * std::exp(x[i]));
    } else {
      EXPECT_EQ(y[i], x[0] + 0.5F);
    }
  }
}

TEST(Interpret, CheckedIndices) {
  const Kernel kernel = parse_kernel(R"(kernel @k map {
  global 0 @x f32 [10]
  global 1 @at i64 [64]
  global 2 @y f32 [64] written
  grid bx 1 by 1 bz 1
  block t 64 warp 32
  check "Gather node"
  if cast<bool>([less(t, 40)]) {
    %2[t] = load0[{checked_index(load1[t], [10])}]
  }
})");
  std::vector<float> x = numbers(10), y(64);
  std::vector<int64_t> at(64, 3);
  at[5] = -10;
  at[50] = 99;  // not looked at
  int64_t fault[4] = {};
  void* buffers[] = {x.data(), at.data(), y.data()};
  Launch launch;
  launch.buffers = buffers;
  launch.fault = fault;
  EXPECT_EQ(reports_of(interpret(kernel, launch)), "");
  EXPECT_EQ(fault[0], 0);
  EXPECT_EQ(y[5], x[0]);
  at[7] = 10;
  EXPECT_EQ(reports_of(interpret(kernel, launch)), "");
  EXPECT_EQ(std::vector<int64_t>(fault, fault + 4), (std::vector<int64_t>{1, 10, 10, 0}));
  EXPECT_EQ(y[7], x[0]);
}

TEST(Interpret, AtomicsAndBlocks) {
  const Kernel kernel = parse_kernel(R"(kernel @k scatter {
  param n 0 .. 1000000
  global 0 @x i32 [n]
  global 1 @sum i32 [1] written
  global 2 @top i32 [1] written
  shared 3 @part i32 [1]
  grid bx floordiv(n + 63, 64) by 1 bz 1
  block t 64 warp 32
  if cast<bool>([equal(t, 0)]) {
    %3[0] = 0:i32
  }
  barrier
  if cast<bool>([less(t + bx*64, n)]) {
    atomic %3[0] sum= load0[t + bx*64]
    atomic %2[0] max= load0[t + bx*64]
  }
  barrier
  if cast<bool>([equal(t, 0)]) {
    atomic %1[0] sum= load3[0]
  }
})");
  std::vector<int32_t> x(100000), sum(1), top(1);
  int32_t total = 0, most = 0;
  std::mt19937 random(3);
  for (int32_t& v : x) v = static_cast<int32_t>(random() % 1000), total += v, most = std::max(most, v);
  EXPECT_EQ(reports_of(run(kernel, {100000}, true, x, sum, top)), "");
  EXPECT_EQ(sum[0], total);
  EXPECT_EQ(top[0], most);
}

TEST(Interpret, AsyncCopiesInStages) {
  // Three stages of 64 elements; a condition past the end gives zeros.
  const Kernel kernel = parse_kernel(R"(kernel @k reduction {
  param n 0 .. 10000
  global 0 @x f32 [n] align 16
  global 1 @y f32 [64] written
  shared 2 @s f32 [192]
  local 3 @sum f32 [1]
  grid bx 1 by 1 bz 1
  block t 64 warp 32
  %3[0] = 0.0:f32
  for p in 2 {
    if cast<bool>([less(t, 16)]) {
      async_copy %2[p*64 + t*4] = %0[p*64 + t*4] width 4 where cast<bool>([less(p*64 + t*4, n)])
    }
    async_commit
  }
  for k in floordiv(n + 63, 64) {
    async_wait 1
    barrier
    %3[0] = add(load3[0], load2[mod(k, 3)*64 + 63 - t])
    if cast<bool>([less(t, 16)]) {
      async_copy %2[mod(k + 2, 3)*64 + t*4] = %0[k*64 + 128 + t*4] width 4 where cast<bool>([less(k*64 + 128 + t*4, n)])
    }
    async_commit
  }
  %1[t] = load3[0]
})");
  verify(kernel, Stage::kFinal);
  const int64_t n = 1000;
  std::vector<float> x(static_cast<size_t>(n)), y(64);
  std::mt19937 random(5);
  for (float& v : x) v = static_cast<float>(random() % 100);
  EXPECT_EQ(reports_of(run(kernel, {n}, true, x, y)), "");
  for (int64_t t = 0; t < 64; ++t) {
    float sum = 0;
    for (int64_t i = 63 - t; i < n; i += 64) sum += x[static_cast<size_t>(i)];
    EXPECT_EQ(y[static_cast<size_t>(t)], sum) << t;
  }
}

// Every matrix instruction against a plain product: fragments are filled by the map of A, B and C, and D is read by that of C.
TEST(Interpret, MatrixInstructions) {
  std::mt19937 random(11);
  for (const MmaInstruction& i : mma_instructions()) {
    const auto local = [&](int slot, const char* name, DType t, int items) {
      return fmt::format("local {} @{} {} [{}]\n", slot, name, ir::name_of(t), items);
    };
    const auto global = [&](int slot, const char* name, DType t, int count) {
      return fmt::format("global {} @{} {} [{}]{}\n", slot, name, ir::name_of(t), count, slot == 3 ? " written" : "");
    };
    const int lanes = i.lanes;
    std::string text = "kernel @k contraction {\n" + global(0, "ga", i.factor, lanes * i.a.items) +
                       global(1, "gb", i.factor, lanes * i.b.items) + global(2, "gc", i.sum, lanes * i.c.items) +
                       global(3, "gd", i.sum, lanes * i.c.items) + local(4, "a", i.factor, i.a.items) +
                       local(5, "b", i.factor, i.b.items) + local(6, "c", i.sum, i.c.items) +
                       fmt::format("grid bx 1 by 1 bz 1\nblock t {} warp {}\n", lanes, lanes);
    const auto fill = [&](int from, int to, int items) {
      for (int item = 0; item < items; ++item)
        text += fmt::format("%{}[{}] = load{}[t*{} + {}]\n", to, item, from, items, item);
    };
    fill(0, 4, i.a.items), fill(1, 5, i.b.items), fill(2, 6, i.c.items);
    text += fmt::format("mma \"{}\" %6[0] = %4[0] * %5[0] + %6[0]\n", i.name);
    for (int item = 0; item < i.c.items; ++item)
      text += fmt::format("%3[t*{} + {}] = load6[{}]\n", i.c.items, item, item);
    const Kernel kernel = parse_kernel(text + "}");
    verify(kernel, Stage::kFinal);

    // Small whole numbers: exact in every type.
    std::vector<int> a(static_cast<size_t>(i.m * i.k)), b(static_cast<size_t>(i.k * i.n)),
        c(static_cast<size_t>(i.m * i.n));
    for (std::vector<int>* matrix : {&a, &b, &c})
      for (int& v : *matrix) v = static_cast<int>(random() % 9) - 4;
    const auto pack = [&](const FragmentMap& map, const std::vector<int>& matrix, int columns, DType t) {
      std::vector<std::byte> bytes(static_cast<size_t>(lanes * map.items) * ir::byte_size(t));
      for (int lane = 0; lane < lanes; ++lane) {
        for (int item = 0; item < map.items; ++item) {
          ir::Value64 v;
          const int value = matrix[static_cast<size_t>(map.row(lane, item) * columns + map.column(lane, item))];
          if (ir::is_float(t)) {
            v.f = value;
          } else {
            v.i = value;
          }
          ir::store_element(t, bytes.data(), lane * map.items + item, v);
        }
      }
      return bytes;
    };
    std::vector<std::byte> ga = pack(i.a, a, i.k, i.factor), gb = pack(i.b, b, i.n, i.factor),
                           gc = pack(i.c, c, i.n, i.sum), gd(gc.size(), std::byte{0x55});
    EXPECT_EQ(reports_of(run(kernel, {}, true, ga, gb, gc, gd)), "");
    for (int row = 0; row < i.m; ++row) {
      for (int column = 0; column < i.n; ++column) {
        for (int k = 0; k < i.k; ++k)
          c[static_cast<size_t>(row * i.n + column)] +=
              a[static_cast<size_t>(row * i.k + k)] * b[static_cast<size_t>(k * i.n + column)];
      }
    }
    EXPECT_EQ(gd, pack(i.c, c, i.n, i.sum)) << i.name;
  }
}

TEST(Interpret, CallersFaults) {
  const Kernel kernel = parse_kernel(kSaxpy);
  std::vector<float> x(1);
  EXPECT_THROW(run(kernel, {1}, true, x), InternalError);
  EXPECT_THROW(run(kernel, {}, true, x, x), InternalError);
  Kernel divided = parse_kernel(
      "kernel @k map { param n 1 .. 99 param m 1 .. 4294967295 param s 0 .. 31 global 0 @y i64 [64] written grid bx 1 "
      "by 1 bz "
      "1 block t 64 warp 32 index_bits 32 divisor n m s %0[t] = [floordiv(t, n)] }");
  std::vector<int64_t> y(64);
  const Reciprocal r = reciprocal_of(7);
  EXPECT_EQ(reports_of(run(divided, {7, r.multiplier, r.shift}, true, y)), "");
  EXPECT_EQ(y[63], 9);
  EXPECT_THROW(run(divided, {7, r.multiplier + 1, r.shift}, true, y), InternalError);
}

}  // namespace
}  // namespace stax::thread
