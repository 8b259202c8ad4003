// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix instructions: D[m][n] = sum over k of A[m][k] * B[k][n] + C[m][n], operands spread over the lanes of a warp.
//
// Where an element lies is a linear map over bits: the bits of (lane, register) give the bits of (row, column). Tables are transcribed from
// the instruction sets' own documents; tests compare them with the documents' formulas.
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/target.h"

namespace stax::thread {

/// Element `item` of lane `lane` is at (row, column).
struct FragmentMap {
  int items = 0;                           // elements a lane
  std::vector<int> lane_row, lane_column;  // by bit of the lane: what it adds to row and column
  std::vector<int> item_row, item_column;  // by bit of the item
  int row(int lane, int item) const;
  int column(int lane, int item) const;
};

struct MmaInstruction {
  // "m16n8k16.f32.f16": shape, type of the sum, type of the factors; AMD's begin with "mfma." or "wmma."
  std::string name;
  int m = 0, n = 0, k = 0;
  int lanes = 32;
  ir::DType factor = ir::DType::kF16, sum = ir::DType::kF32;
  bool tf32 = false;  // factors are f32, read with 10 bits of fraction
  FragmentMap a, b, c;
  std::string ptx;          // the instruction, empty where the family has none
  std::string hip_builtin;  // likewise
  int calls = 1;            // of the builtin, one after the other: each has its part of the items
  // Where it is: from this compute capability on (75: sm_75), or on these AMD architectures.
  int least_sm = 0;
  std::vector<std::string> amd;
};
std::span<const MmaInstruction> mma_instructions();
/// The row of that name; -1 if there is none.
int find_mma(const std::string& name);
/// The largest instruction of the target for these types, tf32 left out; -1 if it has none.
int best_mma(const ir::Target& target, ir::DType factor, ir::DType sum);
bool has_instruction(const ir::Target& target, const MmaInstruction& instruction);

}  // namespace stax::thread
