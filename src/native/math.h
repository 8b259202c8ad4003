// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of ir/math_table.h as LLVM instructions on lanes.
#include <functional>
#include <span>

#include "ir/math_table.h"
#include "native/lanes.h"

namespace stax::native {

class MathEmitter {
 public:
  explicit MathEmitter(Lanes& lanes) : lanes_(lanes), b_(lanes.builder()) {}
  /// Arguments are float or double.
  llvm::Value* emit(ScalarOp op, std::span<llvm::Value* const> args);
  /// x / c, rounded as a division. On vectors of float by a number whose reciprocal is a normal number.
  llvm::Value* divide_by_constant(llvm::Value* x, float c);
  static bool can_divide_by(float c);

 private:
  llvm::Value* run(const ir::MathProgram& program, std::span<llvm::Value* const> args);
  llvm::Value* step(const ir::MathNode& node, llvm::Type* type, std::span<llvm::Value* const> args, llvm::Value* a,
                    llvm::Value* b, llvm::Value* c);
  llvm::Value* scale(llvm::Value* a, llvm::Value* n);
  llvm::Value* ratio(llvm::Value* a, llvm::Value* b);
  llvm::Value* lookup(llvm::Value* index);
  llvm::Value* entry(uint64_t table, llvm::Value* index);
  llvm::Function* slow_function(const ir::MathFunction& f, int lanes);
  llvm::Type* type_of(ir::MathType t) const;
  llvm::Value* by_registers(llvm::Value* a, llvm::Value* b,
                            const std::function<llvm::Value*(llvm::Value*, llvm::Value*)>& f);

  Lanes& lanes_;
  llvm::IRBuilder<>& b_;
};

}  // namespace stax::native
