// SPDX-License-Identifier: Apache-2.0
// Scalars in C.
#include <algorithm>

#include "emit/c_functions.h"
#include "emit/c_kernel.h"
#include "emit/scalar_bounds.h"
#include "ir/math_table.h"
#include "support/error.h"

namespace stax::emit {

using ir::ScalarKind;
using ir::ScalarNode;
using ir::ScalarOp;

namespace {

// Lines longer than this are broken by a name.
constexpr size_t kLongExpression = 110;

std::string_view suffix_of(DType t) { return t == DType::kF64 ? "f64" : "f32"; }

bool is_float_constant(Scalar s, double value) {
  return s->kind == ScalarKind::kConstant && ir::is_float(s->dtype) && s->as_double() == value;
}

// Whether text is one parenthesized expression.
bool is_wrapped(const std::string& text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  int depth = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return false;
  }
  return true;
}

}  // namespace

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

std::string without_parentheses(const std::string& text) {
  return is_wrapped(text) ? text.substr(1, text.size() - 2) : text;
}

// --- names ----------------------------------------------------------------------------------------------------------------

void CKernel::count(Scalar s) {
  if (!s) return;
  // Arguments count once for each node that uses them, as a node is written once.
  if (++uses_[s.node()] > 1) return;
  for (Scalar arg : s->args) count(arg);
}

void CKernel::begin_statement(const thread::StmtNode& s) {
  // What one statement names is of no use to the next: memory may have changed.
  memo_.assign(1, {});
  uses_.clear();
  guarded_.clear();
  always_.clear();
  thread::for_each_scalar(s, [&](Scalar root) { count(root); });
}

std::string CKernel::name(std::string_view type, const std::string& text) {
  if (is_word(text)) return text;
  const std::string named = fmt::format("t{}", temporaries_++);
  line(fmt::format("const {} {} = {};", type, named, without_parentheses(text)));
  return named;
}

std::string CKernel::value(Scalar s) {
  for (size_t i = memo_.size(); i-- > 0;)
    if (const auto known = memo_[i].find(s.node()); known != memo_[i].end()) return known->second;
  std::string text = compute(s);
  if (s->kind != ScalarKind::kConstant && (uses_[s.node()] > 1 || text.size() > kLongExpression))
    text = name(value_type(s->dtype), text);
  memo_.back()[s.node()] = text;
  return text;
}

std::string CKernel::word(Scalar s) {
  const std::string text = value(s);
  if (s->kind == ScalarKind::kConstant || is_word(text)) return text;
  return memo_.back()[s.node()] = name(value_type(s->dtype), text);
}

std::string CKernel::condition(Scalar s) {
  STAX_ASSERT(s->dtype == DType::kBool, "a condition of type {}", ir::name_of(s->dtype));
  return value(s);
}

std::string CKernel::compute(Scalar s) {
  switch (s->kind) {
    case ScalarKind::kConstant:
      if (ir::is_float(s->dtype)) return c_float(s->as_double(), s->dtype == DType::kF64);
      return c_int(s->dtype, s->as_int());
    case ScalarKind::kIndex: return index_in(s->index, true);
    case ScalarKind::kLoad: return load(s);
    case ScalarKind::kAccumulator: internal_error("an accumulator outside of an epilogue");
    case ScalarKind::kCast: return cast(s);
    case ScalarKind::kOp: return operation(s);
  }
  STAX_UNREACHABLE();
}

// --- memory ---------------------------------------------------------------------------------------------------------------

std::string CKernel::from_storage(DType t, const std::string& text) const {
  switch (t) {
    case DType::kBool: return "(" + text + " != 0)";
    case DType::kF16: return "f16_to_f32(" + text + ")";
    case DType::kBF16: return "bf16_to_f32(" + text + ")";
    default: return text;
  }
}

std::string CKernel::to_storage(DType t, const std::string& text) const {
  switch (t) {
    case DType::kBool: return "(u8)" + text;
    case DType::kF16: return "f32_to_f16(" + without_parentheses(text) + ")";
    case DType::kBF16: return "f32_to_bf16(" + without_parentheses(text) + ")";
    default: return text;
  }
}

// Positions in memory lie in the range of an index, so sums and products on the way may be computed in its width: the upper bits of what is
// added and multiplied never reach the lower ones.
CKernel::Index CKernel::position(Scalar s) {
  if (s->kind == ScalarKind::kIndex) return index(s->index);
  if (s->kind == ScalarKind::kConstant) return index(kernel_.context->exprs.constant(s->as_int()));
  if (wide_) return {value(s), true};
  if (const bool known = std::any_of(memo_.begin(), memo_.end(), [&](const auto& m) { return m.contains(s.node()); });
      known)
    return {"(int)" + value(s), false};
  if (s->kind == ScalarKind::kOp && uses_[s.node()] <= 1) {
    const auto both = [&](std::string_view op) -> Index {
      return {fmt::format("((int)((u32){} {} (u32){}))", position(s->args[0]).text, op, position(s->args[1]).text),
              false};
    };
    if (s->op == ScalarOp::kAdd) return both("+");
    if (s->op == ScalarOp::kSub) return both("-");
    if (s->op == ScalarOp::kMul) return both("*");
  }
  if (s->kind == ScalarKind::kCast && (s->args[0]->dtype == DType::kI32 || s->args[0]->dtype == DType::kU32))
    return {value(s->args[0]), false};
  return {"(int)" + value(s), false};
}

std::string CKernel::place(Scalar s) { return without_parentheses(position(s).text); }

namespace {

constexpr int64_t kMostOffset = 4096;  // bytes that an instruction adds to an address by itself

// An address as a part that threads differ in, or iterations do, a part that is of parameters alone, and a number.
struct Offset {
  Expr moving, uniform, constant;
};
std::optional<Offset> offset_of(Scalar at) {
  const Expr e = ir::as_expr(at);
  if (!e || e.kind() != symbolic::ExprKind::kAdd) return std::nullopt;
  const Expr none = e.table().constant(0);
  Offset found{none, none, none};
  for (Expr term : e.args()) {
    const bool is_uniform = std::ranges::all_of(symbolic::free_symbols(term),
                                                [](Expr s) { return s.symbol().kind == symbolic::SymbolKind::kParam; });
    Expr& part = term.is_constant() ? found.constant : is_uniform ? found.uniform : found.moving;
    part = part + term;
  }
  return found;
}
// The same, where no part may be negative, so that it could leave the range of an index where the whole does not.
std::optional<Offset> pointer_offset_of(Scalar at) {
  const auto offset = offset_of(at);
  if (!offset) return std::nullopt;
  for (Expr part : {offset->moving, offset->uniform, offset->constant})
    if (part.range().lo < 0) return std::nullopt;
  return offset;
}
// The same for bytes behind a pointer: what moves begins at 0. What is negative by a little is so by a constant, which is for the instruction.
std::optional<Offset> byte_offset_of(Scalar at, int64_t size) {
  auto offset = offset_of(at);
  if (!offset || offset->uniform.range().lo < 0) return std::nullopt;
  if (const int64_t least = offset->moving.range().lo; least < 0) {
    if (least < -kMostOffset) return std::nullopt;
    offset->moving = offset->moving - least, offset->constant = offset->constant + least;
  }
  if (std::abs(offset->constant.constant()) * size >= kMostOffset) return std::nullopt;
  return offset;
}

}  // namespace

// Arguments have at most 2^30 elements where indices have 32 bits; what is constant of an offset is for the instruction. Where a loop reads at several
// numbers of parameters behind the same offset, each goes to a pointer that all threads have, so that one offset moves for all of them.
std::string CKernel::byte_address(int slot, Scalar at) {
  const thread::Buffer& b = buffer(slot);
  const auto size = static_cast<int64_t>(ir::byte_size(b.dtype));
  if (!dialect_.byte_offsets || wide_ || size > 4 || slot >= kernel_.arguments - kernel_.scratch) return {};
  std::string base = buffer_names_[static_cast<size_t>(slot)], moving;
  int64_t constant = 0;
  const Expr e = ir::as_expr(at);
  const auto offset = byte_offset_of(at, size);
  const auto found = offset ? offsets_.find({slot, offset->moving.node()}) : offsets_.end();
  if (found != offsets_.end() && found->second.size() > 1) {
    moving = index(offset->moving).text;
    constant = offset->constant.constant();
    if (!offset->uniform.is_constant(0)) base = fmt::format("({} + {})", base, index(offset->uniform).text);
  } else if (e) {
    Expr rest = e;
    if (e.kind() == symbolic::ExprKind::kAdd)
      for (Expr term : e.args())
        if (term.is_constant() && std::abs(term.constant()) * size < kMostOffset && (e - term).range().lo >= 0)
          rest = e - term, constant = term.constant();
    moving = index(rest).text;
  } else {
    moving = position(at).text;
  }
  std::string text = fmt::format("({}char*){} + (u32){} * {}u", b.written ? "" : "const ", base, moving, size);
  if (constant != 0) text += fmt::format(" {} {}", constant < 0 ? '-' : '+', std::abs(constant) * size);
  return text;
}

void CKernel::find_offsets() {
  if (dialect_.kept_pointer.empty() && !dialect_.byte_offsets) return;
  const auto add = [&](int slot, Scalar at) {
    if (buffer(slot).space != thread::Space::kGlobal) return;
    const auto offset = dialect_.byte_offsets
                            ? byte_offset_of(at, static_cast<int64_t>(ir::byte_size(buffer(slot).dtype)))
                            : pointer_offset_of(at);
    if (offset) offsets_[{slot, offset->moving.node()}][offset->uniform.node()].insert(offset->constant.constant());
  };
  const auto visit_reads = [&](const thread::Stmt& s) {
    if (const auto* n = s->as<thread::LoadVector>()) add(n->memory, n->index);
    thread::for_each_scalar(*s, [&](Scalar root) {
      if (!root) return;
      ir::visit(root, [&](Scalar x) {
        if (x->kind == ir::ScalarKind::kLoad) add(x->slot, x->args[0]);
      });
    });
  };
  thread::visit(kernel_.body, [&](const thread::Stmt& s) {
    if (const auto* f = s->as<thread::For>()) thread::visit(f->body, visit_reads);
  });
}

std::string CKernel::pointer_to(int slot, Scalar at) {
  const std::string& base = buffer_names_[static_cast<size_t>(slot)];
  const auto offset = pointer_offset_of(at);
  const auto found = offset ? offsets_.find({slot, offset->moving.node()}) : offsets_.end();
  // Pointers for their own sake cost a compiler more than positions do.
  if (found == offsets_.end() || found->second.size() < 2 ||
      std::ranges::none_of(found->second, [](const auto& each) { return each.second.size() > 1; }))
    return fmt::format("{} + {}", base, position(at).text);
  const Address address{slot, (offset->moving + offset->uniform).node()};
  const std::string* pointer = nullptr;
  for (const Scope& scope : index_scopes_)
    if (const auto named = scope.pointers.find(address); named != scope.pointers.end()) pointer = &named->second;
  if (pointer == nullptr) {
    std::string text = fmt::format("{} + {}", base, index(offset->moving).text);
    if (!offset->uniform.is_constant(0)) text += " + " + index(offset->uniform).text;
    pointer = &(index_scopes_.back().pointers[address] = fmt::format("t{}", temporaries_++));
    line(fmt::format("{} {} = {};", pointer_type(slot), *pointer, text));
    line(fmt::format(fmt::runtime(dialect_.kept_pointer), *pointer));
  }
  return offset->constant.is_constant(0) ? *pointer : fmt::format("{} + {}", *pointer, index(offset->constant).text);
}

std::string CKernel::element(int slot, Scalar at) {
  if (registers_[static_cast<size_t>(slot)])
    return fmt::format("{}_{}", buffer_names_[static_cast<size_t>(slot)], ir::as_expr(at).constant());
  if (const std::string bytes = byte_address(slot, at); !bytes.empty())
    return fmt::format("*({})({})", pointer_type(slot), bytes);
  return fmt::format("{}[{}]", buffer_names_[static_cast<size_t>(slot)], place(at));
}

// As stored.
std::string CKernel::loaded(Scalar s) {
  const thread::Buffer& b = buffer(s->slot);
  if (b.space != thread::Space::kGlobal || b.written || dialect_.read_only_load.empty())
    return element(s->slot, s->args[0]);
  return fmt::format(fmt::runtime(dialect_.read_only_load), pointer_to(s->slot, s->args[0]));
}

std::string CKernel::bits_of(Scalar s) {
  if (s->kind == ScalarKind::kLoad && ir::as_expr(s->args[0])) return loaded(s);
  if (s->dtype != DType::kF16 && s->dtype != DType::kBF16) return {};
  if (s == ir::neutral(*kernel_.context, ir::Combiner::kSum, s->dtype))
    return fmt::format("({})0", storage_type(s->dtype));
  if (s->kind != ScalarKind::kOp || s->op != ScalarOp::kSelect || is_guarded(s->args[0])) return {};
  const std::string a = bits_of(s->args[1]), b = a.empty() ? a : bits_of(s->args[2]);
  return b.empty() ? b : fmt::format("({} ? {} : {})", condition(s->args[0]), a, b);
}

std::string CKernel::load(Scalar s) { return from_storage(s->dtype, loaded(s)); }

// --- control flow ---------------------------------------------------------------------------------------------------------

// Whether evaluating it has an effect or reads memory: then only where its value is asked for.
bool CKernel::is_guarded(Scalar s) {
  if (const auto known = guarded_.find(s.node()); known != guarded_.end()) return known->second;
  bool guarded = s->kind == ScalarKind::kOp && s->op == ScalarOp::kCheckedIndex;
  if (s->kind == ScalarKind::kLoad) guarded = buffer(s->slot).space != thread::Space::kLocal;
  for (Scalar arg : s->args) guarded = guarded || is_guarded(arg);
  guarded_.emplace(s.node(), guarded);
  return guarded;
}

// The shared nodes that evaluating s evaluates whatever its conditions are.
const std::unordered_set<const ScalarNode*>& CKernel::always(Scalar s) {
  if (const auto known = always_.find(s.node()); known != always_.end()) return known->second;
  std::unordered_set<const ScalarNode*> nodes;
  const auto add = [&](Scalar x) {
    const auto& of_x = always(x);
    nodes.insert(of_x.begin(), of_x.end());
  };
  if (s->kind == ScalarKind::kOp && s->op == ScalarOp::kSelect && (is_guarded(s->args[1]) || is_guarded(s->args[2]))) {
    add(s->args[0]);
    const auto& other = always(s->args[2]);
    for (const ScalarNode* n : always(s->args[1]))
      if (other.contains(n)) nodes.insert(n);
  } else {
    for (Scalar arg : s->args) add(arg);
  }
  if (uses_[s.node()] > 1) nodes.insert(s.node());
  return always_.emplace(s.node(), std::move(nodes)).first->second;
}

std::string CKernel::select(Scalar s) {
  const Scalar arms[2] = {s->args[1], s->args[2]};
  if (!is_guarded(arms[0]) && !is_guarded(arms[1])) {
    const std::string chosen = condition(s->args[0]), a = value(arms[0]), b = value(arms[1]);
    return fmt::format("({} ? {} : {})", chosen, a, b);
  }
  const std::string chosen = condition(s->args[0]);
  // What both arms evaluate is evaluated in front of them, lest it be written out again in each, and in each of theirs.
  std::vector<Scalar> common;
  for (const ScalarNode* n : always(arms[0]))
    if (always(arms[1]).contains(n)) common.emplace_back(n);
  std::sort(common.begin(), common.end(), [](Scalar a, Scalar b) { return a->id < b->id; });
  for (Scalar n : common) value(n);

  std::string texts[2];
  Lines lines[2];
  Lines* outer = lines_;
  ++depth_;
  for (size_t arm : {size_t{0}, size_t{1}}) {
    lines_ = &lines[arm];
    memo_.emplace_back();
    index_scopes_.emplace_back();
    texts[arm] = value(arms[arm]);
    index_scopes_.pop_back();
    memo_.pop_back();
  }
  --depth_;
  lines_ = outer;
  if (lines[0].empty() && lines[1].empty()) return fmt::format("({} ? {} : {})", chosen, texts[0], texts[1]);
  const std::string result = fmt::format("t{}", temporaries_++);
  line(fmt::format("{} {};", value_type(s->dtype), result));
  for (size_t arm : {size_t{0}, size_t{1}}) {
    line(arm == 0 ? fmt::format("if ({}) {{", without_parentheses(chosen)) : "} else {");
    lines_->insert(lines_->end(), lines[arm].begin(), lines[arm].end());
    ++depth_;
    line(fmt::format("{} = {};", result, without_parentheses(texts[arm])));
    --depth_;
  }
  line("}");
  return result;
}

// A thread with a failing index leaves the kernel where no other thread can wait for it: what it would go on with may not exist, as where the
// extent is 0. Elsewhere it goes on with 0, and memory has an element there (runtime/device.h).
std::string CKernel::checked_index(Scalar s) {
  const std::string given = word(s->args[0]), extent = word(s->args[1]);
  const std::string result = fmt::format("t{}", temporaries_++);
  line(fmt::format("i64 {} = {} < 0 ? {} + {} : {};", result, given, given, extent, given));
  line(fmt::format("if ({} < 0 || {} >= {}) {{", result, result, extent));
  ++depth_;
  if (has_checks_) line(fmt::format("record_fault(fault, {}, {}, 0);", given, extent));
  line(meets_others_ ? fmt::format("{} = 0;", result) : "return;");
  --depth_;
  line("}");
  return result;
}

// --- operations -----------------------------------------------------------------------------------------------------------

std::string CKernel::operation(Scalar s) {
  switch (s->op) {
    case ScalarOp::kSelect: return select(s);
    case ScalarOp::kCheckedIndex: return checked_index(s);
    case ScalarOp::kHash: return fmt::format("random_bits({}, {})", value(s->args[0]), value(s->args[1]));
    case ScalarOp::kEqual: return fmt::format("({} == {})", value(s->args[0]), value(s->args[1]));
    case ScalarOp::kNotEqual: return fmt::format("({} != {})", value(s->args[0]), value(s->args[1]));
    case ScalarOp::kLess: return fmt::format("({} < {})", value(s->args[0]), value(s->args[1]));
    case ScalarOp::kLessEqual: return fmt::format("({} <= {})", value(s->args[0]), value(s->args[1]));
    default: break;
  }
  return ir::is_float(s->args[0]->dtype) ? float_operation(s) : integer_operation(s);
}

std::string CKernel::float_operation(Scalar s) {
  const DType t = s->args[0]->dtype;
  const std::string_view suffix = suffix_of(t);
  const auto call = [&](std::string_view f) {
    std::string text = fmt::format("{}_{}({}", f, suffix, without_parentheses(value(s->args[0])));
    for (size_t i = 1; i < s->args.size(); ++i) text += ", " + without_parentheses(value(s->args[i]));
    return text + ")";
  };
  const auto infix = [&](std::string_view op) {
    const std::string a = value(s->args[0]), b = value(s->args[1]);
    return fmt::format("({} {} {})", a, op, b);
  };
  switch (s->op) {
    case ScalarOp::kAdd: return infix("+");
    case ScalarOp::kSub: return infix("-");
    case ScalarOp::kMul: return call("mul");
    case ScalarOp::kDiv: return infix("/");
    case ScalarOp::kModFloor: return call("mod_floor");
    case ScalarOp::kModTrunc: return call("fmod");
    case ScalarOp::kMin: return call("min");
    case ScalarOp::kMax: return call("max");
    case ScalarOp::kNeg: return fmt::format("(-{})", value(s->args[0]));
    case ScalarOp::kAbs: return call("abs");
    case ScalarOp::kSign: return call("sign");
    case ScalarOp::kFloor: return call("floor");
    case ScalarOp::kCeil: return call("ceil");
    case ScalarOp::kTrunc: return call("trunc");
    case ScalarOp::kRoundEven: return call("rint");
    case ScalarOp::kSqrt: return call("sqrt");
    case ScalarOp::kIsNan: {
      const std::string x = word(s->args[0]);
      return fmt::format("({} != {})", x, x);
    }
    case ScalarOp::kIsInf:
      return fmt::format("({} == {})", call("abs"), c_float(std::numeric_limits<double>::infinity(), t == DType::kF64));
    case ScalarOp::kPow: return power(s);
    default: break;
  }
  STAX_ASSERT(ir::is_math_function(s->op), "{} of {}", ir::name_of(s->op), ir::name_of(t));
  std::string text = math_name(s->op, t) + "(" + without_parentheses(value(s->args[0]));
  if (s->args.size() == 2) text += ", " + without_parentheses(value(s->args[1]));
  return text + ")";
}

// Exponents that models are full of.
std::string CKernel::power(Scalar s) {
  const std::string_view suffix = suffix_of(s->dtype);
  const Scalar exponent = s->args[1];
  if (is_float_constant(exponent, 1)) return value(s->args[0]);
  if (is_float_constant(exponent, 2) || is_float_constant(exponent, 3)) {
    const std::string x = word(s->args[0]);
    const std::string square = fmt::format("mul_{}({}, {})", suffix, x, x);
    return is_float_constant(exponent, 2) ? square : fmt::format("mul_{}({}, {})", suffix, square, x);
  }
  if (is_float_constant(exponent, -1))
    return fmt::format("({} / {})", c_float(1, s->dtype == DType::kF64), value(s->args[0]));
  if (is_float_constant(exponent, 0.5)) return fmt::format("pow_half_{}({})", suffix, value(s->args[0]));
  return fmt::format("{}({}, {})", math_name(ScalarOp::kPow, s->dtype), value(s->args[0]), value(exponent));
}

std::string CKernel::integer_operation(Scalar s) {
  const DType t = s->args[0]->dtype;
  const bool is_bool = t == DType::kBool, is_signed = ir::is_signed(t);
  const std::string_view type = value_type(t), wide = ir::bit_width(t) == 64 ? "u64" : "u32";
  const auto wrapped = [&](std::string_view op) {
    const std::string a = value(s->args[0]), b = value(s->args[1]);
    if (!is_signed && ir::bit_width(t) >= 32) return fmt::format("({} {} {})", a, op, b);
    return fmt::format("(({})(({}){} {} ({}){}))", type, wide, a, op, wide, b);
  };
  const auto bitwise = [&](std::string_view op, std::string_view logical) {
    const std::string a = value(s->args[0]), b = value(s->args[1]);
    return is_bool ? fmt::format("({} {} {})", a, logical, b) : fmt::format("(({})({} {} {}))", type, a, op, b);
  };
  const auto call = [&](std::string_view f) {
    std::string text = fmt::format("{}_{}({}", f, ir::name_of(t), value(s->args[0]));
    for (size_t i = 1; i < s->args.size(); ++i) text += ", " + value(s->args[i]);
    return text + ")";
  };
  switch (s->op) {
    case ScalarOp::kAdd:
      if (is_bool) return bitwise("|", "||");
      return wrapped("+");
    case ScalarOp::kSub: return wrapped("-");
    case ScalarOp::kMul:
      if (is_bool) return bitwise("&", "&&");
      return wrapped("*");
    case ScalarOp::kDiv:
    case ScalarOp::kModTrunc: {
      const Scalar by = s->args[1];
      const bool is_mod = s->op == ScalarOp::kModTrunc;
      if (by->kind == ScalarKind::kConstant && by->as_int() != 0 && by->as_int() != -1)
        return fmt::format("(({})({} {} {}))", type, value(s->args[0]), is_mod ? "%" : "/", value(by));
      return call(is_mod ? "mod_trunc" : "divide");
    }
    case ScalarOp::kModFloor: return call(is_signed ? "mod_floor" : "mod_trunc");
    case ScalarOp::kMin:
    case ScalarOp::kMax: {
      if (is_bool) return s->op == ScalarOp::kMin ? bitwise("&", "&&") : bitwise("|", "||");
      const std::string a = word(s->args[0]), b = word(s->args[1]);
      return fmt::format("({} {} {} ? {} : {})", a, s->op == ScalarOp::kMin ? "<" : ">", b, a, b);
    }
    case ScalarOp::kPow: return call("pow");
    case ScalarOp::kNeg: return fmt::format("(({})(0u - ({}){}))", type, wide, value(s->args[0]));
    case ScalarOp::kAbs: return is_signed ? call("abs") : value(s->args[0]);
    case ScalarOp::kSign: {
      const std::string x = word(s->args[0]);
      return is_signed ? fmt::format("(({})(({} > 0) - ({} < 0)))", type, x, x)
                       : fmt::format("(({})({} != 0))", type, x);
    }
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: return value(s->args[0]);
    case ScalarOp::kNot:
      return is_bool ? fmt::format("(!{})", value(s->args[0])) : fmt::format("(({})~{})", type, value(s->args[0]));
    case ScalarOp::kAnd: return bitwise("&", "&&");
    case ScalarOp::kOr: return bitwise("|", "||");
    case ScalarOp::kXor: return bitwise("^", "!=");
    case ScalarOp::kShiftLeft: return call("shl");
    case ScalarOp::kShiftRight: return call("shr");
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return "false";
    default: break;
  }
  internal_error("{} of {}", ir::name_of(s->op), ir::name_of(t));
}

// --- casts ----------------------------------------------------------------------------------------------------------------

std::string CKernel::cast(Scalar s) {
  const DType to = s->dtype, from = s->args[0]->dtype;
  const Scalar x = s->args[0];
  const std::string_view type = value_type(to);
  if (x->kind == ScalarKind::kIndex && to == DType::kBool) return truth(x->index);
  // Of an index, its own width will do.
  const std::string v = x->kind == ScalarKind::kIndex && !memo_.back().contains(x.node()) && uses_[x.node()] <= 1
                            ? index(x->index).text
                            : value(x);
  if (to == from) return v;
  const bool narrow = to == DType::kF16 || to == DType::kBF16;
  const auto rounded = [&](const std::string& text) { return from_storage(to, to_storage(to, text)); };
  if (to == DType::kBool) return fmt::format("({} != 0)", v);
  if (!ir::is_float(to)) {
    if (!ir::is_float(from)) return fmt::format("(({}){})", type, v);
    const bool is_double = from == DType::kF64;
    if (ir::bit_width(to) <= 32 && fits_i32(x))
      return fmt::format("(({})f{}_to_i32({}))", type, is_double ? 64 : 32, v);
    return fmt::format("(({})f{}_to_i64({}))", type, is_double ? 64 : 32, without_parentheses(v));
  }
  if (!ir::is_float(from)) {
    if (!narrow) return fmt::format("(({}){})", type, v);
    const bool exact = from == DType::kBool || ir::bit_width(from) <= 16;
    return rounded(exact ? fmt::format("(float){}", v) : fmt::format("f64_to_f32_odd((double){})", v));
  }
  if (to == DType::kF64) return fmt::format("((double){})", v);
  if (!narrow) return from == DType::kF64 ? fmt::format("((float){})", v) : v;
  return rounded(from == DType::kF64 ? fmt::format("f64_to_f32_odd({})", without_parentheses(v)) : v);
}

}  // namespace stax::emit
