// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interpreter of thread IR: its definition, and a device (`sim`). Runs whole grids; all threads of a block go in lockstep as far as
// their control flow does, with a mask where it parts.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thread/thread_ir.h"

namespace stax::thread {

/// A fault of the kernel, not of its user.
struct Report {
  enum class Kind : uint8_t { kRace, kOutOfBounds, kUninitialized, kDivergentBarrier, kMisaligned, kBadLane };
  Kind kind = Kind::kRace;
  std::string statement;  // as printed, with its line in print(kernel)
  int line = 0;
  std::string buffer;
  int64_t index = 0;
  int64_t block = 0, thread = 0, other_thread = -1;  // linear block, the two threads of a race
  int64_t other_block = -1;                          // of a race between blocks
  std::string str() const;                           // one line
};
std::string_view name_of(Report::Kind kind);  // "race", "out of bounds", ...

/// What a launch did, summed over all blocks. Instructions are counted for each thread that executes them; index expressions where their last
/// variable gets its value.
struct Counters {
  // A request of a warp without bank conflicts takes one cycle (a vector one as many as its bytes need): the least.
  int64_t shared_requests = 0, shared_cycles = 0, least_shared_cycles = 0;
  int64_t global_requests = 0, global_sectors = 0,
          least_sectors = 0;                     // sectors of 32 bytes; least: what contiguous access needs
  int64_t branches = 0, divergent_branches = 0;  // of a warp: conditions and tests of loops
  int64_t barriers = 0;                          // of a block
  int64_t loads = 0, stores = 0, float_ops = 0, integer_ops = 0, special_ops = 0, shuffles = 0, atomics = 0;
  int64_t mma = 0;  // of a warp
  // Instructions of statements, for each thread that executes them, and for each thread of the warps that issue them.
  int64_t executed = 0, issued = 0;
  void add(const Counters& other);
};

struct Launch {
  std::span<void* const> buffers;   // in argument order
  std::span<const int64_t> params;  // in the order of kernel.params, multipliers and shifts of divisors included
  int64_t* fault = nullptr;         // four i64, zeroed by the caller
  bool check = true;                // look for faults of the kernel (slower)
  bool count = true;                // requests, cycles, sectors and branches (slower; instructions are always counted)
  size_t most_reports = 8;          // one for each kind of fault, statement and buffer
  int threads = 0;                  // of the host; 0: as many as there are cores
  int64_t most_blocks = 0;          // runs only so many, evenly spread over the grid; 0: all of them
};
struct Outcome {
  std::vector<Report> reports;
  Counters counters;
  std::vector<int64_t> accessed_bytes;  // by argument: what threads asked for, repeated or not; with `count`
  int64_t blocks = 0, blocks_run = 0;
};

struct InterpreterProgram;

/// A kernel made ready to run, any number of times and by several host threads. Faults of the caller (counts of buffers and params that do not
/// match the kernel, a multiplier that does not belong to its divisor) are InternalErrors.
class Interpreter {
 public:
  explicit Interpreter(Kernel kernel);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;
  const Kernel& kernel() const { return *kernel_; }
  Outcome run(const Launch& launch) const;

 private:
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<InterpreterProgram> program_;
};
Outcome interpret(const Kernel& kernel, const Launch& launch);

/// Multiplier and shift for a divisor (Divisor).
struct Reciprocal {
  int64_t multiplier = 1, shift = 0;
};
Reciprocal reciprocal_of(int64_t divisor);

}  // namespace stax::thread
