// SPDX-License-Identifier: Apache-2.0
#pragma once
// C++ text to code where it runs: NVRTC and hiprtc, which have the same functions under two names. What they made is kept on disk.
#include <memory>
#include <string>
#include <vector>

#include "program/program.h"

namespace stax::runtime {

class TextCompiler {
 public:
  virtual ~TextCompiler() = default;
  /// What the driver loads: PTX of NVRTC, a code object of hiprtc. InternalError with the compiler's log if it rejects the kernel.
  virtual std::string compile(const program::KernelSpec& kernel, const std::vector<std::string>& flags) const = 0;
};

/// UserError that says what to install if the library isn't there.
std::unique_ptr<TextCompiler> open_nvrtc();
std::unique_ptr<TextCompiler> open_hiprtc();

}  // namespace stax::runtime
