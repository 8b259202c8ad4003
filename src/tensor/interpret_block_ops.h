// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scalar operations, casts, loads and stores on blocks of points: arrays of double for float dtypes, of int64 for
// integers and bool. Each means, element by element, what ir::evaluate_scalar_op and ir::evaluate_cast say; the
// frequent ones have loops of their own.
#include <cstdint>

#include "ir/scalar.h"

namespace stax::tensor::reference {

void apply_op_block(ir::ScalarOp op, ir::DType argument_type, const void* const* arguments, void* out, int64_t n);
void apply_cast_block(ir::DType to, ir::DType from, const void* x, void* out, int64_t n);
/// out[i] = data[start + i * step].
void load_strided_block(ir::DType t, const void* data, int64_t start, int64_t step, void* out, int64_t n);
/// out[i] = data[offsets[i]].
void load_gathered_block(ir::DType t, const void* data, const int64_t* offsets, void* out, int64_t n);
/// Wraps int64 values to the width of an integer dtype.
void wrap_block(ir::DType t, int64_t* values, int64_t n);

}  // namespace stax::tensor::reference
