// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls one after the other in one session, against each of them alone.
//
// What a session keeps between calls (shape plans, arenas, contexts) is not seen by a single call. Two runs of one program on one shape give the same
// bits, so whatever differs here is what an earlier call has left behind.
#include "bisect/machine.h"
#include "bisect/values.h"
#include "compile/pipeline.h"

namespace stax::bisect {

struct SequenceFault {
  size_t call = 0;     // the first that differs, counted from 0 over the calls and then over them again
  std::string output;  // of the model
  std::string what;    // the difference, or how the process ends
};

/// All calls in order, and once more. None: each gives what it gives alone. `threads`: 0: all cores.
std::optional<SequenceFault> check_sequence(const compile::Compiled& compiled,
                                            const std::vector<std::vector<tensor::Item>>& calls, const Machine& machine,
                                            int threads);

}  // namespace stax::bisect
