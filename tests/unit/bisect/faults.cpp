// SPDX-License-Identifier: Apache-2.0
#include "unit/bisect/faults.h"

#include <algorithm>
#include <cstdlib>

#include "compile/pipeline.h"
#include "emit/emit.h"
#include "emit/emit_gpu.h"
#include "emit/native_compiler.h"
#include "ir/math_table.h"
#include "loop/loop_ir.h"
#include "loop/transform_step.h"
#include "lower/lower.h"
#include "procedures/procedures.h"
#include "program/program.h"
#include "program/steps.h"
#include "runtime/evaluator.h"
#include "runtime/loop_replay.h"
#include "symbolic/simplify.h"
#include "tensor/graph.h"
#include "thread/passes.h"

namespace stax::bisect {
namespace {

std::string planted;
int count = 0;

bool is(const char* name) { return planted == name; }

using loop::Kernel;
using loop::Stmt;

// Rewrites the first statement that `f` takes.
Kernel damage_first(const Kernel& from, const std::function<Stmt(const Stmt&)>& f) {
  Kernel kernel = from;
  bool done = false;
  kernel.body = loop::rewrite(kernel.body, [&](const Stmt& s) {
    if (done) return s;
    Stmt changed = f(s);
    if (changed != s) done = true, ++count;
    return changed;
  });
  return kernel;
}

Stmt shorter(const Stmt& s) {
  const auto* f = s->as<loop::For>();
  if (!f || f->kind == loop::LoopKind::kParallel || f->extent.is_constant(1)) return s;
  loop::For copy = *f;
  copy.extent = copy.extent - 1;
  return loop::make(std::move(copy));
}

Kernel drop_store(const Kernel& kernel) {
  if (kernel.kernel_class == "map") return kernel;
  return damage_first(kernel, [&](const Stmt& s) {
    const auto* store = s->as<loop::Store>();
    return store && kernel.buffers[static_cast<size_t>(store->slot)].scope == loop::Scope::kGlobal
               ? loop::make(loop::Block{})
               : s;
  });
}

// The part of a schedule that only the version for many rows has.
bool has_many_rows(const Kernel& kernel) { return kernel.schedule.find("split i0 8") != std::string::npos; }

thread::Kernel shorter_threads(const thread::Kernel& from) {
  thread::Kernel kernel = from;
  bool done = false;
  kernel.body = thread::rewrite(kernel.body, [&](const thread::Stmt& s) {
    const auto* f = s->as<thread::For>();
    if (done || !f || f->extent.is_constant(1)) return s;
    thread::For copy = *f;
    copy.extent = copy.extent - 1;
    done = true, ++count;
    return thread::make(std::move(copy));
  });
  return kernel;
}

Kernel invert_guard(const Kernel& kernel) {
  return damage_first(kernel, [&](const Stmt& s) {
    const auto* branch = s->as<loop::If>();
    if (!branch) return s;
    loop::If copy = *branch;
    copy.condition = ir::unary(ir::ScalarOp::kNot, copy.condition);
    return loop::make(std::move(copy));
  });
}

Kernel wrong_neutral(const Kernel& kernel) {
  return damage_first(kernel, [&](const Stmt& s) {
    const auto* store = s->as<loop::Store>();
    if (!store || store->value->kind != ir::ScalarKind::kConstant || !ir::is_float(store->value->dtype)) return s;
    loop::Store copy = *store;
    copy.value = kernel.context->scalars.constant(copy.value->dtype, 0.5);
    return loop::make(std::move(copy));
  });
}

// Lanes of a register tile all read the first one's partial sum.
Kernel wrong_index(const Kernel& kernel) {
  return damage_first(kernel, [&](const Stmt& s) {
    const auto* update = s->as<loop::Update>();
    if (!update || update->index.empty()) return s;
    loop::Update copy = *update;
    copy.index.back() = kernel.context->scalars.index(kernel.context->exprs.constant(0));
    return loop::make(std::move(copy));
  });
}

// The last: earlier ones may be left behind by fusion, without uses.
void shorten_a_sum(tensor::Graph& graph) {
  tensor::Compute* last = nullptr;
  tensor::for_each_op(graph.body, [&](tensor::Op& op) {
    if (auto* c = op.as<tensor::Compute>(); c && c->combiner == tensor::Combiner::kSum) last = c;
  });
  if (!last) return;
  last->reductions.back().extent = last->reductions.back().extent - 1;
  ++count;
}

void damage_a_constant(tensor::Graph& graph, int64_t least = 100) {
  bool done = false;
  tensor::for_each_op(graph.body, [&](tensor::Op& op) {
    auto* c = op.as<tensor::Constant>();
    if (done || !c || c->literal.count() < least || !ir::is_float(c->literal.dtype())) return;
    ir::Literal copy(c->literal.dtype(), c->literal.extents());
    for (int64_t k = 0; k < copy.count(); ++k) copy.set(k, c->literal.at(k));
    copy.set(17, {.f = copy.at(17).f + 1});
    c->literal = copy;
    done = true, ++count;
  });
}

// Two values of one arena, the second made from the first, in one place.
void alias_what_is_needed(program::Program& p) {
  for (program::BlockSpec& block : p.blocks)
    for (const program::Step& step : block.steps) {
      const auto* launch = std::get_if<program::LaunchStep>(&step);
      if (!launch) continue;
      program::ValueSpec& made = p.values[launch->arguments.back()];
      for (const program::ValueRef v : launch->arguments) {
        const program::ValueSpec& read = p.values[v];
        if (&read == &made || read.storage != program::Storage::kArena || made.storage != program::Storage::kArena ||
            read.offset == made.offset || read.arena_segment != made.arena_segment)
          continue;
        made.offset = read.offset;
        ++count;
        return;
      }
    }
}

// A constant that has the numbers of another one like it.
void mix_up_constants(program::Program& p) {
  for (program::ValueSpec& v : p.values)
    for (uint32_t other = 0; v.storage == program::Storage::kConstant && other < v.index; ++other)
      if (p.constants[other].dtype() == v.dtype && p.constants[other].extents() == p.constants[v.index].extents()) {
        v.index = other, ++count;
        return;
      }
}

template <class Step, class F>
void for_each_step(program::Program& p, const F& f) {
  for (program::BlockSpec& block : p.blocks)
    for (program::Step& step : block.steps)
      if (auto* each = std::get_if<Step>(&step)) f(*each);
}

// A launch of the kernel of one before it that takes as much.
void mix_up_kernels(program::Program& p) {
  std::vector<program::LaunchStep*> before;
  for_each_step<program::LaunchStep>(p, [&](program::LaunchStep& launch) {
    for (const program::LaunchStep* other : before) {
      if (other->arguments.size() != launch.arguments.size() || other->params.size() != launch.params.size() ||
          other->versions.size() != launch.versions.size())
        continue;
      for (size_t v = 0; v < launch.versions.size(); ++v) launch.versions[v].kernel = other->versions[v].kernel;
      ++count;
      break;
    }
    before.push_back(&launch);
  });
}

// The first version anywhere, whatever it needs.
void drop_guards(program::Program& p) {
  for_each_step<program::LaunchStep>(p, [&](program::LaunchStep& launch) {
    if (launch.versions.size() < 2 || launch.versions[0].necessary == program::kNone) return;
    launch.versions.resize(1), ++count;
    launch.versions[0].guard = launch.versions[0].necessary = program::kNone;
  });
}

// All loops begin with what the first one begins with.
void mix_up_loops(program::Program& p) {
  std::vector<program::LoopStep*> loops;
  for_each_step<program::LoopStep>(p, [&](program::LoopStep& loop) { loops.push_back(&loop); });
  for (size_t k = 1; k < loops.size(); ++k) loops[k]->initial = loops[0]->initial, ++count;
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> kFaults = {
      {"an off-by-one bound in fusion", "fuse_ops", "graph"},
      {"a folded constant", "fold_constants", "graph"},
      {"a layout that loses a term", "assign_layouts", "graph"},
      {"a wrong neutral element in lowering", "lower_compute", "loop"},
      {"an extent of merged axes", "collapse_axes", "loop"},
      {"a tail guard inverted by a split", "split", "loop"},
      {"a local buffer without the axis of its loop", "sink", "loop"},
      {"a wrong index behind an interchange", "sink", "loop"},
      {"a store dropped by simplification", "simplify", "loop"},
      {"an off-by-one bound behind hoisting", "hoist_loop_invariants", "loop"},
      {"an off-by-one bound in emission", "emit_native", "native"},
      {"a coefficient of an elementary function", "math_table", "native"},
      {"a stale alias in the memory plan", "plan_memory", "program"},
      {"a division in the runtime's evaluator", "evaluator", "runtime"},
      {"a store dropped in the version of many rows", "simplify", "loop"},
      {"a store of a row group dropped", "simplify", "loop"},
      {"a constant of a file", "serialize", "program"},
      {"a constant of a file", "serialize", "program", "sim"},
      {"a store dropped by simplification", "simplify", "loop", "sim"},
      {"an off-by-one bound behind unrolling", "unroll_loops", "thread", "sim"},
      {"barriers left out", "insert_barriers", "thread", "sim"},
      {"an off-by-one bound behind unrolling", "unroll_loops", "thread", "opencl"},
      {"an off-by-one bound in GPU code", "emit_gpu", "device", "opencl"},
  };
  return kFaults;
}
void plant(const std::string& name) { planted = name, count = 0; }
int damages() { return count; }

}  // namespace stax::bisect

// ---- the wrapped functions: `real` is the one of the compiler, `wrapped` is called in its place

#define STAX_WRAP(result, name, symbol, parameters)           \
  result real_##name parameters __asm__("__real_" symbol);    \
  result wrapped_##name parameters __asm__("__wrap_" symbol); \
  result wrapped_##name parameters

namespace stax::bisect {

STAX_WRAP(bool, fuse_ops, "_ZN4stax6tensor8fuse_opsERNS0_5GraphE", (tensor::Graph & graph)) {
  if (is("a crash in fusion")) std::abort();
  const bool changed = real_fuse_ops(graph);
  if (is("an off-by-one bound in fusion")) shorten_a_sum(graph);
  return changed;
}
STAX_WRAP(bool, fold_constants, "_ZN4stax6tensor14fold_constantsERNS0_5GraphE", (tensor::Graph & graph)) {
  const bool changed = real_fold_constants(graph);
  if (is("a folded constant")) damage_a_constant(graph);
  return changed;
}
STAX_WRAP(bool, assign_layouts, "_ZN4stax6tensor14assign_layoutsERNS0_5GraphE", (tensor::Graph & graph)) {
  const bool changed = real_assign_layouts(graph);
  if (is("a layout that loses a term")) shorten_a_sum(graph);
  return changed;
}
STAX_WRAP(bool, rank_top_k, "_ZN4stax6tensor10rank_top_kERNS0_5GraphE", (tensor::Graph & graph)) {
  const bool changed = real_rank_top_k(graph);
  if (is("an off-by-one bound in ranking")) shorten_a_sum(graph);
  return changed;
}
// Only what was joined is damaged: one product alone shows nothing.
STAX_WRAP(bool, fuse_siblings, "_ZN4stax6tensor13fuse_siblingsERNS0_5GraphE", (tensor::Graph & graph)) {
  const bool changed = real_fuse_siblings(graph);
  if (changed && is("a weight of joined products")) damage_a_constant(graph, 300);
  return changed;
}
STAX_WRAP(symbolic::Expr, floordiv, "_ZN4stax8symbolic10Simplifier8floordivENS0_4ExprES2_",
          (symbolic::Simplifier * self, symbolic::Expr a, symbolic::Expr b)) {
  const symbolic::Expr quotient = real_floordiv(self, a, b);
  // One too many, of sums that are divided by 5.
  if (!is("a rule of division") || !b.is_constant(5) || a.kind() != symbolic::ExprKind::kAdd) return quotient;
  ++count;
  return self->add(quotient, a.table().constant(1));
}
// The smallest value of a row instead of the largest.
STAX_WRAP(void, top_k, "_ZN4stax10procedures5top_kENS_2ir5DTypeEPKvNS0_8AxisViewElbPvPlllRNS0_7ScratchE",
          (ir::DType type, const void* data, procedures::AxisView view, int64_t k, bool largest, void* values,
           int64_t* indices, int64_t row_begin, int64_t row_end, procedures::Scratch& scratch)) {
  const bool wrong = is("the order of top-k");
  if (wrong) ++count;
  real_top_k(type, data, view, k, largest != wrong, values, indices, row_begin, row_end, scratch);
}
STAX_WRAP(void, loop_replay_enter, "_ZN4stax7runtime10LoopReplay5enterEl",
          (runtime::LoopReplay * self, int64_t trips)) {
  const bool shorter = is("a trip less in loops that are entered once") && trips > 1;
  if (shorter) ++count;
  real_loop_replay_enter(self, shorter ? trips - 1 : trips);
}
STAX_WRAP(std::vector<uint8_t>, serialize, "_ZN4stax7program9serializeERKNS0_7ProgramE",
          (const program::Program& program)) {
  if (!is("a constant of a file")) return real_serialize(program);
  program::Program damaged = program;
  for (ir::Literal& l : damaged.constants) {
    if (l.count() < 100 || !ir::is_float(l.dtype())) continue;
    ir::Literal copy(l.dtype(), l.extents());
    for (int64_t k = 0; k < copy.count(); ++k) copy.set(k, l.at(k));
    copy.set(17, {.f = copy.at(17).f + 1});
    l = copy;
    ++count;
    break;
  }
  return real_serialize(damaged);
}
STAX_WRAP(lower::LoweredKernel, lower_compute, "_ZN4stax5lower13lower_computeERKNS_6tensor2OpENS0_4AxesE",
          (const tensor::Op& op, lower::Axes axes)) {
  lower::LoweredKernel lowered = real_lower_compute(op, axes);
  if (is("a wrong neutral element in lowering")) lowered.kernel = wrong_neutral(lowered.kernel);
  return lowered;
}
// The inner axis of the first operand is longer than it is: wrong where a stride comes of it.
STAX_WRAP(lower::CollapsedCompute, collapse_axes, "_ZN4stax5lower13collapse_axesERKNS_6tensor2OpENS0_4AxesE",
          (const tensor::Op& op, lower::Axes axes)) {
  lower::CollapsedCompute collapsed = real_collapse_axes(op, axes);
  if (axes == lower::Axes::kApart) return collapsed;
  if (is("a crash where axes are merged")) std::abort();
  if (!is("an extent of merged axes") || collapsed.operand_extents.empty()) return collapsed;
  std::vector<symbolic::Expr>& extents = collapsed.operand_extents[0];
  if (extents.size() > 1) extents.back() = extents.back() + 1, ++count;
  return collapsed;
}
STAX_WRAP(Kernel, split, "_ZN4stax4loop5splitENS0_4EditE", (loop::Edit edit)) {
  Kernel kernel = real_split(std::move(edit));
  return is("a tail guard inverted by a split") ? invert_guard(kernel) : kernel;
}
STAX_WRAP(Kernel, sink, "_ZN4stax4loop4sinkENS0_4EditE", (loop::Edit edit)) {
  Kernel kernel = real_sink(std::move(edit));
  // What it is accessed by stays: a kernel that breaks a rule, which nobody asks for before the passes behind the schedule.
  if (is("a local buffer without the axis of its loop"))
    for (size_t k = static_cast<size_t>(kernel.arguments); k < kernel.buffers.size(); ++k)
      if (!kernel.buffers[k].extents.empty()) kernel.buffers[k].extents.clear(), ++count;
  return is("a wrong index behind an interchange") ? wrong_index(kernel) : kernel;
}
STAX_WRAP(Kernel, simplify, "_ZN4stax4loop8simplifyERKNS0_6KernelE", (const Kernel& from)) {
  Kernel kernel = real_simplify(from);
  if (is("a store dropped in the version of many rows") && has_many_rows(kernel)) return drop_store(kernel);
  if (is("a store of a row group dropped") && kernel.kernel_class == "rows") return drop_store(kernel);
  return is("a store dropped by simplification") ? drop_store(kernel) : kernel;
}
STAX_WRAP(Kernel, hoist, "_ZN4stax4loop21hoist_loop_invariantsERKNS0_6KernelE", (const Kernel& from)) {
  Kernel kernel = real_hoist(from);
  return is("an off-by-one bound behind hoisting") ? damage_first(kernel, shorter) : kernel;
}
STAX_WRAP(emit::NativeImage, emit_native,
          "_ZN4stax4emit11emit_nativeESt4spanIKNS0_12NativeKernelELm18446744073709551615EERKNS0_11EmitOptionsE",
          (std::span<const emit::NativeKernel> kernels, const emit::EmitOptions& options)) {
  if (!is("an off-by-one bound in emission")) return real_emit_native(kernels, options);
  std::vector<Kernel> damaged;
  for (const emit::NativeKernel& k : kernels) damaged.push_back(damage_first(*k.kernel, shorter));
  std::vector<emit::NativeKernel> again;
  for (size_t k = 0; k < kernels.size(); ++k) again.push_back({&damaged[k], kernels[k].entry});
  return real_emit_native(again, options);
}
STAX_WRAP(thread::Kernel, unroll_loops, "_ZN4stax6thread12unroll_loopsERKNS0_6KernelE", (const thread::Kernel& from)) {
  thread::Kernel kernel = real_unroll_loops(from);
  return is("an off-by-one bound behind unrolling") ? shorter_threads(kernel) : kernel;
}
STAX_WRAP(thread::Kernel, insert_barriers, "_ZN4stax6thread15insert_barriersERKNS0_6KernelE",
          (const thread::Kernel& from)) {
  thread::Kernel kernel = real_insert_barriers(from);
  if (!is("barriers left out") || thread::print(kernel) == thread::print(from)) return kernel;
  ++count;
  return from;
}
STAX_WRAP(std::string, emit_gpu, "_ZN4stax4emit8emit_gpuB5cxx11ERKNS_6thread6KernelENS_2ir10CodeFormatERKNS5_6TargetE",
          (const thread::Kernel& kernel, ir::CodeFormat format, const ir::Target& target)) {
  if (!is("an off-by-one bound in GPU code")) return real_emit_gpu(kernel, format, target);
  return real_emit_gpu(shorter_threads(kernel), format, target);
}
STAX_WRAP(const ir::MathFunction&, math_function, "_ZN4stax2ir13math_functionENS0_8ScalarOpENS0_5DTypeE",
          (ir::ScalarOp op, ir::DType dtype)) {
  const ir::MathFunction& f = real_math_function(op, dtype);
  if (!is("a coefficient of an elementary function") || op != ir::ScalarOp::kExp) return f;
  static ir::MathFunction wrong;
  wrong = f;
  // The cubic term, and where there are tables the linear one.
  const auto change = [&](ir::MathProgram& program, double from, double to) {
    for (ir::MathNode& node : program.nodes) {
      if (node.op != ir::MathOp::kConstant || node.type != ir::MathType::kF32) continue;
      const double value = std::bit_cast<double>(node.bits);
      if (from < value && value < to) node.bits = std::bit_cast<uint64_t>(value * 1.03), ++count;
    }
  };
  change(wrong.fast, 0.1, 0.3);
  change(wrong.pieces, 0.9, 1.1);
  return wrong;
}
// In this program, so that faults of what it shares with everything else are planted in it, too.
STAX_WRAP(const emit::NativeCompiler&, native_compiler, "_ZN4stax4emit15native_compilerEv", ()) {
  return *stax_native_compiler();
}
STAX_WRAP(void, plan_memory, "_ZN4stax7compile11plan_memoryERNS_7program7ProgramE", (program::Program & p)) {
  real_plan_memory(p);
  if (is("a stale alias in the memory plan")) alias_what_is_needed(p);
}
STAX_WRAP(compile::Compiled, build_program, "_ZN4stax7compile13build_programERNS_6tensor5GraphERKNS_2ir6TargetEi",
          (tensor::Graph & graph, const ir::Target& target, int threads)) {
  compile::Compiled compiled = real_build_program(graph, target, threads);
  if (is("constants mixed up")) mix_up_constants(*compiled.program);
  if (is("kernels mixed up")) mix_up_kernels(*compiled.program);
  if (is("a guard left out")) drop_guards(*compiled.program);
  if (is("loops mixed up")) mix_up_loops(*compiled.program);
  return compiled;
}
STAX_WRAP(void, place_loops_side_by_side,
          "_ZN4stax7compile24place_loops_side_by_sideERNS_7program7ProgramERNS0_6OriginE",
          (program::Program & p, compile::Origin& origin)) {
  real_place_loops_side_by_side(p, origin);
  for (program::BlockSpec& block : p.blocks)
    for (size_t s = 1; s < block.steps.size(); ++s) {
      auto* first = std::get_if<program::LoopStep>(&block.steps[s - 1]);
      auto* second = std::get_if<program::LoopStep>(&block.steps[s]);
      if (!first || !second || !first->beside_next) continue;
      if (is("a loop placed in front of what it needs") && s >= 2) {
        std::swap(block.steps[s - 2], block.steps[s - 1]), ++count;
        std::swap(block.steps[s - 1], block.steps[s]);
        return;
      }
      if (is("a loop placed with what another begins with")) std::swap(first->initial, second->initial), ++count;
      if (is("a loop that is placed loses a trip"))
        first->trip_count = second->trip_count = std::min(first->trip_count, second->trip_count), ++count;
    }
}
STAX_WRAP(void, evaluator_run,
          "_ZNK4stax7runtime9Evaluator3runESt4spanIKjLm18446744073709551615EES2_IKlLm18446744073709551615EES2_"
          "IlLm18446744073709551615EE",
          (const runtime::Evaluator* self, std::span<const uint32_t> nodes, std::span<const int64_t> symbols,
           std::span<int64_t> values)) {
  // A context's values are zeros until its first call.
  if (is("a plan of another shape") &&
      std::any_of(nodes.begin(), nodes.end(), [&](uint32_t n) { return values[n] > 1; })) {
    ++count;
    return;
  }
  real_evaluator_run(self, nodes, symbols, values);
  if (!is("a division in the runtime's evaluator")) return;
  // The first that is no symbol's value and not small: one too few.
  for (const uint32_t n : nodes)
    if (values[n] > 8 && self->size() > n && std::find(symbols.begin(), symbols.end(), values[n]) == symbols.end()) {
      --values[n], ++count;
      return;
    }
}

}  // namespace stax::bisect
