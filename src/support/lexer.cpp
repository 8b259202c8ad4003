// SPDX-License-Identifier: Apache-2.0
#include "support/lexer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "support/error.h"

namespace stax {
namespace {

constexpr std::array<std::string_view, 9> kLongPunctuation = {"->", "..", "==", "!=", "<=", ">=", "&&", "||", "+="};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_prefix(char c) { return c == '%' || c == '@'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<Token> scan() {
    std::vector<Token> tokens;
    for (;;) {
      skip_blanks_and_comments();
      Token& token = tokens.emplace_back();
      token.line = line_;
      token.column = column_;
      if (at_ == text_.size()) return tokens;
      scan_token(token);
    }
  }

 private:
  char look(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void advance(std::size_t count = 1) {
    for (; count > 0; --count, ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {  // UTF-8 continuation bytes take no column
        ++column_;
      }
    }
  }

  void skip_blanks_and_comments() {
    for (;;) {
      while (at_ < text_.size() && is_blank(text_[at_])) advance();
      if (look() != '#' && !(look() == '/' && look(1) == '/')) return;
      while (at_ < text_.size() && text_[at_] != '\n') advance();
    }
  }

  void scan_token(Token& token) {
    const char c = look();
    if (is_letter(c) || (is_prefix(c) && (is_word(look(1)) || look(1) == '"'))) return scan_identifier(token);
    if (is_digit(c) || (c == '.' && is_digit(look(1)))) return scan_number(token);
    if (c == '"') {
      token.kind = TokenKind::kString;
      token.text = scan_string();
      return;
    }
    scan_punctuation(token);
  }

  void scan_identifier(Token& token) {
    token.kind = TokenKind::kIdentifier;
    if (is_prefix(look())) {
      token.text += look();
      advance();
      if (look() == '"') {
        token.text += scan_string();
        return;
      }
    }
    const std::size_t begin = at_;
    while (is_word(look()) || (look() == '.' && is_word(look(1)))) advance();
    token.text += text_.substr(begin, at_ - begin);
    if (token.text == "inf" || token.text == "nan") {
      token.kind = TokenKind::kFloat;
      token.real =
          token.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
  }

  void scan_number(Token& token) {
    const bool hex = look() == '0' && (look(1) == 'x' || look(1) == 'X');
    const std::size_t spelling = at_;
    if (hex) advance(2);
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (hex ? is_hex_digit(look()) : is_digit(look())) advance();
    };
    bool real = false;
    digits();
    if (look() == '.' && look(1) != '.') {
      real = true;
      advance();
      digits();
    }
    const char exponent = static_cast<char>(look() | 0x20);
    if (exponent == (hex ? 'p' : 'e')) {
      real = true;
      advance();
      if (look() == '+' || look() == '-') advance();
      if (!is_digit(look())) fail("the exponent of a number has no digits");
      while (is_digit(look())) advance();
    }
    if (is_word(look())) fail("a number runs into a name; put a blank between them");

    token.text = text_.substr(spelling, at_ - spelling);
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    if (first == last) fail("a number has no digits");
    if (real) {
      token.kind = TokenKind::kFloat;
      const auto format = hex ? std::chars_format::hex : std::chars_format::general;
      const auto [end, error] = std::from_chars(first, last, token.real, format);
      if (error != std::errc() || end != last)
        fail(fmt::format("'{}' is no number that a double can hold", token.text));
    } else {
      token.kind = TokenKind::kInteger;
      const auto [end, error] = std::from_chars(first, last, token.integer, hex ? 16 : 10);
      if (error != std::errc() || end != last) fail(fmt::format("'{}' does not fit 64 bits", token.text));
      token.real = static_cast<double>(token.integer);
    }
  }

  std::string scan_string() {
    const int line = line_;
    const int column = column_;
    std::string value;
    advance();
    while (look() != '"') {
      if (at_ == text_.size()) {
        user_error("{}:{}:{}: this string has no closing quote", name_, line, column);
      }
      if (look() == '\\') {
        value += scan_escape();
      } else {
        value += look();
        advance();
      }
    }
    advance();
    return value;
  }

  char scan_escape() {
    const char c = look(1);
    if (c == 'x') {
      unsigned code = 0;
      if (!is_hex_digit(look(2)) || !is_hex_digit(look(3))) fail("\\x needs two hexadecimal digits");
      std::from_chars(text_.data() + at_ + 2, text_.data() + at_ + 4, code, 16);
      advance(4);
      return static_cast<char>(code);
    }
    char value = '\0';
    switch (c) {
      case 'n': value = '\n'; break;
      case 't': value = '\t'; break;
      case 'r': value = '\r'; break;
      case '"':
      case '\\': value = c; break;
      default: fail("unknown escape in a string; known are \\n \\t \\r \\\" \\\\ \\xHH");
    }
    advance(2);
    return value;
  }

  void scan_punctuation(Token& token) {
    token.kind = TokenKind::kPunctuation;
    for (const std::string_view punctuation : kLongPunctuation) {
      if (text_.substr(at_).starts_with(punctuation)) {
        token.text = punctuation;
        advance(punctuation.size());
        return;
      }
    }
    const char c = look();
    if (c < ' ' || c > '~') fail(fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)));
    token.text = std::string(1, c);
    advance();
  }

  [[noreturn]] void fail(const std::string& message) const {
    user_error("{}:{}:{}: {}", name_, line_, column_, message);
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
};

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd: return "the end of the text";
    case TokenKind::kString: return "the string " + spell_string(token.text);
    case TokenKind::kIdentifier:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kPunctuation: return "'" + token.text + "'";
  }
  STAX_UNREACHABLE();
}

template <typename Real>
std::string spell_real(Real value) {
  const char* sign = std::signbit(value) ? "-" : "";
  if (std::isnan(value)) return fmt::format("{}nan", sign);
  if (std::isinf(value)) return fmt::format("{}inf", sign);
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string name) : name_(std::move(name)) {
  tokens_ = Scanner(text, name_).scan();
}

const Token& Lexer::peek(std::size_t ahead) const {
  const std::size_t index = position_ + ahead;
  return index < tokens_.size() ? tokens_[index] : tokens_.back();
}

bool Lexer::peek_is(std::string_view text, std::size_t ahead) const {
  const Token& token = peek(ahead);
  return (token.kind == TokenKind::kIdentifier || token.kind == TokenKind::kPunctuation) && token.text == text;
}

Token Lexer::next() {
  Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Lexer::accept(std::string_view text) {
  if (!peek_is(text)) return false;
  ++position_;
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail_expected(fmt::format("'{}'", text));
}

std::string Lexer::expect_identifier() {
  if (peek().kind != TokenKind::kIdentifier) fail_expected("a name");
  return next().text;
}

std::string Lexer::expect_string() {
  if (peek().kind != TokenKind::kString) fail_expected("a string");
  return next().text;
}

std::int64_t Lexer::expect_integer() {
  const bool negative = accept("-");
  if (!negative) accept("+");
  if (peek().kind != TokenKind::kInteger) fail_expected("an integer");
  const std::uint64_t magnitude = peek().integer;
  const std::uint64_t limit = std::uint64_t{1} << 63;
  if (negative ? magnitude > limit : magnitude >= limit) error("{} does not fit a signed 64-bit integer", peek().text);
  ++position_;
  return static_cast<std::int64_t>(negative ? ~magnitude + 1 : magnitude);
}

std::uint64_t Lexer::expect_unsigned() {
  if (peek().kind != TokenKind::kInteger) fail_expected("an unsigned integer");
  return next().integer;
}

double Lexer::expect_float() {
  const bool negative = accept("-");
  if (!negative) accept("+");
  if (peek().kind != TokenKind::kFloat && peek().kind != TokenKind::kInteger) fail_expected("a number");
  const double magnitude = next().real;
  return negative ? -magnitude : magnitude;
}

void Lexer::expect_end() {
  if (!at_end()) fail_expected("the end of the text");
}

void Lexer::fail(const Token& token, const std::string& message) const {
  throw UserError(fmt::format("{}:{}:{}: {}", name_, token.line, token.column, message));
}

void Lexer::fail_expected(std::string_view what) const { error("expected {}, found {}", what, describe(peek())); }

bool is_identifier(std::string_view text) {
  if (text.empty() || !is_letter(text.front()) || text.back() == '.' || text == "inf" || text == "nan") return false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (!is_word(text[i]) && !(text[i] == '.' && text[i - 1] != '.')) return false;
  }
  return true;
}

std::string spell_string(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    switch (c) {
      case '\n': literal += "\\n"; break;
      case '\t': literal += "\\t"; break;
      case '\r': literal += "\\r"; break;
      case '"':
      case '\\':
        literal += '\\';
        literal += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') {
          literal += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
          literal += c;
        }
    }
  }
  literal += '"';
  return literal;
}

std::string spell_name(char prefix, std::string_view name) {
  if (prefix == '\0') return is_identifier(name) ? std::string(name) : spell_string(name);
  // After a prefix a name may begin with a digit, and `inf` is a name like any other.
  const bool plain = is_identifier("_" + std::string(name)) && !name.empty() && name.front() != '.';
  return prefix + (plain ? std::string(name) : spell_string(name));
}

std::string spell_float(double value) { return spell_real(value); }
std::string spell_float(float value) { return spell_real(value); }

}  // namespace stax
