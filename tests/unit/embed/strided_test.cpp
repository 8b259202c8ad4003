// SPDX-License-Identifier: Apache-2.0
// Whether views meet, against the places of all their elements.
#include "embed/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

namespace stax::embed {
namespace {

uint64_t seed() {
  static const uint64_t drawn = [] {
    const char* text = std::getenv("STAX_SEED");
    const uint64_t s = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
    std::printf("STAX_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return drawn;
}
constexpr int kRounds = 20000;

/// Of each byte of a view how many elements have it.
std::map<int64_t, int> bytes_of(const Layout& v) {
  std::vector<int64_t> places = {static_cast<int64_t>(reinterpret_cast<intptr_t>(v.data))};
  for (size_t k = 0; k < v.shape.size(); ++k) {
    std::vector<int64_t> next;
    for (const int64_t p : places)
      for (int64_t i = 0; i < v.shape[k]; ++i) next.push_back(p + i * v.strides[k] * static_cast<int64_t>(v.size));
    places = next;
  }
  std::map<int64_t, int> bytes;
  for (const int64_t p : places)
    for (size_t k = 0; k < v.size; ++k) ++bytes[p + static_cast<int64_t>(k)];
  return bytes;
}

Layout layout(std::vector<int64_t> shape, std::vector<int64_t> strides, size_t size, intptr_t at) {
  return {std::move(shape), std::move(strides), size, reinterpret_cast<const void*>(at)};
}

class Views {
 public:
  explicit Views(uint64_t seed) : random_(seed) {}
  int64_t number(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  Layout view() {
    Layout v;
    v.size = size_t{1} << number(0, 3);
    const int64_t axes = number(0, 4);
    int64_t dense = 1;
    for (int64_t k = 0; k < axes; ++k) {
      v.shape.push_back(number(0, 20) == 0 ? 0 : number(1, 5));
      // Near to what is dense, where it is close.
      v.strides.push_back(number(0, 3) == 0 ? number(-7, 12)
                                            : dense * (number(0, 4) == 0 ? -1 : 1) + (number(0, 3) == 0));
      dense *= v.shape.back() + number(0, 1);
    }
    v.data = reinterpret_cast<const void*>(intptr_t{100000} + number(-120, 120));
    return v;
  }

 private:
  std::mt19937_64 random_;
};

TEST(Strided, MeetsItselfWhereTwoElementsHaveOnePlace) {
  Views views(seed());
  int met = 0, apart = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout v = views.view();
    v.size = 1;
    const auto bytes = bytes_of(v);
    const bool want = std::any_of(bytes.begin(), bytes.end(), [](const auto& b) { return b.second > 1; });
    ASSERT_EQ(meets_itself(v.shape, v.strides), want)
        << testing::PrintToString(v.shape) << " " << testing::PrintToString(v.strides);
    ++(want ? met : apart);
  }
  EXPECT_GT(met, 0);
  EXPECT_GT(apart, 0);
}

TEST(Strided, MeetsWhereAByteIsOfBoth) {
  Views views(seed());
  int met = 0, apart = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Layout a = views.view(), b = views.view();
    if (meets_itself(a.shape, a.strides) || meets_itself(b.shape, b.strides)) continue;
    const auto bytes_a = bytes_of(a), bytes_b = bytes_of(b);
    const bool want =
        std::any_of(bytes_a.begin(), bytes_a.end(), [&](const auto& byte) { return bytes_b.contains(byte.first); });
    ASSERT_EQ(meet(a, b), want) << testing::PrintToString(a.shape) << " " << testing::PrintToString(a.strides) << " of "
                                << a.size << " at " << a.data << ", " << testing::PrintToString(b.shape) << " "
                                << testing::PrintToString(b.strides) << " of " << b.size << " at " << b.data;
    ++(want ? met : apart);
  }
  EXPECT_GT(met, 0);
  EXPECT_GT(apart, 0);
}

// Neither time nor memory for elements that nobody has.
TEST(Strided, LargeViewsAreToldApartByTheirAxes) {
  constexpr int64_t kMany = int64_t{1} << 22;
  EXPECT_FALSE(meets_itself(std::vector<int64_t>{kMany, kMany}, std::vector<int64_t>{kMany, 1}));
  EXPECT_FALSE(meets_itself(std::vector<int64_t>{3, kMany, 2}, std::vector<int64_t>{1, 7, 3}));
  EXPECT_TRUE(meets_itself(std::vector<int64_t>{kMany, kMany}, std::vector<int64_t>{kMany - 1, 1}));
  EXPECT_TRUE(meets_itself(std::vector<int64_t>{kMany, kMany}, std::vector<int64_t>{0, 1}));
  EXPECT_FALSE(meets_itself(std::vector<int64_t>{2, 2, 2},
                            std::vector<int64_t>{kMany * kMany / 4, kMany * kMany / 4 - 1, kMany}));
  // Columns of one matrix.
  const auto columns = [](int64_t rows, int64_t first, int64_t count) {
    return layout({rows, count}, {8, 1}, 4, (1 << 20) + first * 4);
  };
  EXPECT_FALSE(meet(columns(kMany, 0, 3), columns(kMany, 3, 5)));
  EXPECT_FALSE(meet(columns(kMany, 3, 5), columns(kMany, 0, 3)));
  EXPECT_TRUE(meet(columns(1000, 0, 3), columns(1000, 3, 6)));
  EXPECT_TRUE(meet(columns(1000, 3, 6), columns(1000, 0, 3)));
}

}  // namespace
}  // namespace stax::embed
