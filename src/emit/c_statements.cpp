// SPDX-License-Identifier: Apache-2.0
// Statements of thread IR in C.
#include "emit/c_functions.h"
#include "emit/c_kernel.h"
#include "support/error.h"

namespace stax::emit {

using ir::Combiner;
using ir::ScalarKind;
using ir::ScalarOp;
using thread::Space;

namespace {

constexpr const char* kComponents[] = {"x", "y", "z", "w"};

// How `bytes` of elements of one type travel: as a vector of words, or as one word.
struct Vector {
  std::string_view word;  // the type of a component
  std::string type;
  int components = 1, items = 1;  // elements in a component
  std::string component(const std::string& vector, int i) const {
    return components == 1 ? vector : vector + "." + kComponents[i];
  }
};

Vector vector_of(DType t, int width) {
  const int size = static_cast<int>(ir::byte_size(t)), bytes = size * width;
  STAX_ASSERT(bytes == 4 || bytes == 8 || bytes == 16, "a vector of {} bytes", bytes);
  Vector v;
  std::string_view prefix = "u32";
  v.word = "u32";
  int word_bytes = 4;
  if (t == DType::kF32) v.word = "float", prefix = "f32";
  if (size == 8)
    v.word = t == DType::kF64 ? "double" : "u64", prefix = t == DType::kF64 ? "f64" : "u64", word_bytes = 8;
  v.components = bytes / word_bytes;
  v.items = word_bytes / size;
  v.type = v.components == 1 ? std::string(v.word) : fmt::format("{}x{}", prefix, v.components);
  return v;
}

// Item k of a word, in storage.
std::string unpacked(DType t, const std::string& word, int k) {
  const int bits = ir::bit_width(t);
  if (bits >= 32) return t == DType::kI32 || t == DType::kI64 ? fmt::format("({}){}", storage_type(t), word) : word;
  return k == 0 ? fmt::format("({}){}", storage_type(t), word)
                : fmt::format("({})({} >> {})", storage_type(t), word, k * bits);
}

std::string packed(DType t, const std::vector<std::string>& items) {
  const int bits = ir::bit_width(t);
  if (bits == 64) return ir::is_float(t) ? items[0] : "(u64)" + items[0];
  if (bits == 32) return ir::is_float(t) ? items[0] : "(u32)" + items[0];
  std::string text;
  for (size_t k = 0; k < items.size(); ++k) {
    const std::string item = fmt::format("(u32)({}){}", unsigned_type(bits), items[k]);
    text += k == 0 ? item : fmt::format(" | {} << {}", item, static_cast<int>(k) * bits);
  }
  return text;
}

std::string combined(Combiner combiner, DType t, const std::string& a, const std::string& b) {
  const std::string_view type = value_type(t), wide = ir::bit_width(t) == 64 ? "u64" : "u32";
  const bool real = ir::is_float(t);
  const auto smaller = [&](std::string_view f, const char* op) {
    if (real) return fmt::format("{}_{}({}, {})", f, t == DType::kF64 ? "f64" : "f32", a, b);
    return fmt::format("{} {} {} ? {} : {}", a, op, b, a, b);
  };
  switch (combiner) {
    case Combiner::kSum:
      if (t == DType::kBool) return fmt::format("{} || {}", a, b);
      return real ? fmt::format("{} + {}", a, b) : fmt::format("({})(({}){} + ({}){})", type, wide, a, wide, b);
    case Combiner::kMin: return smaller("min", "<");
    case Combiner::kMax: return smaller("max", ">");
    case Combiner::kAnd:
      return t == DType::kBool ? fmt::format("{} && {}", a, b) : fmt::format("({})({} & {})", type, a, b);
    case Combiner::kOr:
      return t == DType::kBool ? fmt::format("{} || {}", a, b) : fmt::format("({})({} | {})", type, a, b);
    case Combiner::kProd: break;
  }
  internal_error("an atomic {}", ir::name_of(combiner));
}

}  // namespace

void CKernel::statement(const thread::Stmt& s) {
  begin_statement(*s);
  std::visit([&](const auto& n) { emit(n); }, s->v);
}

void CKernel::body(const thread::Stmt& s) {
  index_scopes_.emplace_back();
  halves_.clear();
  ++depth_;
  statement(s);
  --depth_;
  halves_.clear();
  index_scopes_.pop_back();
}

void CKernel::set_half(int slot, int64_t item, std::optional<Half> half) {
  if (!registers_[static_cast<size_t>(slot)] || ir::byte_size(buffer(slot).dtype) != 2) return;
  const int64_t key = (static_cast<int64_t>(slot) << 32) + item;
  halves_.erase(key);
  if (half) halves_[key] = std::move(*half);
}

const CKernel::Half* CKernel::half_of(int slot, int64_t item) const {
  const auto found = halves_.find((static_cast<int64_t>(slot) << 32) + item);
  return found == halves_.end() ? nullptr : &found->second;
}

std::string CKernel::word_of(int slot, Expr first, int items) {
  if (items == 2 && first.is_constant()) {
    const Half* a = half_of(slot, first.constant());
    const Half* b = half_of(slot, first.constant() + 1);
    if (a != nullptr && b != nullptr) {
      if (a->word == b->word && a->part == 0 && b->part == 1) return a->word;
      if (dialect_.halves != nullptr) return dialect_.halves(a->word, a->part, b->word, b->part);
      const std::string low = a->part == 0 ? fmt::format("({} & 0xffffu)", a->word) : fmt::format("{} >> 16", a->word);
      const std::string high =
          b->part == 0 ? fmt::format("{} << 16", b->word) : fmt::format("({} & 0xffff0000u)", b->word);
      return fmt::format("{} | {}", low, high);
    }
  }
  std::vector<std::string> parts;
  for (int k = 0; k < items; ++k) parts.push_back(local_item(slot, first, k));
  return packed(buffer(slot).dtype, parts);
}

void CKernel::emit(const thread::For& s) {
  STAX_ASSERT(!s.unrolled, "kernel {}: an unrolled loop in the final stage", kernel_.name);
  Index extent = index(s.extent);
  if (!s.extent.is_constant()) extent.text = name(index_type(extent.wide), extent.text);
  const std::string variable = fresh(s.var.symbol().name);
  // What is left of a loop that is written out: compilers that do not see how short it is make more copies than it has iterations.
  constexpr int64_t kShort = 8, kCopies = 4;
  bool is_innermost = true;
  thread::visit(s.body, [&](const thread::Stmt& each) { is_innermost &= each->as<thread::For>() == nullptr; });
  if (!dialect_.unrolled.empty() && is_innermost && !s.extent.is_constant() && s.extent.range().hi < kShort)
    line(fmt::format(fmt::runtime(dialect_.unrolled), kCopies));
  // A loop around others has enough to do: written out, what each copy reads is fetched in front of all of them, and there are no registers left.
  if (!dialect_.unrolled.empty() && !is_innermost && s.extent.is_constant())
    line(fmt::format(fmt::runtime(dialect_.unrolled), 1));
  line(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", index_type(extent.wide), variable, extent.text));
  index_scopes_.emplace_back();
  halves_.clear();
  bind(s.var, {variable, extent.wide});
  ++depth_;
  name_divisions(s.body);
  statement(s.body);
  --depth_;
  halves_.clear();
  index_scopes_.pop_back();
  line("}");
  names_.erase(variable);
}

void CKernel::emit(const thread::Block& s) {
  for (const thread::Stmt& each : s.statements) statement(each);
}

// A few copies in the background whose addresses have a value in all threads.
bool CKernel::is_conditional_copy(const thread::Stmt& s) {
  if (const auto* b = s->as<thread::Block>())
    return !b->statements.empty() && b->statements.size() <= 8 &&
           std::ranges::all_of(b->statements, [&](const thread::Stmt& each) { return is_conditional_copy(each); });
  const auto* copy = s->as<thread::AsyncCopy>();
  return copy != nullptr && target_.async_copy && dialect_.async_copy != nullptr && ir::as_expr(copy->to) &&
         ir::as_expr(copy->from) && !(copy->condition && ir::has_load(copy->condition));
}

void CKernel::emit(const thread::If& s) {
  if (where_.empty() && !s.else_body && is_conditional_copy(s.then_body)) {
    where_ = name("bool", condition(s.condition));
    statement(s.then_body);
    where_.clear();
    return;
  }
  line(fmt::format("if ({}) {{", without_parentheses(condition(s.condition))));
  body(s.then_body);
  if (s.else_body) {
    line("} else {");
    body(s.else_body);
  }
  line("}");
}

void CKernel::emit(const thread::Store& s) {
  const DType t = buffer(s.slot).dtype;
  // A sum of products in place.
  if (const Scalar v = s.value; ir::is_float(t) && v->kind == ScalarKind::kOp && v->op == ScalarOp::kAdd) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Scalar sum = v->args[i], product = v->args[1 - i];
      if (sum->kind != ScalarKind::kLoad || sum->slot != s.slot || sum->args[0] != s.index) continue;
      if (product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul || uses_[product.node()] > 1) continue;
      const std::string a = value(product->args[0]), b = value(product->args[1]), c = value(sum);
      const std::string at = element(s.slot, s.index);
      line(fmt::format("{} = {};", at,
                       to_storage(t, fmt::format("fma_{}({}, {}, {})", t == DType::kF64 ? "f64" : "f32", a, b, c))));
      return;
    }
  }
  // A copy moves the bits.
  std::string stored = s.value->kind == ScalarKind::kLoad ? loaded(s.value) : bits_of(s.value);
  if (stored.empty()) stored = to_storage(t, value(s.value));
  const std::string at = element(s.slot, s.index);
  line(fmt::format("{} = {};", at, without_parentheses(stored)));
  if (!registers_[static_cast<size_t>(s.slot)]) return;
  const Half* moved = nullptr;
  if (s.value->kind == ScalarKind::kLoad && registers_[static_cast<size_t>(s.value->slot)])
    moved = half_of(s.value->slot, ir::as_expr(s.value->args[0]).constant());
  set_half(s.slot, ir::as_expr(s.index).constant(), moved == nullptr ? std::nullopt : std::optional(*moved));
}

std::string CKernel::local_item(int slot, Expr first, int64_t k) {
  const std::string& name = buffer_names_[static_cast<size_t>(slot)];
  if (registers_[static_cast<size_t>(slot)]) return fmt::format("{}_{}", name, first.constant() + k);
  return fmt::format("{}[{}]", name, without_parentheses(index(first + k).text));
}

std::string CKernel::address(int slot, Scalar at, std::string_view as, bool is_const) {
  const std::string_view space = buffer(slot).space == Space::kShared ? dialect_.shared_pointer : dialect_.global;
  if (const std::string bytes = byte_address(slot, at); !bytes.empty())
    return fmt::format("({}{}*)({})", is_const ? "const " : "", as, bytes);
  return fmt::format("({}{}{}{}*)({} + {})", space, space.empty() ? "" : " ", is_const ? "const " : "", as,
                     buffer_names_[static_cast<size_t>(slot)], position(at).text);
}

void CKernel::emit(const thread::LoadVector& s) {
  const thread::Buffer& b = buffer(s.memory);
  STAX_ASSERT(b.dtype == buffer(s.local).dtype, "kernel {}: a vector of {} into {}", kernel_.name, ir::name_of(b.dtype),
              ir::name_of(buffer(s.local).dtype));
  const Vector v = vector_of(b.dtype, s.width);
  const bool read_only = b.space == Space::kGlobal && !b.written && !dialect_.read_only_load.empty();
  const std::string from = read_only ? fmt::format("(const {}*)({})", v.type, pointer_to(s.memory, s.index))
                                     : address(s.memory, s.index, v.type, true);
  const std::string vector = fmt::format("t{}", temporaries_++);
  line(fmt::format("const {} {} = {};", v.type, vector,
                   read_only ? fmt::format(fmt::runtime(dialect_.read_only_load), from) : "*" + from));
  std::string text;
  for (int k = 0; k < s.width; ++k) {
    text += fmt::format("{}{} = {};", k == 0 ? "" : " ", local_item(s.local, s.first, k),
                        unpacked(b.dtype, v.component(vector, k / v.items), k % v.items));
    if (s.first.is_constant())
      set_half(s.local, s.first.constant() + k, Half{v.component(vector, k / v.items), k % v.items});
  }
  line(text);
}

void CKernel::emit(const thread::StoreVector& s) {
  const DType t = buffer(s.memory).dtype;
  STAX_ASSERT(t == buffer(s.local).dtype, "kernel {}: a vector of {} from {}", kernel_.name, ir::name_of(t),
              ir::name_of(buffer(s.local).dtype));
  const Vector v = vector_of(t, s.width);
  const std::string to = address(s.memory, s.index, v.type, false);
  const std::string vector = fmt::format("t{}", temporaries_++);
  std::vector<std::string> components;
  for (int i = 0; i < v.components; ++i) components.push_back(word_of(s.local, s.first + i * v.items, v.items));
  // All at once: a vector that is filled one component after the other begins undefined, which checkers of memory mind.
  const std::string all = fmt::format("{}", fmt::join(components, ", "));
  line(v.components == 1                            ? fmt::format("const {} {} = {};", v.type, vector, all)
       : dialect_.format == ir::CodeFormat::kOpencl ? fmt::format("const {0} {1} = ({0})({2});", v.type, vector, all)
                                                    : fmt::format("const {} {} = {{{}}};", v.type, vector, all));
  line(fmt::format("*{} = {};", to, vector));
}

void CKernel::emit(const thread::Barrier&) { line(dialect_.barrier(global_barriers_)); }

void CKernel::emit(const thread::Shuffle& s) {
  STAX_ASSERT(dialect_.shuffle != nullptr, "kernel {}: this dialect has no shuffles", kernel_.name);
  const DType t = s.value->dtype;
  const std::string type = ir::is_float(t)          ? t == DType::kF64 ? "double" : "float"
                           : ir::bit_width(t) == 64 ? "i64"
                                                    : "int";
  const std::string own = name(type, fmt::format("({}){}", type, value(s.value)));
  const std::string lane = index_in(s.lane, false);
  const std::string got = dialect_.shuffle(s, type, own, lane, target_);
  const std::string as_value =
      t == DType::kBool ? fmt::format("({} != 0)", got) : fmt::format("(({}){})", value_type(t), got);
  line(fmt::format("{} = {};", local_item(s.local, s.first, 0),
                   without_parentheses(to_storage(buffer(s.local).dtype, as_value))));
  if (s.first.is_constant()) set_half(s.local, s.first.constant(), std::nullopt);
}

void CKernel::emit(const thread::Vote& s) {
  STAX_ASSERT(dialect_.vote != nullptr, "kernel {}: this dialect has no votes", kernel_.name);
  const std::string vote = dialect_.vote(s.mode, condition(s.condition), target_);
  line(fmt::format("{} = {};", local_item(s.local, s.first, 0), to_storage(DType::kBool, vote)));
}

// --- atomics --------------------------------------------------------------------------------------------------------------

void CKernel::emit(const thread::Atomic& s) {
  const thread::Buffer& b = buffer(s.slot);
  const std::string operand = value(s.value);
  const std::string function = dialect_.atomic(s.combiner, b.dtype, b.space == Space::kShared, target_);
  if (function.empty()) return swap_loop(s, name(value_type(b.dtype), operand));
  line(fmt::format("{}({} + {}, {});", function, buffer_names_[static_cast<size_t>(s.slot)], position(s.index).text,
                   without_parentheses(operand)));
}

// Tries until nobody was in between. Elements of less than 32 bits change inside of their word.
void CKernel::swap_loop(const thread::Atomic& s, const std::string& operand) {
  const thread::Buffer& b = buffer(s.slot);
  const DType t = b.dtype;
  const int bits = ir::bit_width(t);
  const bool in_shared = b.space == Space::kShared;
  const std::string_view word = bits == 64 ? "u64" : "u32";
  const std::string space =
      std::string(in_shared ? dialect_.shared_pointer : dialect_.global) + (dialect_.global.empty() ? "" : " ");
  const std::string at = fmt::format("{} + {}", buffer_names_[static_cast<size_t>(s.slot)], position(s.index).text);
  line("{");
  ++depth_;
  std::string current, desired;
  const auto bits_of = [&](const std::string& v) {
    if (t == DType::kF32) return fmt::format("float_bits({})", v);
    if (t == DType::kF64) return fmt::format("double_bits({})", v);
    return fmt::format("({}){}", word, v);
  };
  if (bits >= 32) {
    line(fmt::format("{0}volatile {1}* const cell = ({0}volatile {1}*)({2});", space, word, at));
    current = t == DType::kF32   ? "bits_float(seen)"
              : t == DType::kF64 ? "bits_double(seen)"
                                 : fmt::format("({})seen", value_type(t));
    desired = bits_of("next");
  } else {
    line(fmt::format("const u64 byte = (u64)({});", at));
    line(fmt::format("{0}volatile u32* const cell = ({0}volatile u32*)(byte & ~(u64)3);", space));
    line("const u32 shift = (u32)(byte & 3u) * 8u;");
    const std::string stored = fmt::format("({})(seen >> shift)", storage_type(t));
    current = from_storage(t, t == DType::kBool ? "(" + stored + ")" : stored);
    desired = fmt::format("(seen & ~(0x{:x}u << shift)) | (u32)({}){} << shift", (1u << bits) - 1, unsigned_type(bits),
                          to_storage(t, "next"));
  }
  line(fmt::format("{} seen = *cell;", word));
  line("for (;;) {");
  ++depth_;
  line(fmt::format("const {} current = {};", value_type(t), without_parentheses(current)));
  line(fmt::format("const {} next = {};", value_type(t), combined(s.combiner, t, "current", operand)));
  line(fmt::format("const {} old = swap_{}_{}(cell, seen, {});", word, in_shared ? "shared" : "global", word, desired));
  line("if (old == seen) break;");
  line("seen = old;");
  --depth_;
  line("}");
  --depth_;
  line("}");
}

// --- copies in the background ---------------------------------------------------------------------------------------------

void CKernel::emit(const thread::AsyncCopy& s) {
  const thread::Buffer& b = buffer(s.shared);
  const int bytes = static_cast<int>(ir::byte_size(b.dtype)) * s.width;
  const std::string type = bytes == 4 ? "u32" : fmt::format("u32x{}", bytes / 4);
  const std::string chosen = s.condition ? word(s.condition) : std::string();
  const std::string to = address(s.shared, s.to, type, false);
  // An address that has to be read is read where the copy is made only.
  if (target_.async_copy && dialect_.async_copy != nullptr && !(s.condition && is_guarded(s.from))) {
    line(dialect_.async_copy(to, address(s.global, s.from, type, true), bytes, chosen, where_));
    return;
  }
  if (!s.condition) {
    line(fmt::format("*{} = *{};", to, address(s.global, s.from, type, true)));
    return;
  }
  const std::string copied = fmt::format("t{}", temporaries_++);
  line(fmt::format("{} {};", type, copied));
  line(fmt::format("if ({}) {{", chosen));
  ++depth_;
  memo_.emplace_back();
  index_scopes_.emplace_back();
  line(fmt::format("{} = *{};", copied, address(s.global, s.from, type, true)));
  index_scopes_.pop_back();
  memo_.pop_back();
  --depth_;
  line("} else {");
  std::string zeros;
  for (int i = 0; i < bytes / 4; ++i)
    zeros += fmt::format("{}{} = 0u;", i == 0 ? "" : " ", bytes == 4 ? copied : copied + "." + kComponents[i]);
  ++depth_;
  line(zeros);
  --depth_;
  line("}");
  line(fmt::format("*{} = {};", to, copied));
}

void CKernel::emit(const thread::AsyncCommit&) {
  if (target_.async_copy && dialect_.async_copy != nullptr) line(std::string(dialect_.async_commit));
}

void CKernel::emit(const thread::AsyncWait& s) {
  if (target_.async_copy && dialect_.async_copy != nullptr) line(dialect_.async_wait(s.pending));
}

// --- matrix instructions --------------------------------------------------------------------------------------------------

std::vector<std::string> CKernel::fragment_words(const thread::Fragment& f, int items) {
  const DType t = buffer(f.local).dtype;
  const int in_word = std::max(32 / ir::bit_width(t), 1);
  std::vector<std::string> words;
  for (int i = 0; i < items; i += in_word)
    words.push_back(t == DType::kF32 ? fmt::format("float_bits({})", local_item(f.local, f.first, i))
                                     : word_of(f.local, f.first + i, in_word));
  return words;
}

void CKernel::emit(const thread::LoadMatrix& s) {
  STAX_ASSERT(dialect_.load_matrix != nullptr, "kernel {}: this dialect loads no matrices", kernel_.name);
  const DType t = buffer(s.memory).dtype;
  std::vector<std::string> words;
  for (int k = 0; k < s.count; ++k) words.push_back(fmt::format("t{}", temporaries_++));
  line(fmt::format("u32 {};", fmt::join(words, ", ")));
  line(dialect_.load_matrix(words, address(s.memory, s.index, "u32", true), s.transposed));
  std::string text;
  for (int k = 0; k < 2 * s.count; ++k)
    text += fmt::format("{}{} = {};", k == 0 ? "" : " ", local_item(s.local, s.first, k),
                        unpacked(t, words[static_cast<size_t>(k / 2)], k % 2));
  if (s.first.is_constant())
    for (int k = 0; k < 2 * s.count; ++k)
      set_half(s.local, s.first.constant() + k, Half{words[static_cast<size_t>(k / 2)], k % 2});
  line(text);
}

void CKernel::emit(const thread::Mma& s) {
  const thread::MmaInstruction& instruction = thread::mma_instructions()[static_cast<size_t>(s.instruction)];
  STAX_ASSERT(dialect_.mma != nullptr, "kernel {}: this dialect has no matrix instructions", kernel_.name);
  const DType sum = instruction.sum;
  std::vector<std::string> d, c;
  const bool whole = ir::bit_width(sum) == 32;
  const int words = whole ? instruction.c.items : instruction.c.items * ir::bit_width(sum) / 32;
  for (int i = 0; i < words; ++i) {
    d.push_back(whole ? local_item(s.d.local, s.d.first, i) : fmt::format("t{}", temporaries_++));
    if (whole) c.push_back(local_item(s.c.local, s.c.first, i));
  }
  if (!whole) {
    c = fragment_words(s.c, instruction.c.items);
    line(fmt::format("u32 {};", fmt::join(d, ", ")));
  }
  const std::string text = dialect_.mma(instruction, d, fragment_words(s.a, instruction.a.items),
                                        fragment_words(s.b, instruction.b.items), c);
  STAX_ASSERT(!text.empty(), "kernel {}: {} has no {}", kernel_.name, target_.name, instruction.name);
  line(text);
  if (whole) return;
  const int in_word = 32 / ir::bit_width(sum);
  for (int i = 0; i < instruction.c.items; ++i) {
    line(fmt::format("{} = {};", local_item(s.d.local, s.d.first, i),
                     unpacked(sum, d[static_cast<size_t>(i / in_word)], i % in_word)));
    if (s.d.first.is_constant()) set_half(s.d.local, s.d.first.constant() + i, std::nullopt);
  }
}

}  // namespace stax::emit
