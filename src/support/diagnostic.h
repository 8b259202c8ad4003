// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// Faults of one phase are collected and reported together: a user with ten unsupported ops learns of all ten at once.

namespace stax {

struct Diagnostic {
  std::string message;       // what is wrong
  std::string where;         // file, node, dim, line ...; may be empty
  std::string how;           // how to fix it; may be empty
  bool unsupported = false;  // legal input that Stax cannot handle
};

// "where: message (how)", with the parts that are not empty.
std::string to_string(const Diagnostic& diagnostic);

class Diagnostics {
 public:
  void add(Diagnostic diagnostic);
  void add(std::string message, std::string where = {}, std::string how = {});
  void add_unsupported(std::string message, std::string where = {}, std::string how = {});

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const std::vector<Diagnostic>& entries() const { return entries_; }

  // Ends a phase. Returns if nothing was added. Otherwise throws one error that lists the faults in the order they were
  // added, equal ones once, in at most 30 lines: UnsupportedError if every fault is `unsupported`, else UserError.
  void checkpoint() const;

 private:
  std::vector<Diagnostic> entries_;
};

}  // namespace stax
