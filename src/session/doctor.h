// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a GPU kernel is good or bad at one shape: what its launch asks of the machine, and what is in its way.
//
// What a kernel does is counted by the interpreter of thread IR, on a part of its blocks where there are many; what the machine does with it
// is a model: occupancy by the target's table, waves by the number of blocks that fit at once, time by the roofline.
#include <map>
#include <string>
#include <vector>

#include "ir/target.h"
#include "program/program.h"
#include "thread/interpret.h"

namespace stax::session {

enum class Pitfall : uint8_t {
  kLowOccupancy,   // too few threads at once to hide the latency of memory
  kUncoalesced,    // a warp's accesses touch more sectors than their bytes need
  kBandwidth,      // the time goes into moving bytes, and more are moved than need be
  kBankConflicts,  // threads of a warp wait for each other at a bank of shared memory
  kTailEffect,     // the last blocks leave most of the machine idle
  kDivergence,     // threads of a warp go different ways
};
std::string_view name_of(Pitfall pitfall);  // "low occupancy", ...

struct Finding {
  Pitfall pitfall = Pitfall::kLowOccupancy;
  std::string advice;  // one line: the figure, and what to change
};

struct Diagnosis {
  std::string kernel, kernel_class;
  int64_t blocks = 0;
  int block = 0;              // threads of one
  int registers = 0;          // of a thread
  int64_t shared_bytes = 0;   // of a block
  ir::Occupancy occupancy;    // of a multiprocessor
  double waves = 0;           // blocks / blocks that run at once
  double tail = 1;            // work / capacity of the waves, the last one counted whole
  int64_t least_bytes = 0;    // each byte that is used, moved once
  int64_t moved_bytes = 0;    // sectors asked of the memory beyond a multiprocessor
  double coalescing = 1;      // least sectors / sectors
  double bank_conflicts = 0;  // cycles of shared memory beyond the least, per least
  double divergence = 0;      // threads that idle while others of their warp go another way, of all
  thread::Counters counters;  // of the whole grid, scaled from the blocks that were run
  double memory_us = 0, compute_us = 0, shared_us = 0, predicted_us = 0;
  std::string bound;              // "memory", "arithmetic", "shared memory", "latency"
  std::vector<Finding> findings;  // the worst first
  std::string str() const;        // several lines
  std::string advice() const;     // one line: the worst finding's
};

struct DoctorOptions {
  int registers = 0;         // of a thread, where they are known; 0: estimated from the kernel's registers
  int64_t most_blocks = 64;  // that are run
};

/// `params`: as thread::Launch has them. The contents of buffers are zeros; the kernel's faults are InternalErrors.
Diagnosis diagnose(const thread::Kernel& kernel, const ir::Target& target, std::span<const int64_t> params,
                   const DoctorOptions& options = {});

/// A launch of a program at a shape.
struct LaunchDiagnosis {
  uint32_t kernel = 0;  // in program.kernels: the version that the shape takes
  int launches = 1;     // steps that do just this; what bodies of loops repeat is counted once
  Diagnosis diagnosis;
};
/// All launches of a program for a GPU, the longest first. `at`: the dims of its inputs by name; UserError for one that is missing or unknown.
/// Symbols that only data decides take the least value they can have, but 1.
std::vector<LaunchDiagnosis> diagnose_program(const program::Program& program, const ir::Target& target,
                                              const std::map<std::string, int64_t>& at,
                                              const DoctorOptions& options = {});

}  // namespace stax::session
