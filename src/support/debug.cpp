// SPDX-License-Identifier: Apache-2.0
#include "support/debug.h"

#include <cstddef>
#include <cstdlib>

namespace stax {
namespace {

std::set<std::string> parse_list(const char* text) {
  std::set<std::string> names;
  if (text == nullptr) return names;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.emplace(name);
  }
  return names;
}

bool parse_flag(const char* text, bool otherwise) {
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string_view value = text;
  return value != "0" && value != "off" && value != "false";
}

}  // namespace

bool DebugOptions::dumps(std::string_view name) const {
  return !dump.empty() && (dump.contains(std::string(name)) || dump.contains("all"));
}

bool DebugOptions::disables(std::string_view name) const {
  return !disable.empty() && disable.contains(std::string(name));
}

DebugOptions parse_debug_options(const char* (*variable)(const char* name)) {
  DebugOptions options;
  options.dump = parse_list(variable("STAX_DUMP"));
  options.disable = parse_list(variable("STAX_DISABLE"));
  options.time = parse_flag(variable("STAX_TIME"), false);
  options.verify = parse_flag(variable("STAX_VERIFY"), false);
  const char* repro_dir = variable("STAX_REPRO_DIR");
  options.repro_dir = repro_dir != nullptr && *repro_dir != '\0' ? repro_dir : ".";
  return options;
}

const DebugOptions& debug_options() {
  static const DebugOptions options =
      parse_debug_options([](const char* name) -> const char* { return std::getenv(name); });
  return options;
}

}  // namespace stax
