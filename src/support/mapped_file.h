// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace stax {

/// Bytes of a file, mapped; they live as long as the pointer, and must not be written. Files are to be replaced (as Stax writes them), not
/// shortened in place.
struct MappedBytes {
  std::shared_ptr<void> data;
  size_t size = 0;
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data.get()), size}; }
};

/// UserError that names the file where it is missing, is no file, or ends before offset + length.
MappedBytes map_file(const std::string& path, int64_t offset = 0, std::optional<int64_t> length = {});

}  // namespace stax
