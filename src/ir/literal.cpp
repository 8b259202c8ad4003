// SPDX-License-Identifier: Apache-2.0
#include "ir/literal.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/ranges.h>

#include "support/error.h"

namespace stax::ir {
namespace {

constexpr size_t kAlignment = 64;
// Beyond any machine's memory: an allocator that promises it is not to be believed.
constexpr int64_t kMostBytes = int64_t{1} << 46;

int64_t multiply_saturating(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}

int64_t count_of(const std::vector<int64_t>& extents) {
  // A zero anywhere makes the product zero, also where the rest of it saturates.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
  int64_t count = 1;
  for (int64_t extent : extents) count = multiply_saturating(count, extent);
  return count;
}

std::shared_ptr<void> allocate(DType t, const std::vector<int64_t>& extents) {
  const int64_t bytes = multiply_saturating(count_of(extents), static_cast<int64_t>(byte_size(t)));
  void* data = nullptr;
  if (bytes <= kMostBytes) {
    const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    data = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
  }
  if (data == nullptr)
    user_error("cannot allocate {}{} bytes for a {} tensor of shape [{}]",
               bytes == std::numeric_limits<int64_t>::max() ? "at least " : "", bytes, long_name_of(t),
               fmt::join(extents, ", "));
  return {data, std::free};
}

}  // namespace

Literal::Literal(DType dtype, std::vector<int64_t> extents) : dtype_(dtype), extents_(std::move(extents)) {
  for (int64_t extent : extents_) STAX_ASSERT(extent >= 0, "a literal of shape [{}]", fmt::join(extents_, ", "));
  data_ = allocate(dtype_, extents_);
}

int64_t Literal::count() const { return count_of(extents_); }
size_t Literal::bytes() const {
  return static_cast<size_t>(multiply_saturating(count(), static_cast<int64_t>(byte_size(dtype_))));
}

Literal Literal::scalar(DType t, double value) {
  Literal result(t, {});
  Value64 v;
  v.f = value;
  result.set(0, is_float(t) ? v : evaluate_cast(t, DType::kF64, v));
  return result;
}

Literal Literal::ints(std::vector<int64_t> values) {
  Literal result(DType::kI64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(result.data()));
  return result;
}

Literal Literal::reshaped(std::vector<int64_t> extents) const {
  STAX_ASSERT(count_of(extents) == count(), "[{}] reshaped to [{}]", fmt::join(extents_, ", "),
              fmt::join(extents, ", "));
  Literal result = *this;
  result.extents_ = std::move(extents);
  return result;
}

Literal Literal::view(DType t, std::vector<int64_t> extents, std::shared_ptr<void> owner_and_data) {
  Literal result;
  result.dtype_ = t;
  result.extents_ = std::move(extents);
  result.data_ = std::move(owner_and_data);
  return result;
}

}  // namespace stax::ir
