// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices that the lanes of a warp share: which instruction multiplies them, and what of them a lane holds.
#include <optional>
#include <vector>

#include "loop/loop_ir.h"
#include "thread/mma.h"

namespace stax::lower {

/// What a nest of matrix loops goes over.
enum class MatrixPart : uint8_t { kSum, kLeft, kRight, kProduct };

/// A nest of matrix loops: the loops from outside in, and the statement in it.
struct MatrixNest {
  std::vector<const loop::For*> loops;
  const loop::StmtNode* leaf = nullptr;
  bool has_condition = false;
  MatrixPart part = MatrixPart::kSum;
};
MatrixNest matrix_nest(const loop::For& outermost);

/// The instruction of a kernel's products, by row of thread::mma_instructions(); -1: it has none.
int matrix_instruction(const loop::Kernel& kernel, const ir::Target& target);

/// A part of an instruction: what each lane holds of `rows` x `columns` elements.
struct FragmentShape {
  int rows = 0, columns = 0;
  loop::LoopKind row_loop = loop::LoopKind::kRows, column_loop = loop::LoopKind::kColumns;
  const thread::FragmentMap* map = nullptr;
};
FragmentShape fragment_shape(const thread::MmaInstruction& instruction, MatrixPart part);

/// What a lane adds to a row or column, by the bits of `by_bit`: an expression of the thread's number.
symbolic::Expr lane_offset(symbolic::Expr thread, const std::vector<int>& by_bit);

}  // namespace stax::lower
