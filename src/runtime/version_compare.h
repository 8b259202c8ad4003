// SPDX-License-Identifier: Apache-2.0
#pragma once
// When two versions of a kernel agree.
//
// Versions add in one order, so on most devices they give the same bits, and then nothing else is looked at. Where they do not (matrix instructions add
// in an order of their own), floats may differ by what rounding explains: a part of the element, and a part of the largest one of the result, because an
// element may be small by cancellation. NaN agrees with NaN, an infinity with the same infinity, integers exactly.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace stax::runtime {

struct VersionDifference {
  std::vector<int64_t> index;  // of the first element that differs
  std::string what;            // "element [3, 0] is 1.5 instead of 2 (4 of 64 differ)"
};

/// Two results of `extents`. `exactly`: bit for bit, as two runs of one version must be.
std::optional<VersionDifference> compare_versions(ir::DType dtype, const std::vector<int64_t>& extents, const void* got,
                                                  const void* want, bool exactly);

}  // namespace stax::runtime
