// SPDX-License-Identifier: Apache-2.0
#include "native/lanes.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <bit>

#include "emit/byte_dot.h"
#include "native/math.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;

Machine machine_of(Isa isa) {
  Machine m;
  m.isa = isa;
  m.byte_dot = emit::has_byte_dot(isa);
#if !defined(__x86_64__)
  m.x86 = false;
#endif
  switch (isa) {
    case Isa::kAvx512Vnni:
    case Isa::kAvx512: m.fma = m.f16c = m.masked_access = m.narrow_masks = m.gather = m.scale = m.entries = true; break;
    case Isa::kAvxVnni:
    case Isa::kAvx2: m.fma = m.f16c = m.masked_access = true; break;
    case Isa::kBaseline: break;
  }
  return m;
}

void Lanes::tune(llvm::Function& f) const {
  f.addFnAttr("no-builtins");
  if (vector_bytes(machine_.isa) != 64) return;
  f.addFnAttr("prefer-vector-width", "512");
  f.addFnAttr("min-legal-vector-width", "512");
}

// --- types and constants --------------------------------------------------------------------------------------------------

llvm::Type* Lanes::with_lanes(llvm::Type* element, int lanes) const {
  return lanes == 0 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

llvm::Type* Lanes::register_type(DType t, int lanes) const {
  llvm::LLVMContext& c = context();
  switch (t) {
    case DType::kBool: return with_lanes(llvm::Type::getInt1Ty(c), lanes);
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: return with_lanes(llvm::Type::getFloatTy(c), lanes);
    case DType::kF64: return with_lanes(llvm::Type::getDoubleTy(c), lanes);
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64: return with_lanes(llvm::Type::getIntNTy(c, static_cast<unsigned>(ir::bit_width(t))), lanes);
  }
  STAX_UNREACHABLE();
}

llvm::Type* Lanes::memory_type(DType t, int lanes) const {
  if (t == DType::kBool) return with_lanes(b.getInt8Ty(), lanes);
  if (t == DType::kF16 || t == DType::kBF16) return with_lanes(b.getInt16Ty(), lanes);
  return register_type(t, lanes);
}

int Lanes::lanes_of(const Value* v) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return type == nullptr ? 0 : static_cast<int>(type->getNumElements());
}

Value* Lanes::integer(llvm::Type* type, int64_t value) const {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true, /*ImplicitTrunc=*/true);
}

Value* Lanes::real(llvm::Type* type, double value) const { return llvm::ConstantFP::get(type, value); }

Value* Lanes::constant(DType t, int lanes, const ir::ScalarNode& node) const {
  llvm::Type* type = register_type(t, lanes);
  if (!ir::is_float(t)) return integer(type, node.as_int());
  return real(type, node.as_double());
}

Value* Lanes::splat(Value* v, int lanes) {
  if (lanes == 0 || lanes_of(v) == lanes) return v;
  return b.CreateVectorSplat(static_cast<unsigned>(lanes), v);
}

Value* Lanes::iota(llvm::Type* element, int lanes) const {
  std::vector<llvm::Constant*> values;
  for (int i = 0; i < lanes; ++i) values.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(i)));
  return llvm::ConstantVector::get(values);
}

// --- memory and registers -------------------------------------------------------------------------------------------------

Value* Lanes::from_memory(DType t, Value* v) {
  switch (t) {
    case DType::kBool: return b.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
    case DType::kF16: return f16_to_f32(v);
    case DType::kBF16: {
      Value* wide = b.CreateZExt(v, like(b.getInt32Ty(), v));
      return b.CreateBitCast(b.CreateShl(wide, 16), like(b.getFloatTy(), v));
    }
    default: return v;
  }
}

Value* Lanes::to_memory(DType t, Value* v) {
  switch (t) {
    case DType::kBool: return b.CreateZExt(v, like(b.getInt8Ty(), v));
    case DType::kF16: return f32_to_f16(v);
    case DType::kBF16: {
      llvm::Type* i32 = like(b.getInt32Ty(), v);
      Value* bits = b.CreateBitCast(v, i32);
      Value* upper = b.CreateLShr(bits, 16);
      Value* odd = b.CreateAnd(upper, integer(i32, 1));
      Value* rounded = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, integer(i32, 0x7FFF))), 16);
      Value* quiet = b.CreateOr(upper, integer(i32, 0x40));
      return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, rounded), like(b.getInt16Ty(), v));
    }
    default: return v;
  }
}

Value* Lanes::f16_to_f32(Value* v) {
  llvm::Type* f32 = like(b.getFloatTy(), v);
  if (machine_.f16c || !machine_.x86) return b.CreateFPExt(b.CreateBitCast(v, like(b.getHalfTy(), v)), f32);
  llvm::Type* i32 = like(b.getInt32Ty(), v);
  Value* wide = b.CreateZExt(v, i32);
  Value* sign = b.CreateShl(b.CreateAnd(wide, integer(i32, 0x8000)), 16);
  Value* magnitude = b.CreateAnd(wide, integer(i32, 0x7FFF));
  Value* normal = b.CreateAdd(b.CreateShl(magnitude, 13), integer(i32, int64_t{112} << 23));
  Value* special = b.CreateICmpUGE(magnitude, integer(i32, 0x7C00));
  normal = b.CreateSelect(special, b.CreateAdd(normal, integer(i32, int64_t{112} << 23)), normal);
  Value* denormal = b.CreateBitCast(b.CreateFMul(b.CreateUIToFP(magnitude, f32), real(f32, 0x1p-24)), i32);
  Value* bits = b.CreateSelect(b.CreateICmpULT(magnitude, integer(i32, 0x400)), denormal, normal);
  return b.CreateBitCast(b.CreateOr(bits, sign), f32);
}

Value* Lanes::f32_to_f16(Value* v) {
  llvm::Type* i16 = like(b.getInt16Ty(), v);
  if (machine_.f16c || !machine_.x86) {
    // Two roundings in a row stay two: of one from double, machines know nothing.
    Value* rounded = b.CreateArithmeticFence(v, v->getType());
    return b.CreateBitCast(b.CreateFPTrunc(rounded, like(b.getHalfTy(), v)), i16);
  }
  llvm::Type* i32 = like(b.getInt32Ty(), v);
  llvm::Type* f32 = like(b.getFloatTy(), v);
  Value* bits = b.CreateBitCast(v, i32);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, 16), integer(i32, 0x8000));
  Value* magnitude = b.CreateAnd(bits, integer(i32, 0x7FFFFFFF));
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, 13), integer(i32, 1));
  Value* normal = b.CreateAdd(b.CreateSub(magnitude, integer(i32, 0x38000000)), b.CreateAdd(odd, integer(i32, 0xFFF)));
  normal = b.CreateLShr(normal, 13);
  // Adding 0.5 moves the rounding to units of 2^-24, those of an f16 denormal.
  Value* half = real(f32, 0.5);
  Value* denormal =
      b.CreateSub(b.CreateBitCast(b.CreateFAdd(b.CreateBitCast(magnitude, f32), half), i32), integer(i32, 0x3F000000));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, integer(i32, 0x38800000)), denormal, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, integer(i32, 0x47800000)), integer(i32, 0x7C00), result);
  Value* nan = b.CreateOr(integer(i32, 0x7E00), b.CreateAnd(b.CreateLShr(magnitude, 13), integer(i32, 0x1FF)));
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, integer(i32, 0x7F800000)), nan, result);
  return b.CreateTrunc(b.CreateOr(result, sign), i16);
}

// An inexact result has its last bit set, so that rounding it once more to f16 or bf16 is as rounding the double once.
Value* Lanes::f64_to_f32_round_to_odd(Value* v) {
  llvm::Type* i32 = like(b.getInt32Ty(), v);
  Value* nearest = b.CreateFPTrunc(v, like(b.getFloatTy(), v));
  Value* widened = b.CreateFPExt(nearest, v->getType());
  Value* inexact = b.CreateFCmpONE(widened, v);
  Value* magnitude = round_function(llvm::Intrinsic::fabs, v);
  Value* away = b.CreateFCmpOGT(round_function(llvm::Intrinsic::fabs, widened), magnitude);
  Value* bits = b.CreateBitCast(nearest, i32);
  bits = b.CreateSub(bits, b.CreateZExt(away, i32));
  bits = b.CreateOr(bits, b.CreateZExt(inexact, i32));
  return b.CreateBitCast(bits, nearest->getType());
}

Value* Lanes::round_function(llvm::Intrinsic::ID id, Value* v) { return b.CreateUnaryIntrinsic(id, v); }

// --- masks ----------------------------------------------------------------------------------------------------------------

Value* Lanes::mask_bits(Value* mask) {
  return b.CreateBitCast(mask, b.getIntNTy(static_cast<unsigned>(lanes_of(mask))));
}

Value* Lanes::any(Value* mask) {
  if (lanes_of(mask) == 0) return mask;
  return b.CreateICmpNE(mask_bits(mask), b.getIntN(static_cast<unsigned>(lanes_of(mask)), 0));
}

Value* Lanes::both(Value* mask, Value* other) {
  if (mask == nullptr) return other;
  if (other == nullptr) return mask;
  return b.CreateAnd(mask, other);
}

// --- operations -----------------------------------------------------------------------------------------------------------

namespace {

bool is_number(const Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c == nullptr) return false;
  if (c->getType()->isVectorTy()) c = c->getSplatValue();
  const auto* real = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  return real != nullptr && !real->isNaN();
}

}  // namespace

namespace {

// Which of two zeros a maximum gives is not specified; without saying so the operation is twice as long.
Value* number_or_nan(Value* extreme) {
  if (auto* call = llvm::dyn_cast<llvm::Instruction>(extreme)) call->setHasNoSignedZeros(true);
  return extreme;
}

}  // namespace

// a < b ? a : b gives b where one is NaN, in one instruction: with a number in the first place that is what min means.
Value* Lanes::min(DType t, Value* x, Value* y) {
  if (t == DType::kBool) return b.CreateAnd(x, y);
  if (!ir::is_float(t)) return b.CreateSelect(ir::is_signed(t) ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y), x, y);
  if (is_number(y)) std::swap(x, y);
  if (is_number(x)) return b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
  return number_or_nan(b.CreateMinimum(x, y));
}

Value* Lanes::max(DType t, Value* x, Value* y) {
  if (t == DType::kBool) return b.CreateOr(x, y);
  if (!ir::is_float(t)) return b.CreateSelect(ir::is_signed(t) ? b.CreateICmpSGT(x, y) : b.CreateICmpUGT(x, y), x, y);
  if (is_number(y)) std::swap(x, y);
  if (is_number(x)) return b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
  return number_or_nan(b.CreateMaximum(x, y));
}

Value* Lanes::extreme(bool greatest, Value* x, Value* y) {
  return b.CreateSelect(greatest ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y), x, y);
}

Value* Lanes::multiply_add(Value* x, Value* y, Value* z) {
  if (!machine_.fma && machine_.x86) return b.CreateFAdd(b.CreateFMul(x, y), z);
  return b.CreateFMA(x, y, z);
}

// Without the instruction: exact in double for float; for double, the product is split into two (Dekker), so that a sum that
// is representable comes out exact.
Value* Lanes::fused_multiply_add(Value* x, Value* y, Value* z) {
  if (machine_.fma || !machine_.x86) return b.CreateFMA(x, y, z);
  llvm::Type* type = x->getType();
  if (type->getScalarType()->isFloatTy()) {
    llvm::Type* f64 = like(b.getDoubleTy(), x);
    Value* product = b.CreateFMul(b.CreateFPExt(x, f64), b.CreateFPExt(y, f64));
    return b.CreateFPTrunc(b.CreateFAdd(product, b.CreateFPExt(z, f64)), type);
  }
  llvm::Type* i64 = like(b.getInt64Ty(), x);
  auto upper = [&](Value* v) {  // 26 bits of the significand
    return b.CreateBitCast(b.CreateAnd(b.CreateBitCast(v, i64), integer(i64, ~((int64_t{1} << 27) - 1))), type);
  };
  Value* x1 = upper(x);
  Value* x0 = b.CreateFSub(x, x1);
  Value* y1 = upper(y);
  Value* y0 = b.CreateFSub(y, y1);
  Value* product = b.CreateFMul(x, y);
  Value* error = b.CreateFSub(b.CreateFMul(x1, y1), product);
  error = b.CreateFAdd(error, b.CreateFMul(x1, y0));
  error = b.CreateFAdd(error, b.CreateFMul(x0, y1));
  error = b.CreateFAdd(error, b.CreateFMul(x0, y0));
  // The sum of product and z with its own error (Knuth).
  Value* sum = b.CreateFAdd(product, z);
  Value* z_part = b.CreateFSub(sum, product);
  Value* lost = b.CreateFAdd(b.CreateFSub(product, b.CreateFSub(sum, z_part)), b.CreateFSub(z, z_part));
  return b.CreateFAdd(sum, b.CreateFAdd(error, lost));
}

Value* Lanes::op(ScalarOp op, DType t, std::span<Value* const> args) {
  const bool real_type = ir::is_float(t);
  const bool is_bool = t == DType::kBool;
  const bool is_signed = ir::is_signed(t);
  Value* x = args[0];
  Value* y = args.size() > 1 ? args[1] : nullptr;
  llvm::Type* type = x->getType();
  switch (op) {
    case ScalarOp::kAdd:
      if (is_bool) return b.CreateOr(x, y);
      return real_type ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
    case ScalarOp::kSub:
      if (is_bool) return b.CreateXor(x, y);
      return real_type ? b.CreateFSub(x, y) : b.CreateSub(x, y);
    case ScalarOp::kMul:
      if (is_bool) return b.CreateAnd(x, y);
      return real_type ? b.CreateFMul(x, y) : b.CreateMul(x, y);
    case ScalarOp::kDiv:
      if (is_bool) return b.CreateAnd(x, y);
      return real_type ? divide(x, y) : divide_integers(t, x, y, false);
    case ScalarOp::kModTrunc:
      if (is_bool) return b.CreateAnd(x, b.CreateNot(x));
      return real_type ? fmod(x, y) : divide_integers(t, x, y, true);
    case ScalarOp::kModFloor:
      if (is_bool) return b.CreateAnd(x, b.CreateNot(x));
      return mod_floor(t, x, y);
    case ScalarOp::kMin: return min(t, x, y);
    case ScalarOp::kMax: return max(t, x, y);
    case ScalarOp::kPow:
      if (is_bool) return b.CreateOr(x, b.CreateNot(y));
      return real_type ? power(x, y) : integer_power(t, x, y);
    case ScalarOp::kNeg:
      if (is_bool) return x;
      return real_type ? b.CreateFNeg(x) : b.CreateNeg(x);
    case ScalarOp::kAbs:
      if (real_type) return round_function(llvm::Intrinsic::fabs, x);
      if (!is_signed || is_bool) return x;
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse());
    case ScalarOp::kSign: {
      if (is_bool) return x;
      Value* zero = llvm::Constant::getNullValue(type);
      if (!real_type) {
        Value* positive = b.CreateZExt(is_signed ? b.CreateICmpSGT(x, zero) : b.CreateICmpNE(x, zero), type);
        return is_signed ? b.CreateOr(positive, b.CreateSExt(b.CreateICmpSLT(x, zero), type)) : positive;
      }
      Value* result = b.CreateSelect(b.CreateFCmpOGT(x, zero), real(type, 1), zero);
      result = b.CreateSelect(b.CreateFCmpOLT(x, zero), real(type, -1), result);
      return b.CreateSelect(b.CreateFCmpUNO(x, x), x, result);
    }
    case ScalarOp::kFloor: return real_type ? round_function(llvm::Intrinsic::floor, x) : x;
    case ScalarOp::kCeil: return real_type ? round_function(llvm::Intrinsic::ceil, x) : x;
    case ScalarOp::kTrunc: return real_type ? round_function(llvm::Intrinsic::trunc, x) : x;
    case ScalarOp::kRoundEven: return real_type ? round_function(llvm::Intrinsic::roundeven, x) : x;
    case ScalarOp::kSqrt:
      STAX_ASSERT(real_type, "sqrt of {}", ir::name_of(t));
      return round_function(llvm::Intrinsic::sqrt, x);
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
      STAX_ASSERT(real_type, "{} of {}", ir::name_of(op), ir::name_of(t));
      return math(op, args);
    case ScalarOp::kNot: return b.CreateNot(x);
    case ScalarOp::kAnd: return b.CreateAnd(x, y);
    case ScalarOp::kOr: return b.CreateOr(x, y);
    case ScalarOp::kXor: return b.CreateXor(x, y);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: {
      Value* zero = llvm::Constant::getNullValue(type);
      Value* in_range = b.CreateICmpULT(y, integer(type, ir::bit_width(t)));
      Value* amount = b.CreateSelect(in_range, y, zero);
      Value* shifted = op == ScalarOp::kShiftLeft ? b.CreateShl(x, amount)
                       : is_signed                ? b.CreateAShr(x, amount)
                                                  : b.CreateLShr(x, amount);
      return b.CreateSelect(in_range, shifted, zero);
    }
    case ScalarOp::kEqual: return real_type ? b.CreateFCmpOEQ(x, y) : b.CreateICmpEQ(x, y);
    case ScalarOp::kNotEqual: return real_type ? b.CreateFCmpUNE(x, y) : b.CreateICmpNE(x, y);
    case ScalarOp::kLess:
      if (real_type) return b.CreateFCmpOLT(x, y);
      return is_signed && !is_bool ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
    case ScalarOp::kLessEqual:
      if (real_type) return b.CreateFCmpOLE(x, y);
      return is_signed && !is_bool ? b.CreateICmpSLE(x, y) : b.CreateICmpULE(x, y);
    case ScalarOp::kIsNan: return real_type ? b.CreateFCmpUNO(x, x) : integer(like(b.getInt1Ty(), x), 0);
    case ScalarOp::kIsInf:
      if (!real_type) return integer(like(b.getInt1Ty(), x), 0);
      return b.CreateFCmpOEQ(round_function(llvm::Intrinsic::fabs, x), llvm::ConstantFP::getInfinity(type));
    case ScalarOp::kSelect: return b.CreateSelect(args[0], args[1], args[2]);
    case ScalarOp::kHash: return hash(x, y);
    case ScalarOp::kCheckedIndex: break;
  }
  STAX_UNREACHABLE();
}

Value* Lanes::divide(Value* x, Value* y) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(y);
  if (c != nullptr && c->getType()->isVectorTy()) c = c->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  if (number != nullptr && machine_.scale && lanes_of(x) != 0 && number->getType()->isFloatTy()) {
    const float divisor = number->getValueAPF().convertToFloat();
    if (MathEmitter::can_divide_by(divisor)) return MathEmitter(*this).divide_by_constant(x, divisor);
  }
  return b.CreateFDiv(x, y);
}

// Exponents that models are full of.
Value* Lanes::power(Value* x, Value* y) {
  auto* c = llvm::dyn_cast<llvm::Constant>(y);
  if (c != nullptr && c->getType()->isVectorTy()) c = c->getSplatValue();
  if (auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c)) {
    llvm::Type* type = x->getType();
    if (number->isExactlyValue(1)) return x;
    if (number->isExactlyValue(2)) return b.CreateFMul(x, x);
    if (number->isExactlyValue(3)) return b.CreateFMul(b.CreateFMul(x, x), x);
    if (number->isExactlyValue(-1)) return b.CreateFDiv(real(type, 1), x);
    if (number->isExactlyValue(0.5)) {
      Value* root =
          round_function(llvm::Intrinsic::sqrt, b.CreateFAdd(x, llvm::Constant::getNullValue(type)));  // -0 gives 0
      Value* infinite = b.CreateFCmpOEQ(x, llvm::ConstantFP::getInfinity(type, true));
      return b.CreateSelect(infinite, llvm::ConstantFP::getInfinity(type), root);
    }
  }
  return math(ScalarOp::kPow, std::array{x, y});
}

}  // namespace stax::native
