// SPDX-License-Identifier: Apache-2.0
// The grammar is in text.cpp.
#include <charconv>
#include <unordered_map>

#include "support/error.h"
#include "support/lexer.h"
#include "thread/mma.h"
#include "thread/thread_ir.h"

namespace stax::thread {

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : lexer_(text, "kernel") {
    kernel_.context = std::make_shared<ir::Context>();
    resolve_ = [this](const std::string& name) {
      const auto found = symbols_.find(name);
      return found == symbols_.end() ? Expr() : found->second;
    };
    slot_type_ = [this](int slot) { return buffer_at(slot).dtype; };
  }

  Kernel run() {
    lexer_.expect("kernel");
    kernel_.name = buffer_name();
    kernel_.kernel_class = symbol_name();
    lexer_.expect("{");
    parameters_and_buffers();
    threads();
    properties();
    kernel_.body = statements();
    lexer_.expect("}");
    lexer_.expect_end();
    return std::move(kernel_);
  }

 private:
  // ---- Names and numbers

  std::string buffer_name() {
    if (!lexer_.peek().text.starts_with("@")) lexer_.error("expected a name with @");
    return lexer_.expect_identifier().substr(1);
  }

  std::string symbol_name() {
    return lexer_.peek().kind == TokenKind::kString ? lexer_.expect_string() : lexer_.expect_identifier();
  }

  int number(const char* what, int64_t least, int64_t most) {
    const Token at = lexer_.peek();
    const int64_t value = lexer_.expect_integer();
    if (value < least || value > most) lexer_.error_at(at, "{} is {}, not {} .. {}", what, value, least, most);
    return static_cast<int>(value);
  }

  const Buffer& buffer_at(int slot) {
    if (slot < 0 || slot >= static_cast<int>(kernel_.buffers.size())) lexer_.error("there is no buffer {}", slot);
    return kernel_.buffers[static_cast<size_t>(slot)];
  }

  symbolic::SymbolInfo range(const std::string& name, symbolic::SymbolKind kind) {
    symbolic::SymbolInfo info{name, kind, {}, 1};
    info.range.lo = lexer_.expect_integer();
    lexer_.expect("..");
    info.range.hi = lexer_.expect_integer();
    if (info.range.lo > info.range.hi) lexer_.error("the range of {} is empty", name);
    if (lexer_.accept("multiple")) {
      info.multiple = lexer_.expect_integer();
      if (info.multiple < 1) lexer_.error("{} is a multiple of {}", name, info.multiple);
    }
    return info;
  }

  Expr declare(symbolic::SymbolInfo info) {
    const std::string name = info.name;
    return symbols_[name] = kernel_.context->exprs.new_symbol(std::move(info));
  }

  /// A symbol that occurs here for the first time.
  Expr declare_new(const Token& at, symbolic::SymbolInfo info) {
    if (symbols_.contains(info.name)) lexer_.error_at(at, "{} is declared twice", info.name);
    return declare(std::move(info));
  }

  Expr expr() { return symbolic::parse_expr(kernel_.context->exprs, lexer_, resolve_); }
  Scalar scalar() { return ir::parse_scalar(*kernel_.context, lexer_, resolve_, slot_type_); }

  Scalar typed(DType t) {
    const Token at = lexer_.peek();
    const Scalar x = scalar();
    if (x->dtype != t) lexer_.error_at(at, "expected a {}, got a {}", ir::name_of(t), ir::name_of(x->dtype));
    return x;
  }

  // ---- Header

  void parameters_and_buffers() {
    for (;;) {
      const Token at = lexer_.peek();
      if (lexer_.accept("param")) {
        const std::string name = symbol_name();
        kernel_.params.push_back(declare_new(at, range(name, symbolic::SymbolKind::kParam)));
      } else if (const auto space = parse_space(at.text)) {
        lexer_.next();
        buffer(*space);
      } else {
        return;
      }
    }
  }

  void buffer(Space space) {
    const Token at = lexer_.peek();
    const auto count = static_cast<int64_t>(kernel_.buffers.size());
    if (lexer_.expect_integer() != count) lexer_.error_at(at, "this is buffer {}", count);
    if (space == Space::kGlobal && kernel_.arguments != count) lexer_.error_at(at, "global buffers come first");
    Buffer b;
    b.name = buffer_name();
    b.space = space;
    const Token type = lexer_.peek();
    const auto dtype = ir::parse_dtype(lexer_.expect_identifier());
    if (!dtype) lexer_.error_at(type, "{} is no element type", type.text);
    b.dtype = *dtype;
    lexer_.expect("[");
    b.count = expr();
    lexer_.expect("]");
    if (lexer_.accept("align")) b.alignment = number("the alignment", 1, 1 << 20);
    b.written = lexer_.accept("written");
    if (space == Space::kGlobal) ++kernel_.arguments;
    kernel_.buffers.push_back(std::move(b));
  }

  symbolic::SymbolInfo variable(const std::string& name, Expr extent) {
    if (lexer_.accept("range")) return range(name, symbolic::SymbolKind::kLoop);
    return {name, symbolic::SymbolKind::kLoop, range_below(extent), 1};
  }

  void threads() {
    lexer_.expect("grid");
    for (int k = 0; k < 3; ++k) {
      const Token at = lexer_.peek();
      const std::string name = symbol_name();
      kernel_.grid[k] = expr();
      kernel_.block_index[k] = declare_new(at, variable(name, kernel_.grid[k]));
    }
    lexer_.expect("block");
    const Token at = lexer_.peek();
    const std::string name = symbol_name();
    kernel_.block = number("the number of threads", 1, 1 << 16);
    kernel_.thread = declare_new(at, variable(name, kernel_.context->exprs.constant(kernel_.block)));
    lexer_.expect("warp");
    kernel_.warp = number("the size of a warp", 1, 1 << 16);
  }

  void properties() {
    for (;;) {
      if (lexer_.accept("index_bits")) {
        kernel_.index_bits = number("the width of indices", 32, 64);
      } else if (lexer_.accept("flush_denormals")) {
        kernel_.flush_denormals = true;
      } else if (lexer_.accept("divisor")) {
        const Expr value = expr(), multiplier = expr(), shift = expr();
        kernel_.divisors.push_back({value, multiplier, shift});
      } else if (lexer_.accept("check")) {
        kernel_.check_messages.push_back(lexer_.expect_string());
      } else if (lexer_.accept("schedule")) {
        kernel_.schedule = lexer_.expect_string();
      } else {
        return;
      }
    }
  }

  // ---- Statements

  Stmt statements() {
    Block block;
    while (!lexer_.peek_is("}")) block.statements.push_back(statement());
    return make(std::move(block));
  }

  Stmt braced() {
    lexer_.expect("{");
    if (++depth_ > 500) lexer_.error("statements are nested too deeply");
    Stmt body = statements();
    --depth_;
    lexer_.expect("}");
    return body;
  }

  std::optional<StmtKind> keyword() {
    static constexpr std::string_view kWords[] = {
#define STAX_THREAD_STMT(Name, text) text,
#include "thread/nodes.def"
#undef STAX_THREAD_STMT
    };
    for (size_t k = 0; k < std::size(kWords); ++k)
      if (!kWords[k].empty() && lexer_.accept(kWords[k])) return static_cast<StmtKind>(k);
    return std::nullopt;
  }

  Stmt statement() {
    const Token at = lexer_.peek();
    const std::optional<StmtKind> kind = keyword();
    if (!kind) return store();
    switch (*kind) {
      case StmtKind::kFor: return loop();
      case StmtKind::kIf: {
        const Scalar condition = typed(DType::kBool);
        Stmt then_body = braced();
        return make(If{condition, std::move(then_body), lexer_.accept("else") ? braced() : Stmt()});
      }
      case StmtKind::kLoadVector: {
        const Fragment local = fragment();
        lexer_.expect("=");
        const Element memory = element();
        return make(LoadVector{local.local, local.first, memory.slot, memory.index, width()});
      }
      case StmtKind::kStoreVector: {
        const Element memory = element();
        lexer_.expect("=");
        const Fragment local = fragment();
        return make(StoreVector{memory.slot, memory.index, local.local, local.first, width()});
      }
      case StmtKind::kBarrier: return make(Barrier{});
      case StmtKind::kShuffle: return shuffle();
      case StmtKind::kVote: return vote();
      case StmtKind::kAtomic: {
        const Element memory = element();
        const Token word = lexer_.peek();
        const auto combiner = ir::parse_combiner(lexer_.expect_identifier());
        if (!combiner) lexer_.error_at(word, "{} is no combiner", word.text);
        lexer_.expect("=");
        return make(Atomic{memory.slot, memory.index, *combiner, typed(buffer_at(memory.slot).dtype)});
      }
      case StmtKind::kAsyncCopy: {
        const Element shared = element();
        lexer_.expect("=");
        const Element global = element();
        const int copied = width();
        const Scalar condition = lexer_.accept("if") ? typed(DType::kBool) : Scalar();
        return make(AsyncCopy{shared.slot, shared.index, global.slot, global.index, copied, condition});
      }
      case StmtKind::kAsyncCommit: return make(AsyncCommit{});
      case StmtKind::kAsyncWait: return make(AsyncWait{number("the number of groups", 0, 1 << 16)});
      case StmtKind::kMma: return mma();
      case StmtKind::kBlock: return make(Block{{braced()}, true});
      case StmtKind::kStore: break;
    }
    lexer_.error_at(at, "expected a statement");
  }

  Stmt loop() {
    const Token at = lexer_.peek();
    const std::string text = symbol_name();
    lexer_.expect("in");
    For f;
    f.extent = expr();
    symbolic::SymbolInfo info = variable(text, f.extent);
    f.unrolled = lexer_.accept("unrolled");
    // One variable may belong to several loops, one after the other.
    if (const auto known = symbols_.find(text); known == symbols_.end()) {
      f.var = declare(std::move(info));
    } else {
      f.var = known->second;
      const symbolic::SymbolInfo& earlier = f.var.symbol();
      if (earlier.kind != info.kind || earlier.range != info.range || earlier.multiple != info.multiple)
        lexer_.error_at(at, "{} was declared with another range", text);
    }
    f.body = braced();
    return make(std::move(f));
  }

  struct Element {
    int slot = 0;
    Scalar index;
  };

  Element element() {
    const Token target = lexer_.peek();
    const std::string text = lexer_.expect_identifier();
    Element result;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), result.slot);
    if (text[0] != '%' || error != std::errc() || end != text.data() + text.size() || result.slot < 0)
      lexer_.error_at(target, "expected a statement");
    (void)buffer_at(result.slot);
    lexer_.expect("[");
    if (lexer_.accept("{")) {
      result.index = typed(DType::kI64);
      lexer_.expect("}");
    } else {
      result.index = kernel_.context->scalars.index(expr());
    }
    lexer_.expect("]");
    return result;
  }

  Fragment fragment() {
    const Token at = lexer_.peek();
    const Element e = element();
    const Expr first = ir::as_expr(e.index);
    if (!first) lexer_.error_at(at, "an element of a fragment is not known without data");
    return {e.slot, first};
  }

  int width() {
    lexer_.expect("width");
    return number("the width", 1, 16);
  }

  Stmt store() {
    const Element target = element();
    lexer_.expect("=");
    return make(Store{target.slot, target.index, typed(buffer_at(target.slot).dtype)});
  }

  Stmt shuffle() {
    const Fragment target = fragment();
    lexer_.expect("=");
    const Scalar value = typed(buffer_at(target.local).dtype);
    const bool is_xor = lexer_.accept("xor");
    if (!is_xor) lexer_.expect("lane");
    return make(Shuffle{target.local, target.first, is_xor ? ShuffleMode::kXor : ShuffleMode::kIndex, expr(), value});
  }

  Stmt vote() {
    const Fragment target = fragment();
    lexer_.expect("=");
    const bool is_any = lexer_.accept("any");
    if (!is_any) lexer_.expect("all");
    return make(Vote{target.local, target.first, is_any ? VoteMode::kAny : VoteMode::kAll, typed(DType::kBool)});
  }

  Stmt mma() {
    const Token at = lexer_.peek();
    const std::string name = lexer_.expect_string();
    Mma n;
    n.instruction = find_mma(name);
    if (n.instruction < 0) lexer_.error_at(at, "there is no matrix instruction {}", name);
    n.d = fragment();
    lexer_.expect("=");
    n.a = fragment();
    lexer_.expect("*");
    n.b = fragment();
    lexer_.expect("+");
    n.c = fragment();
    return make(n);
  }

  Lexer lexer_;
  Kernel kernel_;
  std::unordered_map<std::string, Expr> symbols_;
  std::function<Expr(const std::string&)> resolve_;
  std::function<DType(int)> slot_type_;
  int depth_ = 0;
};

}  // namespace

Kernel parse_kernel(const std::string& text) { return Parser(text).run(); }

}  // namespace stax::thread
