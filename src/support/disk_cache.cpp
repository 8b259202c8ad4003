// SPDX-License-Identifier: Apache-2.0
#include "support/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/error.h"
#include "support/hash.h"

namespace stax {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'S', 'T', 'A', 'X', 'K', 'E', 'P', '2'};
constexpr const char* kSuffix = ".kept";
constexpr const char* kUnfinished = ".part";
constexpr int64_t kUserCacheBytes = int64_t{1} << 30;
// What a process that died has left is removed after this long.
constexpr auto kUnfinishedFor = std::chrono::hours(1);

// The header, the key, zeros up to a multiple of kAlignment, the bytes.
struct Header {
  char magic[8];
  uint64_t key_bytes, bytes, checksum;
};
constexpr size_t kAlignment = 64;
size_t start_of_bytes(size_t key_bytes) {
  return (sizeof(Header) + key_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t checksum_of(std::string_view key, std::span<const uint8_t> bytes) {
  return hash_bytes(std::as_bytes(bytes), hash_bytes(key, bytes.size()));
}

std::optional<MappedBytes> map_whole(const std::string& path) {
  try {
    return map_file(path);
  } catch (const UserError&) {
    return std::nullopt;  // removed meanwhile, or not to be read
  }
}

}  // namespace

std::string DiskCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}{}", folder_, hash_bytes(key, 1), hash_bytes(key, 2), kSuffix);
}

bool DiskCache::prepare_folder() const {
  std::error_code error;
  if (!fs::exists(folder_, error)) {
    fs::create_directories(fs::path(folder_).parent_path(), error);
    ::mkdir(folder_.c_str(), 0700);
  }
  struct stat status{};
  return ::stat(folder_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<MappedBytes> DiskCache::find(std::string_view key) const {
  const std::string path = path_of(key);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !prepare_folder()) return std::nullopt;
  const std::optional<MappedBytes> file = map_whole(path);
  if (!file) return std::nullopt;
  const auto* at = static_cast<const char*>(file->data.get());
  Header header{};
  bool whole = file->size >= sizeof header;
  size_t start = 0;
  if (whole) {
    std::memcpy(&header, at, sizeof header);
    whole = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.key_bytes <= file->size;
    start = start_of_bytes(header.key_bytes);
    whole = whole && start <= file->size && header.bytes == file->size - start;
  }
  if (whole) {
    const std::string_view kept_key(at + sizeof header, header.key_bytes);
    const MappedBytes bytes{{file->data, const_cast<char*>(at) + start}, header.bytes};
    if (checksum_of(kept_key, bytes.bytes()) == header.checksum) {
      if (kept_key != key) return std::nullopt;
      ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
      return bytes;
    }
  }
  ::unlink(path.c_str());
  return std::nullopt;
}

void DiskCache::insert(std::string_view key, std::span<const uint8_t> bytes) const {
  Header header{{}, key.size(), bytes.size(), checksum_of(key, bytes)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  if (static_cast<int64_t>(sizeof header + key.size() + bytes.size()) > most_bytes_ / 4 || !prepare_folder()) return;
  static std::atomic<uint64_t> number{0};
  const std::string path = path_of(key);
  const std::string unfinished = fmt::format("{}.{}.{}{}", path, ::getpid(), number++, kUnfinished);
  {
    std::ofstream out(unfinished, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(key.data(), static_cast<std::streamsize>(key.size()));
    const std::string gap(start_of_bytes(key.size()) - sizeof header - key.size(), '\0');
    out.write(gap.data(), static_cast<std::streamsize>(gap.size()));
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    if (!out) {
      ::unlink(unfinished.c_str());
      return;
    }
  }
  if (::rename(unfinished.c_str(), path.c_str()) != 0) ::unlink(unfinished.c_str());
  evict();
}

void DiskCache::evict() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t sum = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // by another process
    const Entry e{fs::last_write_time(it->path(), gone), static_cast<int64_t>(fs::file_size(it->path(), gone)),
                  it->path()};
    if (gone) continue;
    if (e.path.extension() == kUnfinished && now - e.used > kUnfinishedFor) {
      fs::remove(e.path, gone);
    } else if (e.path.extension() == kSuffix) {
      sum += e.bytes;
      entries.push_back(e);
    }
  }
  if (sum <= most_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (sum <= most_bytes_ / 10 * 9) break;  // a little more, so that not every insertion has to
    fs::remove(e.path, error);
    sum -= e.bytes;
  }
}

std::unique_ptr<DiskCache> user_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string folder = variable("STAX_CACHE");
  if (folder == "off") return nullptr;
  if (folder.empty()) {
    const std::string base = variable("XDG_CACHE_HOME"), home = variable("HOME");
    if (base.empty() && home.empty()) return nullptr;
    folder = (base.empty() ? home + "/.cache" : base) + "/stax";
  }
  return std::make_unique<DiskCache>(folder, kUserCacheBytes);
}

}  // namespace stax
