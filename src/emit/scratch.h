// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which local buffers live on the stack, and where the others lie in the scratch memory of the executing thread.
#include <vector>

#include "loop/loop_ir.h"

namespace stax::emit {

struct ScratchPlan {
  std::vector<symbolic::Expr> offsets;  // per slot, in bytes, a multiple of 64; null: on the stack, or a global buffer
  symbolic::Expr bytes;
};
ScratchPlan plan_scratch(const loop::Kernel& kernel);

}  // namespace stax::emit
