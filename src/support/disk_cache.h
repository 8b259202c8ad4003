// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that are dear to make, kept on disk between processes.
//
// An entry is a file named by a hash of its key; it holds the key itself, so that equal hashes of different keys are no hit, and a checksum.
// Entries are written beside their place and renamed, so that processes side by side see whole entries or none. What is damaged is no entry: it is
// removed and made again. The folder is bounded in bytes; those not used for longest go first, by time of modification, which a hit renews. No
// fault of the file system is an error: what cannot be kept is made again.
//
// Entries may be machine code. The folder is made for its owner alone, and one that others own or may write to is not used.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/mapped_file.h"

namespace stax {

class DiskCache {
 public:
  /// `most_bytes`: of all entries together; an entry of more than a quarter of that is not kept.
  DiskCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  /// The entry, mapped from its file and aligned to 64 bytes. It stays whole when another process replaces or removes the file.
  std::optional<MappedBytes> find(std::string_view key) const;
  void insert(std::string_view key, std::span<const uint8_t> bytes) const;
  const std::string& folder() const { return folder_; }

 private:
  std::string path_of(std::string_view key) const;
  bool prepare_folder() const;
  void evict() const;
  std::string folder_;
  int64_t most_bytes_;
};

/// The cache of this user: STAX_CACHE=DIR, by default `stax` in $XDG_CACHE_HOME or ~/.cache; null with STAX_CACHE=off, or where there is no home.
/// Read from the environment at each call.
std::unique_ptr<DiskCache> user_cache();

}  // namespace stax
