// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sorting of (key, index) entries, the common ground of top-k and unique.
//
// A key of up to 32 bits and an index below 2^32 share one 64-bit word, key above index, so that comparing words orders
// by key and then by index, and an entry moves in one register. Wider ones are a pair. Long arrays of entries that
// start in order of index are sorted by radix, least digit first; the passes are stable, so the index digits need none.
#include <algorithm>
#include <array>
#include <cstdint>

namespace stax::procedures {

struct PackedEntry {
  uint64_t word = 0;
  static constexpr int kKeyBits = 32;
  static PackedEntry make(uint64_t key, int64_t index) { return {key << 32 | static_cast<uint64_t>(index)}; }
  uint64_t key() const { return word >> 32; }
  int64_t index() const { return static_cast<int64_t>(word & 0xFFFFFFFFU); }
  bool operator<(PackedEntry other) const { return word < other.word; }
};

struct WideEntry {
  uint64_t bits = 0;
  int64_t position = 0;
  static constexpr int kKeyBits = 64;
  static WideEntry make(uint64_t key, int64_t index) { return {key, index}; }
  uint64_t key() const { return bits; }
  int64_t index() const { return position; }
  bool operator<(const WideEntry& other) const {
    return bits != other.bits ? bits < other.bits : position < other.position;
  }
};

/// Below this many entries a comparison sort is as fast.
inline constexpr int64_t kRadixSortFrom = 1024;

/// Sorts n entries whose indices ascend; `spare` has room for n more. `key_bits`: the width of the keys.
template <class Entry>
void sort_entries(Entry* entries, Entry* spare, int64_t n, int key_bits) {
  if (n < kRadixSortFrom) {
    std::sort(entries, entries + n);
    return;
  }
  constexpr int kDigitBits = 8;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  Entry* from = entries;
  Entry* to = spare;
  for (int shift = 0; shift < key_bits; shift += kDigitBits) {
    std::array<int64_t, kDigits> starts{};
    for (int64_t i = 0; i < n; ++i) ++starts[from[i].key() >> shift & (kDigits - 1)];
    if (starts[from[0].key() >> shift & (kDigits - 1)] == n) continue;  // one digit for all
    int64_t sum = 0;
    for (int64_t& s : starts) {
      const int64_t count = s;
      s = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i) to[starts[from[i].key() >> shift & (kDigits - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy(from, from + n, entries);
}

/// Moves the k least of n entries to the front, in order. The entries' indices ascend; `spare` has room for n more.
template <class Entry>
void sort_least(Entry* entries, Entry* spare, int64_t n, int64_t k, int key_bits) {
  if (k >= n / 2) {
    sort_entries(entries, spare, n, key_bits);
    return;
  }
  std::nth_element(entries, entries + k, entries + n);
  std::sort(entries, entries + k);
}

/// The first `sorted` of n entries are the least, in order: sorts about `more` further ones. Returns how many are sorted then.
template <class Entry>
int64_t sort_further(Entry* entries, int64_t n, int64_t sorted, int64_t more) {
  const int64_t to = more >= (n - sorted) / 2 ? n : sorted + more;
  if (to < n) std::nth_element(entries + sorted, entries + to, entries + n);
  std::sort(entries + sorted, entries + to);
  return to;
}

}  // namespace stax::procedures
