// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel as native code in this process.
#include <memory>
#include <span>

#include "loop/loop_ir.h"

namespace stax::bisect {

class NativeKernel {
 public:
  explicit NativeKernel(const loop::Kernel& kernel);
  ~NativeKernel();
  NativeKernel(const NativeKernel&) = delete;
  NativeKernel& operator=(const NativeKernel&) = delete;
  /// All iterations, on that many threads; of one thread, stack and scratch are poisoned first. UserError for an index out of range.
  void run(std::span<void* const> buffers, std::span<const int64_t> params, int threads = 1) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stax::bisect
