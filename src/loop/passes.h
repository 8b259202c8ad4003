// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes over loop IR after scheduling. One file each.
#include "loop/loop_ir.h"

namespace stax::loop {

// simplify: index expressions with the ranges of the enclosing loops; conditions that are always true or false; loops of extent 0 or 1.
Kernel simplify(const Kernel& kernel);

// hoist_loop_invariants: If conditions that do not depend on a loop leave it (where the loop body is only the If).
Kernel hoist_loop_invariants(const Kernel& kernel);

// partition_loops: splits a serial loop at the point from which a guard of its body is false, so that the steady part has no guard.
//   The tail and the loops in it get the suffix "_t".
Kernel partition_loops(const Kernel& kernel);

}  // namespace stax::loop
