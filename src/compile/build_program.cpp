// SPDX-License-Identifier: Apache-2.0
// Tensor IR -> Program: one or a few steps for each op, kernels shared by text.
//
// Where an expression is evaluated. Each symbol becomes known at one point: at the start of a block, or after the step that defines it. Those
// points are numbered in the order of execution, bodies before what follows them; the symbols of one expression lie on a path of dominance, so
// the expression becomes known at the largest of their numbers.
#include <algorithm>
#include <map>

#include "compile/gpu_kernels.h"
#include "compile/pipeline.h"
#include "loop/transform.h"
#include "schedule/schedule.h"
#include "support/error.h"

namespace stax::compile {
namespace {

using namespace program;  // the data being built
using symbolic::Expr;
using tensor::Op;
using tensor::Value;

class ProgramBuilder {
 public:
  ProgramBuilder(tensor::Graph& graph, const ir::Target& target, int threads)
      : graph_(graph),
        target_(target),
        program_(std::make_shared<Program>()),
        uses_(tensor::count_uses(graph)),
        threads_(threads) {
    program_->target = target.name;
    tensor::for_each_op(std::as_const(graph.body), [&](const Op& op) {
      if (op.kind() == tensor::OpKind::kIf && op.operands[0]->contents) --uses_[op.operands[0]];
    });
  }

  Compiled build() {
    for (const auto& input : graph_.inputs) {
      InputSpec spec;
      spec.name = input.name;
      for (Expr e : input.value->type.extents) {
        DimSpec dim;
        if (e.is_constant())
          dim.constant = e.constant();
        else
          dim.symbol = slot_of(e);
        spec.dims.push_back(dim);
      }
      if (input.value->type.rank && input.value->type.rank.is_symbol())
        spec.rank_symbol = slot_of(input.value->type.rank);
      spec.value = add_value(input.value);
      // Kernels run behind the checks: a dim for which those leave one size is a number in their strides.
      for (Expr& e : input.value->type.extents)
        if (const symbolic::Interval possible = graph_.constraints.range(e); possible.is_constant())
          e = graph_.exprs().constant(possible.lo);
      program_->values[spec.value].storage = Storage::kInput;
      program_->inputs.push_back(std::move(spec));
    }
    // The symbols of input dims are known from the start.
    program_->symbol_points.assign(program_->symbols.size(), 0);
    if (target_.is_gpu) gpu_.emplace(graph_, target_, threads_, [&](const Op& op) { return is_launched(op); });
    build_block(graph_.body);
    for (const auto& output : graph_.outputs) program_->outputs.push_back({output.name, ref(output.value)});
    program_->warnings = graph_.warnings;
    return {program_, std::move(kernels_), std::move(thread_kernels_), std::move(origin_)};
  }

 private:
  uint32_t slot_of(Expr symbol) {
    auto [it, fresh] = slots_.try_emplace(symbol.node(), static_cast<uint32_t>(program_->symbols.size()));
    if (fresh) {
      const auto& info = symbol.symbol();
      program_->symbols.push_back({info.name, info.range.lo, info.range.hi, info.multiple});
      origin_.symbols.push_back(symbol);
    }
    return it->second;
  }
  ExprRef expr(Expr e) {
    return program_->exprs.add(e, [this](Expr s) { return slot_of(s); });
  }
  ExprRef constant(int64_t v) { return expr(graph_.exprs().constant(v)); }

  ValueRef add_value(const Value* v) {
    ValueSpec spec;
    spec.name = v->name;
    spec.dtype = v->type.dtype;
    spec.is_sequence = !v->type.is_tensor();
    for (Expr e : v->type.extents) spec.extents.push_back(expr(e));
    if (v->type.rank) spec.rank = expr(v->type.rank);
    if (v->type.is_tensor()) {
      Expr bytes = graph_.exprs().constant(static_cast<int64_t>(ir::byte_size(v->type.dtype)));
      for (Expr e : v->type.extents) bytes = bytes * e;
      spec.bytes = expr(bytes);
    }
    ValueRef r = static_cast<ValueRef>(program_->values.size());
    program_->values.push_back(std::move(spec));
    origin_.values.push_back(v);
    refs_[v] = r;
    return r;
  }
  ValueRef ref(const Value* v) {
    auto it = refs_.find(v);
    STAX_ASSERT(it != refs_.end(), "value %{} '{}' is used before it is made", v->id, v->name);
    return it->second;
  }
  std::vector<ValueRef> refs(const std::vector<Value*>& values) {
    std::vector<ValueRef> r;
    for (const Value* v : values) r.push_back(ref(v));
    return r;
  }
  std::vector<ValueRef> add_results(const Op& op) {
    std::vector<ValueRef> r;
    for (const auto& v : op.results) r.push_back(add_value(v.get()));
    return r;
  }

  // ---- blocks
  uint32_t build_block(const tensor::Block& block) {
    uint32_t number = static_cast<uint32_t>(program_->blocks.size());
    program_->blocks.emplace_back();
    origin_.ops.emplace_back();
    origin_.phases.emplace_back();
    uint32_t saved = block_;
    block_ = number;
    start_segment();
    for (const auto& v : block.inputs) {
      ValueRef r = number == 0 ? ref(v.get()) : add_value(v.get());
      program_->values[r].storage = Storage::kInput;
      current().inputs.push_back(r);
    }
    for (const auto& op : block.ops) {
      const Op* outer = op_;
      op_ = op.get();
      build_op(*op);
      op_ = outer;
    }
    for (const Value* v : block.outputs) current().outputs.push_back(ref(v));
    block_ = saved;
    return number;
  }
  BlockSpec& current() { return program_->blocks[block_]; }
  void start_segment() {
    Segment s;
    s.first_step = static_cast<uint32_t>(current().steps.size());
    s.point = next_point_++;
    current().segments.push_back(s);
  }
  void add_step(Step s) {
    current().steps.push_back(std::move(s));
    origin_.ops[block_].push_back(op_);
    origin_.phases[block_].push_back(phase_);
  }
  /// Symbols that the step just added defines: what depends on them is evaluated behind it.
  void defined(const std::vector<Expr>& symbols) {
    if (symbols.empty()) return;
    start_segment();
    for (Expr s : symbols) define_at(slot_of(s), current().segments.back().point);
  }
  void define_at(uint32_t slot, uint32_t point) {
    program_->symbol_points.resize(std::max(program_->symbol_points.size(), program_->symbols.size()), kNone);
    program_->symbol_points[slot] = point;
  }

  // ---- kernels
  void launch(const Op& op, std::vector<ValueRef> results) {
    if (!target_.is_gpu) {
      lower::LoweredKernel whole = lower_op(op);
      return launch_kernel(whole, op, results);
    }
    auto& [whole, phases] = gpu_->lowered(op);
    const size_t own = results.size();
    if (phases) {
      for (Partial& partial : phases->partials) results.push_back(add_partial(op, std::move(partial)));
      for (lower::LoweredKernel& kernel : phases->kernels) {
        ++phase_;
        launch_kernel(kernel, op, results);
      }
      phase_ = 0;
      if (phases->condition.is_constant(1)) return;
      whole.written = whole.written * (1 - phases->condition);
      results.resize(own);
    }
    launch_kernel(whole, op, results);
  }
  /// Branches that the shape decides ask the expression instead of the value.
  bool is_launched(const Op& op) { return op.kind() != tensor::OpKind::kCompute || uses_[op.result()] != 0; }
  /// A value that is no value of the graph.
  ValueRef add_partial(const Op& op, Partial partial) {
    auto value = std::make_shared<tensor::Value>();
    value->type = tensor::Type::tensor(partial.dtype, std::move(partial.extents));
    value->id = graph_.next_value_id();
    value->name = op.result()->name + "_parts";
    origin_.partials.push_back(value);
    return add_value(value.get());
  }
  void launch_kernel(lower::LoweredKernel& lowered, const Op& op, const std::vector<ValueRef>& results) {
    LaunchStep step;
    const Family& family = share_kernel(lowered, op);
    const std::vector<loop::Buffer>& buffers = lowered.kernel.buffers;
    step.results = static_cast<uint32_t>(std::count_if(buffers.begin(), buffers.begin() + lowered.kernel.arguments,
                                                       [](const loop::Buffer& b) { return b.written; }));
    for (int a : lowered.arguments) step.arguments.push_back(a >= 0 ? ref(op.operands[a]) : results[~a]);
    ParamValues params;
    for (Expr value : lowered.param_values)
      step.params.push_back(expr(value));  // all versions have the same parameters in the same order
    auto& table = graph_.exprs();
    for (size_t k = 0; k < family.params.size(); ++k) params[family.params[k].node()] = lowered.param_values[k];
    for (size_t v = 0; v < family.guards.size(); ++v) {
      const loop::Kernel& kernel = kernels_[family.first + v];
      for (size_t k = 0; k < kernel.params.size(); ++k) params[kernel.params[k].node()] = lowered.param_values[k];
      LaunchVersion version;
      version.kernel = static_cast<uint32_t>(family.first + v);
      version.iterations = constant(1);
      if (target_.is_gpu) {
        const thread::Kernel& threads = thread_kernels_[family.first + v];
        for (int k = 0; k < 3; ++k) version.grid[k] = expr(to_graph(threads.grid[k], table, params));
        version.block = constant(threads.block);
        version.shared_bytes = expr(to_graph(thread::dynamic_shared_bytes(threads), table, params));
        for (int k = threads.arguments - threads.scratch; k < threads.arguments; ++k) {
          const thread::Buffer& b = threads.buffers[k];
          version.scratch.push_back(
              expr(to_graph(b.count * static_cast<int64_t>(ir::byte_size(b.dtype)), table, params)));
        }
        for (const thread::Divisor& d : threads.divisors)
          version.divisors.push_back(expr(to_graph(d.value, table, params)));
      } else {
        if (const auto* f = std::get_if<loop::For>(&kernel.body->v); f && f->kind == loop::LoopKind::kParallel)
          version.iterations = expr(to_graph(f->extent, table, params));
        version.scratch_bytes = expr(to_graph(emit::scratch_bytes(kernel), table, params));
      }
      bool last = v + 1 == family.guards.size();
      Expr guard = table.constant(1), necessary = table.constant(1);
      if (!last && family.guards[v]) guard = to_graph(family.guards[v], table, params);
      if (target_.is_gpu) {
        if (family.necessary[v]) necessary = to_graph(family.necessary[v], table, params);
        // What a block keeps in shared memory has to fit.
        const thread::Kernel& threads = thread_kernels_[family.first + v];
        const Expr dynamic = to_graph(thread::dynamic_shared_bytes(threads), table, params);
        const Expr fits = symbolic::less_equal(dynamic, table.constant(target_.max_shared - target_.shared_reserved -
                                                                       thread::static_shared_bytes(threads)));
        guard = symbolic::logical_and(guard, fits);
        necessary = symbolic::logical_and(necessary, fits);
      }
      if (guard.is_constant(0)) continue;  // never the better one for this op
      last |= guard.is_constant(1);
      if (!last) version.guard = expr(guard);
      if (!necessary.is_constant(1)) version.necessary = expr(necessary);
      step.versions.push_back(version);
      if (last) break;
    }
    step.work = expr(lowered.work);
    step.operations = expr(lowered.operations);
    step.empty_if_zero = expr(lowered.written);
    step.source = op.source;
    add_step(std::move(step));
  }
  /// Versions of one kernel: consecutive in kernels_.
  struct Family {
    size_t first = 0;
    std::vector<Expr> guards;     // over `params`; null: any shape
    std::vector<Expr> necessary;  // of GPUs: parts of the guards without which results are wrong
    std::vector<Expr> params;
    std::shared_ptr<ir::Context> context;  // of both
  };
  const Family& share_kernel(lower::LoweredKernel& lowered, const Op& op) {
    std::string naive = loop::print(lowered.kernel, true);
    if (auto it = by_text_.find(naive); it != by_text_.end()) return it->second;
    Family family;
    family.first = kernels_.size();
    family.params = lowered.kernel.params;
    family.context = lowered.kernel.context;
    const std::string name = lowered.kernel.kernel_class + "_" + std::to_string(by_text_.size());
    if (target_.is_gpu) {
      add_gpu_versions(family, name, gpu_->versions(naive), op);
    } else {
      add_cpu_versions(family, name, lowered, op);
    }
    return by_text_.emplace(std::move(naive), std::move(family)).first->second;
  }

  void add_cpu_versions(Family& family, const std::string& name, lower::LoweredKernel& lowered, const Op& op) {
    schedule::Versions versions;
    if (is_disabled("schedule")) {
      versions.push_back({"", {}, lowered.kernel});
    } else {
      versions = schedule::choose_versions(lowered.kernel, [&] { return lower_op(op).kernel; });
    }
    for (size_t v = 0; v < versions.size(); ++v) {
      finish(run_loop_passes(std::move(versions[v].kernel)), name, v, versions.size(), op);
      for (const std::string& reason : versions[v].refused)
        program_->kernels.back().decisions += "refused: " + reason + "\n";
      program_->kernels.back().flush_denormals = may_flush_denormals(kernels_.back());
      family.guards.push_back(versions[v].guard);
    }
  }
  void add_gpu_versions(Family& family, const std::string& name, std::vector<GpuKernel>& versions, const Op& op) {
    for (size_t v = 0; v < versions.size(); ++v) {
      auto& [chosen, loops, threads] = versions[v];
      finish(std::move(loops), name, v, versions.size(), op);
      KernelSpec& spec = program_->kernels.back();
      spec.entry = threads.name = "stax_" + kernels_.back().name;
      spec.thread_text = thread::print(threads);
      spec.index_bits = static_cast<uint32_t>(chosen.index_bits);
      spec.static_shared_bytes = thread::static_shared_bytes(threads);
      spec.reports_faults = !threads.check_messages.empty();
      for (const std::string& reason : chosen.version.reasons) spec.decisions += reason + "\n";
      thread_kernels_.push_back(std::move(threads));
      family.guards.push_back(chosen.guard);
      family.necessary.push_back(chosen.necessary);
    }
  }
  void finish(loop::Kernel kernel, const std::string& name, size_t version, size_t versions, const Op& op) {
    kernel.name = versions == 1 ? name : name + "_v" + std::to_string(version);
    KernelSpec spec;
    spec.name = kernel.name;
    spec.family = name;
    spec.version = static_cast<uint32_t>(version);
    spec.kernel_class = kernel.kernel_class;
    spec.entry = "stax_" + kernel.name;
    spec.loop_text = loop::print(kernel);
    spec.source = op.source;
    program_->kernels.push_back(std::move(spec));
    kernels_.push_back(std::move(kernel));
  }

  // ---- bindings of extents that a block or a sequence decides
  static void bind_extents(std::vector<ExtentBinding>& bindings, const std::vector<Expr>& defines,
                           const tensor::Type& type, uint32_t output, const std::function<uint32_t(Expr)>& slot) {
    auto defined = [&](Expr e) {
      return e && e.is_symbol() && std::find(defines.begin(), defines.end(), e) != defines.end();
    };
    for (size_t d = 0; d < type.extents.size(); ++d)
      if (defined(type.extents[d])) bindings.push_back({slot(type.extents[d]), output, static_cast<uint32_t>(d)});
    if (defined(type.rank)) bindings.push_back({slot(type.rank), output, kNone});
  }

  void build_op(const Op& op) {
    switch (op.kind()) {
      case tensor::OpKind::kConstant: {
        ValueRef r = add_value(op.result());
        program_->values[r].storage = Storage::kConstant;
        program_->values[r].index = static_cast<uint32_t>(program_->constants.size());
        program_->constants.push_back(op.as<tensor::Constant>()->literal);
        return;
      }
      case tensor::OpKind::kCompute:
        if (!is_launched(op)) return;
        return launch(op, add_results(op));
      case tensor::OpKind::kRowGroup:
      case tensor::OpKind::kPrefixScan: return launch(op, add_results(op));
      case tensor::OpKind::kScatter: {
        auto results = add_results(op);
        add_step(CopyStep{ref(op.operands[0]), results[0]});
        return launch(op, results);
      }
      case tensor::OpKind::kReshape: {
        ValueRef from = ref(op.operands[0]);
        ValueRef to = add_results(op)[0];
        program_->values[to].storage = Storage::kAlias;
        program_->values[to].index = from;
        add_step(AliasStep{from, to});
        return;
      }
      case tensor::OpKind::kReshapeDynamic: {
        ReshapeDynamicStep step;
        step.data = ref(op.operands[0]);
        step.shape = ref(op.operands[1]);
        step.allow_zero = op.as<tensor::ReshapeDynamic>()->allow_zero;
        step.result = add_results(op)[0];
        program_->values[step.result].storage = Storage::kAlias;
        program_->values[step.result].index = step.data;
        const auto& type = op.result()->type;
        step.defines.push_back(slot_of(type.rank));
        for (Expr e : type.extents) step.defines.push_back(slot_of(e));
        step.source = op.source;
        add_step(std::move(step));
        std::vector<Expr> symbols{type.rank};
        symbols.insert(symbols.end(), type.extents.begin(), type.extents.end());
        defined(symbols);
        return;
      }
      case tensor::OpKind::kBind: {
        BindStep step;
        step.value = ref(op.operands[0]);
        for (Expr s : op.defines) step.defines.push_back(slot_of(s));
        step.source = op.source;
        add_step(std::move(step));
        defined(op.defines);
        return;
      }
      case tensor::OpKind::kCheck: {
        const auto& check = *op.as<tensor::Check>();
        CheckStep step{expr(check.condition), check.message, {}};
        if (!op.source.empty() && !step.message.starts_with(op.source)) step.message = op.source + ": " + step.message;
        for (Expr e : check.arguments) step.arguments.push_back(expr(e));
        add_step(std::move(step));
        return;
      }
      case tensor::OpKind::kTopK: {
        const auto& p = *op.as<tensor::TopK>();
        return add_procedure(op, Procedure::kTopK, p.axis, p.largest);
      }
      case tensor::OpKind::kNonZero: return add_procedure(op, Procedure::kNonZero, -1, false);
      case tensor::OpKind::kUnique: {
        const auto& p = *op.as<tensor::Unique>();
        return add_procedure(op, Procedure::kUnique, p.axis.value_or(-1), p.sorted);
      }
      case tensor::OpKind::kNonMaxSuppression:
        return add_procedure(op, Procedure::kNonMaxSuppression, -1,
                             op.as<tensor::NonMaxSuppression>()->center_point_box);
      case tensor::OpKind::kDeterminant: return add_procedure(op, Procedure::kDeterminant, -1, false);
      case tensor::OpKind::kIf: {
        const auto& p = *op.as<tensor::If>();
        IfStep step;
        if (const Value* decides = op.operands[0]; decides->contents) {
          step.known = expr(decides->contents->front());
        } else {
          step.condition = ref(decides);
        }
        step.then_block = build_block(*p.then_block);
        step.else_block = build_block(*p.else_block);
        step.results = add_results(op);
        for (size_t k = 0; k < op.results.size(); ++k)
          bind_extents(step.bindings, op.defines, op.result(static_cast<int>(k))->type, static_cast<uint32_t>(k),
                       slot_fn());
        step.source = op.source;
        add_step(std::move(step));
        defined(op.defines);
        return;
      }
      case tensor::OpKind::kLoop: {
        const auto& p = *op.as<tensor::Loop>();
        LoopStep step;
        size_t at = 0;
        if (p.has_trip_count) step.trip_count = ref(op.operands[at++]);
        if (p.has_condition) step.condition = ref(op.operands[at++]);
        for (; at < op.operands.size(); ++at) step.initial.push_back(ref(op.operands[at]));
        for (Expr s : p.body_defines)
          define_at(slot_of(s), next_point_);  // the number that the body's first segment gets
        step.body = build_block(*p.body);
        for (int k = 0; k < p.carried; ++k)
          bind_extents(step.body_bindings, p.body_defines, p.body->inputs[static_cast<size_t>(k) + 1]->type,
                       static_cast<uint32_t>(k), slot_fn());
        step.results = add_results(op);
        for (size_t k = 0; k < op.results.size(); ++k)
          bind_extents(step.bindings, op.defines, op.result(static_cast<int>(k))->type, static_cast<uint32_t>(k),
                       slot_fn());
        step.source = op.source;
        add_step(std::move(step));
        defined(op.defines);
        return;
      }
      case tensor::OpKind::kSequenceConstruct: return add_sequence(op, SequenceOp::kConstruct, 0, false);
      case tensor::OpKind::kSequenceInsert: return add_sequence(op, SequenceOp::kInsert, 0, false);
      case tensor::OpKind::kSequenceErase: return add_sequence(op, SequenceOp::kErase, 0, false);
      case tensor::OpKind::kSequenceAt: return add_sequence(op, SequenceOp::kAt, 0, false);
      case tensor::OpKind::kSequenceLength: return add_sequence(op, SequenceOp::kLength, 0, false);
      case tensor::OpKind::kSplitToSequence: {
        const auto& p = *op.as<tensor::SplitToSequence>();
        return add_sequence(op, SequenceOp::kSplit, p.axis, p.keep_dims);
      }
      case tensor::OpKind::kConcatFromSequence: {
        const auto& p = *op.as<tensor::ConcatFromSequence>();
        return add_sequence(op, SequenceOp::kConcat, p.axis, p.new_axis);
      }
    }
    STAX_UNREACHABLE();
  }
  std::function<uint32_t(Expr)> slot_fn() {
    return [this](Expr e) { return slot_of(e); };
  }
  void add_procedure(const Op& op, Procedure kind, int64_t axis, bool flag) {
    ProcedureStep step;
    step.procedure = kind;
    step.operands = refs(op.operands);
    step.results = add_results(op);
    step.axis = axis;
    step.flag = flag;
    STAX_ASSERT(op.defines.size() <= 1, "{} defines {} symbols", tensor::name_of(op.kind()), op.defines.size());
    if (!op.defines.empty()) step.defines = slot_of(op.defines[0]);
    step.source = op.source;
    add_step(std::move(step));
    defined(op.defines);
  }
  void add_sequence(const Op& op, SequenceOp kind, int64_t axis, bool flag) {
    SequenceStep step;
    step.op = kind;
    step.operands = refs(op.operands);
    step.result = add_results(op)[0];
    step.axis = axis;
    step.flag = flag;
    bind_extents(step.bindings, op.defines, op.result()->type, 0, slot_fn());
    step.source = op.source;
    add_step(std::move(step));
    defined(op.defines);
  }

  tensor::Graph& graph_;
  const ir::Target& target_;
  std::shared_ptr<Program> program_;
  std::vector<loop::Kernel> kernels_;
  std::vector<thread::Kernel> thread_kernels_;  // of GPUs, in the same order
  std::map<std::string, Family> by_text_;
  std::unordered_map<const symbolic::ExprNode*, uint32_t> slots_;
  std::unordered_map<const Value*, ValueRef> refs_;
  std::unordered_map<const Value*, int> uses_;  // but for Ifs whose condition the shape decides
  int threads_ = 1;
  std::optional<GpuKernels> gpu_;
  Origin origin_;
  const Op* op_ = nullptr;  // the one being built
  uint32_t phase_ = 0;      // of it, see Origin
  uint32_t block_ = 0;
  uint32_t next_point_ = 0;
};

}  // namespace

Compiled build_program(tensor::Graph& graph, const ir::Target& target, int threads) {
  return ProgramBuilder(graph, target, threads).build();
}

}  // namespace stax::compile
