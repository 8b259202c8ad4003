// SPDX-License-Identifier: Apache-2.0
// Text of scalars:
//   scalar   value ':' dtype | 'acc' ':' dtype | '[' index ']' | 'load' slot '[' (place (',' place)*)? ']'
//          | 'cast' '<' dtype '>' '(' scalar ')' | operation '(' scalar (',' scalar)* ')'
//   place    index | '{' scalar '}'
//   value    number | 'inf' | 'nan' | 'true' | 'false', numbers and inf with an optional '-'
//   index    a symbolic expression
#include <charconv>

#include "ir/scalar.h"
#include "support/error.h"
#include "support/lexer.h"

namespace stax::ir {
namespace {

std::string spell_constant(Scalar x) {
  if (x->dtype == DType::kBool) return x->as_int() != 0 ? "true" : "false";
  if (x->dtype == DType::kF64) return spell_float(x->as_double());
  if (is_float(x->dtype)) return spell_float(static_cast<float>(x->as_double()));
  return x->dtype == DType::kU64 ? std::to_string(x->bits) : std::to_string(x->as_int());
}

void print(std::string& out, Scalar x) {
  const auto print_args = [&] {
    out += '(';
    for (size_t i = 0; i < x->args.size(); ++i) {
      if (i > 0) out += ", ";
      print(out, x->args[i]);
    }
    out += ')';
  };
  switch (x->kind) {
    case ScalarKind::kConstant:
      out += spell_constant(x);
      out += ':';
      out += name_of(x->dtype);
      return;
    case ScalarKind::kIndex: out += "[" + x->index.str() + "]"; return;
    case ScalarKind::kLoad:
      out += "load" + std::to_string(x->slot) + "[";
      for (size_t i = 0; i < x->args.size(); ++i) {
        if (i > 0) out += ", ";
        if (const symbolic::Expr e = as_expr(x->args[i])) {
          out += e.str();
        } else {
          out += '{';
          print(out, x->args[i]);
          out += '}';
        }
      }
      out += ']';
      return;
    case ScalarKind::kAccumulator:
      out += "acc:";
      out += name_of(x->dtype);
      return;
    case ScalarKind::kOp:
      out += name_of(x->op);
      print_args();
      return;
    case ScalarKind::kCast:
      out += "cast<";
      out += name_of(x->dtype);
      out += '>';
      print_args();
      return;
  }
}

std::optional<int> slot_of(const Token& token) {
  constexpr std::string_view prefix = "load";
  if (token.kind != TokenKind::kIdentifier || !token.text.starts_with(prefix)) return std::nullopt;
  int slot = 0;
  const char* begin = token.text.data() + prefix.size();
  const char* end = token.text.data() + token.text.size();
  const auto [last, error] = std::from_chars(begin, end, slot);
  if (error != std::errc() || last != end || slot < 0) return std::nullopt;
  return slot;
}

class Parser {
 public:
  Parser(Context& context, Lexer& lexer, const std::function<symbolic::Expr(const std::string&)>& resolve,
         const std::function<DType(int slot)>& slot_type)
      : context_(context), lexer_(lexer), resolve_(resolve), slot_type_(slot_type) {}

  Scalar scalar() {
    if (++depth_ > 1000) lexer_.error("the scalar is nested too deeply");
    const Scalar result = scalar_at_depth();
    --depth_;
    return result;
  }

 private:
  Scalar scalar_at_depth() {
    if (lexer_.accept("[")) {
      const Scalar result = context_.scalars.index(parse_expr(context_.exprs, lexer_, resolve_));
      lexer_.expect("]");
      return result;
    }
    const Token first = lexer_.peek();
    if (first.kind == TokenKind::kIdentifier) {
      if (lexer_.peek_is("[", 1))
        if (const auto slot = slot_of(first)) return load(*slot);
      if (first.text == "cast" && lexer_.peek_is("<", 1)) return cast();
      if (lexer_.peek_is("(", 1)) return operation();
      if (lexer_.accept("acc")) return context_.scalars.accumulator(type());
    }
    return constant();
  }

  DType type() {
    lexer_.expect(":");
    return dtype();
  }

  DType dtype() {
    const Token token = lexer_.peek();
    const auto t = parse_dtype(lexer_.expect_identifier());
    if (!t) lexer_.error_at(token, "{} is no element type", token.text);
    return *t;
  }

  Scalar constant() {
    if (lexer_.peek_is("true") || lexer_.peek_is("false")) {
      const bool value = lexer_.next().text == "true";
      const Token token = lexer_.peek();
      if (type() != DType::kBool) lexer_.error_at(token, "a truth value is of type bool");
      return context_.scalars.constant_int(DType::kBool, value ? 1 : 0);
    }
    const size_t start = lexer_.mark();
    const bool negative = lexer_.accept("-");
    const Token number = lexer_.next();
    if (number.kind != TokenKind::kInteger && number.kind != TokenKind::kFloat)
      lexer_.error_at(number, "expected a scalar");
    const DType t = type();
    const size_t end = lexer_.mark();
    lexer_.rewind(start);
    Scalar result;
    if (is_float(t)) {
      result = context_.scalars.constant(t, lexer_.expect_float());
    } else {
      if (number.kind != TokenKind::kInteger) lexer_.error_at(number, "{} is no value of {}", number.text, name_of(t));
      const int64_t value =
          t == DType::kU64 && !negative ? static_cast<int64_t>(lexer_.expect_unsigned()) : lexer_.expect_integer();
      if (wrap_integer(t, value) != value || (t == DType::kU64 && negative))
        lexer_.error_at(number, "{} is no value of {}", value, name_of(t));
      result = context_.scalars.constant_int(t, value);
    }
    lexer_.rewind(end);
    return result;
  }

  Scalar load(int slot) {
    lexer_.next();
    lexer_.expect("[");
    std::vector<Scalar> places;
    if (!lexer_.accept("]")) {
      do {
        if (lexer_.accept("{")) {
          places.push_back(typed(DType::kI64));
          lexer_.expect("}");
        } else {
          places.push_back(context_.scalars.index(parse_expr(context_.exprs, lexer_, resolve_)));
        }
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    return context_.scalars.load(slot, slot_type_(slot), std::move(places));
  }

  Scalar typed(DType t) {
    const Token token = lexer_.peek();
    const Scalar result = scalar();
    if (result->dtype != t) lexer_.error_at(token, "expected a {}, got a {}", name_of(t), name_of(result->dtype));
    return result;
  }

  Scalar cast() {
    lexer_.next();
    lexer_.expect("<");
    const DType t = dtype();
    lexer_.expect(">");
    lexer_.expect("(");
    const Scalar x = scalar();
    lexer_.expect(")");
    return context_.scalars.cast(t, x);
  }

  Scalar operation() {
    const Token name = lexer_.next();
    const auto op = parse_scalar_op(name.text);
    if (!op) lexer_.error_at(name, "there is no scalar operation {}", name.text);
    lexer_.expect("(");
    std::vector<Scalar> args{scalar()};
    while (lexer_.accept(",")) args.push_back(scalar());
    lexer_.expect(")");
    std::vector<DType> types;
    for (Scalar arg : args) types.push_back(arg->dtype);
    try {
      result_dtype(*op, types);
    } catch (const InternalError&) {
      std::string spelled;
      for (DType t : types) spelled += (spelled.empty() ? "" : ", ") + std::string(name_of(t));
      lexer_.error_at(name, "{} does not take ({})", name.text, spelled);
    }
    return context_.scalars.op(*op, std::move(args));
  }

  Context& context_;
  Lexer& lexer_;
  const std::function<symbolic::Expr(const std::string&)>& resolve_;
  const std::function<DType(int slot)>& slot_type_;
  int depth_ = 0;
};

}  // namespace

std::string Scalar::str() const {
  if (!*this) return "<absent>";
  std::string out;
  print(out, *this);
  return out;
}

Scalar parse_scalar(Context& context, Lexer& lexer, const std::function<symbolic::Expr(const std::string&)>& resolve,
                    const std::function<DType(int slot)>& slot_type) {
  return Parser(context, lexer, resolve, slot_type).scalar();
}

Scalar parse_scalar(Context& context, const std::string& text,
                    const std::function<symbolic::Expr(const std::string&)>& resolve,
                    const std::function<DType(int slot)>& slot_type) {
  Lexer lexer(text, "scalar");
  const Scalar result = parse_scalar(context, lexer, resolve, slot_type);
  lexer.expect_end();
  return result;
}

}  // namespace stax::ir
