// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The one lexer of all IR text.
//
//   identifier   [%@]? [A-Za-z0-9_.]+, where the first character after the prefix is a digit only if there is a prefix,
//                bytes above 127 count as letters, and no two dots follow each other; or a prefix and a string for any
//                other name: %"a b". The text of a token is the name with its prefix, without quotes.
//   integer      12, 0xFF; without a sign, below 2^64
//   float        1.5, 1., 2e-3, 0x1.8p3, inf, nan; without a sign
//   string       "..." with \n \t \r \" \\ \xHH; every other byte stands for itself, so any UTF-8 goes through
//   punctuation  one character, or one of  -> .. == != <= >= && || +=
//   comment      from // or # to the end of the line
//
// `-` is always punctuation; `expect_integer` and `expect_float` take a sign. `a % b` needs its blanks. Division can be
// written `/`, never `//`. All errors are UserError and begin with "name:line:column:".

namespace stax {

enum class TokenKind { kIdentifier, kInteger, kFloat, kString, kPunctuation, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;           // identifier, punctuation; the value of a string; the spelling of a number
  std::uint64_t integer = 0;  // of an integer
  double real = 0;            // of a float or an integer
  int line = 1;               // from 1
  int column = 1;             // from 1, in code points
};

class Lexer {
 public:
  // `name` stands before line and column in messages: a file name, or what the text is.
  explicit Lexer(std::string_view text, std::string name = "text");

  const Token& peek(std::size_t ahead = 0) const;
  // Identifier or punctuation with this text. A string never matches.
  bool peek_is(std::string_view text, std::size_t ahead = 0) const;
  bool at_end() const { return peek().kind == TokenKind::kEnd; }

  Token next();
  // Takes the token if it is an identifier or punctuation with this text.
  bool accept(std::string_view text);
  void expect(std::string_view text);

  std::string expect_identifier();
  std::string expect_string();
  std::int64_t expect_integer();  // with optional sign
  std::uint64_t expect_unsigned();
  double expect_float();  // with optional sign; an integer will do
  void expect_end();

  // For the rare place where the grammar needs more than bounded lookahead.
  std::size_t mark() const { return position_; }
  void rewind(std::size_t mark) { position_ = mark; }

  // Throws UserError at the current token, or at `token`.
  template <typename... Arguments>
  [[noreturn]] void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fail(peek(), fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <typename... Arguments>
  [[noreturn]] void error_at(const Token& token, fmt::format_string<Arguments...> format,
                             Arguments&&... arguments) const {
    fail(token, fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  [[noreturn]] void fail(const Token& token, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

  std::string name_;
  std::vector<Token> tokens_;  // the last is kEnd
  std::size_t position_ = 0;
};

// True if `text`, without a prefix, is read back as one identifier.
bool is_identifier(std::string_view text);

// A string literal that is read back as `text`.
std::string spell_string(std::string_view text);

// `prefix` ('%', '@', or '\0' for none) and a name, in quotes where the name needs them: read back by
// `expect_identifier`. A name without prefix that needs quotes is read back as a string.
std::string spell_name(char prefix, std::string_view name);

// The shortest spelling that `expect_float` reads back as the same value: with a dot, an exponent, or inf / -inf / nan
// / -nan.
std::string spell_float(double value);
std::string spell_float(float value);

}  // namespace stax
