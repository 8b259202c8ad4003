// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kernels of a program for a GPU, made before the program is: one does not depend on another, so that several threads make them.
#include <map>
#include <string>
#include <unordered_map>

#include "compile/kernel_stages.h"
#include "thread/thread_ir.h"

namespace stax::compile {

/// An op as one kernel, and as several where that may be better.
struct LoweredOp {
  lower::LoweredKernel whole;
  std::optional<OpPhases> phases;
};

/// A version with its loops, scheduled, and what threads do. Neither has a name yet.
struct GpuKernel {
  GpuKernelVersion version;
  loop::Kernel loops;
  thread::Kernel threads;
};

class GpuKernels {
 public:
  /// Of all ops of the graph for which `is_launched` holds, on up to `threads` threads. Throws what the first of them in the order of the graph throws.
  GpuKernels(const tensor::Graph& graph, const ir::Target& target, int threads,
             const std::function<bool(const tensor::Op&)>& is_launched);

  LoweredOp& lowered(const tensor::Op& op) { return ops_.at(&op); }
  /// Versions of the kernel with this text (loop::print, anonymous).
  std::vector<GpuKernel>& versions(const std::string& text) { return versions_.at(text); }

 private:
  std::unordered_map<const tensor::Op*, LoweredOp> ops_;
  std::map<std::string, std::vector<GpuKernel>> versions_;
};

}  // namespace stax::compile
