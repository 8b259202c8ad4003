// SPDX-License-Identifier: Apache-2.0
#include "support/text_writer.h"

#include <cstddef>

namespace stax {

void TextWriter::begin_line() {
  text_.append(static_cast<std::size_t>(depth_) * static_cast<std::size_t>(spaces_per_level_), ' ');
  in_line_ = true;
}

void TextWriter::end_line() {
  if (in_line_) {
    // A line whose parts were all empty is an empty line.
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
  }
  text_ += '\n';
  in_line_ = false;
}

void TextWriter::lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view one = text.substr(0, end);
    if (!one.empty()) {
      begin_line_if_needed();
      text_ += one;
    }
    end_line();
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

}  // namespace stax
