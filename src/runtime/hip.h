// SPDX-License-Identifier: Apache-2.0
#pragma once
// AMD GPUs.
#include <memory>
#include <string>

#include "program/program.h"
#include "runtime/device.h"

namespace stax::runtime {

/// Of the first device: "gfx90a". UserError (what to install) without the library or a device.
std::string hip_architecture();
/// The first device, with the program's kernels compiled by hiprtc and loaded. UserError likewise; InternalError if a kernel is rejected.
std::unique_ptr<Device> open_hip(const program::Program& program);

}  // namespace stax::runtime
