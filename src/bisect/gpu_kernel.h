// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel of a GPU: by the thread interpreter, and on a device.
#include <memory>
#include <span>
#include <string>

#include "bisect/machine.h"
#include "thread/thread_ir.h"

namespace stax::bisect {

class GpuKernel {
 public:
  explicit GpuKernel(thread::Kernel kernel) : kernel_(std::move(kernel)) {}
  /// `buffers`: without scratch, which is poisoned; `params`: without what belongs to divisors. InternalError with the report of a race and the like if
  /// `check`; UserError for an index out of range.
  void interpret(std::span<void* const> buffers, std::span<const int64_t> params, bool check) const;
  /// The same on a device; `code`: the kernel's, in the format of the machine's target. To be called in a process that ends with it.
  void run_on(const Machine& machine, const std::string& code, std::span<void* const> buffers,
              std::span<const int64_t> params) const;

 private:
  struct Arguments;
  thread::Kernel kernel_;
};

}  // namespace stax::bisect
