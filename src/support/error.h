// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

// Two kinds of fault, never mixed. `UserError`: the input is wrong; its message says what, where and how to fix it.
// `InternalError`: Stax is wrong; whoever catches it writes a repro.

namespace stax {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A legal input that Stax has no support for. Its message begins with "unsupported:".
class UnsupportedError : public UserError {
 public:
  explicit UnsupportedError(const std::string& message);
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline constexpr const char* kUnsupportedPrefix = "unsupported:";

template <typename... Arguments>
[[noreturn]] void user_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw UserError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// The prefix "unsupported: " is added here; callers name only what is not supported.
template <typename... Arguments>
[[noreturn]] void unsupported(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw UnsupportedError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename... Arguments>
[[noreturn]] void internal_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InternalError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

namespace detail {

[[noreturn]] void assertion_failed(const char* file, int line, const char* condition, const std::string& message);

inline std::string assertion_message() { return {}; }

template <typename... Arguments>
std::string assertion_message(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return fmt::format(format, std::forward<Arguments>(arguments)...);
}

}  // namespace detail
}  // namespace stax

// Holds in every build type. The message arguments are evaluated only on failure.
//   STAX_ASSERT(rank == 2);
//   STAX_ASSERT(rank == 2, "matmul of rank {}", rank);
#define STAX_ASSERT(condition, ...)                                                                \
  (static_cast<bool>(condition) ? void(0)                                                          \
                                : ::stax::detail::assertion_failed(__FILE__, __LINE__, #condition, \
                                                                   ::stax::detail::assertion_message(__VA_ARGS__)))

#define STAX_UNREACHABLE() ::stax::detail::assertion_failed(__FILE__, __LINE__, "unreachable", {})
