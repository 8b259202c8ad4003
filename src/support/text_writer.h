// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

// The indenting writer shared by all printers and emitters.
//
//   TextWriter out;
//   out.line("for ({} = 0; {} < n; ++{}) {{", i, i, i);
//   {
//     auto body = out.indent();
//     out.write("{} = ", target);   // begins a line
//     out.write("{};", value);      // goes on with it
//     out.end_line();
//   }
//   out.line("}}");
//
// Empty lines carry no indentation.

namespace stax {

class TextWriter {
 public:
  // Indents while it lives, or until `dedent`.
  class [[nodiscard]] Indent {
   public:
    explicit Indent(TextWriter& writer) : writer_(&writer) { ++writer.depth_; }
    Indent(Indent&& other) noexcept : writer_(std::exchange(other.writer_, nullptr)) {}
    Indent(const Indent&) = delete;
    Indent& operator=(const Indent&) = delete;
    Indent& operator=(Indent&&) = delete;
    ~Indent() { dedent(); }

    void dedent() {
      if (writer_ != nullptr) --std::exchange(writer_, nullptr)->depth_;
    }

   private:
    TextWriter* writer_;
  };

  explicit TextWriter(int spaces_per_level = 2) : spaces_per_level_(spaces_per_level) {}

  Indent indent() { return Indent(*this); }

  // One whole line, or the rest of the one begun with `write`.
  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    write(format, std::forward<Arguments>(arguments)...);
    end_line();
  }
  void line() { end_line(); }

  // A part of a line. The formatted text holds no line break.
  template <typename... Arguments>
  void write(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    begin_line_if_needed();
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  void end_line();

  // `text` as it is, without format fields; each of its lines is indented.
  void lines(std::string_view text);

  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }

 private:
  void begin_line_if_needed() {
    if (!in_line_) begin_line();
  }
  void begin_line();

  std::string text_;
  int spaces_per_level_;
  int depth_ = 0;
  bool in_line_ = false;
};

}  // namespace stax
