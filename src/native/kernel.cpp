// SPDX-License-Identifier: Apache-2.0
#include "native/kernel.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "emit/scratch.h"
#include "loop/access.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;

KernelEmitter::KernelEmitter(llvm::Module& module, const loop::Kernel& kernel, const std::string& entry,
                             const Machine& machine)
    : module_(module),
      kernel_(kernel),
      entry_(entry),
      b_(module.getContext()),
      lanes_(b_, module, machine),
      index_(lanes_, [this](Expr e) { return loops_.is_nonnegative(e); }) {}

void KernelEmitter::emit() {
  declare_function();
  prepare_buffers();
  emit(kernel_.body);
  // Other threads may read what this one stored past the caches.
  for (const Storage& storage : storage_)
    if (storage.past_caches != nullptr)
      branch(b_.CreateICmpSGE(storage.past_caches, b_.getInt64(0)),
             [&] { b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}); }, {});
  b_.CreateRetVoid();
}

// --- the function and its buffers -----------------------------------------------------------------------------------------

void KernelEmitter::declare_function() {
  llvm::Type* pointer = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(),
                                       {pointer, pointer, b_.getInt64Ty(), b_.getInt64Ty(), pointer, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, entry_, module_);
  function_->setDSOLocal(true);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  lanes_.tune(*function_);
  static constexpr const char* kNames[] = {"buffers", "params", "begin", "end", "scratch", "fault"};
  for (unsigned i = 0; i < 6; ++i) function_->getArg(i)->setName(kNames[i]);
  for (unsigned i : {0U, 1U, 4U, 5U}) function_->addParamAttr(i, llvm::Attribute::NoAlias);
  begin_ = function_->getArg(2);
  end_ = function_->getArg(3);
  scratch_ = function_->getArg(4);
  fault_ = function_->getArg(5);

  llvm::BasicBlock* entry_block = block("entry");
  llvm::BasicBlock* body = block("body");
  b_.SetInsertPoint(entry_block);
  entry_anchor_ = b_.CreateBr(body);
  index_.open_scope(entry_anchor_);
  b_.SetInsertPoint(entry_anchor_);
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    Value* at = b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(1), i);
    llvm::LoadInst* value = b_.CreateLoad(b_.getInt64Ty(), at, kernel_.params[i].symbol().name);
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
    index_.bind(kernel_.params[i], value);
  }
  b_.SetInsertPoint(body);
}

// Results larger than what last-level caches have for one kernel: a plain store reads the line first, and pushes another one out. Vectors that
// are not aligned cannot be stored this way. Products are bounded by arithmetic.
Value* KernelEmitter::past_caches(const loop::Buffer& buffer) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  Expr bytes = kernel_.context->exprs.constant(ir::byte_size(buffer.dtype));
  for (Expr extent : buffer.extents) bytes = bytes * extent;
  return b_.CreateSelect(b_.CreateICmpSGE(index_.value(bytes), b_.getInt64(kLarge)),
                         b_.getInt64(static_cast<uint64_t>(vector_bytes(lanes_.machine().isa) - 1)),
                         b_.getInt64(~uint64_t{0}));
}

void KernelEmitter::prepare_buffers() {
  std::vector<bool> loaded(kernel_.buffers.size());
  loop::visit(kernel_.body, [&](const Stmt& s) {
    loop::visit_scalars(*s, [&](Scalar root) {
      ir::visit(root, [&](Scalar x) {
        if (x->kind == ir::ScalarKind::kLoad) loaded[static_cast<size_t>(x->slot)] = true;
      });
    });
    if (const auto* update = s->as<loop::Update>()) loaded[static_cast<size_t>(update->slot)] = true;
  });
  loop::visit(kernel_.body, [&](const Stmt& s) {
    if (auto* loop = s->as<loop::For>(); loop != nullptr && loop->kind == loop::LoopKind::kVector)
      widest_ = std::max(widest_, width_of(*loop));
  });
  // Buffers never overlap: an alias scope each.
  llvm::MDBuilder metadata(module_.getContext());
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(entry_);
  std::vector<llvm::Metadata*> scopes;
  for (const loop::Buffer& buffer : kernel_.buffers)
    scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer.name));

  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_anchor_);
  const emit::ScratchPlan scratch = emit::plan_scratch(kernel_);
  symbolic::ExprTable& table = kernel_.context->exprs;
  storage_.resize(kernel_.buffers.size());
  for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
    const loop::Buffer& buffer = kernel_.buffers[slot];
    Storage& storage = storage_[slot];
    storage.strides = buffer.strides;
    if (storage.strides.empty()) {
      storage.strides.resize(buffer.extents.size());
      Expr stride = table.constant(1);
      for (size_t axis = buffer.extents.size(); axis-- > 0;) {
        storage.strides[axis] = stride;
        stride = stride * buffer.extents[axis];
      }
    }
    storage.scope = llvm::MDNode::get(module_.getContext(), {scopes[slot]});
    std::vector<llvm::Metadata*> others;
    for (size_t other = 0; other < scopes.size(); ++other) {
      if (other != slot) others.push_back(scopes[other]);
    }
    if (!others.empty()) storage.other_scopes = llvm::MDNode::get(module_.getContext(), others);
    if (slot < static_cast<size_t>(kernel_.arguments)) {
      Value* at = b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), slot);
      llvm::LoadInst* pointer = b_.CreateLoad(b_.getPtrTy(), at, buffer.name);
      pointer->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
      storage.pointer = pointer;
      storage.constant = !buffer.written;
      if (buffer.written && !loaded[slot] && kernel_.kernel_class != "contraction")
        storage.past_caches = past_caches(buffer);
    } else if (scratch.offsets[slot]) {
      storage.pointer = index_.address(scratch_, scratch.offsets[slot], b_.getInt8Ty());
    }
  }
}

llvm::AllocaInst* KernelEmitter::stack_slot(llvm::Type* type, const char* name) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::BasicBlock& entry_block = function_->getEntryBlock();
  b_.SetInsertPoint(&entry_block, entry_block.begin());
  llvm::AllocaInst* slot = b_.CreateAlloca(type, nullptr, name);
  slot->setAlignment(llvm::Align(64));
  return slot;
}

llvm::BasicBlock* KernelEmitter::block(const char* name) {
  return llvm::BasicBlock::Create(module_.getContext(), name, function_);
}

void KernelEmitter::branch(Value* condition, const std::function<void()>& then,
                           const std::function<void()>& otherwise) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne())
      then();
    else if (otherwise)
      otherwise();
    return;
  }
  llvm::BasicBlock* yes = block("then");
  llvm::BasicBlock* no = otherwise ? block("else") : nullptr;
  llvm::BasicBlock* after = block("endif");
  b_.CreateCondBr(condition, yes, no != nullptr ? no : after);
  b_.SetInsertPoint(yes);
  then();
  b_.CreateBr(after);
  if (no != nullptr) {
    b_.SetInsertPoint(no);
    otherwise();
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

// --- statements -----------------------------------------------------------------------------------------------------------

void KernelEmitter::emit(const Stmt& s) {
  std::visit([&](const auto& each) { emit(each); }, s->v);
}

void KernelEmitter::emit(const loop::Block& s) {
  for (const Stmt& each : s.statements) emit(each);
}

void KernelEmitter::emit(const loop::Allocate& s) {
  Storage saved = storage_[static_cast<size_t>(s.slot)];
  Storage& storage = storage_[static_cast<size_t>(s.slot)];
  if (storage.pointer == nullptr) {
    place_on_stack(s.slot);
    storage.guarded_alike = is_guarded_alike(s);
  }
  emit(s.body);
  storage_[static_cast<size_t>(s.slot)] = std::move(saved);
}

// Rows are padded to whole vectors and so is the end, so that a vector that begins inside of a row may be loaded and stored whole.
void KernelEmitter::place_on_stack(int slot) {
  const loop::Buffer& buffer = kernel_.buffers[static_cast<size_t>(slot)];
  Storage& storage = storage_[static_cast<size_t>(slot)];
  symbolic::ExprTable& table = kernel_.context->exprs;
  storage.lanes = vector_ != nullptr ? vector_->range.width : 0;
  int64_t elements = 1;
  if (buffer.strides.empty()) {
    const size_t rank = buffer.extents.size();
    const bool padded =
        storage.lanes == 0 && widest_ > 0 && rank > 0 && (rank == 1 || buffer.extents.back().constant() > 1);
    for (size_t axis = rank; axis-- > 0;) {
      storage.strides[axis] = table.constant(elements);
      int64_t extent = std::max<int64_t>(buffer.extents[axis].constant(), 0);
      if (padded && axis + 1 == rank) {
        storage.row = extent;
        storage.pitch = extent = (extent + widest_ - 1) / widest_ * widest_;
      }
      elements *= extent;
    }
  } else {
    for (size_t axis = 0; axis < buffer.extents.size(); ++axis) {
      elements += std::max<int64_t>(buffer.extents[axis].constant() - 1, 0) * buffer.strides[axis].constant();
    }
  }
  elements = std::max<int64_t>(elements, 1) + (storage.lanes == 0 ? widest_ : 0);
  llvm::Type* element = lanes_.memory_type(buffer.dtype, storage.lanes);
  storage.pointer = stack_slot(llvm::ArrayType::get(element, static_cast<uint64_t>(elements)), "local");
  storage.slots = elements;
}

// Whether to test that any lane runs before doing what is under a mask: not worth it for a few plain stores.
bool KernelEmitter::is_cheap(const Stmt& s) {
  bool cheap = true;
  int weight = 0;
  loop::visit(s, [&](const Stmt& each) {
    if (each->as<loop::For>() != nullptr || each->as<loop::Allocate>() != nullptr) cheap = false;
    loop::visit_scalars(*each, [&](Scalar value) { weight += static_cast<int>(ir::node_count(value)); });
  });
  return cheap && weight <= 24;
}

void KernelEmitter::emit(const loop::If& s) {
  memo_.assign(1, {});
  Value* condition = truth(s.condition);
  if (Lanes::lanes_of(condition) == 0) {
    if (s.else_body)
      branch(condition, [&] { emit(s.then_body); }, [&] { emit(s.else_body); });
    else
      branch(condition, [&] { emit(s.then_body); });
    return;
  }
  auto emit_under = [&](Vector masked, const Stmt& body) {
    Vector* outer = vector_;
    vector_ = &masked;
    if (is_cheap(body))
      emit(body);
    else
      branch(lanes_.any(masked.mask), [&] { emit(body); });
    vector_ = outer;
  };
  emit_under(under(condition, s.condition, true), s.then_body);
  if (s.else_body) emit_under(under(b_.CreateNot(condition), s.condition, false), s.else_body);
}

// If the first iteration of the vector loop is known to run, so is a load that does not move with the loop known to be in bounds.
KernelEmitter::Vector KernelEmitter::under(Value* mask, Scalar condition, bool holds) {
  Vector masked = *vector_;
  masked.mask = lanes_.both(vector_->mask, mask);
  masked.conditional = true;
  masked.may_be_empty = true;
  Expr truth = loop::condition_expr(condition);
  if (masked.safe_loads && truth) {
    symbolic::ExprTable& table = kernel_.context->exprs;
    Expr at_first = symbolic::substitute(index_.resolve(truth), {{vector_->range.var.node(), table.constant(0)}});
    masked.safe_loads = loops_.truth(at_first) == (holds ? symbolic::Truth::kYes : symbolic::Truth::kNo);
  } else {
    masked.safe_loads = false;
  }
  return masked;
}

void KernelEmitter::emit(const loop::Store& s) {
  memo_.assign(1, {});
  Value* value = scalar(s.value);
  store(place_of(s.slot, s.index), value);
}

void KernelEmitter::emit(const loop::Update& s) {
  memo_.assign(1, {});
  Contribution c{s.combiner, kernel_.buffers[static_cast<size_t>(s.slot)].dtype};
  Scalar x, y;
  if (s.combiner == loop::Combiner::kSum && product_of(s.value, c.dtype, x, y)) {
    c.value = scalar(x);
    c.factor = scalar(y);
  } else {
    c.value = scalar(s.value);
  }
  const Place place = place_of(s.slot, s.index);
  if (vector_ == nullptr || storage_[static_cast<size_t>(s.slot)].lanes != 0) {
    store(place, accumulate(c, load(place)));
    return;
  }
  switch (pattern_of(place)) {
    case Pattern::kUniform: reduce_in_lanes(place, c); return;
    case Pattern::kContiguous:
    case Pattern::kReversed: store(place, accumulate(c, load(place))); return;
    case Pattern::kScattered: break;
  }
  if (place.lanes == nullptr) {
    auto affine = symbolic::affine_in(place.linear, vector_->range.var);
    if (affine && affine->coefficient.is_constant()) {  // not 0: the places differ
      store(place, accumulate(c, load(place)));
      return;
    }
  }
  update_lane_by_lane(place, c);
}

void KernelEmitter::emit(const loop::Prefetch& s) {
  constexpr int64_t kLineBytes = 64;
  Value* first = address_of(place_of(s.slot, s.index));
  const loop::Buffer& buffer = kernel_.buffers[static_cast<size_t>(s.slot)];
  const int64_t bytes =
      vector_ == nullptr ? 1 : vector_->range.width * static_cast<int64_t>(ir::byte_size(buffer.dtype));
  for (int64_t offset = 0; offset < bytes; offset += kLineBytes) {
    Value* at = offset == 0 ? first : b_.CreateGEP(b_.getInt8Ty(), first, b_.getInt64(static_cast<uint64_t>(offset)));
    Value* const args[] = {at, b_.getInt32(buffer.written ? 1 : 0), b_.getInt32(s.level == 1 ? 3 : 2), b_.getInt32(1)};
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()}, args);
  }
}

Value* KernelEmitter::accumulate(const Contribution& c, Value* old) {
  const int lanes =
      std::max({Lanes::lanes_of(old), Lanes::lanes_of(c.value), c.factor != nullptr ? Lanes::lanes_of(c.factor) : 0});
  old = lanes_.splat(old, lanes);
  Value* value = lanes_.splat(c.value, lanes);
  if (c.factor != nullptr) return lanes_.multiply_add(value, lanes_.splat(c.factor, lanes), old);
  return combine(c.combiner, c.dtype, old, value);
}

Value* KernelEmitter::combine(loop::Combiner combiner, DType t, Value* x, Value* y) {
  switch (combiner) {
    case loop::Combiner::kSum: return lanes_.op(ScalarOp::kAdd, t, std::array{x, y});
    case loop::Combiner::kProd: return lanes_.op(ScalarOp::kMul, t, std::array{x, y});
    case loop::Combiner::kMin: return lanes_.min(t, x, y);
    case loop::Combiner::kMax: return lanes_.max(t, x, y);
    case loop::Combiner::kAnd: return b_.CreateAnd(x, y);
    case loop::Combiner::kOr: return b_.CreateOr(x, y);
  }
  STAX_UNREACHABLE();
}

// Places that depend on data may coincide: one lane after the other, each seeing what those before have done.
void KernelEmitter::update_lane_by_lane(const Place& place, const Contribution& c) {
  const int width = vector_->range.width;
  llvm::Type* memory = lanes_.memory_type(c.dtype, 0);
  Value* addresses = lane_addresses(place);
  for (int lane = 0; lane < width; ++lane) {
    auto of_lane = [&](Value* v) {
      return v == nullptr || Lanes::lanes_of(v) == 0 ? v : b_.CreateExtractElement(v, static_cast<uint64_t>(lane));
    };
    Value* at = of_lane(addresses);
    if (vector_->mask != nullptr) at = b_.CreateSelect(of_lane(vector_->mask), at, sink());
    Value* old = lanes_.from_memory(c.dtype, tag(b_.CreateLoad(memory, at), place.slot));
    Contribution own = c;
    own.value = of_lane(c.value);
    own.factor = of_lane(c.factor);
    tag(b_.CreateStore(lanes_.to_memory(c.dtype, accumulate(own, old)), at), place.slot);
  }
}

}  // namespace stax::native
