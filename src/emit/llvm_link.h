// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects -> one shared object, by lld inside of this process.
#include <cstdint>
#include <string>
#include <vector>

namespace stax::emit {

/// `objects`: ELF relocatable files. The result exports all their default-visible symbols and needs no library; a reference to anything
/// outside is an InternalError that names it.
std::vector<uint8_t> link_image(const std::vector<std::string>& objects);

}  // namespace stax::emit
