// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of ir/math_table.h as LLVM instructions on lanes.
#include <span>

#include "emit/llvm_lanes.h"

namespace stax::emit {

class MathEmitter {
 public:
  explicit MathEmitter(Lanes& lanes) : lanes_(lanes) {}
  llvm::Value* emit(ScalarOp op, std::span<llvm::Value* const> args);

 private:
  Lanes& lanes_;
};

}  // namespace stax::emit
