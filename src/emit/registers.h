// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many registers a kernel will have, before any assembler has seen it.
#include "emit/ptx_code.h"
#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit {

/// Of one thread, of 32 bits, as `ptxas -v` reports them. The kernel is emitted as PTX for that target (for sm_80 where it is none of NVIDIA's).
/// docs/measured/registers.md has the error.
int predicted_registers(const thread::Kernel& kernel, const ir::Target& target);

namespace ptx {

/// What the prediction is made of, in registers of 32 bits.
struct Pressure {
  int live = 0;      // most at any point, but for what lies in constant memory or is the same for the whole block
  int uniform = 0;   // the same values, where most of them are live
  int early = 0;     // most at any point if each load is moved up to where its address is there
  int distant = 0;   // the same with loads from global memory alone
  int repeated = 0;  // what further iterations of a loop load that ptxas writes out
  int across =
      0;  // most across a division or root that is a routine in machine code, with what the routine has for itself
  int meets = 0;  // 1: threads of a block wait for each other
};
Pressure pressure_of(const Code& code);

/// Those that ptxas is expected to give a thread. The target is NVIDIA's.
int expected_registers(const Code& code, const ir::Target& target);

}  // namespace ptx

/// The same of a kernel, as predicted_registers sees it.
ptx::Pressure pressure_of(const thread::Kernel& kernel, const ir::Target& target);

}  // namespace stax::emit
