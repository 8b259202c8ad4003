// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the iterations of a loop may run in another order.
//
// Two iterations depend on each other if one writes a location that the other touches. That they do not is proved from
// the indices: for two accesses of a buffer, equal locations mean equal indices in each dimension, and the question is
// whether that makes the loop's variable equal on both sides. An equation of two sums is taken apart like a number into
// digits: where c*x + (rest below c) = c*y + (rest below c), x = y and the rests are equal. The quotient and the
// remainder of one value by one divisor, both equal, make the value equal. What is not of such a form is dependent:
// unknown means no.
//
// Local buffers that are allocated in the loop's body are private to an iteration.
#include <string>

#include "loop/access.h"

namespace stax::loop {

/// Which updates of one location by several iterations are no dependence. All must have the same combiner.
enum class Reduction : uint8_t {
  kForbidden,  // none: for iterations that run at the same time
  kInvariant,  // of a location that does not depend on the loop: partial results can be combined after it
  kAny,        // where iterations only change their order
};

/// Empty if the iterations of `loop`, which stands inside of `outer`, are independent, else the reason: "buffer out is
/// stored at [i] and loaded at [i - 1]".
std::string find_dependence(const Kernel& kernel, const For& loop, const LoopScope& outer, Reduction reduction);

}  // namespace stax::loop
