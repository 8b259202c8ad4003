// SPDX-License-Identifier: Apache-2.0
// Text of expressions:
//   sum      product (('+' | '-') product)*
//   product  unary ('*' unary)*
//   unary    '-' unary | integer | name | function '(' sum (',' sum)* ')' | '(' sum ')'
// A name that is no identifier stands in quotes. Besides the functions that are printed (floordiv, mod, min, max, less,
// equal, select), less_equal, and, or, not and ceildiv are read.
#include <charconv>

#include "support/error.h"
#include "support/lexer.h"
#include "symbolic/evaluate.h"
#include "symbolic/expr.h"

namespace stax::symbolic {
namespace {

const char* function_name(ExprKind kind) {
  switch (kind) {
    case ExprKind::kFloorDiv: return "floordiv";
    case ExprKind::kMod: return "mod";
    case ExprKind::kMin: return "min";
    case ExprKind::kMax: return "max";
    case ExprKind::kLess: return "less";
    case ExprKind::kEqual: return "equal";
    case ExprKind::kSelect: return "select";
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kAdd:
    case ExprKind::kMul: break;
  }
  STAX_UNREACHABLE();
}

void print(std::string& out, Expr e);

// A product, with its sign taken out: -n*4, so that a sum can be printed as i - n*4.
void print_product(std::string& out, Expr e, bool& negative) {
  negative = false;
  if (e.is_constant()) {
    negative = e.constant() < 0 && e.constant() != kNegInf;
    out += std::to_string(negative ? -e.constant() : e.constant());
    return;
  }
  if (e.kind() != ExprKind::kMul) return print(out, e);
  bool first = true;
  for (Expr arg : e.args()) {
    if (arg.is_constant() && arg.constant() < 0 && arg.constant() != kNegInf) {
      negative = true;
      if (arg.constant() == -1) continue;
      out += "*" + std::to_string(-arg.constant());
      continue;
    }
    if (!first) out += '*';
    first = false;
    const bool sum = arg.kind() == ExprKind::kAdd;
    if (sum) out += '(';
    print(out, arg);
    if (sum) out += ')';
  }
}

void print(std::string& out, Expr e) {
  switch (e.kind()) {
    case ExprKind::kConstant: out += std::to_string(e.constant()); return;
    case ExprKind::kSymbol: out += spell_name('\0', e.symbol().name); return;
    case ExprKind::kMul: {
      bool negative = false;
      std::string text;
      print_product(text, e, negative);
      out += negative ? "-" + text : text;
      return;
    }
    case ExprKind::kAdd: {
      bool first = true;
      for (Expr arg : e.args()) {
        bool negative = false;
        std::string text;
        print_product(text, arg, negative);
        if (first)
          out += negative ? "-" : "";
        else
          out += negative ? " - " : " + ";
        out += text;
        first = false;
      }
      return;
    }
    default: {
      out += function_name(e.kind());
      out += '(';
      for (size_t i = 0; i < e.args().size(); ++i) {
        if (i > 0) out += ", ";
        print(out, e.args()[i]);
      }
      out += ')';
    }
  }
}

class Parser {
 public:
  Parser(ExprTable& table, Lexer& lexer, const std::function<Expr(const std::string&)>& resolve)
      : table_(table), lexer_(lexer), resolve_(resolve) {}

  Expr sum() {
    std::vector<Expr> terms{product()};
    while (lexer_.peek_is("+") || lexer_.peek_is("-")) {
      const bool negative = lexer_.next().text == "-";
      terms.push_back(negative ? -product() : product());
    }
    return terms.size() == 1 ? terms[0] : table_.make(ExprKind::kAdd, std::move(terms));
  }

 private:
  Expr product() {
    std::vector<Expr> factors{unary()};
    while (lexer_.accept("*")) factors.push_back(unary());
    return factors.size() == 1 ? factors[0] : table_.make(ExprKind::kMul, std::move(factors));
  }

  Expr unary() {
    if (++depth_ > 1000) lexer_.error("the expression is nested too deeply");
    const Expr result = unary_at_depth();
    --depth_;
    return result;
  }

  Expr unary_at_depth() {
    if (lexer_.peek().kind == TokenKind::kInteger ||
        (lexer_.peek_is("-") && lexer_.peek(1).kind == TokenKind::kInteger))
      return table_.constant(lexer_.expect_integer());
    if (lexer_.accept("-")) return -unary();
    if (lexer_.accept("(")) {
      const Expr result = sum();
      lexer_.expect(")");
      return result;
    }
    const Token token = lexer_.peek();
    if (token.kind == TokenKind::kIdentifier && lexer_.peek_is("(", 1)) return call();
    if (token.kind != TokenKind::kIdentifier && token.kind != TokenKind::kString)
      lexer_.error("expected an integer expression");
    lexer_.next();
    const Expr symbol = resolve_(token.text);
    if (!symbol) lexer_.error_at(token, "unknown symbol {}", token.text);
    return symbol;
  }

  Expr call() {
    const Token name = lexer_.next();
    lexer_.expect("(");
    std::vector<Expr> args{sum()};
    while (lexer_.accept(",")) args.push_back(sum());
    lexer_.expect(")");
    const auto is = [&](const char* text, size_t arity) { return name.text == text && args.size() == arity; };
    for (ExprKind kind : {ExprKind::kMin, ExprKind::kMax})
      if (name.text == function_name(kind)) return table_.make(kind, std::move(args));
    for (ExprKind kind : {ExprKind::kFloorDiv, ExprKind::kMod, ExprKind::kLess, ExprKind::kEqual, ExprKind::kSelect})
      if (is(function_name(kind), kind == ExprKind::kSelect ? 3 : 2)) return table_.make(kind, std::move(args));
    if (is("less_equal", 2)) return less_equal(args[0], args[1]);
    if (is("ceildiv", 2)) return ceildiv(args[0], args[1]);
    if (is("and", 2)) return logical_and(args[0], args[1]);
    if (is("or", 2)) return logical_or(args[0], args[1]);
    if (is("not", 1)) return logical_not(args[0]);
    lexer_.error_at(name, "there is no function {} of {} arguments", name.text, args.size());
  }

  ExprTable& table_;
  Lexer& lexer_;
  const std::function<Expr(const std::string&)>& resolve_;
  int depth_ = 0;
};

}  // namespace

std::string Expr::str() const {
  if (!*this) return "<absent>";
  std::string out;
  print(out, *this);
  return out;
}

Expr parse_expr(ExprTable& table, Lexer& lexer, const std::function<Expr(const std::string&)>& resolve) {
  return Parser(table, lexer, resolve).sum();
}

Expr parse_expr(ExprTable& table, const std::string& text, const std::function<Expr(const std::string&)>& resolve) {
  Lexer lexer(text, "expression");
  const Expr result = parse_expr(table, lexer, resolve);
  lexer.expect_end();
  return result;
}

}  // namespace stax::symbolic
