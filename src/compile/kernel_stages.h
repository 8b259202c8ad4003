// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way of one kernel from its op to what is emitted: lowered, scheduled step by step, and through the passes over loop IR. `build_program`
// goes this way; bisect stops on it after each part.
#include <optional>
#include <span>
#include <unordered_map>

#include "ir/target.h"
#include "lower/lower.h"
#include "schedule/gpu.h"

namespace stax::compile {

/// Whether the op becomes a kernel (Compute, Scatter, PrefixScan).
bool is_kernel(const tensor::Op& op);
/// The naive nest of such an op.
lower::LoweredKernel lower_op(const tensor::Op& op, lower::Axes axes = lower::Axes::kMerged);

/// An expression over parameters as one over what stands for each of them.
using ParamValues = std::unordered_map<const symbolic::ExprNode*, symbolic::Expr>;
symbolic::Expr to_graph(symbolic::Expr e, symbolic::ExprTable& table, const ParamValues& params);

/// What is between two phases of an op.
struct Partial {
  ir::DType dtype = ir::DType::kF32;
  std::vector<symbolic::Expr> extents;  // over the graph's symbols; empty where the op is one kernel
};
/// An op with few results and long reductions as several kernels, one after the other (schedule/gpu_phases.h).
struct OpPhases {
  std::vector<lower::LoweredKernel> kernels;  // of their arguments, ~0 is the op's result and ~(1 + k) partial k
  std::vector<Partial> partials;
  symbolic::Expr
      condition;  // over the graph's symbols: where they are better than the whole as one kernel; they do nothing where it does not hold
};
std::optional<OpPhases> op_phases(const tensor::Op& op, const lower::LoweredKernel& whole, const ir::Target& target);
/// What a step of a program launches for the op: the whole (0), where no phases do it, or its k-th phase.
lower::LoweredKernel lower_step(const tensor::Op& op, uint32_t phase, const ir::Target& target);

struct LoopPass {
  const char* name;
  loop::Kernel (*pass)(const loop::Kernel&);
};
/// What every scheduled kernel goes through, in order.
std::span<const LoopPass> loop_passes();
/// Those that are not disabled, and the result verified.
loop::Kernel run_loop_passes(loop::Kernel kernel);

/// A version of a GPU's kernel, with the conditions over the naive kernel's parameters under which it is launched (null: always).
struct GpuKernelVersion {
  schedule::GpuVersion version;
  symbolic::Expr guard;
  symbolic::Expr necessary;  // the part of the guard without which its results are wrong
  int index_bits = 64;
};
/// The last has no guard.
std::vector<GpuKernelVersion> gpu_kernel_versions(const loop::Kernel& naive, const ir::Target& target);

/// Whether denormals may count as zeros in the kernel.
bool may_flush_denormals(const loop::Kernel& kernel);

}  // namespace stax::compile
