// SPDX-License-Identifier: Apache-2.0
#include "support/lexer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "support/error.h"

namespace stax {
namespace {

std::string fault_of(std::string_view text) {
  try {
    Lexer lexer(text, "f");
    while (!lexer.at_end()) lexer.next();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

std::vector<std::string> texts_of(std::string_view text) {
  std::vector<std::string> texts;
  for (Lexer lexer(text); !lexer.at_end();) texts.push_back(lexer.next().text);
  return texts;
}

TEST(Lexer, SplitsTokens) {
  EXPECT_EQ(texts_of("%0 = matmul.f32 @w, x[1..64]->(a==b) // end\n# more\n- z"),
            (std::vector<std::string>{"%0", "=", "matmul.f32", "@w", ",", "x", "[", "1", "..", "64", "]", "->", "(",
                                      "a", "==", "b", ")", "-", "z"}));
}

TEST(Lexer, RangesOfNames) {
  EXPECT_EQ(texts_of("n..m a.b..2"), (std::vector<std::string>{"n", "..", "m", "a.b", "..", "2"}));
}

TEST(Lexer, PercentAloneIsPunctuation) {
  EXPECT_EQ(texts_of("a % b %c"), (std::vector<std::string>{"a", "%", "b", "%c"}));
}

TEST(Lexer, KindsOfNumbers) {
  Lexer lexer("12 0xff 1.5 2e3 0x1.8p1 1. .5 inf nan 0x10p-1");
  EXPECT_EQ(lexer.peek().kind, TokenKind::kInteger);
  EXPECT_EQ(lexer.expect_integer(), 12);
  EXPECT_EQ(lexer.expect_integer(), 255);
  EXPECT_EQ(lexer.peek().kind, TokenKind::kFloat);
  EXPECT_EQ(lexer.expect_float(), 1.5);
  EXPECT_EQ(lexer.expect_float(), 2000.0);
  EXPECT_EQ(lexer.expect_float(), 3.0);
  EXPECT_EQ(lexer.expect_float(), 1.0);
  EXPECT_EQ(lexer.expect_float(), 0.5);
  EXPECT_EQ(lexer.expect_float(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(lexer.expect_float()));
  EXPECT_EQ(lexer.expect_float(), 8.0);
  lexer.expect_end();
}

TEST(Lexer, SignedExtremes) {
  Lexer lexer("-9223372036854775808 9223372036854775807 18446744073709551615 -0.0 -inf 7");
  EXPECT_EQ(lexer.expect_integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(lexer.expect_integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(lexer.expect_unsigned(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(std::signbit(lexer.expect_float()));
  EXPECT_EQ(lexer.expect_float(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(lexer.expect_float(), 7.0);
}

TEST(Lexer, IntegerTooLargeForItsPlace) {
  Lexer lexer("9223372036854775808");
  EXPECT_THROW(lexer.expect_integer(), UserError);
  EXPECT_EQ(fault_of("18446744073709551616"), "f:1:21: '18446744073709551616' does not fit 64 bits");
}

TEST(Lexer, StringsHoldAnyBytes) {
  const std::string value = "a \"b\\c\"\n\t\r\x01\x7F größe 日本 \xFF";
  Lexer lexer(spell_string(value) + " \"\\x41\"");
  EXPECT_EQ(lexer.peek().kind, TokenKind::kString);
  EXPECT_EQ(lexer.expect_string(), value);
  EXPECT_EQ(lexer.expect_string(), "A");
}

TEST(Lexer, NamesOfAnyKind) {
  for (const char* name :
       {"x", "0", "12", "inf", "a.b", "a..b", ".x", "x.", "onnx::Flatten_0", "a b", "", "größe", "q\"uote,"}) {
    for (const char prefix : {'%', '@'}) {
      Lexer lexer(spell_name(prefix, name) + ",");
      EXPECT_EQ(lexer.expect_identifier(), prefix + std::string(name));
      lexer.expect(",");
    }
    Lexer lexer(spell_name('\0', name));
    EXPECT_EQ(lexer.next().text, name);
    EXPECT_TRUE(lexer.at_end());
  }
}

TEST(Lexer, AcceptAndExpect) {
  Lexer lexer("func \"func\" x");
  EXPECT_TRUE(lexer.peek_is("func"));
  EXPECT_FALSE(lexer.accept("x"));
  EXPECT_TRUE(lexer.accept("func"));
  EXPECT_FALSE(lexer.accept("func")) << "a string is no keyword";
  EXPECT_TRUE(lexer.peek_is("x", 1));
  const std::size_t mark = lexer.mark();
  lexer.next();
  lexer.expect("x");
  EXPECT_TRUE(lexer.at_end());
  lexer.next();
  EXPECT_TRUE(lexer.at_end());
  lexer.rewind(mark);
  EXPECT_EQ(lexer.expect_string(), "func");
}

TEST(Lexer, MessagesNameThePlace) {
  Lexer lexer("a\n  größe )", "model.stax");
  lexer.next();
  lexer.next();
  try {
    lexer.expect("(");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "model.stax:2:9: expected '(', found ')'");
  }
}

TEST(Lexer, Faults) {
  EXPECT_EQ(fault_of("x \"abc"), "f:1:3: this string has no closing quote");
  EXPECT_EQ(fault_of("12abc"), "f:1:3: a number runs into a name; put a blank between them");
  EXPECT_EQ(fault_of("\"\\q\""), "f:1:2: unknown escape in a string; known are \\n \\t \\r \\\" \\\\ \\xHH");
  EXPECT_EQ(fault_of("\x02"), "f:1:1: unexpected byte 0x02");
  EXPECT_EQ(fault_of("0x"), "f:1:3: a number has no digits");
  EXPECT_EQ(fault_of("1e"), "f:1:3: the exponent of a number has no digits");
}

TEST(Lexer, FloatsSurviveTheRoundTrip) {
  std::mt19937_64 random(7);
  const auto check = [](double value) {
    Lexer lexer(spell_float(value));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(lexer.expect_float()), std::bit_cast<std::uint64_t>(value))
        << spell_float(value);
    EXPECT_TRUE(lexer.at_end());
  };
  for (const double value : {0.0, -0.0, 1.0, 1e300, -1e22, 5e-324, 1e16, 123456789.0}) check(value);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) check(value);
    const float narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(narrow)) {
      EXPECT_EQ(static_cast<float>(Lexer(spell_float(narrow)).expect_float()), narrow);
    }
  }
  EXPECT_EQ(spell_float(0.1F), "0.1");
  EXPECT_EQ(spell_float(2.0), "2.0");
  EXPECT_EQ(spell_float(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Lexer, AnyBytesEndInTokensOrAUserError) {
  std::mt19937 random(11);
  const std::string alphabet = "ab01.\"\\%@-+x#/\n e(=\xC3\xA9";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
    fault_of(text);
  }
}

}  // namespace
}  // namespace stax
