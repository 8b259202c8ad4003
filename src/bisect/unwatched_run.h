// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program as a session runs it, against the same program step by step.
//
// Where a run is looked at, the runtime goes step by step, on memory of the host. Else it enters loops once for all of their trips, runs loops side by
// side, and keeps data in the device's memory; and a program may come from a file or the cache. None of that changes a bit of the results.
#include "bisect/machine.h"
#include "bisect/values.h"
#include "compile/pipeline.h"

namespace stax::bisect {

struct UnwatchedFault {
  std::string level, pass, detail;  // "runtime", "loop_replay", ".."
  std::string output;               // of the model
  std::string what;                 // the difference, or how the process ends
};

/// For a program that is right step by step. None: it gives the same bits in every way. `threads`: 0: all cores.
std::optional<UnwatchedFault> check_unwatched(const compile::Compiled& compiled,
                                              const std::vector<tensor::Item>& inputs, const Machine& machine,
                                              int threads);

}  // namespace stax::bisect
