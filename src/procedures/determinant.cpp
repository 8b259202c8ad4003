// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "procedures/element.h"
#include "procedures/procedures.h"

namespace stax::procedures {

namespace {

/// Eliminates in place. A NaN anywhere in the pivot column makes the result NaN.
double eliminate(double* a, int64_t n) {
  double product = 1;
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r) {
      const double candidate = std::fabs(a[r * n + c]);
      if (std::isnan(candidate) || candidate > std::fabs(a[pivot * n + c])) pivot = r;
      if (std::isnan(candidate)) break;
    }
    if (pivot != c) {
      std::swap_ranges(a + pivot * n, a + (pivot + 1) * n, a + c * n);
      product = -product;
    }
    const double diagonal = a[c * n + c];
    product *= diagonal;
    if (diagonal == 0) return product;
    for (int64_t r = c + 1; r < n; ++r) {
      const double factor = a[r * n + c] / diagonal;
      if (factor == 0) continue;
      for (int64_t k = c + 1; k < n; ++k) a[r * n + k] -= factor * a[c * n + k];
    }
  }
  return product;
}

}  // namespace

void determinant(ir::DType type, const void* data, int64_t n, int64_t begin, int64_t end, void* out, Scratch& scratch) {
  double* matrix = scratch.reserve_array<double>(n * n);
  with_element(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      const T* from = static_cast<const T*>(data);
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t k = 0; k < n * n; ++k) matrix[k] = to_double(from[i * n * n + k]);
        static_cast<T*>(out)[i] = from_double<T>(eliminate(matrix, n));
      }
    } else {
      internal_error("a determinant of {}", name_of(type));
    }
  });
}

}  // namespace stax::procedures
