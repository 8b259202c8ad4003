// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "procedures/element.h"
#include "procedures/procedures.h"

namespace stax::procedures {

namespace {

template <class T>
bool is_nonzero(T x) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return (x.bits & 0x7FFF) != 0;
  } else {
    return x != 0;
  }
}

}  // namespace

int64_t count_nonzero(ir::DType type, const void* data, int64_t begin, int64_t end) {
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(data);
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += is_nonzero(x[i]) ? 1 : 0;
    return count;
  });
}

void write_nonzero(ir::DType type, const void* data, std::span<const int64_t> extents, int64_t begin, int64_t end,
                   int64_t* out, int64_t total, int64_t first) {
  const int rank = static_cast<int>(extents.size());
  with_element(type, [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(data);
    for (int64_t i = begin; i < end; ++i) {
      if (!is_nonzero(x[i])) continue;
      int64_t rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        out[d * total + first] = rest % extents[d];
        rest /= extents[d];
      }
      ++first;
    }
  });
}

}  // namespace stax::procedures
