// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scalar operations in PTX (ir/scalar_op.def). How a value of a dtype lies in registers:
//   bool                     predicate
//   integers up to 32 bits   b32, extended to 32 bits as its type is signed or not
//   i64, u64                 b64
//   f16, bf16, f32           f32
//   f64                      f64
// Constants are immediate operands.
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emit/ptx_builder.h"
#include "ir/math_table.h"
#include "ir/scalar.h"

namespace stax::emit::ptx {

using ir::DType;
using ir::ScalarOp;

Class class_of(DType t);

class Ops {
 public:
  /// `sm`: 75, 80, ..; `flush`: denormals of f32 count as 0.
  Ops(Builder& b, int sm, bool flush) : b_(b), sm_(sm), flush_(flush) {}

  Operand constant(const ir::ScalarNode& node);
  Operand op(ScalarOp op, DType t, std::span<const Operand> args);
  /// `fits`: the value is known to be between -2^31 and 2^31.
  Operand cast(DType to, DType from, Operand x, bool fits = false);
  Operand multiply_add(DType t, Operand x, Operand y, Operand z);
  Operand select(DType t, Operand p, Operand x, Operand y);

  /// Between registers and the 16 bits in memory.
  Operand narrow(DType t, Operand x);  // f16, bf16: b16; what was widened, and choices among such, moves its bits
  Operand widen(DType t, Operand x);   // of a b16, or of a b32 below 2^16
  /// A register of that class; constants move to one.
  Operand in_register(Class cls, Operand x);

  /// Whether the table of 2 / pi is used.
  bool uses_table() const { return uses_table_; }

  /// do { state = body(state) } while (the predicate that body gives). The state begins in registers.
  std::vector<Operand> repeat(const std::vector<Operand>& state,
                              const std::function<Operand(std::vector<Operand>&)>& body);

 private:
  Operand pure(Class cls, const std::string& op, std::initializer_list<Operand> src) { return b_.pure(cls, op, src); }
  // ptx_ops.cpp
  Operand real(ScalarOp op, DType t, std::span<const Operand> args);
  Operand integer_op(ScalarOp op, DType t, std::span<const Operand> args);
  Operand boolean(ScalarOp op, std::span<const Operand> args);
  Operand extreme(DType t, Operand x, Operand y, bool greatest);
  Operand wrap(DType t, Operand x);
  Operand divide(DType t, Operand x, Operand y, bool remainder);
  Operand shift(ScalarOp op, DType t, Operand x, Operand y);
  Operand power(DType t, Operand x, Operand y);
  Operand integer_power(DType t, Operand x, Operand y);
  Operand compare(const char* relation, DType t, Operand x, Operand y);
  Operand mod_floor(DType t, Operand x, Operand y);
  Operand fmod(DType t, Operand x, Operand y);
  Operand fmod_f64(Operand x, Operand y);
  Operand hash(Operand seed, Operand counter);
  // ptx_cast.cpp
  Operand float_to_integer(DType to, DType from, Operand x, bool fits);
  Operand round_to_odd(Operand x);
  // ptx_math.cpp
  Operand math(ScalarOp op, DType t, std::span<const Operand> args);
  Operand run(const ir::MathProgram& program, std::span<const Operand> args);
  Operand step(const ir::MathProgram& program, const ir::MathNode& node, std::span<const Operand> args, Operand x,
               Operand y, Operand z);
  Operand scale(bool single, Operand x, Operand n);
  Operand ratio(Operand x, Operand y);
  std::string f32(const std::string& op) const { return flush_ ? op + ".ftz.f32" : op + ".f32"; }

  /// The 16 bits that x was widened from, as a b16 or in a b32, or null.
  Operand bits_of(DType t, Operand x);

  struct Choice {
    Operand p, x, y;
  };
  Builder& b_;
  std::unordered_map<int64_t, std::pair<DType, Operand>> widened_;  // by register: from what
  std::unordered_map<int64_t, Choice> chosen_;                      // by register of f32
  int sm_;
  bool flush_;
  bool uses_table_ = false;
};

}  // namespace stax::emit::ptx
