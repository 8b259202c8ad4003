// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one wrapper around every pass: names, disables, times, prints if changed, verifies, and writes a repro when a pass fails.
//
//   STAX_DISABLE=fuse_ops,...   passes that are left out (none is needed for correctness unless its contract says so)
//   STAX_TIME=1                 milliseconds of each pass, on standard error
//   STAX_DUMP=fuse_ops,...      the IR after a pass, on standard error ("all": after every pass that changed something)
//   STAX_VERIFY=1               the verifier after every pass (always on in tests)
#include <functional>
#include <string>
#include <string_view>

#include "tensor/graph.h"

namespace stax::compile {

/// Sees the graph before and after each pass; used by bisect and by tests. May be empty.
using PassObserver = std::function<void(std::string_view pass, const tensor::Graph& after)>;

struct PassContext {
  bool verify = false;
  PassObserver observer;
};

/// A pass returns whether it changed the graph. An exception other than a UserError becomes an InternalError that names the pass and the repro file.
bool run_pass(std::string_view name, bool (*pass)(tensor::Graph&), tensor::Graph& graph, const PassContext& context);
bool is_disabled(std::string_view name);

/// Runs a step that is no graph pass (scheduling, emission, ..) under the same names and clock.
void run_step(std::string_view name, const std::function<void()>& step);

}  // namespace stax::compile
