// SPDX-License-Identifier: Apache-2.0
#include "runtime/version_compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/scalar.h"

namespace stax::runtime {
namespace {

using ir::DType;

struct Tolerance {
  double relative, of_largest, least;
};
Tolerance tolerance_of(DType t) {
  switch (ir::byte_size(t)) {
    case 1: return {0.25, 0.07, 0};
    case 2: return t == DType::kBF16 ? Tolerance{3e-2, 8e-3, 1e-37} : Tolerance{4e-3, 1e-3, 1e-7};
    case 8: return {1e-11, 1e-12, 1e-300};
    default: return {1e-5, 2e-6, 1e-37};  // f32: products count denormals as 0
  }
}

class Elements {
 public:
  Elements(DType dtype, int64_t count, const void* got, const void* want)
      : dtype_(dtype), got_(got), want_(want), is_float_(ir::is_float(dtype)), tolerance_(tolerance_of(dtype)) {
    for (int64_t k = 0; is_float_ && k < count; ++k)
      if (const double v = std::fabs(at(want, k).f); std::isfinite(v)) largest_ = std::max(largest_, v);
  }
  ir::Value64 at(const void* data, int64_t k) const { return ir::load_element(dtype_, data, k); }
  bool same_bits(int64_t k) const {
    const size_t size = ir::byte_size(dtype_), offset = static_cast<size_t>(k) * size;
    return std::memcmp(static_cast<const char*>(got_) + offset, static_cast<const char*>(want_) + offset, size) == 0;
  }
  bool agree(int64_t k) const {
    if (same_bits(k)) return true;
    if (!is_float_) return false;
    const double a = at(got_, k).f, b = at(want_, k).f;
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return true;
    if (!std::isfinite(a) || !std::isfinite(b)) return false;
    return std::fabs(a - b) <= tolerance_.relative * std::fabs(b) + tolerance_.of_largest * largest_ + tolerance_.least;
  }
  std::string text(const void* data, int64_t k) const {
    return is_float_ ? fmt::format("{}", at(data, k).f) : fmt::format("{}", at(data, k).i);
  }

 private:
  DType dtype_;
  const void *got_, *want_;
  bool is_float_;
  Tolerance tolerance_;
  double largest_ = 0;
};

}  // namespace

std::optional<VersionDifference> compare_versions(DType dtype, const std::vector<int64_t>& extents, const void* got,
                                                  const void* want, bool exactly) {
  int64_t count = 1;
  for (const int64_t e : extents) count *= e;
  const size_t bytes = static_cast<size_t>(count) * ir::byte_size(dtype);
  if (bytes == 0 || std::memcmp(got, want, bytes) == 0) return std::nullopt;
  const Elements elements(dtype, count, got, want);
  int64_t first = -1, differing = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (exactly ? elements.same_bits(k) : elements.agree(k)) continue;
    if (first < 0) first = k;
    ++differing;
  }
  if (first < 0) return std::nullopt;
  VersionDifference d;
  d.index.resize(extents.size());
  for (size_t axis = extents.size(), rest = static_cast<size_t>(first); axis-- > 0;) {
    d.index[axis] = static_cast<int64_t>(rest % static_cast<size_t>(extents[axis]));
    rest /= static_cast<size_t>(extents[axis]);
  }
  d.what = fmt::format("element [{}] is {} instead of {} ({} of {} differ)", fmt::join(d.index, ", "),
                       elements.text(got, first), elements.text(want, first), differing, count);
  return d;
}

}  // namespace stax::runtime
