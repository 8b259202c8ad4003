// SPDX-License-Identifier: Apache-2.0
#pragma once
// A driver or run-time compiler that is opened when it is needed. Building Stax needs none of them.
#include <string>
#include <vector>

namespace stax::runtime {

class DynamicLibrary {
 public:
  /// Opens the first of `names` that there is. Symbols that the process has already win over the library's, so that a tool can stand in for a
  /// driver. UserError that names the libraries and says what to install (`advice`) if there is none.
  DynamicLibrary(const std::vector<std::string>& names, const std::string& what, const std::string& advice);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  /// UserError if the library has no such function: it is too old.
  void* function(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string what_, advice_;
};

}  // namespace stax::runtime
