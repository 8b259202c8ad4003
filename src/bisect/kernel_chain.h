// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel on known operands, at every point of its way from tensor IR to what runs.
//
// The way is a table of levels (kernel_chain.cpp): each turns what the one before it made into one or several stages, and each stage is executed by
// its level's machine: the loop interpreter, the thread interpreter, native code, a GPU's driver. The first stage whose results are not the op's is
// where the fault is. A further IR or device is a row of that table.
#include <functional>
#include <memory>

#include "bisect/machine.h"
#include "bisect/values.h"
#include "loop/loop_ir.h"

namespace stax::bisect {

/// An op that becomes a kernel, and a call of it.
struct KernelCall {
  const tensor::Op* op = nullptr;
  std::vector<tensor::Item> operands;
  tensor::Bindings bindings;  // of all symbols that the op mentions
};

struct KernelFault {
  std::string level;     // "loop", "thread", "native", "device"
  std::string stage;     // the pass: "lower_compute", "split", "simplify", "emit_native"
  std::string detail;    // the schedule's line, ..
  std::string what;      // the difference, a crash, a message
  std::string schedule;  // of the version
};

/// What the reference interpreter gives for the call: all results.
std::vector<tensor::Item> evaluate(const KernelCall& call);

/// All stages of one version of an op on the way to a machine, made once.
class KernelChain {
 public:
  /// `phase`: 0 for the whole op, else its phase of that number (compile::op_phases).
  KernelChain(const tensor::Op& op, uint32_t version, const Machine& machine, uint32_t phase = 0);
  ~KernelChain();
  KernelChain(const KernelChain&) = delete;
  KernelChain& operator=(const KernelChain&) = delete;
  /// The first stage that differs, or that cannot be made. None: the kernel by itself is right.
  std::optional<KernelFault> check(const KernelCall& call) const;
  /// Whether a stage of the last level is wrong; false where the call is illegal.
  bool differs(const KernelCall& call) const;
  uint32_t versions() const;
  /// Whether the version may be launched for the call: elsewhere it need not be right.
  bool may_be_launched(const KernelCall& call) const;
  /// What another kernel makes of the call that is not the op's; empty: nothing, or it takes too long.
  std::string difference_of(const loop::Kernel& kernel, const KernelCall& call) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The faults of building alone: the first stage that cannot be made, for any version of the op. `beginning` is told of each stage before it is made.
/// Without `emits` it ends in front of the code of the machine, which takes the longest by far.
using Beginning = std::function<void(const KernelFault& stage)>;
std::optional<KernelFault> check_building(const tensor::Op& op, const Machine& machine, bool emits,
                                          const Beginning& beginning = {});

}  // namespace stax::bisect
