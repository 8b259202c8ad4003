// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels of few results: where, and in how many parts, their reductions and scans are spread over the grid.
#include <optional>
#include <string>
#include <vector>

#include "ir/target.h"
#include "loop/loop_ir.h"

namespace stax::schedule {

/// A kernel in phases (loop/phases.h): what parts of the reduction, or of a scan, are by themselves, and what they are together.
struct GpuPhases {
  std::vector<std::string> classes;  // of the phases
  loop::Kernel kernel;               // the whole, with one more parameter, the last: how long a part is
  // Over the other parameters: its value, at least 1, and where several launches are better than one.
  symbolic::Expr part, condition;
};
/// None: never.
std::optional<GpuPhases> choose_gpu_phases(const loop::Kernel& kernel, const ir::Target& target);

}  // namespace stax::schedule
