// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tensor of known values: weights, folded constants, interpreter values. Contiguous, row-major, 64-byte aligned.
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/dtype.h"
#include "ir/scalar.h"

namespace stax::ir {

class Literal {
 public:
  Literal() = default;
  Literal(DType dtype,
          std::vector<int64_t>
              extents);  // uninitialized; a size that cannot be allocated is a UserError that names the bytes
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  int rank() const { return static_cast<int>(extents_.size()); }
  int64_t count() const;  // elements; saturates
  size_t bytes() const;
  const void* data() const { return data_.get(); }
  void* data() { return data_.get(); }
  Value64 at(int64_t linear) const { return load_element(dtype_, data_.get(), linear); }
  void set(int64_t linear, Value64 v) { store_element(dtype_, data_.get(), linear, v); }
  static Literal scalar(DType t, double value);
  static Literal ints(std::vector<int64_t> values);  // rank 1, i64
  /// The same storage under other extents of the same count.
  Literal reshaped(std::vector<int64_t> extents) const;
  /// Storage that somebody else owns (a mapped file); kept alive by `owner`.
  static Literal view(DType t, std::vector<int64_t> extents, std::shared_ptr<void> owner_and_data);

 private:
  DType dtype_ = DType::kF32;
  std::vector<int64_t> extents_;
  std::shared_ptr<void> data_;
};

}  // namespace stax::ir
