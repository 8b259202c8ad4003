// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way of one kernel from its op to what is emitted: lowered, scheduled step by step, and through the passes over loop IR. `build_program`
// goes this way; bisect stops on it after each part.
#include <span>

#include "ir/target.h"
#include "lower/lower.h"
#include "schedule/gpu.h"

namespace stax::compile {

/// Whether the op becomes a kernel (Compute, Scatter, PrefixScan).
bool is_kernel(const tensor::Op& op);
/// The naive nest of such an op.
lower::LoweredKernel lower_op(const tensor::Op& op);

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
