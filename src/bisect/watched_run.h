// SPDX-License-Identifier: Apache-2.0
#pragma once
// One call of a program in a process of its own, step by step.
#include "bisect/kernel_chain.h"
#include "compile/pipeline.h"

namespace stax::bisect {

enum class Seen : int {
  kNothing,    // all of it is right
  kDiffers,    // a result is not the wanted one
  kExtents,    // a result has other extents
  kOverlap,    // a result lies on a value that is still needed
  kBounds,     // a result lies outside of its arena
  kPlace,      // a result does not lie where its program says
  kChanged,    // a value is not any more what it was when it was made
  kOutput,     // all results are right, and what the call returns is not
  kThrows,     // the call fails
  kCrashes,    // .. or takes the process with it
  kBinding,    // a dim has another extent than the inputs say, or than the elements that a step takes it from
  kEvaluator,  // the runtime gives an expression of the program another value than it has
};

struct Sighting {
  Seen seen = Seen::kNothing;
  uint32_t block = 0, step = 0;
  int64_t number = 0;   // of the step, counted over the call
  uint32_t kernel = 0;  // where the step is a launch: the version that was launched
  uint32_t value = 0;   // ValueRef
  char what[1600] = {};
};

struct WatchOptions {
  int threads = 1;
  Machine machine;
  bool strict = false;   // all values are looked at after every step, not only those that are read next
  int64_t stop_at = -1;  // ends in front of the step of that number and gives what it would read
};

struct Watched {
  Sighting sighting;
  std::vector<tensor::Item> operands;  // of the op whose step it was stopped at
  std::vector<int64_t> symbols;        // by slot; empty where the run never came there
};

Watched watch(const compile::Compiled& compiled, const std::vector<tensor::Item>& inputs, const Values& want,
              const std::vector<tensor::Item>& outputs, const WatchOptions& options);

/// Values of the graph's symbols.
tensor::Bindings bindings_of(const compile::Compiled& compiled, const std::vector<int64_t>& symbols);

}  // namespace stax::bisect
