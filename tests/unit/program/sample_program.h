// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program made by hand that holds every kind of step and of storage.
#include <initializer_list>
#include <string>
#include <vector>

#include "program/program.h"

namespace stax::program {

/// Spells programs: values, expressions, one block at a time.
class ProgramSpeller {
 public:
  Program program;

  uint32_t symbol(const std::string& name, uint32_t point, int64_t lo = 0, int64_t hi = symbolic::kMaxExtent) {
    program.symbols.push_back({name, lo, hi, 1});
    program.symbol_points.push_back(point);
    return static_cast<uint32_t>(program.symbols.size() - 1);
  }
  ExprRef node(symbolic::ExprKind kind, int64_t value, std::vector<uint32_t> args) {
    program.exprs.nodes().push_back({kind, value, std::move(args)});
    return static_cast<ExprRef>(program.exprs.nodes().size() - 1);
  }
  ExprRef constant(int64_t v) { return node(symbolic::ExprKind::kConstant, v, {}); }
  ExprRef symbol_expr(uint32_t s) { return node(symbolic::ExprKind::kSymbol, s, {}); }
  ExprRef times(std::vector<uint32_t> args) { return node(symbolic::ExprKind::kMul, 0, std::move(args)); }

  ValueRef value(const std::string& name, DType t, std::vector<ExprRef> extents, ExprRef bytes,
                 Storage storage = Storage::kOwned) {
    ValueSpec v;
    v.name = name;
    v.dtype = t;
    v.extents = std::move(extents);
    v.bytes = bytes;
    v.storage = storage;
    program.values.push_back(v);
    return static_cast<ValueRef>(program.values.size() - 1);
  }
  ValueRef sequence(const std::string& name, DType t, Storage storage = Storage::kOwned) {
    const ValueRef v = value(name, t, {}, kNone, storage);
    program.values[v].is_sequence = true;
    return v;
  }
  ValueRef alias(const std::string& name, ValueRef of, std::vector<ExprRef> extents, ExprRef bytes) {
    const ValueRef v = value(name, program.values[of].dtype, std::move(extents), bytes, Storage::kAlias);
    program.values[v].index = of;
    return v;
  }
  ValueRef arena(const std::string& name, DType t, std::vector<ExprRef> extents, ExprRef bytes, ExprRef offset,
                 uint32_t segment) {
    const ValueRef v = value(name, t, std::move(extents), bytes, Storage::kArena);
    program.values[v].offset = offset;
    program.values[v].arena_segment = segment;
    return v;
  }
  uint32_t kernel(const std::string& name) {
    program.kernels.push_back({.name = name,
                               .family = name,
                               .version = 0,
                               .kernel_class = "map",
                               .entry = "stax_" + name,
                               .loop_text = "kernel @" + name,
                               .source = "node '" + name + "'"});
    return static_cast<uint32_t>(program.kernels.size() - 1);
  }
  /// Starts a segment of a block with all nodes that are not in one yet.
  void segment(uint32_t block, uint32_t point, ExprRef arena_bytes = kNone) {
    Segment s;
    s.first_step = static_cast<uint32_t>(program.blocks[block].steps.size());
    s.point = point;
    s.arena_bytes = arena_bytes;
    for (; placed_ < program.exprs.nodes().size(); ++placed_) s.nodes.push_back(static_cast<ExprRef>(placed_));
    program.blocks[block].segments.push_back(std::move(s));
  }
  void step(uint32_t block, Step s) { program.blocks[block].steps.push_back(std::move(s)); }

 private:
  size_t placed_ = 0;
};

/// Reads x [n, 4] of f32, shape of i64 and a sequence; every kind of step follows.
inline Program sample_program() {
  ProgramSpeller p;
  p.program.build = "test";
  p.program.warnings = {"the file declares rank 1 for 'y', and 2 is computed"};
  p.program.images = {{"avx2", {1, 2, 3, 4, 5}}, {"avx512", std::vector<uint8_t>(100, 7)}};
  p.program.blocks.resize(4);  // the model, two branches, a body
  const uint32_t n = p.symbol("n", 0, 0, 100), extents = p.symbol("shape[0]", 0);
  const ExprRef one = p.constant(1), two = p.constant(2), four = p.constant(4), eight = p.constant(8),
                sixty_four = p.constant(64), zero = p.constant(0), truth = p.constant(1);
  const ExprRef ne = p.symbol_expr(n), count = p.symbol_expr(extents);
  const ExprRef bytes = p.times({ne, four, four}), shape_bytes = p.times({count, eight});
  const ExprRef up = p.node(symbolic::ExprKind::kAdd, 0, {bytes, sixty_four}),
                whole = p.node(symbolic::ExprKind::kFloorDiv, 0, {up, sixty_four}),
                offset = p.times({whole, sixty_four});
  const ExprRef rest = p.node(symbolic::ExprKind::kMod, 0, {ne, two}),
                least = p.node(symbolic::ExprKind::kMin, 0, {ne, eight}),
                most = p.node(symbolic::ExprKind::kMax, 0, {ne, one});
  const ExprRef small = p.node(symbolic::ExprKind::kLess, 0, {ne, eight}),
                even = p.node(symbolic::ExprKind::kEqual, 0, {rest, zero}),
                chosen = p.node(symbolic::ExprKind::kSelect, 0, {small, least, most});
  const ExprRef arena = p.node(symbolic::ExprKind::kAdd, 0, {offset, offset});

  const ValueRef x = p.value("x", DType::kF32, {ne, four}, bytes, Storage::kInput),
                 shape = p.value("shape", DType::kI64, {count}, shape_bytes, Storage::kInput);
  const ValueRef list = p.sequence("list", DType::kF32, Storage::kInput);
  const ValueRef w = p.value("w", DType::kF32, {two, two}, p.constant(16), Storage::kConstant);
  p.program.values[w].index = 0;
  ir::Literal weights(DType::kF32, {2, 2});
  for (int k = 0; k < 4; ++k) weights.set(k, {.f = k + 0.5});
  p.program.constants = {weights};
  p.program.inputs = {{"x", x, {{n, 0}, {kNone, 4}}}, {"shape", shape, {{extents, 0}}}, {"list", list, {}}};
  p.program.blocks[0].inputs = {x, shape, list};

  // Segment 0: a map, a copy and a scatter, an alias, a check, top-k, and what makes extents that data decides.
  const uint32_t map = p.kernel("map_0"), scatter = p.kernel("scatter_1");
  const ValueRef a = p.arena("a", DType::kF32, {ne, four}, bytes, zero, 0),
                 b = p.arena("b", DType::kF32, {ne, four}, bytes, offset, 0);
  const ValueRef flat = p.alias("flat", b, {p.times({ne, four})}, bytes);
  const ValueRef top = p.value("top", DType::kF32, {ne, two}, p.times({ne, two, four})),
                 at = p.value("at", DType::kI64, {ne, two}, p.times({ne, two, eight}));
  p.segment(0, 0, arena);
  p.step(0, LaunchStep{{{map, small, one, zero}, {map, kNone, most, sixty_four}},
                       {x, w, a},
                       1,
                       {ne, least},
                       bytes,
                       bytes,
                       "Exp node 'e'"});
  p.step(0, CopyStep{a, b});
  p.step(0, LaunchStep{{{scatter, kNone, one, zero}}, {a, b}, 1, {ne}, bytes, bytes, "ScatterND node"});
  p.step(0, AliasStep{b, flat});
  p.step(0, CheckStep{truth, "node: {0} and {1} differ", {ne, chosen}});
  p.step(0, CheckStep{p.program.symbols.empty() ? zero : even, "odd {0}", {ne}});
  p.step(0, ProcedureStep{Procedure::kTopK, {a}, {top, at}, 1, true, kNone, "TopK node"});
  const uint32_t found = p.symbol("found", 1);
  const ExprRef found_extent = p.symbol_expr(found);
  const ValueRef where = p.value("where", DType::kI64, {two, found_extent}, p.times({two, found_extent, eight}));
  p.step(0, ProcedureStep{Procedure::kNonZero, {a}, {where}, -1, false, found, "NonZero node"});
  p.segment(0, 1);

  // Segment 1: the host reads a constant; a reshape of run-time rank; then a branch and a loop.
  const uint32_t read = p.symbol("read", 2);
  const ValueRef k = p.value("k", DType::kI64, {}, eight, Storage::kConstant);
  p.program.values[k].index = 1;
  ir::Literal three(DType::kI64, {});
  three.set(0, {.i = 3});
  p.program.constants.push_back(three);
  p.step(0, BindStep{k, {read}, "Bind"});
  p.symbol_expr(read);
  p.segment(0, 2);
  ReshapeDynamicStep reshape{flat, shape, kNone, true, {}, "Reshape node"};
  std::vector<ExprRef> view_extents;
  reshape.defines.push_back(p.symbol("rank", 3, 0, 8));
  const ExprRef rank = p.symbol_expr(reshape.defines[0]);
  for (int axis = 0; axis < 8; ++axis) {
    reshape.defines.push_back(p.symbol("e" + std::to_string(axis), 3));
    view_extents.push_back(p.symbol_expr(reshape.defines.back()));
  }
  reshape.result = p.alias("view", flat, view_extents, p.times(view_extents));
  p.program.values[reshape.result].rank = rank;
  p.step(0, reshape);
  p.segment(0, 3);
  const ValueRef condition = p.value("condition", DType::kBool, {}, p.constant(1), Storage::kConstant);
  p.program.values[condition].index = 2;
  p.program.constants.emplace_back(DType::kBool, std::vector<int64_t>{});
  p.program.constants.back().set(0, {.i = 1});
  p.segment(0, 4);  // more nodes, nothing between
  const ValueRef copied = p.value("copied", DType::kF32, {ne, four}, bytes);
  p.program.blocks[1].outputs = {a};
  p.segment(1, 5);
  p.step(2, CopyStep{a, copied});
  p.program.blocks[2].outputs = {copied};
  p.segment(2, 6);
  p.program.blocks[2].segments[0].first_step = 0;
  const uint32_t rows = p.symbol("rows", 7);
  const ExprRef rows_extent = p.symbol_expr(rows);
  const ValueRef branch = p.value("branch", DType::kF32, {rows_extent, four}, p.times({rows_extent, four, four}));
  p.step(0, IfStep{condition, kNone, 1, 2, {branch}, {{rows, 0, 0}}, "If node"});
  p.segment(0, 7);
  const uint32_t body_rows = p.symbol("body rows", 8), last_rows = p.symbol("last rows", 9),
                 trips = p.symbol("trips", 9);
  const ExprRef body_extent = p.symbol_expr(body_rows);
  const ValueRef iteration = p.value("i", DType::kI64, {}, eight, Storage::kInput),
                 carried = p.value("carried", DType::kF32, {body_extent, four}, p.times({body_extent, four, four}),
                                   Storage::kInput);
  const ValueRef next = p.value("next", DType::kF32, {body_extent, four}, p.times({body_extent, four, four}));
  p.program.blocks[3].inputs = {iteration, carried};
  p.segment(3, 8);
  p.step(
      3,
      LaunchStep{
          {{map, kNone, one, zero}}, {carried, w, next}, 1, {body_extent, one}, body_extent, body_extent, "Tanh node"});
  p.program.blocks[3].outputs = {condition, next, next};
  const ExprRef last_extent = p.symbol_expr(last_rows), trips_extent = p.symbol_expr(trips);
  const ValueRef last = p.value("last", DType::kF32, {last_extent, four}, p.times({last_extent, four, four})),
                 scanned = p.value("scanned", DType::kF32, {trips_extent, last_extent, four},
                                   p.times({trips_extent, last_extent, four, four}));
  p.step(0, LoopStep{k,
                     condition,
                     {branch},
                     3,
                     {{body_rows, 0, 0}},
                     {last, scanned},
                     {{last_rows, 0, 0}, {trips, 1, 0}},
                     "Loop node"});
  p.segment(0, 9);

  // Segment of sequences: each of their steps.
  const ValueRef made = p.sequence("made", DType::kF32), inserted = p.sequence("inserted", DType::kF32),
                 erased = p.sequence("erased", DType::kF32), parts = p.sequence("parts", DType::kF32);
  const ValueRef length = p.value("length", DType::kI64, {}, eight);
  p.step(0, SequenceStep{SequenceOp::kConstruct, {a, b}, made, 0, false, {}, "SequenceConstruct node"});
  p.step(0, SequenceStep{SequenceOp::kInsert, {made, last, k}, inserted, 0, false, {}, "SequenceInsert node"});
  p.step(0, SequenceStep{SequenceOp::kErase, {inserted}, erased, 0, false, {}, "SequenceErase node"});
  p.step(0, SequenceStep{SequenceOp::kSplit, {a}, parts, -2, true, {}, "SplitToSequence node"});
  p.step(0, SequenceStep{SequenceOp::kLength, {parts}, length, 0, false, {}, "SequenceLength node"});
  const uint32_t element = p.symbol("element", 10);
  const ExprRef element_extent = p.symbol_expr(element);
  const ValueRef picked = p.value("picked", DType::kF32, {element_extent, four}, p.times({element_extent, four, four}));
  p.step(0, SequenceStep{SequenceOp::kAt, {list, k}, picked, 0, false, {{element, 0, 0}}, "SequenceAt node"});
  p.segment(0, 10);
  const uint32_t joined = p.symbol("joined", 11);
  const ExprRef joined_extent = p.symbol_expr(joined);
  const ValueRef whole_list =
      p.value("whole", DType::kF32, {joined_extent, four}, p.times({joined_extent, four, four}));
  p.step(0, SequenceStep{
                SequenceOp::kConcat, {erased}, whole_list, 0, false, {{joined, 0, 0}}, "ConcatFromSequence node"});
  p.segment(0, 11);
  p.program.outputs = {{"y", top},       {"indices", at},    {"where", where},   {"scanned", scanned},
                       {"parts", parts}, {"length", length}, {"picked", picked}, {"whole", whole_list}};
  for (const OutputSpec& o : p.program.outputs) p.program.blocks[0].outputs.push_back(o.value);
  return std::move(p.program);
}

}  // namespace stax::program
