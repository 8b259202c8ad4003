// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stax {

/// One callable out of several, for std::visit.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace stax
