// SPDX-License-Identifier: Apache-2.0
#pragma once
// Faults that take the whole process with them while a model is compiled.
#include "bisect/bisect.h"

namespace stax::bisect {

/// Goes on in a new process, in which there is nothing to return. Here, once that one has ended: its status, or what it died of.
struct Ended {
  int status = 0;
  std::string crash;  // "it crashes (Aborted)"; empty: it ended by itself
};
std::optional<Ended> go_on_apart();

/// For a call of a model whose bisection has died: its way to a program again, each part in a process of its own. The first pass over the graph, stage
/// of a kernel, or step of the compiler that dies. None: no part does.
/// `inputs` of the call are asked for only where the model can be imported.
std::optional<Finding> crash_of(const compile::GraphSource& source,
                                const std::function<std::vector<tensor::Item>()>& inputs,
                                const BisectOptions& options = {});

}  // namespace stax::bisect
