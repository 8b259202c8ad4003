// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program says of a step that launches nothing, against the op that it was made from.
#include <string>

#include "compile/pipeline.h"

namespace stax::bisect {

/// The first operand, result, input or output of a body that is another value's than the op's; empty if there is none.
std::string step_fault(const compile::Compiled& compiled, uint32_t block, uint32_t step);

/// How the program's constant is another than the graph's; empty where it is the same, or no constant.
std::string constant_fault(const compile::Compiled& compiled, program::ValueRef value);

}  // namespace stax::bisect
