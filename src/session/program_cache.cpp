// SPDX-License-Identifier: Apache-2.0
#include "session/program_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emit/native_compiler.h"
#include "support/build_id.h"
#include "support/error.h"
#include "support/hash.h"

namespace stax::session {
namespace {

/// Size and 128 bits of hash of a file's contents, as text; nothing if it cannot be read.
std::optional<std::string> contents_of(const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::vector<char> piece(kPiece);
  uint64_t size = 0, first = 1, second = 2;
  while (in) {
    in.read(piece.data(), kPiece);
    const std::string_view bytes(piece.data(), static_cast<size_t>(in.gcount()));
    size += bytes.size();
    // Two hashes of 64 bits with different seeds: an accident in both has a chance of 2^-128.
    first = hash_bytes(bytes, first);
    second = hash_bytes(bytes, second);
  }
  if (!in.eof()) return std::nullopt;
  return fmt::format("{} bytes {:016x}{:016x}", size, first, second);
}

}  // namespace

ProgramCache::ProgramCache(std::unique_ptr<DiskCache> cache, const std::string& model_file, const std::string& how) {
  if (!cache) return;
  const std::optional<std::string> contents = contents_of(model_file);
  if (!contents) return;  // who opens the file says why
  cache_ = std::move(cache);
  model_key_ =
      fmt::format("program of {} and {}\n{}\n{}\n", build_id(), emit::native_compiler_build_id(), how, *contents);
  // The same model in another folder has other files beside it.
  list_key_ = fmt::format("files of {}in {}\n", model_key_, std::filesystem::path(model_file).parent_path().string());
}

std::optional<std::string> ProgramCache::program_key(const std::vector<std::string>& external_files) const {
  std::string key = model_key_;
  for (const std::string& path : external_files) {
    const std::optional<std::string> contents = contents_of(path);
    if (!contents) return std::nullopt;
    key += *contents + "\n";
  }
  return key;
}

std::shared_ptr<program::Program> ProgramCache::find() const {
  if (!cache_) return nullptr;
  std::vector<std::string> external_files;
  if (const std::optional<MappedBytes> list = cache_->find(list_key_)) {
    std::istringstream lines(std::string(static_cast<const char*>(list->data.get()), list->size));
    for (std::string line; std::getline(lines, line);) external_files.push_back(line);
  }
  const std::optional<std::string> key = program_key(external_files);
  const std::optional<MappedBytes> file = key ? cache_->find(*key) : std::nullopt;
  if (!file) return nullptr;
  try {
    return std::make_shared<program::Program>(program::deserialize(file->bytes(), "an entry of the cache", file->data));
  } catch (const UserError&) {
    return nullptr;  // of a build with the same id and another format: made again
  }
}

void ProgramCache::insert(const program::Program& program, std::vector<std::string> external_files) const {
  if (!cache_) return;
  std::sort(external_files.begin(), external_files.end());
  external_files.erase(std::unique(external_files.begin(), external_files.end()), external_files.end());
  std::string list;
  for (const std::string& path : external_files) {
    if (path.find('\n') != std::string::npos) return;  // is no line of a list
    list += path + "\n";
  }
  const std::optional<std::string> key = program_key(external_files);
  if (!key) return;
  if (!list.empty()) cache_->insert(list_key_, {reinterpret_cast<const uint8_t*>(list.data()), list.size()});
  cache_->insert(*key, program::serialize(program));
}

}  // namespace stax::session
