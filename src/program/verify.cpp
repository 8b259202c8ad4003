// SPDX-License-Identifier: Apache-2.0
// Every reference in range, every value made before it is used, every expression after its arguments. A program that passes cannot make the
// runtime read outside of its tables, whatever file it came from.
#include "program/steps.h"
#include "support/error.h"

namespace stax::program {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p), made_(p.values.size(), false), seen_(p.blocks.size(), false), computed_(p.exprs.nodes().size(), false) {}

  void run() {
    STAX_ASSERT(p_.symbol_points.size() == p_.symbols.size(), "symbol points");
    const auto& nodes = p_.exprs.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      STAX_ASSERT(static_cast<uint8_t>(nodes[n].kind) <= static_cast<uint8_t>(symbolic::ExprKind::kSelect), "expression kind");
      for (uint32_t a : nodes[n].args) STAX_ASSERT(a < n, "expression {} uses a later one", n);
      size_t args = nodes[n].args.size();
      switch (nodes[n].kind) {
        case symbolic::ExprKind::kConstant: STAX_ASSERT(args == 0); break;
        case symbolic::ExprKind::kSymbol:
          STAX_ASSERT(args == 0 && nodes[n].value >= 0 && static_cast<size_t>(nodes[n].value) < p_.symbols.size(), "symbol of expression {}", n);
          break;
        case symbolic::ExprKind::kSelect: STAX_ASSERT(args == 3); break;
        case symbolic::ExprKind::kFloorDiv:
        case symbolic::ExprKind::kMod:
        case symbolic::ExprKind::kLess:
        case symbolic::ExprKind::kEqual: STAX_ASSERT(args == 2); break;
        case symbolic::ExprKind::kAdd:
        case symbolic::ExprKind::kMul:
        case symbolic::ExprKind::kMin:
        case symbolic::ExprKind::kMax: STAX_ASSERT(args >= 1); break;
      }
    }
    for (const ValueSpec& v : p_.values) {
      STAX_ASSERT(static_cast<int>(v.dtype) < ir::kDTypeCount && static_cast<int>(v.storage) <= static_cast<int>(Storage::kOwned), "value kind");
      for (ExprRef e : v.extents) expr(e);
      if (v.rank != kNone) expr(v.rank);
      if (v.bytes != kNone) expr(v.bytes);
      if (!v.is_sequence) STAX_ASSERT(v.bytes != kNone, "size of a tensor");
      if (v.storage == Storage::kConstant) {
        STAX_ASSERT(v.index < p_.constants.size() && p_.constants[v.index].dtype() == v.dtype, "constant");
        STAX_ASSERT(p_.constants[v.index].extents().size() == v.extents.size(), "rank of a constant");
        for (size_t d = 0; d < v.extents.size(); ++d) {
          const auto& n = nodes[v.extents[d]];
          STAX_ASSERT(n.kind == symbolic::ExprKind::kConstant && n.value == p_.constants[v.index].extents()[d], "extent of a constant");
        }
      }
    }
    for (size_t v = 0; v < p_.values.size(); ++v) {   // no alias of itself, however long the chain
      if (p_.values[v].storage == Storage::kConstant) made_[v] = true;
      if (p_.values[v].storage == Storage::kAlias) STAX_ASSERT(p_.values[v].index < v, "alias of a later value");
      if (p_.values[v].storage == Storage::kArena) expr(p_.values[v].offset);
    }
    for (const InputSpec& i : p_.inputs) {
      STAX_ASSERT(i.value < p_.values.size() && p_.values[i.value].storage == Storage::kInput, "input '{}'", i.name);
      STAX_ASSERT(p_.values[i.value].is_sequence || i.dims.size() == p_.values[i.value].extents.size(), "rank of input '{}'", i.name);
      STAX_ASSERT(i.rank_symbol == kNone || i.rank_symbol < p_.symbols.size(), "rank of input '{}'", i.name);
      for (const DimSpec& d : i.dims) STAX_ASSERT(d.symbol == kNone || d.symbol < p_.symbols.size(), "dim of input '{}'", i.name);
    }
    for (const KernelSpec& k : p_.kernels) STAX_ASSERT(!k.entry.empty(), "kernel without entry");
    STAX_ASSERT(!p_.blocks.empty(), "no block");
    block(0);
    for (const OutputSpec& o : p_.outputs) use(o.value);
  }

 private:
  void expr(ExprRef e) const { STAX_ASSERT(e < p_.exprs.nodes().size(), "expression {} of {}", e, p_.exprs.nodes().size()); }
  void use(ValueRef v) const {
    STAX_ASSERT(v < p_.values.size(), "value {} of {}", v, p_.values.size());
    STAX_ASSERT(made_[v], "value %{} '{}' is used before it is made", v, p_.values[v].name);
  }
  void symbol(uint32_t s) const { STAX_ASSERT(s < p_.symbols.size(), "symbol {}", s); }

  void block(uint32_t number) {
    STAX_ASSERT(number < p_.blocks.size() && !seen_[number], "block {}", number);
    seen_[number] = true;
    const BlockSpec& b = p_.blocks[number];
    STAX_ASSERT(!b.segments.empty() && b.segments[0].first_step == 0, "segments of block {}", number);
    for (size_t s = 0; s < b.segments.size(); ++s) {
      if (s > 0) STAX_ASSERT(b.segments[s].first_step >= b.segments[s - 1].first_step && b.segments[s].first_step <= b.steps.size(), "segment order");
      for (ExprRef e : b.segments[s].nodes) expr(e);
      if (b.segments[s].arena_bytes != kNone) expr(b.segments[s].arena_bytes);
    }
    for (ValueRef v : b.inputs) {
      STAX_ASSERT(v < p_.values.size() && p_.values[v].storage == Storage::kInput, "input of block {}", number);
      made_[v] = true;
    }
    for (const Step& step : b.steps) {
      for_each_expr(step, [&](ExprRef e) { expr(e); });
      if (const auto* l = std::get_if<LaunchStep>(&step)) {
        STAX_ASSERT(!l->versions.empty() && !l->arguments.empty(), "versions of a launch");
        for (const LaunchVersion& v : l->versions) STAX_ASSERT(v.kernel < p_.kernels.size(), "kernel of a launch");
        STAX_ASSERT(l->versions.back().guard == kNone, "the last version of a launch takes any shape");
        // All arguments but the last are read.
        for (size_t k = 0; k < l->arguments.size(); ++k) {
          STAX_ASSERT(l->arguments[k] < p_.values.size() && !p_.values[l->arguments[k]].is_sequence, "argument of a launch");
          if (k + 1 < l->arguments.size()) use(l->arguments[k]);
        }
      } else {
        for_each_operand(step, [&](ValueRef v) { use(v); });
      }
      for_each_block(step, [&](uint32_t n) { block(n); });
      exact(step);
      for_each_result(step, [&](ValueRef v) {
        STAX_ASSERT(v < p_.values.size(), "result %{}", v);
        if (!made_[v] && p_.values[v].storage == Storage::kArena) STAX_ASSERT(p_.values[v].arena_segment < b.segments.size(), "arena segment of %{}", v);
        made_[v] = true;
      });
    }
    for (ValueRef v : b.outputs) use(v);
  }

  void bindings(const std::vector<ExtentBinding>& list, size_t outputs) const {
    for (const ExtentBinding& b : list) STAX_ASSERT(b.symbol < p_.symbols.size() && b.output < outputs, "extent binding");
  }

  void exact(const Step& step) const {
    if (const auto* s = std::get_if<ReshapeDynamicStep>(&step)) {
      STAX_ASSERT(s->defines.size() >= 1, "defines of a reshape");
      for (uint32_t d : s->defines) symbol(d);
      STAX_ASSERT(p_.values[s->shape].dtype == DType::kI64, "type of a shape");
    } else if (const auto* b = std::get_if<BindStep>(&step)) {
      for (uint32_t d : b->defines) symbol(d);
    } else if (const auto* p = std::get_if<ProcedureStep>(&step)) {
      if (p->defines != kNone) symbol(p->defines);
      constexpr size_t kOperands[] = {1, 1, 1, 5, 1};
      STAX_ASSERT(static_cast<size_t>(p->procedure) < 5 && p->operands.size() >= kOperands[static_cast<size_t>(p->procedure)] && !p->results.empty(), "procedure");
    } else if (const auto* i = std::get_if<IfStep>(&step)) {
      for (uint32_t n : {i->then_block, i->else_block}) STAX_ASSERT(p_.blocks[n].outputs.size() == i->results.size(), "outputs of a branch");
      bindings(i->bindings, i->results.size());
    } else if (const auto* l = std::get_if<LoopStep>(&step)) {
      const BlockSpec& body = p_.blocks[l->body];
      STAX_ASSERT(body.inputs.size() == l->initial.size() + 1, "inputs of a loop body");
      STAX_ASSERT(body.outputs.size() == l->results.size() || body.outputs.size() == l->results.size() + 1, "outputs of a loop body");
      STAX_ASSERT(l->results.size() >= l->initial.size(), "results of a loop");
      bindings(l->body_bindings, l->initial.size());
      bindings(l->bindings, l->results.size());
    } else if (const auto* q = std::get_if<SequenceStep>(&step)) {
      bindings(q->bindings, 1);
      constexpr size_t kOperands[] = {0, 2, 1, 2, 1, 1, 1};
      STAX_ASSERT(static_cast<size_t>(q->op) < 7 && q->operands.size() >= kOperands[static_cast<size_t>(q->op)], "sequence step");
      bool first_is_sequence = q->op != SequenceOp::kConstruct && q->op != SequenceOp::kSplit;
      if (first_is_sequence) STAX_ASSERT(p_.values[q->operands[0]].is_sequence, "operand of a sequence step");
    }
  }

  const Program& p_;
  std::vector<bool> made_, seen_, computed_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace stax::program
