// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one wrapper around every pass: names, disables, times, prints if changed, verifies, and writes a repro when a pass fails.
//
//   STAX_DISABLE=fuse_ops,...   passes that are left out (none is needed for correctness unless its contract says so)
//   STAX_TIME=1                 milliseconds of each pass, on standard error
//   STAX_DUMP=fuse_ops,...      the IR after a pass, on standard error ("all": after every pass that changed something)
//   STAX_VERIFY=1               the verifier after every pass (always on in tests)
//
// A repro (repro.h) holds the graph as the pass got it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/graph.h"

namespace stax::compile {

/// Sees the graph before and after each pass; used by bisect and by tests. May be empty.
using PassObserver = std::function<void(std::string_view pass, const tensor::Graph& after)>;

/// Makes the graph that a sequence of passes began with once more.
using GraphSource = std::function<std::unique_ptr<tensor::Graph>()>;

struct PassContext {
  bool verify = false;
  PassObserver observer;
  /// Called with the name of each pass that is about to run. May be empty.
  std::function<void(std::string_view pass)> before = {};
  /// For repros, which hold the graph as the failed pass got it: asked only when a pass fails. Without it they hold what the pass left.
  GraphSource source;
  std::string target = "cpu";  // ir::find_target; layouts depend on it
  std::string only = {};       // if given: this pass, once, and no other
  mutable int passes_run = 0;  // those that are left out do not count
};

/// The graph after the first `passes` passes of the sequence (-1: after all of it), with their names.
struct PassedGraph {
  std::unique_ptr<tensor::Graph> graph;
  std::vector<std::string> passes;
};
PassedGraph graph_after(const GraphSource& source, int passes, bool verify = false, const std::string& target = "cpu");
/// One pass of the target's sequence by its name, with the verifier behind it. UserError where there is none of that name.
void run_named_pass(const std::string& name, tensor::Graph& graph, const std::string& target = "cpu");

/// A pass returns whether it changed the graph. An exception other than a UserError becomes an InternalError that names the pass and the repro file.
bool run_pass(std::string_view name, bool (*pass)(tensor::Graph&), tensor::Graph& graph, const PassContext& context);
bool is_disabled(std::string_view name);
/// Warns on standard error, once, of names in STAX_DISABLE and STAX_DUMP that nothing has asked for: after a whole compilation.
void report_unknown_passes();

/// What a pass may change, for notes in dumps: ops of a graph by kind, those of inner blocks included, and the text of each.
struct Sketch {
  std::map<std::string, int> kinds;
  std::map<uint32_t, uint64_t> ops;  // by the id of the first result: hash of the text
  int total = 0;
};
Sketch sketch(const tensor::Graph& graph);
/// "12 ops: compute 9, reshape 3".
std::string describe(const Sketch& sketch);
/// "12 ops -> 9 (compute 9 -> 6); 2 rewritten", or "nothing".
std::string describe_change(const Sketch& before, const Sketch& after);

/// Runs a step that is no graph pass (scheduling, emission, ..) under the same names and clock. What is not the user's fault becomes an
/// InternalError that begins with its name.
void run_step(std::string_view name, const std::function<void()>& step);

}  // namespace stax::compile
