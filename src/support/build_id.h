// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which build of Stax this is. Entries of the cache that another build made are never taken.
#include <filesystem>
#include <string>

namespace stax {

/// The file that this code was loaded from: the program, or the library.
std::filesystem::path own_file();

/// Identifies the machine code of that file.
std::string build_id();

/// The same of another program or library, without loading it; empty if there is no such file.
std::string build_id_of(const std::filesystem::path& file);

}  // namespace stax
