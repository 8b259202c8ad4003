// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread IR -> PTX. emit_gpu.h has the calling convention.
#include <string>

#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit {

/// Requires the final stage and a target of family "cuda".
std::string emit_ptx(const thread::Kernel& kernel, const ir::Target& target);

}  // namespace stax::emit
