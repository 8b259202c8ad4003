// SPDX-License-Identifier: Apache-2.0
#include "bisect/program_check.h"

#include <algorithm>
#include <thread>

#include "bisect/step_check.h"
#include "bisect/unwatched_run.h"
#include "bisect/watched_run.h"
#include "compile/kernel_stages.h"
#include "program/steps.h"
#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::bisect {

using namespace program;
using tensor::Item;
using tensor::Op;

namespace {

/// A program that cannot even be made: the kernel that cannot, or the step that says so.
ProgramFault building_fault(const tensor::Graph& graph, const std::string& message, const Machine& machine) {
  ProgramFault fault;
  fault.level = "program";
  fault.pass = message.substr(0, message.find(':'));
  fault.what = message;
  const bool emits = fault.pass.starts_with("emit_");
  tensor::for_each_op(graph.body, [&](const Op& op) {
    if (!fault.kernel.empty() || !compile::is_kernel(op)) return;
    if (std::optional<KernelFault> k = check_building(op, machine, emits)) {
      fault.level = k->level, fault.pass = k->stage, fault.detail = k->detail, fault.what = k->what;
      fault.schedule = k->schedule, fault.source = op.source, fault.value = describe(*op.result());
      fault.kernel = "of " + fault.value;
    }
  });
  return fault;
}

/// Launches nothing but that version, where a launch has it.
void only_version(Program& program, uint32_t version) {
  for (BlockSpec& block : program.blocks)
    for (Step& step : block.steps) {
      auto* launch = std::get_if<LaunchStep>(&step);
      if (!launch) continue;
      for (LaunchVersion v : launch->versions) {
        if (program.kernels[v.kernel].version != version) continue;
        // Where it may not be launched, the last one is.
        v.guard = v.necessary;
        const LaunchVersion last = launch->versions.back();
        launch->versions = {v};
        if (v.guard != kNone) launch->versions.push_back(last);
        break;
      }
    }
}

bool has_loops(const Program& program) {
  return std::any_of(program.blocks.begin(), program.blocks.end(), [](const BlockSpec& block) {
    return std::any_of(block.steps.begin(), block.steps.end(),
                       [](const Step& step) { return std::holds_alternative<LoopStep>(step); });
  });
}

class Attribution {
 public:
  Attribution(const compile::Compiled& compiled, const std::vector<Item>& inputs, const Values& want,
              const std::vector<Item>& outputs, const Machine& machine, int threads, bool is_alone)
      : c_(compiled), p_(*compiled.program), inputs_(inputs), want_(want), outputs_(outputs), is_alone_(is_alone) {
    options_.threads = threads;
    options_.machine = machine;
  }

  std::optional<ProgramFault> run() {
    if (auto fault = mixed_up()) return fault;
    Sighting s = watched(options_).sighting;
    if (s.seen == Seen::kNothing) {
      if (auto fault = unwatched()) return fault;
      return is_alone_ ? kernels_alone() : std::nullopt;
    }
    if (s.seen == Seen::kChanged) {  // by whom?
      WatchOptions strict = options_;
      strict.strict = true;
      if (Sighting again = watched(strict).sighting; again.seen != Seen::kNothing) s = again;
    }
    ProgramFault fault;
    fault.what = s.what;
    // The interpreter takes the same inputs.
    if (s.seen == Seen::kBinding || (s.seen == Seen::kThrows && s.number == 0)) {
      fault.level = "runtime";
      const bool is_step = s.number > 0 && std::holds_alternative<BindStep>(p_.blocks[s.block].steps[s.step]);
      fault.pass = is_step ? name_of(p_.blocks[s.block].steps[s.step]) : "bind_inputs";
      return fault;
    }
    const Step& step = p_.blocks[s.block].steps[s.step];
    const Op& op = *c_.origin.ops[s.block][s.step];
    fault.source = op.source;
    if (s.seen != Seen::kOutput && s.seen != Seen::kThrows && s.seen != Seen::kCrashes)
      fault.value = describe(*c_.origin.values[s.value]), fault.id = c_.origin.values[s.value]->id;
    else if (!op.results.empty())
      fault.value = describe(*op.result()), fault.id = op.result()->id;
    const bool is_launch = std::holds_alternative<LaunchStep>(step);
    if (is_launch) {
      const KernelSpec& k = p_.kernels[s.kernel];
      fault.kernel = k.name;
      fault.version = k.version;
    }
    if (s.seen == Seen::kOverlap || s.seen == Seen::kBounds) {
      fault.level = "program", fault.pass = "plan_memory";
      return fault;
    }
    if (s.seen == Seen::kPlace) {
      fault.level = "runtime", fault.pass = "executor", fault.detail = "places of results";
      return fault;
    }
    WatchOptions stop = options_;
    stop.stop_at = s.number;
    const Watched at = watched(stop);
    if (at.sighting.seen == Seen::kEvaluator) {
      fault.level = "runtime", fault.pass = "evaluator", fault.detail = at.sighting.what;
      return fault;
    }
    if (is_launch && kernel_fault(fault, op, s, at)) return fault;
    if (is_launch && at.operands.size() == op.operands.size() && !at.symbols.empty())
      fault.around = KernelCall{&op, at.operands, bindings_of(c_, at.symbols)};
    if (is_launch)
      if (std::string wrong = launch_fault(std::get<LaunchStep>(step), op, s, at); !wrong.empty()) {
        fault.level = "program", fault.pass = "build_program", fault.detail = wrong;
        fault.is_of_step = true;
        return fault;
      }
    if (s.seen == Seen::kExtents) {
      fault.level = "program", fault.pass = "build_program", fault.detail = "extents of values";
      fault.is_of_step = true;
      return fault;
    }
    fault.level = "runtime";
    fault.pass = std::string(name_of(step));
    if (options_.threads > 1 && !options_.machine.is_gpu()) {
      WatchOptions single = options_;
      single.threads = 1;
      if (watched(single).sighting.seen == Seen::kNothing)
        fault.pass = "thread_pool", fault.detail = "right with one thread";
    }
    fault.is_of_step = fault.pass != "thread_pool";
    return fault;
  }

 private:
  std::optional<ProgramFault> unwatched() const {
    const auto found = check_unwatched(c_, inputs_, options_.machine, options_.threads);
    if (!found) return std::nullopt;
    ProgramFault fault;
    fault.level = found->level, fault.pass = found->pass, fault.detail = found->detail;
    fault.value = found->output.empty() ? "" : "output '" + found->output + "'";
    fault.what = found->what;
    return fault;
  }
  Watched watched(const WatchOptions& options) const { return watch(c_, inputs_, want_, outputs_, options); }

  /// What the program is made of, without running it: a result is judged by how far its operands move it, so these have to be those of its op.
  std::optional<ProgramFault> mixed_up() const {
    ProgramFault fault;
    fault.level = "program", fault.pass = "build_program";
    fault.is_of_step = true;
    for (ValueRef v = 0; v < p_.values.size(); ++v) {
      if (fault.detail = constant_fault(c_, v); fault.detail.empty()) continue;
      const tensor::Value& value = *c_.origin.values[v];
      fault.value = describe(value), fault.id = value.id;
      fault.source = value.producer->source;
      fault.what = "its numbers are those of another";
      return fault;
    }
    for (uint32_t b = 0; b < p_.blocks.size(); ++b)
      for (uint32_t s = 0; s < p_.blocks[b].steps.size(); ++s) {
        if (std::holds_alternative<LaunchStep>(p_.blocks[b].steps[s])) continue;
        if (fault.detail = step_fault(c_, b, s); fault.detail.empty()) continue;
        const Op& op = *c_.origin.ops[b][s];
        if (!op.results.empty()) fault.value = describe(*op.result()), fault.id = op.result()->id;
        fault.source = op.source;
        fault.what = "its step is of other values than its op";
        return fault;
      }
    return std::nullopt;
  }

  /// Each kernel by itself: what reads outside of its operands may find what does no harm there, and is wrong where nothing is.
  std::optional<ProgramFault> kernels_alone() const {
    WatchOptions stop = options_;
    for (stop.stop_at = 1;; ++stop.stop_at) {
      const Watched at = watched(stop);
      const Sighting& s = at.sighting;
      if (s.seen != Seen::kNothing || s.number != stop.stop_at) return std::nullopt;
      const Op& op = *c_.origin.ops[s.block][s.step];
      if (!std::holds_alternative<LaunchStep>(p_.blocks[s.block].steps[s.step])) continue;
      ProgramFault fault;
      if (!kernel_fault(fault, op, s, at)) continue;
      fault.kernel = p_.kernels[s.kernel].name, fault.version = p_.kernels[s.kernel].version;
      fault.value = describe(*op.result()), fault.id = op.result()->id;
      fault.source = op.source;
      return fault;
    }
  }

  /// The kernel by itself.
  bool kernel_fault(ProgramFault& fault, const Op& op, const Sighting& s, const Watched& at) const {
    if (at.operands.size() != op.operands.size() || at.symbols.empty()) return false;
    KernelCall call{&op, at.operands, bindings_of(c_, at.symbols)};
    try {
      evaluate(call);
    } catch (const std::exception&) {  // what the step reads is wrong already
      return false;
    }
    // A phase may be right of what one before it made wrong.
    const uint32_t phase = c_.origin.phases[s.block][s.step];
    for (uint32_t before = 1; before < phase; ++before)
      for (uint32_t version = 0, count = 1; version < count; ++version) {
        const KernelChain chain(op, version, options_.machine, before);
        if (fault_of(fault, chain, call)) return true;
        count = chain.versions();
      }
    return fault_of(fault, KernelChain(op, p_.kernels[s.kernel].version, options_.machine, phase), std::move(call));
  }
  bool fault_of(ProgramFault& fault, const KernelChain& chain, KernelCall call) const {
    const bool differs = chain.differs(call);
    if (differs) {
      call = shrink(std::move(call), [&](const KernelCall& c) { return chain.differs(c); });
      fault.data =
          draw_large(large_tensors(call.operands, "operand"), [&](const auto&) { return chain.differs(call); });
    }
    // A kernel that is right in the end may be so by luck; one that is wrong has a first stage that is.
    std::optional<KernelFault> k = chain.check(call);
    if (!k) return false;
    fault.level = k->level, fault.pass = k->stage, fault.detail = k->detail;
    fault.what = k->what;
    fault.schedule = k->schedule;
    fault.call = std::move(call);
    return true;
  }

  /// What the program gives to a launch that is not what its op says; empty if there is nothing.
  std::string launch_fault(const LaunchStep& step, const Op& op, const Sighting& s, const Watched& at) const {
    const std::vector<int64_t>& symbols = at.symbols;
    if (symbols.empty()) return {};
    const uint32_t kernel = s.kernel;
    const tensor::Bindings bindings = bindings_of(c_, symbols);
    std::vector<int64_t> values(p_.exprs.nodes().size());
    p_.exprs.evaluate(0, values.size(), symbols, values);
    const lower::LoweredKernel lowered =
        compile::lower_step(op, c_.origin.phases[s.block][s.step], options_.machine.row());
    std::string wrong;
    std::unordered_map<const symbolic::ExprNode*, int64_t> params;
    const loop::Kernel& k = c_.kernels[kernel];
    auto expect = [&](const std::string& what, int64_t got, int64_t want) {
      if (wrong.empty() && got != want) wrong = fmt::format("{} of the launch is {} instead of {}", what, got, want);
    };
    for (size_t j = 0; j < lowered.param_values.size(); ++j) {
      const int64_t want = symbolic::evaluate(lowered.param_values[j], bindings);
      params[k.params[j].node()] = want;
      expect("parameter " + k.params[j].str(), values[step.params[j]], want);
    }
    const bool is_empty = symbolic::evaluate(lowered.written, bindings) <= 0;
    expect("whether there is nothing to do", values[step.empty_if_zero] <= 0, is_empty);
    for (const LaunchVersion& v : step.versions) {
      if (v.kernel != kernel) continue;
      if (options_.machine.is_gpu()) {
        const thread::Kernel& threads = c_.thread_kernels[kernel];
        for (size_t axis = 0; axis < 3; ++axis)
          expect(fmt::format("extent {} of the grid", axis), values[v.grid[axis]],
                 symbolic::evaluate(threads.grid[axis], params));
        expect("the number of threads of a block", values[v.block], threads.block);
        expect("the shared memory", values[v.shared_bytes],
               symbolic::evaluate(thread::dynamic_shared_bytes(threads), params));
        for (size_t j = 0; j < threads.divisors.size(); ++j)
          expect("the divisor " + threads.divisors[j].value.str(), values[v.divisors[j]],
                 symbolic::evaluate(threads.divisors[j].value, params));
        continue;
      }
      int64_t iterations = 1;
      if (const auto* f = k.body->as<loop::For>(); f && f->kind == loop::LoopKind::kParallel)
        iterations = symbolic::evaluate(f->extent, params);
      expect("the number of iterations", values[v.iterations], iterations);
      expect("the scratch memory", values[v.scratch_bytes], symbolic::evaluate(emit::scratch_bytes(k), params));
    }
    for (size_t j = 0; j < lowered.arguments.size(); ++j) {
      const int argument = lowered.arguments[j];
      if (argument < 0 && static_cast<size_t>(~argument) >= op.results.size()) continue;  // between its phases
      const tensor::Value* want = argument >= 0 ? op.operands[static_cast<size_t>(argument)] : op.result(~argument);
      if (wrong.empty() && c_.origin.values[step.arguments[j]] != want)
        wrong = fmt::format("argument {} of the launch is {} instead of {}", j,
                            describe(*c_.origin.values[step.arguments[j]]), describe(*want));
    }
    if (!wrong.empty() || at.operands.size() != op.operands.size()) return wrong;
    const KernelCall call{&op, at.operands, bindings};
    const KernelChain chain(op, p_.kernels[kernel].version, options_.machine, c_.origin.phases[s.block][s.step]);
    if (!chain.may_be_launched(call)) return "the guard holds where the version is wrong";
    if (const std::string other = chain.difference_of(k, call); !other.empty())
      return fmt::format("the launch is of a kernel of another op, {}: {}", k.name, other);
    return {};
  }

  const compile::Compiled& c_;
  const Program& p_;
  const std::vector<Item>& inputs_;
  const Values& want_;
  const std::vector<Item>& outputs_;
  WatchOptions options_;
  bool is_alone_;  // the graph is the repro of a kernel
};

}  // namespace

std::optional<ProgramFault> check_program(tensor::Graph& graph, const std::vector<Item>& inputs, const Values& want,
                                          const std::vector<Item>& outputs, const ProgramOptions& o) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  compile::CompileOptions options;
  options.target = o.machine.target;
  options.format = o.machine.format();
  if (!o.machine.is_gpu()) options.isas = {emit::host_isa()};
  options.threads = cores;
  compile::Compiled compiled;
  try {
    compiled = compile::compile_optimized(graph, options);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return building_fault(graph, e.what(), o.machine);
  }
  const auto check = [&] {
    if (o.version) only_version(*compiled.program, *o.version);
    return Attribution(compiled, inputs, want, outputs, o.machine, o.threads > 0 ? o.threads : cores,
                       o.version.has_value())
        .run();
  };
  std::optional<ProgramFault> fault = check();
  // What a pass over the program has made of a step looks like what the program was built with.
  if (fault && fault->is_of_step && has_loops(*compiled.program)) {
    options.side_by_side = false;
    compiled = compile::compile_optimized(graph, options);
    if (const auto without = check(); !without || without->pass != fault->pass) {
      fault->level = "program", fault->pass = "place_loops_side_by_side", fault->detail = "right without it";
      fault->kernel.clear(), fault->version.reset(), fault->around.reset();
    }
  }
  return fault;
}

}  // namespace stax::bisect
