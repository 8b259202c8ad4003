// SPDX-License-Identifier: Apache-2.0
// Local buffers in registers. An assignment writes no register: it says which register the element is in from here on.
#include <algorithm>

#include "emit/ptx_kernel.h"
#include "support/error.h"
#include "support/overloaded.h"
#include "thread/mma.h"

namespace stax::emit::ptx {

void KernelEmitter::plan_locals() {
  const std::vector<bool> registers = thread::register_slots(kernel_);
  std::vector<bool> as_vectors(kernel_.buffers.size());
  thread::visit(kernel_.body, [&](const thread::Stmt& s) {
    std::visit(Overloaded{
                   [&](const thread::LoadVector& n) { as_vectors[static_cast<size_t>(n.local)] = true; },
                   [&](const thread::StoreVector& n) { as_vectors[static_cast<size_t>(n.local)] = true; },
                   [&](const thread::LoadMatrix& n) { as_vectors[static_cast<size_t>(n.local)] = true; },
                   [&](const thread::Mma& n) {
                     for (const thread::Fragment& f : {n.d, n.a, n.b, n.c})
                       as_vectors[static_cast<size_t>(f.local)] = true;
                   },
                   [](const auto&) {},
               },
               s->v);
  });
  locals_.resize(kernel_.buffers.size());
  for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
    const thread::Buffer& buffer = kernel_.buffers[slot];
    if (buffer.space != thread::Space::kLocal) continue;
    STAX_ASSERT(buffer.count.is_constant(), "local buffer {} of {} elements", buffer.name, buffer.count.str());
    Local& local = locals_[slot];
    const auto count = static_cast<size_t>(buffer.count.constant());
    const size_t size = ir::byte_size(buffer.dtype);
    if (!registers[slot]) {
      declarations_ += fmt::format("  .local .align 16 .b8 local_{}[{}];\n", slot, std::max<size_t>(count * size, 1));
      continue;
    }
    local.in_registers = true;
    local.words = as_vectors[slot] && size < 4;
    local.cls = local.words ? Class::kB32 : class_of(buffer.dtype);
    local.values.resize(local.words ? (count * size + 3) / 4 : count);
  }
}

int KernelEmitter::unit_of(const Local& local, int slot, int64_t element) const {
  const int64_t unit = local.words ? element / per_word(slot) : element;
  STAX_ASSERT(unit >= 0 && unit < static_cast<int64_t>(local.values.size()), "element {} of local buffer {}", element,
              buffer(slot).name);
  return static_cast<int>(unit);
}

void KernelEmitter::set_unit(Unit u, Operand value) {
  Operand& current = locals_[static_cast<size_t>(u.slot)].values[static_cast<size_t>(u.number)];
  const Operand guard = b_.guard();
  if (guard && current && !(current == value)) {
    const Local& local = locals_[static_cast<size_t>(u.slot)];
    value = ops_.select(local.words ? DType::kU32 : buffer(u.slot).dtype, guard, value, current);
  }
  current = value;
}

Operand KernelEmitter::read_local(int slot, int64_t element) {
  const Local& local = locals_[static_cast<size_t>(slot)];
  const DType t = buffer(slot).dtype;
  const Operand unit = local.values[static_cast<size_t>(unit_of(local, slot, element))];
  // What was never written is anything.
  if (!unit) return t == DType::kF64 ? real64(0) : ir::is_float(t) ? real32(0) : integer(0);
  if (!local.words) return unit;
  const int part = static_cast<int>(element % per_word(slot));
  const Operand word = ops_.in_register(Class::kB32, unit);
  switch (t) {
    case DType::kF16: return ops_.widen(t, b_.half(Class::kB16, "mov.b32", word, part));
    case DType::kBF16:
      if (part == 0) return b_.pure(Class::kF32, "shl.b32", {word, integer(16)});
      return b_.pure(Class::kF32, "and.b32", {word, integer(static_cast<int32_t>(0xFFFF0000))});
    default: break;
  }
  const int bits = ir::bit_width(t);
  const Operand value =
      b_.pure(Class::kB32, ir::is_signed(t) ? "bfe.s32" : "bfe.u32", {word, integer(part * bits), integer(bits)});
  return t == DType::kBool ? b_.pure(Class::kPred, "setp.ne.s32", {value, integer(0)}) : value;
}

void KernelEmitter::write_local(int slot, int64_t element, Operand value) {
  const Local& local = locals_[static_cast<size_t>(slot)];
  const DType t = buffer(slot).dtype;
  const int number = unit_of(local, slot, element);
  if (!local.words) {
    if (t == DType::kF16 || t == DType::kBF16) value = ops_.cast(t, DType::kF32, value);
    set_unit({slot, number}, value);
    return;
  }
  const int part = static_cast<int>(element % per_word(slot));
  const Operand old = local.values[static_cast<size_t>(number)];
  Operand word;
  if (per_word(slot) == 2) {
    const bool is_float = ir::is_float(t);
    const Operand half =
        is_float ? ops_.narrow(t, value) : b_.pure(Class::kB16, "cvt.u16.u32", {ops_.in_register(Class::kB32, value)});
    const Operand other = old ? b_.half(Class::kB16, "mov.b32", ops_.in_register(Class::kB32, old), 1 - part) : half;
    word = b_.join(Class::kB32, "mov.b32", part == 0 ? half : other, part == 0 ? other : half);
  } else {
    if (t == DType::kBool) value = ops_.select(DType::kU32, value, integer(1), integer(0));
    word = b_.pure(Class::kB32, "bfi.b32", {value, old ? old : integer(0), integer(part * 8), integer(8)});
  }
  set_unit({slot, number}, word);
}

void KernelEmitter::store_to_local(int slot, Expr index, Operand value) {
  if (locals_[static_cast<size_t>(slot)].in_registers) return write_local(slot, index.constant(), value);
  store(slot, index_.place(slot, base_of(slot), element_size(slot), index), value);
}

Operand KernelEmitter::word_of(int slot, int64_t first, int index) {
  const Local& local = locals_[static_cast<size_t>(slot)];
  const int size = element_size(slot);
  const Class cls = size == 8 ? Class::kB64 : Class::kB32;
  if (!local.in_registers) {
    const Operand base = base_of(slot);
    Instruction load;
    load.op = size == 8 ? "ld.local.b64" : "ld.local.b32";
    load.layout = Layout::kLoad;
    load.dst = {b_.fresh(cls)};
    load.src = {base};
    load.offset = first * size + static_cast<int64_t>(index) * std::max(size, 4);
    return b_.load(std::move(load), states_[static_cast<size_t>(slot)])[0];
  }
  if (size >= 4) {
    const Operand value = local.values[static_cast<size_t>(unit_of(local, slot, first + index))];
    return ops_.in_register(class_of(buffer(slot).dtype), value ? value : integer(0));
  }
  const int64_t element = first + static_cast<int64_t>(index) * per_word(slot);
  if (element % per_word(slot) == 0) {
    const Operand value = local.values[static_cast<size_t>(unit_of(local, slot, element))];
    return ops_.in_register(cls, value ? value : integer(0));
  }
  // From the middle of one word to that of the next.
  const int shift = static_cast<int>(element % per_word(slot)) * size * 8;
  const auto unit = [&](int64_t e) {
    const Operand value = local.values[static_cast<size_t>(unit_of(local, slot, e))];
    return ops_.in_register(cls, value ? value : integer(0));
  };
  return b_.pure(cls, "shf.r.clamp.b32", {unit(element), unit(element + per_word(slot) - 1), integer(shift)});
}

void KernelEmitter::set_words(int slot, int64_t first, const std::vector<Operand>& words) {
  const Local& local = locals_[static_cast<size_t>(slot)];
  const int size = element_size(slot);
  if (!local.in_registers) {
    const Operand base = base_of(slot);
    for (size_t k = 0; k < words.size(); ++k) {
      Instruction write;
      write.op = size == 8 ? "st.local.b64" : "st.local.b32";
      write.layout = Layout::kStore;
      write.src = {base, words[k]};
      write.offset = first * size + static_cast<int64_t>(k) * std::max(size, 4);
      b_.effect(std::move(write));
    }
    changed(slot);
    return;
  }
  if (size >= 4) {
    for (size_t k = 0; k < words.size(); ++k)
      set_unit({slot, unit_of(local, slot, first + static_cast<int64_t>(k))}, words[k]);
    return;
  }
  const int per = per_word(slot), bits = size * 8;
  for (size_t k = 0; k < words.size(); ++k) {
    const int64_t element = first + static_cast<int64_t>(k) * per;
    if (element % per == 0) {
      set_unit({slot, unit_of(local, slot, element)}, words[k]);
      continue;
    }
    const int part = static_cast<int>(element % per);
    const auto old = [&](int64_t e) {
      const Operand value = local.values[static_cast<size_t>(unit_of(local, slot, e))];
      return value ? value : integer(0);
    };
    const int64_t next = element + per - 1;
    const Operand low =
        b_.pure(Class::kB32, "bfi.b32", {words[k], old(element), integer(part * bits), integer(32 - part * bits)});
    set_unit({slot, unit_of(local, slot, element)}, low);
    const Operand rest = b_.pure(Class::kB32, "shr.u32", {words[k], integer(32 - part * bits)});
    const Operand high = b_.pure(Class::kB32, "bfi.b32", {rest, old(next), integer(0), integer(part * bits)});
    set_unit({slot, unit_of(local, slot, next)}, high);
  }
}

std::set<KernelEmitter::Unit> KernelEmitter::written(const thread::Stmt& root) const {
  std::set<Unit> units;
  const auto add = [&](int slot, Expr first, int64_t count) {
    const Local& local = locals_[static_cast<size_t>(slot)];
    if (buffer(slot).space != thread::Space::kLocal || !local.in_registers) return;
    for (int64_t k = 0; k < count; ++k) units.insert({slot, unit_of(local, slot, first.constant() + k)});
  };
  thread::visit(root, [&](const thread::Stmt& s) {
    std::visit(Overloaded{
                   [&](const thread::Store& n) {
                     if (buffer(n.slot).space == thread::Space::kLocal) add(n.slot, ir::as_expr(n.index), 1);
                   },
                   [&](const thread::LoadVector& n) { add(n.local, n.first, n.width); },
                   [&](const thread::Shuffle& n) { add(n.local, n.first, 1); },
                   [&](const thread::Vote& n) { add(n.local, n.first, 1); },
                   [&](const thread::LoadMatrix& n) { add(n.local, n.first, int64_t{2} * n.count); },
                   [&](const thread::Mma& n) {
                     add(n.d.local, n.d.first, thread::mma_instructions()[static_cast<size_t>(n.instruction)].c.items);
                   },
                   [](const auto&) {},
               },
               s->v);
  });
  return units;
}

}  // namespace stax::emit::ptx
