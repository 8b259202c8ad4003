// SPDX-License-Identifier: Apache-2.0
// The grammar is in text.cpp.
#include <charconv>
#include <unordered_map>

#include "loop/loop_ir.h"
#include "support/error.h"
#include "support/lexer.h"

namespace stax::loop {

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : lexer_(text, "kernel") {
    kernel_.context = std::make_shared<ir::Context>();
    resolve_ = [this](const std::string& name) {
      const auto found = symbols_.find(name);
      return found == symbols_.end() ? Expr() : found->second;
    };
    slot_type_ = [this](int slot) {
      if (slot >= static_cast<int>(kernel_.buffers.size())) lexer_.error("there is no buffer {}", slot);
      return kernel_.buffers[slot].dtype;
    };
  }

  Kernel run() {
    lexer_.expect("kernel");
    kernel_.name = "kernel";
    if (lexer_.peek().text.starts_with("@")) kernel_.name = name();
    kernel_.kernel_class =
        lexer_.peek().kind == TokenKind::kString ? lexer_.expect_string() : lexer_.expect_identifier();
    lexer_.expect("{");
    header();
    kernel_.body = statements();
    lexer_.expect("}");
    lexer_.expect_end();
    return std::move(kernel_);
  }

 private:
  std::string name() { return lexer_.expect_identifier().substr(1); }

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

  std::string symbol_name() {
    return lexer_.peek().kind == TokenKind::kString ? lexer_.expect_string() : lexer_.expect_identifier();
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

  void param() {
    const Token at = lexer_.peek();
    const std::string text = symbol_name();
    if (symbols_.contains(text)) lexer_.error_at(at, "{} is declared twice", text);
    kernel_.params.push_back(declare(range(text, symbolic::SymbolKind::kParam)));
  }

  Expr expr() { return symbolic::parse_expr(kernel_.context->exprs, lexer_, resolve_); }

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
    const int64_t slot = lexer_.expect_integer();
    const auto count = static_cast<int64_t>(kernel_.buffers.size());
    if (slot != count) lexer_.error_at(at, "this is buffer {}", count);
    if (is_argument && kernel_.arguments != count) lexer_.error_at(at, "arguments come first");
    Buffer b;
    b.name = lexer_.peek().text.starts_with("@") ? name() : fmt::format("b{}", slot);
    b.scope = is_argument ? Scope::kGlobal : Scope::kLocal;
    const Token type = lexer_.peek();
    const auto dtype = ir::parse_dtype(lexer_.expect_identifier());
    if (!dtype) lexer_.error_at(type, "{} is no element type", type.text);
    b.dtype = *dtype;
    b.extents = exprs();
    if (lexer_.accept("strides")) b.strides = exprs();
    b.written = lexer_.accept("written");
    if (is_argument) ++kernel_.arguments;
    kernel_.buffers.push_back(std::move(b));
  }

  Scalar scalar() { return ir::parse_scalar(*kernel_.context, lexer_, resolve_, slot_type_); }

  Scalar typed(DType t) {
    const Token at = lexer_.peek();
    const Scalar x = scalar();
    if (x->dtype != t) lexer_.error_at(at, "expected a {}, got a {}", ir::name_of(t), ir::name_of(x->dtype));
    return x;
  }

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

  Stmt statement() {
    if (lexer_.accept("for")) return loop();
    if (lexer_.accept("if")) {
      const Scalar condition = typed(DType::kBool);
      Stmt then_body = braced();
      return make(If{condition, std::move(then_body), lexer_.accept("else") ? braced() : Stmt()});
    }
    if (lexer_.accept("allocate")) {
      const auto slot = static_cast<int>(lexer_.expect_integer());
      return make(Allocate{slot, braced()});
    }
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
    if (const auto known = symbols_.find(text); known == symbols_.end()) {
      f.var = declare(std::move(info));
    } else {
      f.var = known->second;
      const symbolic::SymbolInfo& earlier = f.var.symbol();
      if (earlier.kind != info.kind || earlier.range != info.range || earlier.multiple != info.multiple) {
        lexer_.error_at(at, "{} was declared with another range", text);
      }
    }
    f.body = braced();
    return make(std::move(f));
  }

  Stmt access() {
    const Token target = lexer_.peek();
    const std::string text = lexer_.expect_identifier();
    int slot = -1;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), slot);
    if (text[0] != '%' || error != std::errc() || end != text.data() + text.size() || slot < 0) {
      lexer_.error_at(target, "expected a statement");
    }
    const DType dtype = slot_type_(slot);
    std::vector<Scalar> index;
    lexer_.expect("[");
    if (!lexer_.accept("]")) {
      do {
        if (lexer_.accept("{")) {
          index.push_back(typed(DType::kI64));
          lexer_.expect("}");
        } else {
          index.push_back(kernel_.context->scalars.index(expr()));
        }
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    if (lexer_.accept("=")) return make(Store{slot, std::move(index), typed(dtype)});
    const Token word = lexer_.peek();
    const auto combiner = parse_combiner(lexer_.expect_identifier());
    if (!combiner) lexer_.error_at(word, "{} is no combiner", word.text);
    lexer_.expect("=");
    return make(Update{slot, std::move(index), *combiner, typed(dtype)});
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

}  // namespace stax::loop
