// SPDX-License-Identifier: Apache-2.0
// Literals that keep equal kernels apart.
//
// Kernels of equal text are compiled once, so that the layers of a network cost the compile time of one. Scales and zero points of a quantized model
// are literals in the bodies, other ones in each layer, and no two kernels are equal any more. Here they become elements of a constant operand of
// each op, read once before the loops, and the text is one again.
//
// Ops are alike if they differ in nothing but the values of literals. Of alike ops the bodies are walked side by side, as far as they are not the same
// node: where the literals differ, all of them read the same element of the operand; literals that are the same everywhere stay. 0, 1 and values without a number
// are told apart from others, because simplifications and schedulers know them; so are bodies of reductions, whose form decides how they are scheduled.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "support/error.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;

namespace {

using Words = std::vector<uint64_t>;

uint64_t word_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

bool may_be_hoisted(Scalar x) {
  if (x->kind != ScalarKind::kConstant) return false;
  if (x->dtype == DType::kI32) return x->as_int() != 0 && x->as_int() != 1;
  if (x->dtype != DType::kF32 && x->dtype != DType::kF64) return false;
  const double value = x->as_double();
  return std::isfinite(value) && value != 0 && value != 1;
}

/// A Compute or RowGroup: one kernel.
struct Unit {
  Op* op = nullptr;
  std::vector<Op*> computes;  // itself, or the ops of the body
};

/// What ops say without the values of their literals, as words that are equal for alike ops.
class Outlines {
 public:
  Words of(const Unit& unit) {
    Words words;
    for (const Value* v : unit.op->operands) add(words, v->type);
    if (const RowGroup* group = unit.op->as<RowGroup>()) {
      add(words, group->rows);
      std::unordered_map<const Value*, uint64_t> places;
      for (const auto& v : group->body->inputs) places.emplace(v.get(), places.size());
      for (const Op* op : unit.computes) places.emplace(op->result(), places.size());
      for (const Op* op : unit.computes) {
        words.push_back(op->operands.size());
        for (const Value* v : op->operands) words.push_back(places.at(v));
      }
      for (const Value* v : group->body->outputs) words.push_back(places.at(v));
    }
    for (const Op* op : unit.computes) {
      const Compute& c = *op->as<Compute>();
      add(words, op->result()->type);
      add(words, c.axes);
      add(words, c.reductions);
      words.push_back(static_cast<uint64_t>(c.combiner));
      words.push_back(static_cast<uint64_t>(c.accumulate));
      words.push_back(c.combiner == Combiner::kNone ? outline(c.body) : word_of(c.body.node()));
      words.push_back(c.epilogue ? outline(c.epilogue) : 0);
    }
    return words;
  }

 private:
  static void add(Words& words, const Type& type) {
    words.push_back(static_cast<uint64_t>(type.dtype));
    words.push_back(type.extents.size());
    for (Expr e : type.extents) words.push_back(word_of(e.node()));
  }
  static void add(Words& words, const std::vector<Axis>& axes) {
    words.push_back(axes.size());
    for (const Axis& a : axes) {
      words.push_back(word_of(a.var.node()));
      words.push_back(word_of(a.extent.node()));
    }
  }

  /// Whether code for an argument does not depend on its value if it is a literal. Exponents, divisors and bounds of ranges have cases of their own.
  static bool is_only_a_number(Scalar op, Scalar argument) {
    if (op->kind != ScalarKind::kOp || argument->kind != ScalarKind::kConstant) return true;
    if (op->op == ScalarOp::kDiv) return op->dtype == DType::kF64;
    return op->op == ScalarOp::kAdd || op->op == ScalarOp::kSub || op->op == ScalarOp::kMul;
  }

  /// A number that is the same for scalars that differ in the values of literals only.
  uint64_t outline(Scalar root) {
    ir::visit(root, [&](Scalar x) {
      if (known_.contains(x.node())) return;
      Words words{static_cast<uint64_t>(x->kind), static_cast<uint64_t>(x->dtype)};
      if (may_be_hoisted(x)) {
        words.push_back(~uint64_t{0});
      } else if (x->args.empty()) {
        words.push_back(word_of(x.node()));
      } else {
        words.push_back(static_cast<uint64_t>(x->op));
        words.push_back(static_cast<uint64_t>(x->slot));
        for (Scalar a : x->args) words.push_back(is_only_a_number(x, a) ? known_.at(a.node()) : ~word_of(a.node()));
      }
      known_.emplace(x.node(), numbers_.emplace(std::move(words), numbers_.size() + 1).first->second);
    });
    return known_.at(root.node());
  }

  std::unordered_map<const ir::ScalarNode*, uint64_t> known_;
  std::map<Words, uint64_t> numbers_;
};

/// Alike ops on their way to a common text.
class Hoister {
 public:
  Hoister(Graph& graph, const std::vector<Unit>& units) : graph_(graph), units_(units) {}

  bool run() {
    for (compute_ = 0; compute_ < units_[0].computes.size(); ++compute_) {
      merged_.clear();
      read_.emplace_back();
      const Compute c = *units_[0].computes[compute_]->as<Compute>();
      if (c.combiner == Combiner::kNone) merge_scalars(&Compute::body);
      if (c.epilogue) merge_scalars(&Compute::epilogue);
    }
    for (size_t u = 0; u < units_.size() && !values_.empty(); ++u) add_operands(u);
    return !values_.empty();
  }

 private:
  using Literals = std::vector<Scalar>;  // one for each unit

  void merge_scalars(Scalar Compute::* which) {
    std::vector<Scalar> roots;
    for (const Unit& unit : units_) roots.push_back(unit.computes[compute_]->as<Compute>()->*which);
    const Scalar common = merge(roots);
    for (const Unit& unit : units_) unit.computes[compute_]->as<Compute>()->*which = common;
  }

  Scalar merge(const std::vector<Scalar>& alike) {
    const Scalar first = alike[0];
    if (std::all_of(alike.begin(), alike.end(), [&](Scalar x) { return x == first; })) return first;
    Words key;
    for (Scalar x : alike) key.push_back(word_of(x.node()));
    if (const auto known = merged_.find(key); known != merged_.end()) return known->second;
    ir::ScalarTable& table = graph_.scalars();
    std::vector<Scalar> args;
    for (size_t k = 0; k < first->args.size(); ++k) {
      std::vector<Scalar> inner;
      for (Scalar x : alike) inner.push_back(x->args[k]);
      args.push_back(merge(inner));
    }
    Scalar result;
    switch (first->kind) {
      case ScalarKind::kOp: result = table.op(first->op, std::move(args)); break;
      case ScalarKind::kCast: result = table.cast(first->dtype, args[0]); break;
      case ScalarKind::kLoad: result = table.load(first->slot, first->dtype, std::move(args)); break;
      case ScalarKind::kConstant: result = element(alike); break;
      case ScalarKind::kIndex:
      case ScalarKind::kAccumulator: STAX_UNREACHABLE();
    }
    merged_.emplace(std::move(key), result);
    return result;
  }

  /// Of the operand. What f32 holds is stored as that: quotients of two f32 values that files ask for in f64 are recognized by their casts.
  Scalar element(const Literals& literals) {
    ir::ScalarTable& table = graph_.scalars();
    const DType dtype = literals[0]->dtype;
    const bool is_single = dtype == DType::kF64 && std::all_of(literals.begin(), literals.end(), [](Scalar x) {
                             return static_cast<double>(static_cast<float>(x->as_double())) == x->as_double();
                           });
    const DType stored = is_single ? DType::kF32 : dtype;
    std::vector<Literals>& list = values_[stored];
    auto at = std::find(list.begin(), list.end(), literals);
    if (at == list.end()) at = list.insert(at, literals);
    return table.cast(dtype,
                      table.load(slot_of(stored), stored, {table.index(graph_.exprs().constant(at - list.begin()))}));
  }

  /// The operand of the op at hand that the values of a dtype will be.
  int slot_of(DType dtype) {
    std::vector<DType>& read = read_[compute_];
    auto at = std::find(read.begin(), read.end(), dtype);
    if (at == read.end()) at = read.insert(at, dtype);
    return static_cast<int>(units_[0].computes[compute_]->operands.size() + (at - read.begin()));
  }

  void add_operands(size_t u) {
    const Unit& unit = units_[u];
    std::map<DType, Value*> operands;
    for (const auto& [dtype, list] : values_) {
      ir::Literal values(dtype, {static_cast<int64_t>(list.size())});
      for (size_t k = 0; k < list.size(); ++k) {
        if (ir::is_float(dtype)) {
          values.set(static_cast<int64_t>(k), {.f = list[k][u]->as_double()});
        } else {
          values.set(static_cast<int64_t>(k), {.i = list[k][u]->as_int()});
        }
      }
      const Type type = Type::tensor(dtype, {graph_.exprs().constant(static_cast<int64_t>(list.size()))});
      Op* constant =
          graph_.add_op(*unit.op->block, Constant{std::move(values)}, {}, {type}, {}, unit.op->source, unit.op);
      Value*& v = operands[dtype] = constant->result();
      if (RowGroup* group = unit.op->as<RowGroup>()) {
        unit.op->operands.push_back(v);
        v = graph_.add_input(*group->body, type, {});
      }
    }
    for (size_t k = 0; k < unit.computes.size(); ++k)
      for (DType dtype : read_[k]) unit.computes[k]->operands.push_back(operands.at(dtype));
  }

  Graph& graph_;
  const std::vector<Unit>& units_;
  size_t compute_ = 0;                    // the one at hand
  std::map<Words, Scalar> merged_;        // of it
  std::vector<std::vector<DType>> read_;  // by each, in the order of the operands that they will be
  std::map<DType, std::vector<Literals>> values_;
};

}  // namespace

bool hoist_literals(Graph& graph) {
  Outlines outlines;
  std::map<Words, std::vector<Unit>> alike;
  std::vector<const std::vector<Unit>*> groups;  // in the order of the graph: addresses decide nothing
  const auto add = [&](Unit unit) {
    std::vector<Unit>& units = alike[outlines.of(unit)];
    if (units.empty()) groups.push_back(&units);
    units.push_back(std::move(unit));
  };
  for_each_op(graph.body, [&](Op& op) {
    if (op.kind() == OpKind::kCompute &&
        (op.block->parent == nullptr || op.block->parent->kind() != OpKind::kRowGroup)) {
      add({&op, {&op}});
    } else if (const RowGroup* group = op.as<RowGroup>()) {
      Unit unit{&op, {}};
      for (const auto& inner : group->body->ops) unit.computes.push_back(inner.get());
      add(std::move(unit));
    }
  });
  bool changed = false;
  for (const std::vector<Unit>* units : groups)
    if (units->size() > 1) changed |= Hoister(graph, *units).run();
  return changed;
}

}  // namespace stax::tensor
