// SPDX-License-Identifier: Apache-2.0
#pragma once
// The compiler as a sequence: see pipeline.cpp.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/pass.h"
#include "emit/emit.h"
#include "ir/target.h"
#include "loop/loop_ir.h"
#include "program/program.h"
#include "tensor/graph.h"
#include "thread/thread_ir.h"

namespace stax::compile {

struct CompileOptions {
  std::string target = "cpu";   // ir::find_target
  std::vector<emit::Isa> isas;  // of the CPU: images to make; none: the program runs on the loop interpreter only
  std::optional<ir::CodeFormat> format;  // of GPUs: instead of the target's own
  int threads = 1;
  const DiskCache* cache = nullptr;  // of images
  bool side_by_side = true;          // loops that need nothing of each other may run at the same time
  PassContext passes;
};

/// Which part of the graph each part of a program was made from. Valid as long as the graph.
struct Origin {
  std::vector<const tensor::Value*> values;         // by ValueRef
  std::vector<std::vector<const tensor::Op*>> ops;  // by block and step
  std::vector<std::vector<uint32_t>>
      phases;  // likewise: 0: the step is for the whole op; else for its k-th phase (op_phases)
  std::vector<std::shared_ptr<const tensor::Value>> partials;  // of `values`, those that are between phases
  std::vector<symbolic::Expr> symbols;                         // by slot
};

struct Compiled {
  std::shared_ptr<program::Program> program;
  std::vector<loop::Kernel> kernels;           // in the order of program->kernels
  std::vector<thread::Kernel> thread_kernels;  // of GPUs, likewise
  Origin origin;
};

/// Takes the graph apart: it is in its final form afterwards.
Compiled compile_graph(tensor::Graph& graph, const CompileOptions& options);
/// The same for a graph that is in its final form already.
Compiled compile_optimized(tensor::Graph& graph, const CompileOptions& options);

/// The parts, in order.
void optimize(tensor::Graph& graph, const PassContext& context);
/// Kernels of GPUs are made on up to `threads` threads.
Compiled build_program(tensor::Graph& graph, const ir::Target& target, int threads = 1);
void place_loops_side_by_side(program::Program& program, Origin& origin);
void plan_memory(program::Program& program);

}  // namespace stax::compile
