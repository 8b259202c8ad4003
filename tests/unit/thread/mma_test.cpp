// SPDX-License-Identifier: Apache-2.0
// The formulas of the instruction sets' documents, against the tables.
#include "thread/mma.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

namespace stax::thread {
namespace {

struct At {
  int row, column;
  bool operator==(const At&) const = default;
};
using Formula = std::function<At(int lane, int item)>;
struct Formulas {
  Formula a, b, c;
};

// PTX ISA, matrix fragments of mma: groupID = laneid >> 2, threadID_in_group = laneid % 4.
At c16(int lane, int i) { return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; }

const std::map<std::string, Formulas>& formulas() {
  static const std::map<std::string, Formulas> all = [] {
    std::map<std::string, Formulas> f;
    f["m16n8k8.f32.f16"] = {[](int l, int i) { return At{(l >> 2) + (i < 2 ? 0 : 8), l % 4 * 2 + (i & 1)}; },
                            [](int l, int i) { return At{l % 4 * 2 + i, l >> 2}; }, c16};
    f["m16n8k16.f32.f16"] = {
        [](int l, int i) {
          const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
          return At{upper ? l >> 2 : (l >> 2) + 8, i < 4 ? l % 4 * 2 + (i & 1) : l % 4 * 2 + (i & 1) + 8};
        },
        [](int l, int i) { return At{i < 2 ? l % 4 * 2 + (i & 1) : l % 4 * 2 + (i & 1) + 8, l >> 2}; }, c16};
    f["m16n8k16.f32.bf16"] = f["m16n8k16.f32.f16"];
    f["m16n8k4.f32.tf32"] = {[](int l, int i) { return At{i == 0 ? l >> 2 : (l >> 2) + 8, l % 4}; },
                             [](int l, int) { return At{l % 4, l >> 2}; }, c16};
    f["m16n8k8.f32.tf32"] = {
        [](int l, int i) { return At{i == 0 || i == 2 ? l >> 2 : (l >> 2) + 8, i < 2 ? l % 4 : l % 4 + 4}; },
        [](int l, int i) { return At{i == 0 ? l % 4 : l % 4 + 4, l >> 2}; }, c16};
    f["m8n8k16.i32.i8"] = {[](int l, int i) { return At{l >> 2, l % 4 * 4 + i}; },
                           [](int l, int i) { return At{l % 4 * 4 + i, l >> 2}; },
                           [](int l, int i) { return At{l >> 2, l % 4 * 2 + i}; }};
    f["m16n8k32.i32.i8"] = {
        [](int l, int i) {
          const bool upper = (0 <= i && i < 4) || (8 <= i && i < 12);
          return At{upper ? l >> 2 : (l >> 2) + 8, i < 8 ? l % 4 * 4 + (i & 3) : l % 4 * 4 + (i & 3) + 16};
        },
        [](int l, int i) { return At{i < 4 ? l % 4 * 4 + (i & 3) : l % 4 * 4 + (i & 3) + 16, l >> 2}; }, c16};
    // MI200 and MI300: A[i][k] is in lane i + 32 * (k / 4), register half k % 4; D[i][j] in lane j + 32 * ((i / 4) % 2), register
    // 4 * (i / 8) + i % 4. With 16 rows: lane i + 16 * (k / 4); D[i][j] in lane j + 16 * (i / 4), register i % 4.
    f["mfma.m32n32k8.f32.f16"] = {[](int l, int i) { return At{l % 32, l / 32 * 4 + i}; },
                                  [](int l, int i) { return At{l / 32 * 4 + i, l % 32}; },
                                  [](int l, int i) { return At{i / 4 * 8 + l / 32 * 4 + i % 4, l % 32}; }};
    f["mfma.m32n32k8.f32.bf16"] = f["mfma.m32n32k8.f32.f16"];
    // Two of them: each has four of the eight neighbours along the depth that a lane holds.
    f["mfma.m32n32k16.f32.f16"] = {[](int l, int i) { return At{l % 32, l / 32 * 8 + i}; },
                                   [](int l, int i) { return At{l / 32 * 8 + i, l % 32}; },
                                   f["mfma.m32n32k8.f32.f16"].c};
    f["mfma.m32n32k16.f32.bf16"] = f["mfma.m32n32k16.f32.f16"];
    f["mfma.m16n16k16.f32.f16"] = {[](int l, int i) { return At{l % 16, l / 16 * 4 + i}; },
                                   [](int l, int i) { return At{l / 16 * 4 + i, l % 16}; },
                                   [](int l, int i) { return At{l / 16 * 4 + i, l % 16}; }};
    f["mfma.m16n16k16.f32.bf16"] = f["mfma.m16n16k16.f32.f16"];
    // RDNA 3: A's row is lane % 16, both halves alike; D's row is 2 * register + lane / 16, its column lane % 16.
    f["wmma.m16n16k16.f32.f16"] = {[](int l, int i) { return At{l % 16, i}; },
                                   [](int l, int i) { return At{i, l % 16}; },
                                   [](int l, int i) { return At{2 * i + l / 16, l % 16}; }};
    f["wmma.m16n16k16.f32.bf16"] = f["wmma.m16n16k16.f32.f16"];
    return f;
  }();
  return all;
}

void expect_map(const MmaInstruction& instruction, const FragmentMap& map, const Formula& formula, int rows,
                int columns, int copies) {
  std::map<std::pair<int, int>, int> seen;
  for (int lane = 0; lane < instruction.lanes; ++lane) {
    for (int item = 0; item < map.items; ++item) {
      const At at{map.row(lane, item), map.column(lane, item)};
      EXPECT_EQ(at, formula(lane, item)) << instruction.name << " lane " << lane << " item " << item;
      ++seen[{at.row, at.column}];
    }
  }
  // Every element is somewhere, and equally often.
  EXPECT_EQ(seen.size(), static_cast<size_t>(rows) * static_cast<size_t>(columns)) << instruction.name;
  for (const auto& [at, count] : seen) EXPECT_EQ(count, copies) << instruction.name;
  EXPECT_LT(seen.rbegin()->first.first, rows);
}

TEST(MmaTable, IsWhatTheDocumentsSay) {
  std::set<std::string> names;
  for (const MmaInstruction& i : mma_instructions()) {
    ASSERT_TRUE(formulas().contains(i.name)) << i.name;
    const Formulas& f = formulas().at(i.name);
    const int copies = i.name.starts_with("wmma") ? 2 : 1;
    expect_map(i, i.a, f.a, i.m, i.k, copies);
    expect_map(i, i.b, f.b, i.k, i.n, copies);
    expect_map(i, i.c, f.c, i.m, i.n, 1);
    EXPECT_TRUE(names.insert(i.name).second) << i.name;
    EXPECT_EQ(&mma_instructions()[static_cast<size_t>(find_mma(i.name))], &i);
    EXPECT_NE(i.ptx.empty(), i.hip_builtin.empty());
  }
  EXPECT_EQ(names.size(), formulas().size());
  EXPECT_EQ(find_mma("m1n1k1"), -1);
}

TEST(MmaTable, Availability) {
  const auto has = [](const char* target, const char* name) {
    return has_instruction(ir::find_target(target), mma_instructions()[static_cast<size_t>(find_mma(name))]);
  };
  EXPECT_TRUE(has("cuda:sm_75", "m16n8k8.f32.f16"));
  EXPECT_FALSE(has("cuda:sm_75", "m16n8k16.f32.f16"));
  EXPECT_TRUE(has("cuda:sm_90a", "m16n8k16.f32.bf16"));
  EXPECT_TRUE(has("hip:gfx942", "mfma.m32n32k8.f32.f16"));
  EXPECT_FALSE(has("hip:gfx942", "wmma.m16n16k16.f32.f16"));
  EXPECT_TRUE(has("hip:gfx1100", "wmma.m16n16k16.f32.f16"));
  EXPECT_FALSE(has("cuda:sm_90a", "mfma.m32n32k8.f32.f16"));
  EXPECT_FALSE(has("cpu", "m16n8k8.f32.f16"));
}

}  // namespace
}  // namespace stax::thread
