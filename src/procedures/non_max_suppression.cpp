// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "procedures/element.h"
#include "procedures/procedures.h"
#include "procedures/sort.h"

namespace stax::procedures {

namespace {

/// A box by its corners, ordered.
template <class R>
struct Box {
  R x0, y0, x1, y1;
  R area() const { return (x1 - x0) * (y1 - y0); }
};

template <class R, class T>
Box<R> load_box(const T* b, bool center_point_box) {
  R v[4];
  for (int k = 0; k < 4; ++k) v[k] = static_cast<R>(to_double(b[k]));
  if (center_point_box) {
    const R half_width = v[2] / 2, half_height = v[3] / 2;
    return {v[0] - half_width, v[1] - half_height, v[0] + half_width, v[1] + half_height};
  }
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

/// Intersection over union above the threshold; a box without area overlaps nothing.
template <class R>
bool overlaps(const Box<R>& a, const Box<R>& b, R threshold) {
  const R width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const R height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(width > 0 && height > 0)) return false;
  const R common = width * height;
  const R area_a = a.area(), area_b = b.area();
  const R all = area_a + area_b - common;
  if (!(area_a > 0 && area_b > 0 && all > 0)) return false;
  return common / all > threshold;
}

/// `R`: the type in which overlaps are computed.
template <class R, class T>
int64_t select_boxes(const T* boxes, const T* scores, const SuppressionOptions& o, int64_t begin, int64_t end,
                     int64_t* out, Scratch& scratch) {
  using Entry = std::conditional_t<sizeof(T) <= 4, PackedEntry, WideEntry>;
  // Candidates are ranked as far as they are looked at, which for few boxes of many is not far.
  constexpr int64_t kFewest = 32, kShare = 4;
  const int64_t most = suppression_capacity(o);
  auto* memory = static_cast<std::byte*>(
      scratch.reserve(static_cast<size_t>(o.boxes) * 2 * sizeof(Entry) + static_cast<size_t>(most) * sizeof(Box<R>)));
  auto* entries = reinterpret_cast<Entry*>(memory);
  auto* selected = reinterpret_cast<Box<R>*>(memory + static_cast<size_t>(o.boxes) * 2 * sizeof(Entry));
  int64_t rows = 0;
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t batch = pair / o.classes, cls = pair % o.classes;
    const T* score = scores + pair * o.boxes;
    int64_t candidates = 0;
    for (int64_t i = 0; i < o.boxes; ++i) {
      if (to_double(score[i]) > o.score_threshold) {
        entries[candidates++] = Entry::make(static_cast<KeyOf<T>>(~key_of(score[i])), i);
      }
    }
    int64_t ranked = 0;
    if (most >= candidates / kShare) {
      sort_entries(entries, entries + o.boxes, candidates, static_cast<int>(8 * sizeof(T)));
      ranked = candidates;
    }
    int64_t count = 0;
    for (int64_t c = 0; c < candidates && count < most; ++c) {
      if (c == ranked) ranked = sort_further(entries, candidates, ranked, std::max({kFewest, most, ranked}));
      const int64_t index = entries[c].index();
      const Box<R> box = load_box<R>(boxes + (batch * o.boxes + index) * 4, o.center_point_box);
      bool keep = true;
      for (int64_t s = 0; s < count && keep; ++s) keep = !overlaps(box, selected[s], static_cast<R>(o.iou_threshold));
      if (!keep) continue;
      selected[count++] = box;
      int64_t* row = out + rows++ * 3;
      row[0] = batch;
      row[1] = cls;
      row[2] = index;
    }
  }
  return rows;
}

}  // namespace

int64_t suppression_capacity(const SuppressionOptions& options) {
  return std::max<int64_t>(0, std::min(options.most_per_class, options.boxes));
}

int64_t non_max_suppression(ir::DType type, const void* boxes, const void* scores, const SuppressionOptions& options,
                            int64_t begin, int64_t end, int64_t* out, Scratch& scratch) {
  if (suppression_capacity(options) == 0) return 0;
  return with_element(type, [&](auto element) -> int64_t {
    using T = decltype(element);
    if constexpr (kIsFloat<T>) {
      using R = std::conditional_t<std::is_same_v<T, double>, double, float>;
      return select_boxes<R>(static_cast<const T*>(boxes), static_cast<const T*>(scores), options, begin, end, out,
                             scratch);
    } else {
      internal_error("non-max suppression of {}", name_of(type));
    }
  });
}

}  // namespace stax::procedures
