// SPDX-License-Identifier: Apache-2.0
// The grammar is in text.cpp.
#include "ir/kernel_reader.h"
#include "loop/loop_ir.h"
#include "support/error.h"

namespace stax::loop {

namespace {

class Parser : ir::KernelReader {
 public:
  explicit Parser(const std::string& text) : KernelReader(text) { kernel_.context = context_; }

  Kernel run() {
    lexer_.expect("kernel");
    kernel_.name = "kernel";
    if (lexer_.peek().text.starts_with("@")) kernel_.name = buffer_name();
    kernel_.kernel_class = symbol_name();
    lexer_.expect("{");
    header();
    kernel_.body = statements();
    lexer_.expect("}");
    lexer_.expect_end();
    return std::move(kernel_);
  }

 private:
  void header() {
    for (;;) {
      if (lexer_.accept("param")) {
        param();
      } else if (lexer_.peek_is("argument") || lexer_.peek_is("local")) {
        buffer();
      } else if (lexer_.accept("check")) {
        kernel_.check_messages.push_back(lexer_.expect_string());
      } else if (lexer_.accept("schedule")) {
        kernel_.schedule = lexer_.expect_string();
      } else {
        return;
      }
    }
  }

  void param() {
    const Token at = lexer_.peek();
    const std::string name = symbol_name();
    kernel_.params.push_back(declare_new(at, range(name, symbolic::SymbolKind::kParam)));
  }

  std::vector<Expr> exprs() {
    std::vector<Expr> result;
    lexer_.expect("[");
    if (lexer_.accept("]")) return result;
    do {
      result.push_back(expr());
    } while (lexer_.accept(","));
    lexer_.expect("]");
    return result;
  }

  void buffer() {
    const bool is_argument = lexer_.next().text == "argument";
    const Token at = lexer_.peek();
    const int slot = new_slot();
    if (is_argument && kernel_.arguments != slot) lexer_.error_at(at, "arguments come first");
    Buffer b;
    b.name = lexer_.peek().text.starts_with("@") ? buffer_name() : fmt::format("b{}", slot);
    b.scope = is_argument ? Scope::kGlobal : Scope::kLocal;
    b.dtype = dtype();
    b.extents = exprs();
    if (lexer_.accept("strides")) b.strides = exprs();
    b.written = lexer_.accept("written");
    b.finite = !b.written && lexer_.accept("finite");
    if (is_argument) ++kernel_.arguments;
    declare_buffer(b.dtype);
    kernel_.buffers.push_back(std::move(b));
  }

  Stmt statements() {
    Block block;
    while (!lexer_.peek_is("}")) block.statements.push_back(statement());
    return make(std::move(block));
  }

  Stmt body() {
    return braced([this] { return statements(); });
  }

  Stmt statement() {
    if (lexer_.accept("for")) return loop();
    if (lexer_.accept("if")) {
      const Scalar condition = typed(DType::kBool);
      Stmt then_body = body();
      return make(If{condition, std::move(then_body), lexer_.accept("else") ? body() : Stmt()});
    }
    if (lexer_.accept("allocate")) {
      const int allocated = static_cast<int>(lexer_.expect_integer());
      return make(Allocate{allocated, body()});
    }
    if (lexer_.accept("prefetch")) {
      Prefetch p;
      p.level = static_cast<int>(lexer_.expect_integer());
      p.slot = slot();
      p.index = indices();
      return make(std::move(p));
    }
    if (lexer_.accept("fence")) return make(Fence{static_cast<int>(lexer_.expect_integer())});
    return access();
  }

  Stmt loop() {
    const Token at = lexer_.peek();
    const std::string text = symbol_name();
    lexer_.expect("in");
    For f;
    f.extent = expr();
    symbolic::SymbolInfo info{text, symbolic::SymbolKind::kLoop, loop_range(f.extent), 1};
    if (lexer_.accept("range")) info = range(text, symbolic::SymbolKind::kLoop);
    if (!lexer_.peek_is("{")) {
      const Token word = lexer_.peek();
      const auto kind = parse_loop_kind(lexer_.expect_identifier());
      if (!kind) lexer_.error_at(word, "{} is no kind of loop", word.text);
      f.kind = *kind;
      if (f.kind == LoopKind::kVector) f.width = static_cast<int>(lexer_.expect_integer());
    }
    f.var = declare_variable(at, std::move(info));
    f.body = body();
    return make(std::move(f));
  }

  std::vector<Scalar> indices() {
    std::vector<Scalar> at;
    lexer_.expect("[");
    if (!lexer_.accept("]")) {
      do {
        at.push_back(index());
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    return at;
  }

  Stmt access() {
    const int target = slot();
    const DType dtype = dtype_of(target);
    std::vector<Scalar> at = indices();
    if (lexer_.accept("=")) return make(Store{target, std::move(at), typed(dtype)});
    if (lexer_.accept("async")) {
      lexer_.expect("=");
      return make(Store{target, std::move(at), typed(dtype), true});
    }
    const Token word = lexer_.peek();
    const auto combiner = parse_combiner(lexer_.expect_identifier());
    if (!combiner) lexer_.error_at(word, "{} is no combiner", word.text);
    lexer_.expect("=");
    return make(Update{target, std::move(at), *combiner, typed(dtype)});
  }

  Kernel kernel_;
};

}  // namespace

Kernel parse_kernel(const std::string& text) {
  Kernel kernel = Parser(text).run();
  try {
    verify(kernel);
  } catch (const InternalError& broken) {
    // Of a text it is the text that is wrong.
    user_error("{}", broken.what());
  }
  return kernel;
}

}  // namespace stax::loop
