// SPDX-License-Identifier: Apache-2.0
#include "procedures/procedures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/float16.h"

namespace stax::procedures {
namespace {

using ir::DType;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

/// NaN above all, ties by index.
std::vector<int64_t> sorted_indices(const std::vector<float>& row, bool largest) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int64_t i) { return std::isnan(row[i]) ? std::pair(1, 0.0F) : std::pair(0, row[i]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return largest ? rank(b) < rank(a) : rank(a) < rank(b); });
  return order;
}

class TopK : public testing::Test {
 protected:
  std::vector<int64_t> top(const std::vector<float>& row, int64_t k, bool largest) {
    std::vector<float> values(k);
    std::vector<int64_t> indices(k);
    const AxisView view{1, static_cast<int64_t>(row.size()), 1};
    top_k(DType::kF32, row.data(), view, k, largest, values.data(), indices.data(), 0, 1, scratch);
    for (int64_t j = 0; j < k; ++j) {
      EXPECT_TRUE(values[j] == row[indices[j]] || std::isnan(values[j]));
    }
    return indices;
  }
  Scratch scratch;
};

TEST_F(TopK, OrderOfNanInfinityAndZeros) {
  const std::vector<float> row{0.0F, -kInf, kNan, 3, -0.0F, kInf, -kNan, 3};
  EXPECT_EQ(top(row, 8, true), (std::vector<int64_t>{2, 6, 5, 3, 7, 0, 4, 1}));
  EXPECT_EQ(top(row, 8, false), (std::vector<int64_t>{1, 0, 4, 3, 7, 5, 2, 6}));
  EXPECT_EQ(top(row, 1, true), (std::vector<int64_t>{2}));
  EXPECT_EQ(top(row, 0, true), (std::vector<int64_t>{}));
}

TEST_F(TopK, EveryMethodAgreesWithStableSort) {
  std::mt19937 random(3);
  // Rows around the limits between scan, heap, partition and radix sort; few different values, so that ties are
  // frequent.
  for (int64_t n : {1, 2, 5, 100, 513, 1023, 1024, 5000}) {
    std::vector<float> row(n);
    for (float& x : row) x = static_cast<float>(std::uniform_int_distribution<int>(-40, 40)(random));
    row[n / 2] = kNan;
    for (bool largest : {true, false}) {
      const auto expected = sorted_indices(row, largest);
      for (int64_t k : {int64_t{1}, int64_t{2}, int64_t{100}, n / 3, n}) {
        if (k > n) continue;
        EXPECT_EQ(top(row, k, largest), std::vector<int64_t>(expected.begin(), expected.begin() + k))
            << n << " " << k << " " << largest;
      }
    }
  }
}

TEST_F(TopK, RowsOfAnyAxisInAnyParts) {
  // [2, 3, 4] along axis 1, two rows at a time.
  std::vector<int32_t> data(24);
  for (int k = 0; k < 24; ++k) data[k] = (k * 7) % 24;
  const std::vector<int64_t> extents{2, 3, 4};
  const AxisView view = view_along(extents, 1);
  EXPECT_EQ(view.rows(), 8);
  std::vector<int32_t> values(16);
  std::vector<int64_t> indices(16);
  for (int64_t r = 0; r < view.rows(); r += 2) {
    top_k(DType::kI32, data.data(), view, 2, false, values.data(), indices.data(), r, r + 2, scratch);
  }
  for (int64_t o = 0; o < 2; ++o) {
    for (int64_t i = 0; i < 4; ++i) {
      std::vector<int32_t> row;
      for (int64_t j = 0; j < 3; ++j) row.push_back(data[(o * 3 + j) * 4 + i]);
      std::sort(row.begin(), row.end());
      for (int64_t j = 0; j < 2; ++j) {
        EXPECT_EQ(values[(o * 2 + j) * 4 + i], row[j]);
        EXPECT_EQ(data[(o * 3 + indices[(o * 2 + j) * 4 + i]) * 4 + i], row[j]);
      }
    }
  }
}

TEST_F(TopK, EveryType) {
  const auto sorted = [&](DType t, auto values) {
    auto out = values;
    const auto n = static_cast<int64_t>(values.size());
    top_k(t, values.data(), {1, n, 1}, n, false, out.data(), nullptr, 0, 1, scratch);
    return out;
  };
  EXPECT_EQ(sorted(DType::kI8, std::vector<int8_t>{5, -128, 127, 0}), (std::vector<int8_t>{-128, 0, 5, 127}));
  EXPECT_EQ(sorted(DType::kU8, std::vector<uint8_t>{5, 255, 0}), (std::vector<uint8_t>{0, 5, 255}));
  EXPECT_EQ(sorted(DType::kBool, std::vector<uint8_t>{1, 0, 1}), (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(sorted(DType::kI64, std::vector<int64_t>{INT64_MAX, INT64_MIN, -1}),
            (std::vector<int64_t>{INT64_MIN, -1, INT64_MAX}));
  EXPECT_EQ(sorted(DType::kU64, std::vector<uint64_t>{UINT64_MAX, 3, 1}), (std::vector<uint64_t>{1, 3, UINT64_MAX}));
  EXPECT_EQ(sorted(DType::kF64, std::vector<double>{1e300, -1e300, 5e-324, -5e-324}),
            (std::vector<double>{-1e300, -5e-324, 5e-324, 1e300}));
  const auto half = [](float x) { return float_to_f16(x); };
  EXPECT_EQ(sorted(DType::kF16, std::vector<uint16_t>{half(2), half(-3), half(0.5F)}),
            (std::vector<uint16_t>{half(-3), half(0.5F), half(2)}));
  const auto brain = [](float x) { return float_to_bf16(x); };
  EXPECT_EQ(sorted(DType::kBF16, std::vector<uint16_t>{brain(kInf), brain(-kInf), brain(0)}),
            (std::vector<uint16_t>{brain(-kInf), brain(0), brain(kInf)}));
}

TEST_F(TopK, LongRowsOf64Bits) {
  std::mt19937_64 random(5);
  std::vector<int64_t> row(4000);
  for (int64_t& x : row) x = static_cast<int64_t>(random());
  std::vector<int64_t> out(row.size());
  top_k(DType::kI64, row.data(), {1, 4000, 1}, 4000, true, out.data(), nullptr, 0, 1, scratch);
  std::sort(row.rbegin(), row.rend());
  EXPECT_EQ(out, row);
}

TEST(Scratch, IsKeptBetweenCalls) {
  Scratch scratch;
  void* first = scratch.reserve(1000);
  EXPECT_EQ(scratch.reserve(10), first);
  EXPECT_GE(scratch.capacity(), 1000U);
  scratch.release();
  EXPECT_EQ(scratch.capacity(), 0U);
}

TEST(Nonzero, InParts) {
  const std::vector<float> data{0, 1, -0.0F, kNan, 5, 0};
  const std::vector<int64_t> extents{2, 3};
  EXPECT_EQ(count_nonzero(DType::kF32, data.data(), 0, 6), 3);
  const int64_t front = count_nonzero(DType::kF32, data.data(), 0, 2);
  std::vector<int64_t> out(6);
  write_nonzero(DType::kF32, data.data(), extents, 0, 2, out.data(), 3, 0);
  write_nonzero(DType::kF32, data.data(), extents, 2, 6, out.data(), 3, front);
  EXPECT_EQ(out, (std::vector<int64_t>{0, 1, 1, 1, 0, 1}));
}

struct Found {
  std::vector<float> items;
  std::vector<int64_t> first, inverse, counts;
  bool operator==(const Found&) const = default;
};

Found unique_of(const std::vector<float>& data, AxisView view, bool sorted) {
  const auto n = static_cast<size_t>(view.count);
  Found f{std::vector<float>(data.size()), std::vector<int64_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(n)};
  Scratch scratch;
  const int64_t m = unique(DType::kF32, data.data(), view, sorted,
                           {f.items.data(), f.first.data(), f.inverse.data(), f.counts.data()}, scratch);
  f.items.resize(static_cast<size_t>(m * view.rows()));
  f.first.resize(m);
  f.counts.resize(m);
  return f;
}

TEST(Unique, SortedAndInOrderOfAppearance) {
  const std::vector<float> data{2, 1, 1, 3, 4, 3};
  EXPECT_EQ(unique_of(data, {1, 6, 1}, true), (Found{{1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}}));
  EXPECT_EQ(unique_of(data, {1, 6, 1}, false), (Found{{2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}}));
  EXPECT_EQ(unique_of({}, {1, 0, 1}, true), Found{});
}

TEST(Unique, ZerosAndNansAreEachOne) {
  const Found f = unique_of({kNan, 0.0F, -0.0F, -kNan, 1}, {1, 5, 1}, true);
  EXPECT_EQ(f.first, (std::vector<int64_t>{1, 4, 0}));
  EXPECT_EQ(f.counts, (std::vector<int64_t>{2, 1, 2}));
}

TEST(Unique, Slices) {
  // [[1, 0, 0], [1, 0, 0], [2, 3, 4]] along both axes.
  const std::vector<float> data{1, 0, 0, 1, 0, 0, 2, 3, 4};
  EXPECT_EQ(unique_of(data, {1, 3, 3}, true), (Found{{1, 0, 0, 2, 3, 4}, {0, 2}, {0, 0, 1}, {2, 1}}));
  EXPECT_EQ(unique_of(data, {3, 3, 1}, true), (Found{{0, 0, 1, 0, 0, 1, 3, 4, 2}, {1, 2, 0}, {2, 0, 1}, {1, 1, 1}}));
}

class Suppression : public testing::Test {
 protected:
  std::vector<int64_t> select(SuppressionOptions o) {
    o.batches = 1;
    o.classes = static_cast<int64_t>(scores.size()) / 6;
    o.boxes = 6;
    std::vector<int64_t> rows(static_cast<size_t>(o.classes * suppression_capacity(o) * 3));
    Scratch scratch;
    int64_t n = 0;
    for (int64_t pair = 0; pair < o.classes; ++pair) {
      n += non_max_suppression(DType::kF32, boxes.data(), scores.data(), o, pair, pair + 1, rows.data() + n * 3,
                               scratch);
    }
    rows.resize(static_cast<size_t>(n * 3));
    return rows;
  }
  std::vector<float> boxes{0, 0,  1, 1,  0, 0.1F,  1, 1.1F,  0, -0.1F, 1, 0.9F,
                           0, 10, 1, 11, 0, 10.1F, 1, 11.1F, 0, 100,   1, 101};
  std::vector<float> scores{0.9F, 0.75F, 0.6F, 0.95F, 0.5F, 0.3F};
};

TEST_F(Suppression, KeepsTheBestOfEachCluster) {
  EXPECT_EQ(select({.most_per_class = 3, .iou_threshold = 0.5}), (std::vector<int64_t>{0, 0, 3, 0, 0, 0, 0, 0, 5}));
  EXPECT_EQ(select({.most_per_class = 2, .iou_threshold = 0.5}), (std::vector<int64_t>{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(select({.most_per_class = 9, .iou_threshold = 0.5, .score_threshold = 0.4}),
            (std::vector<int64_t>{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(select({.most_per_class = 0, .iou_threshold = 0.5}), (std::vector<int64_t>{}));
}

TEST_F(Suppression, FlippedCornersAndSeveralClasses) {
  std::swap(boxes[4], boxes[6]);
  scores.insert(scores.end(), {0, 0, 0, 0, 0, 0.5F});
  EXPECT_EQ(select({.most_per_class = 2, .iou_threshold = 0.5}), (std::vector<int64_t>{0, 0, 3, 0, 0, 0, 0, 1, 5}));
}

TEST_F(Suppression, CenterPointBoxes) {
  boxes = {0.5F, 0.5F,  1, 1, 0.5F, 0.6F,  1, 1, 0.5F, 0.4F,   1, 1,
           0.5F, 10.5F, 1, 1, 0.5F, 10.6F, 1, 1, 0.5F, 100.5F, 1, 1};
  EXPECT_EQ(select({.most_per_class = 3, .iou_threshold = 0.5, .center_point_box = true}),
            (std::vector<int64_t>{0, 0, 3, 0, 0, 0, 0, 0, 5}));
}

TEST_F(Suppression, EqualScoresGoByIndex) {
  scores.assign(6, 0.5F);
  EXPECT_EQ(select({.most_per_class = 6, .iou_threshold = 0.5}), (std::vector<int64_t>{0, 0, 0, 0, 0, 3, 0, 0, 5}));
}

// Of many boxes few are looked at: in turns of growing length, with ties that go by index in any of them.
TEST(ManyBoxes, AreTakenInOrderOfScore) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const auto& [count, most, spread] : std::vector<std::tuple<int64_t, int64_t, double>>{{700, 1, 1000},
                                                                                             {700, 5, 3},
                                                                                             {700, 100, 1000},
                                                                                             {700, 170, 40},
                                                                                             {700, 700, 1000},
                                                                                             {3000, 20, 1},
                                                                                             {3000, 900, 200},
                                                                                             {40, 9, 5}}) {
    SCOPED_TRACE(testing::Message() << count << " boxes, " << most << " wanted, over " << spread);
    std::vector<double> boxes, scores;
    for (int64_t i = 0; i < count; ++i) {
      // Quotients of such areas are never near the threshold, but for equal ones.
      const auto place = [&] { return std::floor(std::uniform_real_distribution<>(0, spread)(random) * 64) / 64; };
      const double y = place(), x = place();
      boxes.insert(boxes.end(), {y, x, y + 1, x + 1});
      scores.push_back(static_cast<double>(random() % 97) / 97);
    }
    std::vector<int64_t> order(static_cast<size_t>(count)), expected;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    const auto overlap = [&](int64_t a, int64_t b) {
      const auto common = [&](int64_t d) { return std::max(0.0, 1 - std::abs(boxes[4 * a + d] - boxes[4 * b + d])); };
      const double both = common(0) * common(1);
      return both / (2 - both);
    };
    std::vector<int64_t> kept;
    for (int64_t i : order) {
      if (static_cast<int64_t>(kept.size()) == most || scores[i] <= 0.1) break;
      if (std::any_of(kept.begin(), kept.end(), [&](int64_t k) { return overlap(i, k) > 0.3; })) continue;
      kept.push_back(i);
      expected.insert(expected.end(), {0, 0, i});
    }
    const SuppressionOptions options{.batches = 1,
                                     .classes = 1,
                                     .boxes = count,
                                     .most_per_class = most,
                                     .iou_threshold = 0.3,
                                     .score_threshold = 0.1};
    Scratch scratch;
    std::vector<int64_t> rows(static_cast<size_t>(3 * most), -1);
    rows.resize(static_cast<size_t>(
        3 * non_max_suppression(DType::kF64, boxes.data(), scores.data(), options, 0, 1, rows.data(), scratch)));
    EXPECT_EQ(rows, expected);
    std::vector<float> narrow_boxes(boxes.begin(), boxes.end()), narrow_scores(scores.begin(), scores.end());
    std::vector<int64_t> narrow(static_cast<size_t>(3 * most), -1);
    narrow.resize(static_cast<size_t>(3 * non_max_suppression(DType::kF32, narrow_boxes.data(), narrow_scores.data(),
                                                              options, 0, 1, narrow.data(), scratch)));
    EXPECT_EQ(narrow, expected);
  }
}

TEST(Determinant, SmallMatricesAndNone) {
  const std::vector<double> data{1, 2, 3, 4, 0, 1, 1, 0, 2, 4, 1, 2, kNan, 1, 1, 1};
  std::vector<double> out(4);
  Scratch scratch;
  determinant(DType::kF64, data.data(), 2, 0, 2, out.data(), scratch);
  determinant(DType::kF64, data.data(), 2, 2, 4, out.data(), scratch);
  EXPECT_DOUBLE_EQ(out[0], -2);
  EXPECT_DOUBLE_EQ(out[1], -1);
  EXPECT_EQ(out[2], 0);
  EXPECT_TRUE(std::isnan(out[3]));
  determinant(DType::kF64, data.data(), 0, 0, 1, out.data(), scratch);
  EXPECT_EQ(out[0], 1);
}

}  // namespace
}  // namespace stax::procedures
