// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finished programs, kept on disk between processes, so that a model is compiled once on a machine and mapped from then on.
//
// A program is found by what it was made from: the build of Stax, the target, the ranges of dims, and the contents of the model file and of the files
// with external data. Which files those are is known after an import only; so a model with external data has a second entry, a list of their
// paths. Contents are read to be hashed, never mapped: what is hashed and not used takes no memory.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "support/disk_cache.h"

namespace stax::session {

class ProgramCache {
 public:
  /// `how`: all that the program depends on besides the files. A null `cache` keeps nothing.
  ProgramCache(std::unique_ptr<DiskCache> cache, const std::string& model_file, const std::string& how);
  /// The program of the files as they are now, its constants views of the mapped entry; null if there is none.
  std::shared_ptr<program::Program> find() const;
  /// `external_files`: those that the program was made from besides the model file.
  void insert(const program::Program& program, std::vector<std::string> external_files) const;

 private:
  std::optional<std::string> program_key(const std::vector<std::string>& external_files) const;
  std::unique_ptr<DiskCache> cache_;  // null: nothing is found or kept
  std::string model_key_, list_key_;
};

}  // namespace stax::session
