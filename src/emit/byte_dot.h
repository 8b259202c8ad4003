// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "emit/emit.h"

namespace stax::emit {

/// Whether machines of this kind have an instruction for sums of four products of bytes in a lane of 32 bits.
bool has_byte_dot(Isa isa);

/// The loads of an unrolled loop over groups of four products of bytes, the one of u8 ("rows") and the one of i8; null: of another form.
struct ByteDotFactors {
  ir::Scalar rows, columns;
};
ByteDotFactors byte_dot_factors(const loop::Kernel& kernel, const loop::For& s);

}  // namespace stax::emit
