// SPDX-License-Identifier: Apache-2.0
#include "native/math.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <bit>

#include "support/error.h"

namespace stax::native {

using ir::MathFunction;
using ir::MathNode;
using ir::MathOp;
using ir::MathProgram;
using ir::MathType;
using llvm::Value;

namespace {

constexpr int kEntryLanes = 16;  // of one register

}  // namespace

Value* MathEmitter::emit(ScalarOp op, std::span<Value* const> args) {
  const bool single = args[0]->getType()->getScalarType()->isFloatTy();
  const MathFunction& f = ir::math_function(op, single ? DType::kF32 : DType::kF64);
  const int lanes = Lanes::lanes_of(args[0]);
  if (!f.pieces.nodes.empty() && lanes_.machine().entries && lanes >= kEntryLanes) return run(f.pieces, args);
  if (f.slow.nodes.empty()) return run(f.fast, args);

  // Any lane that needs it sends all of them through the slow program, out of line.
  Value* is_slow = run(f.is_slow, args);
  Value* fast = run(f.fast, args);
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* cold = llvm::BasicBlock::Create(b_.getContext(), "slow", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b_.getContext(), "computed", function);
  b_.CreateCondBr(lanes_.any(is_slow), cold, after, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(cold);
  Value* slow = b_.CreateCall(slow_function(f, lanes), {args[0]});
  slow = b_.CreateSelect(is_slow, slow, fast);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(fast->getType(), 2);
  result->addIncoming(fast, before);
  result->addIncoming(slow, cold);
  return result;
}

llvm::Function* MathEmitter::slow_function(const MathFunction& f, int lanes) {
  const std::string name = fmt::format("stax.{}.{}.{}", ir::name_of(f.op), ir::name_of(f.dtype), lanes);
  if (llvm::Function* known = lanes_.module_.getFunction(name)) return known;
  llvm::Type* type = lanes_.register_type(f.dtype, lanes);
  auto* made = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::Function::PrivateLinkage,
                                      name, lanes_.module_);
  made->addFnAttr(llvm::Attribute::NoInline);
  made->addFnAttr(llvm::Attribute::Cold);
  made->addFnAttr(llvm::Attribute::NoUnwind);
  made->addFnAttr(llvm::Attribute::WillReturn);
  made->setMemoryEffects(llvm::MemoryEffects::none());
  lanes_.tune(*made);
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", made));
  Value* argument = made->getArg(0);
  b_.CreateRet(run(f.slow, {&argument, 1}));
  return made;
}

llvm::Type* MathEmitter::type_of(MathType t) const {
  switch (t) {
    case MathType::kBool: return b_.getInt1Ty();
    case MathType::kI32: return b_.getInt32Ty();
    case MathType::kI64: return b_.getInt64Ty();
    case MathType::kF32: return b_.getFloatTy();
    case MathType::kF64: return b_.getDoubleTy();
  }
  STAX_UNREACHABLE();
}

Value* MathEmitter::run(const MathProgram& program, std::span<Value* const> args) {
  std::vector<Value*> values;
  for (const MathNode& node : program.nodes) {
    auto arg = [&](size_t i) { return node.args[i] < 0 ? nullptr : values[static_cast<size_t>(node.args[i])]; };
    values.push_back(step(node, lanes_.like(type_of(node.type), args[0]), args, arg(0), arg(1), arg(2)));
  }
  return values.back();
}

Value* MathEmitter::step(const MathNode& node, llvm::Type* type, std::span<Value* const> args, Value* x, Value* y,
                         Value* z) {
  const bool real = type->getScalarType()->isFloatingPointTy();
  const bool of_reals = x != nullptr && x->getType()->getScalarType()->isFloatingPointTy();
  switch (node.op) {
    case MathOp::kInput: return args[node.bits];
    case MathOp::kConstant:
      return real ? lanes_.real(type, std::bit_cast<double>(node.bits))
                  : lanes_.integer(type, static_cast<int64_t>(node.bits));
    case MathOp::kAdd: return real ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
    case MathOp::kSub: return real ? b_.CreateFSub(x, y) : b_.CreateSub(x, y);
    case MathOp::kMul: return real ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
    case MathOp::kDiv: return b_.CreateFDiv(x, y);
    case MathOp::kRatio: return ratio(x, y);
    case MathOp::kMulAdd: return lanes_.multiply_add(x, y, z);
    case MathOp::kFusedMulAdd: return lanes_.fused_multiply_add(x, y, z);
    case MathOp::kNeg: return b_.CreateFNeg(x);
    case MathOp::kAbs: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    case MathOp::kSqrt: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case MathOp::kLessOf: return b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y);
    case MathOp::kGreaterOf: return b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y);
    case MathOp::kScale:
    case MathOp::kScaleFloor: return scale(x, y);
    case MathOp::kShiftLeft: return b_.CreateShl(x, lanes_.integer(type, static_cast<int64_t>(node.bits)));
    case MathOp::kShiftRight: return b_.CreateLShr(x, lanes_.integer(type, static_cast<int64_t>(node.bits)));
    case MathOp::kShiftRightSigned: return b_.CreateAShr(x, lanes_.integer(type, static_cast<int64_t>(node.bits)));
    case MathOp::kShiftLeftBy: return b_.CreateShl(x, y);
    case MathOp::kAnd: return b_.CreateAnd(x, y);
    case MathOp::kOr: return b_.CreateOr(x, y);
    case MathOp::kXor: return b_.CreateXor(x, y);
    case MathOp::kNot: return b_.CreateNot(x);
    case MathOp::kLess: return of_reals ? b_.CreateFCmpOLT(x, y) : b_.CreateICmpSLT(x, y);
    case MathOp::kEqual: return of_reals ? b_.CreateFCmpOEQ(x, y) : b_.CreateICmpEQ(x, y);
    case MathOp::kIsNan: return b_.CreateFCmpUNO(x, x);
    case MathOp::kSelect: return b_.CreateSelect(x, y, z);
    case MathOp::kConvert:
      if (of_reals) return real ? b_.CreateFPCast(x, type) : b_.CreateFPToSI(x, type);
      return real ? b_.CreateSIToFP(x, type) : b_.CreateSExtOrTrunc(x, type);
    case MathOp::kBits: return b_.CreateBitCast(x, type);
    case MathOp::kLookup: return lookup(x);
    case MathOp::kEntry: return entry(node.bits, x);
    case MathOp::kPower:
    case MathOp::kUnitMulAdd: break;  // no program here has it
  }
  STAX_UNREACHABLE();
}

// An intrinsic of one register, on a vector of any number of lanes.
Value* MathEmitter::by_registers(Value* x, Value* y, const std::function<Value*(Value*, Value*)>& f) {
  llvm::Type* element = x->getType()->getScalarType();
  const int bytes = static_cast<int>(element->getPrimitiveSizeInBits() / 8);
  const int lanes = std::max(Lanes::lanes_of(x), 1);
  if (Lanes::lanes_of(x) == 0 || lanes * bytes < 16) {
    llvm::Type* wide = lanes_.with_lanes(element, 16 / bytes);
    auto widen = [&](Value* v) {
      Value* result = llvm::PoisonValue::get(wide);
      for (int i = 0; i < 16 / bytes; ++i) {
        Value* lane =
            Lanes::lanes_of(v) == 0 ? v : b_.CreateExtractElement(v, static_cast<uint64_t>(std::min(i, lanes - 1)));
        if (i == 0 || i < lanes) result = b_.CreateInsertElement(result, lane, static_cast<uint64_t>(i));
      }
      return result;
    };
    Value* result = f(widen(x), widen(y));
    if (Lanes::lanes_of(x) == 0) return b_.CreateExtractElement(result, uint64_t{0});
    std::vector<int> first;
    for (int i = 0; i < lanes; ++i) first.push_back(i);
    return b_.CreateShuffleVector(result, first);
  }
  const int per_register = 64 / bytes;
  if (lanes <= per_register) return f(x, y);
  std::vector<Value*> parts;
  for (int at = 0; at < lanes; at += per_register) {
    std::vector<int> own;
    for (int i = 0; i < per_register; ++i) own.push_back(at + i);
    parts.push_back(f(b_.CreateShuffleVector(x, own), b_.CreateShuffleVector(y, own)));
  }
  while (parts.size() > 1) {
    std::vector<Value*> pairs;
    const int size = Lanes::lanes_of(parts[0]);
    std::vector<int> all;
    for (int i = 0; i < 2 * size; ++i) all.push_back(i);
    for (size_t i = 0; i < parts.size(); i += 2) pairs.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], all));
    parts = std::move(pairs);
  }
  return parts[0];
}

// The instruction rounds n down and takes any: it serves both.
Value* MathEmitter::scale(Value* x, Value* n) {
  const bool single = x->getType()->getScalarType()->isFloatTy();
  if (lanes_.machine().scale) {
    return by_registers(x, n, [&](Value* a, Value* k) -> Value* {
      const int lanes = Lanes::lanes_of(a);
      const int bytes = lanes * (single ? 4 : 8);
      llvm::Intrinsic::ID id = 0;
      switch (bytes) {
        case 16:
          id = single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_128 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_128;
          break;
        case 32:
          id = single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_256;
          break;
        default:
          id = single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512 : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
          break;
      }
      Value* all = lanes == 16 ? b_.getInt16(0xFFFF) : b_.getInt8(0xFF);
      std::vector<Value*> args = {a, k, llvm::Constant::getNullValue(a->getType()), all};
      if (bytes == 64) args.push_back(b_.getInt32(4));  // the current rounding mode
      return b_.CreateIntrinsic(id, {}, args);
    });
  }
  // In two halves, each a power of two in the normal range. Adding 2^23 (2^52) brings a whole number into the lowest bits.
  llvm::Type* type = x->getType();
  llvm::Type* bits = lanes_.like(single ? b_.getInt32Ty() : b_.getInt64Ty(), x);
  auto power = [&](Value* k) {
    Value* biased = b_.CreateFAdd(k, lanes_.real(type, single ? 0x1p23 + 127 : 0x1p52 + 1023));
    return b_.CreateBitCast(b_.CreateShl(b_.CreateBitCast(biased, bits), single ? 23 : 52), type);
  };
  Value* half = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFMul(n, lanes_.real(type, 0.5)));
  return b_.CreateFMul(b_.CreateFMul(x, power(half)), power(b_.CreateFSub(n, half)));
}

// A division keeps the machine busy for as long as all of this takes several times: an approximate reciprocal and one correction of the quotient.
Value* MathEmitter::ratio(Value* x, Value* y) {
  if (!lanes_.machine().scale || Lanes::lanes_of(x) == 0 || !x->getType()->getScalarType()->isFloatTy())
    return b_.CreateFDiv(x, y);
  Value* inverse = by_registers(y, y, [&](Value* a, Value*) -> Value* {
    llvm::Intrinsic::ID id = 0;
    switch (Lanes::lanes_of(a)) {
      case 4: id = llvm::Intrinsic::x86_avx512_rcp14_ps_128; break;
      case 8: id = llvm::Intrinsic::x86_avx512_rcp14_ps_256; break;
      default: id = llvm::Intrinsic::x86_avx512_rcp14_ps_512; break;
    }
    Value* all = Lanes::lanes_of(a) == 16 ? b_.getInt16(0xFFFF) : b_.getInt8(0xFF);
    return b_.CreateIntrinsic(id, {}, {a, llvm::Constant::getNullValue(a->getType()), all});
  });
  Value* quotient = b_.CreateFMul(x, inverse);
  Value* rest = b_.CreateFMA(b_.CreateFNeg(quotient), y, x);
  return b_.CreateFMA(rest, inverse, quotient);
}

// A power of two is a product anyway. Of the rest, numbers near 1 as models have them, so that nothing below overflows; not those just below a
// power of two, for which one correction does not always give the nearest quotient (Markstein 1990).
bool MathEmitter::can_divide_by(float c) {
  const uint32_t bits = std::bit_cast<uint32_t>(c), mantissa = bits & 0x7FFFFF, exponent = bits >> 23 & 255;
  return mantissa != 0 && mantissa != 0x7FFFFF && exponent >= 127 - 24 && exponent <= 127 + 24;
}

// With the correctly rounded reciprocal r of c, q = x r is next to the quotient, x - q c is exact, and q + r (x - q c) is the nearest float. That holds
// where nothing is denormal or infinite: the other lanes divide, out of line, but for zeros, which q has right.
Value* MathEmitter::divide_by_constant(Value* x, float c) {
  llvm::Type* type = x->getType();
  llvm::Type* i32 = lanes_.like(b_.getInt32Ty(), x);
  Value* divisor = lanes_.real(type, c);
  Value* inverse = lanes_.real(type, static_cast<double>(1.0F / c));
  Value* quotient = b_.CreateFMul(x, inverse);
  Value* rest = b_.CreateFMA(b_.CreateFNeg(quotient), divisor, x);
  Value* corrected = b_.CreateFMA(rest, inverse, quotient);
  constexpr int64_t kLeast = int64_t{127 - 70} << 23, kMost = int64_t{127 + 70} << 23;
  Value* size = b_.CreateAnd(b_.CreateBitCast(x, i32), lanes_.integer(i32, 0x7FFFFFFF));
  Value* outside =
      b_.CreateICmpUGT(b_.CreateSub(size, lanes_.integer(i32, kLeast)), lanes_.integer(i32, kMost - kLeast));
  Value* fast = b_.CreateSelect(outside, quotient, corrected);
  Value* is_slow = b_.CreateAnd(outside, b_.CreateICmpNE(size, llvm::Constant::getNullValue(i32)));
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* cold = llvm::BasicBlock::Create(b_.getContext(), "divide", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b_.getContext(), "divided", function);
  b_.CreateCondBr(lanes_.any(is_slow), cold, after, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(cold);
  Value* slow = b_.CreateFDiv(x, divisor);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(type, 2);
  result->addIncoming(fast, before);
  result->addIncoming(slow, cold);
  return result;
}

// The first and the second half of the table in a register each; the instruction looks at the lowest five bits of the index.
Value* MathEmitter::entry(uint64_t table, Value* index) {
  const auto entries = ir::math_entries(table);
  const auto half = [&](size_t first) -> Value* {
    return llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef<float>(&entries[first], kEntryLanes));
  };
  Value* low = half(0);
  Value* high = half(kEntryLanes);
  return by_registers(index, index, [&](Value* i, Value*) -> Value* {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {}, {low, i, high});
  });
}

Value* MathEmitter::lookup(Value* index) {
  llvm::Module& module = lanes_.module_;
  llvm::GlobalVariable* table = module.getNamedGlobal("stax.two_over_pi");
  if (table == nullptr) {
    llvm::Constant* words = llvm::ConstantDataArray::get(
        b_.getContext(), llvm::ArrayRef<uint32_t>(ir::two_over_pi().data(), ir::two_over_pi().size()));
    table = new llvm::GlobalVariable(module, words->getType(), true, llvm::GlobalValue::PrivateLinkage, words,
                                     "stax.two_over_pi");
  }
  llvm::Type* i32 = b_.getInt32Ty();
  const int lanes = Lanes::lanes_of(index);
  if (lanes == 0) return b_.CreateLoad(i32, b_.CreateGEP(i32, table, index));
  if (lanes_.machine().gather) {
    Value* addresses = b_.CreateGEP(i32, table, b_.CreateSExt(index, lanes_.like(b_.getInt64Ty(), index)));
    return b_.CreateMaskedGather(lanes_.with_lanes(i32, lanes), addresses, llvm::Align(4));
  }
  Value* result = llvm::PoisonValue::get(index->getType());
  for (int i = 0; i < lanes; ++i) {
    Value* at = b_.CreateGEP(i32, table, b_.CreateExtractElement(index, static_cast<uint64_t>(i)));
    result = b_.CreateInsertElement(result, b_.CreateLoad(i32, at), static_cast<uint64_t>(i));
  }
  return result;
}

}  // namespace stax::native
