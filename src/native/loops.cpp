// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <bit>

#include "emit/emit.h"
#include "emit/scratch.h"
#include "ir/math_table.h"
#include "loop/access.h"
#include "native/kernel.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;
using loop::LoopKind;

namespace {

// Vectors of a loop of constant extent that are written out one after the other.
constexpr int64_t kStraightVectors = 16;

// Independent partial results of a reduction, enough to cover the latency of an addition: the more an iteration does, the fewer.
int partials_for(const Stmt& body) {
  size_t weight = 0;
  loop::visit(body, [&](const Stmt& each) {
    loop::visit_scalars(*each, [&](Scalar root) {
      ir::visit(root,
                [&](Scalar x) { weight += x->kind == ir::ScalarKind::kOp && ir::is_math_function(x->op) ? 12 : 1; });
    });
  });
  // Iterations side by side have partial results of their own.
  int64_t beside = 1;
  loop::visit(body, [&](const Stmt& each) {
    const auto* inner = each->as<loop::For>();
    if (inner != nullptr && inner->kind == LoopKind::kUnrolled && inner->extent.is_constant())
      beside = std::max(beside, inner->extent.constant());
  });
  const int64_t wanted = weight <= 12 ? 4 : weight <= 30 ? 2 : 1;
  return static_cast<int>(std::max<int64_t>(wanted / std::max<int64_t>(beside / 2, 1), 1));
}

// A least or greatest number, for which NaN has a say of its own.
bool is_extreme(loop::Combiner combiner, DType t) {
  return ir::is_float(t) && (combiner == loop::Combiner::kMin || combiner == loop::Combiner::kMax);
}

}  // namespace

void KernelEmitter::emit(const loop::For& s) {
  Expr extent = index_.resolve(s.extent);
  switch (s.kind) {
    case LoopKind::kParallel: {
      counted_loop(begin_, end_, 1, true, [&](Value* i) {
        index_.bind(s.var, i);
        loops_.push(s.var, extent);
        emit(s.body);
        loops_.pop();
      });
      return;
    }
    case LoopKind::kUnrolled:
      if (emit_byte_dot(s)) return;
      if (extent.is_constant() && emit_rolled(s, extent.constant())) return;
      if (extent.is_constant()) return emit_unrolled(s, extent.constant());
      break;
    case LoopKind::kVector:
      if (vector_ == nullptr && can_vectorize(s)) return emit_vector(s);
      break;
    case LoopKind::kThread:  // of schedules for GPUs; here iterations run one after the other
    case LoopKind::kWarp:
    case LoopKind::kRows:
    case LoopKind::kColumns:
    case LoopKind::kDepth:
    case LoopKind::kSerial: break;
  }
  if (extent.is_constant() && extent.constant() <= 1) return emit_unrolled(s, extent.constant());
  emit_serial(s);
}

void KernelEmitter::emit_serial(const loop::For& s) {
  const Expr extent = index_.resolve(s.extent);
  counted_loop(b_.getInt64(0), index_.value(extent), 1, !loops_.is_nonnegative(extent - 1), [&](Value* i) {
    index_.bind(s.var, i);
    loops_.push(s.var, extent);
    emit(s.body);
    loops_.pop();
  });
}

void KernelEmitter::emit_unrolled(const loop::For& s, int64_t count) {
  load_turned(s, count);
  for (int64_t i = 0; i < count; ++i) {
    index_.replace(s.var, kernel_.context->exprs.constant(i));
    emit(s.body);
    index_.restore(s.var);
  }
  turned_.clear();
}

// The test is at the end: what the body always evaluates can be hoisted in front of the loop.
void KernelEmitter::counted_loop(Value* begin, Value* end, int64_t step, bool may_be_empty,
                                 const std::function<void(Value*)>& body) {
  llvm::BasicBlock* header = block("loop");
  llvm::BasicBlock* inside = block("iteration");
  llvm::BasicBlock* after = block("done");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  if (may_be_empty)
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), header, after);
  else
    b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  index_.open_scope(b_.CreateBr(inside));
  b_.SetInsertPoint(inside);
  body(i);
  index_.close_scope();
  Value* next = b_.CreateAdd(i, b_.getInt64(static_cast<uint64_t>(step)), "", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  b_.SetInsertPoint(after);
}

// --- vector loops ---------------------------------------------------------------------------------------------------------

int KernelEmitter::width_of(const loop::For& s) const {
  const int natural = vector_bytes(lanes_.machine().isa) / 4;
  const int wanted = s.width > 1 ? s.width : natural;
  // More than a few registers for one value only make code longer.
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::min({wanted, 4 * natural, 64}))));
}

// What does not fit the one-loop scheme runs serially: vector loops inside, trip counts or sizes that differ between lanes.
bool KernelEmitter::can_vectorize(const loop::For& s) {
  bool possible = true;
  loop::visit(s.body, [&](const Stmt& each) {
    if (auto* inner = each->as<loop::For>()) {
      possible &= inner->kind != LoopKind::kVector && inner->kind != LoopKind::kParallel;
      possible &= !symbolic::depends_on(index_.resolve(inner->extent), s.var);
    }
    if (auto* local = each->as<loop::Allocate>())
      possible &= storage_[static_cast<size_t>(local->slot)].pointer == nullptr;
  });
  return possible;
}

bool KernelEmitter::has_reduction(const loop::For& s) const {
  std::set<int> inside;
  bool found = false;
  loop::visit(s.body, [&](const Stmt& each) {
    if (auto* local = each->as<loop::Allocate>()) inside.insert(local->slot);
    auto* update = each->as<loop::Update>();
    if (update == nullptr || inside.contains(update->slot)) return;
    found |=
        std::none_of(update->index.begin(), update->index.end(), [&](Scalar i) { return loop::depends_on(i, s.var); });
  });
  return found;
}

// Whether a stack slot outside the loop is accessed along the loop: it can live in registers if all indices are constants.
bool KernelEmitter::touches_stack(const loop::For& s) const {
  bool found = false;
  for (const loop::Access& access : loop::accesses_in(s.body)) {
    const Storage& storage = storage_[static_cast<size_t>(access.slot)];
    if (storage.slots == 0) continue;
    found |=
        std::any_of(access.index.begin(), access.index.end(), [&](Scalar i) { return loop::depends_on(i, s.var); });
  }
  return found;
}

bool KernelEmitter::touches_narrow_types(const loop::For& s) const {
  bool found = false;
  for (const loop::Access& access : loop::accesses_in(s.body)) {
    found |= ir::byte_size(kernel_.buffers[static_cast<size_t>(access.slot)].dtype) < 4;
  }
  return found;
}

void KernelEmitter::emit_vector(const loop::For& s) {
  Expr extent = index_.resolve(s.extent);
  if (extent.is_constant() && extent.constant() <= 0) return;
  loops_.push(s.var, extent);
  std::vector<Reduction> reductions;
  Vector v;
  v.range = {s.var, {}, width_of(s)};
  v.scope = index_.depth();
  v.reductions = &reductions;
  if (has_reduction(s)) v.copies = partials_for(s.body);
  const Machine& machine = lanes_.machine();
  v.scalar_tail = !machine.masked_access || (!machine.narrow_masks && touches_narrow_types(s));

  llvm::BasicBlock* start = block("vectors");
  v.before = b_.CreateBr(start);
  b_.SetInsertPoint(start);
  const int64_t most = extent.range().hi;
  const int width = v.range.width;
  if (extent.is_constant() && extent.constant() / width <= kStraightVectors) {
    emit_straight_vectors(s, v, extent.constant());
  } else if (most <= int64_t{8} * width && !v.scalar_tail && touches_stack(s)) {
    emit_bounded_vectors(s, v, extent, (most + width - 1) / width);
  } else {
    emit_vector_loop(s, v, extent);
  }
  loops_.pop();
  finish_reductions(reductions);
}

void KernelEmitter::emit_lanes(const loop::For& s, const Vector& v) {
  Vector own = v;
  vector_ = &own;
  emit(s.body);
  vector_ = nullptr;
}

void KernelEmitter::emit_straight_vectors(const loop::For& s, Vector v, int64_t extent) {
  symbolic::ExprTable& table = kernel_.context->exprs;
  const int width = v.range.width;
  int64_t at = 0;
  v.copies = static_cast<int>(std::min<int64_t>(v.copies, std::max<int64_t>(extent / width, 1)));
  for (int64_t count = 0; at + width <= extent; at += width, ++count) {
    v.range.base = table.constant(at);
    v.copy = static_cast<int>(count % v.copies);
    emit_lanes(s, v);
  }
  if (at == extent) return;
  if (v.scalar_tail) {
    for (; at < extent; ++at) {
      index_.replace(s.var, table.constant(at));
      emit(s.body);
      index_.restore(s.var);
    }
    return;
  }
  v.range.base = table.constant(at);
  v.copy = 0;
  v.live = extent - at;
  v.mask = lane_mask(b_.getInt64(static_cast<uint64_t>(v.live)), width);
  emit_lanes(s, v);
}

// At most `count` vectors, all under masks, so that local buffers are accessed at constant places.
void KernelEmitter::emit_bounded_vectors(const loop::For& s, Vector v, Expr extent, int64_t count) {
  symbolic::ExprTable& table = kernel_.context->exprs;
  const int width = v.range.width;
  v.copies = static_cast<int>(std::min<int64_t>(v.copies, count));
  Value* end = index_.value(extent);
  const bool runs = loops_.is_nonnegative(extent - 1);
  for (int64_t i = 0; i < count; ++i) {
    v.range.base = table.constant(i * width);
    v.copy = static_cast<int>(i % v.copies);
    Value* left = b_.CreateSub(end, b_.getInt64(static_cast<uint64_t>(i * width)));
    left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, b_.getInt64(0));
    v.mask = lane_mask(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, b_.getInt64(static_cast<uint64_t>(width))),
                       width);
    v.may_be_empty = i > 0 || !runs;
    v.safe_loads = runs;
    emit_lanes(s, v);
  }
}

void KernelEmitter::emit_vector_loop(const loop::For& s, Vector v, Expr extent) {
  const int width = v.range.width;
  const int64_t step = int64_t{width} * v.copies;
  Value* end = index_.value(extent);
  if (extent.range().lo < 0) end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, end, b_.getInt64(0));
  Value* whole = b_.CreateAnd(end, b_.getInt64(static_cast<uint64_t>(-step)));
  // Where lane 0 is; what is known of it is that it is a multiple of the lanes.
  symbolic::SymbolInfo info = s.var.symbol();
  info.name += "_lanes";
  info.multiple = width;
  info.range.lo = 0;
  Expr base = kernel_.context->exprs.new_symbol(std::move(info));
  if (extent.range().hi >= step) {
    counted_loop(b_.getInt64(0), whole, step, extent.range().lo < step, [&](Value* i) {
      index_.bind(base, i);
      for (int copy = 0; copy < v.copies; ++copy) {
        v.range.base = base + int64_t{copy} * width;
        v.copy = copy;
        emit_lanes(s, v);
      }
    });
  }
  v.range.base = base;
  v.copy = 0;
  const int64_t multiple = extent.multiple();
  if (multiple == 0 || multiple % step == 0) return;
  if (v.copies > 1 && !v.scalar_tail) {
    counted_loop(whole, end, width, true, [&](Value* i) {
      index_.bind(base, i);
      Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(end, i),
                                             b_.getInt64(static_cast<uint64_t>(width)));
      if (multiple % width != 0) v.mask = lane_mask(left, width);
      emit_lanes(s, v);
    });
    return;
  }
  if (v.copies > 1) {
    Value* vectors = b_.CreateAnd(end, b_.getInt64(static_cast<uint64_t>(-int64_t{width})));
    counted_loop(whole, vectors, width, true, [&](Value* i) {
      index_.bind(base, i);
      emit_lanes(s, v);
    });
    whole = vectors;
  }
  if (v.scalar_tail) {
    counted_loop(whole, end, 1, true, [&](Value* i) {
      index_.bind(s.var, i);
      emit(s.body);
    });
    return;
  }
  branch(b_.CreateICmpSLT(whole, end), [&] {
    llvm::BasicBlock* inside = block("remainder");
    index_.open_scope(b_.CreateBr(inside));
    b_.SetInsertPoint(inside);
    index_.bind(base, whole);
    v.mask = lane_mask(b_.CreateSub(end, whole), width);
    emit_lanes(s, v);
    index_.close_scope();
  });
}

// The first `count` lanes, 0 <= count <= width.
Value* KernelEmitter::lane_mask(Value* count, int width) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < width; ++i) lanes.push_back(b_.getInt1(i < known->getSExtValue()));
    return llvm::ConstantVector::get(lanes);
  }
  if (lanes_.machine().narrow_masks && width <= 32) {
    Value* bits = b_.CreateSub(b_.CreateShl(b_.getInt64(1), count), b_.getInt64(1));
    bits = b_.CreateTrunc(bits, b_.getIntNTy(static_cast<unsigned>(width)));
    return b_.CreateBitCast(bits, lanes_.with_lanes(b_.getInt1Ty(), width));
  }
  Value* bound = lanes_.splat(b_.CreateTrunc(count, b_.getInt32Ty()), width);
  return b_.CreateICmpSLT(lanes_.iota(b_.getInt32Ty(), width), bound);
}

// --- reductions -----------------------------------------------------------------------------------------------------------

KernelEmitter::Reduction& KernelEmitter::reduction_at(const Place& place, const Contribution& c) {
  for (Reduction& each : *vector_->reductions) {
    if (each.slot == place.slot && each.linear == place.linear && each.combiner == c.combiner) return each;
  }
  Reduction& fresh = vector_->reductions->emplace_back();
  fresh.combiner = c.combiner;
  fresh.slot = place.slot;
  fresh.linear = place.linear;
  const int width = vector_->range.width;
  Scalar neutral = loop::neutral(*kernel_.context, c.combiner, c.dtype);
  for (int copy = 0; copy < vector_->copies; ++copy) {
    llvm::AllocaInst* partial = stack_slot(lanes_.register_type(c.dtype, width), "partial");
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(vector_->before);
    b_.CreateStore(lanes_.constant(c.dtype, width, *neutral.node()), partial);
    fresh.partial.push_back(partial);
  }
  if (lanes_.machine().narrow_masks && is_extreme(c.combiner, c.dtype)) {
    llvm::Type* type = lanes_.with_lanes(b_.getInt1Ty(), width);
    fresh.unordered = stack_slot(type, "unordered");
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(vector_->before);
    b_.CreateStore(llvm::Constant::getNullValue(type), fresh.unordered);
  }
  return fresh;
}

// A comparison that NaN never wins is one instruction. That there was a NaN is remembered beside it; LLVM looks at two vectors at a time.
void KernelEmitter::reduce_extreme(Reduction& reduction, Value* v) {
  llvm::AllocaInst* partial = reduction.partial[static_cast<size_t>(vector_->copy)];
  Value* old = b_.CreateLoad(v->getType(), partial);
  if (vector_->mask != nullptr) v = b_.CreateSelect(vector_->mask, v, old);
  b_.CreateStore(lanes_.extreme(reduction.combiner == loop::Combiner::kMax, v, old), partial);
  Value* found = b_.CreateLoad(reduction.unordered->getAllocatedType(), reduction.unordered);
  b_.CreateStore(b_.CreateOr(found, b_.CreateFCmpUNO(v, v)), reduction.unordered);
}

void KernelEmitter::reduce_in_lanes(const Place& place, const Contribution& c) {
  const int width = vector_->range.width;
  llvm::Type* type = lanes_.register_type(c.dtype, width);
  auto add_to = [&](Value* old) {
    Value* sum = accumulate(c, old);
    return vector_->mask == nullptr ? sum : b_.CreateSelect(vector_->mask, sum, old);
  };
  if (place.offset == nullptr && index_.level(place.linear) < vector_->scope) {
    Reduction& reduction = reduction_at(place, c);
    if (reduction.unordered != nullptr) return reduce_extreme(reduction, lanes_.splat(c.value, width));
    llvm::AllocaInst* partial = reduction.partial[static_cast<size_t>(vector_->copy)];
    b_.CreateStore(add_to(b_.CreateLoad(type, partial)), partial);
    return;
  }
  // The place moves with a loop inside of the vector loop: combined on the spot.
  Scalar neutral = loop::neutral(*kernel_.context, c.combiner, c.dtype);
  Value* total = across_lanes(add_to(lanes_.constant(c.dtype, width, *neutral.node())),
                              [&](Value* a, Value* b) { return combine(c.combiner, c.dtype, a, b); });
  Vector* outer = vector_;
  Value* at = address_of(place);
  if (vector_->may_be_empty) at = b_.CreateSelect(lanes_.any(vector_->mask), at, sink());
  Value* old = lanes_.from_memory(c.dtype, tag(b_.CreateLoad(lanes_.memory_type(c.dtype, 0), at), place.slot));
  tag(b_.CreateStore(lanes_.to_memory(c.dtype, combine(c.combiner, c.dtype, old, total)), at), place.slot);
  vector_ = outer;
}

void KernelEmitter::finish_reductions(std::vector<Reduction>& reductions) {
  for (Reduction& each : reductions) {
    const DType t = kernel_.buffers[static_cast<size_t>(each.slot)].dtype;
    std::vector<Value*> parts;
    for (llvm::AllocaInst* partial : each.partial) parts.push_back(b_.CreateLoad(partial->getAllocatedType(), partial));
    const auto meet = [&](Value* a, Value* b) {
      if (each.unordered != nullptr) return lanes_.extreme(each.combiner == loop::Combiner::kMax, a, b);
      return combine(each.combiner, t, a, b);
    };
    while (parts.size() > 1) {
      std::vector<Value*> halves;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) halves.push_back(meet(parts[i], parts[i + 1]));
      if (parts.size() % 2 != 0) halves.push_back(parts.back());
      parts = std::move(halves);
    }
    Value* total = across_lanes(parts[0], meet);
    if (each.unordered != nullptr) {
      Value* found = b_.CreateLoad(each.unordered->getAllocatedType(), each.unordered);
      total = b_.CreateSelect(lanes_.any(found), llvm::ConstantFP::getNaN(total->getType()), total);
    }
    Place place;
    place.slot = each.slot;
    place.linear = each.linear;
    store(place, combine(each.combiner, t, load(place), total));
  }
}

// Halves are combined until one lane is left.
Value* KernelEmitter::across_lanes(Value* v, const std::function<Value*(Value*, Value*)>& meet) {
  for (int width = Lanes::lanes_of(v); width > 1; width /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    v = meet(b_.CreateShuffleVector(v, low), b_.CreateShuffleVector(v, high));
  }
  return b_.CreateExtractElement(v, uint64_t{0});
}

}  // namespace stax::native
