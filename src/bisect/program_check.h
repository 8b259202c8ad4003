// SPDX-License-Identifier: Apache-2.0
#pragma once
// A compiled program against the values that the reference interpreter gives for its graph.
//
// The program runs in a process of its own and is looked at step by step. Each result is compared and then replaced by the wanted one, so
// that a difference is the fault of the step where it is seen: of its kernel, of what the program says about it, or of the memory that the values it
// reads should have kept. Where a step differs, its kernel is tried by itself (kernel_chain.h). Where none does, the program runs as it does where nobody
// looks (unwatched_run.h).
#include "bisect/graph_check.h"
#include "bisect/kernel_case.h"
#include "bisect/small_data.h"
#include "compile/pipeline.h"

namespace stax::bisect {

struct ProgramFault {
  std::string level;  // "loop", "thread", "native", "device", "program", "runtime"
  std::string pass;   // "split", "emit_native", "plan_memory", "build_program", ..
  std::string detail;
  std::string kernel;  // name of the kernel, where one is at fault
  std::optional<uint32_t> version;
  std::string value, source, what;
  uint32_t id = 0;  // of the value
  std::string schedule;
  std::optional<KernelCall> call;    // of the kernel at fault, made small
  SmallData data;                    // of its operands
  bool is_of_step = false;           // what the program says of a step, or how it runs
  std::optional<KernelCall> around;  // of a kernel that is right: what is wrong may show with this call alone
};

struct ProgramOptions {
  int threads = 0;                  // 0: all cores
  Machine machine;                  // what it is compiled for and runs on
  std::optional<uint32_t> version;  // of every kernel that has it, whatever the guards say
};

/// `want`: all values of the graph, which is in its final form.
std::optional<ProgramFault> check_program(tensor::Graph& graph, const std::vector<tensor::Item>& inputs,
                                          const Values& want, const std::vector<tensor::Item>& outputs,
                                          const ProgramOptions& options);

}  // namespace stax::bisect
