// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU, RNN and ReverseSequence.
#include "frontend/node_context.h"

namespace stax::frontend {

std::span<const OperatorRow> recurrent_operators() { return {}; }

}  // namespace stax::frontend
