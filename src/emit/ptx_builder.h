// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds PTX code block by block.
//
// Blocks nest as the control flow does: the kernel, in it loop bodies and branches. Only the innermost is written to; but as each block is put into
// the one around it when it closes, appending to an outer block means: in front of the loop that is being built. So a pure instruction is placed
// without looking back: as far out as its operands allow, if that takes it out of a loop, else right here. Each block remembers the pure instructions
// in it, and a request for an equal one anywhere inside gives the register that there is. Loop-invariant code motion and common subexpressions are
// nothing but that.
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emit/ptx_code.h"

namespace stax::emit::ptx {

class Builder {
 public:
  enum class Kind : uint8_t { kKernel, kLoop, kBranch };

  Builder();

  Operand fresh(Class cls) {
    const Operand r = code_.fresh(cls);
    set_depth(r, depth());
    return r;
  }
  Operand name(const std::string& text) { return code_.name(text); }

  /// A value that depends on its operands alone.
  Operand pure(Class cls, const std::string& op, std::initializer_list<Operand> src);
  Operand pure(Class cls, const std::string& op, std::vector<Operand> src);
  /// The two halves of a register, and a register of two halves; each undoes the other.
  Operand half(Class cls, const std::string& op, Operand whole, int index);
  Operand join(Class cls, const std::string& op, Operand low, Operand high);
  /// Appends to the innermost block, under the guard.
  void effect(Instruction i);
  /// The same, also as a value: an equal load of the same `state` of memory gives the register that there is.
  std::vector<Operand> load(Instruction i, int state);
  void copy(Operand to, Operand from);
  /// Several copies at once: sources are read before destinations are written.
  void copy_all(std::vector<std::pair<Operand, Operand>> copies);
  void label(int label);
  void branch(int label, Operand predicate = {}, bool negated = false);
  int new_label() { return labels_++; }

  /// Instructions are executed where the guard is true.
  Operand guard() const { return guard_; }
  void set_guard(Operand guard) { guard_ = guard; }
  /// Predicates of constants have no instruction of their own.
  Operand as_predicate(Operand x);
  Operand both(Operand a, Operand b);
  Operand negation(Operand p);

  void open(Kind kind);
  /// What the innermost block holds; the block around it is the innermost again.
  std::vector<Instruction> close();
  void append(std::vector<Instruction> list);
  bool in_loop() const;
  int depth() const { return static_cast<int>(blocks_.size()) - 1; }
  int depth_of(Operand x) const { return x.is_reg() ? depths_[static_cast<size_t>(x.reg())] : 0; }
  /// Of a register that several instructions write.
  void set_depth(Operand x, int depth);
  /// The depth at which a pure instruction of operands of that depth is placed.
  int place_of(int depth) const;

  /// Code after the end of the kernel, for what is rare: written by `body`, reached and left by branches.
  void cold(Operand predicate, const std::function<void()>& body);

  Code finish();

 private:
  struct Block {
    Kind kind = Kind::kKernel;
    std::vector<Instruction> list;
    std::unordered_map<std::string, std::vector<Operand>> known;
  };
  std::string key_of(const Instruction& i, int state) const;
  const std::vector<Operand>* find(const std::string& key) const;
  std::vector<Operand> place(Instruction i, const std::vector<Class>& classes);

  Code code_;
  std::vector<Block> blocks_;
  std::vector<Instruction> cold_;
  std::vector<int> depths_;
  std::unordered_map<int64_t, std::pair<Operand, Operand>> parts_;  // of a joined register
  std::unordered_map<int64_t, std::pair<Operand, int>> whole_;      // of a half
  Operand guard_;
  int labels_ = 0;
};

}  // namespace stax::emit::ptx
