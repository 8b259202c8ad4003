// SPDX-License-Identifier: Apache-2.0
#include "embed/strided.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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

/// An axis of more than one element, whichever way it goes.
struct Step {
  int64_t stride, extent;
  int64_t reach() const { return stride * (extent - 1); }
  auto operator<=>(const Step&) const = default;
};
int64_t reach_of(std::span<const Step> axes) {
  int64_t reach = 0;
  for (const Step& a : axes) reach += a.reach();
  return reach;
}
int64_t count_of(std::span<const Step> axes) {
  int64_t count = 1;
  for (const Step& a : axes) count *= a.extent;
  return count;
}

/// Where each element is.
std::vector<int64_t> places_of(std::span<const Step> axes) {
  std::vector<int64_t> places = {0};
  places.reserve(static_cast<size_t>(count_of(axes)));
  for (const Step& a : axes) {
    const size_t before = places.size();
    for (int64_t k = 1; k < a.extent; ++k)
      for (size_t p = 0; p < before; ++p) places.push_back(places[p] + k * a.stride);
  }
  return places;
}

std::vector<Step> steps_of(const Layout& v) {
  std::vector<Step> axes;
  for (size_t k = 0; k < v.shape.size(); ++k)
    if (v.shape[k] > 1) axes.push_back({std::abs(v.strides[k]) * static_cast<int64_t>(v.size), v.shape[k]});
  std::sort(axes.begin(), axes.end());
  return axes;
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
  std::vector<Step> axes;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return false;
    if (shape[k] > 1) axes.push_back({std::abs(strides[k]), shape[k]});
  }
  std::sort(axes.begin(), axes.end());
  // An axis whose steps lead further than all shorter ones do keeps what it tells apart, and so does one that lies within the steps of all others.
  for (bool changed = true; changed && !axes.empty();) {
    changed = false;
    if (axes.back().stride > reach_of(std::span(axes).first(axes.size() - 1))) {
      axes.pop_back(), changed = true;
    } else if (int64_t common = 0; axes[0].stride > 0) {
      for (const Step& a : std::span(axes).subspan(1)) common = std::gcd(common, a.stride);
      if (axes[0].reach() < common) axes.erase(axes.begin()), changed = true;
    }
  }
  if (axes.empty()) return false;
  // Of two axes this is all that can happen.
  for (size_t a = 0; a < axes.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const int64_t common = std::gcd(axes[a].stride, axes[b].stride);
      if (common == 0 || (axes[b].stride / common < axes[a].extent && axes[a].stride / common < axes[b].extent))
        return true;
    }
  if (axes[0].stride == 0) return true;
  if (axes.size() <= 2) return false;
  if (count_of(axes) > reach_of(axes) + 1) return true;  // more elements than places
  std::vector<int64_t> places = places_of(axes);
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
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

bool meet(const Layout& a, const Layout& b) {
  const Range range_a = range_of(a.shape, a.size, a.data, a.strides),
              range_b = range_of(b.shape, b.size, b.data, b.strides);
  if (!range_a.meets(range_b)) return false;
  const std::vector<Step> steps_a = steps_of(a), steps_b = steps_of(b);
  const auto from_a = static_cast<int64_t>(range_b.begin - range_a.begin);  // of b, in bytes
  const auto size_a = static_cast<int64_t>(a.size), size_b = static_cast<int64_t>(b.size);
  // With a period that longer axes of both are multiples of: two stretches of it that do not meet. So columns of a matrix do.
  for (const std::vector<Step>* steps : {&steps_a, &steps_b})
    for (const Step& longest : *steps) {
      const int64_t period = longest.stride;
      if (period == 0) continue;
      const auto within = [&](const std::vector<Step>& axes, int64_t size) {
        for (const Step& s : axes)
          if (s.stride % period != 0) size += s.reach();
        return size;
      };
      const int64_t length_a = within(steps_a, size_a), length_b = within(steps_b, size_b);
      const int64_t at = ((from_a % period) + period) % period;
      if (length_a <= at && at + length_b <= period) return false;
    }
  // Byte by byte of the elements, in order.
  std::vector<int64_t> places_a = places_of(steps_a), places_b = places_of(steps_b);
  std::sort(places_a.begin(), places_a.end());
  std::sort(places_b.begin(), places_b.end());
  for (size_t i = 0, j = 0; i < places_a.size() && j < places_b.size();) {
    const int64_t at_b = places_b[j] + from_a;
    if (places_a[i] + size_a <= at_b)
      ++i;
    else if (at_b + size_b <= places_a[i])
      ++j;
    else
      return true;
  }
  return false;
}

}  // namespace stax::embed
