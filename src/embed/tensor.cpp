// SPDX-License-Identifier: Apache-2.0
// Element types and tensors of the public API.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "embed/strided.h"
#include "embed/values.h"
#include "symbolic/evaluate.h"

namespace stax {

namespace {

std::shared_ptr<void> allocate(size_t bytes) {
  size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  void* data = std::aligned_alloc(64, rounded);
  if (!data)
    throw Error(ErrorKind::kOutOfMemory, "out of memory: " + std::to_string(bytes) + " bytes could not be allocated",
                "stax::Tensor", "use smaller tensors or free memory");
  return {data, [](void* p) { std::free(p); }};
}

}  // namespace

static_assert(static_cast<int>(DType::kF64) == static_cast<int>(ir::DType::kF64) &&
              static_cast<int>(DType::kU8) == static_cast<int>(ir::DType::kU8));

size_t byte_size(DType t) { return ir::byte_size(embed::internal(t)); }
const char* name_of(DType t) { return ir::long_name_of(embed::internal(t)).data(); }

Tensor::Tensor() : shape_{0} {}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  embed::check_shape(dtype, shape_, "stax::Tensor");
  owner_ = allocate(bytes());
  std::memset(owner_.get(), 0, bytes());
  data_ = owner_.get();
}

Tensor Tensor::copy_of(const TensorView& view) {
  embed::check_view(view, "stax::Tensor::copy_of");
  Tensor t;
  t.dtype_ = view.dtype;
  t.shape_ = view.shape;
  t.owner_ = allocate(t.bytes());
  t.data_ = t.owner_.get();
  std::vector<int64_t> dense = embed::row_major(view.shape);
  embed::copy_strided(view.shape, stax::byte_size(view.dtype), view.data, view.strides.empty() ? dense : view.strides,
                      t.owner_.get(), dense);
  return t;
}

Tensor Tensor::copy_of(DType dtype, Shape shape, const void* elements, size_t count) {
  TensorView view{dtype, std::move(shape), elements, {}};
  embed::check_shape(dtype, view.shape, "stax::Tensor::of");
  int64_t wanted = embed::count_of(view.shape);
  if (wanted != static_cast<int64_t>(count))
    throw Error(
        ErrorKind::kUser,
        fmt::format("the shape [{}] has {} elements, but {} are given", fmt::join(view.shape, ", "), wanted, count),
        "stax::Tensor::of", "give as many elements as the product of the extents");
  return copy_of(view);
}

Tensor Tensor::adopt(DType dtype, Shape shape, std::shared_ptr<void> owner, const void* data) {
  embed::check_view({dtype, shape, data, {}}, "stax::Tensor::adopt");
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = std::move(shape);
  t.owner_ = std::move(owner);
  t.data_ = data;
  return t;
}

int64_t Tensor::count() const { return embed::count_of(shape_); }
size_t Tensor::bytes() const { return static_cast<size_t>(count()) * stax::byte_size(dtype_); }

const void* Tensor::checked_data(DType wanted) const {
  if (wanted != dtype_)
    throw Error(ErrorKind::kUser,
                std::string("the elements are ") + name_of(dtype_) + ", but are asked for as " + name_of(wanted),
                "stax::Tensor::data", "ask for the element type that dtype() says");
  return data_;
}

void* Tensor::mutable_data() {
  // Without an owner of its own, or with one that others have too, the memory is not this tensor's to write.
  if (owner_.use_count() != 1 || data_ != owner_.get()) *this = copy_of(TensorView(*this));
  return const_cast<void*>(data_);
}

}  // namespace stax

namespace stax::embed {

constexpr int64_t kMostBytes = int64_t{1} << 46;

int64_t count_of(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t e : shape) n = symbolic::saturating_mul(n, e);
  return n;
}

void check_shape(DType dtype, std::span<const int64_t> shape, const std::string& where) {
  if (static_cast<int>(dtype) >= ir::kDTypeCount)
    throw Error(ErrorKind::kUser, fmt::format("{} is no element type", static_cast<int>(dtype)), where,
                "use a value of stax::DType");
  for (int64_t e : shape)
    if (e < 0)
      throw Error(ErrorKind::kUser, fmt::format("the shape [{}] has a negative extent", fmt::join(shape, ", ")), where,
                  "give extents of 0 or more");
  // Extents of 0 make any product small; without them it must fit.
  int64_t n = static_cast<int64_t>(stax::byte_size(dtype));
  for (int64_t e : shape) n = symbolic::saturating_mul(n, std::max<int64_t>(1, e));
  if (n > kMostBytes && count_of(shape) != 0)
    throw Error(ErrorKind::kUser,
                fmt::format("the shape [{}] has more elements than fit in memory", fmt::join(shape, ", ")), where,
                "check the extents");
}

void check_view(const TensorView& view, const std::string& where) {
  check_shape(view.dtype, view.shape, where);
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    throw Error(ErrorKind::kUser,
                fmt::format("{} strides for a shape of {} extents", view.strides.size(), view.shape.size()), where,
                "give one stride for each axis, or none");
  // Bytes from the first element to the furthest, in any direction.
  int64_t reach = 0;
  for (size_t k = 0; k < view.strides.size() && count_of(view.shape) > 0; ++k) {
    const int64_t step = std::max(view.strides[k], -symbolic::kPosInf);
    reach = symbolic::saturating_add(reach, symbolic::saturating_mul(std::abs(step), view.shape[k] - 1));
  }
  if (symbolic::saturating_mul(reach, static_cast<int64_t>(stax::byte_size(view.dtype))) > kMostBytes)
    throw Error(ErrorKind::kUser,
                fmt::format("the strides [{}] lead further than memory reaches", fmt::join(view.strides, ", ")), where,
                "give strides in elements, not in bytes, and check them");
  if (!view.data && count_of(view.shape) > 0)
    throw Error(ErrorKind::kUser,
                fmt::format("the data is null, and the shape [{}] has {} elements", fmt::join(view.shape, ", "),
                            count_of(view.shape)),
                where, "give memory that holds them");
}

}  // namespace stax::embed
