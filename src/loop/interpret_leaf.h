// SPDX-License-Identifier: Apache-2.0
#pragma once
// The inner engine of the loop interpreter: one Store or Update under its conditions, over a box of iterations, a block of
// iterations at a time.
//
// Expressions become a list of steps in topological order, one for each distinct node; each owns an array with one value for each
// iteration of a block (kBlock at most), so the cost of looking at a node is shared by the block. What does not depend on the box is
// computed once for each time the statement is entered. An index that is affine in the loops of the box needs no array: its bounds
// over the box are checked once, and its addresses are a base and a table of offsets that stays the same from entry to entry.
//
// The branch of a select that is not taken, and what stands under a false If, is not evaluated: a load and a checked index know the
// condition under which they are needed (a mask) and leave out the other iterations. A node that is needed under several conditions
// has a step for each.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/interpret_values.h"

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
  int apply(symbolic::ExprKind kind, const std::vector<int>& args);   // of at most three arguments
  int expr(Expr e);                                                   // anything
  bool is_constant(int number) const { return instructions_[number].kind == symbolic::ExprKind::kConstant; }
  void run();
  int64_t operator[](int number) const { return values_[number]; }

 private:
  struct Instruction {
    symbolic::ExprKind kind = symbolic::ExprKind::kConstant;
    int args[3] = {0, 0, 0};   // of a symbol: its number in the machine
  };
  Machine& machine_;
  std::vector<Instruction> instructions_;
  std::vector<int64_t> values_;
  std::vector<int> varying_;   // those that are no constants
  std::unordered_map<int64_t, int> constants_;
  std::unordered_map<const symbolic::ExprNode*, int> known_;
};

/// A condition on the way to a statement.
struct Guard {
  Scalar condition;
  bool holds = true;
};

class Leaf {
 public:
  /// `box`: the loops around the statement that it runs over by itself, outer first; their extents depend on none of them. May be empty.
  /// `statement`: a Store or Update.
  Leaf(Machine& machine, std::vector<For> box, std::vector<Guard> guards, const Stmt& statement);
  ~Leaf();
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A scalar outside of any box: the condition of an If around loops.
class ScalarLeaf {
 public:
  ScalarLeaf(Machine& machine, Scalar scalar);
  ~ScalarLeaf();
  Value64 run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stax::loop
