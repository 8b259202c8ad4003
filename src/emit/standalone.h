// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file that runs one kernel and nothing else: what goes into a profiler or a bug report.
//
// It has the kernel's text, the same kernel as a simple loop on the host, and a `main` that draws inputs from a seed, launches the kernel, compares what it
// wrote with what the simple loop wrote, and times it. Parameters may be given on its command line; they are those of the kernel, in order.
//   CUDA    nvcc -arch=sm_80 FILE
//   HIP     hipcc --offload-arch=gfx90a FILE; the device code alone also without any header, as emit_gpu's text
//   OpenCL  c++ FILE -lOpenCL: C++ that holds the kernel as text and declares what it needs of OpenCL
#include <span>
#include <string>

#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit {

struct Standalone {
  const thread::Kernel& kernel;          // final stage
  const thread::Kernel& simple;          // what it has to do: one block of one thread, with indices of 64 bits
  std::span<const int64_t> params;       // values to begin with, of simple's parameters (the kernel has these first)
  std::span<const std::string> meaning;  // of each, for the reader
};

/// The target is one of cuda, hip and opencl.
std::string emit_standalone(const Standalone& file, const ir::Target& target);

}  // namespace stax::emit
