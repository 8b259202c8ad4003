// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arithmetic of the loop interpreter on blocks of values: an array of double for float dtypes, of int64 for integers
// and bool. What a single operation means is ir::evaluate_scalar_op and ir::evaluate_cast; here are loops, with the
// common operations written out.
#include <cstdint>
#include <span>

#include "ir/scalar.h"
#include "loop/loop_ir.h"

namespace stax::loop {

using ir::Value64;

/// Elements of a buffer: element k of the block is at base + (offsets ? offsets[k] : k * stride).
struct Address {
  int64_t base = 0;
  int64_t stride = 0;
  const int64_t* offsets = nullptr;
  int64_t operator[](int64_t k) const { return base + (offsets != nullptr ? offsets[k] : k * stride); }
};

/// `mask` (may be null): one byte an element; where it is 0, nothing is accessed and a load gives 0.
void load_block(DType t, const void* data, const Address& at, int64_t n, const uint8_t* mask, Value64* out);
void store_block(DType t, void* data, const Address& at, int64_t n, const uint8_t* mask, const Value64* values);
/// In order, each result rounded or wrapped to t.
void update_block(DType t, Combiner combiner, void* data, const Address& at, int64_t n, const uint8_t* mask,
                  const Value64* values);
/// Not for kSelect and kCheckedIndex.
void op_block(ir::ScalarOp op, DType argument_type, std::span<const Value64* const> args, int64_t n, Value64* out);
void select_block(const Value64* condition, const Value64* a, const Value64* b, int64_t n, Value64* out);
void cast_block(DType to, DType from, const Value64* x, int64_t n, Value64* out);
/// As symbolic::apply. `uniform_divisor`: args[1] holds one value n times.
void index_block(symbolic::ExprKind kind, std::span<const Value64* const> args, bool uniform_divisor, int64_t n,
                 Value64* out);

}  // namespace stax::loop
