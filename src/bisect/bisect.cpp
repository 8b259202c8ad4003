// SPDX-License-Identifier: Apache-2.0
#include "bisect/bisect.h"

#include <thread>

#include "bisect/call_sequence.h"
#include "bisect/expression_check.h"
#include "bisect/fewer_ops.h"
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

// For a part of a model that shows what is wrong with its program.
constexpr int kPartSeconds = 15;

std::string disabled_passes() {
  const auto& disabled = debug_options().disable;
  return fmt::format("{}", fmt::join(disabled.begin(), disabled.end(), ","));
}

/// The passes of the sequence, one after the other.
class GraphPasses {
 public:
  GraphPasses(const compile::GraphSource& source, const std::vector<Item>& inputs, const std::string& target)
      : source_(source), inputs_(inputs), target_(target) {}

  std::optional<Finding> run() {
    PassedGraph last;
    try {
      last = after(-1, true);
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
  PassedGraph after(int passes, bool verify = false) const {
    return compile::graph_after(source_, passes, verify, target_);
  }
  std::string repro_target() const { return target_ == "cpu" ? "" : target_; }

  /// A pass that throws, or that breaks a rule of the verifier.
  Finding fails(const std::string& message) {
    Finding f;
    f.level = "graph";
    const size_t colon = message.find(':');
    f.pass = message.substr(5, colon - 5);  // "pass NAME: .."
    f.what = message.substr(colon + 2, message.find('\n') - colon - 2);
    compile::PassContext context;
    context.verify = true;
    context.target = target_;
    std::unique_ptr<tensor::Graph> graph = source_();
    try {
      compile::optimize(*graph, context);
    } catch (const InternalError&) {
    }
    f.repro.name = f.pass;
    f.repro.target = repro_target();
    f.repro.fault = f.what;
    f.repro.disable = disabled_passes();
    const PassCase small =
        with_small_data({tensor::print(*after(context.passes_run).graph, {.full = true}), {}, {}}, {f.pass, target_});
    f.repro.model = small.model;
    f.repro.notes = small.notes;
    return f;
  }

  /// All passes have run and the last graph differs: the first that is wrong behind one that is right.
  Finding bisected(const std::vector<std::string>& names, GraphFault fault) {
    int right = 0, wrong = static_cast<int>(names.size());
    while (wrong - right > 1) {
      const int middle = (right + wrong) / 2;
      auto differs = check_graph(*after(middle).graph, inputs_, imported_, outputs_, nullptr);
      if (differs) fault = *differs;
      (differs ? wrong : right) = middle;
    }
    Finding f;
    f.level = "graph";
    f.pass = names[static_cast<size_t>(wrong) - 1];
    f.detail = fmt::format("pass {} of {}", wrong, names.size());
    f.value = fault.value, f.source = fault.source, f.what = fault.what;
    const std::unordered_set<uint32_t> ids = results_of(*after(wrong).graph);
    Values known;
    run_reference(*after(right).graph, inputs_, nullptr, known);
    const PassCase small =
        pass_case([&] { return after(right).graph; }, inputs_, fault.id, known, ids, {f.pass, target_});
    f.repro.name = f.pass;
    f.repro.target = repro_target();
    f.repro.fault = fmt::format("{}: {}", f.value, f.what);
    f.repro.disable = disabled_passes();
    f.repro.notes = small.notes;
    f.repro.model = small.model;
    f.repro.inputs = small.inputs;
    return f;
  }

  const compile::GraphSource& source_;
  const std::vector<Item>& inputs_;
  const std::string target_;
  std::vector<Item> outputs_;
  Values imported_;
};

bool shows(const ProgramFault& fault, tensor::Graph& graph, const std::vector<Item>& inputs,
           const ProgramOptions& options) {
  try {
    Values values;
    const std::vector<Item> outputs = run_reference(graph, inputs, nullptr, values);
    const auto found = check_program(graph, inputs, values, outputs, options);
    return found && found->level == fault.level && found->pass == fault.pass;
  } catch (const UserError&) {  // an index out of range, and the like
    return false;
  } catch (const InternalError&) {  // what is no model by itself
    return false;
  }
}

/// The program itself is at fault, or the runtime: nothing smaller than the model shows it, but other numbers may.
SmallData small_model(const ProgramFault& fault, tensor::Graph& graph, std::vector<Item>& inputs,
                      const ProgramOptions& options) {
  std::vector<LargeTensor> large = large_tensors(graph);
  for (const LargeTensor& t : large_tensors(inputs, "input")) large.push_back(t);
  return draw_large(std::move(large), [&](const auto&) { return shows(fault, graph, inputs, options); });
}

/// The part of a model that shows a fault of its program. `whole` makes the model once more; empty: the model is small already.
std::optional<Part> small_part(const ProgramFault& fault, const compile::GraphSource& whole,
                               const std::vector<Item>& inputs, const Values& known, const ProgramOptions& options) {
  if (!whole) return std::nullopt;
  return fewest_ops([&] { return Part{whole(), inputs}; }, known, fault.id,
                    [&](Part& part) { return shows(fault, *part.graph, part.inputs, options); }, kPartSeconds);
}

Finding finding_of(const ProgramFault& fault, tensor::Graph& graph, std::vector<Item> inputs, const Values& known,
                   const compile::GraphSource& whole, const ProgramOptions& options) {
  Finding f;
  f.level = fault.level, f.pass = fault.pass, f.detail = fault.detail;
  f.kernel = fault.kernel, f.version = fault.version, f.schedule = fault.schedule;
  f.value = fault.value, f.source = fault.source, f.what = fault.what;
  f.repro.kind = Repro::Kind::kKernel;
  f.repro.name = fault.pass;
  // Which version is launched is the runtime's to say where that is what is looked at.
  if (fault.level != "runtime") f.repro.version = fault.version;
  if (options.machine.is_gpu()) f.repro.device = options.machine.device;
  f.repro.emit = options.machine.emit;
  f.repro.fault = fmt::format("{}: {}", f.value, f.what);
  f.repro.disable = disabled_passes();
  if (fault.call) {
    const Case small = case_of(*fault.call);
    f.repro.notes = fault.data.notes;
    f.repro.model = tensor::print_with_drawn(*small.graph, fault.data.drawn);
    f.repro.inputs = inputs_text(*small.graph, small.inputs, fault.data.drawn);
    return f;
  }
  // One launch may do; else it takes several, or the whole model.
  const auto keep = [&](tensor::Graph& model, std::vector<Item>& call) {
    const SmallData data = small_model(fault, model, call, options);
    f.repro.notes = data.notes;
    f.repro.model = tensor::print_with_drawn(model, data.drawn);
    f.repro.inputs = inputs_text(model, call, data.drawn);
  };
  std::optional<Case> alone;
  if (fault.around) alone = case_of(*fault.around);
  if (alone && shows(fault, *alone->graph, alone->inputs, options))
    keep(*alone->graph, alone->inputs);
  else if (std::optional<Part> part = small_part(fault, whole, inputs, known, options))
    keep(*part->graph, part->inputs);
  else
    keep(graph, inputs);
  return f;
}

/// A graph in its final form, as a program.
std::optional<Finding> check_final(tensor::Graph& graph, const std::vector<Item>& inputs, const Values& values,
                                   const std::vector<Item>& outputs, const compile::GraphSource& whole,
                                   const ProgramOptions& options) {
  auto fault = check_program(graph, inputs, values, outputs, options);
  return fault ? std::optional(finding_of(*fault, graph, inputs, values, whole, options)) : std::nullopt;
}

// ---- several calls in one session

compile::CompileOptions options_for(const Machine& machine) {
  compile::CompileOptions options;
  options.target = machine.target;
  options.format = machine.format();
  if (!machine.is_gpu()) options.isas = {emit::host_isa()};
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return options;
}

/// Two calls, the later of which differs, or all up to it.
std::vector<std::vector<Item>> fewest_calls(const compile::Compiled& compiled, std::vector<std::vector<Item>> calls,
                                            size_t wrong, const Machine& machine, int threads) {
  for (size_t k = 0; k < calls.size(); ++k) {
    const std::vector<std::vector<Item>> two{calls[k], calls[wrong % calls.size()]};
    if (k != wrong % calls.size() && check_sequence(compiled, two, machine, threads)) return two;
  }
  calls.resize(std::min(calls.size(), wrong + 1));
  return calls;
}

Finding finding_of(const SequenceFault& fault, tensor::Graph& graph, std::vector<std::vector<Item>> calls,
                   const Machine& machine, int threads) {
  Finding f;
  f.level = "runtime", f.pass = "session";
  f.detail = fmt::format("call {} of {} in one session, and right alone", fault.call + 1, 2 * calls.size());
  f.value = fault.output.empty() ? "" : "output '" + fault.output + "'";
  f.what = fault.what;
  std::vector<LargeTensor> large = large_tensors(graph);
  for (std::vector<Item>& call : calls)
    for (const LargeTensor& t : large_tensors(call, "input")) large.push_back(t);
  const SmallData data = draw_large(std::move(large), [&](const auto&) {
    try {
      return check_sequence(compile::compile_optimized(graph, options_for(machine)), calls, machine, threads)
          .has_value();
    } catch (const InternalError&) {
      return false;
    }
  });
  f.repro.kind = Repro::Kind::kSession;
  f.repro.name = f.pass;
  f.repro.fault = fmt::format("{}: {}", f.value, f.what);
  f.repro.disable = disabled_passes();
  if (machine.is_gpu()) f.repro.device = machine.device;
  f.repro.emit = machine.emit;
  f.repro.notes = data.notes;
  f.repro.model = tensor::print_with_drawn(graph, data.drawn);
  f.repro.inputs = inputs_text(graph, calls[0], data.drawn);
  for (size_t k = 1; k < calls.size(); ++k) f.repro.more_inputs.push_back(inputs_text(graph, calls[k], data.drawn));
  return f;
}

}  // namespace

std::optional<Finding> bisect_session(const compile::GraphSource& source, std::vector<std::vector<Item>> calls,
                                      const BisectOptions& options) {
  const Machine machine = machine_of(options.device, options.emit);
  const std::unique_ptr<tensor::Graph> graph = source();
  const compile::Compiled compiled = compile::compile_graph(*graph, options_for(machine));
  const auto fault = check_sequence(compiled, calls, machine, options.threads);
  if (!fault) return std::nullopt;
  calls = fewest_calls(compiled, std::move(calls), fault->call, machine, options.threads);
  return finding_of(*fault, *graph, std::move(calls), machine, options.threads);
}

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
  const Machine machine = machine_of(options.device, options.emit);
  if (auto f = check_expressions(source, machine)) return f;
  GraphPasses passes(source, inputs, machine.target);
  if (auto f = passes.run()) return f;
  return check_final(*passes.final, inputs, passes.values, passes.outputs(),
                     [&] { return compile::graph_after(source, -1, false, machine.target).graph; },
                     {options.threads, machine, {}});
}

std::optional<Finding> replay(const Repro& repro, const BisectOptions& options) {
  std::vector<Item> inputs;
  if (!repro.inputs.empty()) inputs = parse_inputs(repro.inputs);
  if (repro.kind == Repro::Kind::kExpression) return replay_expression(repro.model);
  if (repro.kind == Repro::Kind::kPass) {
    const std::string what =
        pass_differs(repro.model, inputs, {repro.name, repro.target.empty() ? "cpu" : repro.target});
    if (what.empty()) return std::nullopt;
    Finding f;
    f.level = "graph", f.pass = repro.name, f.what = what;
    return f;
  }
  std::unique_ptr<tensor::Graph> graph = tensor::parse_graph(repro.model);
  const Machine machine = machine_of(repro.device.empty() ? "cpu" : repro.device, repro.emit);
  if (repro.kind == Repro::Kind::kSession) {
    std::vector<std::vector<Item>> calls{inputs};
    for (const std::string& text : repro.more_inputs) calls.push_back(parse_inputs(text));
    const compile::Compiled compiled = compile::compile_optimized(*graph, options_for(machine));
    const auto fault = check_sequence(compiled, calls, machine, options.threads);
    if (!fault) return std::nullopt;
    Finding f;
    f.level = "runtime", f.pass = "session", f.value = fault->output, f.what = fault->what;
    return f;
  }
  Values values;
  const std::vector<Item> outputs = run_reference(*graph, inputs, nullptr, values);
  // A kernel made small may be launched in another version than the call that it is from.
  return check_final(*graph, inputs, values, outputs, {}, {options.threads, machine, repro.version});
}

}  // namespace stax::bisect
