// SPDX-License-Identifier: Apache-2.0
// Sorting, what is not zero, unique items, non-max suppression and determinants: by definition, one element at a time. Programs have procedures of their
// own, which are made to be fast; what these get wrong shows here.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/interpret_ops.h"

namespace stax::tensor::reference {

using ir::Value64;

namespace {

Item item_of(Literal literal) {
  Item item;
  item.tensor = std::move(literal);
  return item;
}

Literal ints(const Call& call, const std::vector<int64_t>& values, std::vector<int64_t> extents) {
  Literal l = call.allocate(DType::kI64, std::move(extents));
  for (size_t k = 0; k < values.size(); ++k) l.set(static_cast<int64_t>(k), {.i = values[k]});
  return l;
}

/// -1, 0 or 1. -0 equals 0; a NaN is greater than every number and equal to every NaN.
int compare(DType t, Value64 a, Value64 b) {
  if (t == DType::kU64) {
    const auto x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
    return x < y ? -1 : x > y;
  }
  if (!ir::is_float(t)) return a.i < b.i ? -1 : a.i > b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return static_cast<int>(std::isnan(a.f)) - static_cast<int>(std::isnan(b.f));
  return a.f < b.f ? -1 : a.f > b.f;
}

}  // namespace

AxisView view_along(const std::vector<int64_t>& extents, int axis) {
  AxisView view;
  for (size_t k = 0; k < extents.size(); ++k) {
    int64_t& part = static_cast<int>(k) < axis ? view.outer : static_cast<int>(k) > axis ? view.inner : view.count;
    part = static_cast<int>(k) == axis ? extents[k] : part * extents[k];
  }
  return view;
}

std::vector<Item> evaluate_top_k(const Call& call, const TopK& t) {
  const Literal data = call.tensor(0);
  const AxisView view = view_along(data.extents(), t.axis);
  const int64_t k = call.value(call.op.result()->type.extents[t.axis]);
  if (k < 0 || k > view.count) call.fail(fmt::format("k is {}, the axis has {} elements", k, view.count));
  std::vector<int64_t> extents = data.extents();
  extents[t.axis] = k;
  Literal values = call.allocate(data.dtype(), extents), indices = call.allocate(DType::kI64, extents);
  std::vector<int64_t> order(static_cast<size_t>(view.count));
  for (int64_t row = 0; row < view.outer * view.inner; ++row) {
    const int64_t outer = row / view.inner, inner = row % view.inner;
    const auto at = [&](int64_t i) { return data.at((outer * view.count + i) * view.inner + inner); };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const int c = compare(data.dtype(), at(a), at(b));
      return t.largest ? c > 0 : c < 0;
    });
    for (int64_t j = 0; j < k; ++j) {
      const int64_t to = (outer * k + j) * view.inner + inner;
      values.set(to, at(order[static_cast<size_t>(j)]));
      indices.set(to, {.i = order[static_cast<size_t>(j)]});
    }
  }
  return {item_of(values), item_of(indices)};
}

Literal evaluate_nonzero(const Call& call) {
  const bool true_rank = call.value(call.op.result()->type.extents[0]) == call.items[0]->tensor.rank();
  const Literal data = true_rank ? call.items[0]->tensor : call.tensor(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < data.count(); ++i)
    if (ir::is_float(data.dtype()) ? data.at(i).f != 0 : data.at(i).i != 0) found.push_back(i);
  const auto n = static_cast<int64_t>(found.size());
  Literal result = call.allocate(DType::kI64, {data.rank(), n});
  for (int64_t j = 0; j < n; ++j) {
    int64_t rest = found[static_cast<size_t>(j)];
    for (int64_t d = data.rank() - 1; d >= 0; --d) {
      result.set(d * n + j, {.i = rest % data.extents()[static_cast<size_t>(d)]});
      rest /= data.extents()[static_cast<size_t>(d)];
    }
  }
  return result;
}

std::vector<Item> evaluate_unique(const Call& call, const Unique& u) {
  const Literal data = call.tensor(0);
  const AxisView view = u.axis ? view_along(data.extents(), *u.axis) : AxisView{1, data.count(), 1};
  const auto at = [&](int64_t o, int64_t item, int64_t i) { return (o * view.count + item) * view.inner + i; };
  const auto compare_items = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i)
        if (const int c = compare(data.dtype(), data.at(at(o, a, i)), data.at(at(o, b, i)))) return c;
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(view.count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare_items(a, b) < 0; });
  struct Group {
    int64_t first;
    std::vector<int64_t> members;
  };
  std::vector<Group> groups;
  for (const int64_t item : order) {
    if (groups.empty() || compare_items(groups.back().first, item) != 0) groups.push_back({item, {}});
    groups.back().members.push_back(item);
  }
  if (!u.sorted)
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
  const auto m = static_cast<int64_t>(groups.size());
  std::vector<int64_t> extents = u.axis ? data.extents() : std::vector<int64_t>{view.count};
  extents[u.axis.value_or(0)] = m;
  Literal items = call.allocate(data.dtype(), extents);
  std::vector<int64_t> first, inverse(static_cast<size_t>(view.count)), counts;
  for (int64_t g = 0; g < m; ++g) {
    const Group& group = groups[static_cast<size_t>(g)];
    first.push_back(group.first);
    counts.push_back(static_cast<int64_t>(group.members.size()));
    for (const int64_t item : group.members) inverse[static_cast<size_t>(item)] = g;
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) items.set((o * m + g) * view.inner + i, data.at(at(o, group.first, i)));
  }
  return {item_of(items), item_of(ints(call, first, {m})), item_of(ints(call, inverse, {view.count})),
          item_of(ints(call, counts, {m}))};
}

namespace {

/// Corners in the type in which overlaps are computed: f32, of f64 boxes f64.
template <class R>
struct Box {
  R left, top, right, bottom;

  Box(const Literal& boxes, int64_t first, bool by_center) {
    const auto v = [&](int64_t k) { return static_cast<R>(boxes.at(first + k).f); };
    if (by_center) {
      left = v(0) - v(2) / 2, right = v(0) + v(2) / 2;
      top = v(1) - v(3) / 2, bottom = v(1) + v(3) / 2;
    } else {
      left = std::min(v(1), v(3)), right = std::max(v(1), v(3));
      top = std::min(v(0), v(2)), bottom = std::max(v(0), v(2));
    }
  }
  R area() const { return (right - left) * (bottom - top); }
  /// The part of both together that both have.
  R overlap(const Box& o) const {
    const R width = std::min(right, o.right) - std::max(left, o.left);
    const R height = std::min(bottom, o.bottom) - std::max(top, o.top);
    if (!(width > 0 && height > 0 && area() > 0 && o.area() > 0)) return 0;
    const R common = width * height, all = area() + o.area() - common;
    return all > 0 ? common / all : 0;
  }
};

/// The boxes of one class of one batch that are kept, in order.
template <class R>
std::vector<int64_t> kept_boxes(const Literal& boxes, int64_t first_box, const Literal& scores, int64_t first_score,
                                int64_t count, int64_t most, double most_overlap, double least_score, bool by_center) {
  std::vector<int64_t> candidates, kept;
  const auto score = [&](int64_t i) { return scores.at(first_score + i); };
  for (int64_t i = 0; i < count; ++i)
    if (score(i).f > least_score) candidates.push_back(i);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int64_t a, int64_t b) { return compare(scores.dtype(), score(a), score(b)) > 0; });
  for (const int64_t i : candidates) {
    if (static_cast<int64_t>(kept.size()) >= most) break;
    const Box<R> box(boxes, (first_box + i) * 4, by_center);
    const bool is_covered = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
      const R overlap = box.overlap(Box<R>(boxes, (first_box + k) * 4, by_center));
      return overlap > 0 && overlap > static_cast<R>(most_overlap);
    });
    if (!is_covered) kept.push_back(i);
  }
  return kept;
}

}  // namespace

Literal evaluate_non_max_suppression(const Call& call, const NonMaxSuppression& s) {
  const Literal boxes = call.tensor(0), scores = call.tensor(1);
  const int64_t batches = scores.extents()[0], classes = scores.extents()[1], count = scores.extents()[2];
  const int64_t most = single_int(call, 2, "max_output_boxes_per_class");
  const double most_overlap = single_float(call, 3, "iou_threshold");
  const double least_score = single_float(call, 4, "score_threshold");
  if (boxes.extents() != std::vector<int64_t>{batches, count, 4}) {
    call.fail(fmt::format("boxes are {}, but the scores ask for [{}, {}, 4]", fmt::join(boxes.extents(), " x "),
                          batches, count));
  }
  std::vector<int64_t> rows;
  const auto kept = boxes.dtype() == DType::kF64 ? kept_boxes<double> : kept_boxes<float>;
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t cls = 0; cls < classes; ++cls)
      for (const int64_t i : kept(boxes, batch * count, scores, (batch * classes + cls) * count, count, most,
                                  most_overlap, least_score, s.center_point_box))
        rows.insert(rows.end(), {batch, cls, i});
  return ints(call, rows, {static_cast<int64_t>(rows.size()) / 3, 3});
}

Literal evaluate_determinant(const Call& call) {
  const Literal data = call.tensor(0);
  std::vector<int64_t> extents = data.extents();
  const int64_t n = extents.back();
  if (extents[extents.size() - 2] != n)
    call.fail(fmt::format("matrices of {} x {} have no determinant", extents[extents.size() - 2], n));
  extents.resize(extents.size() - 2);
  Literal result = call.allocate(data.dtype(), extents);
  for (int64_t matrix = 0; matrix < result.count(); ++matrix) {
    std::vector<std::vector<double>> rows(static_cast<size_t>(n));
    for (int64_t k = 0; k < n * n; ++k) rows[static_cast<size_t>(k / n)].push_back(data.at(matrix * n * n + k).f);
    double product = 1;
    for (size_t c = 0; c < rows.size() && product != 0; ++c) {
      const auto column = [&](const std::vector<double>& row) { return std::fabs(row[c]); };
      const auto from = rows.begin() + static_cast<std::ptrdiff_t>(c);
      const auto largest = std::max_element(from, rows.end(), [&](const auto& a, const auto& b) {
        return !std::isnan(column(a)) && (std::isnan(column(b)) || column(a) < column(b));
      });
      if (largest != from) std::swap(*largest, *from), product = -product;
      product *= rows[c][c];
      for (size_t r = c + 1; r < rows.size(); ++r)
        if (const double factor = rows[r][c] / rows[c][c]; factor != 0)
          for (size_t k = c; k < rows.size(); ++k) rows[r][k] -= factor * rows[c][k];
    }
    result.set(matrix, {.f = product});
  }
  return result;
}

}  // namespace stax::tensor::reference
