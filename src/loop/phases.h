// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel in phases: nests one behind the other that share local buffers (transform_phase_reduction.cpp). Each becomes a kernel of its own, and what they share
// an argument of it, so that a grid of blocks does all of one before the next begins.
#include <vector>

#include "loop/loop_ir.h"

namespace stax::loop {

struct Phase {
  Kernel kernel;               // in a context of its own, with all parameters of the whole
  std::vector<int> arguments;  // the slots of the whole that its own arguments are; those that it writes are the last
};
/// The statements of the sequence that the kernel is, inside of what it allocates around it; none where it is no sequence.
std::vector<Phase> phases_of(const Kernel& kernel);

/// The kernel with one more parameter, the last, called p and its number.
Kernel add_param(const Kernel& kernel, symbolic::SymbolInfo info);

}  // namespace stax::loop
