// SPDX-License-Identifier: Apache-2.0
#include "tensor/graph_reader.h"

#include <charconv>

#include "symbolic/evaluate.h"

namespace stax::tensor {

using symbolic::SymbolKind;

std::string GraphReader::take_text() {
  std::string text;
  int depth = 0;
  for (;;) {
    const Token& token = lexer_.peek();
    if (token.kind == TokenKind::kEnd) lexer_.error("the text ends within an expression");
    if (token.kind == TokenKind::kPunctuation) {
      const bool opens = token.text == "(" || token.text == "[" || token.text == "{";
      const bool closes = token.text == ")" || token.text == "]" || token.text == "}";
      if (depth == 0 && (closes || token.text == ",")) return text;
      depth += opens ? 1 : closes ? -1 : 0;
    }
    if (!text.empty()) text += ' ';
    if (token.kind == TokenKind::kString) {
      text += spell_string(token.text);
    } else if (token.kind == TokenKind::kIdentifier && (token.text[0] == '%' || token.text[0] == '@')) {
      text += spell_name(token.text[0], token.text.substr(1));
    } else {
      text += token.text;
    }
    lexer_.next();
  }
}

Expr GraphReader::resolve(const std::string& name) {
  if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
  if (const Expr var = axis_from_name(name)) return symbols_[name] = var;
  user_error("there is no symbol '{}'", name);
}

Expr GraphReader::axis_from_name(const std::string& name) {
  if (name.size() < 2 || (name[0] != 'i' && name[0] != 'r')) return {};
  const char* const end = name.data() + name.size();
  int position = 0;
  const auto [after, error] = std::from_chars(name.data() + 1, end, position);
  if (error != std::errc() || position < 0 || position > 1000) return {};
  int64_t bound = symbolic::kMaxExtent;
  if (after != end) {
    if (*after != '_') return {};
    if (std::string_view(after, end) == "_inf") {
      bound = symbolic::kPosInf;
    } else {
      const auto [stop, fault] = std::from_chars(after + 1, end, bound);
      if (fault != std::errc() || stop != end || bound < 0) return {};
    }
  }
  return graph_->axis_var(position, graph_->exprs().constant(bound), name[0] == 'r');
}

Expr GraphReader::parse_expr() {
  const Token token = lexer_.peek();
  const std::string text = take_text();
  if (text.empty()) lexer_.error("an expression is missing");
  return at(token, [&] {
    return symbolic::parse_expr(graph_->exprs(), text, [&](const std::string& name) { return resolve(name); });
  });
}

std::vector<Expr> GraphReader::parse_exprs(std::string_view open, std::string_view close) {
  std::vector<Expr> result;
  lexer_.expect(open);
  parse_list(close, [&] { result.push_back(parse_expr()); });
  return result;
}

Scalar GraphReader::parse_scalar(const std::vector<Value*>& operands) {
  lexer_.expect("{");
  const Token token = lexer_.peek();
  const std::string text = take_text();
  lexer_.expect("}");
  return at(token, [&] {
    return ir::parse_scalar(
        *graph_->context, text, [&](const std::string& name) { return resolve(name); },
        [&](int slot) {
          if (slot < 0 || slot >= static_cast<int>(operands.size())) user_error("load{} has no operand", slot);
          return operands[slot]->type.dtype;
        });
  });
}

DType GraphReader::parse_dtype() {
  const Token token = lexer_.next();
  const auto dtype = ir::parse_dtype(token.text);
  if (!dtype) lexer_.error_at(token, "'{}' is no element type", token.text);
  return *dtype;
}

Type GraphReader::parse_type() {
  if (lexer_.accept("sequence")) {
    lexer_.expect("<");
    const DType dtype = parse_dtype();
    const int rank = lexer_.accept(",") ? static_cast<int>(lexer_.expect_integer()) : -1;
    lexer_.expect(">");
    return Type::sequence(dtype, rank);
  }
  const DType dtype = parse_dtype();
  Type type = Type::tensor(dtype, parse_exprs("[", "]"));
  if (lexer_.accept("rank")) {
    type.rank = parse_rank();
    if (type.static_rank() != kMaxRank) lexer_.error("a value of run-time rank has {} extents", kMaxRank);
  }
  return type;
}

Expr GraphReader::parse_rank() {
  const Token token = lexer_.peek();
  std::string text;
  int depth = 0;
  for (;;) {
    const Token& next = lexer_.peek();
    if (next.kind == TokenKind::kEnd) lexer_.error("the text ends within an expression");
    const bool closes = next.kind == TokenKind::kPunctuation && next.text == ")";
    const bool ends = closes || next.text == "," || next.text == "=" || next.text == "contents" || next.text == "as";
    if (depth == 0 && next.kind != TokenKind::kString && ends) break;
    depth += next.text == "(" ? 1 : closes ? -1 : 0;
    text += (next.kind == TokenKind::kString ? spell_string(next.text) : next.text) + " ";
    lexer_.next();
  }
  return at(token, [&] {
    return symbolic::parse_expr(graph_->exprs(), text, [&](const std::string& name) { return resolve(name); });
  });
}

void GraphReader::parse_symbol() {
  lexer_.expect("symbol");
  const Token token = lexer_.next();
  if (token.kind != TokenKind::kIdentifier && token.kind != TokenKind::kString)
    lexer_.error_at(token, "a symbol's name is missing");
  symbolic::SymbolInfo info;
  info.name = token.text;
  lexer_.expect(":");
  static const std::map<std::string, SymbolKind> kKinds = {{"dim", SymbolKind::kDim},
                                                           {"value", SymbolKind::kValue},
                                                           {"axis", SymbolKind::kLoop},
                                                           {"param", SymbolKind::kParam}};
  const Token kind = lexer_.next();
  if (!kKinds.contains(kind.text)) lexer_.error_at(kind, "'{}' is no kind of symbol", kind.text);
  info.kind = kKinds.at(kind.text);
  lexer_.expect("[");
  info.range.lo = lexer_.accept("least") ? symbolic::kNegInf : lexer_.expect_integer();
  lexer_.expect(",");
  info.range.hi = lexer_.accept("greatest") ? symbolic::kPosInf : lexer_.expect_integer();
  lexer_.expect("]");
  if (info.range.lo > info.range.hi) lexer_.error_at(token, "the range of {} is empty", info.name);
  if (lexer_.accept("multiple")) info.multiple = lexer_.expect_integer();
  if (info.multiple < 1) lexer_.error_at(token, "a multiple is positive");
  if (symbols_.contains(token.text)) lexer_.error_at(token, "symbol '{}' is declared twice", token.text);
  symbols_[token.text] = graph_->exprs().new_symbol(std::move(info));
}

Token GraphReader::expect_value_token() {
  const Token token = lexer_.peek();
  if (token.kind != TokenKind::kIdentifier || token.text[0] != '%') lexer_.error("a value (%name) is expected");
  return lexer_.next();
}

Value* GraphReader::parse_reference() {
  const Token token = expect_value_token();
  const auto found = values_.find(token.text);
  if (found == values_.end()) lexer_.error_at(token, "there is no value {}", token.text);
  return found->second;
}

std::vector<Value*> GraphReader::parse_references() {
  std::vector<Value*> result;
  lexer_.expect("(");
  parse_list(")", [&] { result.push_back(parse_reference()); });
  return result;
}

std::optional<uint32_t> GraphReader::id_of(const Token& token) {
  uint32_t id = 0;
  const char* const end = token.text.data() + token.text.size();
  const auto [after, error] = std::from_chars(token.text.data() + 1, end, id);
  return error == std::errc() && after == end ? std::optional(id) : std::nullopt;
}

GraphReader::Header GraphReader::parse_header() {
  Header header;
  header.token = expect_value_token();
  if (lexer_.peek().kind == TokenKind::kString) {
    header.name = lexer_.expect_string();
  } else if (!id_of(header.token)) {
    header.name = header.token.text.substr(1);
  }
  lexer_.expect(":");
  header.type = parse_type();
  if (lexer_.accept("contents")) {
    header.contents = parse_exprs("{", "}");
    int64_t count = 1;
    for (Expr extent : header.type.extents)
      count = extent.is_constant() ? symbolic::saturating_mul(count, extent.constant()) : -1;
    if (count != static_cast<int64_t>(header.contents->size()))
      lexer_.error("contents of another size than the value's");
  }
  return header;
}

void GraphReader::define(const Header& header, Value* v) {
  v->name = header.name;
  if (header.contents) v->contents = header.contents;
  definitions_.push_back({v, id_of(header.token)});
  if (!values_.emplace(header.token.text, v).second)
    lexer_.error_at(header.token, "{} is defined twice", header.token.text);
}

void GraphReader::number_values() {
  uint32_t next = 0;
  for (const Definition& definition : definitions_) {
    if (definition.id) next = std::max(next, *definition.id + 1);
  }
  for (const Definition& definition : definitions_) definition.value->id = definition.id ? *definition.id : next++;
  graph_->start_value_ids_at(next);
}

}  // namespace stax::tensor
