// SPDX-License-Identifier: Apache-2.0
#include "compile/kernel_stages.h"

#include "compile/pass.h"
#include "loop/passes.h"
#include "support/error.h"

namespace stax::compile {

bool is_kernel(const tensor::Op& op) {
  return op.kind() == tensor::OpKind::kCompute || op.kind() == tensor::OpKind::kScatter ||
         op.kind() == tensor::OpKind::kPrefixScan || op.kind() == tensor::OpKind::kRowGroup;
}

lower::LoweredKernel lower_op(const tensor::Op& op) {
  if (op.kind() == tensor::OpKind::kCompute) return lower::lower_compute(op);
  if (op.kind() == tensor::OpKind::kScatter) return lower::lower_scatter(op);
  if (op.kind() == tensor::OpKind::kPrefixScan) return lower::lower_prefix_scan(op);
  if (op.kind() == tensor::OpKind::kRowGroup) return lower::lower_row_group(op);
  internal_error("{} becomes no kernel", tensor::name_of(op.kind()));
}

namespace {

// Every index, also one a tile past the end, fits into 31 bits.
symbolic::Expr has_small_buffers(const loop::Kernel& kernel) {
  constexpr int64_t kMostElements = int64_t{1} << 30;
  symbolic::ExprTable& table = kernel.context->exprs;
  symbolic::Expr small = table.constant(1);
  for (int k = 0; k < kernel.arguments; ++k) {
    symbolic::Expr count = table.constant(1);
    for (symbolic::Expr e : kernel.buffers[static_cast<size_t>(k)].extents) count = count * e;
    small = symbolic::logical_and(small, symbolic::less_equal(count, table.constant(kMostElements)));
  }
  return small;
}

}  // namespace

std::vector<GpuKernelVersion> gpu_kernel_versions(const loop::Kernel& naive, const ir::Target& target) {
  const std::vector<schedule::GpuVersion> versions = schedule::choose_gpu_versions(naive, target);
  std::vector<GpuKernelVersion> choices;
  // (Rows that are too long for shared memory have a version of their own, the last one.)
  // Where indices of 32 bits are cheaper, all versions have them, behind a guard; one with 64 bits serves what is larger.
  if (target.narrow_indices) {
    const symbolic::Expr small = has_small_buffers(naive);
    const auto behind = [&](symbolic::Expr e) { return e ? symbolic::logical_and(small, e) : small; };
    for (const auto& v : versions) choices.push_back({v, behind(v.guard), behind(v.necessary), 32});
    choices.push_back({versions.back(), {}, {}, 64});
  } else {
    for (const auto& v : versions) choices.push_back({v, v.guard, v.necessary, 64});
  }
  return choices;
}

bool may_flush_denormals(const loop::Kernel& kernel) {
  return kernel.kernel_class == "contraction" || kernel.kernel_class == "attention";
}

std::span<const LoopPass> loop_passes() {
  static constexpr LoopPass kPasses[] = {
      // Schedules leave indices and conditions as their steps made them.
      {"simplify", loop::simplify},
      // What does not depend on a loop is decided before it.
      {"hoist_loop_invariants", loop::hoist_loop_invariants},
  };
  return kPasses;
}

loop::Kernel run_loop_passes(loop::Kernel kernel) {
  for (const LoopPass& p : loop_passes())
    if (!is_disabled(p.name)) kernel = p.pass(kernel);
  loop::verify(kernel);
  return kernel;
}

}  // namespace stax::compile
