// SPDX-License-Identifier: Apache-2.0
#include "bisect/kernel_chain.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bisect/isolated.h"
#include "bisect/native_kernel.h"
#include "compile/kernel_stages.h"
#include "compile/pass.h"
#include "emit/emit.h"
#include "ir/math_table.h"
#include "loop/transform.h"
#include "schedule/schedule.h"
#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::bisect {

using tensor::Item;
using tensor::Literal;
using tensor::Op;

namespace {

// What a stage may take. The interpreter of a level may be too slow for a large kernel: then that stage is skipped.
constexpr int kStageSeconds = 8;

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
  lower::LoweredKernel lowered;
  schedule::Versions versions;
  std::string schedule;
  std::vector<Stage> stages;
  loop::Kernel current;  // what the next stage starts from

  void add(std::string level, std::string name, std::string detail, loop::Kernel kernel) {
    current = std::move(kernel);
    auto kept = std::make_shared<const loop::Kernel>(current);
    stages.push_back({std::move(level), std::move(name), std::move(detail), kept,
                      [kept](std::span<void* const> buffers, std::span<const int64_t> params) {
                        loop::interpret(*kept, buffers, params);
                      }});
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
  way.lowered = compile::lower_op(way.op);
  way.add("loop", name, "the naive nest", way.lowered.kernel);
  loop::verify(way.current);
}

void schedule_level(Way& way) {
  if (compile::is_disabled("schedule")) return;
  way.versions = schedule::choose_versions(way.lowered.kernel, [&] { return compile::lower_op(way.op).kernel; });
  way.version = std::min<uint32_t>(way.version, static_cast<uint32_t>(way.versions.size()) - 1);
  way.schedule = way.versions[way.version].schedule;
  for (const loop::Step& step : loop::parse_schedule(way.schedule))
    way.add("loop", step.verb, "schedule step `" + step.str() + "`", loop::apply(way.current, step));
  // All at once, as the compiler does it.
  loop::Kernel whole = loop::apply_schedule(way.lowered.kernel, way.schedule);
  if (loop::print(whole, true) != loop::print(way.current, true))
    way.add("loop", "apply_schedule", way.schedule, whole);
}

void loop_pass_level(Way& way) {
  for (const compile::LoopPass& p : compile::loop_passes())
    if (!compile::is_disabled(p.name)) way.add("loop", p.name, "a pass over loop IR", p.pass(way.current));
  loop::verify(way.current);
}

void native_level(Way& way) {
  auto native = std::make_shared<NativeKernel>(way.current);
  auto kernel = std::make_shared<const loop::Kernel>(way.current);
  const std::string isa(emit::name_of(emit::host_isa()));
  for (const int threads : {1, 2})
    way.stages.push_back({"native", "emit_native", threads == 1 ? isa : isa + ", in pieces", kernel,
                          [native, threads](std::span<void* const> buffers, std::span<const int64_t> params) {
                            native->run(buffers, params, threads);
                          }});
}

/// In the order of the way. A further IR, or a device, is a row.
constexpr void (*kLevels[])(Way&) = {lower_level, schedule_level, loop_pass_level, native_level};

/// The stages of a version; where one cannot be made, those before it and why.
struct Built {
  std::unique_ptr<Way> way;
  std::optional<KernelFault> fault;
};
Built build(const Op& op, uint32_t version) {
  Built built{std::make_unique<Way>(Way{op, version, {}, {}, {}, {}, {}}), {}};
  Way& way = *built.way;
  for (auto level : kLevels) {
    const size_t before = way.stages.size();
    try {
      level(way);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      // The stage that was being made is the one behind the last that is there.
      KernelFault fault{"loop", {}, {}, e.what(), way.schedule};
      const size_t made = way.stages.size() - before;
      if (level == lower_level) {
        fault.stage = "lower_compute";
      } else if (level == schedule_level) {
        std::vector<loop::Step> steps;
        if (!way.schedule.empty()) steps = loop::parse_schedule(way.schedule);
        fault.stage = made < steps.size() ? steps[made].verb : "choose_versions";
        if (made < steps.size()) fault.detail = "schedule step `" + steps[made].str() + "`";
      } else if (level == loop_pass_level) {
        const auto passes = compile::loop_passes();
        fault.stage = passes[std::min(made, passes.size() - 1)].name;
      } else {
        fault.level = "native", fault.stage = "emit_native";
      }
      built.fault = std::move(fault);
      break;
    }
  }
  return built;
}

// ---- running a stage

struct Call {
  const KernelCall& call;
  Item want;
  std::vector<int64_t> params;
  Again again;

  Call(const KernelCall& c, const Way& way) : call(c), want(evaluate(c)) {
    for (symbolic::Expr e : way.lowered.param_values) params.push_back(symbolic::evaluate(e, c.bindings));
    again.compute = [this](uint64_t draw) -> std::optional<Item> {
      KernelCall moved = call;
      for (size_t k = 0; k < moved.operands.size(); ++k)
        moved.operands[k] = perturb(call.operands[k], draw * 64 + k, rounding_of(*call.op, call.bindings));
      try {
        return evaluate(moved);
      } catch (const std::exception&) {
        return std::nullopt;
      }
    };
  }
  Call(const Call&) = delete;
};

/// What the stage says that is not the wanted value; empty: it is right. "?": not known.
std::string run_stage(const Stage& stage, const Way& way, const Call& call) {
  const Literal& want = call.want.tensor;
  const SharedMemory result(want.bytes() + 1), outside(sizeof(int));
  const std::string end = run_isolated(
      [&] {
        std::vector<std::unique_ptr<GuardedMemory>> memory;
        std::vector<void*> buffers;
        void* written = nullptr;
        for (const int argument : way.lowered.arguments) {
          const Literal& data = argument >= 0 ? call.call.operands[static_cast<size_t>(argument)].tensor : want;
          memory.push_back(std::make_unique<GuardedMemory>(data.bytes(), ir::is_float(data.dtype()) ? 0xFF : 0xA5));
          buffers.push_back(memory.back()->data());
          const bool in_place = argument < 0 && way.op.kind() == tensor::OpKind::kScatter;
          const Literal* from = in_place ? &call.call.operands[0].tensor : argument >= 0 ? &data : nullptr;
          if (from && from->bytes() > 0) std::memcpy(buffers.back(), from->data(), from->bytes());
          if (argument < 0) written = buffers.back();
        }
        stage.run(buffers, call.params);
        for (size_t k = 0; k < memory.size(); ++k) {
          const int argument = way.lowered.arguments[k];
          bool changed = !memory[k]->intact();
          if (argument >= 0) {
            const Literal& data = call.call.operands[static_cast<size_t>(argument)].tensor;
            changed = changed || (data.bytes() > 0 && std::memcmp(data.data(), memory[k]->data(), data.bytes()) != 0);
          }
          if (changed) *outside.as<int>() = 1;
        }
        std::memcpy(result.as<char>(), written, want.bytes());
      },
      kStageSeconds);
  if (end.starts_with("it does not end")) return "?" + end;
  if (!end.empty()) return end;
  if (*outside.as<int>()) return "it writes outside of its result";
  Item got;
  got.tensor = Literal(want.dtype(), want.extents());
  if (want.bytes() > 0) std::memcpy(got.tensor.data(), result.as<char>(), want.bytes());
  auto d = compare(got, call.want, call.again, rounding_of(way.op, call.call.bindings));
  return d ? d->text() : std::string();
}

bool is_empty(const Way& way, const KernelCall& call) {
  return symbolic::evaluate(way.lowered.written, call.bindings) <= 0;
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
        for (double at = -20; at <= 20 && wrong.empty(); at += 0.0625) {
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

Item evaluate(const KernelCall& call) {
  std::vector<const Item*> operands;
  for (const Item& item : call.operands) operands.push_back(&item);
  tensor::Bindings bindings = call.bindings;
  return tensor::evaluate_op(*call.op, operands, bindings)[0];
}

struct KernelChain::Impl {
  Built built;
};

KernelChain::KernelChain(const Op& op, uint32_t version) : impl_(new Impl{build(op, version)}) {}
KernelChain::~KernelChain() = default;

uint32_t KernelChain::versions() const { return static_cast<uint32_t>(impl_->built.way->versions.size()); }

std::optional<KernelFault> KernelChain::check(const KernelCall& call) const {
  const Way& way = *impl_->built.way;
  if (way.stages.empty()) return impl_->built.fault;
  // Of several results the kernels are looked at as a whole, by the program's check.
  if (is_empty(way, call) || way.op.results.size() != 1) return std::nullopt;
  const Call prepared(call, way);
  for (const Stage& stage : way.stages) {
    std::string what = run_stage(stage, way, prepared);
    if (what.empty() || what[0] == '?') continue;
    KernelFault fault{stage.level, stage.name, stage.detail, what, way.schedule};
    if (stage.level == "loop") {
      // Where native code of the same nest is right, the nest is.
      const NativeKernel native(*stage.kernel);
      Stage other = stage;
      other.run = [&](std::span<void* const> b, std::span<const int64_t> p) { native.run(b, p); };
      if (run_stage(other, way, prepared).empty()) fault.stage = "interpret", fault.detail = "the loop interpreter";
    } else if (stage.name == "emit_native") {
      if (std::string function = wrong_function(*stage.kernel); !function.empty())
        fault.stage = "math_table", fault.detail = function;
    }
    return fault;
  }
  return impl_->built.fault;
}

bool KernelChain::differs(const KernelCall& call) const {
  const Way& way = *impl_->built.way;
  if (way.stages.empty()) return false;
  try {
    if (is_empty(way, call)) return false;
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

std::optional<KernelFault> check_building(const Op& op) {
  for (uint32_t version = 0;; ++version) {
    Built built = build(op, version);
    if (built.fault || version + 1 >= built.way->versions.size()) return built.fault;
  }
}

}  // namespace stax::bisect
