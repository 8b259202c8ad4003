// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/scalar.h"

namespace stax::emit {

/// Whether the values of a float scalar that are not NaN lie in the range of a 32-bit integer, by its form alone: constants, casts of integers,
/// min, max, sums and roundings of them.
bool fits_i32(ir::Scalar s);

}  // namespace stax::emit
