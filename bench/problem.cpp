// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace stax::bench {
namespace {

template <class T>
double distance_of(const T* a, const T* b, int64_t count) {
  double largest = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double x = static_cast<double>(a[k]), y = static_cast<double>(b[k]);
    const double d = std::abs(x - y) / (1 + std::abs(x));
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, d);
  }
  return largest;
}

}  // namespace

int64_t Array::count() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

std::string Problem::name() const {
  std::string out = kind;
  for (const auto& [key, value] : parameters) out += "/" + key + ":" + std::to_string(value);
  return out;
}

double distance(const Problem& problem, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const int64_t count = problem.output.count();
  if (problem.output.type == "int32")
    return distance_of(reinterpret_cast<const int32_t*>(a.data()), reinterpret_cast<const int32_t*>(b.data()), count);
  return distance_of(reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()), count);
}

}  // namespace stax::bench
