// SPDX-License-Identifier: Apache-2.0
#pragma once
// The elementary functions: one table for all targets.
//
// A function is a straight-line program over a small set of operations that every machine has: what to compute in which order, down to each
// rounding. Emitters translate it; `evaluate` runs it on the host. There are no branches, so a program is as good for a vector of lanes as for
// one value. Where an argument is rare and dear (sine of 1e30), the function has a second program for it: the result is
// select(is_slow(x), slow(x), fast(x)), and an emitter may leave out the slow part where no lane needs it.
//
// Special values: as C's functions of the same name. Denormals count, unless the machine is told to flush them.
//
// Coefficients come from scripts/fit_polynomials.py.
#include <cstdint>
#include <span>
#include <vector>

#include "ir/scalar.h"

namespace stax::ir {

enum class MathType : uint8_t { kBool, kI32, kI64, kF32, kF64 };

enum class MathOp : uint8_t {
  kInput,     // argument number `bits`
  kConstant,  // `bits`: of a float type the bits of a double, of an integer the value
  // Arithmetic in the type of the node. Integers wrap.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kRatio,        // floats: a / b within one unit in the last place, for 2^-100 <= |b| <= 2^100
  kMulAdd,       // floats: a * b + c with one rounding or two
  kFusedMulAdd,  // floats: a * b + c with one rounding
  kNeg,
  kAbs,  // floats
  kSqrt,
  kLessOf,     // floats: a < b ? a : b, so b if one is NaN
  kGreaterOf,  // floats: a > b ? a : b
  kScale,      // floats: a * 2^b rounded once, for a whole b with |b| <= 2000 and 2^-8 <= |a| <= 2^8, or a = 0
  // Bits of integers; the last four also of bools.
  kShiftLeft,   // by the constant `bits`
  kShiftRight,  // logical
  kShiftRightSigned,
  kShiftLeftBy,  // by b, 0 <= b < width
  kAnd,
  kOr,
  kXor,
  kNot,
  // Comparisons of a and b, to bool. False with NaN.
  kLess,
  kEqual,
  kIsNan,
  kSelect,  // a ? b : c
  // Conversions of a to the type of the node.
  kConvert,     // between numbers; a float is whole and in range
  kBits,        // the same bits; float and integer of one width
  kLookup,      // i32: word a of two_over_pi()
  kEntry,       // f32: number a mod 32 of math_entries(`bits`); of `pieces` alone
  kScaleFloor,  // f32: a * 2^floor(b) rounded once, for any a and b; infinity or 0 where b is one or the other infinity, whatever a is; of `pieces` alone
  // Of `powers` alone.
  kPower,       // f32: 2^a within two units in the last place, 0 if a < -126
  kUnitMulAdd,  // f32: a * b + c with one rounding, bounded to 0 .. 1; one of these numbers if NaN
};

struct MathNode {
  MathOp op = MathOp::kInput;
  MathType type = MathType::kF32;
  int32_t args[3] = {-1, -1, -1};  // earlier nodes
  uint64_t bits = 0;
  bool operator==(const MathNode&) const = default;
};

struct MathProgram {
  std::vector<MathNode> nodes;  // the last is the result; empty: there is none
};

struct MathFunction {
  ScalarOp op = ScalarOp::kExp;
  DType dtype = DType::kF32;  // f32 or f64
  MathProgram fast;
  MathProgram is_slow, slow;  // empty for most
  double max_ulp = 0;         // the largest error: f32 of one argument over all floats, else over a large sample
  // What `fast` does with fewer steps, with numbers that lie in tables of 32: for machines with instructions that choose each lane's entry of a
  // table in registers and scale by any power of two (AVX-512). Empty for most.
  MathProgram pieces;
  double pieces_ulp = 0;  // the largest error of that
  // What `fast` does, for machines with an instruction for powers of two. Empty for most.
  MathProgram powers;
  double powers_ulp = 0;  // the largest error of that, where the instruction is right to half a unit in the last place
};

bool is_math_function(ScalarOp op);
const MathFunction& math_function(ScalarOp op, DType dtype);  // InternalError if it is none

/// The tables of coefficients, by number.
constexpr size_t kMathEntries = 32;
std::span<const float, kMathEntries> math_entries(uint64_t table);

/// 2/pi in words of 32 bits, after three words of zero.
std::span<const uint32_t> two_over_pi();

/// result[i] = f(x[i]) or f(x[i], y[i]).
void evaluate(const MathFunction& f, std::span<const float> x, std::span<const float> y, std::span<float> result);
void evaluate(const MathFunction& f, std::span<const double> x, std::span<const double> y, std::span<double> result);

}  // namespace stax::ir
