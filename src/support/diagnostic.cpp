// SPDX-License-Identifier: Apache-2.0
#include "support/diagnostic.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "support/error.h"

namespace stax {
namespace {

constexpr std::size_t kMaxLines = 30;

// A fault is one line of the report.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string to_string(const Diagnostic& diagnostic) {
  std::string text = diagnostic.where.empty() ? diagnostic.message : diagnostic.where + ": " + diagnostic.message;
  if (!diagnostic.how.empty()) text += " (" + diagnostic.how + ")";
  return text;
}

void Diagnostics::add(Diagnostic diagnostic) {
  const std::string_view prefix = kUnsupportedPrefix;
  if (diagnostic.message.starts_with(prefix)) {
    diagnostic.unsupported = true;
    diagnostic.message.erase(0, std::min(diagnostic.message.find_first_not_of(' ', prefix.size()),  //
                                         diagnostic.message.size()));
  }
  entries_.push_back(std::move(diagnostic));
}

void Diagnostics::add(std::string message, std::string where, std::string how) {
  add(Diagnostic{std::move(message), std::move(where), std::move(how)});
}

void Diagnostics::add_unsupported(std::string message, std::string where, std::string how) {
  add(Diagnostic{std::move(message), std::move(where), std::move(how), true});
}

void Diagnostics::checkpoint() const {
  if (entries_.empty()) return;
  const bool all_unsupported =
      std::all_of(entries_.begin(), entries_.end(), [](const Diagnostic& entry) { return entry.unsupported; });

  std::vector<std::string> lines;
  std::unordered_set<std::string> seen;
  for (const Diagnostic& entry : entries_) {
    std::string line = on_one_line(to_string(entry));
    if (entry.unsupported && !all_unsupported) line = fmt::format("{} {}", kUnsupportedPrefix, line);
    if (seen.insert(line).second) lines.push_back(std::move(line));
  }

  std::string report;
  if (lines.size() == 1) {
    report = lines.front();
  } else {
    report = fmt::format("{} faults:", lines.size());
    const std::size_t listed = lines.size() < kMaxLines ? lines.size() : kMaxLines - 2;
    for (std::size_t i = 0; i < listed; ++i) report += "\n  " + lines[i];
    if (listed < lines.size()) report += fmt::format("\n  ... and {} more", lines.size() - listed);
  }
  if (all_unsupported) throw UnsupportedError(report);
  throw UserError(report);
}

}  // namespace stax
