// SPDX-License-Identifier: Apache-2.0
#pragma once
// Index expressions and addresses in PTX. A value is in a b32 register where its range fits into 32 bits with a sign (always, where the kernel's
// index_bits is 32), else in a b64 one; sums and products that end within 32 bits are computed in 32 bits, however far their parts go.
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emit/ptx_builder.h"
#include "thread/thread_ir.h"

namespace stax::emit::ptx {

/// A register or a name, and bytes.
struct Place {
  Operand base;
  int64_t offset = 0;
};

class IndexEmitter {
 public:
  IndexEmitter(Builder& b, const thread::Kernel& kernel);

  /// The symbol's value; a loop variable's is bound again by the next loop that has it.
  void bind(symbolic::Expr symbol, Operand value);
  Operand value(symbolic::Expr e);                          // b32, b64, or a constant
  Operand value64(symbolic::Expr e);                        // b64 or a constant
  Operand low32(symbolic::Expr e);                          // its lower 32 bits
  Operand condition(symbolic::Expr e, bool expect = true);  // a predicate or a constant: whether (e != 0) == expect
  bool is_narrow(symbolic::Expr e) const;

  /// Loops that are being built, from the outside; addresses that advance by a fixed step in one of them are kept in a register of their own.
  struct Loop {
    symbolic::Expr var;
    int depth = 0;                                    // of its body
    std::vector<std::pair<Operand, Operand>> starts;  // of such registers: copied in front of the loop
    std::vector<std::pair<Operand, Operand>> steps;   // added at the end of the body
    /// Such registers by what they are for: others that advance alike are a distance away.
    struct Moving {
      int slot;
      symbolic::Expr coefficient, rest;
      Operand pointer;
    };
    std::vector<Moving> moving;
  };
  std::vector<Loop> loops;

  /// The address of an element: `base` of the buffer (b64; b32 for shared memory) plus index * size.
  Place place(int slot, Operand base, int size, symbolic::Expr index);
  /// The caches of a block that has closed are forgotten.
  void close(int depth);

 private:
  int level(symbolic::Expr e) const;
  std::vector<symbolic::Expr> by_level(std::span<const symbolic::Expr> args) const;
  Operand compute(symbolic::Expr e);
  Operand sum(symbolic::Expr e, bool wide);
  Operand product(symbolic::Expr e, bool wide);
  Operand times(Operand x, int64_t factor, bool wide);
  Operand plus_product(Operand sum, symbolic::Expr term, bool wide);
  Operand ring(symbolic::Expr e, bool wide) { return wide ? value64(e) : low32(e); }
  const Operand* find(symbolic::Expr e) const;  // a value that has been computed
  Operand division(symbolic::Expr e);
  Operand divide(symbolic::Expr a, symbolic::Expr b, bool wide);
  Operand divide_by_constant(symbolic::Expr a, int64_t d, bool wide);
  const thread::Divisor* divisor(symbolic::Expr a, symbolic::Expr b) const;
  Operand divide_by_parts(symbolic::Expr a, const thread::Divisor& d);
  Operand divide_slowly(symbolic::Expr a, symbolic::Expr b, bool wide);
  /// f of a number that is not negative, of any number: floor(x / d) is ~floor(~x / d) where x is negative.
  Operand with_sign(symbolic::Expr a, bool wide, const std::function<Operand(Operand)>& f);
  Operand comparison(const char* relation, symbolic::Expr a, symbolic::Expr b);
  Operand pointer(int slot, Operand base, int size, symbolic::Expr index);
  Operand beside(const Loop& loop, int slot, int size, symbolic::Expr coefficient, symbolic::Expr rest);

  Builder& b_;
  const thread::Kernel& kernel_;
  std::unordered_map<const symbolic::ExprNode*, Operand> symbols_;
  std::vector<std::unordered_map<const symbolic::ExprNode*, Operand>> values_;  // by depth
  std::vector<std::unordered_map<const symbolic::ExprNode*, std::vector<std::pair<int, Operand>>>> pointers_;
};

}  // namespace stax::emit::ptx
