// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects -> one shared object, by lld inside of this process.
#include <cstdint>
#include <string>
#include <vector>

namespace stax::native {

/// As emit::NativeCompiler::link says.
std::vector<uint8_t> link_image(const std::vector<std::string>& objects);

}  // namespace stax::native
