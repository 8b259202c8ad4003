// SPDX-License-Identifier: Apache-2.0
#include "bisect/kernel_chain.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "bisect/gpu_kernel.h"
#include "bisect/isolated.h"
#include "bisect/native_kernel.h"
#include "compile/kernel_stages.h"
#include "compile/pass.h"
#include "emit/emit.h"
#include "emit/emit_gpu.h"
#include "ir/math_table.h"
#include "loop/transform.h"
#include "lower/loop_to_thread.h"
#include "schedule/schedule.h"
#include "support/error.h"
#include "symbolic/evaluate.h"
#include "thread/passes.h"

namespace stax::bisect {

using tensor::Item;
using tensor::Literal;
using tensor::Op;

namespace {

// What a stage may take. The interpreter of a level may be too slow for a large kernel: then that stage is skipped.
constexpr int kStageSeconds = 8, kGpuStageSeconds = 60;

// Of the arguments of GPUs' kernels, which are read as vectors.
constexpr size_t kGpuAlignment = 16;

/// One point of the way.
struct Stage {
  std::string level, name, detail;
  std::shared_ptr<const loop::Kernel> kernel;
  std::function<void(std::span<void* const> buffers, std::span<const int64_t> params)> run;
};

/// Kernel and stages so far. Levels append to it.
struct Way {
  const Op& op;
  uint32_t version;
  Machine machine;
  uint32_t phase = 0;
  lower::LoweredKernel lowered = {};
  uint32_t versions = 0;
  std::string schedule = {};
  symbolic::Expr necessary = {};  // over the parameters: where the version may be launched; null: everywhere
  std::optional<compile::GpuKernelVersion> gpu = {};
  std::vector<Stage> stages = {};
  loop::Kernel current = {};    // what the next stage starts from
  thread::Kernel threads = {};  // of GPUs, behind the passes over loop IR
  Stage making = {};            // the stage that is being made
  Beginning beginning = {};

  void begin(Stage stage) {
    making = std::move(stage);
    if (beginning) beginning({making.level, making.name, making.detail, {}, schedule});
  }

  /// The stage that follows, made by `make`.
  void add(std::string level, std::string name, std::string detail, const std::function<loop::Kernel()>& make) {
    begin({std::move(level), std::move(name), std::move(detail), {}, {}});
    current = make();
    auto kept = std::make_shared<const loop::Kernel>(current);
    making.kernel = kept;
    making.run = [kept](std::span<void* const> buffers, std::span<const int64_t> params) {
      loop::interpret(*kept, buffers, params);
    };
    stages.push_back(making);
  }
};

// ---- the levels

void lower_level(Way& way) {
  const char* name = "";
  switch (way.op.kind()) {
    case tensor::OpKind::kCompute: name = "lower_compute"; break;
    case tensor::OpKind::kRowGroup: name = "lower_row_group"; break;
    case tensor::OpKind::kScatter: name = "lower_scatter"; break;
    default: name = "lower_prefix_scan"; break;
  }
  way.add("loop", name, "the naive nest", [&] {
    way.lowered = compile::lower_step(way.op, way.phase, way.machine.row());
    loop::verify(way.lowered.kernel);
    return way.lowered.kernel;
  });
}

/// Which schedule the version has.
void choose(Way& way) {
  way.begin({"loop", "choose_versions", {}, {}, {}});
  const loop::Kernel& naive = way.lowered.kernel;
  auto pick = [&](size_t count) {
    way.versions = static_cast<uint32_t>(count);
    return way.version = std::min<uint32_t>(way.version, way.versions - 1);
  };
  if (way.machine.is_gpu()) {
    auto versions = compile::gpu_kernel_versions(naive, way.machine.row());
    way.gpu = versions[pick(versions.size())];
    way.schedule = way.gpu->version.schedule;
    way.necessary = way.gpu->necessary;
    // A version has a kernel of its own: what is known of its parameters is said of their symbols.
    const loop::Kernel fresh = compile::lower_step(way.op, way.phase, way.machine.row()).kernel;
    way.current = schedule::with_known(fresh, way.gpu->version.known);
  } else {
    auto versions = schedule::choose_versions(naive, [&] { return compile::lower_op(way.op).kernel; });
    way.schedule = versions[pick(versions.size())].schedule;
  }
}

void schedule_level(Way& way) {
  if (!way.machine.is_gpu() && compile::is_disabled("schedule")) return;
  choose(way);
  const loop::Kernel start = way.current;
  for (const loop::Step& step : loop::parse_schedule(way.schedule))
    way.add("loop", step.verb, "schedule step `" + step.str() + "`", [&] { return loop::apply(way.current, step); });
  // All at once, as the compiler does it.
  way.begin({"loop", "apply_schedule", way.schedule, {}, {}});
  loop::Kernel whole = loop::apply_schedule(start, way.schedule);
  if (loop::print(whole, true) != loop::print(way.current, true))
    way.add("loop", "apply_schedule", way.schedule, [&] { return whole; });
  way.current = std::move(whole);  // with what the compiler knows of its schedule
}

void loop_pass_level(Way& way) {
  for (const compile::LoopPass& p : compile::loop_passes())
    if (!compile::is_disabled(p.name))
      way.add("loop", p.name, "a pass over loop IR", [&] { return p.pass(way.current); });
  loop::verify(way.current);
}

void native_level(Way& way) {
  if (way.machine.is_gpu()) return;
  const std::string isa(emit::name_of(emit::host_isa()));
  way.begin({"native", "emit_native", isa, {}, {}});
  auto native = std::make_shared<NativeKernel>(way.current);
  auto kernel = std::make_shared<const loop::Kernel>(way.current);
  for (const int threads : {1, 2})
    way.stages.push_back({"native", "emit_native", threads == 1 ? isa : isa + ", in pieces", kernel,
                          [native, threads](std::span<void* const> buffers, std::span<const int64_t> params) {
                            native->run(buffers, params, threads);
                          }});
}

/// Until barriers are in, threads may only be right in lockstep, which is how the interpreter goes; races are looked for behind them.
void thread_level(Way& way) {
  if (!way.machine.is_gpu()) return;
  const compile::GpuKernelVersion& v = *way.gpu;
  auto kernel = std::make_shared<const loop::Kernel>(way.current);
  bool has_barriers = false;
  auto add = [&](const char* name, const char* detail, const std::function<thread::Kernel()>& make) {
    way.begin({"thread", name, detail, kernel, {}});
    way.threads = make();
    has_barriers = has_barriers || way.making.name == "insert_barriers";
    way.making.run = [threads = std::make_shared<const GpuKernel>(way.threads), has_barriers](
                         auto buffers, auto params) { threads->interpret(buffers, params, has_barriers); };
    way.stages.push_back(way.making);
  };
  add("lower_to_thread", "loops over threads", [&] {
    thread::Kernel threads = lower::lower_to_structured(way.current, way.machine.row(), v.version.block, v.index_bits,
                                                        v.version.rows_in_global);
    threads.name = "stax_kernel";
    threads.flush_denormals = compile::may_flush_denormals(way.current);
    return threads;
  });
  for (const thread::Pass& p : thread::passes(v.index_bits))
    add(p.name, "a pass over thread IR", [&] { return p.pass(way.threads); });
  thread::verify(way.threads, thread::Stage::kFinal);
}

void device_level(Way& way) {
  if (!way.machine.is_gpu()) return;
  const ir::CodeFormat format = way.machine.format();
  const bool is_sim = format == ir::CodeFormat::kThread;
  way.begin({"device",
             is_sim ? "parse_kernel" : "emit_gpu",
             std::string(ir::name_of(format)),
             std::make_shared<const loop::Kernel>(way.current),
             {}});
  way.making.run = [kernel = std::make_shared<const GpuKernel>(way.threads), machine = way.machine,
                    code = is_sim ? std::string() : emit::emit_gpu(way.threads, format, way.machine.row())](
                       auto buffers, auto params) { kernel->run_on(machine, code, buffers, params); };
  way.stages.push_back(way.making);
}

/// In the order of the way; a level that a machine does not have adds nothing. A further IR, or a device, is a row.
constexpr void (*kLevels[])(Way&) = {lower_level,  schedule_level, loop_pass_level,
                                     native_level, thread_level,   device_level};

/// The naive nest with all axes as the op has them; null where the op has none that are merged, or not even that can be made.
std::unique_ptr<lower::LoweredKernel> lowered_apart(const Way& way) {
  if (way.phase > 0 || (way.op.kind() != tensor::OpKind::kCompute && way.op.kind() != tensor::OpKind::kRowGroup))
    return nullptr;
  try {
    auto apart = std::make_unique<lower::LoweredKernel>(compile::lower_op(way.op, lower::Axes::kApart));
    loop::verify(apart->kernel);
    return apart;
  } catch (const InternalError&) {
    return nullptr;
  }
}

void blame_merged_axes(KernelFault& fault) {
  fault.stage = "collapse_axes", fault.detail = "right where axes are not merged";
}

/// Why a stage could not be made: the first kernel on the way to it that breaks a rule, which only the last is asked for, or itself.
KernelFault making_fault(const Way& way, const std::string& message) {
  for (const Stage& stage : way.stages) {
    if (stage.level != "loop") break;
    try {
      loop::verify(*stage.kernel);
    } catch (const InternalError& e) {
      return {stage.level, stage.name, stage.detail, e.what(), way.schedule};
    }
  }
  KernelFault fault{way.making.level, way.making.name, way.making.detail, message, way.schedule};
  if (way.stages.empty() && lowered_apart(way)) blame_merged_axes(fault);
  return fault;
}

/// The stages of a version; where one cannot be made, those before it and why.
struct Built {
  std::unique_ptr<Way> way;
  std::optional<KernelFault> fault;
};
Built build(const Op& op, uint32_t version, const Machine& machine, uint32_t phase, bool emits = true,
            const Beginning& beginning = {}) {
  Built built{std::make_unique<Way>(Way{op, version, machine, phase}), {}};
  Way& way = *built.way;
  way.beginning = beginning;
  for (auto level : kLevels) {
    if (!emits && (level == native_level || level == device_level)) continue;
    try {
      level(way);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      built.fault = making_fault(way, e.what());
      break;
    }
  }
  return built;
}

// ---- running a stage

std::vector<int64_t> params_of(const Way& way, const KernelCall& call) {
  std::vector<int64_t> params;
  for (symbolic::Expr e : way.lowered.param_values) params.push_back(symbolic::evaluate(e, call.bindings));
  return params;
}

struct Call {
  const KernelCall& call;
  std::vector<Item> want;
  std::vector<int64_t> params;
  int seconds;

  Call(const KernelCall& c, const Way& way)
      : call(c),
        want(evaluate(c)),
        params(params_of(way, c)),
        seconds(way.machine.is_gpu() ? kGpuStageSeconds : kStageSeconds) {
    if (way.phase > 0) add_partials(way);
  }
  Call(const Call&) = delete;

  /// Result k again, moved a little. All stages are compared with the same draws.
  Again again(size_t k) const {
    if (k >= call.op->results.size()) return {};
    return {[this, k](Draw draw) -> std::optional<Item> {
      auto [at, fresh] = moved.try_emplace({draw.number, draw.scale});
      if (fresh) {
        std::vector<const Item*> operands;
        for (const Item& item : call.operands) operands.push_back(&item);
        at->second = evaluate_moved(*call.op, operands, call.bindings, draw);
      }
      return at->second ? std::optional((*at->second)[k]) : std::nullopt;
    }};
  }

 private:
  /// Behind the op's results, what is between its phases: as the naive nests give it.
  void add_partials(const Way& way) {
    const auto phases = compile::op_phases(*call.op, compile::lower_op(*call.op), way.machine.row());
    for (const compile::Partial& partial : phases->partials) {
      std::vector<int64_t> extents;
      for (symbolic::Expr e : partial.extents) extents.push_back(symbolic::evaluate(e, call.bindings));
      want.emplace_back().tensor = Literal(partial.dtype, std::move(extents));
    }
    std::vector<Item> operands = call.operands, made = want;
    for (const lower::LoweredKernel& k : phases->kernels) {
      std::vector<void*> buffers;
      for (const int a : k.arguments)
        buffers.push_back(a >= 0 ? operands[static_cast<size_t>(a)].tensor.data()
                                 : made[static_cast<size_t>(~a)].tensor.data());
      loop::interpret(k.kernel, buffers, params);
    }
    for (size_t k = call.op->results.size(); k < want.size(); ++k) want[k] = made[k];
  }

  mutable std::map<std::pair<uint64_t, double>, std::optional<std::vector<Item>>> moved;
};

/// What the stage says that is not the wanted values, of the first result that differs; empty: it is right. "?": not known.
std::string run_stage(const Stage& stage, const Way& way, const Call& call) {
  size_t bytes = 1;
  std::vector<size_t> starts;  // of each result
  for (const Item& want : call.want) {
    starts.push_back(bytes);
    bytes += want.tensor.bytes();
  }
  const SharedMemory results(bytes), outside(sizeof(int));
  auto result_of = [](int argument) { return static_cast<size_t>(~argument); };
  const std::string end = run_isolated(
      [&] {
        std::vector<std::unique_ptr<GuardedMemory>> memory;
        std::vector<void*> buffers;
        const std::vector<loop::Buffer>& arguments = way.lowered.kernel.buffers;
        for (size_t k = 0; k < way.lowered.arguments.size(); ++k) {
          const int argument = way.lowered.arguments[k];
          const Literal& data = argument >= 0 ? call.call.operands[static_cast<size_t>(argument)].tensor
                                              : call.want[result_of(argument)].tensor;
          memory.push_back(std::make_unique<GuardedMemory>(data.bytes(), ir::is_float(data.dtype()) ? 0xFF : 0xA5,
                                                           way.machine.is_gpu() ? kGpuAlignment : 1));
          buffers.push_back(memory.back()->data());
          const bool in_place = argument < 0 && way.op.kind() == tensor::OpKind::kScatter;
          const Literal* from = in_place ? &call.call.operands[0].tensor : !arguments[k].written ? &data : nullptr;
          if (from && from->bytes() > 0) std::memcpy(buffers.back(), from->data(), from->bytes());
        }
        stage.run(buffers, call.params);
        for (size_t k = 0; k < memory.size(); ++k) {
          const int argument = way.lowered.arguments[k];
          bool changed = !memory[k]->intact();
          if (!arguments[k].written) {
            const Literal& data = argument >= 0 ? call.call.operands[static_cast<size_t>(argument)].tensor
                                                : call.want[result_of(argument)].tensor;
            changed = changed || (data.bytes() > 0 && std::memcmp(data.data(), memory[k]->data(), data.bytes()) != 0);
          } else if (memory[k]->bytes() > 0) {
            std::memcpy(results.as<char>() + starts[result_of(argument)], memory[k]->data(), memory[k]->bytes());
          }
          if (changed) *outside.as<int>() = 1;
        }
      },
      call.seconds);
  if (end.starts_with("it does not end")) return "?" + end;
  if (!end.empty()) return end;
  if (*outside.as<int>()) return "it writes outside of its result";
  for (size_t a = 0; a < way.lowered.arguments.size(); ++a) {
    if (!way.lowered.kernel.buffers[a].written) continue;
    const size_t k = result_of(way.lowered.arguments[a]);
    const Literal& want = call.want[k].tensor;
    Item got;
    got.tensor = Literal(want.dtype(), want.extents());
    if (want.bytes() > 0) std::memcpy(got.tensor.data(), results.as<char>() + starts[k], want.bytes());
    if (auto d = compare(got, call.want[k], call.again(k), rounding_of(way.op, call.call.bindings)))
      return call.want.size() == 1 ? d->text() : fmt::format("result {}: {}", k, d->text());
  }
  return {};
}

bool may_be_launched(const Way& way, const KernelCall& call) {
  if (!way.necessary) return true;
  const std::vector<int64_t> params = params_of(way, call);
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;
  for (size_t k = 0; k < params.size(); ++k) values[way.lowered.kernel.params[k].node()] = params[k];
  return symbolic::evaluate(way.necessary, values) != 0;
}

/// Whether the naive nest is right where its axes are not merged.
bool is_right_apart(const Way& way, const KernelCall& call) {
  const std::unique_ptr<lower::LoweredKernel> lowered = lowered_apart(way);
  if (!lowered) return false;
  Way apart{way.op, way.version, way.machine};
  apart.lowered = std::move(*lowered);
  const auto kernel = std::make_shared<const loop::Kernel>(apart.lowered.kernel);
  const Stage stage{
      "loop", "collapse_axes", {}, kernel, [kernel](std::span<void* const> b, std::span<const int64_t> p) {
        loop::interpret(*kernel, b, p);
      }};
  return run_stage(stage, apart, Call(call, apart)).empty();
}

/// Whether the version may be launched for the call, and does anything.
bool is_launched(const Way& way, const KernelCall& call) {
  return symbolic::evaluate(way.lowered.written, call.bindings) > 0 && may_be_launched(way, call);
}

/// The elementary function of the kernel whose table is wrong at one of some arguments, or none.
std::string wrong_function(const loop::Kernel& kernel) {
  std::string wrong;
  loop::visit(kernel.body, [&](const loop::Stmt& s) {
    auto look = [&](ir::Scalar root) {
      ir::visit(root, [&](ir::Scalar x) {
        if (x->kind != ir::ScalarKind::kOp || !ir::is_math_function(x->op) || !wrong.empty()) return;
        if (x->args.size() != 1 || (x->dtype != ir::DType::kF32 && x->dtype != ir::DType::kF64)) return;
        const ir::MathFunction& f = ir::math_function(x->op, x->dtype);
        for (int step = -320; step <= 320 && wrong.empty(); ++step) {
          const double at = step / 16.0;
          double got = 0;
          if (x->dtype == ir::DType::kF32) {
            const float in = static_cast<float>(at);
            float out = 0;
            ir::evaluate(f, std::span(&in, 1), {}, std::span(&out, 1));
            got = out;
          } else {
            ir::evaluate(f, std::span<const double>(&at, 1), {}, std::span(&got, 1));
          }
          const double want = ir::evaluate_scalar_op(x->op, x->dtype, std::vector<ir::Value64>{{.f = at}}).f;
          const double unit = x->dtype == ir::DType::kF32 ? 0x1p-20 : 0x1p-48;
          if (std::isfinite(want) && !(std::fabs(got - want) <= unit * std::fabs(want) + unit * unit))
            wrong = fmt::format("{} of {} in the table of elementary functions is {} instead of {}", ir::name_of(x->op),
                                at, got, want);
        }
      });
    };
    if (const auto* store = s->as<loop::Store>()) look(store->value);
    if (const auto* update = s->as<loop::Update>()) look(update->value);
    if (const auto* branch = s->as<loop::If>()) look(branch->condition);
  });
  return wrong;
}

}  // namespace

std::vector<Item> evaluate(const KernelCall& call) {
  std::vector<const Item*> operands;
  for (const Item& item : call.operands) operands.push_back(&item);
  tensor::Bindings bindings = call.bindings;
  return tensor::evaluate_op(*call.op, operands, bindings);
}

struct KernelChain::Impl {
  Built built;
};

KernelChain::KernelChain(const Op& op, uint32_t version, const Machine& machine, uint32_t phase)
    : impl_(new Impl{build(op, version, machine, phase)}) {}
KernelChain::~KernelChain() = default;

uint32_t KernelChain::versions() const { return impl_->built.way->versions; }

bool KernelChain::may_be_launched(const KernelCall& call) const {
  return bisect::may_be_launched(*impl_->built.way, call);
}

std::string KernelChain::difference_of(const loop::Kernel& kernel, const KernelCall& call) const {
  const Way& way = *impl_->built.way;
  const std::vector<loop::Buffer>& want = way.lowered.kernel.buffers;
  if (kernel.params.size() != way.lowered.kernel.params.size() || kernel.arguments != way.lowered.kernel.arguments)
    return "it has other parameters";
  for (size_t k = 0; k < way.lowered.arguments.size(); ++k)
    if (kernel.buffers[k].dtype != want[k].dtype || kernel.buffers[k].written != want[k].written)
      return "it has other buffers";
  const Stage stage{"loop", "launch", {}, {}, [&](std::span<void* const> buffers, std::span<const int64_t> params) {
                      loop::interpret(kernel, buffers, params);
                    }};
  const std::string what = run_stage(stage, way, Call(call, way));
  return what.starts_with('?') ? std::string() : what;
}

std::optional<KernelFault> KernelChain::check(const KernelCall& call) const {
  const Way& way = *impl_->built.way;
  if (way.stages.empty()) return impl_->built.fault;
  if (!is_launched(way, call)) return std::nullopt;
  const Call prepared(call, way);
  for (const Stage& stage : way.stages) {
    std::string what = run_stage(stage, way, prepared);
    if (what.empty() || what[0] == '?') continue;
    KernelFault fault{stage.level, stage.name, stage.detail, what, way.schedule};
    if (stage.level == "loop" && !way.machine.is_gpu()) {
      // Where native code of the same nest is right, the nest is.
      const NativeKernel native(*stage.kernel);
      Stage other = stage;
      other.run = [&](std::span<void* const> b, std::span<const int64_t> p) { native.run(b, p); };
      if (run_stage(other, way, prepared).empty()) fault.stage = "interpret", fault.detail = "the loop interpreter";
    } else if (stage.name == "emit_native") {
      if (std::string function = wrong_function(*stage.kernel); !function.empty())
        fault.stage = "math_table", fault.detail = function;
    }
    if (stage.name == fault.stage && &stage == &way.stages[0] && is_right_apart(way, call)) blame_merged_axes(fault);
    return fault;
  }
  return impl_->built.fault;
}

bool KernelChain::differs(const KernelCall& call) const {
  const Way& way = *impl_->built.way;
  if (way.stages.empty()) return false;
  try {
    if (!is_launched(way, call)) return false;
    const Call prepared(call, way);
    return std::any_of(way.stages.begin(), way.stages.end(), [&](const Stage& stage) {
      if (stage.level != way.stages.back().level) return false;
      const std::string what = run_stage(stage, way, prepared);
      return !what.empty() && what[0] != '?';
    });
  } catch (const UserError&) {  // indices out of range, extents below 0
    return false;
  } catch (const InternalError&) {  // extents that do not belong together
    return false;
  }
}

std::optional<KernelFault> check_building(const Op& op, const Machine& machine, bool emits,
                                          const Beginning& beginning) {
  const auto in_phase = [&](uint32_t phase) -> std::optional<KernelFault> {
    for (uint32_t version = 0, count = 1; version < count; ++version) {
      Built built = build(op, version, machine, phase, emits, beginning);
      if (built.fault) return built.fault;
      count = built.way->versions;
    }
    return std::nullopt;
  };
  // The whole first: that there are phases at all is known of its nest.
  if (auto fault = in_phase(0)) return fault;
  const auto phases = compile::op_phases(op, compile::lower_op(op), machine.row());
  for (uint32_t phase = 1; phase <= (phases ? phases->kernels.size() : 0); ++phase)
    if (auto fault = in_phase(phase)) return fault;
  return std::nullopt;
}

}  // namespace stax::bisect
