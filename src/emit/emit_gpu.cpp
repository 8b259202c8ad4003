// SPDX-License-Identifier: Apache-2.0
#include "emit/emit_gpu.h"

#include "emit/ptx.h"
#include "support/error.h"

namespace stax::emit {

std::string emit_gpu(const thread::Kernel& kernel, ir::CodeFormat format, const ir::Target& target) {
  switch (format) {
    case ir::CodeFormat::kPtx: return emit_ptx(kernel, target);
    case ir::CodeFormat::kCuda:
    case ir::CodeFormat::kHip:
    case ir::CodeFormat::kOpencl: unsupported("text of format '{}' is not in this build", ir::name_of(format));
    case ir::CodeFormat::kThread:
    case ir::CodeFormat::kNative: break;
  }
  internal_error("{} is no text for a GPU", ir::name_of(format));
}

}  // namespace stax::emit
