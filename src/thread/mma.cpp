// SPDX-License-Identifier: Apache-2.0
// The tables of the instruction sets.
//
// NVIDIA (PTX ISA, "Matrix Fragments for mma.m16n8k16", ..): lane = 4 * group + place, with `group` in 0 .. 7 and `place` in 0 .. 3. Rows
// of A and of the sum, and columns of B, go by group; what a lane holds beyond that is 8 rows further down or further along k.
//
// AMD CDNA (MI200 and MI300 instruction sets, matrix fused multiply-add): 64 lanes; the low bits of the lane are the row of A or the column of
// B and of the sum, the high bits go along k, respectively along the rows of the sum in steps of four.
//
// AMD RDNA 3 (wave matrix multiply-accumulate, wave32): lanes 0 .. 15 hold a row of A each (a column of B), lanes 16 .. 31 the same
// again; the sum's rows alternate between the halves of the wave.
#include "thread/mma.h"

#include <algorithm>
#include <charconv>

namespace stax::thread {

namespace {

using ir::DType;

int combine(const std::vector<int>& by_bit, int bits) {
  int result = 0;
  for (size_t k = 0; k < by_bit.size(); ++k)
    if ((bits >> k & 1) != 0) result += by_bit[k];
  return result;
}

struct Part {
  std::vector<int> row, column;
};
FragmentMap fragment(Part lane, Part item) {
  FragmentMap map;
  map.items = 1 << item.row.size();
  map.lane_row = std::move(lane.row), map.lane_column = std::move(lane.column);
  map.item_row = std::move(item.row), map.item_column = std::move(item.column);
  return map;
}
/// Rows and columns exchanged: B as A is.
FragmentMap transposed(FragmentMap map) {
  std::swap(map.lane_row, map.lane_column);
  std::swap(map.item_row, map.item_column);
  return map;
}

// ---- NVIDIA

const Part kGroupIsRow1{{0, 0, 1, 2, 4}, {1, 2, 0, 0, 0}};  // column = place
const Part kGroupIsRow2{{0, 0, 1, 2, 4}, {2, 4, 0, 0, 0}};  // column = 2 * place
const Part kGroupIsRow4{{0, 0, 1, 2, 4}, {4, 8, 0, 0, 0}};  // column = 4 * place
const Part kTwoColumns{{0}, {1}};
const Part kTwoColumnsTwoRows{{0, 8}, {1, 0}};

MmaInstruction nvidia(int m, int n, int k, DType sum, DType factor, bool tf32, Part a_lane, Part a_item, Part b_item,
                      int least_sm) {
  const std::string factor_name = tf32 ? "tf32" : std::string(ir::name_of(factor));
  const std::string sum_name(ir::name_of(sum));
  const auto ptx_type = [](const std::string& name) { return name[0] == 'i' ? "s" + name.substr(1) : name; };
  const std::string shape = "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  MmaInstruction result;
  result.name = shape + "." + sum_name + "." + factor_name;
  result.m = m, result.n = n, result.k = k;
  result.factor = factor, result.sum = sum, result.tf32 = tf32;
  result.a = fragment(a_lane, std::move(a_item));
  result.b = transposed(fragment(std::move(a_lane), std::move(b_item)));
  result.c = fragment(kGroupIsRow2, m == 8 ? kTwoColumns : kTwoColumnsTwoRows);
  result.ptx = "mma.sync.aligned." + shape + ".row.col." + ptx_type(sum_name) + "." + ptx_type(factor_name) + "." +
               ptx_type(factor_name) + "." + ptx_type(sum_name);
  result.least_sm = least_sm;
  return result;
}

// ---- AMD

// Of `calls` instructions in a row, which each have their part of what lies side by side in a lane: what a lane has of the depth is read at once.
MmaInstruction mfma(int mn, int k, DType factor, const std::string& builtin, int calls = 1) {
  MmaInstruction result;
  const std::string size = std::to_string(mn);
  result.name = "mfma.m" + size + "n" + size + "k" + std::to_string(k) + ".f32." + std::string(ir::name_of(factor));
  result.m = result.n = mn, result.k = k;
  result.lanes = 64;
  result.factor = factor;
  result.calls = calls;
  if (mn == 32 && calls == 2) {
    result.a = fragment({{1, 2, 4, 8, 16, 0}, {0, 0, 0, 0, 0, 8}}, {{0, 0, 0}, {1, 2, 4}});
    result.c = fragment({{0, 0, 0, 0, 0, 4}, {1, 2, 4, 8, 16, 0}}, {{1, 2, 8, 16}, {0, 0, 0, 0}});
  } else if (mn == 32) {
    result.a = fragment({{1, 2, 4, 8, 16, 0}, {0, 0, 0, 0, 0, 4}}, {{0, 0}, {1, 2}});
    result.c = fragment({{0, 0, 0, 0, 0, 4}, {1, 2, 4, 8, 16, 0}}, {{1, 2, 8, 16}, {0, 0, 0, 0}});
  } else {
    result.a = fragment({{1, 2, 4, 8, 0, 0}, {0, 0, 0, 0, 4, 8}}, {{0, 0}, {1, 2}});
    result.c = fragment({{0, 0, 0, 0, 4, 8}, {1, 2, 4, 8, 0, 0}}, {{1, 2}, {0, 0}});
  }
  result.b = transposed(result.a);
  result.hip_builtin = builtin;
  result.amd = {"gfx90a", "gfx942"};
  return result;
}

MmaInstruction wmma(DType factor, const std::string& builtin) {
  MmaInstruction result;
  result.name = "wmma.m16n16k16.f32." + std::string(ir::name_of(factor));
  result.m = result.n = result.k = 16;
  result.factor = factor;
  result.a = fragment({{1, 2, 4, 8, 0}, {0, 0, 0, 0, 0}}, {{0, 0, 0, 0}, {1, 2, 4, 8}});
  result.b = transposed(result.a);
  result.c = fragment({{0, 0, 0, 0, 1}, {1, 2, 4, 8, 0}}, {{2, 4, 8}, {0, 0, 0}});
  result.hip_builtin = builtin;
  result.amd = {"gfx1100", "gfx1101", "gfx1102"};
  return result;
}

std::vector<MmaInstruction> make_table() {
  return {
      nvidia(16, 8, 8, DType::kF32, DType::kF16, false, kGroupIsRow2, {{0, 8}, {1, 0}}, {{0}, {1}}, 75),
      nvidia(8, 8, 16, DType::kI32, DType::kI8, false, kGroupIsRow4, {{0, 0}, {1, 2}}, {{0, 0}, {1, 2}}, 75),
      nvidia(16, 8, 16, DType::kF32, DType::kF16, false, kGroupIsRow2, {{0, 8, 0}, {1, 0, 8}}, {{0, 0}, {1, 8}}, 80),
      nvidia(16, 8, 16, DType::kF32, DType::kBF16, false, kGroupIsRow2, {{0, 8, 0}, {1, 0, 8}}, {{0, 0}, {1, 8}}, 80),
      nvidia(16, 8, 4, DType::kF32, DType::kF32, true, kGroupIsRow1, {{8}, {0}}, {}, 80),
      nvidia(16, 8, 8, DType::kF32, DType::kF32, true, kGroupIsRow1, {{8, 0}, {0, 4}}, {{0}, {4}}, 80),
      nvidia(16, 8, 32, DType::kI32, DType::kI8, false, kGroupIsRow4, {{0, 0, 8, 0}, {1, 2, 0, 16}},
             {{0, 0, 0}, {1, 2, 16}}, 80),
      mfma(32, 8, DType::kF16, "__builtin_amdgcn_mfma_f32_32x32x8f16"),
      mfma(16, 16, DType::kF16, "__builtin_amdgcn_mfma_f32_16x16x16f16"),
      mfma(32, 8, DType::kBF16, "__builtin_amdgcn_mfma_f32_32x32x8bf16_1k"),
      mfma(16, 16, DType::kBF16, "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k"),
      mfma(32, 16, DType::kF16, "__builtin_amdgcn_mfma_f32_32x32x8f16", 2),
      mfma(32, 16, DType::kBF16, "__builtin_amdgcn_mfma_f32_32x32x8bf16_1k", 2),
      wmma(DType::kF16, "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32"),
      wmma(DType::kBF16, "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32"),
  };
}

}  // namespace

int FragmentMap::row(int lane, int item) const { return combine(lane_row, lane) + combine(item_row, item); }
int FragmentMap::column(int lane, int item) const { return combine(lane_column, lane) + combine(item_column, item); }

std::span<const MmaInstruction> mma_instructions() {
  static const std::vector<MmaInstruction> table = make_table();
  return table;
}

int find_mma(const std::string& name) {
  const std::span<const MmaInstruction> table = mma_instructions();
  const auto found = std::find_if(table.begin(), table.end(), [&](const MmaInstruction& i) { return i.name == name; });
  return found == table.end() ? -1 : static_cast<int>(found - table.begin());
}

int best_mma(const ir::Target& target, DType factor, DType sum) {
  const std::span<const MmaInstruction> table = mma_instructions();
  int best = -1, size = 0;
  for (size_t k = 0; k < table.size(); ++k) {
    const MmaInstruction& i = table[k];
    if (i.tf32 || i.factor != factor || i.sum != sum || i.m * i.n * i.k <= size || !has_instruction(target, i))
      continue;
    best = static_cast<int>(k), size = i.m * i.n * i.k;
  }
  return best;
}

bool has_instruction(const ir::Target& target, const MmaInstruction& instruction) {
  if (std::find(instruction.amd.begin(), instruction.amd.end(), target.arch) != instruction.amd.end()) return true;
  // The interpreter has what the machine has whose figures it takes.
  if (target.format == ir::CodeFormat::kThread) return instruction.least_sm != 0 && instruction.least_sm <= 80;
  int sm = 0;
  if (instruction.least_sm == 0 || !target.arch.starts_with("sm_")) return false;
  std::from_chars(target.arch.data() + 3, target.arch.data() + target.arch.size(), sm);
  return sm >= instruction.least_sm;
}

}  // namespace stax::thread
