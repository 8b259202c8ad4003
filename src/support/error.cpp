// SPDX-License-Identifier: Apache-2.0
#include "support/error.h"

#include <string_view>

namespace stax {

UnsupportedError::UnsupportedError(const std::string& message)
    : UserError(std::string_view(message).starts_with(kUnsupportedPrefix)
                    ? message
                    : fmt::format("{} {}", kUnsupportedPrefix, message)) {}

namespace detail {

void assertion_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(message.empty() ? fmt::format("{}:{}: internal error: {}", file, line, condition)
                                      : fmt::format("{}:{}: internal error: {}: {}", file, line, condition, message));
}

}  // namespace detail
}  // namespace stax
