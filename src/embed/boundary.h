// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where exceptions of Stax's own types end: everything behind the public API runs inside guarded().
#include <exception>
#include <string>
#include <utility>

#include "stax/stax.h"

namespace stax::embed {

/// An exception of the caller's, on its way from a callback to whoever called Stax.
struct CallerException {
  std::exception_ptr exception;
};

/// The message of an internal error in its three parts. `where` and `how` are used if the text names none.
Error error_of_text(ErrorKind kind, const std::string& text, const std::string& where, const std::string& how);

/// To be called in a catch block: throws what is being handled as an Error, or as what the caller threw.
[[noreturn]] void rethrow_as_public(const std::string& where, const std::string& how);

template <class F>
auto guarded(const std::string& where, const std::string& how, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    rethrow_as_public(where, how);
  }
}

}  // namespace stax::embed
