// SPDX-License-Identifier: Apache-2.0
// Unique items: sort, then equal ones are neighbours and the first of a run is the first occurrence.
#include <limits>

#include "procedures/element.h"
#include "procedures/procedures.h"
#include "procedures/sort.h"

namespace stax::procedures {

namespace {

/// Compares slices of [outer, count, inner] along the axis.
template <class T>
struct Slices {
  const T* data;
  AxisView view;

  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < view.outer; ++o) {
      const T* x = data + (o * view.count + a) * view.inner;
      const T* y = data + (o * view.count + b) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto p = key_of(x[i]), q = key_of(y[i]);
        if (p != q) return p < q ? -1 : 1;
      }
    }
    return 0;
  }

  void copy(int64_t from, T* out, int64_t to, int64_t count) const {
    for (int64_t o = 0; o < view.outer; ++o) {
      std::copy_n(data + (o * view.count + from) * view.inner, view.inner, out + (o * count + to) * view.inner);
    }
  }
};

/// order: the items sorted, equal ones by index. group_starts: where in `order` each group begins, and n at the end.
template <class T>
int64_t emit(const Slices<T>& slices, const int64_t* order, int64_t* group_starts, int64_t* group_order, int64_t groups,
             bool sorted, const UniqueOutputs& out) {
  for (int64_t g = 0; g < groups; ++g) group_order[g] = g;
  if (!sorted) {
    std::sort(group_order, group_order + groups,
              [&](int64_t a, int64_t b) { return order[group_starts[a]] < order[group_starts[b]]; });
  }
  for (int64_t m = 0; m < groups; ++m) {
    const int64_t g = group_order[m];
    const int64_t begin = group_starts[g], end = group_starts[g + 1];
    if (out.items != nullptr) slices.copy(order[begin], static_cast<T*>(out.items), m, groups);
    if (out.first_indices != nullptr) out.first_indices[m] = order[begin];
    if (out.counts != nullptr) out.counts[m] = end - begin;
    if (out.inverse != nullptr) {
      for (int64_t i = begin; i < end; ++i) out.inverse[order[i]] = m;
    }
  }
  return groups;
}

template <class Entry, class T>
void sort_items(const Slices<T>& slices, int64_t* order, void* memory) {
  const int64_t n = slices.view.count;
  if (slices.view.rows() == 1) {
    Entry* entries = static_cast<Entry*>(memory);
    for (int64_t i = 0; i < n; ++i) entries[i] = Entry::make(key_of(slices.data[i]), i);
    sort_entries(entries, entries + n, n, static_cast<int>(8 * sizeof(T)));
    for (int64_t i = 0; i < n; ++i) order[i] = entries[i].index();
    return;
  }
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order, order + n, [&](int64_t a, int64_t b) {
    const int c = slices.compare(a, b);
    return c != 0 ? c < 0 : a < b;
  });
}

}  // namespace

int64_t unique(ir::DType type, const void* data, AxisView view, bool sorted, const UniqueOutputs& out,
               Scratch& scratch) {
  const int64_t n = view.count;
  if (n == 0) return 0;
  return with_element(type, [&](auto element) -> int64_t {
    using T = decltype(element);
    const Slices<T> slices{static_cast<const T*>(data), view};
    // Three arrays of indices, then the entries of the sort.
    const int64_t words = 3 * n + 1;
    int64_t* order = static_cast<int64_t*>(
        scratch.reserve(static_cast<size_t>(words) * sizeof(int64_t) + 2 * n * sizeof(WideEntry)));
    int64_t* group_starts = order + n;
    int64_t* group_order = group_starts + n + 1;
    void* entries = order + words;
    if (sizeof(T) <= 4 && n <= int64_t{std::numeric_limits<uint32_t>::max()}) {
      sort_items<PackedEntry>(slices, order, entries);
    } else {
      sort_items<WideEntry>(slices, order, entries);
    }
    int64_t groups = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) group_starts[groups++] = i;
    }
    group_starts[groups] = n;
    return emit(slices, order, group_starts, group_order, groups, sorted, out);
  });
}

}  // namespace stax::procedures
