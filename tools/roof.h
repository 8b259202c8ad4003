// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this machine can do at most: arithmetic and memory traffic of a number of threads, measured here and now.
#include <cstdint>
#include <utility>
#include <vector>

namespace stax::tool {

struct Roof {
  double operations_per_ns = 0;  // of f32: multiplications and additions
  std::vector<std::pair<int64_t, double>>
      bytes_per_ns;  // reading over and over what is this large, in bytes; ascending

  /// The least time that so many operations on so many bytes take, in ns, if nothing stands in the way of either. Bytes come from where a working set
  /// of that size lies.
  double least_ns(int64_t operations, int64_t bytes) const;
};

/// Takes about a second.
Roof measure_roof(int threads);

}  // namespace stax::tool
