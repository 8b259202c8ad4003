// SPDX-License-Identifier: Apache-2.0
#include "emit/emit_gpu.h"

#include "emit/c_family.h"
#include "emit/ptx.h"
#include "support/error.h"

namespace stax::emit {

std::string emit_gpu(const thread::Kernel& kernel, ir::CodeFormat format, const ir::Target& target) {
  switch (format) {
    case ir::CodeFormat::kPtx: return emit_ptx(kernel, target);
    case ir::CodeFormat::kCuda: return emit_c_family(kernel, cuda_dialect(), target);
    case ir::CodeFormat::kHip: return emit_c_family(kernel, hip_dialect(), target);
    case ir::CodeFormat::kOpencl: return emit_c_family(kernel, opencl_dialect(), target);
    case ir::CodeFormat::kThread:
    case ir::CodeFormat::kNative: break;
  }
  internal_error("{} is no text for a GPU", ir::name_of(format));
}

}  // namespace stax::emit
