// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread IR: one kernel as what each thread of a grid of blocks does. One model for all GPUs.
//
// A launch runs grid[0] x grid[1] x grid[2] blocks of `block` threads; threads of a block are numbered 0 .. block - 1 and make warps of
// `warp` neighbours (the last warp may be smaller). Kernel::thread and Kernel::block_index are symbols that index expressions use like loop
// variables: lane = thread mod warp. Blocks run in any order and know nothing of each other but atomics.
//
// Buffers are one-dimensional; every access has one index, in elements.
//   global    an argument: contiguous, `count` elements; aligned to `alignment` bytes. Not written: read-only for the whole launch.
//   shared    of the block, undefined at its start. A constant count is static shared memory, another one dynamic (all dynamic ones of a
//             kernel lie one after the other in one allocation, each aligned to 16 bytes, in the order of slots).
//   local     of the thread, undefined at its start. A constant count. Where all indices are constants: registers.
// Integer parameters are symbols (SymbolKind::kParam), passed as 64-bit integers, or 32-bit ones where index_bits is 32.
//
// Statements (nodes.def)
//   For          var from 0 to extent - 1; a negative extent counts as 0. unrolled: constant extent, written out by unroll_loops.
//   Block        statements in order. independent: no thread touches what another one writes in it; until barriers are inserted.
//   If           condition is a bool scalar; threads of one warp may go different ways
//   Store        buffer[index] = value; to a local buffer it is an assignment of a register
//   LoadVector   local[first + k] = memory[index + k], k < width, in one access: width * size is 4, 8 or 16 bytes and divides the address.
//                `memory` is global or shared.
//   StoreVector  memory[index + k] = local[first + k], likewise
//   Barrier      all threads of the block wait for each other; what they wrote to shared and global memory before is seen by all
//                threads of the block behind it. Every thread of the block must come to the same barrier.
//   Shuffle      local[first] = value as computed by lane `lane` of the same warp (an i64 index expression of the thread, or xor of the own lane with a
//                constant: mode kXor); all lanes of the warp take part, `lane` lies in the warp.
//   Vote         local[first] (bool) = any / all of the warp's lanes have condition
//   Atomic       memory[index] = combine(memory[index], value), indivisibly; memory is global or shared; relaxed order. sum, min, max, and, or
//   AsyncCopy    shared[to + k] <- global[from + k], k < width, in the background; 4, 8 or 16 bytes, both addresses divisible by them.
//                Where `condition` is false, zeros are written and global memory isn't read. The values may be used after a wait for the
//                group (and a barrier, by other threads).
//   AsyncCommit  closes the group of the copies issued so far by this thread
//   AsyncWait    until at most `pending` of this thread's groups are unfinished
//   LoadMatrix   matrices of 8 x 8 elements of 16 bits from shared memory into the lanes of a warp: row r of matrix q is the 8 neighbours from
//                memory[index] on, with `index` as computed by lane 8 q + r, in whole 16 bytes; lane l gets elements 2 (l mod 4) and 2 (l mod 4) + 1
//                of row l / 4 as local[first + 2 q] and local[first + 2 q + 1]; transposed: of column l / 4. count: 1, 2 or 4 matrices; the
//                lanes behind theirs give any address. All lanes of the warp take part.
//   Mma          d = a x b + c on fragments spread over the lanes of a warp (mma.h); d, a, b, c are ranges of local buffers
//
// Scalars are ir/scalar.h: a load has one index. Loads of shared and global memory see the writes of the thread itself in program order, those
// of other threads of the block only across a barrier. Two accesses of one location by different threads, one of them a write, neither of
// them atomic, without a barrier between them, are a race, also where they write equal values; across blocks there are no barriers.
// Within one statement the loads of its scalars come before its write.
//
// A checked_index that fails writes {1, index, extent, message number} to the fault record (four i64 in global memory, the last argument of
// a kernel with check messages; the first one wins), and gives 0.
//
// Kernels are made in stages (verify):
//   structured   as loop_to_thread leaves them: loops may be marked unrolled, shared accesses have no barriers yet
//   final        no loop is marked unrolled; barriers are where hazards are; every statement is one that the target has
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/combiner.h"
#include "ir/scalar.h"

namespace stax::thread {

using ir::Combiner;
using ir::DType;
using ir::Scalar;
using symbolic::Expr;

enum class Space : uint8_t { kGlobal, kShared, kLocal };
enum class ShuffleMode : uint8_t { kXor, kIndex };
enum class VoteMode : uint8_t { kAny, kAll };

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  Space space = Space::kGlobal;
  Expr count;            // elements, over parameters
  int alignment = 0;     // bytes that divide the address of element 0; 0: the element's size
  bool written = false;  // of a global buffer
};

struct StmtNode;
using Stmt = std::shared_ptr<const StmtNode>;

struct For {
  Expr var, extent;
  bool unrolled = false;
  Stmt body;
};
struct Block {
  std::vector<Stmt> statements;
  bool independent = false;
};
struct If {
  Scalar condition;
  Stmt then_body;
  Stmt else_body;  // may be null
};
struct Store {
  int slot = 0;
  Scalar index, value;
};
/// `first` counts in elements of the local buffer and is a constant in the final stage.
struct LoadVector {
  int local = 0;
  Expr first;
  int memory = 0;
  Scalar index;
  int width = 1;
};
struct StoreVector {
  int memory = 0;
  Scalar index;
  int local = 0;
  Expr first;
  int width = 1;
};
struct Barrier {};
struct Shuffle {
  int local = 0;
  Expr first;
  ShuffleMode mode = ShuffleMode::kXor;
  Expr lane;  // kXor: a constant below the warp size
  Scalar value;
};
struct Vote {
  int local = 0;
  Expr first;
  VoteMode mode = VoteMode::kAny;
  Scalar condition;
};
struct Atomic {
  int slot = 0;
  Scalar index;
  Combiner combiner = Combiner::kSum;
  Scalar value;
};
struct AsyncCopy {
  int shared = 0;
  Scalar to;
  int global = 0;
  Scalar from;
  int width = 1;
  Scalar condition;  // null: true
};
struct AsyncCommit {};
struct AsyncWait {
  int pending = 0;
};
/// A range of a local buffer: the part of a fragment that the lane holds.
struct Fragment {
  int local = 0;
  Expr first;
};
struct LoadMatrix {
  int local = 0;
  Expr first;
  int memory = 0;
  Scalar index;
  int count = 1;
  bool transposed = false;
};
struct Mma {
  int instruction = 0;  // row of mma_instructions()
  Fragment d, a, b, c;
};

enum class StmtKind : uint8_t {
#define STAX_THREAD_STMT(Name, text) k##Name,
#include "thread/nodes.def"
#undef STAX_THREAD_STMT
};

struct StmtNode {
  std::variant<For, Block, If, Store, LoadVector, StoreVector, Barrier, Shuffle, Vote, Atomic, AsyncCopy, AsyncCommit,
               AsyncWait, LoadMatrix, Mma>
      v;
  StmtKind kind() const { return static_cast<StmtKind>(v.index()); }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&v);
  }
};

std::string_view name_of(Space space);  // "global", "shared", "local"
std::optional<Space> parse_space(std::string_view name);

/// A statement of any kind. Nested blocks are flattened; a block of one is that one (but not independent ones).
Stmt make(decltype(StmtNode::v) s);

/// A division by a parameter-dependent divisor, done by a multiplication: for 0 <= x < 2^31 and value >= 1
///   floordiv(x, value) = (high32(x * multiplier) + x) >> shift, in unsigned 32-bit arithmetic whose sum is below 2^32
/// with shift = ceil(log2(value)) and multiplier = floor(2^32 * (2^shift - value) / value) + 1. `multiplier` and `shift` are parameters
/// that the host computes from `value`, or from 1 where that is 0: extents are 0 only where nothing is indexed. The multiplier may need all
/// 32 bits: kernels read it as unsigned. Which divisions are done so: find_divisor.
struct Divisor {
  Expr value, multiplier, shift;
};

struct Kernel {
  std::shared_ptr<ir::Context> context;
  std::string name;             // an identifier: the entry point
  std::string kernel_class;     // as the loop kernel's
  std::vector<Buffer> buffers;  // slots: first the `arguments` global ones
  int arguments = 0;
  int scratch = 0;  // of these, at the end: memory that the launch brings, undefined at its start, `count` elements
  std::vector<Expr> params;
  Expr thread;          // 0 .. block - 1
  Expr block_index[3];  // 0 .. grid[k] - 1
  Expr grid[3];         // over parameters
  int block = 1;        // threads of a block
  int warp = 32;
  int index_bits =
      64;  // 32: the launch's guard proves that indices, parameters and their intermediate values fit into 31 bits
  std::vector<Divisor> divisors;
  Stmt body;
  std::vector<std::string> check_messages;
  std::string schedule;  // of the loop kernel it came from
  bool flush_denormals = false;
};

/// Bytes of static and of dynamic shared memory.
int64_t static_shared_bytes(const Kernel& kernel);
Expr dynamic_shared_bytes(const Kernel& kernel);
/// Whether all indices of a local buffer are constants, so that it lives in registers.
std::vector<bool> register_slots(const Kernel& kernel);

Stmt rewrite(const Stmt& root, const std::function<Stmt(const Stmt&)>& f);  // as loop::rewrite
Stmt substitute(const Stmt& root, const symbolic::Substitution& map);
void visit(const Stmt& root, const std::function<void(const Stmt&)>& f);
/// All scalars of one statement, not of those inside it.
void for_each_scalar(const StmtNode& s, const std::function<void(Scalar)>& f);
/// All index expressions of one statement: extents, first elements, lanes, and those inside its scalars.
void for_each_index(const StmtNode& s, const std::function<void(Expr)>& f);
/// The row by which `division` (a floordiv or mod of a dividend that is never negative) is to be done; null: as it stands.
const Divisor* find_divisor(const Kernel& kernel, Expr division);

/// The values of a variable that runs from 0 to extent - 1, as far as declared ranges tell: what a loop variable, or a block's index, is
/// declared with.
symbolic::Interval range_below(Expr extent);

/// Text: complete and parseable (text.cpp has an example).
std::string print(const Kernel& kernel);
Kernel parse_kernel(const std::string& text);
/// The line of print(kernel) on which each statement begins, from 1; of one that stands in several places the first.
std::unordered_map<const StmtNode*, int> lines_of(const Kernel& kernel);

enum class Stage : uint8_t { kStructured, kFinal };
void verify(const Kernel& kernel, Stage stage);  // InternalError

}  // namespace stax::thread
