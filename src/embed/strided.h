// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors with strides, and memory that overlaps.
#include <cstdint>
#include <span>
#include <vector>

namespace stax::embed {

/// Row-major strides in elements.
std::vector<int64_t> row_major(std::span<const int64_t> shape);
/// Whether strides are those of row-major memory without gaps, as far as they matter: axes of extent 1 and tensors
/// without elements have any.
bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides);
/// Copies every element; strides in elements of `size` bytes, any sign.
void copy_strided(std::span<const int64_t> shape, size_t size, const void* from, std::span<const int64_t> from_strides,
                  void* to, std::span<const int64_t> to_strides);

/// Whether two elements of a view lie in one place. Exact; takes time and memory for as many elements as there are along axes that lie one between
/// another.
bool meets_itself(std::span<const int64_t> shape, std::span<const int64_t> strides);

/// Bytes [begin, end) that a view touches; empty where it has no elements.
struct Range {
  uintptr_t begin = 0, end = 0;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};
Range range_of(std::span<const int64_t> shape, size_t size, const void* data, std::span<const int64_t> strides);

/// A view for which is asked whether it meets others. Strides in elements.
struct Layout {
  std::vector<int64_t> shape, strides;
  size_t size = 0;  // of an element
  const void* data = nullptr;
};
/// Whether two views, neither of which meets itself, have a byte in common. Exact; where neither their ranges nor a period of both tell them apart,
/// element by element.
bool meet(const Layout& a, const Layout& b);

}  // namespace stax::embed
