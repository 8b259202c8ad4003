// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, windows, mel weights, non-maximum suppression.
#include "frontend/node_context.h"

namespace stax::frontend {

std::span<const OperatorRow> signal_operators() { return {}; }

}  // namespace stax::frontend
