// SPDX-License-Identifier: Apache-2.0
// Every reference in range; every value made, and every expression computed, before it is used and where it is seen: what a body makes ends with
// it. A program that passes cannot make the runtime read outside of its tables, whatever file it came from.
#include "program/steps.h"
#include "support/error.h"

namespace stax::program {
namespace {

class Verifier {
 public:
  Verifier(const Program& p, Stage stage)
      : p_(p),
        placed_(stage == Stage::kPlaced),
        made_(p.values.size(), false),
        seen_(p.blocks.size(), false),
        computed_(p.exprs.nodes().size(), false) {}

  void run() {
    // Until memory is planned, symbols that are never defined are left out at the end.
    STAX_ASSERT(placed_ ? p_.symbol_points.size() == p_.symbols.size() : p_.symbol_points.size() <= p_.symbols.size(),
                "symbol points");
    const auto& nodes = p_.exprs.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      STAX_ASSERT(static_cast<uint8_t>(nodes[n].kind) <= static_cast<uint8_t>(symbolic::ExprKind::kSelect),
                  "expression kind");
      for (uint32_t a : nodes[n].args) STAX_ASSERT(a < n, "expression {} uses a later one", n);
      size_t args = nodes[n].args.size();
      switch (nodes[n].kind) {
        case symbolic::ExprKind::kConstant: STAX_ASSERT(args == 0); break;
        case symbolic::ExprKind::kSymbol:
          STAX_ASSERT(args == 0 && nodes[n].value >= 0 && static_cast<size_t>(nodes[n].value) < p_.symbols.size(),
                      "symbol of expression {}", n);
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
      STAX_ASSERT(static_cast<int>(v.dtype) < ir::kDTypeCount &&
                      static_cast<int>(v.storage) <= static_cast<int>(Storage::kOwned),
                  "value kind");
      for (ExprRef e : v.extents) expr(e);
      if (v.rank != kNone) expr(v.rank);
      if (v.bytes != kNone) expr(v.bytes);
      if (!v.is_sequence) STAX_ASSERT(v.bytes != kNone, "size of a tensor");
      if (v.storage == Storage::kConstant) {
        STAX_ASSERT(v.index < p_.constants.size() && p_.constants[v.index].dtype() == v.dtype, "constant");
        STAX_ASSERT(p_.constants[v.index].extents().size() == v.extents.size(), "rank of a constant");
        for (size_t d = 0; d < v.extents.size(); ++d) {
          const auto& n = nodes[v.extents[d]];
          STAX_ASSERT(n.kind == symbolic::ExprKind::kConstant && n.value == p_.constants[v.index].extents()[d],
                      "extent of a constant");
        }
      }
    }
    for (size_t v = 0; v < p_.values.size(); ++v) {  // no alias of itself, however long the chain
      if (p_.values[v].storage == Storage::kConstant) made_[v] = true;
      if (p_.values[v].storage == Storage::kAlias) STAX_ASSERT(p_.values[v].index < v, "alias of a later value");
      STAX_ASSERT(placed_ || p_.values[v].storage != Storage::kArena, "%{} has a place before memory is planned", v);
      if (p_.values[v].storage == Storage::kArena) expr(p_.values[v].offset);
    }
    for (const InputSpec& i : p_.inputs) {
      STAX_ASSERT(i.value < p_.values.size() && p_.values[i.value].storage == Storage::kInput, "input '{}'", i.name);
      STAX_ASSERT(p_.values[i.value].is_sequence || i.dims.size() == p_.values[i.value].extents.size(),
                  "rank of input '{}'", i.name);
      STAX_ASSERT(i.rank_symbol == kNone || i.rank_symbol < p_.symbols.size(), "rank of input '{}'", i.name);
      for (const DimSpec& d : i.dims)
        STAX_ASSERT(d.symbol == kNone || d.symbol < p_.symbols.size(), "dim of input '{}'", i.name);
    }
    for (const KernelSpec& k : p_.kernels) STAX_ASSERT(!k.entry.empty(), "kernel without entry");
    STAX_ASSERT(!p_.blocks.empty(), "no block");
    block(0);
    for (const OutputSpec& o : p_.outputs) use(o.value);
  }

 private:
  void expr(ExprRef e) const {
    STAX_ASSERT(e < p_.exprs.nodes().size(), "expression {} of {}", e, p_.exprs.nodes().size());
  }
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
    for (size_t s = 1; s < b.segments.size(); ++s)
      STAX_ASSERT(
          b.segments[s].first_step >= b.segments[s - 1].first_step && b.segments[s].first_step <= b.steps.size(),
          "segment order");
    size_t made = made_list_.size(), computed = computed_list_.size();
    for (ValueRef v : b.inputs) {
      STAX_ASSERT(v < p_.values.size() && p_.values[v].storage == Storage::kInput, "input of block {}", number);
      make(v);
    }
    size_t segment = 0;
    std::vector<ValueRef> beside;  // results of loops that may run at the same time: none of these loops has them
    enter(b.segments[0]);
    for (size_t s = 0; s < b.steps.size(); ++s) {
      const Step& step = b.steps[s];
      while (segment + 1 < b.segments.size() && b.segments[segment + 1].first_step == s) enter(b.segments[++segment]);
      for_each_expr(step, [&](ExprRef e) { computed_expr(e); });
      if (const auto* l = std::get_if<LaunchStep>(&step)) {
        STAX_ASSERT(!l->versions.empty() && !l->arguments.empty(), "versions of a launch");
        for (const LaunchVersion& v : l->versions) STAX_ASSERT(v.kernel < p_.kernels.size(), "kernel of a launch");
        STAX_ASSERT(l->versions.back().guard == kNone, "the last version of a launch takes any shape");
        STAX_ASSERT(l->results >= 1 && l->results <= l->arguments.size(), "results of a launch");
        for (size_t k = 0; k < l->arguments.size(); ++k) {
          STAX_ASSERT(l->arguments[k] < p_.values.size() && !p_.values[l->arguments[k]].is_sequence,
                      "argument of a launch");
          if (k + l->results < l->arguments.size()) use(l->arguments[k]);
        }
      } else {
        for_each_operand(step, [&](ValueRef v) { use(v), sized(v); });
      }
      for_each_result(step, [&](ValueRef v) {
        STAX_ASSERT(v < p_.values.size(), "result %{}", v);
        if (made_[v]) return;
        Storage storage = p_.values[v].storage;
        STAX_ASSERT(storage != Storage::kInput && storage != Storage::kConstant, "%{} is made by a step", v);
        if (storage == Storage::kArena) {
          STAX_ASSERT(p_.values[v].arena_segment <= segment, "arena segment of %{}", v);
          computed_expr(p_.values[v].offset);
        }
        bool allocated_before = std::holds_alternative<LaunchStep>(step) || std::holds_alternative<CopyStep>(step) ||
                                storage == Storage::kArena;
        if (const auto* p = std::get_if<ProcedureStep>(&step))
          allocated_before |= p->procedure == Procedure::kTopK || p->procedure == Procedure::kDeterminant;
        if (allocated_before) computed_expr(p_.values[v].bytes);
      });
      std::visit([this](const auto& exactly) { exact(exactly); }, step);
      for_each_result(step, [&](ValueRef v) { beside.push_back(v); });
      if (const auto* loop = std::get_if<LoopStep>(&step); loop && loop->beside_next) {
        const auto* next = s + 1 < b.steps.size() ? std::get_if<LoopStep>(&b.steps[s + 1]) : nullptr;
        STAX_ASSERT(next && loop->bindings.empty() && next->bindings.empty(), "a loop beside what is no loop");
        continue;
      }
      for (ValueRef v : beside) make(v);
      beside.clear();
    }
    while (segment + 1 < b.segments.size()) enter(b.segments[++segment]);
    for (ValueRef v : b.outputs) use(v), sized(v);
    // From here on: what is the block's own is not seen.
    if (number == 0) return;
    for (; made_list_.size() > made; made_list_.pop_back()) made_[made_list_.back()] = false;
    for (; computed_list_.size() > computed; computed_list_.pop_back()) computed_[computed_list_.back()] = false;
  }

  void make(ValueRef v) {
    if (!made_[v]) made_[v] = true, made_list_.push_back(v);
  }
  void enter(const Segment& s) {
    STAX_ASSERT(placed_ || (s.nodes.empty() && s.arena_bytes == kNone), "a segment is planned before memory is");
    for (ExprRef e : s.nodes) {
      expr(e);
      const symbolic::FlatNode& n = p_.exprs.nodes()[e];
      for (uint32_t a : n.args) computed_expr(a);
      if (n.kind == symbolic::ExprKind::kSymbol)
        STAX_ASSERT(p_.symbol_points[static_cast<size_t>(n.value)] == s.point, "symbol {} is not known here", n.value);
      if (!computed_[e]) computed_[e] = true, computed_list_.push_back(e);
    }
    if (s.arena_bytes != kNone) computed_expr(s.arena_bytes);
  }
  void computed_expr(ExprRef e) const {
    expr(e);
    STAX_ASSERT(!placed_ || computed_[e], "expression {} is used before it is computed", e);
  }
  /// Extents that the runtime looks at.
  void sized(ValueRef v) const {
    for (ExprRef e : p_.values[v].extents) computed_expr(e);
    if (p_.values[v].rank != kNone) computed_expr(p_.values[v].rank);
  }

  size_t rank(ValueRef v) const { return p_.values[v].extents.size(); }
  bool is_sequence(ValueRef v) const { return p_.values[v].is_sequence; }
  void tensor(ValueRef v) const { STAX_ASSERT(!is_sequence(v), "%{} is a sequence where a tensor is needed", v); }
  void axis(int64_t a, ValueRef v) const {
    STAX_ASSERT(a >= 0 && static_cast<size_t>(a) < rank(v), "axis {} of %{}", a, v);
  }

  /// `sources` of an output: values whose extents may be what is bound.
  template <class Sources>
  void bindings(const std::vector<ExtentBinding>& list, size_t outputs, const Sources& sources) const {
    for (const ExtentBinding& b : list) {
      STAX_ASSERT(b.symbol < p_.symbols.size() && b.output < outputs, "extent binding");
      for (ValueRef v : sources(b.output))
        STAX_ASSERT(!is_sequence(v) && (b.axis == kNone || b.axis < rank(v)), "axis of an extent binding");
    }
  }

  void exact(const CopyStep& s) const { tensor(s.from), tensor(s.to); }
  void exact(const LaunchStep&) const {}
  void exact(const CheckStep&) const {}
  void exact(const AliasStep& s) const {
    tensor(s.from), tensor(s.to);
    STAX_ASSERT(p_.values[s.to].storage == Storage::kAlias, "an alias with memory of its own");
  }
  void exact(const ReshapeDynamicStep& s) const {
    tensor(s.data), tensor(s.shape), tensor(s.result);
    STAX_ASSERT(s.defines.size() == 1 + kMostAxes && rank(s.result) == kMostAxes, "defines of a reshape");
    for (uint32_t d : s.defines) symbol(d);
    STAX_ASSERT(p_.values[s.shape].dtype == DType::kI64, "type of a shape");
  }
  void exact(const BindStep& s) const {
    tensor(s.value);
    STAX_ASSERT(!ir::is_float(p_.values[s.value].dtype), "a bound value that is no integer");
    // Where an extent is known at the call only, the step itself looks at the count.
    int64_t elements = 1;
    bool known = true;
    for (ExprRef e : p_.values[s.value].extents) {
      known = known && p_.exprs.nodes()[e].kind == symbolic::ExprKind::kConstant;
      if (known) elements = symbolic::saturating_mul(elements, p_.exprs.nodes()[e].value);
    }
    STAX_ASSERT(!known || (elements >= 0 && static_cast<uint64_t>(elements) >= s.defines.size()),
                "elements of a bound value");
    for (uint32_t d : s.defines) symbol(d);
  }
  void exact(const ProcedureStep& s) const {
    constexpr size_t kOperands[] = {1, 1, 1, 5, 1};
    STAX_ASSERT(static_cast<size_t>(s.procedure) < 5 &&
                    s.operands.size() >= kOperands[static_cast<size_t>(s.procedure)] && !s.results.empty(),
                "procedure");
    for (ValueRef v : s.operands) tensor(v);
    for (ValueRef v : s.results) tensor(v);
    switch (s.procedure) {
      case Procedure::kTopK:
        axis(s.axis, s.operands[0]);
        STAX_ASSERT(rank(s.results[0]) == rank(s.operands[0]), "rank of a result of top_k");
        computed_expr(p_.values[s.results[0]].extents[static_cast<size_t>(s.axis)]);
        return;
      case Procedure::kDeterminant: STAX_ASSERT(rank(s.operands[0]) >= 2, "rank of a determinant's operand"); return;
      case Procedure::kUnique:
        if (s.axis != -1) axis(s.axis, s.operands[0]);
        break;
      case Procedure::kNonZero:
      case Procedure::kNonMaxSuppression: break;
    }
    symbol(s.defines);
  }
  void exact(const IfStep& s) {
    STAX_ASSERT((s.condition == kNone) != (s.known == kNone), "what decides between the branches");
    if (s.condition != kNone) tensor(s.condition);
    for (uint32_t n : {s.then_block, s.else_block}) {
      block(n);
      const BlockSpec& b = p_.blocks[n];
      STAX_ASSERT(b.outputs.size() == s.results.size(), "outputs of a branch");
      for (size_t k = 0; k < s.results.size(); ++k)
        STAX_ASSERT(is_sequence(b.outputs[k]) == is_sequence(s.results[k]), "kind of a branch's output");
    }
    bindings(s.bindings, s.results.size(), [&](uint32_t output) { return std::vector<ValueRef>{s.results[output]}; });
  }
  void exact(const LoopStep& s) {
    for (ValueRef v : {s.trip_count, s.condition})
      if (v != kNone) tensor(v);
    block(s.body);
    const BlockSpec& body = p_.blocks[s.body];
    size_t carried = s.initial.size();
    STAX_ASSERT(body.inputs.size() == carried + 1, "inputs of a loop body");
    STAX_ASSERT(body.outputs.size() == s.results.size() || body.outputs.size() == s.results.size() + 1,
                "outputs of a loop body");
    STAX_ASSERT(s.results.size() >= carried, "results of a loop");
    size_t first = body.outputs.size() - s.results.size();
    if (first == 1) tensor(body.outputs[0]);
    for (size_t k = 0; k < s.results.size(); ++k) {
      bool sequence = is_sequence(s.results[k]);
      STAX_ASSERT(is_sequence(body.outputs[first + k]) == sequence, "kind of a body's output");
      if (k < carried)
        STAX_ASSERT(is_sequence(s.initial[k]) == sequence && is_sequence(body.inputs[k + 1]) == sequence,
                    "kind of a carried value");
      else
        STAX_ASSERT(!sequence, "a scanned sequence");
    }
    bindings(s.body_bindings, carried,
             [&](uint32_t output) { return std::vector<ValueRef>{s.initial[output], body.outputs[first + output]}; });
    bindings(s.bindings, s.results.size(), [&](uint32_t output) { return std::vector<ValueRef>{s.results[output]}; });
  }
  void exact(const SequenceStep& s) const {
    constexpr size_t kOperands[] = {0, 2, 1, 2, 1, 1, 1};
    STAX_ASSERT(static_cast<size_t>(s.op) < 7 && s.operands.size() >= kOperands[static_cast<size_t>(s.op)],
                "sequence step");
    bool takes_sequence = s.op != SequenceOp::kConstruct && s.op != SequenceOp::kSplit;
    bool gives_sequence = s.op == SequenceOp::kConstruct || s.op == SequenceOp::kInsert || s.op == SequenceOp::kErase ||
                          s.op == SequenceOp::kSplit;
    for (size_t k = 0; k < s.operands.size(); ++k)
      STAX_ASSERT(is_sequence(s.operands[k]) == (takes_sequence && k == 0), "operand of a sequence step");
    STAX_ASSERT(is_sequence(s.result) == gives_sequence, "result of a sequence step");
    bindings(s.bindings, 1, [&](uint32_t) { return std::vector<ValueRef>{s.result}; });
    if (s.op == SequenceOp::kSplit)
      axis(s.axis < 0 ? s.axis + static_cast<int64_t>(rank(s.operands[0])) : s.axis, s.operands[0]);
  }
  static constexpr size_t kMostAxes = 8;  // of a value of run-time rank

  const Program& p_;
  const bool placed_;
  std::vector<bool> made_, seen_, computed_;
  std::vector<ValueRef> made_list_;  // in order, so that what a block makes can be taken back
  std::vector<ExprRef> computed_list_;
};

}  // namespace

void verify(const Program& program, Stage stage) { Verifier(program, stage).run(); }

}  // namespace stax::program
