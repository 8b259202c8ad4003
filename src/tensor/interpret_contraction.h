// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of products (matrix products, convolutions) at speed, for the reference interpreter.
#include <span>
#include <vector>

#include "tensor/interpret_blocks.h"
#include "tensor/interpret_ops.h"

namespace stax::tensor::reference {

/// If `c` is a sum of products P * Q where each factor is a function of one element at affine indices, and big enough
/// to be worth it: computes the sums of all outputs (axes row-major) and returns true. The sums are int64 in the bits
/// of the doubles where the accumulator is an integer. `vars` and `extents` hold the axes and then the reductions.
bool contract(const Call& call, const Compute& c, std::span<const Source> sources, const std::vector<Expr>& vars,
              const std::vector<int64_t>& extents, size_t axis_count, std::vector<double>& sums);

}  // namespace stax::tensor::reference
