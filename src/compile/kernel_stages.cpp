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
