// SPDX-License-Identifier: Apache-2.0
// Top-k and sorting of rows.
//
// One candidate: a scan. Few candidates: a heap of the k best so far, whose worst is the threshold that almost every
// element of a long row fails at one comparison. Many: all entries, partitioned or sorted by radix.
#include <limits>

#include "procedures/element.h"
#include "procedures/procedures.h"
#include "procedures/sort.h"

namespace stax::procedures {

namespace {

constexpr int64_t kHeapLimit = 128;

/// Keys such that the wanted values come first in ascending order.
template <class T>
uint64_t rank_key(T x, bool largest) {
  const auto key = key_of(x);
  return largest ? static_cast<KeyOf<T>>(~key) : key;
}

template <class T>
int64_t best_of_row(const T* row, int64_t n, int64_t stride, bool largest) {
  int64_t best = 0;
  uint64_t best_key = rank_key(row[0], largest);
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t key = rank_key(row[i * stride], largest);
    if (key < best_key) {
      best_key = key;
      best = i;
    }
  }
  return best;
}

template <class Entry, class T>
void select_by_heap(const T* row, int64_t n, int64_t stride, int64_t k, bool largest, Entry* heap) {
  for (int64_t i = 0; i < k; ++i) heap[i] = Entry::make(rank_key(row[i * stride], largest), i);
  std::make_heap(heap, heap + k);
  for (int64_t i = k; i < n; ++i) {
    const uint64_t key = rank_key(row[i * stride], largest);
    if (key >= heap[0].key()) continue;  // an equal key has the higher index
    std::pop_heap(heap, heap + k);
    heap[k - 1] = Entry::make(key, i);
    std::push_heap(heap, heap + k);
  }
  std::sort_heap(heap, heap + k);
}

template <class Entry, class T>
void top_k_rows(const T* data, AxisView view, int64_t k, bool largest, T* values, int64_t* indices, int64_t begin,
                int64_t end, Scratch& scratch) {
  const int64_t n = view.count;
  const bool by_heap = k > 1 && k <= kHeapLimit && k < n / 4;
  Entry* entries = k > 1 ? scratch.reserve_array<Entry>(by_heap ? k : 2 * n) : nullptr;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t outer = r / view.inner, inner = r % view.inner;
    const T* row = data + outer * n * view.inner + inner;
    const int64_t out = outer * k * view.inner + inner;
    const auto emit = [&](int64_t j, int64_t index) {
      if (values != nullptr) values[out + j * view.inner] = row[index * view.inner];
      if (indices != nullptr) indices[out + j * view.inner] = index;
    };
    if (k == 1) {
      emit(0, best_of_row(row, n, view.inner, largest));
      continue;
    }
    if (by_heap) {
      select_by_heap(row, n, view.inner, k, largest, entries);
    } else {
      for (int64_t i = 0; i < n; ++i) entries[i] = Entry::make(rank_key(row[i * view.inner], largest), i);
      sort_least(entries, entries + n, n, k, static_cast<int>(8 * sizeof(T)));
    }
    for (int64_t j = 0; j < k; ++j) emit(j, entries[j].index());
  }
}

}  // namespace

void top_k(ir::DType type, const void* data, AxisView view, int64_t k, bool largest, void* values, int64_t* indices,
           int64_t row_begin, int64_t row_end, Scratch& scratch) {
  STAX_ASSERT(k >= 0 && k <= view.count, "top {} of {}", k, view.count);
  if (k == 0) return;
  with_element(type, [&](auto element) {
    using T = decltype(element);
    const T* from = static_cast<const T*>(data);
    T* to = static_cast<T*>(values);
    if (sizeof(T) <= 4 && view.count <= int64_t{std::numeric_limits<uint32_t>::max()}) {
      top_k_rows<PackedEntry>(from, view, k, largest, to, indices, row_begin, row_end, scratch);
    } else {
      top_k_rows<WideEntry>(from, view, k, largest, to, indices, row_begin, row_end, scratch);
    }
  });
}

}  // namespace stax::procedures
