// SPDX-License-Identifier: Apache-2.0
#pragma once
// "Did you mean": the known word that differs least from what was typed.
#include <span>
#include <string>

namespace stax {

/// The word of `known` at the least edit distance (letters put in, taken out or replaced) from `typed`, the first of equals; empty if none is
/// within two.
std::string nearest(const std::string& typed, std::span<const std::string> known);

}  // namespace stax
