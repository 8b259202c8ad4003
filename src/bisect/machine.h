// SPDX-License-Identifier: Apache-2.0
#pragma once
// What runs a program while it is looked at.
#include <memory>
#include <string>

#include "ir/target.h"
#include "program/program.h"
#include "runtime/device.h"

namespace stax::bisect {

struct Machine {
  std::string device = "cpu";  // "cpu", "sim", "opencl", "cuda", "hip"
  std::string target = "cpu";  // what its programs are compiled for
  std::string emit = {};       // of device "cuda": "ptx" or "cuda"; empty: the target's own

  bool is_gpu() const { return device != "cpu"; }
  const ir::Target& row() const { return ir::find_target(target); }
  ir::CodeFormat format() const;  // of the code that the device is given
};

/// The machine that a device of this name is, with code as --emit says. UserError if there is none.
Machine machine_of(const std::string& device, const std::string& emit = {});

/// The device, with host memory as its own: where a driver has its memory elsewhere, each launch takes its arguments there and its results back. To be
/// opened in a process that ends with it: drivers do not survive a fork.
std::unique_ptr<runtime::Device> open_unified(const Machine& machine, const program::Program& program);
/// The same with the device's own memory.
std::unique_ptr<runtime::Device> open(const Machine& machine, const program::Program& program);

}  // namespace stax::bisect
