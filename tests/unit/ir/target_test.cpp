// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <gtest/gtest.h>

#include <set>

#include "support/error.h"

namespace stax::ir {
namespace {

std::string fault(const std::string& name) {
  try {
    find_target(name);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no fault";
}

TEST(Targets, EveryRowIsFoundByItsNameAndHoldsTogether) {
  std::set<std::string> names;
  for (const Target& t : targets()) {
    SCOPED_TRACE(t.name);
    EXPECT_TRUE(names.insert(t.name).second);
    EXPECT_EQ(&find_target(t.name), &t);
    EXPECT_EQ(t.name, t.arch.empty() ? t.family : t.family + ":" + t.arch);
    EXPECT_EQ(t.is_gpu, t.format != CodeFormat::kNative);
    EXPECT_GE(t.max_threads_per_unit, t.max_block);
    EXPECT_EQ(t.max_threads_per_unit % t.warp, 0);
    EXPECT_LE(t.static_shared, t.max_shared);
    EXPECT_LE(t.max_shared + t.shared_reserved, t.shared_per_unit);
    EXPECT_EQ(t.registers_per_unit % (t.partitions * t.warp), 0);
    EXPECT_GT(t.bandwidth, 1e9);
    EXPECT_GT(t.clock, 1e9);
    EXPECT_GT(t.l2, 0);
    EXPECT_GT(t.units, 0);
  }
  EXPECT_EQ(&find_target("cpu:native"), &find_target("cpu"));
}

TEST(Targets, AnUnknownNameListsTheKnownOnes) {
  for (const Target& t : targets()) EXPECT_NE(fault("riscv").find(t.name), std::string::npos);
  EXPECT_EQ(fault("riscv").find("did you mean"), std::string::npos);
  EXPECT_NE(fault("cuda:sm_91a").find("did you mean 'cuda:sm_90a'?"), std::string::npos) << fault("cuda:sm_91a");
  EXPECT_NE(fault("opncl").find("did you mean 'opencl'?"), std::string::npos);
  EXPECT_NE(fault("gfx942").find("did you mean 'hip:gfx942'?"), std::string::npos);
}

int warps_of(const char* target, int block, int registers) {
  const Target& t = find_target(target);
  return occupancy(t, block, registers, 0).blocks * block / t.warp;
}

// Warps of a multiprocessor as the vendors' tables have them for a number of registers.
TEST(Occupancy, WarpsByRegistersAsTheVendorsTablesHaveThem) {
  const std::pair<int, int> nvidia[] = {{32, 64},  {40, 48},  {64, 32}, {80, 24}, {96, 20},
                                        {128, 16}, {168, 12}, {255, 8}, {73, 24}};
  for (const auto& [registers, warps] : nvidia) EXPECT_EQ(warps_of("cuda:sm_80", 128, registers), warps) << registers;
  const std::pair<int, int> cdna[] = {{64, 8}, {72, 7}, {80, 6}, {96, 5}, {128, 4}, {168, 3}, {256, 2}, {257, 1}};
  for (const auto& [registers, warps] : cdna) EXPECT_EQ(warps_of("hip:gfx942", 256, registers), 4 * warps) << registers;
  const std::pair<int, int> rdna[] = {{96, 16}, {97, 12}, {120, 12}, {144, 10}, {168, 9},
                                      {192, 8}, {216, 7}, {240, 6},  {256, 5}};
  for (const auto& [registers, warps] : rdna) EXPECT_EQ(warps_of("hip:gfx1100", 64, registers), 2 * warps) << registers;
}

TEST(Occupancy, NamesWhatLimits) {
  const Target& t = find_target("cuda:sm_80");
  EXPECT_EQ(occupancy(t, 1024, 32, 0).limiter, "threads");
  EXPECT_EQ(occupancy(t, 1024, 32, 0).blocks, 2);
  EXPECT_EQ(occupancy(t, 32, 32, 0).limiter, "blocks");
  EXPECT_EQ(occupancy(t, 32, 32, 0).fraction, 0.5);
  EXPECT_EQ(occupancy(t, 256, 128, 0).limiter, "registers");
  // The system's KiB counts: three blocks of 54 KiB do not fit into 164.
  EXPECT_EQ(occupancy(t, 128, 32, 54 << 10).blocks, 2);
  EXPECT_EQ(occupancy(t, 128, 32, 53 << 10).blocks, 3);
  EXPECT_EQ(occupancy(t, 128, 32, 53 << 10).limiter, "shared memory");
  EXPECT_EQ(occupancy(t, 128, 32, 163 << 10).blocks, 1);
  // A last warp that is not full takes the place of a full one.
  EXPECT_EQ(occupancy(t, 33, 32, 0).blocks, occupancy(t, 64, 32, 0).blocks);
}

TEST(Occupancy, WhatCannotRunIsZero) {
  const Target& t = find_target("cuda:sm_86");
  EXPECT_EQ(occupancy(t, 2048, 32, 0).blocks, 0);
  EXPECT_EQ(occupancy(t, 128, 256, 0).blocks, 0);
  EXPECT_EQ(occupancy(t, 128, 256, 0).limiter, "registers");
  EXPECT_EQ(occupancy(t, 128, 32, (99 << 10) + 1).blocks, 0);
  EXPECT_EQ(occupancy(t, 1024, 72, 0).blocks, 0);  // 32 warps of 2304 registers are more than there are
}

}  // namespace
}  // namespace stax::ir
