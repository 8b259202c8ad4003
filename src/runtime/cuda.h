// SPDX-License-Identifier: Apache-2.0
#pragma once
// NVIDIA GPUs.
#include <memory>

#include "program/program.h"
#include "runtime/device.h"

namespace stax::runtime {

/// Of the first device: 90 is 9.0. UserError (what to install) without a driver or a device.
int cuda_compute_capability();
/// The first device, with the program's kernels loaded. UserError likewise; InternalError if the driver rejects a kernel.
std::unique_ptr<Device> open_cuda(const program::Program& program);

}  // namespace stax::runtime
