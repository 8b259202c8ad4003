// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "native/kernel.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;

namespace {

// A row of two thousand channels of floats.
constexpr int64_t kZeroBytes = 8192;

}  // namespace

// --- places ---------------------------------------------------------------------------------------------------------------

KernelEmitter::Place KernelEmitter::place_of(int slot, const std::vector<Scalar>& index) {
  const Storage& storage = storage_[static_cast<size_t>(slot)];
  Place place;
  place.slot = slot;
  place.linear = kernel_.context->exprs.constant(0);
  for (size_t axis = 0; axis < index.size(); ++axis)
    add_index(place, index[axis], index_.resolve(storage.strides[axis]));
  if (vector_ != nullptr) place.linear = index_.split_lanes(place.linear, vector_->range);
  return place;
}

// Sums are taken apart: what is known without data joins the symbolic part, so that base + i is contiguous in i whatever data `base` is.
void KernelEmitter::add_index(Place& place, Scalar index, Expr factor) {
  if (Expr e = ir::as_expr(index)) {
    place.linear = place.linear + index_.resolve(e) * factor;
    return;
  }
  if (index->kind == ir::ScalarKind::kOp) {
    if (index->op == ScalarOp::kAdd || index->op == ScalarOp::kSub) {
      add_index(place, index->args[0], factor);
      add_index(place, index->args[1], index->op == ScalarOp::kSub ? -factor : factor);
      return;
    }
    if (index->op == ScalarOp::kMul) {
      for (size_t side : {size_t{0}, size_t{1}}) {
        Expr e = ir::as_expr(index->args[side]);
        if (!e) continue;
        e = index_.resolve(e);
        if (vector_ != nullptr && symbolic::depends_on(e, vector_->range.var)) continue;
        add_index(place, index->args[1 - side], e * factor);
        return;
      }
    }
  }
  Value* v = scalar(index);
  const int width = Lanes::lanes_of(v);
  Value*& part = width == 0 ? place.offset : place.lanes;
  if (!factor.is_constant(1)) v = b_.CreateMul(v, lanes_.splat(index_.value(factor), width));
  part = part == nullptr ? v : b_.CreateAdd(part, v);
}

KernelEmitter::Pattern KernelEmitter::pattern_of(const Place& place) const {
  if (vector_ == nullptr) return Pattern::kUniform;
  if (place.lanes != nullptr) return Pattern::kScattered;
  if (!symbolic::depends_on(place.linear, vector_->range.var)) return Pattern::kUniform;
  auto affine = symbolic::affine_in(place.linear, vector_->range.var);
  if (!affine) return Pattern::kScattered;
  if (affine->coefficient.is_constant(1)) return Pattern::kContiguous;
  return affine->coefficient.is_constant(-1) ? Pattern::kReversed : Pattern::kScattered;
}

Value* KernelEmitter::address_of(const Place& place) {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  llvm::Type* element = lanes_.memory_type(kernel_.buffers[static_cast<size_t>(place.slot)].dtype, storage.lanes);
  Expr first = vector_ != nullptr ? index_.first_lane(place.linear, vector_->range) : place.linear;
  Value* at = storage.pointer;
  if (place.offset != nullptr) at = b_.CreateGEP(element, at, place.offset);
  if (place.offset == nullptr) return index_.address(at, first, element);
  return b_.CreateGEP(element, at, index_.value(first));
}

Value* KernelEmitter::lane_addresses(const Place& place) {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  llvm::Type* element = lanes_.memory_type(kernel_.buffers[static_cast<size_t>(place.slot)].dtype, 0);
  const int width = vector_->range.width;
  Place start = place;
  Value* steps = place.lanes;
  auto affine = symbolic::affine_in(place.linear, vector_->range.var);
  if (affine && storage.lanes == 0) {
    if (!affine->coefficient.is_constant(0)) {
      llvm::Type* i64 = lanes_.with_lanes(b_.getInt64Ty(), width);
      Value* own = nullptr;
      if (affine->coefficient.is_constant()) {
        std::vector<llvm::Constant*> products;
        for (int lane = 0; lane < width; ++lane)
          products.push_back(b_.getInt64(static_cast<uint64_t>(lane * affine->coefficient.constant())));
        own = llvm::ConstantVector::get(products);
      } else {
        own = b_.CreateMul(lanes_.iota(b_.getInt64Ty(), width), lanes_.splat(index_.value(affine->coefficient), width));
      }
      steps = steps == nullptr ? own : b_.CreateAdd(steps, own);
      STAX_ASSERT(steps->getType() == i64);
    }
  } else {
    Value* own = lanes_.splat(index_.value(place.linear, vector_->range), width);
    steps = steps == nullptr ? own : b_.CreateAdd(steps, own);
    start.linear = kernel_.context->exprs.constant(0);
  }
  if (storage.lanes != 0) {
    // Elements of all lanes lie side by side.
    llvm::Type* i64 = lanes_.with_lanes(b_.getInt64Ty(), width);
    if (place.offset != nullptr) steps = b_.CreateAdd(steps, lanes_.splat(place.offset, width));
    start.offset = nullptr;
    steps = b_.CreateAdd(b_.CreateMul(steps, lanes_.integer(i64, width)), lanes_.iota(b_.getInt64Ty(), width));
  }
  Value* base = address_of(start);
  return steps == nullptr ? lanes_.splat(base, width) : b_.CreateGEP(element, base, steps);
}

// --- loads and stores -----------------------------------------------------------------------------------------------------

Value* KernelEmitter::tag(Value* access, int slot) {
  const Storage& storage = storage_[static_cast<size_t>(slot)];
  auto* instruction = llvm::cast<llvm::Instruction>(access);
  instruction->setMetadata(llvm::LLVMContext::MD_alias_scope, storage.scope);
  if (storage.other_scopes != nullptr) instruction->setMetadata(llvm::LLVMContext::MD_noalias, storage.other_scopes);
  if (storage.constant)
    instruction->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
  return access;
}

Value* KernelEmitter::zeros() {
  if (llvm::GlobalVariable* known = module_.getNamedGlobal("stax.zeros")) return known;
  auto* type = llvm::ArrayType::get(b_.getInt8Ty(), kZeroBytes);
  auto* global = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::PrivateLinkage,
                                          llvm::Constant::getNullValue(type), "stax.zeros");
  global->setAlignment(llvm::Align(64));
  return global;
}

Value* KernelEmitter::sink() {
  if (sink_ == nullptr) sink_ = stack_slot(llvm::ArrayType::get(b_.getInt64Ty(), 8), "sink");
  return sink_;
}

// The whole vector lies inside of the stack slot, at a place known now.
bool KernelEmitter::stays_inside(const Place& place, const LaneRange& range) const {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  if (storage.slots == 0 || place.offset != nullptr) return false;
  Expr first = symbolic::substitute(place.linear, {{range.var.node(), range.base}});
  return first.is_constant() && first.constant() >= 0 && first.constant() + range.width <= storage.slots;
}

bool KernelEmitter::can_mask(DType t) const {
  const Machine& machine = lanes_.machine();
  return machine.masked_access && (ir::byte_size(t) >= 4 || machine.narrow_masks);
}

// The same lanes from the last to the first.
Value* KernelEmitter::reversed(Value* v) {
  std::vector<int> order;
  for (int lane = Lanes::lanes_of(v); lane-- > 0;) order.push_back(lane);
  return b_.CreateShuffleVector(v, order);
}

// Runs f for a place that falls with the loop as for the contiguous one that begins at its last lane.
template <class F>
void KernelEmitter::with_reversed(const Place& place, const F& f) {
  const LaneRange& range = vector_->range;
  Place rising = place;
  Expr last = symbolic::substitute(place.linear, {{range.var.node(), range.base + (range.width - 1)}});
  rising.linear = last + (range.var - range.base);
  Vector turned = *vector_;
  if (turned.mask != nullptr) turned.mask = reversed(turned.mask);
  turned.conditional = true;  // the lanes that do not run come first
  Vector* outer = vector_;
  vector_ = &turned;
  f(rising);
  vector_ = outer;
}

Value* KernelEmitter::load(const Place& place) {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  const DType t = kernel_.buffers[static_cast<size_t>(place.slot)].dtype;
  const llvm::Align align(ir::byte_size(t));
  const Pattern pattern = pattern_of(place);
  if (pattern == Pattern::kUniform) {
    Value* at = address_of(place);
    const bool safe = storage.slots != 0 && place.linear.is_constant() && place.linear.constant() >= 0 &&
                      place.linear.constant() < storage.slots;
    if (vector_ != nullptr && !vector_->safe_loads && !safe)
      at = b_.CreateSelect(lanes_.any(vector_->mask), at, zeros());
    return lanes_.from_memory(t,
                              tag(b_.CreateAlignedLoad(lanes_.memory_type(t, storage.lanes), at, align), place.slot));
  }
  if (pattern == Pattern::kReversed && storage.lanes == 0) {
    Value* result = nullptr;
    with_reversed(place, [&](const Place& rising) { result = reversed(load(rising)); });
    return result;
  }
  if (const auto known = turned_.find({place.slot, place.linear.node()});
      known != turned_.end() && place.lanes == nullptr)
    return known->second;
  const int width = vector_->range.width;
  llvm::Type* type = lanes_.memory_type(t, width);
  Value* mask = vector_->mask;
  if (pattern == Pattern::kContiguous && storage.lanes == 0) {
    if (mask == nullptr || stays_inside(place, vector_->range)) {
      return lanes_.from_memory(t, tag(b_.CreateAlignedLoad(type, address_of(place), align), place.slot));
    }
    if (can_mask(t)) {
      Value* zero = llvm::Constant::getNullValue(type);
      return lanes_.from_memory(t, tag(b_.CreateMaskedLoad(type, address_of(place), align, mask, zero), place.slot));
    }
  }
  Value* addresses = lane_addresses(place);
  if (lanes_.machine().gather && ir::byte_size(t) >= 4) {
    Value* zero = llvm::Constant::getNullValue(type);
    return lanes_.from_memory(t, tag(b_.CreateMaskedGather(type, addresses, align, mask, zero), place.slot));
  }
  if (mask != nullptr) addresses = b_.CreateSelect(mask, addresses, lanes_.splat(zeros(), width));
  Value* result = llvm::PoisonValue::get(type);
  for (int lane = 0; lane < width; ++lane) {
    Value* at = b_.CreateExtractElement(addresses, static_cast<uint64_t>(lane));
    Value* element = tag(b_.CreateAlignedLoad(type->getScalarType(), at, align), place.slot);
    result = b_.CreateInsertElement(result, element, static_cast<uint64_t>(lane));
  }
  return lanes_.from_memory(t, result);
}

// The table is four registers of 32-bit words. Two instructions choose a word each, one from either half by five bits of the index; of the two the
// highest bit chooses, and the lowest two the byte.
Value* KernelEmitter::byte_entry(Scalar s) {
  constexpr int kLanes = 16;
  const loop::Buffer& buffer = kernel_.buffers[static_cast<size_t>(s->slot)];
  if (!lanes_.machine().entries || vector_ == nullptr || ir::byte_size(s->dtype) != 1 || s->dtype == DType::kBool ||
      buffer.extents.size() != 1 || !buffer.extents[0].is_constant(256) || !buffer.strides.empty() ||
      s->args[0]->kind != ir::ScalarKind::kCast || s->args[0]->args[0]->dtype != DType::kU8)
    return nullptr;
  Value* index = scalar(s->args[0]->args[0]);
  const int width = Lanes::lanes_of(index);
  if (width == 0 || storage_[static_cast<size_t>(s->slot)].lanes != 0) return nullptr;
  Value* pointer = storage_[static_cast<size_t>(s->slot)].pointer;
  llvm::Type* words = lanes_.with_lanes(b_.getInt32Ty(), kLanes);
  Value* table[4] = {};
  for (int k = 0; k < 4; ++k) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(64 * k));
    table[k] = tag(b_.CreateAlignedLoad(words, at, llvm::Align(1)), s->slot);
  }
  const auto word = [&](int half, Value* at) {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_d_512, {},
                              {table[2 * half], at, table[2 * half + 1]});
  };
  std::vector<Value*> parts;
  for (int from = 0; from < width; from += kLanes) {
    std::vector<int> own;
    for (int lane = 0; lane < kLanes; ++lane) own.push_back(std::min(from + lane, width - 1));
    Value* place = b_.CreateZExt(b_.CreateShuffleVector(index, own), words);
    Value* at = b_.CreateLShr(place, 2);
    Value* above = b_.CreateICmpUGE(place, lanes_.integer(words, 128));
    Value* chosen = b_.CreateSelect(above, word(1, at), word(0, at));
    Value* shift = b_.CreateShl(b_.CreateAnd(place, lanes_.integer(words, 3)), 3);
    parts.push_back(b_.CreateTrunc(b_.CreateLShr(chosen, shift), lanes_.with_lanes(b_.getInt8Ty(), kLanes)));
  }
  while (parts.size() > 1) {
    std::vector<Value*> pairs;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
      std::vector<int> all(2 * static_cast<size_t>(Lanes::lanes_of(parts[k])));
      std::iota(all.begin(), all.end(), 0);
      pairs.push_back(b_.CreateShuffleVector(parts[k], parts[k + 1], all));
    }
    parts = pairs;
  }
  std::vector<int> first(static_cast<size_t>(width));
  std::iota(first.begin(), first.end(), 0);
  return b_.CreateShuffleVector(parts[0], first);
}

// An element of a padded tensor. Where the address is a choice, no iteration branches, and what is chosen stays the same in loops along what is not
// padded. Null: not of that form.
Value* KernelEmitter::load_or_zero(Scalar s) {
  const Scalar element = s->args[1], zero = s->args[2];
  const Expr condition = loop::condition_expr(s->args[0]);
  if (!condition || element->kind != ir::ScalarKind::kLoad || zero->kind != ir::ScalarKind::kConstant ||
      zero->bits != 0)
    return nullptr;
  const Expr holds = index_.resolve(condition);
  const Storage& storage = storage_[static_cast<size_t>(element->slot)];
  if (!storage.constant || (vector_ != nullptr && symbolic::depends_on(holds, vector_->range.var))) return nullptr;
  for (Scalar i : element->args)
    if (!ir::as_expr(i)) return nullptr;
  const Place place = place_of(element->slot, element->args);
  const Pattern pattern = pattern_of(place);
  if (pattern != Pattern::kUniform && (pattern != Pattern::kContiguous || vector_->mask != nullptr)) return nullptr;
  if (vector_ != nullptr && !vector_->safe_loads) return nullptr;
  const DType t = element->dtype;
  const int width = pattern == Pattern::kUniform ? 0 : vector_->range.width;
  const auto bytes = static_cast<int64_t>(ir::byte_size(t));
  const Expr first = vector_ != nullptr ? index_.first_lane(place.linear, vector_->range) : place.linear;
  Value* at = index_.address_where(holds, storage.pointer, first, lanes_.memory_type(t, 0), zeros(), kZeroBytes / bytes,
                                   std::max(width, 1));
  Value* loaded = b_.CreateAlignedLoad(lanes_.memory_type(t, width), at, llvm::Align(static_cast<uint64_t>(bytes)));
  return lanes_.from_memory(t, tag(loaded, element->slot));
}

void KernelEmitter::store(const Place& place, Value* v) {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  const DType t = kernel_.buffers[static_cast<size_t>(place.slot)].dtype;
  const llvm::Align align(ir::byte_size(t));
  const Pattern pattern = pattern_of(place);
  if (vector_ == nullptr || (pattern == Pattern::kUniform && storage.lanes == 0 && Lanes::lanes_of(v) == 0)) {
    Value* at = address_of(place);
    if (vector_ != nullptr && vector_->may_be_empty) at = b_.CreateSelect(lanes_.any(vector_->mask), at, sink());
    tag(b_.CreateAlignedStore(lanes_.to_memory(t, v), at, align), place.slot);
    return;
  }
  if (pattern == Pattern::kReversed && storage.lanes == 0) {
    with_reversed(place, [&](const Place& rising) { store(rising, reversed(lanes_.splat(v, vector_->range.width))); });
    return;
  }
  const int width = vector_->range.width;
  Value* mask = vector_->mask;
  Value* memory = lanes_.splat(lanes_.to_memory(t, v), width);
  const bool own_lane = storage.lanes != 0 && pattern == Pattern::kUniform;
  if (own_lane || (pattern == Pattern::kContiguous && storage.lanes == 0)) {
    if (mask == nullptr) {
      store_vector(place, address_of(place), memory, align);
      return;
    }
    if (own_lane || stays_inside(place, vector_->range)) {
      Value* at = address_of(place);
      const bool is_free =
          vector_->conditional ? storage.guarded_alike && vector_->live == 0 : spills_into_padding(place);
      if (!own_lane && is_free) {
        tag(b_.CreateAlignedStore(memory, at, align), place.slot);
        return;
      }
      Value* old = tag(b_.CreateAlignedLoad(memory->getType(), at, align), place.slot);
      tag(b_.CreateAlignedStore(b_.CreateSelect(mask, memory, old), at, align), place.slot);
      return;
    }
    if (can_mask(t)) {
      tag(b_.CreateMaskedStore(memory, address_of(place), align, mask), place.slot);
      return;
    }
  }
  Value* addresses = lane_addresses(place);
  if (lanes_.machine().gather && ir::byte_size(t) >= 4) {
    if (mask == nullptr) mask = lanes_.integer(lanes_.with_lanes(b_.getInt1Ty(), width), 1);
    tag(b_.CreateMaskedScatter(memory, addresses, align, mask), place.slot);
    return;
  }
  if (mask != nullptr) addresses = b_.CreateSelect(mask, addresses, lanes_.splat(sink(), width));
  for (int lane = 0; lane < width; ++lane) {
    Value* element = b_.CreateExtractElement(memory, static_cast<uint64_t>(lane));
    tag(b_.CreateAlignedStore(element, b_.CreateExtractElement(addresses, static_cast<uint64_t>(lane)), align),
        place.slot);
  }
}

void KernelEmitter::store_vector(const Place& place, Value* at, Value* memory, llvm::Align align) {
  const auto plain = [&] { tag(b_.CreateAlignedStore(memory, at, align), place.slot); };
  const int64_t natural = vector_bytes(lanes_.machine().isa);
  const int64_t bytes = static_cast<int64_t>(module_.getDataLayout().getTypeStoreSize(memory->getType()));
  Value* past_caches = storage_[static_cast<size_t>(place.slot)].past_caches;
  if (past_caches == nullptr || bytes % natural != 0) return plain();
  Value* low = b_.CreateAnd(b_.CreatePtrToInt(at, b_.getInt64Ty()), past_caches);
  branch(
      b_.CreateICmpEQ(low, b_.getInt64(0)),
      [&] {
        llvm::StoreInst* store = b_.CreateAlignedStore(memory, at, llvm::Align(static_cast<uint64_t>(natural)));
        store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                           llvm::MDNode::get(module_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
        tag(store, place.slot);
      },
      plain);
}

// All lanes that do not run lie in the padding of their row, which nobody reads.
bool KernelEmitter::spills_into_padding(const Place& place) const {
  const Storage& storage = storage_[static_cast<size_t>(place.slot)];
  if (vector_->live == 0 || storage.pitch == 0) return false;
  Expr first = symbolic::substitute(place.linear, {{vector_->range.var.node(), vector_->range.base}});
  if (!first.is_constant()) return false;
  const int64_t column = first.constant() % storage.pitch;
  return column + vector_->live >= storage.row && column + vector_->range.width <= storage.pitch;
}

}  // namespace stax::native
