// SPDX-License-Identifier: Apache-2.0
// For each pitfall a kernel that falls into it, and a twin that computes the same and does not.
#include "session/doctor.h"

#include <gtest/gtest.h>

namespace stax::session {
namespace {

Diagnosis diagnose_at(const std::string& text, const std::vector<int64_t>& params, const char* target = "cuda:sm_80") {
  const thread::Kernel kernel = thread::parse_kernel(text);
  thread::verify(kernel, thread::Stage::kFinal);
  return diagnose(kernel, ir::find_target(target), params);
}

bool names(const Diagnosis& d, Pitfall pitfall) {
  return std::any_of(d.findings.begin(), d.findings.end(), [&](const Finding& f) { return f.pitfall == pitfall; });
}

void expect_named(const Diagnosis& bad, const Diagnosis& good, Pitfall pitfall) {
  EXPECT_TRUE(names(bad, pitfall)) << bad.str();
  ASSERT_FALSE(bad.findings.empty());
  EXPECT_EQ(name_of(bad.findings.front().pitfall), name_of(pitfall)) << bad.str();
  EXPECT_NE(bad.str().find(bad.findings.front().advice), std::string::npos);
  EXPECT_TRUE(good.findings.empty()) << good.str();
  EXPECT_LT(good.predicted_us, bad.predicted_us) << bad.str() << good.str();
}

// y = 2 x, a row of 256 in each block, through shared memory of `bytes` / 4 elements.
std::string through_shared(int64_t elements) {
  return "kernel @scale map { param n 0 .. 1000000000 global 0 @x f32 [n] global 1 @y f32 [n] written shared 2 @s f32 "
         "[" +
         std::to_string(elements) +
         "] grid bx floordiv(n, 256) by 1 bz 1 block t 256 warp 32 %2[t] = load0[t + bx*256] barrier "
         "%1[t + bx*256] = mul(load2[255 - t], 2.0:f32) }";
}

TEST(Doctor, LowOccupancy) {
  const std::vector<int64_t> params{int64_t{1} << 24};
  const Diagnosis bad = diagnose_at(through_shared(30000), params), good = diagnose_at(through_shared(256), params);
  expect_named(bad, good, Pitfall::kLowOccupancy);
  EXPECT_EQ(bad.occupancy.limiter, "shared memory");
  EXPECT_EQ(bad.occupancy.blocks, 1);
  EXPECT_NE(bad.advice().find("120000 bytes"), std::string::npos) << bad.str();
}

// Each element with its 15 neighbours to the right: from memory each time, or by way of shared memory.
TEST(Doctor, Bandwidth) {
  const std::string header =
      "kernel @window map { param n 0 .. 1000000000 global 0 @x f32 [n + 16] global 1 @y f32 [n] written ";
  const std::string threads = " grid bx floordiv(n, 256) by 1 bz 1 block t 256 warp 32 ";
  const std::string bad = header + "local 2 @sum f32 [1]" + threads +
                          "%2[0] = 0.0:f32 for k in 16 { %2[0] = add(load2[0], load0[bx*256 + t + k]) } "
                          "%1[t + bx*256] = load2[0] }";
  const std::string good =
      header + "shared 2 @s f32 [272] local 3 @sum f32 [1]" + threads +
      "%2[t] = load0[t + bx*256] if cast<bool>([less(t, 16)]) { %2[t + 256] = load0[bx*256 + 256 + t] } barrier "
      "%3[0] = 0.0:f32 for k in 16 { %3[0] = add(load3[0], load2[t + k]) } %1[t + bx*256] = load3[0] }";
  const std::vector<int64_t> params{int64_t{1} << 24};
  const Diagnosis a = diagnose_at(bad, params), b = diagnose_at(good, params);
  expect_named(a, b, Pitfall::kBandwidth);
  EXPECT_EQ(a.bound, "memory");
  EXPECT_NEAR(static_cast<double>(b.moved_bytes) / static_cast<double>(b.least_bytes), 1.0, 0.1);
}

std::string transpose(int pitch) {
  const std::string p = std::to_string(pitch);
  return "kernel @transpose map { param n 0 .. 100000 global 0 @x f32 [n*n] global 1 @y f32 [n*n] written shared 2 @s "
         "f32 [" +
         std::to_string(32 * pitch) +
         "] grid bx floordiv(n, 32) by floordiv(n, 32) bz 1 block t 256 warp 32 "
         "for k in 4 { %2[(floordiv(t, 32) + k*8)*" +
         p +
         " + mod(t, 32)] = load0[(by*32 + floordiv(t, 32) + k*8)*n + bx*32 + mod(t, 32)] } "
         "barrier "
         "for k in 4 { %1[(bx*32 + floordiv(t, 32) + k*8)*n + by*32 + mod(t, 32)] = load2[mod(t, 32)*" +
         p + " + floordiv(t, 32) + k*8] } }";
}

TEST(Doctor, BankConflicts) {
  const std::vector<int64_t> params{2048};
  const Diagnosis bad = diagnose_at(transpose(32), params), good = diagnose_at(transpose(33), params);
  expect_named(bad, good, Pitfall::kBankConflicts);
  EXPECT_EQ(good.bank_conflicts, 0);
  // Half of the requests take 32 cycles.
  EXPECT_NEAR(bad.bank_conflicts, 15.5, 1e-9);
  EXPECT_EQ(bad.coalescing, 1);
}

TEST(Doctor, Uncoalesced) {
  const std::string direct =
      "kernel @transpose map { param n 0 .. 100000 global 0 @x f32 [n*n] global 1 @y f32 [n*n] written "
      "grid bx floordiv(n, 32) by floordiv(n, 8) bz 1 block t 256 warp 32 "
      "%1[(bx*32 + mod(t, 32))*n + by*8 + floordiv(t, 32)] = load0[(by*8 + floordiv(t, 32))*n + bx*32 + mod(t, 32)] }";
  const std::vector<int64_t> params{2048};
  expect_named(diagnose_at(direct, params), diagnose_at(transpose(33), params), Pitfall::kUncoalesced);
}

// A long loop in each of few blocks: one block more than a wave, or waves that are full.
std::string polynomial(int block) {
  const std::string b = std::to_string(block);
  return "kernel @polynomial map { param n 0 .. 1000000000 global 0 @x f32 [n] global 1 @y f32 [n] written local 2 @v "
         "f32 [2] "
         "grid bx floordiv(n + " +
         std::to_string(block - 1) + ", " + b + ") by 1 bz 1 block t " + b + " warp 32 if cast<bool>([less(t + bx*" +
         b + ", n)]) { %2[0] = load0[t + bx*" + b +
         "] %2[1] = 1.0:f32 for k in 1000 { %2[1] = add(mul(load2[1], load2[0]), 0.5:f32) } %1[t + bx*" + b +
         "] = load2[1] } }";
}

TEST(Doctor, TailEffect) {
  // 110 blocks of 1024 threads on 108 multiprocessors: two of them have two.
  const std::vector<int64_t> params{110 * 1024};
  const Diagnosis bad = diagnose_at(polynomial(1024), params), good = diagnose_at(polynomial(128), params);
  expect_named(bad, good, Pitfall::kTailEffect);
  EXPECT_NEAR(bad.tail, 110.0 / 216, 1e-9);
  // Fewer blocks than multiprocessors.
  EXPECT_TRUE(names(diagnose_at(polynomial(1024), {8 * 1024}), Pitfall::kTailEffect));
}

std::string two_ways(const char* condition) {
  return std::string(
             "kernel @ways map { param n 0 .. 1000000000 global 0 @x f32 [n] global 1 @y f32 [n] written local 2 @v "
             "f32 [1] "
             "grid bx floordiv(n, 256) by 1 bz 1 block t 256 warp 32 %2[0] = load0[t + bx*256] if cast<bool>([") +
         condition +
         "]) { for k in 100 { %2[0] = add(mul(load2[0], load2[0]), 0.5:f32) } } else { for k in 100 { %2[0] = "
         "sub(mul(load2[0], load2[0]), "
         "0.5:f32) } } %1[t + bx*256] = load2[0] }";
}

TEST(Doctor, Divergence) {
  const std::vector<int64_t> params{int64_t{1} << 22};
  const Diagnosis bad = diagnose_at(two_ways("equal(mod(t, 2), 0)"), params),
                  good = diagnose_at(two_ways("equal(mod(floordiv(t, 32), 2), 0)"), params);
  expect_named(bad, good, Pitfall::kDivergence);
  EXPECT_EQ(good.divergence, 0);
}

TEST(Doctor, EmptyAndOtherTargets) {
  const Diagnosis nothing = diagnose_at(through_shared(256), {0});
  EXPECT_EQ(nothing.blocks, 0);
  EXPECT_TRUE(nothing.findings.empty());
  EXPECT_NE(nothing.str().find("nothing to launch"), std::string::npos);
  for (const ir::Target& target : ir::targets()) {
    if (!target.is_gpu) continue;
    const Diagnosis d = diagnose_at(through_shared(256), {int64_t{1} << 24}, target.name.c_str());
    EXPECT_GT(d.predicted_us, 0) << target.name;
    EXPECT_EQ(d.blocks, int64_t{1} << 16);
    // Sampled blocks stand for all of them.
    EXPECT_EQ(d.least_bytes, int64_t{1} << 27);
    EXPECT_EQ(d.moved_bytes, int64_t{1} << 27);
  }
}

}  // namespace
}  // namespace stax::session
