// SPDX-License-Identifier: Apache-2.0
#pragma once
// numpy's .npz files: a zip archive with one .npy a name.
#include <map>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace stax::session {

using Arrays = std::map<std::string, runtime::Tensor>;  // dtypes that numpy has (bfloat16 comes as u16)

/// UserError that names the file (and the array) where it cannot be read, is damaged, or holds a dtype that Stax has not.
Arrays read_npz(const std::string& path);

/// Complete or not at all: written beside the file that `path` leads to, and renamed.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, runtime::Tensor>>& arrays);

/// Bytes of a whole file; UserError that names it.
std::vector<uint8_t> read_file(const std::string& path);
/// Written beside the file that `path` leads to, and renamed; straight into what is no regular file (a pipe, /dev/stdout).
void write_file_atomically(const std::string& path, std::span<const uint8_t> bytes);

}  // namespace stax::session
