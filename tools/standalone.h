// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file that runs one kernel of a program by itself (emit/standalone.h), with values for its parameters.
#include <string>

#include "compile/pipeline.h"
#include "program/at_shape.h"

namespace stax::tool {

/// `at`: the shape that the parameters' values are taken from; null: one at which the program launches the kernel, as far as such a one is found.
std::string standalone_text(const compile::Compiled& compiled, size_t kernel, const ir::Target& target,
                            const program::AtShape* at);

}  // namespace stax::tool
