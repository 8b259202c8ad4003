// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of remainders, as addresses of tensors in another order of axes are.
#include <vector>

#include "thread/thread_ir.h"

namespace stax::emit {

struct QuotientTerm {
  symbolic::Expr value, coefficient;
};

/// Where `sum` adds multiples of x mod m, for an m with a multiplier of the host: the sum with x - m floor(x / m) in their place, as terms whose
/// coefficients are expressions of parameters. A quotient that is the next remainder's x gets both coefficients in one, so that a digit of
/// a number costs one multiplication. Partial sums may leave 32 bits, where the arithmetic has to wrap. Empty: there is no such remainder.
std::vector<QuotientTerm> by_quotients(const thread::Kernel& kernel, symbolic::Expr sum);

}  // namespace stax::emit
