// SPDX-License-Identifier: Apache-2.0
// The whole compiler, top to bottom. No work is done here: every line is a pass, with its reason, and with what is true from there on.
#include "compile/pipeline.h"

#include "emit/emit_gpu.h"
#include "support/on_threads.h"
#include "tensor/passes.h"

namespace stax::compile {

void optimize(tensor::Graph& graph, const PassContext& context) {
  const bool on_cpu = !ir::find_target(context.target).is_gpu;
  // Extents that weights decide are numbers, for bounds, strides and tiles below. Before anything else reads extents.
  run_pass("fix_known_extents", tensor::fix_known_extents, graph, context);
  // Importers spell operators literally; one form for each meaning makes everything below simpler.
  run_pass("canonicalize", tensor::canonicalize, graph, context);
  // Quantized factors as they are stored. Before constants are folded, which makes floats of them.
  run_pass("contract_quantized", tensor::contract_quantized, graph, context);
  // Weights are transformed once, here: casts, dequantization and transposes of constants.
  run_pass("fold_constants", tensor::fold_constants, graph, context);
  run_pass("eliminate_common_subexpressions", tensor::eliminate_common_subexpressions, graph, context);
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Projections of one tensor are one product. Before anything is said about the layout of their weights.
  run_pass("fuse_siblings", tensor::fuse_siblings, graph, context);
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Convolutions write as they compute, channels side by side. Before quantized products, whose sums go over channels in groups.
  // Not for GPUs, whose convolutions read neighbouring pixels in neighbouring threads.
  if (on_cpu) run_pass("move_channels_last", tensor::move_channels_last, graph, context);
  // Transposes that files had for the same purpose are copies now.
  run_pass("canonicalize", tensor::canonicalize, graph, context);
  run_pass("fold_constants", tensor::fold_constants, graph, context);
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Elements and their places apart, for reductions that vectors and threads can do.
  run_pass("split_arg_reductions", tensor::split_arg_reductions, graph, context);
  // What takes an order on one thread, in forms without one. Not for CPUs, where the order costs nothing.
  if (!on_cpu) run_pass("rank_top_k", tensor::rank_top_k, graph, context);
  if (!on_cpu) run_pass("gather_scatters", tensor::gather_scatters, graph, context);
  // Functions of one byte as tables. After axes were moved, which is done to each step. Not for GPUs, where a look-up takes as long as a function.
  if (on_cpu) run_pass("tabulate_bytes", tensor::tabulate_bytes, graph, context);
  // What led to tables would count as readers.
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Quantized products as dot products of bytes. Before layouts, which pack what the kernel will read.
  run_pass("expand_zero_points", tensor::expand_zero_points, graph, context);
  // The other 8-bit products as floats where that is exact. Before layouts, which pack what the kernel will read.
  run_pass("strengthen_integer_contractions", tensor::strengthen_integer_contractions, graph, context);
  // Contractions read the operand that runs in vector lanes contiguously. Before fusion, so that the transposes it adds can be fused or folded.
  run_pass("assign_layouts", tensor::assign_layouts, graph, context);
  run_pass("fold_constants", tensor::fold_constants, graph, context);
  run_pass("fuse_ops", tensor::fuse_ops, graph, context);
  // Fusion leaves producers behind, which would count as readers.
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Not for GPUs, whose matrix instructions take half floats.
  if (on_cpu) run_pass("widen_rows", tensor::widen_rows, graph, context);
  // Kernels that go over the same rows one after the other. After fusion, which settles what one kernel computes.
  // From here on: every Compute and every RowGroup is one kernel.
  run_pass("group_rows", tensor::group_rows, graph, context);
  // Coordinates and weights of interpolations as tables. After fusion, which would take them back, and after rows were found. Not for GPUs, whose
  // arithmetic costs less than a launch.
  if (on_cpu) run_pass("hoist_repeated", tensor::hoist_repeated, graph, context);
  // Weights in the order in which kernels read them. After fusion, which asks for the plain form.
  run_pass("pack_weights", tensor::pack_weights, graph, context);
  run_pass("fold_constants", tensor::fold_constants, graph, context);
  // Equal bodies that were built on the way.
  run_pass("eliminate_common_subexpressions", tensor::eliminate_common_subexpressions, graph, context);
  run_pass("eliminate_dead_ops", tensor::eliminate_dead_ops, graph, context);
  // Layers that differ in scales only are kernels of one text. Last, because everything above looks at literals. Not for GPUs, where each argument of
  // a launch costs and no code is optimized for long.
  if (on_cpu) run_pass("hoist_literals", tensor::hoist_literals, graph, context);
}

Compiled compile_graph(tensor::Graph& graph, const CompileOptions& options) {
  PassContext passes = options.passes;
  passes.target = options.target;
  optimize(graph, passes);
  Compiled compiled = compile_optimized(graph, options);
  report_unknown_passes();
  return compiled;
}

Compiled compile_optimized(tensor::Graph& graph, const CompileOptions& options) {
  const ir::Target& target = ir::find_target(options.target);
  Compiled compiled;
  // Lowers each op to naive loops, schedules them, and shares kernels of equal text.
  // From here on: a program of steps; no tensor IR.
  run_step("build_program", [&] {
    compiled = build_program(graph, target, options.threads);
    program::verify(*compiled.program, program::Stage::kBuilt);
  });
  // Before memory is planned: what loops that may run at the same time read has to live until the last of them is done.
  run_step("place_loops_side_by_side", [&] {
    if (!options.side_by_side || is_disabled("place_loops_side_by_side")) return;
    place_loops_side_by_side(*compiled.program, compiled.origin);
    program::verify(*compiled.program, program::Stage::kBuilt);
  });
  // From here on: every value has a place, given as an expression of the shape.
  run_step("plan_memory", [&] {
    plan_memory(*compiled.program);
    program::verify(*compiled.program, program::Stage::kPlaced);
  });
  if (compiled.kernels.empty()) return compiled;  // steps without kernels run anywhere
  const ir::CodeFormat format = options.format.value_or(target.format);
  if (target.is_gpu && format != ir::CodeFormat::kThread) {
    run_step("emit_gpu", [&] {
      for_each_on_threads(compiled.thread_kernels.size(), options.threads, [&](size_t k) {
        compiled.program->kernels[k].code_format = ir::name_of(format);
        compiled.program->kernels[k].code = emit::emit_gpu(compiled.thread_kernels[k], format, target);
      });
    });
  }
  for (emit::Isa isa : emit::distinct_isas(options.isas, compiled.kernels)) {
    run_step("emit_native", [&] {
      std::vector<emit::NativeKernel> natives;
      for (size_t k = 0; k < compiled.kernels.size(); ++k)
        natives.push_back({&compiled.kernels[k], compiled.program->kernels[k].entry});
      emit::EmitOptions emit_options;
      emit_options.isa = isa;
      emit_options.threads = options.threads;
      emit_options.cache = options.cache;
      emit::NativeImage image = emit::emit_native(natives, emit_options);
      compiled.program->images.push_back({std::string(emit::name_of(isa)), std::move(image.bytes)});
    });
  }
  return compiled;
}

}  // namespace stax::compile
