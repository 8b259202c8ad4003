// SPDX-License-Identifier: Apache-2.0
// The grammar is in text.cpp.
#include "ir/kernel_reader.h"
#include "thread/mma.h"
#include "thread/thread_ir.h"

namespace stax::thread {

namespace {

class Parser : ir::KernelReader {
 public:
  explicit Parser(const std::string& text) : KernelReader(text) { kernel_.context = context_; }

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
    const int number_of_buffer = new_slot();
    if (space == Space::kGlobal && kernel_.arguments != number_of_buffer)
      lexer_.error_at(at, "global buffers come first");
    Buffer b;
    b.name = buffer_name();
    b.space = space;
    b.dtype = dtype();
    lexer_.expect("[");
    b.count = expr();
    lexer_.expect("]");
    if (lexer_.accept("align")) b.alignment = number("the alignment", 1, 1 << 20);
    b.written = lexer_.accept("written");
    if (space == Space::kGlobal) ++kernel_.arguments;
    declare_buffer(b.dtype);
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

  Stmt body() {
    return braced([this] { return statements(); });
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
        Stmt then_body = body();
        return make(If{condition, std::move(then_body), lexer_.accept("else") ? body() : Stmt()});
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
        return make(Atomic{memory.slot, memory.index, *combiner, typed(dtype_of(memory.slot))});
      }
      case StmtKind::kAsyncCopy: {
        const Element shared = element();
        lexer_.expect("=");
        const Element global = element();
        const int copied = width();
        const Scalar condition = lexer_.accept("where") ? typed(DType::kBool) : Scalar();
        return make(AsyncCopy{shared.slot, shared.index, global.slot, global.index, copied, condition});
      }
      case StmtKind::kAsyncCommit: return make(AsyncCommit{});
      case StmtKind::kAsyncWait: return make(AsyncWait{number("the number of groups", 0, 1 << 16)});
      case StmtKind::kLoadMatrix: {
        const Fragment local = fragment();
        lexer_.expect("=");
        const Element memory = element();
        lexer_.expect("count");
        const int count = number("the number of matrices", 1, 4);
        return make(
            LoadMatrix{local.local, local.first, memory.slot, memory.index, count, lexer_.accept("transposed")});
      }
      case StmtKind::kMma: return mma();
      case StmtKind::kBlock: return make(Block{{body()}, true});
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
    f.var = declare_variable(at, std::move(info));
    f.body = body();
    return make(std::move(f));
  }

  struct Element {
    int slot = 0;
    Scalar index;
  };

  Element element() {
    Element result;
    result.slot = slot();
    lexer_.expect("[");
    result.index = index();
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
    return make(Store{target.slot, target.index, typed(dtype_of(target.slot))});
  }

  Stmt shuffle() {
    const Fragment target = fragment();
    lexer_.expect("=");
    const Scalar value = typed(dtype_of(target.local));
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

  Kernel kernel_;
};

}  // namespace

Kernel parse_kernel(const std::string& text) { return Parser(text).run(); }

}  // namespace stax::thread
