// SPDX-License-Identifier: Apache-2.0
#include "embed/strided.h"

#include <algorithm>
#include <cstring>

namespace stax::embed {
namespace {

struct Axis {
  int64_t extent, from, to;
};

template <class T>
void copy_row(const Axis& axis, const char* from, char* to) {
  for (int64_t k = 0; k < axis.extent; ++k) std::memcpy(to + k * axis.to, from + k * axis.from, sizeof(T));
}

/// Strides in bytes from here on. The last axis is the innermost.
void copy_axes(std::span<const Axis> axes, size_t size, const char* from, char* to) {
  if (axes.empty()) {
    std::memcpy(to, from, size);
    return;
  }
  const Axis& axis = axes[0];
  if (axes.size() > 1) {
    for (int64_t k = 0; k < axis.extent; ++k) copy_axes(axes.subspan(1), size, from + k * axis.from, to + k * axis.to);
    return;
  }
  int64_t step = static_cast<int64_t>(size);
  if (axis.from == step && axis.to == step)
    std::memcpy(to, from, static_cast<size_t>(axis.extent) * size);
  else if (size == 1)
    copy_row<uint8_t>(axis, from, to);
  else if (size == 2)
    copy_row<uint16_t>(axis, from, to);
  else if (size == 4)
    copy_row<uint32_t>(axis, from, to);
  else
    copy_row<uint64_t>(axis, from, to);
}

}  // namespace

std::vector<int64_t> row_major(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * std::max<int64_t>(1, shape[k]);
  return strides;
}

bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  int64_t expected = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    if (shape[k] == 1) continue;
    if (strides[k] != expected) return false;
    expected *= shape[k];
  }
  return true;
}

void copy_strided(std::span<const int64_t> shape, size_t size, const void* from, std::span<const int64_t> from_strides,
                  void* to, std::span<const int64_t> to_strides) {
  std::vector<Axis> axes;
  int64_t bytes = static_cast<int64_t>(size);
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return;
    if (shape[k] == 1) continue;
    Axis axis{shape[k], from_strides[k] * bytes, to_strides[k] * bytes};
    // Neighbours that lie one in the other are one axis.
    if (!axes.empty() && axes.back().from == axis.extent * axis.from && axes.back().to == axis.extent * axis.to) {
      axis.extent *= axes.back().extent;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  copy_axes(axes, size, static_cast<const char*>(from), static_cast<char*>(to));
}

bool meets_itself(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, extent
  int64_t count = 1;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return false;
    if (shape[k] > 1) axes.emplace_back(std::abs(strides[k]), shape[k]);
    count *= shape[k];
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  bool is_nested = true;
  for (const auto& [stride, extent] : axes) {
    is_nested = is_nested && stride > reach;
    reach += stride * (extent - 1);
  }
  if (is_nested) return false;
  if (count > reach + 1) return true;  // more elements than places
  // Axes that lie one between another: place by place.
  std::vector<bool> taken(static_cast<size_t>(reach) + 1);
  std::vector<int64_t> index(axes.size());
  for (int64_t at = 0;;) {
    if (taken[static_cast<size_t>(at)]) return true;
    taken[static_cast<size_t>(at)] = true;
    size_t k = 0;
    for (; k < axes.size() && ++index[k] == axes[k].second; ++k) {
      at -= axes[k].first * (axes[k].second - 1);
      index[k] = 0;
    }
    if (k == axes.size()) return false;
    at += axes[k].first;
  }
}

Range range_of(std::span<const int64_t> shape, size_t size, const void* data, std::span<const int64_t> strides) {
  int64_t low = 0, high = 0, bytes = static_cast<int64_t>(size);
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return {};
    int64_t last = (shape[k] - 1) * strides[k] * bytes;
    (last < 0 ? low : high) += last;
  }
  uintptr_t at = reinterpret_cast<uintptr_t>(data);
  return {at + static_cast<uintptr_t>(low), at + static_cast<uintptr_t>(high) + size};
}

}  // namespace stax::embed
