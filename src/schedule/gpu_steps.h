// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the schedulers of GPU kernels share.
#include <optional>
#include <string>
#include <vector>

#include "schedule/gpu.h"
#include "schedule/step_list.h"

namespace stax::schedule {

/// Fuses the first `count` loops of the list into one and gives its name.
std::string fuse_outer(StepList& steps, size_t count);

/// Whether all steps of the version can be applied.
bool is_legal(const loop::Kernel& kernel, const GpuVersion& v);

/// The version is for shapes of which `condition` holds, and wrong for others.
void require(GpuVersion& v, symbolic::Expr condition);
/// Makes `e` a provable multiple by what the version takes for granted of a parameter. False: there is no such parameter.
bool make_multiple(const loop::Kernel& kernel, symbolic::Expr e, int64_t multiple, GpuVersion& v);

/// Of a contraction: the outer loops along which one factor alone moves, `rows` for one and `columns` for the other, and the number in
/// `inner_loads` of the factor that moves along the columns. Columns are the innermost of such loops.
struct ContractionAxes {
  int rows = 0, columns = 0;
  int right = 0;
};
std::optional<ContractionAxes> contraction_axes(const NestForm& form);

/// Whether tiles of that many rows and columns are blocks for half of the machine at least.
symbolic::Expr fills_machine(const NestForm& form, const ContractionAxes& axes, int rows, int columns,
                             const ir::Target& target);

/// Tiles of results in registers of threads.
std::vector<GpuVersion> tiled_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);
/// Tiles multiplied by matrix instructions; none where the target has none for the types.
std::vector<GpuVersion> matrix_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);

}  // namespace stax::schedule
