// SPDX-License-Identifier: Apache-2.0
#pragma once
// The instruction sets that native code is made for, as this machine has them.
#include <string_view>

namespace stax {

/// Whether this machine executes code for `isa`: "avx512vnni", "avx512", "avxvnni", "avx2" or "baseline" (x86-64-v2; on any other
/// machine its own code). False for a name that is none of these.
bool cpu_executes(std::string_view isa);

}  // namespace stax
