// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

// The one debug vocabulary, read from the environment once, at first use:
//
//   STAX_DUMP=a,b       print the IR after pass `a` where it changed something, and the text of stage `b`; `all`: every
//   one STAX_DISABLE=a,b    leave out pass `a` and `b`; only passes that are not needed for correctness can be left out
//   STAX_TIME=1         print the time of each pass at the end of a compilation
//   STAX_VERIFY=1       run the verifier after each pass (0: don't); default: on in builds without NDEBUG
//   STAX_REPRO_DIR=D    where the repro of an internal error goes; default: the working directory
//
// The names of passes and stages are those of their files and of `stax dump --stage`.

namespace stax {

struct DebugOptions {
  std::set<std::string> dump;
  std::set<std::string> disable;
  bool time = false;
  bool verify = false;
  std::string repro_dir;

  bool dumps(std::string_view name) const;
  bool disables(std::string_view name) const;
};

const DebugOptions& debug_options();

// What `debug_options` is made from. `variable` answers the value of an environment variable, or null.
DebugOptions parse_debug_options(const char* (*variable)(const char* name));

}  // namespace stax
