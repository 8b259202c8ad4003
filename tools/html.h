// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pages that need nothing beside themselves: text for HTML, and small charts as SVG.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stax::tool {

/// Text as it may stand in an element or a quoted attribute. What is no UTF-8, and control characters, become U+FFFD.
std::string html_text(std::string_view text);

/// "1.5 us", "12 ms"; "3.4 M"; "3.4 MB". Three digits.
std::string time_text(double us);
std::string count_text(double count);
std::string bytes_text(double bytes);

struct Bar {
  std::string label, value, title;
  double length = 0;  // of the bar
  double part = 0;    // of it, drawn darker: at most `length`
};
/// Bars below each other, as long as the longest is wide; a logarithmic scale where they differ by more than 100 times.
std::string bar_chart(const std::vector<Bar>& bars);

/// A line through values at equal steps, from 0 up.
std::string sparkline(const std::vector<double>& values, std::string_view title);

/// A filled curve of bytes over steps.
std::string area_chart(const std::vector<double>& values, std::string_view title);

struct Cell {
  int color = -1;  // -1: an empty cell
  std::string title;
};
/// Colored cells side by side.
std::string color_strip(const std::vector<Cell>& cells);
/// The color of a number, for legends: a CSS class.
std::string color_class(int color);

}  // namespace stax::tool
