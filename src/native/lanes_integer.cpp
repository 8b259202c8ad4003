// SPDX-License-Identifier: Apache-2.0
// What x86 has no vector instruction for: division and powers of integers, hashes, casts between integers and floats, and the rest of a division.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include "native/lanes.h"
#include "native/math.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;

// --- integers -------------------------------------------------------------------------------------------------------------

// x86 has no vector division of integers. Up to 32 bits the quotient of floats with twice the bits is exact once truncated: it is correctly
// rounded, and the distance of a proper fraction from the next integer is more than half a unit in its last place.
Value* Lanes::divide_integers(DType t, Value* x, Value* y, bool remainder) {
  const bool is_signed = ir::is_signed(t);
  llvm::Type* type = x->getType();
  if (auto* c = llvm::dyn_cast<llvm::Constant>(y)) {
    auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getType()->isVectorTy() ? c->getSplatValue() : c);
    if (number != nullptr && !number->isZero() && !number->isMinusOne()) {
      if (remainder) return is_signed ? b.CreateSRem(x, y) : b.CreateURem(x, y);
      return is_signed ? b.CreateSDiv(x, y) : b.CreateUDiv(x, y);
    }
  }
  Value* zero = llvm::Constant::getNullValue(type);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  Value* unsafe = by_zero;
  if (is_signed) {
    const int64_t least = int64_t{-1} << (ir::bit_width(t) - 1);
    Value* overflows = b.CreateAnd(b.CreateICmpEQ(x, integer(type, least)), b.CreateICmpEQ(y, integer(type, -1)));
    unsafe = b.CreateOr(unsafe, overflows);
  }
  Value* divisor = b.CreateSelect(unsafe, integer(type, 1), y);
  const int bits = ir::bit_width(t);
  Value* quotient = nullptr;
  if (lanes_of(x) != 0 && bits <= 32) {
    llvm::Type* wide = like(bits <= 16 ? b.getFloatTy() : b.getDoubleTy(), x);
    Value* exact = is_signed ? b.CreateFDiv(b.CreateSIToFP(x, wide), b.CreateSIToFP(divisor, wide))
                             : b.CreateFDiv(b.CreateUIToFP(x, wide), b.CreateUIToFP(divisor, wide));
    quotient = is_signed ? b.CreateFPToSI(exact, type) : b.CreateFPToUI(exact, type);
  } else {
    quotient = is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor);
  }
  // Anything modulo 1 is 0, which is also what a division by zero leaves.
  if (remainder) return b.CreateSub(x, b.CreateMul(quotient, divisor));
  return b.CreateSelect(by_zero, zero, quotient);
}

Value* Lanes::mod_floor(DType t, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  Value* zero = llvm::Constant::getNullValue(type);
  if (ir::is_float(t)) {
    Value* rest = fmod(x, y);
    Value* differs =
        b.CreateAnd(b.CreateFCmpUNE(rest, zero), b.CreateXor(b.CreateFCmpOLT(rest, zero), b.CreateFCmpOLT(y, zero)));
    Value* zero_of_y = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, y);
    Value* result = b.CreateSelect(differs, b.CreateFAdd(rest, y), rest);
    return b.CreateSelect(b.CreateFCmpOEQ(rest, zero), zero_of_y, result);
  }
  Value* rest = divide_integers(t, x, y, true);
  if (!ir::is_signed(t)) return rest;
  Value* differs = b.CreateAnd(b.CreateICmpNE(rest, zero), b.CreateICmpSLT(b.CreateXor(rest, y), zero));
  return b.CreateSelect(differs, b.CreateAdd(rest, y), rest);
}

namespace {

// do { state = body(state) } while (go_on(state)), in any lane.
template <class Body>
std::vector<Value*> repeat(llvm::IRBuilder<>& b, const std::vector<Value*>& state, const Body& body) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(b.getContext(), "repeat", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "repeated", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  std::vector<llvm::PHINode*> phis;
  for (Value* v : state) {
    phis.push_back(b.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
  }
  std::vector<Value*> next(phis.begin(), phis.end());
  Value* again = body(next);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], b.GetInsertBlock());
  b.CreateCondBr(again, loop, after);
  b.SetInsertPoint(after);
  return next;
}

}  // namespace

// Square and multiply; wraps like every product of integers. With a negative exponent the result is that of the power in double, truncated:
// 0 except for the bases 1, -1 and 0.
Value* Lanes::integer_power(DType t, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  Value* zero = llvm::Constant::getNullValue(type);
  Value* one = integer(type, 1);
  std::vector<Value*> state = repeat(b, {one, x, y}, [&](std::vector<Value*>& s) {
    Value* odd = b.CreateICmpNE(b.CreateAnd(s[2], one), zero);
    s[0] = b.CreateSelect(odd, b.CreateMul(s[0], s[1]), s[0]);
    s[1] = b.CreateMul(s[1], s[1]);
    s[2] = b.CreateLShr(s[2], one);
    return any(b.CreateICmpNE(s[2], zero));
  });
  if (!ir::is_signed(t)) return state[0];
  // Whole numbers of double are even from 2^53 on.
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(y, one), zero);
  if (t == DType::kI64) is_odd = b.CreateAnd(is_odd, b.CreateICmpSGT(y, integer(type, -(int64_t{1} << 53))));
  Value* sign = b.CreateSelect(is_odd, x, one);
  Value* unit = b.CreateOr(b.CreateICmpEQ(x, one), b.CreateICmpEQ(x, integer(type, -1)));
  // 0 to a negative power is infinite; the cast makes that the greatest int64, wrapped to the width.
  Value* infinite = integer(type, t == DType::kI64 ? std::numeric_limits<int64_t>::max() : -1);
  Value* negative = b.CreateSelect(unit, sign, b.CreateSelect(b.CreateICmpEQ(x, zero), infinite, zero));
  return b.CreateSelect(b.CreateICmpSLT(y, zero), negative, state[0]);
}

// Philox 4x32-10 with the counter in its first two words; the first word of the result.
Value* Lanes::hash(Value* seed, Value* counter) {
  llvm::Type* i64 = seed->getType();
  Value* low = integer(i64, 0xFFFFFFFF);
  auto word = [&](Value* v) { return b.CreateAnd(v, low); };
  Value* c[4] = {word(counter), b.CreateLShr(counter, 32), integer(i64, 0), integer(i64, 0)};
  Value* k0 = word(seed);
  Value* k1 = b.CreateLShr(seed, 32);
  for (int round = 0; round < 10; ++round) {
    Value* p0 = b.CreateMul(c[0], integer(i64, 0xD2511F53));
    Value* p1 = b.CreateMul(c[2], integer(i64, 0xCD9E8D57));
    Value* n0 = b.CreateXor(b.CreateXor(b.CreateLShr(p1, 32), c[1]), k0);
    Value* n2 = b.CreateXor(b.CreateXor(b.CreateLShr(p0, 32), c[3]), k1);
    c[0] = n0;
    c[1] = word(p1);
    c[2] = n2;
    c[3] = word(p0);
    k0 = word(b.CreateAdd(k0, integer(i64, 0x9E3779B9)));
    k1 = word(b.CreateAdd(k1, integer(i64, 0xBB67AE85)));
  }
  return b.CreateTrunc(c[0], like(b.getInt32Ty(), seed));
}

// --- casts ----------------------------------------------------------------------------------------------------------------

Value* Lanes::float_to_integer(DType to, Value* v, bool fits_i32) {
  llvm::Type* type = register_type(to, lanes_of(v));
  const int bits = ir::bit_width(to);
  if (fits_i32 && bits <= 32) {
    Value* number = b.CreateSelect(b.CreateFCmpORD(v, v), v, llvm::Constant::getNullValue(v->getType()));
    return b.CreateTrunc(b.CreateFPToSI(number, like(b.getInt32Ty(), v)), type);
  }
  Value* zero = llvm::Constant::getNullValue(v->getType());
  Value* too_big = b.CreateFCmpOGE(v, real(v->getType(), 0x1p63));
  if (bits == 8 && v->getType()->getScalarType()->isFloatTy()) {
    // From 2^31 on a float is a multiple of 256.
    Value* small = b.CreateFCmpOLT(round_function(llvm::Intrinsic::fabs, v), real(v->getType(), 0x1p31));
    Value* number = b.CreateFPToSI(b.CreateSelect(small, v, zero), like(b.getInt32Ty(), v));
    return b.CreateSelect(too_big, integer(type, -1), b.CreateTrunc(number, type));
  }
  llvm::Type* i64 = like(b.getInt64Ty(), v);
  Value* inside = b.CreateFCmpOLT(round_function(llvm::Intrinsic::fabs, v), real(v->getType(), 0x1p63));
  Value* number = b.CreateFPToSI(b.CreateSelect(inside, v, zero), i64);
  Value* outside = b.CreateSelect(too_big, integer(i64, std::numeric_limits<int64_t>::max()),
                                  integer(i64, std::numeric_limits<int64_t>::min()));
  number = b.CreateSelect(inside, number, outside);
  return bits == 64 ? number : b.CreateTrunc(number, type);
}

Value* Lanes::cast(DType to, DType from, Value* v, bool fits_i32) {
  if (to == from) return v;
  const int lanes = lanes_of(v);
  llvm::Type* type = register_type(to, lanes);
  const bool from_float = ir::is_float(from);
  if (to == DType::kBool) {
    Value* zero = llvm::Constant::getNullValue(v->getType());
    return from_float ? b.CreateFCmpUNE(v, zero) : b.CreateICmpNE(v, zero);
  }
  if (!ir::is_float(to)) {
    if (from_float) return float_to_integer(to, v, fits_i32);
    return ir::is_signed(from) && from != DType::kBool ? b.CreateSExtOrTrunc(v, type) : b.CreateZExtOrTrunc(v, type);
  }
  const bool narrow = to == DType::kF16 || to == DType::kBF16;
  if (!from_float) {
    const bool is_signed = ir::is_signed(from) && from != DType::kBool;
    const bool exact = from == DType::kBool || ir::bit_width(from) <= 16;
    llvm::Type* through = narrow && !exact ? like(b.getDoubleTy(), v) : type;
    Value* number = is_signed ? b.CreateSIToFP(v, through) : b.CreateUIToFP(v, through);
    if (!narrow) return number;
    return round(to, exact ? number : f64_to_f32_round_to_odd(number));
  }
  if (to == DType::kF64) return b.CreateFPExt(v, type);
  if (!narrow && from == DType::kF64) {
    Value* quotient = quotient_in_f32(v);
    return quotient != nullptr ? quotient : b.CreateFPTrunc(v, type);
  }
  if (!narrow) return v;
  return round(to, from == DType::kF64 ? f64_to_f32_round_to_odd(v) : v);
}

/// A quotient of two f32 values that was computed in f64, as the f32 quotient, which is the same: 53 bits are more than twice 24 and two, so that rounding
/// twice changes nothing (Figueroa, "When is double rounding innocuous?", 1995). It takes a third of the time. Null for other values.
Value* Lanes::quotient_in_f32(Value* v) {
  auto* quotient = llvm::dyn_cast<llvm::BinaryOperator>(v);
  if (quotient == nullptr || quotient->getOpcode() != llvm::Instruction::FDiv) return nullptr;
  Value* factors[2] = {};
  for (unsigned k : {0u, 1u}) {
    Value* of = quotient->getOperand(k);
    if (auto* widened = llvm::dyn_cast<llvm::FPExtInst>(of); widened != nullptr) factors[k] = widened->getOperand(0);
    if (factors[k] == nullptr) {
      // A number for all lanes, or one value for all of them.
      if (Value* lane = llvm::getSplatValue(of); lane != nullptr)
        if (auto* widened = llvm::dyn_cast<llvm::FPExtInst>(lane); widened != nullptr)
          factors[k] = widened->getOperand(0);
    }
    if (factors[k] == nullptr || !factors[k]->getType()->getScalarType()->isFloatTy()) return nullptr;
  }
  const int lanes = lanes_of(v);
  return divide(splat(factors[0], lanes), splat(factors[1], lanes));
}

// --- the rest of a division -----------------------------------------------------------------------------------------------

// The exact remainder: each step takes off the largest multiple of y whose factor fits a double; what remains is exact, as it is a multiple of
// the same unit and smaller than what fits 53 bits of it.
Value* Lanes::fmod_f64(Value* x, Value* y) {
  llvm::Type* f64 = x->getType();
  Value* zero = llvm::Constant::getNullValue(f64);
  Value* infinity = llvm::ConstantFP::getInfinity(f64);
  Value* divisor = round_function(llvm::Intrinsic::fabs, y);
  Value* magnitude = round_function(llvm::Intrinsic::fabs, x);
  Value* valid = b.CreateAnd(b.CreateFCmpOLT(magnitude, infinity), b.CreateFCmpOGT(divisor, zero));
  // Lanes that are settled divide 0 by 1.
  Value* active = b.CreateAnd(valid, b.CreateFCmpOLT(divisor, infinity));
  divisor = b.CreateSelect(active, divisor, real(f64, 1));
  Value* start = b.CreateSelect(active, magnitude, zero);
  std::vector<Value*> state = repeat(b, {start}, [&](std::vector<Value*>& s) {
    // A quotient past the range of double is taken of a multiple of the divisor by a power of two first.
    Value* scaled = divisor;
    Value* quotient = b.CreateFDiv(s[0], scaled);
    for (int step = 0; step < 2; ++step) {
      Value* overflows = b.CreateFCmpOEQ(quotient, infinity);
      scaled = b.CreateSelect(overflows, b.CreateFMul(scaled, real(f64, 0x1p540)), scaled);
      quotient = b.CreateFDiv(s[0], scaled);
    }
    // A quotient that was rounded up leaves a negative rest; the one below does not.
    llvm::Type* i64 = like(b.getInt64Ty(), x);
    Value* below = b.CreateBitCast(b.CreateSub(b.CreateBitCast(quotient, i64), integer(i64, 1)), f64);
    quotient = round_function(llvm::Intrinsic::trunc, quotient);
    below = round_function(llvm::Intrinsic::trunc, below);
    Value* rest = fused_multiply_add(b.CreateFNeg(quotient), scaled, s[0]);
    Value* rest_below = fused_multiply_add(b.CreateFNeg(below), scaled, s[0]);
    s[0] = b.CreateSelect(b.CreateFCmpOLT(rest, zero), rest_below, rest);
    return any(b.CreateFCmpOGE(s[0], divisor));
  });
  Value* rest = b.CreateSelect(active, state[0], magnitude);
  Value* nan = llvm::ConstantFP::getNaN(f64);
  Value* invalid = b.CreateOr(b.CreateNot(valid), b.CreateFCmpUNO(y, y));
  Value* result = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x);
  return b.CreateSelect(invalid, nan, result);
}

Value* Lanes::fmod(Value* x, Value* y) {
  llvm::Type* type = x->getType();
  if (type->getScalarType()->isDoubleTy()) return fmod_f64(x, y);
  llvm::Type* f64 = like(b.getDoubleTy(), x);
  return b.CreateFPTrunc(fmod_f64(b.CreateFPExt(x, f64), b.CreateFPExt(y, f64)), type);
}

Value* Lanes::math(ScalarOp op, std::span<Value* const> args) { return MathEmitter(*this).emit(op, args); }

}  // namespace stax::native
