// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes over thread IR, in the order in which they run. One file each.
#include <span>

#include "thread/thread_ir.h"

namespace stax::thread {

// unroll_loops: writes out loops marked unrolled. Requires: structured. Ensures: no loop is marked.
//   for i < 2 unrolled { a[i] = x[i] } -> a[0] = x[0]; a[1] = x[1]
Kernel unroll_loops(const Kernel& kernel);

// peel_rests: a loop over tiles whose last one may be a part runs over whole tiles, where conditions that are about the rest hold and are left
//   out; behind it stands the last tile with its conditions, run once or not at all. Requires: no loop is marked unrolled. Ensures: the loop
//   over whole tiles has no such condition.
//   for i < ceil(n / 8) { .. i*8 + 3 < n .. } -> for i < n / 8 { .. }; for i_t < min(n mod 8, 1) { .. n / 8 * 8 + 3 < n .. }
Kernel peel_rests(const Kernel& kernel);

// insert_barriers: the fewest barriers, at places that all threads of a block come to, such that of two accesses of one shared buffer (or of
//   one written global buffer) by different threads, one of them a write, one is in front of a barrier and the other behind it. Accesses whose
//   locations provably belong to one thread alone need none. Requires: no loop is marked unrolled; shared buffers are accessed outside of
//   divergent conditions or where the barrier can stand around them. Ensures: no race within a block.
Kernel insert_barriers(const Kernel& kernel);

// reduce_divisions: gives each divisor of an index expression that depends on parameters a multiplier and a shift (Divisor). Requires:
//   index_bits is 32. Ensures: floordiv and mod by them need no division.
Kernel reduce_divisions(const Kernel& kernel);

struct Pass {
  const char* name;
  Kernel (*pass)(const Kernel&);
};
/// What kernels with indices of that many bits go through, in order.
std::span<const Pass> passes(int index_bits);

}  // namespace stax::thread
