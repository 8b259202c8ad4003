// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of the public API and of the runtime.
#include <span>
#include <string>

#include "ir/dtype.h"
#include "stax/stax.h"

namespace stax::embed {

inline ir::DType internal(DType t) { return static_cast<ir::DType>(t); }
inline DType external(ir::DType t) { return static_cast<DType>(t); }

/// Saturates.
int64_t count_of(std::span<const int64_t> shape);
/// Error for an unknown type, a negative extent, or a size beyond any memory.
void check_shape(DType dtype, std::span<const int64_t> shape, const std::string& where);
/// The same, and for strides of another number than extents, and for data that is missing.
void check_view(const TensorView& view, const std::string& where);

}  // namespace stax::embed
