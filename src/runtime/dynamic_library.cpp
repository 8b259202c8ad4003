// SPDX-License-Identifier: Apache-2.0
#include "runtime/dynamic_library.h"

#include <dlfcn.h>

#include "support/error.h"

namespace stax::runtime {

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names, const std::string& what,
                               const std::string& advice)
    : what_(what), advice_(advice) {
  std::string tried;
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    tried += (tried.empty() ? "" : ", ") + name;
  }
  user_error("there is no {} on this machine ({} cannot be opened); {}", what, tried, advice);
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::function(const char* name) const {
  if (void* f = dlsym(RTLD_DEFAULT, name)) return f;
  if (void* f = dlsym(handle_, name)) return f;
  user_error("the {} on this machine has no function {}: it is too old; {}", what_, name, advice_);
}

}  // namespace stax::runtime
