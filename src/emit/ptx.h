// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread IR -> PTX. emit_gpu.h has the calling convention.
#include <string>

#include "emit/ptx_code.h"
#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit {

/// Requires the final stage and a target of family "cuda".
std::string emit_ptx(const thread::Kernel& kernel, const ir::Target& target);

namespace ptx {
/// 80 of "sm_80", of a target of family "cuda".
int sm_of(const ir::Target& target);
/// The instructions alone.
Code code_of(const thread::Kernel& kernel, const ir::Target& target);
}  // namespace ptx

}  // namespace stax::emit
