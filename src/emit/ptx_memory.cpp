// SPDX-License-Identifier: Apache-2.0
// Global, shared and indexed local memory in PTX.
#include <algorithm>

#include "emit/ptx_kernel.h"
#include "support/error.h"

namespace stax::emit::ptx {

using ir::ScalarKind;
using thread::Space;

namespace {

// How an element is read and written, and the class of the register.
struct Access {
  const char* load;
  const char* store;
  Class cls;
};

Access access_of(DType t) {
  switch (t) {
    case DType::kBool:
    case DType::kU8: return {"u8", "u8", Class::kB32};
    case DType::kI8: return {"s8", "u8", Class::kB32};
    case DType::kI16: return {"s16", "u16", Class::kB32};
    case DType::kU16: return {"u16", "u16", Class::kB32};
    case DType::kI32:
    case DType::kU32: return {"b32", "b32", Class::kB32};
    case DType::kI64:
    case DType::kU64: return {"b64", "b64", Class::kB64};
    case DType::kF16:
    case DType::kBF16: return {"u16", "b16", Class::kB32};  // read into whole words, which choices and shifts take
    case DType::kF32: return {"f32", "f32", Class::kF32};
    case DType::kF64: return {"f64", "f64", Class::kF64};
  }
  STAX_UNREACHABLE();
}

}  // namespace

void KernelEmitter::changed_all() {
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    const thread::Buffer& buffer = kernel_.buffers[slot];
    if (buffer.space != Space::kGlobal || buffer.written) states_[slot] = ++state_;
  }
}

Operand KernelEmitter::base_of(int slot) {
  const thread::Buffer& b = buffer(slot);
  switch (b.space) {
    case Space::kGlobal: {
      const Operand address =
          b_.pure(Class::kB64, "ld.param.u64", {b_.name(fmt::format("[{}_{}]", kernel_.name, slot))});
      return b_.pure(Class::kB64, "cvta.to.global.u64", {address});
    }
    case Space::kLocal: return b_.pure(Class::kB64, "mov.u64", {b_.name(fmt::format("local_{}", slot))});
    case Space::kShared: break;
  }
  if (b.count.is_constant()) return b_.pure(Class::kB32, "mov.u32", {b_.name(fmt::format("shared_{}", slot))});
  Expr bytes = b.count.table().constant(0);
  for (int other = 0; other < slot; ++other) {
    const thread::Buffer& before = buffer(other);
    if (before.space == Space::kShared && !before.count.is_constant())
      bytes = symbolic::ceildiv(bytes + before.count * element_size(other), 16) * 16;
  }
  const Operand start = b_.pure(Class::kB32, "mov.u32", {b_.name("dynamic_shared")});
  const Operand offset = index_.low32(bytes);
  return offset.is_int(0) ? start : b_.pure(Class::kB32, "add.s32", {start, offset});
}

std::string KernelEmitter::space_of(int slot, bool load) const {
  switch (buffer(slot).space) {
    case Space::kGlobal: return load && !buffer(slot).written ? "global.nc" : "global";
    case Space::kShared: return "shared";
    case Space::kLocal: return "local";
  }
  STAX_UNREACHABLE();
}

// An index that depends on data is a sum: what is known without data goes the way of all addresses, the rest is added.
Place KernelEmitter::place_of(int slot, Scalar index) {
  const int size = element_size(slot);
  if (Expr e = ir::as_expr(index)) return index_.place(slot, base_of(slot), size, e);
  std::vector<Scalar> parts = {index}, data;
  Expr known;
  while (!parts.empty()) {
    const Scalar part = parts.back();
    parts.pop_back();
    if (Expr e = ir::as_expr(part)) {
      known = known ? known + e : e;
    } else if (part->kind == ScalarKind::kOp && part->op == ScalarOp::kAdd) {
      parts.insert(parts.end(), part->args.begin(), part->args.end());
    } else {
      data.push_back(part);
    }
  }
  Place place = known ? index_.place(slot, base_of(slot), size, known) : Place{base_of(slot), 0};
  const bool wide = place.base.cls == Class::kB64;
  for (Scalar part : data) {
    if (!wide) {
      place.base =
          b_.pure(Class::kB32, "mad.lo.s32", {ops_.in_register(Class::kB32, low32(part)), integer(size), place.base});
    } else if (kernel_.index_bits == 32) {
      place.base =
          b_.pure(Class::kB64, "mad.wide.s32", {ops_.in_register(Class::kB32, low32(part)), integer(size), place.base});
    } else {
      place.base =
          b_.pure(Class::kB64, "mad.lo.s64", {ops_.in_register(Class::kB64, scalar(part)), integer(size), place.base});
    }
  }
  return place;
}

Operand KernelEmitter::load(int slot, Place at) {
  const DType t = buffer(slot).dtype;
  const Access access = access_of(t);
  Instruction i;
  i.op = fmt::format("ld.{}.{}", space_of(slot, true), access.load);
  i.layout = Layout::kLoad;
  i.dst = {b_.fresh(access.cls)};
  i.src = {at.base};
  i.offset = at.offset;
  const Operand raw = b_.load(std::move(i), states_[static_cast<size_t>(slot)])[0];
  switch (t) {
    case DType::kBool: return b_.pure(Class::kPred, "setp.ne.s32", {raw, integer(0)});
    case DType::kF16:
    case DType::kBF16: return ops_.widen(t, raw);
    default: return raw;
  }
}

Operand KernelEmitter::to_memory(int slot, Operand value, std::string& type) {
  const DType t = buffer(slot).dtype;
  const Access access = access_of(t);
  type = access.store;
  if (t == DType::kBool) return ops_.in_register(Class::kB32, ops_.select(DType::kU32, value, integer(1), integer(0)));
  if (t == DType::kF16 || t == DType::kBF16) return ops_.narrow(t, value);
  return ops_.in_register(access.cls, value);
}

void KernelEmitter::store(int slot, Place at, Operand value) {
  Instruction i;
  std::string type;
  const Operand raw = to_memory(slot, value, type);
  i.op = fmt::format("st.{}.{}", space_of(slot, false), type);
  i.layout = Layout::kStore;
  i.src = {at.base, raw};
  i.offset = at.offset;
  b_.effect(std::move(i));
  changed(slot);
}

// --- vectors --------------------------------------------------------------------------------------------------------------

void KernelEmitter::load_vector(const thread::LoadVector& s) {
  const int size = element_size(s.memory), bytes = size * s.width;
  const bool wide = size == 8, real = buffer(s.memory).dtype == DType::kF32 || buffer(s.memory).dtype == DType::kF64;
  const int count = bytes / (wide ? 8 : 4);
  const Place at = place_of(s.memory, s.index);
  Instruction i;
  i.op = fmt::format("ld.{}{}.{}{}", space_of(s.memory, true), count == 1 ? "" : fmt::format(".v{}", count),
                     real ? 'f' : 'b', wide ? 64 : 32);
  i.layout = Layout::kLoad;
  const Class cls = real ? class_of(buffer(s.memory).dtype) : wide ? Class::kB64 : Class::kB32;
  for (int k = 0; k < count; ++k) i.dst.push_back(b_.fresh(cls));
  i.src = {at.base};
  i.offset = at.offset;
  set_words(s.local, s.first.constant(), b_.load(std::move(i), states_[static_cast<size_t>(s.memory)]));
}

void KernelEmitter::store_vector(const thread::StoreVector& s) {
  const int size = element_size(s.memory), bytes = size * s.width;
  const bool wide = size == 8, real = buffer(s.memory).dtype == DType::kF32 || buffer(s.memory).dtype == DType::kF64;
  const int count = bytes / (wide ? 8 : 4);
  const Place at = place_of(s.memory, s.index);
  Instruction i;
  i.op = fmt::format("st.{}{}.{}{}", space_of(s.memory, false), count == 1 ? "" : fmt::format(".v{}", count),
                     real ? 'f' : 'b', wide ? 64 : 32);
  i.layout = Layout::kStore;
  i.src = {at.base};
  for (int k = 0; k < count; ++k) i.src.push_back(word_of(s.local, s.first.constant(), k));
  i.offset = at.offset;
  b_.effect(std::move(i));
  changed(s.memory);
}

void KernelEmitter::load_matrix(const thread::LoadMatrix& s) {
  const Place at = place_of(s.memory, s.index);
  Instruction i;
  i.op = fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16", s.count, s.transposed ? ".trans" : "");
  i.layout = Layout::kMatrix;
  for (int k = 0; k < s.count; ++k) i.dst.push_back(b_.fresh(Class::kB32));
  i.src = {at.base};
  i.offset = at.offset;
  const std::vector<Operand> words = i.dst;
  // Rows come from lanes all over the warp: what a barrier orders may not be moved.
  b_.effect(std::move(i));
  set_words(s.local, s.first.constant(), words);
}

void KernelEmitter::async_copy(const thread::AsyncCopy& s) {
  STAX_ASSERT(target_.async_copy, "kernel {}: {} has no asynchronous copies", kernel_.name, target_.name);
  const int bytes = element_size(s.global) * s.width;
  const Operand p = s.condition ? truth(s.condition) : Operand{};
  const Place to = place_of(s.shared, s.to), from = place_of(s.global, s.from);
  Instruction i;
  i.op = bytes == 16 ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global";
  i.layout = Layout::kCopy;
  i.src = {to.base, from.base, integer(bytes)};
  i.offset = to.offset;
  i.other_offset = from.offset;
  if (p && !p.is_int(1)) i.src.push_back(ops_.select(DType::kU32, p, integer(bytes), integer(0)));
  b_.effect(std::move(i));
  changed(s.shared);
}

// --- atomics --------------------------------------------------------------------------------------------------------------

void KernelEmitter::atomic(const thread::Atomic& s) {
  const DType t = buffer(s.slot).dtype;
  const Operand value = scalar(s.value);
  const Place at = place_of(s.slot, s.index);
  const bool number = ir::is_integer(t) && ir::bit_width(t) >= 32;
  const int bits = ir::bit_width(t);
  std::string op;
  switch (s.combiner) {
    case ir::Combiner::kSum:
      if (number) op = fmt::format("add.u{}", bits);
      if (t == DType::kF32 || t == DType::kF64) op = fmt::format("add.f{}", bits);
      if (t == DType::kF16) op = "add.noftz.f16";
      if (t == DType::kBF16 && sm_ >= 90) op = "add.noftz.bf16";
      break;
    case ir::Combiner::kMin:
    case ir::Combiner::kMax:
      if (number)
        op = fmt::format("{}.{}{}", s.combiner == ir::Combiner::kMin ? "min" : "max", ir::is_signed(t) ? 's' : 'u',
                         bits);
      break;
    case ir::Combiner::kAnd:
    case ir::Combiner::kOr:
      if (number) op = fmt::format("{}.b{}", s.combiner == ir::Combiner::kAnd ? "and" : "or", bits);
      break;
    case ir::Combiner::kProd: break;
  }
  if (op.empty()) return atomic_by_loop(s, at, value);
  std::string type;
  Instruction i;
  // red of f16 is one of pairs of lanes in all but name: the form with a result is the one that takes a single one everywhere.
  const bool with_result = t == DType::kF16 || t == DType::kBF16;
  i.op = fmt::format("{}.{}.{}", with_result ? "atom" : "red", space_of(s.slot, false), op);
  i.layout = Layout::kAtomic;
  if (with_result) i.dst = {b_.fresh(Class::kB16)};
  i.src = {at.base, to_memory(s.slot, value, type)};
  i.offset = at.offset;
  b_.effect(std::move(i));
  changed(s.slot);
}

// Compare and swap of the word that holds the element, until no other thread was faster.
void KernelEmitter::atomic_by_loop(const thread::Atomic& s, Place at, Operand value) {
  const DType t = buffer(s.slot).dtype;
  const int size = element_size(s.slot);
  const bool wide_address = at.base.cls == Class::kB64, wide = size == 8;
  const Class address_class = wide_address ? Class::kB64 : Class::kB32, cls = wide ? Class::kB64 : Class::kB32;
  const std::string space = space_of(s.slot, false);
  const int after = b_.new_label();
  const Operand guard = b_.guard();
  if (guard) b_.branch(after, guard, true);
  b_.set_guard({});
  b_.open(Builder::Kind::kBranch);
  value = ops_.in_register(class_of(t), value);
  Operand address = at.offset == 0
                        ? at.base
                        : b_.pure(address_class, wide_address ? "add.s64" : "add.s32", {at.base, integer(at.offset)});
  Operand shift = integer(0);
  if (size < 4) {
    const Operand low = wide_address ? b_.pure(Class::kB32, "cvt.u32.u64", {address}) : address;
    shift = b_.pure(Class::kB32, "shl.b32", {b_.pure(Class::kB32, "and.b32", {low, integer(3)}), integer(3)});
    address = b_.pure(address_class, wide_address ? "and.b64" : "and.b32", {address, integer(-4)});
  }
  Instruction first;
  first.op = fmt::format("ld.volatile.{}.{}", space, wide ? "b64" : "b32");
  first.layout = Layout::kLoad;
  first.dst = {b_.fresh(cls)};
  first.src = {address};
  const Operand start = first.dst[0];
  b_.effect(std::move(first));
  const auto unpack = [&](Operand word) -> Operand {
    if (size >= 4) return word;
    const Operand bits = b_.pure(Class::kB32, "shr.u32", {word, shift});
    if (ir::is_float(t)) return ops_.widen(t, b_.pure(Class::kB16, "cvt.u16.u32", {bits}));
    const Operand part =
        b_.pure(Class::kB32, ir::is_signed(t) ? "bfe.s32" : "bfe.u32", {bits, integer(0), integer(size * 8)});
    return t == DType::kBool ? b_.pure(Class::kPred, "setp.ne.s32", {part, integer(0)}) : part;
  };
  const auto pack = [&](Operand word, Operand element) -> Operand {
    if (size >= 4) return element;
    std::string type;
    Operand raw = to_memory(s.slot, element, type);
    if (raw.cls == Class::kB16) raw = b_.pure(Class::kB32, "cvt.u32.u16", {raw});
    return b_.pure(Class::kB32, "bfi.b32", {raw, word, shift, integer(size * 8)});
  };
  static constexpr ScalarOp kCombine[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMin,
                                          ScalarOp::kMax, ScalarOp::kAnd, ScalarOp::kOr};
  ops_.repeat({start}, [&](std::vector<Operand>& state) {
    const Operand args[2] = {unpack(state[0]), value};
    const Operand combined = pack(state[0], ops_.op(kCombine[static_cast<size_t>(s.combiner)], t, args));
    Instruction swap;
    swap.op = fmt::format("atom.{}.cas.{}", space, wide ? "b64" : "b32");
    swap.layout = Layout::kAtomic;
    swap.dst = {b_.fresh(cls)};
    swap.src = {address, state[0], ops_.in_register(cls, combined)};
    const Operand seen = swap.dst[0];
    b_.effect(std::move(swap));
    const Operand again = b_.pure(Class::kPred, wide ? "setp.ne.s64" : "setp.ne.s32", {seen, state[0]});
    state[0] = seen;
    return again;
  });
  b_.append(close());
  if (guard) b_.label(after);
  b_.set_guard(guard);
  changed(s.slot);
}

}  // namespace stax::emit::ptx
