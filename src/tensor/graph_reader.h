// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that the text of a graph is made of: symbols and expressions, types, values with their headers. The parser of ops stands on it.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/lexer.h"
#include "tensor/graph.h"

namespace stax::tensor {

class GraphReader {
 public:
  explicit GraphReader(const std::string& text)
      : lexer_(text, "tensor IR"), graph_(std::make_unique<Graph>(std::make_shared<ir::Context>())) {}

 protected:
  // A value before it exists: what is printed where it is defined.
  struct Header {
    Token token;
    std::string name;
    Type type;
    std::optional<std::vector<Expr>> contents;
  };

  // ---- lists and pieces
  template <class F>
  void parse_list(std::string_view end, const F& item) {
    if (lexer_.accept(end)) return;
    do {
      item();
    } while (lexer_.accept(","));
    lexer_.expect(end);
  }

  // A user's fault anywhere below is reported where the text of that part begins.
  template <class F>
  auto at(const Token& token, const F& f) {
    try {
      return f();
    } catch (const UserError& error) {
      lexer_.error_at(token, "{}", error.what());
    } catch (const InternalError& error) {
      lexer_.error_at(token, "{}", error.what());
    }
  }

  // The text up to a comma or a closing bracket that was not opened in it. Such a part has a grammar of its own.
  std::string take_text();

  // ---- symbols, expressions, types
  Expr resolve(const std::string& name);
  Expr axis_from_name(const std::string& name);
  Expr parse_expr();
  std::vector<Expr> parse_exprs(std::string_view open, std::string_view close);
  Scalar parse_scalar(const std::vector<Value*>& operands);
  DType parse_dtype();
  Type parse_type();
  // A rank is not in brackets: it ends where the definition of its value goes on.
  Expr parse_rank();
  void parse_symbol();

  // ---- values
  Token expect_value_token();
  Value* parse_reference();
  std::vector<Value*> parse_references();
  static std::optional<uint32_t> id_of(const Token& token);
  Header parse_header();
  void define(const Header& header, Value* v);
  void number_values();

  Lexer lexer_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, Expr> symbols_;

 private:
  struct Definition {
    Value* value;
    std::optional<uint32_t> id;
  };
  std::map<std::string, Value*> values_;
  std::vector<Definition> definitions_;
};

}  // namespace stax::tensor
