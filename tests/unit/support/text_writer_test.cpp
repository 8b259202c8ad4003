// SPDX-License-Identifier: Apache-2.0
#include "support/text_writer.h"

#include <gtest/gtest.h>

namespace stax {
namespace {

TEST(TextWriter, IndentsWhileTheScopeLives) {
  TextWriter out;
  out.line("for {} {{", "i");
  {
    auto body = out.indent();
    out.line("a");
    out.line();
    auto inner = out.indent();
    out.line("b");
    inner.dedent();
    out.line("c");
  }
  out.line("}}");
  EXPECT_EQ(out.text(), "for i {\n  a\n\n    b\n  c\n}\n");
}

TEST(TextWriter, ALineInParts) {
  TextWriter out(4);
  auto body = out.indent();
  out.write("x = ");
  out.write("{}", 1);
  out.line(" + {};", 2);
  out.write("");
  out.end_line();
  EXPECT_EQ(out.text(), "    x = 1 + 2;\n\n");
}

TEST(TextWriter, RawLinesAreIndented) {
  TextWriter out;
  auto body = out.indent();
  out.lines("if (x) {{\n\n  y\n}");
  EXPECT_EQ(out.text(), "  if (x) {{\n\n    y\n  }\n");
}

TEST(TextWriter, TextCanBeMovedOut) {
  TextWriter out;
  out.line("a");
  const std::string text = std::move(out).text();
  EXPECT_EQ(text, "a\n");
}

}  // namespace
}  // namespace stax
