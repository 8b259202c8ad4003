// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions as arguments of fmt: spelled only when a message is really made.
#include <fmt/format.h>

#include "ir/scalar.h"

template <>
struct fmt::formatter<stax::symbolic::Expr> : fmt::formatter<std::string> {
  template <class Context>
  auto format(stax::symbolic::Expr e, Context& context) const {
    return fmt::formatter<std::string>::format(e.str(), context);
  }
};

template <>
struct fmt::formatter<stax::ir::Scalar> : fmt::formatter<std::string> {
  template <class Context>
  auto format(stax::ir::Scalar s, Context& context) const {
    return fmt::formatter<std::string>::format(s.str(), context);
  }
};
