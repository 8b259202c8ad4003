// SPDX-License-Identifier: Apache-2.0
#include "emit/llvm_math.h"

#include "support/error.h"

namespace stax::emit {

llvm::Value* MathEmitter::emit(ScalarOp op, std::span<llvm::Value* const>) { internal_error("no code for {}", ir::name_of(op)); }

}  // namespace stax::emit
