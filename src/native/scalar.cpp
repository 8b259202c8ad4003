// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "emit/scalar_bounds.h"
#include "native/kernel.h"

#include <cmath>
#include "support/error.h"

namespace stax::native {

using ir::ScalarKind;
using llvm::Value;

bool is_costly(ScalarOp op) {
  switch (op) {
    case ScalarOp::kPow:
    case ScalarOp::kModFloor:
    case ScalarOp::kModTrunc:
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
    case ScalarOp::kHash:
    case ScalarOp::kCheckedIndex: return true;
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSign:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven:
    case ScalarOp::kSqrt:
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight:
    case ScalarOp::kEqual:
    case ScalarOp::kNotEqual:
    case ScalarOp::kLess:
    case ScalarOp::kLessEqual:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSelect: return false;
  }
  STAX_UNREACHABLE();
}

namespace {

// 0 or a float that is none of the smallest, which kernels take for 0.
bool is_normal_float(double x) {
  const auto narrow = static_cast<float>(x);
  return static_cast<double>(narrow) == x && (narrow == 0 || std::isnormal(narrow));
}

}  // namespace

Value* KernelEmitter::index_value(Expr e) {
  e = index_.resolve(e);
  return vector_ != nullptr ? index_.value(e, vector_->range) : index_.value(e);
}

// A bool; comparisons of index expressions never become numbers.
Value* KernelEmitter::truth(Scalar s) {
  if (s->kind == ScalarKind::kCast && s->args[0]->kind == ScalarKind::kIndex) {
    Expr e = index_.resolve(s->args[0]->index);
    return vector_ != nullptr ? index_.condition(e, vector_->range) : index_.condition(e);
  }
  return scalar(s);
}

Value* KernelEmitter::scalar(Scalar s) {
  for (size_t i = memo_.size(); i-- > 0;) {
    if (auto known = memo_[i].find(s.node()); known != memo_[i].end()) return known->second;
  }
  Value* result = compute(s);
  memo_.back().emplace(s.node(), result);
  return result;
}

// An operation of floats that is done in doubles and then rounded is the same operation of floats: the double has more than twice as many bits, so
// that rounding twice gives what rounding once does. Null: of another form.
Value* KernelEmitter::rounded_once(Scalar cast) {
  const Scalar wide = cast->args[0];
  if (cast->dtype != DType::kF32 || wide->dtype != DType::kF64 || wide->kind != ScalarKind::kOp) return nullptr;
  if (wide->op != ScalarOp::kAdd && wide->op != ScalarOp::kSub && wide->op != ScalarOp::kMul &&
      wide->op != ScalarOp::kDiv)
    return nullptr;
  std::vector<Scalar> narrow;
  for (Scalar arg : wide->args) {
    if (arg->kind == ScalarKind::kCast && arg->args[0]->dtype == DType::kF32) {
      narrow.push_back(arg->args[0]);
    } else if (arg->kind == ScalarKind::kConstant && is_normal_float(arg->as_double())) {
      narrow.push_back(arg->table->constant(DType::kF32, arg->as_double()));
    } else {
      return nullptr;
    }
  }
  return scalar(wide->table->op(wide->op, narrow));
}

Value* KernelEmitter::compute(Scalar s) {
  switch (s->kind) {
    case ScalarKind::kConstant: return lanes_.constant(s->dtype, 0, *s.node());
    case ScalarKind::kIndex: return index_value(s->index);
    case ScalarKind::kLoad:
      if (Value* entry = byte_entry(s)) return entry;
      return load(place_of(s->slot, s->args));
    case ScalarKind::kAccumulator: internal_error("an accumulator outside of an epilogue");
    case ScalarKind::kCast:
      if (s->dtype == DType::kBool && s->args[0]->kind == ScalarKind::kIndex) return truth(s);
      if (Value* once = rounded_once(s)) return once;
      return lanes_.cast(s->dtype, s->args[0]->dtype, scalar(s->args[0]),
                         ir::is_float(s->args[0]->dtype) && emit::fits_i32(s->args[0]));
    case ScalarKind::kOp: break;
  }
  if (s->op == ScalarOp::kSelect) return select(s);
  if (s->op == ScalarOp::kCheckedIndex) return checked_index(s);
  std::vector<Value*> args;
  int lanes = 0;
  for (Scalar arg : s->args) {
    args.push_back(scalar(arg));
    lanes = std::max(lanes, Lanes::lanes_of(args.back()));
  }
  for (Value*& arg : args) arg = lanes_.splat(arg, lanes);
  return lanes_.op(s->op, s->args[0]->dtype, args);
}

bool KernelEmitter::is_guarded(Scalar s) {
  if (auto known = guarded_.find(s.node()); known != guarded_.end()) return known->second;
  bool guarded = s->kind == ScalarKind::kLoad || (s->kind == ScalarKind::kOp && is_costly(s->op));
  for (Scalar arg : s->args) guarded = guarded || is_guarded(arg);
  guarded_.emplace(s.node(), guarded);
  return guarded;
}

Value* KernelEmitter::select(Scalar s) {
  Value* condition = truth(s->args[0]);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition); known != nullptr && Lanes::lanes_of(condition) == 0) {
    return scalar(s->args[known->isOne() ? 1 : 2]);
  }
  if (Value* element = load_or_zero(s)) return element;
  const bool guarded[2] = {is_guarded(s->args[1]), is_guarded(s->args[2])};
  Value* arms[2] = {};
  if (Lanes::lanes_of(condition) == 0 && (guarded[0] || guarded[1])) {
    llvm::BasicBlock* ends[2] = {};
    llvm::BasicBlock* starts[2] = {block("selected"), block("otherwise")};
    llvm::BasicBlock* after = block("either");
    b_.CreateCondBr(condition, starts[0], starts[1]);
    for (size_t arm : {size_t{0}, size_t{1}}) {
      b_.SetInsertPoint(starts[arm]);
      memo_.emplace_back();
      arms[arm] = scalar(s->args[arm + 1]);
      memo_.pop_back();
      ends[arm] = b_.GetInsertBlock();
    }
    const int lanes = std::max(Lanes::lanes_of(arms[0]), Lanes::lanes_of(arms[1]));
    for (size_t arm : {size_t{0}, size_t{1}}) {
      b_.SetInsertPoint(ends[arm]);
      arms[arm] = lanes_.splat(arms[arm], lanes);
      b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
    llvm::PHINode* result = b_.CreatePHI(arms[0]->getType(), 2);
    result->addIncoming(arms[0], ends[0]);
    result->addIncoming(arms[1], ends[1]);
    return result;
  }
  for (size_t arm : {size_t{0}, size_t{1}}) {
    if (!guarded[arm]) {
      arms[arm] = scalar(s->args[arm + 1]);
      continue;
    }
    Vector masked = under(arm == 0 ? condition : b_.CreateNot(condition), s->args[0], arm == 0);
    Vector* outer = vector_;
    vector_ = &masked;
    memo_.emplace_back();
    arms[arm] = scalar(s->args[arm + 1]);
    memo_.pop_back();
    vector_ = outer;
  }
  const int lanes = std::max({Lanes::lanes_of(condition), Lanes::lanes_of(arms[0]), Lanes::lanes_of(arms[1])});
  for (Value*& arm : arms) arm = lanes_.splat(arm, lanes);
  return b_.CreateSelect(condition, arms[0], arms[1]);
}

// --- checked indices ------------------------------------------------------------------------------------------------------

// void (KernelFault* fault, i64 index, i64 extent): the first fault stays.
llvm::Function* KernelEmitter::fault_function() {
  static constexpr const char* kName = "stax.fault";
  if (llvm::Function* known = module_.getFunction(kName)) return known;
  llvm::Type* i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), i64, i64}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::PrivateLinkage, kName, module_);
  f->addFnAttr(llvm::Attribute::NoInline);
  f->addFnAttr(llvm::Attribute::Cold);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(module_.getContext(), "entry", f));
  auto* first = llvm::BasicBlock::Create(module_.getContext(), "first", f);
  auto* done = llvm::BasicBlock::Create(module_.getContext(), "done", f);
  llvm::LoadInst* failed = b.CreateLoad(i64, f->getArg(0));
  failed->setAtomic(llvm::AtomicOrdering::Monotonic);
  failed->setAlignment(llvm::Align(8));
  b.CreateCondBr(b.CreateICmpEQ(failed, b.getInt64(0)), first, done);
  b.SetInsertPoint(first);
  b.CreateStore(f->getArg(1), b.CreateConstGEP1_64(i64, f->getArg(0), 1));
  b.CreateStore(f->getArg(2), b.CreateConstGEP1_64(i64, f->getArg(0), 2));
  llvm::StoreInst* mark = b.CreateStore(b.getInt64(1), f->getArg(0));
  mark->setAtomic(llvm::AtomicOrdering::Release);
  mark->setAlignment(llvm::Align(8));
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return f;
}

// After a fault the kernel returns: what it would go on with may not exist, as where the extent is 0.
Value* KernelEmitter::checked_index(Scalar s) {
  Value* given = scalar(s->args[0]);
  Value* extent = scalar(s->args[1]);
  const int lanes = std::max(Lanes::lanes_of(given), Lanes::lanes_of(extent));
  given = lanes_.splat(given, lanes);
  extent = lanes_.splat(extent, lanes);
  llvm::Type* type = given->getType();
  Value* negative = b_.CreateICmpSLT(given, llvm::Constant::getNullValue(type));
  Value* index = b_.CreateSelect(negative, b_.CreateAdd(given, extent), given);
  // A negative extent counts as 0: the signed and the unsigned comparison are both needed.
  Value* inside =
      b_.CreateAnd(b_.CreateICmpULT(index, extent), b_.CreateICmpSGT(extent, llvm::Constant::getNullValue(type)));
  Value* outside = b_.CreateNot(inside);
  Value* faulty = outside;
  if (vector_ != nullptr && vector_->mask != nullptr)
    faulty = b_.CreateAnd(lanes_.splat(outside, vector_->range.width), vector_->mask);

  llvm::BasicBlock* cold = block("fault");
  llvm::BasicBlock* after = block("checked");
  b_.CreateCondBr(lanes_.any(faulty), cold, after, llvm::MDBuilder(module_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(cold);
  Value* bad_index = given;
  Value* bad_extent = extent;
  if (lanes != 0) {
    Value* bits = lanes_.mask_bits(faulty);
    Value* lane = b_.CreateIntrinsic(llvm::Intrinsic::cttz, {bits->getType()}, {bits, b_.getTrue()});
    lane = b_.CreateZExtOrTrunc(lane, b_.getInt64Ty());
    bad_index = b_.CreateExtractElement(given, lane);
    bad_extent = b_.CreateExtractElement(extent, lane);
  }
  b_.CreateCall(fault_function(), {fault_, bad_index, bad_extent});
  b_.CreateRetVoid();
  b_.SetInsertPoint(after);
  return index;
}

// --- shapes of expressions ------------------------------------------------------------------------------------------------

bool KernelEmitter::product_of(Scalar s, DType t, Scalar& x, Scalar& y) const {
  if (!ir::is_float(t) || s->kind != ScalarKind::kOp || s->op != ScalarOp::kMul) return false;
  x = s->args[0];
  y = s->args[1];
  return true;
}

}  // namespace stax::native
