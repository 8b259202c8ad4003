// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel_reader.h"

#include <charconv>

namespace stax::ir {

KernelReader::KernelReader(const std::string& text) : lexer_(text, "kernel"), context_(std::make_shared<Context>()) {
  resolve_ = [this](const std::string& name) {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? Expr() : found->second;
  };
  slot_type_ = [this](int slot) { return dtype_of(slot); };
}

std::string KernelReader::buffer_name() {
  if (!lexer_.peek().text.starts_with("@")) lexer_.error("expected a name with @");
  return lexer_.expect_identifier().substr(1);
}

std::string KernelReader::symbol_name() {
  return lexer_.peek().kind == TokenKind::kString ? lexer_.expect_string() : lexer_.expect_identifier();
}

int KernelReader::number(const char* what, int64_t least, int64_t most) {
  const Token at = lexer_.peek();
  const int64_t value = lexer_.expect_integer();
  if (value < least || value > most) lexer_.error_at(at, "{} is {}, not {} .. {}", what, value, least, most);
  return static_cast<int>(value);
}

DType KernelReader::dtype() {
  const Token word = lexer_.peek();
  const auto dtype = parse_dtype(lexer_.expect_identifier());
  if (!dtype) lexer_.error_at(word, "{} is no element type", word.text);
  return *dtype;
}

symbolic::SymbolInfo KernelReader::range(const std::string& name, symbolic::SymbolKind kind) {
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

symbolic::Expr KernelReader::declare_new(const Token& at, symbolic::SymbolInfo info) {
  const std::string name = info.name;
  if (symbols_.contains(name)) lexer_.error_at(at, "{} is declared twice", name);
  return symbols_[name] = context_->exprs.new_symbol(std::move(info));
}

symbolic::Expr KernelReader::declare_variable(const Token& at, symbolic::SymbolInfo info) {
  const auto known = symbols_.find(info.name);
  if (known == symbols_.end()) return declare_new(at, std::move(info));
  const symbolic::SymbolInfo& earlier = known->second.symbol();
  if (earlier.kind != info.kind || earlier.range != info.range || earlier.multiple != info.multiple)
    lexer_.error_at(at, "{} was declared with another range", info.name);
  return known->second;
}

int KernelReader::new_slot() {
  const Token at = lexer_.peek();
  const auto next = static_cast<int64_t>(dtypes_.size());
  if (lexer_.expect_integer() != next) lexer_.error_at(at, "this is buffer {}", next);
  return static_cast<int>(next);
}

int KernelReader::slot() {
  const Token at = lexer_.peek();
  const std::string text = lexer_.expect_identifier();
  int slot = -1;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), slot);
  if (text[0] != '%' || error != std::errc() || end != text.data() + text.size())
    lexer_.error_at(at, "expected a statement");
  (void)dtype_of(slot);
  return slot;
}

DType KernelReader::dtype_of(int slot) {
  if (slot < 0 || slot >= static_cast<int>(dtypes_.size())) lexer_.error("there is no buffer {}", slot);
  return dtypes_[static_cast<size_t>(slot)];
}

Scalar KernelReader::typed(DType dtype) {
  const Token at = lexer_.peek();
  const Scalar x = scalar();
  if (x->dtype != dtype) lexer_.error_at(at, "expected a {}, got a {}", name_of(dtype), name_of(x->dtype));
  return x;
}

Scalar KernelReader::index() {
  if (!lexer_.accept("{")) return context_->scalars.index(expr());
  const Scalar value = typed(DType::kI64);
  lexer_.expect("}");
  return value;
}

}  // namespace stax::ir
