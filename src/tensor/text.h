// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphs as complete text whose large constants are small where they were drawn.
#include <unordered_map>

#include "ir/drawn.h"
#include "tensor/graph.h"

namespace stax::tensor {

/// By a literal's data: how it was drawn.
using DrawnConstants = std::unordered_map<const void*, ir::Drawn>;

/// As print with PrintOptions::full, with `drawn ..` in the place of the bytes of constants in `drawn`.
std::string print_with_drawn(const Graph& graph, const DrawnConstants& drawn);

}  // namespace stax::tensor
