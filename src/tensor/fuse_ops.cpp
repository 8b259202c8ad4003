// SPDX-License-Identifier: Apache-2.0
// Fusion: which values exist in memory, and which only inside the kernel that uses them.
//
// Ops are visited in order, so that a producer has taken in its own producers before its consumers look at it. A
// consumer then
//   1. takes in maps: the load of a map's element is replaced by the map's body at the load's indices. What that costs
//   is arithmetic done
//      again, once for each consumer and for each time that the consumer reads an element; what it brings is a value
//      that is neither written nor read. Cheap bodies go everywhere; expensive ones only into a sole consumer that
//      reads each element once;
//   2. if it is itself a map, becomes the epilogue of a reduction that it alone reads, point by point.
// A Reshape in between changes nothing in memory, so both see through it where the indices need no division.
//
// Contractions run at the speed of their inner loop, so their loads stay loads: only index maps that stay affine, casts
// and zero points are taken in, and only if the vector axis stays contiguous. So is padding around whole rows of channels:
// whether an element is there is then asked once for all channels.
//
// Every step removes one load of a map from a consumer and adds only loads of values that come earlier, so it ends.
#include <algorithm>

#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/fusion_cost.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;

namespace {

// A kernel beyond these takes longer to compile and runs out of registers.
constexpr size_t kMostNodes = 250;
constexpr size_t kMostOperands = 12;

// A body up to this much may be evaluated more than once for each element, or by more than one consumer.
constexpr int kCheapWeight = 16;
constexpr int kCheapLoads = 3;
constexpr int kSharedLoads = 2;

// A contraction whose vector axis is shorter runs element by element.
constexpr int64_t kLeastVector = 8;

/// Ops that read each value; null stands for a block's output. An op appears once for each operand.
class Users {
 public:
  explicit Users(Graph& graph) {
    add_outputs(graph.body);
    for_each_op(graph.body, [&](Op& op) {
      add(op);
      if (If* branch = op.as<If>()) {
        add_outputs(*branch->then_block);
        add_outputs(*branch->else_block);
      } else if (Loop* loop = op.as<Loop>()) {
        add_outputs(*loop->body);
      }
    });
  }
  const std::vector<Op*>& of(const Value* v) { return users_[v]; }
  bool is_sole(const Value* v, const Op& op) {
    const std::vector<Op*>& u = users_[v];
    return std::all_of(u.begin(), u.end(), [&](const Op* x) { return x == &op; });
  }
  void add(Op& op) {
    for (const Value* v : op.operands) users_[v].push_back(&op);
  }
  /// To be called before an op's operands change, or when it is dead; producers that nothing uses any more die with it.
  void remove(Op& op, const std::vector<Value*>& operands) {
    for (const Value* v : operands) {
      std::vector<Op*>& u = users_[v];
      const auto at = std::find(u.begin(), u.end(), &op);
      if (at != u.end()) u.erase(at);
      if (u.empty() && v->producer != nullptr) retire(*v->producer);
    }
  }

 private:
  void add_outputs(Block& block) {
    for (const Value* v : block.outputs) users_[v].push_back(nullptr);
  }
  void retire(Op& op) {
    const bool is_pure = op.kind() == OpKind::kCompute || op.kind() == OpKind::kReshape;
    if (!is_pure) return;
    const std::vector<Value*> operands = op.operands;
    remove(op, operands);
  }
  std::unordered_map<const Value*, std::vector<Op*>> users_;
};

size_t nodes_of(const Op& op) {
  size_t count = 0;
  visit_scalars(op, [&](Scalar) { ++count; });
  return count;
}

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), users_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    // Ops that are inserted go before the one at hand.
    for (const auto& op : block.ops) {
      if (If* branch = op->as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
      } else if (Loop* loop = op->as<Loop>()) {
        changed |= run(*loop->body);
      } else if (op->kind() == OpKind::kCompute || op->kind() == OpKind::kScatter) {
        changed |= take_in_maps(*op);
        changed |= become_epilogue(*op);
      }
    }
    return changed;
  }

 private:
  // ---- maps into consumers

  bool take_in_maps(Op& op) {
    bool changed = false;
    for (size_t slot = 0; slot < op.operands.size();) {
      if (take_in(op, static_cast<int>(slot))) {
        changed = true;
        slot = 0;  // the operands are others now
      } else {
        ++slot;
      }
    }
    return changed;
  }

  bool take_in(Op& consumer, int slot) {
    const Source source = source_of(consumer.operands[slot]);
    if (source.op == nullptr || source.op->block != consumer.block) return false;
    const Compute* map = source.op->as<Compute>();
    if (map == nullptr || map->combiner != Combiner::kNone) return false;
    if (consumer.kind() == OpKind::kScatter && slot == 0) return false;
    std::vector<Scalar> loads;
    visit_scalars(consumer, [&](Scalar x) {
      if (x->kind == ScalarKind::kLoad && x->slot == slot) loads.push_back(x);
    });
    const bool divides = source.views.size() > 1 && may_divide(consumer, *map, loads);
    std::vector<std::vector<Scalar>> indices;
    for (Scalar load : loads) {
      auto own = indices_at(graph_, source, load, divides);
      if (!own || (divides && !divides_outside(consumer, *own))) return false;
      indices.push_back(std::move(*own));
    }
    if (loads.empty()) return false;
    const bool too_large = is_too_large(graph_, map->axes);
    if (!too_large && !is_worth_it(consumer, source, loads, indices)) return false;
    return replace_loads(consumer, slot, *source.op, loads, indices, too_large);
  }

  /// Elements that were written out several times, such as the heads of keys that several heads of queries share, may be found by a division by a
  /// constant instead.
  static bool may_divide(const Op& consumer, const Compute& map, const std::vector<Scalar>& loads) {
    const Compute* c = consumer.as<Compute>();
    if (c == nullptr || c->axes.empty() || !cost_of(map).index_map) return false;
    return c->combiner == Combiner::kNone || feeds_contraction(*c, loads);
  }
  /// Such a division is outside of the loops that are many.
  static bool divides_outside(const Op& consumer, const std::vector<Scalar>& indices) {
    const Compute& c = *consumer.as<Compute>();
    std::vector<Axis> inner = c.reductions;
    inner.push_back(c.axes.back());
    return std::all_of(indices.begin(), indices.end(), [&](Scalar i) { return is_affine(ir::as_expr(i), inner); });
  }

  bool is_sole_user(const Op& consumer, const Source& source) {
    for (size_t k = 0; k < source.views.size(); ++k) {
      const Op* user = k == 0 ? &consumer : source.views[k - 1]->producer;
      if (!users_.is_sole(source.views[k], *user)) return false;
    }
    return true;
  }

  /// Whether a map is written to memory whatever this consumer does.
  bool exists_anyway(const Source& source, const BodyCost& cost) {
    const std::vector<Op*>& users = users_.of(source.views.back());
    return std::any_of(users.begin(), users.end(), [&](const Op* u) {
      if (u == nullptr || u->block != source.op->block) return true;
      if (u->kind() == OpKind::kReshape) return source.views.size() == 1;
      if (u->kind() == OpKind::kScatter) return false;
      const Compute* c = u->as<Compute>();
      return c == nullptr || (!cost.index_map && classify(*c).kind == ComputeClass::kContraction);
    });
  }

  bool is_worth_it(const Op& consumer, const Source& source, const std::vector<Scalar>& loads,
                   const std::vector<std::vector<Scalar>>& indices) {
    const Compute& map = *source.op->as<Compute>();
    const BodyCost cost = cost_of(map);
    const Compute* c = consumer.as<Compute>();
    if (c != nullptr && feeds_contraction(*c, loads)) return is_plain_factor(map, cost) || pads_rows(*c, loads, map);
    if (cost.picks_rows && c != nullptr && scatters_rows(*c, indices)) return false;
    const bool sole = is_sole_user(consumer, source);
    const bool once = loads.size() == 1 && is_read_once(consumer, loads[0], indices[0], map);
    if (cost.checked || cost.expensive) return sole && once;
    if (sole && once) return true;
    if (cost.weight > kCheapWeight || cost.loads > kCheapLoads) return false;
    // Windows would read memory out of order, each element several times.
    if (cost.transposes && c != nullptr && !c->reductions.empty()) return false;
    if (sole) return true;
    // Each consumer would read memory out of order.
    if (cost.transposes) return false;
    return cost.loads <= (exists_anyway(source, cost) ? 1 : kSharedLoads);
  }

  /// Whether a map reads rows element by element: neighbours of its own are of different rows, which for places that depend on data are anywhere.
  static bool scatters_rows(const Compute& c, const std::vector<std::vector<Scalar>>& indices) {
    const auto last =
        std::find_if(c.axes.rbegin(), c.axes.rend(), [](const Axis& a) { return !a.extent.is_constant(1); });
    if (c.combiner != Combiner::kNone || last == c.axes.rend()) return false;
    return std::any_of(indices.begin(), indices.end(), [&](const std::vector<Scalar>& at) {
      const Expr along = at.empty() ? Expr() : ir::as_expr(at.back());
      return along && !along.is_constant() && !symbolic::depends_on(along, last->var);
    });
  }

  bool is_read_once(const Op& consumer, Scalar load, const std::vector<Scalar>& indices, const Compute& map) {
    std::vector<Expr> extents;
    extents.reserve(map.axes.size());
    for (const Axis& a : map.axes) extents.push_back(a.extent);
    if (const Scatter* s = consumer.as<Scatter>()) return reads_once(graph_, s->axes, {}, indices, extents);
    const Compute& c = *consumer.as<Compute>();
    bool in_body = false;
    visit(c.body, [&](Scalar x) { in_body = in_body || x == load; });
    return reads_once(graph_, c.axes, in_body ? c.reductions : std::vector<Axis>(), indices, extents);
  }

  static bool feeds_contraction(const Compute& c, const std::vector<Scalar>& loads) {
    const Classification found = classify(c);
    if (found.kind != ComputeClass::kContraction) return false;
    return std::any_of(loads.begin(), loads.end(),
                       [&](Scalar x) { return x == found.contraction.left || x == found.contraction.right; });
  }

  /// What a contraction may read through: an element at other indices, under casts, less a zero point.
  bool is_plain_factor(const Compute& map, const BodyCost& cost) const {
    if (cost.checked || cost.expensive) return false;
    if (cost.index_map) return true;
    bool plain = ir::is_integer(map.body->dtype);
    int moving = 0;
    visit(map.body, [&](Scalar x) {
      if (x->kind == ScalarKind::kLoad) moving += x->args.size() > 1 ? 1 : 0;
      if (x->kind == ScalarKind::kOp) plain = plain && x->op == ScalarOp::kSub;
      for (Scalar a : x->args) plain = plain && (x->kind != ScalarKind::kLoad || ir::as_expr(a));
    });
    return plain && moving <= 1;
  }

  /// Whether the sum walks along the last axis of what is padded, which is long and not padded itself.
  static bool pads_rows(const Compute& c, const std::vector<Scalar>& loads, const Compute& map) {
    constexpr int64_t kShortest = 16;
    const Scalar element = padded_load(map.body);
    if (!element || element->args.empty() || ir::as_expr(element->args.back()) != map.axes.back().var) return false;
    const Expr condition = ir::as_expr(map.body->args[0]->args[0]);
    return !symbolic::depends_on(condition, map.axes.back().var) &&
           std::all_of(loads.begin(), loads.end(), [&](Scalar x) {
             const Expr e = ir::as_expr(x->args.back());
             const auto r =
                 std::find_if(c.reductions.begin(), c.reductions.end(), [&](const Axis& a) { return a.var == e; });
             return r != c.reductions.end() && r->extent.is_constant() && r->extent.constant() >= kShortest;
           });
  }

  bool replace_loads(Op& consumer, int slot, const Op& producer, const std::vector<Scalar>& loads,
                     const std::vector<std::vector<Scalar>>& indices, bool too_large) {
    const Compute& map = *producer.as<Compute>();
    const std::vector<Value*> old_operands = consumer.operands;
    const Compute* before = consumer.as<Compute>();
    const Classification old_class = before == nullptr ? Classification() : classify(*before);
    const bool was_byte_dot = before != nullptr && byte_dot_of(*before);
    std::vector<Scalar> old_scalars;
    rewrite_scalars(consumer, [&](Scalar s) {
      old_scalars.push_back(s);
      return s;
    });
    std::vector<int> slots;
    slots.reserve(producer.operands.size());
    for (Value* v : producer.operands) slots.push_back(slot_of(consumer, v));
    const Scalar body = ir::rewrite(map.body, {}, [&](Scalar x) {
      return x->kind == ScalarKind::kLoad && slots[x->slot] != x->slot
                 ? x->table->load(slots[x->slot], x->dtype, x->args)
                 : x;
    });
    rewrite_scalars(consumer, [&](Scalar root) {
      return ir::rewrite(root, {}, [&](Scalar x) {
        if (x->kind != ScalarKind::kLoad || x->slot != slot) return x;
        // Loads inside the indices may have been replaced already; then the indices are the ones at hand, seen through
        // no Reshape.
        const auto known = std::find(loads.begin(), loads.end(), x);
        return at_indices(body, map.axes, known == loads.end() ? x->args : indices[known - loads.begin()]);
      });
    });
    compact_operands(consumer);
    const bool fits = nodes_of(consumer) <= kMostNodes && consumer.operands.size() <= kMostOperands;
    if (too_large || (fits && keeps_contraction(consumer, old_class, was_byte_dot))) {
      users_.add(consumer);
      users_.remove(consumer, old_operands);
      return true;
    }
    consumer.operands = old_operands;
    size_t next = 0;
    rewrite_scalars(consumer, [&](Scalar) { return old_scalars[next++]; });
    return false;
  }

  /// A contraction stays one, its vector axis stays contiguous, and what moves with the inner loops stays affine.
  static bool keeps_contraction(const Op& consumer, const Classification& old_class, bool was_byte_dot) {
    if (old_class.kind != ComputeClass::kContraction) return true;
    const Compute& c = *consumer.as<Compute>();
    if (was_byte_dot) return byte_dot_of(c).has_value();
    const Classification now = classify(c);
    if (now.kind != ComputeClass::kContraction) return false;
    const Contraction& was = old_class.contraction;
    const Contraction& is = now.contraction;
    if (was.vector_axis >= 0 && was.contiguous && (is.vector_axis != was.vector_axis || !is.contiguous)) return false;
    std::vector<Axis> inner = c.reductions;
    if (is.vector_axis >= 0) inner.push_back(c.axes[is.vector_axis]);
    for (Scalar load : {is.left, is.right}) {
      for (Scalar a : load->args) {
        if (!is_affine(ir::as_expr(a), inner)) return false;
      }
    }
    return true;
  }

  // ---- maps as epilogues

  /// How a map and a reduction that it reads point by point come to have the same axes.
  struct Alignment {
    std::vector<Axis> axes;         // of the two together
    symbolic::Substitution of_map;  // the axes of each in terms of these
    symbolic::Substitution of_reduction;
    bool is_reshaped = false;  // the axes are the reduction's, and the result is the map's reshaped
  };

  bool become_epilogue(Op& op) {
    const Compute* map = op.as<Compute>();
    if (map == nullptr || map->combiner != Combiner::kNone) return false;
    // Of several reductions the contraction is the one whose result is not worth reading back; else the last.
    int best = -1;
    bool best_is_contraction = false;
    for (size_t slot = 0; slot < op.operands.size(); ++slot) {
      const Source source = source_of(op.operands[slot]);
      if (!can_take_epilogue(op, static_cast<int>(slot), source)) continue;
      const bool is_contraction = classify(*source.op->as<Compute>()).kind == ComputeClass::kContraction;
      if (best >= 0 && best_is_contraction && !is_contraction) continue;
      best = static_cast<int>(slot);
      best_is_contraction = is_contraction;
    }
    if (best < 0) return false;
    attach_epilogue(op, best, source_of(op.operands[best]));
    return true;
  }

  bool can_take_epilogue(const Op& op, int slot, const Source& source) {
    if (source.op == nullptr || source.op->block != op.block || !is_sole_user(op, source)) return false;
    const Compute* reduction = source.op->as<Compute>();
    if (reduction == nullptr || reduction->combiner == Combiner::kNone) return false;
    const auto alignment = align(op, slot, source);
    if (!alignment || !keeps_vector_axis(*reduction, *alignment)) return false;
    const size_t nodes = ir::node_count(op.as<Compute>()->body) + nodes_of(*source.op);
    std::vector<Value*> operands = op.operands;
    operands.insert(operands.end(), source.op->operands.begin(), source.op->operands.end());
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    return nodes <= kMostNodes && operands.size() - 1 <= kMostOperands;
  }

  /// nullopt unless the map has one load of the reduction, which visits each of its elements once.
  std::optional<Alignment> align(const Op& op, int slot, const Source& source) {
    const Compute& map = *op.as<Compute>();
    Scalar load;
    int loads = 0;
    visit(map.body, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || x->slot != slot) return;
      ++loads;
      load = x;
    });
    if (loads != 1) return std::nullopt;
    std::vector<int> order;  // of the map's axes, as the load reads them; -1: an index that stays 0
    std::vector<bool> taken(map.axes.size(), false);
    const std::vector<Expr>& extents = source.views.front()->type.extents;
    for (size_t k = 0; k < load->args.size(); ++k) {
      const Expr e = ir::as_expr(load->args[k]);
      if (!e) return std::nullopt;
      order.push_back(-1);
      if (extents[k].is_constant(1) && e.is_constant(0)) continue;
      const auto axis = std::find_if(map.axes.begin(), map.axes.end(), [&](const Axis& a) { return a.var == e; });
      if (axis == map.axes.end() || !same_extents(graph_, {axis->extent}, {extents[k]})) return std::nullopt;
      order.back() = static_cast<int>(axis - map.axes.begin());
      if (taken[order.back()]) return std::nullopt;
      taken[order.back()] = true;
    }
    for (size_t k = 0; k < map.axes.size(); ++k) {
      if (!taken[k] && !map.axes[k].extent.is_constant(1)) return std::nullopt;
    }
    if (source.views.size() == 1) return align_directly(op, source, order);
    auto through = align_through_reshape(op, source, order);
    return through ? through : align_with_merged_axes(op, slot, source, load);
  }

  std::optional<Alignment> align_directly(const Op& op, const Source& source, const std::vector<int>& order) {
    const Compute& map = *op.as<Compute>();
    const Compute& reduction = *source.op->as<Compute>();
    Alignment r;
    r.axes = map.axes;
    for (size_t k = 0; k < order.size(); ++k) {
      r.of_reduction[reduction.axes[k].var.node()] = order[k] < 0 ? graph_.exprs().constant(0) : map.axes[order[k]].var;
    }
    return r;
  }

  /// The reduction keeps its axes, and the map's are made of them; the result is reshaped afterwards.
  std::optional<Alignment> align_through_reshape(const Op& op, const Source& source, const std::vector<int>& order) {
    const Compute& map = *op.as<Compute>();
    const Compute& reduction = *source.op->as<Compute>();
    if (!op.result()->type.has_static_rank() || order.size() != map.axes.size()) return std::nullopt;
    for (size_t k = 0; k < order.size(); ++k) {
      if (order[k] >= 0 && order[k] != static_cast<int>(k)) return std::nullopt;
    }
    std::vector<Expr> vars;
    vars.reserve(reduction.axes.size());
    for (const Axis& a : reduction.axes) vars.push_back(a.var);
    const auto at = indices_before_reshape(graph_, op.result()->type.extents, source.views.back()->type.extents, vars);
    if (!at) return std::nullopt;
    Alignment r;
    r.axes = reduction.axes;
    r.is_reshaped = true;
    for (size_t k = 0; k < map.axes.size(); ++k) r.of_map[map.axes[k].var.node()] = (*at)[k];
    return r;
  }

  /// The map keeps its axes, and the reduction's are several of them merged, as batch and position are the rows of one product. Lowering makes one
  /// loop of them again, because whatever else the map reads lies in the same order.
  std::optional<Alignment> align_with_merged_axes(const Op& op, int slot, const Source& source, Scalar load) {
    const Compute& map = *op.as<Compute>();
    const Compute& reduction = *source.op->as<Compute>();
    const auto at = indices_at(graph_, source, load);
    if (!at || !op.result()->type.has_static_rank()) return std::nullopt;
    Alignment r;
    r.axes = map.axes;
    for (size_t k = 0; k < at->size(); ++k) r.of_reduction[reduction.axes[k].var.node()] = ir::as_expr((*at)[k]);
    const auto is_merged = [&](Expr a, Expr b) {
      return std::any_of(at->begin(), at->end(), [&](Scalar x) {
        const Expr e = ir::as_expr(x);
        return symbolic::depends_on(e, a) && symbolic::depends_on(e, b);
      });
    };
    bool in_order = true;
    visit(map.body, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || x->slot == slot) return;
      std::vector<Expr> indices;
      for (Scalar a : x->args) indices.push_back(ir::as_expr(a));
      if (!(in_order = in_order && std::all_of(indices.begin(), indices.end(), [](Expr e) { return bool(e); }))) return;
      const Expr place = linear_index(graph_.exprs(), indices, op.operands[x->slot]->type.extents);
      for (size_t k = 1; k < map.axes.size(); ++k) {
        if (!is_merged(map.axes[k - 1].var, map.axes[k].var)) continue;
        const auto outer = symbolic::affine_in(place, map.axes[k - 1].var);
        const auto inner = symbolic::affine_in(place, map.axes[k].var);
        in_order = in_order && outer && inner && outer->coefficient == inner->coefficient * map.axes[k].extent;
      }
    });
    if (!in_order) return std::nullopt;
    return r;
  }

  static bool keeps_vector_axis(const Compute& reduction, const Alignment& alignment) {
    const Classification was = classify(reduction);
    if (was.kind != ComputeClass::kContraction || !was.contraction.contiguous) return true;
    Compute now = reduction;
    now.axes = alignment.axes;
    now.body = ir::substitute(reduction.body, alignment.of_reduction);
    const Classification is = classify(now);
    if (is.kind != ComputeClass::kContraction || !is.contraction.contiguous) return false;
    // A view that takes the axis apart (DepthToSpace) may leave pieces that fill no vector.
    const auto fills_none = [](const Axis& a) { return a.extent.is_constant() && a.extent.constant() < kLeastVector; };
    return !fills_none(now.axes[is.contraction.vector_axis]) || fills_none(reduction.axes[was.contraction.vector_axis]);
  }

  void attach_epilogue(Op& op, int slot, const Source& source) {
    const Alignment alignment = *align(op, slot, source);
    const Op& producer = *source.op;
    const Compute& reduction = *producer.as<Compute>();
    ir::ScalarTable& table = graph_.scalars();
    const std::vector<Value*> old_operands = op.operands;
    std::vector<Value*> operands = producer.operands;
    std::vector<int> slots;
    for (Value* v : op.operands) {
      const auto at = std::find(operands.begin(), operands.end(), v);
      slots.push_back(static_cast<int>(at - operands.begin()));
      if (at == operands.end()) operands.push_back(v);
    }
    Compute fused = reduction;
    fused.axes = alignment.axes;
    fused.body = ir::substitute(reduction.body, alignment.of_reduction);
    const DType accumulator = is_arg(reduction.combiner) ? DType::kI64 : reduction.accumulate;
    const Scalar finished = reduction.epilogue
                                ? ir::substitute(reduction.epilogue, alignment.of_reduction)
                                : table.cast(source.views.back()->type.dtype, table.accumulator(accumulator));
    fused.epilogue = ir::rewrite(op.as<Compute>()->body, alignment.of_map, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad) return x;
      if (x->slot == slot) return finished;
      return table.load(slots[x->slot], x->dtype, x->args);
    });
    if (!alignment.is_reshaped) {
      op.payload = std::move(fused);
      op.operands = std::move(operands);
      compact_operands(op);
    } else {
      Type own = Type::tensor(op.result()->type.dtype, source.views.back()->type.extents);
      Op* core = graph_.add_op(*op.block, std::move(fused), std::move(operands), {std::move(own)}, {}, op.source, &op);
      compact_operands(*core);
      users_.add(*core);
      op.payload = Reshape{};
      op.operands = {core->result()};
    }
    users_.add(op);
    users_.remove(op, old_operands);
  }

  Graph& graph_;
  Users users_;
};

}  // namespace

bool fuse_ops(Graph& graph) { return Fuser(graph).run(graph.body); }

}  // namespace stax::tensor
