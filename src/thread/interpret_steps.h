// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps that touch no memory but the worker's own.
#include "thread/interpret_program.h"

namespace stax::thread {

/// Threads lo .. hi - 1 are computed. Uniform steps: one value.
struct Span {
  int64_t lo = 0, hi = 0;
};

/// kIndex, kOp, kSelect, kCast. `memory`: the worker's; `out`: where the result goes.
void run_step(const Step& step, std::byte* memory, void* out, Span span);
/// Rounds to f16 or bf16.
void round_lanes(DType t, const float* in, float* out, Span span);

}  // namespace stax::thread
