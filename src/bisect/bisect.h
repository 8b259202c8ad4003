// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which pass, kernel and version made a wrong answer.
//
// Every level of Stax runs: the graph as it was imported and as each pass leaves it (tensor interpreter), each kernel after lowering, after each step
// of its schedule and after each pass over loop IR (loop interpreter), and native code. All of them mean the same. `bisect` finds the first point on
// the way from the imported graph to the running program at which they do not, for the inputs of one call. What it finds is relative to the reference
// interpreter: a model that is imported wrongly is wrong at every level.
// On the way to a GPU there are thread IR (thread interpreter) and the device in the place of native code.
//
//   0. The expressions that the way to the program makes, at some values of their symbols (symbolic/audit.h): they are what all levels share.
//   1. The graph after all passes against the imported one, value by value (graph_check.h). If it differs, the passes are bisected.
//   2. The program against that graph, step by step (program_check.h). If a step differs, its kernel is made small and followed through its stages
//      (kernel_chain.h); if the kernel is right by itself, what the program says about it is checked, then memory, then threads.
//   3. Of several calls, each right alone, the session that runs them all (call_sequence.h).
// Repros are small: calls of a kernel are cut down, and large tensors are drawn again (small_data.h) where the fault shows with those, too.
#include <string>

#include "compile/pass.h"
#include "compile/repro.h"
#include "tensor/interpret.h"

namespace stax::bisect {

struct Finding {
  std::string level;                // "symbolic", "graph", "loop", "thread", "native", "device", "program", "runtime"
  std::string pass;                 // what is at fault: a pass, a schedule's verb, a step of the compiler
  std::string detail;               // the schedule's line, a parameter, ..
  std::string kernel;               // empty where it is no kernel's
  std::optional<uint32_t> version;  // of the kernel
  std::string schedule;
  std::string value, source;  // the first value that differs and the op that makes it
  std::string what;           // its first element that differs, or what fails
  compile::Repro repro;
};

/// The finding as lines for a user, without the repro.
std::string text_of(const Finding& finding);

struct BisectOptions {
  int threads = 0;  // 0: all cores
  std::string device =
      "cpu";              // what the program runs on: "cpu", "sim", "opencl", "cuda", "hip". A repro knows its own.
  std::string emit = {};  // of device "cuda": "ptx" or "cuda"; empty: the target's own. Likewise
};

/// None if all levels agree. UserError where the inputs are wrong.
std::optional<Finding> bisect(const compile::GraphSource& source, const std::vector<tensor::Item>& inputs,
                              const BisectOptions& options = {});

/// Calls that are right alone, one after the other in one session: what differs from the call alone is what an earlier one has left behind.
std::optional<Finding> bisect_session(const compile::GraphSource& source, std::vector<std::vector<tensor::Item>> calls,
                                      const BisectOptions& options = {});

/// Runs a repro again: what still differs or fails, or none.
std::optional<Finding> replay(const compile::Repro& repro, const BisectOptions& options = {});

}  // namespace stax::bisect
