// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel as the interpreter runs it: a tree of nodes, one for each statement, with the steps that compute its scalars.
//
// A step does one operation for all threads of a block, from arrays to an array: floats of 32 bits (f16 and bf16 too, which are rounded where
// a value becomes one), floats of 64 bits, or integers of 64 bits, wrapped to their width after each operation. What is the same for all threads
// is one value. Index expressions are computed where the last variable that they depend on gets its value: at the start of the block, or at the
// start of an iteration.
//
// Places of values are offsets into one piece of memory that each worker has: constants, variables, index expressions, local buffers (for each
// element an array over threads), then what statements need for themselves.
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/math_table.h"
#include "thread/interpret.h"

namespace stax::thread {

enum class Lane : uint8_t { kF32, kF64, kInt };
Lane lane_of(DType t);

/// Where a value is. `uniform`: one for all threads.
struct Operand {
  int64_t at = 0;
  bool uniform = false;
  bool temporary = false;  // until a statement is finished: `at` is the number of the temporary
};

struct Step {
  enum class Kind : uint8_t { kIndex, kOp, kSelect, kCast, kElement, kLoad, kCheckedIndex, kMask };
  Kind kind = Kind::kOp;
  DType dtype = DType::kI64;  // of the result
  DType from = DType::kI64;   // of the arguments
  ir::ScalarOp op = ir::ScalarOp::kAdd;
  symbolic::ExprKind index = symbolic::ExprKind::kAdd;
  Operand out, args[3];
  int count = 0;       // of args
  int slot = -1;       // kElement, kLoad
  int64_t offset = 0;  // kElement, kLoad: added to the index
  int64_t mask = -1;   // kLoad, kCheckedIndex, kMask: only where this is on; -1: where the statement runs
  bool holds = true;   // kMask: the condition's value that it asks for
  const ir::MathFunction* math = nullptr;
};

/// An access of global or shared memory by a statement.
struct Place {
  int slot = 0;
  Operand index;
  int64_t offset = 0;
};

/// Instructions of one thread.
struct Cost {
  int float_ops = 0, integer_ops = 0, special_ops = 0;
};

struct Node {
  StmtKind kind = StmtKind::kBlock;
  const StmtNode* statement = nullptr;
  int line = 0;
  std::vector<Step> steps;
  Cost cost;
  Operand value;  // Store, Shuffle, Atomic: what is written; If, Vote, AsyncCopy: the condition; For: the extent
  DType dtype = DType::kI64;    // of value
  bool direct = false;          // Store to a local buffer: the last step may write there itself
  Place place, from;            // what is accessed; AsyncCopy: from
  std::optional<Operand> lane;  // Shuffle by index
  // Local buffers: the element, by which `first` is known or computed.
  int local = -1;
  Operand first;
  int64_t first_offset = 0;
  bool first_constant = true;
  int width = 1;
  bool has_condition = false;  // AsyncCopy
  struct Part {
    int local;
    Operand first;
    int64_t offset;
    bool constant;
  };
  std::vector<Part> parts;  // Mma: d, a, b, c
  // For
  Operand variable;
  std::vector<Step> iteration;  // index expressions of the variable
  Cost iteration_cost;
  std::vector<Node> body, other;  // Block: body; If: both
};

struct InterpreterProgram {
  const Kernel* kernel = nullptr;
  int64_t lanes = 0;                                  // of an array: threads, rounded up
  int64_t bytes = 0;                                  // of a worker's memory
  std::vector<std::pair<int64_t, int64_t>> integers;  // constants: place and value
  std::vector<std::pair<int64_t, double>> doubles;
  std::vector<std::pair<int64_t, float>> floats;
  std::vector<Operand> params;
  Operand thread, block_index[3];
  std::vector<int64_t> locals;  // by slot: place of element 0; elements are `lanes` values of 8 bytes apart
  std::vector<Step> prologue;   // index expressions of the block
  Cost prologue_cost;
  Node body;
};

InterpreterProgram translate(const Kernel& kernel);

}  // namespace stax::thread
