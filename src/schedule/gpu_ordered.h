// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels whose meaning is an order: running sums, and scatters, where points may meet. Inside schedule/ only.
#include <vector>

#include "schedule/gpu.h"

namespace stax::schedule {

/// Of class "scan": a block has a row and scans it tile by tile; where rows are short or the axis is not contiguous and rows are many, a thread has one.
std::vector<GpuVersion> scan_versions(const loop::Kernel& kernel, const ir::Target& target);
/// Of class "scatter": the axes that go straight to an axis of the result are spread over threads, each of which does its points in order; so the
/// result is the one of the order, whatever the mode. One thread where there is no such axis.
std::vector<GpuVersion> scatter_versions(const loop::Kernel& kernel);

}  // namespace stax::schedule
