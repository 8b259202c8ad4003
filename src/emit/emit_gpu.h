// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread IR -> text for GPUs.
//
// Calling convention of a GPU kernel, in this order:
//   each argument buffer: its address. In OpenCL C two arguments: the memory object and the offset of element 0 in bytes (ulong).
//   each parameter: a signed integer of index_bits bits
//   with check messages: the address of the fault record (four i64); in OpenCL C again an object and an offset
//   OpenCL C with dynamic shared memory: a local pointer, last. CUDA and HIP: the launch's dynamic shared bytes.
// The entry point is kernel.name. The text stands alone: no header, one kernel, and is the same from run to run.
#include <string>

#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit {

/// Requires a kernel in the final stage. `format` is kCuda, kHip, kOpencl (emit/c_family.cpp) or kPtx (emit/ptx.cpp).
std::string emit_gpu(const thread::Kernel& kernel, ir::CodeFormat format, const ir::Target& target);

}  // namespace stax::emit
