// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arithmetic on scalars and on vectors of lanes alike: each operation takes its form from the type of its arguments, which all
// have the same number of lanes.
//
// Registers hold a value in its compute type: bool is i1, f16 and bf16 are float, integers and the other floats are themselves. Memory
// holds bool as a byte and f16 and bf16 as i16. No operation calls a library.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <span>

#include "emit/emit.h"
#include "ir/scalar.h"

namespace stax::native {

using emit::Isa;
using emit::vector_bytes;
using ir::DType;
using ir::ScalarOp;

/// What of the machine the emitted code has to know.
struct Machine {
  Isa isa = Isa::kBaseline;
  bool x86 = true;
  bool fma = false;            // fused multiply-add
  bool f16c = false;           // conversions between f16 and f32
  bool masked_access = false;  // loads and stores of 32 and 64-bit lanes under a mask
  bool narrow_masks = false;   // the same for 8 and 16-bit lanes; masks live in registers of their own
  bool gather = false;         // gathers and scatters worth their name
  bool entries = false;        // choosing each lane's entry of a table in two registers
  bool scale = false;          // products with powers of two, and approximate reciprocals
  bool byte_dot = false;       // sums of four products of bytes in a lane of 32 bits
};
Machine machine_of(Isa isa);

class Lanes {
 public:
  Lanes(llvm::IRBuilder<>& builder, llvm::Module& module, const Machine& machine)
      : b(builder), module_(module), machine_(machine) {}

  // Types. `lanes` 0: a scalar.
  llvm::Type* register_type(DType t, int lanes) const;
  llvm::Type* memory_type(DType t, int lanes) const;
  llvm::Type* with_lanes(llvm::Type* element, int lanes) const;
  static int lanes_of(const llvm::Value* v);
  /// `element` with as many lanes as `like`.
  llvm::Type* like(llvm::Type* element, const llvm::Value* like) const { return with_lanes(element, lanes_of(like)); }

  // Constants in the form of `like`.
  llvm::Value* integer(llvm::Type* type, int64_t value) const;
  llvm::Value* real(llvm::Type* type, double value) const;
  llvm::Value* constant(DType t, int lanes, const ir::ScalarNode& node) const;
  llvm::Value* splat(llvm::Value* v, int lanes);
  llvm::Value* iota(llvm::Type* element, int lanes) const;

  // Between memory and registers.
  llvm::Value* from_memory(DType t, llvm::Value* v);
  llvm::Value* to_memory(DType t, llvm::Value* v);
  /// The value rounded to f16 or bf16, still as float.
  llvm::Value* round(DType t, llvm::Value* v) { return from_memory(t, to_memory(t, v)); }

  /// `t`: the type of the arguments (of a select: of its branches). Not for select's and checked_index's control flow.
  llvm::Value* op(ScalarOp op, DType t, std::span<llvm::Value* const> args);
  /// `fits_i32`: a float that is known to be NaN or to lie within int32 once truncated.
  llvm::Value* cast(DType to, DType from, llvm::Value* v, bool fits_i32 = false);
  /// a * b + c, fused where the machine can.
  llvm::Value* multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* c);

  /// The same with one rounding on every machine.
  llvm::Value* fused_multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* c);

  /// c + the four products of bytes, u8 by i8, in each 32-bit lane of a and b. Vectors of at least the machine's width; x86 only.
  llvm::Value* byte_dot(llvm::Value* c, llvm::Value* a, llvm::Value* b);

  llvm::Value* min(DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* max(DType t, llvm::Value* a, llvm::Value* b);
  /// The greater or the less of two floats; the second where one is NaN.
  llvm::Value* extreme(bool greatest, llvm::Value* a, llvm::Value* b);
  llvm::Value* any(llvm::Value* mask);
  /// <n x i1> as an integer of n bits.
  llvm::Value* mask_bits(llvm::Value* mask);
  llvm::Value* both(llvm::Value* mask, llvm::Value* other);  // null: all lanes

  /// The attributes of every function that holds such code.
  void tune(llvm::Function& f) const;

  const Machine& machine() const { return machine_; }
  llvm::IRBuilder<>& builder() { return b; }
  llvm::LLVMContext& context() const { return b.getContext(); }

 private:
  friend class MathEmitter;
  llvm::Value* divide(llvm::Value* a, llvm::Value* b);
  llvm::Value* quotient_in_f32(llvm::Value* v);
  llvm::Value* divide_integers(DType t, llvm::Value* a, llvm::Value* b, bool remainder);
  llvm::Value* mod_floor(DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* fmod(llvm::Value* a, llvm::Value* b);
  llvm::Value* fmod_f64(llvm::Value* a, llvm::Value* b);
  llvm::Value* power(llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_power(DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* hash(llvm::Value* seed, llvm::Value* counter);
  llvm::Value* float_to_integer(DType to, llvm::Value* v, bool fits_i32);
  llvm::Value* f32_to_f16(llvm::Value* v);
  llvm::Value* f16_to_f32(llvm::Value* v);
  llvm::Value* f64_to_f32_round_to_odd(llvm::Value* v);
  llvm::Value* round_function(llvm::Intrinsic::ID id, llvm::Value* v);
  llvm::Value* math(ScalarOp op, std::span<llvm::Value* const> args);

  llvm::IRBuilder<>& b;
  llvm::Module& module_;
  Machine machine_;
};

}  // namespace stax::native
