// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the loop interpreter knows of one call, and its integer expressions outside of blocks.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/loop_ir.h"

namespace stax::loop {

/// A buffer at the kernel's actual sizes.
struct BoundBuffer {
  std::string name;
  DType dtype = DType::kF32;
  void* data = nullptr;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
};

/// One call of a kernel: its buffers, its parameters, and the values of the loop variables of the moment.
struct Machine {
  const Kernel& kernel;
  std::vector<BoundBuffer> buffers;
  std::unordered_map<const symbolic::ExprNode*, int64_t> params;
  std::unordered_map<const symbolic::ExprNode*, int> variables;  // number in `values`
  std::vector<int64_t> values;
  int variable(Expr var);
};

/// Integer expressions over the loop variables outside of a box, evaluated together. Parameters are constants here.
class IntProgram {
 public:
  explicit IntProgram(Machine& machine) : machine_(machine) {}
  int constant(int64_t value);
  int variable(Expr var);
  int apply(symbolic::ExprKind kind, const std::vector<int>& args);  // of at most three arguments
  int expr(Expr e);                                                  // anything
  bool is_constant(int number) const { return instructions_[number].kind == symbolic::ExprKind::kConstant; }
  void run();
  int64_t operator[](int number) const { return values_[number]; }

 private:
  struct Instruction {
    symbolic::ExprKind kind = symbolic::ExprKind::kConstant;
    int args[3] = {0, 0, 0};  // of a symbol: its number in the machine
  };
  Machine& machine_;
  std::vector<Instruction> instructions_;
  std::vector<int64_t> values_;
  std::vector<int> varying_;  // those that are no constants
  std::unordered_map<int64_t, int> constants_;
  std::unordered_map<const symbolic::ExprNode*, int> known_;
};

}  // namespace stax::loop
