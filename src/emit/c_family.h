// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread IR as text in a dialect of C. One emitter; what differs between machines is a Dialect, in the file of that machine.
//
// The text names types by width (i8 .. u64, float, double, bool), which each dialect defines first. Operations that C has no operator for are
// functions with names that are the same everywhere (fma_f32, f16_to_f32, floor_divide_i64): those that a machine does in its own way stand in
// the dialect's file, the others in c_functions.cpp. A kernel's text holds the functions that it uses.
//
// How a kernel becomes text
//   local buffers whose indices are all constants are one variable for each element (acc_0, acc_1, ..), so that nothing lands on a stack
//   a scalar is one C expression; what is used twice in a statement, or is long, has a name. A branch of a select that loads is evaluated
//   where it is taken only: by ?: or, where it needs names, by if
//   divisions in index expressions have names at the outermost place where all they depend on is known: compilers do not move them
//   arithmetic of integers is done on unsigned types, as signed overflow is undefined; that of indices is not, as it does not overflow
//   products of floats are never contracted with a sum by the compiler; a Store of x[i] + a * b to x[i] is a fused multiply-add
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/target.h"
#include "thread/mma.h"
#include "thread/thread_ir.h"

namespace stax::emit {

struct Dialect {
  ir::CodeFormat format = ir::CodeFormat::kCuda;
  std::string_view prologue;       // first lines of the file: types, and the macro DEVICE that begins a function
  std::string_view functions;      // definitions, one a paragraph, in an order in which none uses a later one
  std::string_view kernel_prefix;  // in front of the kernel's name; {block} stands for the threads of a block
  std::string_view global, shared,
      shared_pointer;  // qualifiers: of a pointer to global memory, of an array and of a pointer in shared memory
  std::string_view constant_table;  // of a table of constants
  std::string_view restrict_word;
  std::string_view thread_index, block_index[3];
  std::string_view
      read_only_load;  // of an argument that the kernel does not write: {} is the address; empty: as any other
  /// Addresses in arguments are a pointer and an unsigned number of bytes below 2^32, where indices have 32 bits: the machine adds the two itself.
  bool byte_offsets = false;
  /// Keeps the compiler from taking a pointer apart: {} is its name. Where a loop reads at several numbers behind the same pointer, each number belongs
  /// into the instruction, and is else added to the pointer outside of the loop, which makes one pointer of each. Empty: as any other.
  std::string_view kept_pointer;
  /// The word of two halves, each a part (0: low, 1: high) of a word. Null: by shifts and masks.
  std::string (*halves)(const std::string& low, int low_part, const std::string& high, int high_part) = nullptr;
  std::string_view unrolled;      // in front of a loop of which its compiler shall make {} copies; empty: as it likes
  bool object_arguments = false;  // buffers are an object and an offset, dynamic shared memory is an argument

  /// A barrier; `global`: what the block wrote to global memory is seen, too.
  std::string (*barrier)(bool global) = nullptr;
  /// The expression of a value of the lane `lane` (an expression) or own lane xor a constant; `type`: int, i64, float or double.
  std::string (*shuffle)(const thread::Shuffle& s, std::string_view type, const std::string& value,
                         const std::string& lane, const ir::Target& target) = nullptr;
  std::string (*vote)(thread::VoteMode mode, const std::string& condition, const ir::Target& target) = nullptr;
  /// The function that combines atomically and whose arguments are an address and a value; empty: there is none, a loop around
  /// compare_and_swap does it.
  std::string (*atomic)(ir::Combiner combiner, ir::DType t, bool in_shared, const ir::Target& target) = nullptr;
  /// Statements; null where the machine copies in the foreground. Addresses are expressions; condition is empty or an expression: zeros where it does not
  /// hold; and so is `where`: no copy where it does not hold.
  std::string (*async_copy)(const std::string& to, const std::string& from, int bytes, const std::string& condition,
                            const std::string& where) = nullptr;
  std::string_view async_commit;
  std::string (*async_wait)(int pending) = nullptr;
  /// One statement that loads matrices (thread::LoadMatrix) into words, by the address of a row.
  std::string (*load_matrix)(const std::vector<std::string>& words, const std::string& address,
                             bool transposed) = nullptr;
  /// One statement for d = a x b + c, on words of 32 bits: factors as u32, sums as float or int. Empty: no such instruction.
  std::string (*mma)(const thread::MmaInstruction& instruction, const std::vector<std::string>& d,
                     const std::vector<std::string>& a, const std::vector<std::string>& b,
                     const std::vector<std::string>& c) = nullptr;
};

const Dialect& cuda_dialect();    // cuda.cpp
const Dialect& hip_dialect();     // hip.cpp
const Dialect& opencl_dialect();  // opencl.cpp
const Dialect& host_dialect();    // host_c.cpp

/// Requires the final stage. InternalError if the dialect lacks a statement of the kernel (shuffles in OpenCL).
std::string emit_c_family(const thread::Kernel& kernel, const Dialect& dialect, const ir::Target& target);

}  // namespace stax::emit
