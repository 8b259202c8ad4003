// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

// The one debug vocabulary, read from the environment once, at first use:
//
//   STAX_DUMP=a,b       print the IR after passes `a` and `b`; `all`: after every pass that changed something
//   STAX_DISABLE=a,b    leave out passes `a` and `b`; only those that are not needed for correctness can be left out
//   STAX_TIME=1         print the time of each pass as it ends
//   STAX_VERIFY=1       run the verifier after each pass
//   STAX_REPRO_DIR=D    where the repro of an internal error goes; default: the working directory
//
// The names of passes are those of their files. Stages are shown by `stax dump --stage`.

namespace stax {

struct DebugOptions {
  std::set<std::string> dump;
  std::set<std::string> disable;
  bool time = false;
  bool verify = false;
  std::string repro_dir;

  bool dumps(std::string_view name) const;
  bool disables(std::string_view name) const;
  /// Whether anything but `repro_dir` is set.
  bool any() const { return !dump.empty() || !disable.empty() || time || verify; }
};

const DebugOptions& debug_options();

// What `debug_options` is made from. `variable` answers the value of an environment variable, or null.
DebugOptions parse_debug_options(const char* (*variable)(const char* name));

}  // namespace stax
