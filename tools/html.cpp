// SPDX-License-Identifier: Apache-2.0
#include "html.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace stax::tool {
namespace {

/// How many bytes at the beginning are one character of UTF-8; 0: none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
  const unsigned first = byte(0);
  const size_t count = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (size_t k = 1; k < count; ++k)
    if ((byte(k) & 0xC0U) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool no_character = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return overlong || no_character ? 0 : count;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const char c = text[0];
    if (bytes == 0 || (bytes == 1 && (c == 0x7F || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'))))
      out += "\xEF\xBF\xBD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

namespace {

std::string with_unit(double value, const std::vector<const char*>& units) {
  size_t k = 0;
  for (; value >= 1000 && k + 1 < units.size(); ++k) value /= 1000;
  return fmt::format("{:.{}f} {}", value,
                     k == 0 && value == std::floor(value) ? 0
                     : value < 10                         ? 2
                     : value < 100                        ? 1
                                                          : 0,
                     units[k]);
}

}  // namespace

std::string time_text(double us) { return with_unit(us, {"\u00b5s", "ms", "s"}); }
std::string count_text(double count) { return with_unit(count, {"", "K", "M", "G", "T"}); }
std::string bytes_text(double bytes) { return with_unit(bytes, {"B", "KB", "MB", "GB", "TB"}); }

std::string bar_chart(const std::vector<Bar>& bars) {
  constexpr int kRow = 22, kLabel = 260, kWidth = 460, kValue = 130;
  double longest = 0, shortest = INFINITY;
  for (const Bar& b : bars) {
    longest = std::max(longest, b.length);
    if (b.length > 0) shortest = std::min(shortest, b.length);
  }
  const bool logarithmic = longest > 100 * shortest;
  const auto width = [&](double length) {
    if (length <= 0 || longest <= 0) return 0.0;
    if (!logarithmic) return kWidth * length / longest;
    return kWidth * std::max(0.0, std::log(length / (shortest / 2)) / std::log(longest / (shortest / 2)));
  };
  std::string out = fmt::format("<svg class=\"bars\" width=\"{}\" height=\"{}\" role=\"img\">\n",
                                kLabel + kWidth + kValue, kRow * static_cast<int>(bars.size()));
  int y = 0;
  for (const Bar& b : bars) {
    out += fmt::format(
        "<g><title>{}</title><text text-anchor=\"end\" font-size=\"12\" x=\"{}\" y=\"{}\">{}</text>"
        "<rect class=\"bar\" fill=\"#9ec5e8\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
        "<rect class=\"part\" fill=\"#2b6cb0\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
        "<text font-size=\"12\" x=\"{:.1f}\" y=\"{}\">{}</text></g>\n",
        html_text(b.title), kLabel - 8, y + 15, html_text(b.label), kLabel, y + 3, width(b.length), kRow - 6, kLabel,
        y + 3, width(std::min(b.part, b.length)), kRow - 6, kLabel + width(b.length) + 6, y + 15, html_text(b.value));
    y += kRow;
  }
  out += "</svg>\n";
  if (logarithmic) out += "<p class=\"note\">The scale is logarithmic.</p>\n";
  return out;
}

std::string sparkline(const std::vector<double>& values, std::string_view title) {
  constexpr double kWidth = 110, kHeight = 22;
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string points;
  for (size_t k = 0; k < values.size(); ++k) {
    const double x =
        values.size() == 1 ? kWidth / 2 : kWidth * static_cast<double>(k) / static_cast<double>(values.size() - 1);
    const double y = kHeight - (most > 0 ? (kHeight - 2) * values[k] / most : 0) - 1;
    points += fmt::format("{:.1f},{:.1f} ", x, y);
  }
  std::string mark = values.size() == 1 ? fmt::format("<circle cx=\"{}\" cy=\"3\" r=\"2.5\"/>", kWidth / 2) : "";
  return fmt::format(
      "<svg class=\"spark\" width=\"{}\" height=\"{}\" role=\"img\"><title>{}</title><polyline fill=\"none\" "
      "stroke=\"#2b6cb0\" points=\"{}\"/>{}</svg>",
      kWidth, kHeight, html_text(title), points, mark);
}

std::string area_chart(const std::vector<double>& values, std::string_view title) {
  constexpr double kWidth = 720, kHeight = 120;
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const double step = kWidth / static_cast<double>(std::max<size_t>(values.size(), 1));
  std::string path = fmt::format("M0,{}", kHeight);
  for (size_t k = 0; k < values.size(); ++k) {
    const double y = kHeight - (most > 0 ? (kHeight - 2) * values[k] / most : 0);
    path += fmt::format(" L{:.1f},{:.1f} L{:.1f},{:.1f}", step * static_cast<double>(k), y,
                        step * static_cast<double>(k + 1), y);
  }
  path += fmt::format(" L{},{} Z", kWidth, kHeight);
  return fmt::format(
      "<svg class=\"area\" width=\"{}\" height=\"{}\" role=\"img\"><title>{}</title><path fill=\"#9ec5e8\" "
      "stroke=\"#2b6cb0\" d=\"{}\"/></svg>\n",
      kWidth, kHeight, html_text(title), path);
}

namespace {

// What the page's style says, for viewers that do not take styles into SVG.
constexpr std::array kColors = {"#2b6cb0", "#dd8a2b", "#2f9e6e", "#c0504d", "#7e62b5", "#8c6d4f", "#cc77aa", "#7f8c8d"};

}  // namespace

std::string color_class(int color) { return fmt::format("c{}", static_cast<size_t>(color) % kColors.size()); }

std::string color_strip(const std::vector<Cell>& cells) {
  const double width = std::clamp(160.0 / static_cast<double>(std::max<size_t>(cells.size(), 1)), 1.5, 16.0);
  std::string out = fmt::format("<svg class=\"strip\" width=\"{:.0f}\" height=\"16\" role=\"img\">",
                                width * static_cast<double>(cells.size()));
  for (size_t k = 0; k < cells.size(); ++k)
    out += fmt::format(
        "<rect class=\"{}\" fill=\"{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"16\"><title>{}</title></rect>",
        cells[k].color < 0 ? "none" : color_class(cells[k].color),
        cells[k].color < 0 ? "#d8dee6" : kColors[static_cast<size_t>(cells[k].color) % kColors.size()],
        width * static_cast<double>(k), width, html_text(cells[k].title));
  return out + "</svg>";
}

}  // namespace stax::tool
