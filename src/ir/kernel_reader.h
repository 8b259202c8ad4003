// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the texts of kernels have in common, whichever IR they are of: symbols with ranges, numbered buffers, typed values. The parsers of the
// loop and the thread IR are made of it.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "ir/scalar.h"
#include "support/lexer.h"

namespace stax::ir {

class KernelReader {
 public:
  explicit KernelReader(const std::string& text);

 protected:
  using Expr = symbolic::Expr;

  std::string buffer_name();  // "@name", without the sign
  std::string symbol_name();  // an identifier or a string
  int number(const char* what, int64_t least, int64_t most);
  DType dtype();

  // ---- symbols
  /// "0..7 multiple 2"
  symbolic::SymbolInfo range(const std::string& name, symbolic::SymbolKind kind);
  /// A symbol that occurs here, at `at`, for the first time.
  Expr declare_new(const Token& at, symbolic::SymbolInfo info);
  /// The variable of a loop, which several loops may have, one after the other; all say the same of it.
  Expr declare_variable(const Token& at, symbolic::SymbolInfo info);

  // ---- buffers
  /// The number that a declaration begins with; it is one more than the last one's.
  int new_slot();
  /// The one whose number was read is a buffer of `dtype`.
  void declare_buffer(DType dtype) { dtypes_.push_back(dtype); }
  /// "%3", a buffer declared before.
  int slot();
  DType dtype_of(int slot);

  // ---- values
  Expr expr() { return symbolic::parse_expr(context_->exprs, lexer_, resolve_); }
  Scalar scalar() { return parse_scalar(*context_, lexer_, resolve_, slot_type_); }
  Scalar typed(DType dtype);
  /// An expression, or "{value made of data}".
  Scalar index();

  /// Reads what stands in braces with `read`.
  template <typename F>
  auto braced(F&& read) {
    constexpr int kDeepest = 500;
    lexer_.expect("{");
    if (++depth_ > kDeepest) lexer_.error("statements are nested too deeply");
    auto body = read();
    --depth_;
    lexer_.expect("}");
    return body;
  }

  Lexer lexer_;
  std::shared_ptr<Context> context_;  // of the kernel

 private:
  std::unordered_map<std::string, Expr> symbols_;
  std::vector<DType> dtypes_;
  std::function<Expr(const std::string&)> resolve_;
  std::function<DType(int)> slot_type_;
  int depth_ = 0;
};

}  // namespace stax::ir
