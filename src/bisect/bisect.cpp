// SPDX-License-Identifier: Apache-2.0
#include "bisect/bisect.h"

#include "bisect/graph_check.h"
#include "bisect/pass_case.h"
#include "bisect/program_check.h"
#include "compile/pipeline.h"
#include "support/debug.h"
#include "support/error.h"

namespace stax::bisect {

using compile::PassedGraph;
using compile::Repro;
using tensor::Item;

namespace {

std::string disabled_passes() {
  const auto& disabled = debug_options().disable;
  return fmt::format("{}", fmt::join(disabled.begin(), disabled.end(), ","));
}

/// The passes of the sequence, one after the other.
class GraphPasses {
 public:
  GraphPasses(const compile::GraphSource& source, const std::vector<Item>& inputs) : source_(source), inputs_(inputs) {}

  std::optional<Finding> run() {
    PassedGraph last;
    try {
      last = compile::graph_after(source_, -1, true);
    } catch (const InternalError& e) {
      return fails(e.what());
    }
    const std::unordered_set<uint32_t> ids = results_of(*last.graph);
    std::unique_ptr<tensor::Graph> imported = source_();
    outputs_ = run_reference(*imported, inputs_, &ids, imported_);
    imported.reset();
    if (auto fault = check_graph(*last.graph, inputs_, imported_, outputs_, &values))
      return bisected(last.passes, *fault);
    final = std::move(last.graph);
    return std::nullopt;
  }

  std::unique_ptr<tensor::Graph> final;  // in its final form, if it is right
  Values values;                         // its values
  const std::vector<Item>& outputs() const { return outputs_; }

 private:
  /// A pass that throws, or that breaks a rule of the verifier.
  Finding fails(const std::string& message) {
    Finding f;
    f.level = "graph";
    const size_t colon = message.find(':');
    f.pass = message.substr(5, colon - 5);  // "pass NAME: .."
    f.what = message.substr(colon + 2, message.find('\n') - colon - 2);
    compile::PassContext context;
    context.verify = true;
    std::unique_ptr<tensor::Graph> graph = source_();
    try {
      compile::optimize(*graph, context);
    } catch (const InternalError&) {
    }
    f.repro.name = f.pass;
    f.repro.fault = f.what;
    f.repro.disable = disabled_passes();
    f.repro.model = tensor::print(*compile::graph_after(source_, context.passes_run).graph, {.full = true});
    return f;
  }

  /// All passes have run and the last graph differs: the first that is wrong behind one that is right.
  Finding bisected(const std::vector<std::string>& names, GraphFault fault) {
    int right = 0, wrong = static_cast<int>(names.size());
    while (wrong - right > 1) {
      const int middle = (right + wrong) / 2;
      auto differs = check_graph(*compile::graph_after(source_, middle).graph, inputs_, imported_, outputs_, nullptr);
      if (differs) fault = *differs;
      (differs ? wrong : right) = middle;
    }
    Finding f;
    f.level = "graph";
    f.pass = names[static_cast<size_t>(wrong) - 1];
    f.detail = fmt::format("pass {} of {}", wrong, names.size());
    f.value = fault.value, f.source = fault.source, f.what = fault.what;
    std::unique_ptr<tensor::Graph> before = compile::graph_after(source_, right).graph;
    const std::unordered_set<uint32_t> ids = results_of(*compile::graph_after(source_, wrong).graph);
    Values known;
    run_reference(*before, inputs_, nullptr, known);
    const PassCase small = pass_case(std::move(before), inputs_, fault.id, known, ids, f.pass);
    f.repro.name = f.pass;
    f.repro.fault = fmt::format("{}: {}", f.value, f.what);
    f.repro.disable = disabled_passes();
    f.repro.model = small.model;
    f.repro.inputs = small.inputs;
    return f;
  }

  const compile::GraphSource& source_;
  const std::vector<Item>& inputs_;
  std::vector<Item> outputs_;
  Values imported_;
};

Finding finding_of(const ProgramFault& fault, const tensor::Graph& graph, const std::vector<Item>& inputs,
                   const Machine& machine) {
  Finding f;
  f.level = fault.level, f.pass = fault.pass, f.detail = fault.detail;
  f.kernel = fault.kernel, f.version = fault.version, f.schedule = fault.schedule;
  f.value = fault.value, f.source = fault.source, f.what = fault.what;
  f.repro.kind = Repro::Kind::kKernel;
  f.repro.name = fault.pass;
  f.repro.version = fault.version;
  if (machine.is_gpu()) f.repro.device = machine.device;
  f.repro.fault = fmt::format("{}: {}", f.value, f.what);
  f.repro.disable = disabled_passes();
  if (fault.call) {
    const Case small = case_of(*fault.call);
    f.repro.model = tensor::print(*small.graph, {.full = true});
    f.repro.inputs = inputs_text(*small.graph, small.inputs);
  } else {
    f.repro.model = tensor::print(graph, {.full = true});
    f.repro.inputs = inputs_text(graph, inputs);
  }
  return f;
}

/// A graph in its final form, as a program.
std::optional<Finding> check_final(tensor::Graph& graph, const std::vector<Item>& inputs, const Values& values,
                                   const std::vector<Item>& outputs, const ProgramOptions& options) {
  auto fault = check_program(graph, inputs, values, outputs, options);
  return fault ? std::optional(finding_of(*fault, graph, inputs, options.machine)) : std::nullopt;
}

}  // namespace

std::string text_of(const Finding& f) {
  std::string text = fmt::format("{}{}", f.pass, f.detail.empty() ? "" : " (" + f.detail + ")");
  text += fmt::format("\n  level:    {}", f.level);
  if (!f.kernel.empty()) text += "\n  kernel:   " + f.kernel;
  if (f.version) text += fmt::format("\n  version:  {}", *f.version);
  if (!f.schedule.empty()) {
    std::string schedule;
    for (char c : f.schedule) schedule += c == '\n' ? ' ' : c;
    text += "\n  schedule: " + schedule;
  }
  if (!f.value.empty()) text += "\n  value:    " + f.value;
  return text + "\n  fault:    " + f.what;
}

std::optional<Finding> bisect(const compile::GraphSource& source, const std::vector<Item>& inputs,
                              const BisectOptions& options) {
  const Machine machine = machine_of(options.device);
  GraphPasses passes(source, inputs);
  if (auto f = passes.run()) return f;
  return check_final(*passes.final, inputs, passes.values, passes.outputs(), {options.threads, machine, {}});
}

std::optional<Finding> replay(const Repro& repro, const BisectOptions& options) {
  std::vector<Item> inputs;
  if (!repro.inputs.empty()) inputs = parse_inputs(repro.inputs);
  if (repro.kind == Repro::Kind::kPass) {
    const std::string what = pass_differs(repro.model, inputs, repro.name);
    if (what.empty()) return std::nullopt;
    Finding f;
    f.level = "graph", f.pass = repro.name, f.what = what;
    return f;
  }
  std::unique_ptr<tensor::Graph> graph = tensor::parse_graph(repro.model);
  Values values;
  const std::vector<Item> outputs = run_reference(*graph, inputs, nullptr, values);
  // A kernel made small may be launched in another version than the call that it is from.
  return check_final(*graph, inputs, values, outputs,
                     {options.threads, machine_of(repro.device.empty() ? "cpu" : repro.device), repro.version});
}

}  // namespace stax::bisect
