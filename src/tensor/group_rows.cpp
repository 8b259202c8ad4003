// SPDX-License-Identifier: Apache-2.0
// Rows: softmax, norms and whatever else goes over the same rows more than once.
//
// A reduction, what it reads and what is made of its result are kernels of their own, and each reads the row from memory again. Done row by
// row, the row is in cache, and what one kernel hands to the next lies in a register or in a buffer of one row.
//
// A group begins with a reduction; its axes are the rows, its reductions the inner domain. It grows by Computes that load a member's result
// row by row, each over the same inner domain or over none (a number for each row), and by producers that are read so by a member. What
// members read beside each other's results may not depend on the group: all of it runs at once.
//
// Attention is the group of a softmax with the product that makes its rows (scores, read by members alone) and the product that takes them as
// a factor. Both have an inner domain of their own, and the scores are a value of the row: they never reach memory. Only both together are
// taken, and only where the other operands are no weights, which a kernel of its own reads in packed form.
//
// In the body of a loop a launch is a large part of a trip: there a map whose result another map reads begins a group, too, with its last axis as
// the inner domain (the cell of a recurrent layer, of which its new state is made).
//
// What several members compute at a point of a row, where that costs more than to keep and load it again (exp(x - max) of a softmax), becomes
// a value of the row, made where it is first needed.
#include <algorithm>
#include <unordered_set>

#include "tensor/classify.h"
#include "tensor/fusion_cost.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"
#include "tensor/row_members.h"

namespace stax::tensor {

using ir::ScalarKind;
using symbolic::Substitution;

namespace {

constexpr size_t kMostOperands = 14;
constexpr size_t kMostNodes = 600;
// Without a row axis there is nothing to share between threads: only rows as short as this are worth it.
constexpr int64_t kLongestSingleRow = int64_t{1} << 16;
// Axis positions of what one member alone has.
constexpr int kOwnPositions = 24;

bool is_unit(const Axis& axis) { return axis.extent.is_constant(1); }

/// The axes that are more than one element long.
std::vector<Axis> proper(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(result), [](const Axis& a) { return !is_unit(a); });
  return result;
}

bool has_var(const std::vector<Axis>& axes, Expr var) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.var == var; });
}

/// Values that an op uses, in the blocks it holds, too.
std::vector<Value*> uses_of(Op& op) {
  std::vector<Value*> uses = op.operands;
  const auto add = [&](Block& block) {
    for_each_op(block, [&](Op& inner) { uses.insert(uses.end(), inner.operands.begin(), inner.operands.end()); });
    uses.insert(uses.end(), block.outputs.begin(), block.outputs.end());
  };
  if (If* branch = op.as<If>()) {
    add(*branch->then_block);
    add(*branch->else_block);
  } else if (Loop* loop = op.as<Loop>()) {
    add(*loop->body);
  }
  return uses;
}

/// The order and the uses within one block.
class BlockView {
 public:
  explicit BlockView(Block& block) {
    int next = 0;
    for (const auto& op : block.ops) {
      position_[op.get()] = next++;
      for (Value* v : uses_of(*op)) users_[v].push_back(op.get());
      for (Expr symbol : op->defines) definers_[symbol.node()] = op.get();
    }
    for (Value* v : block.outputs) users_[v].push_back(nullptr);
  }
  int position(const Op* op) const { return position_.at(op); }
  /// Ops of the block; null stands for its outputs.
  const std::vector<Op*>& users(const Value* v) const {
    static const std::vector<Op*> kNone;
    const auto found = users_.find(v);
    return found == users_.end() ? kNone : found->second;
  }
  Op* definer(Expr symbol) const {
    const auto found = definers_.find(symbol.node());
    return found == definers_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<const Op*, int> position_;
  std::unordered_map<const Value*, std::vector<Op*>> users_;
  std::unordered_map<const symbolic::ExprNode*, Op*> definers_;
};

/// Axis variables of one op and the group's that they stand for.
class Binding {
 public:
  bool bind(Expr own, Expr of_group) {
    const auto known = map_.find(own.node());
    if (known != map_.end()) return known->second == of_group;
    if (is_bound(of_group)) return false;
    map_[own.node()] = of_group;
    return true;
  }
  bool is_bound(Expr of_group) const {
    return std::any_of(map_.begin(), map_.end(), [&](const auto& entry) { return entry.second == of_group; });
  }
  Expr at(Expr own) const {
    const auto found = map_.find(own.node());
    return found == map_.end() ? Expr() : found->second;
  }
  const Substitution& map() const { return map_; }

 private:
  Substitution map_;
};

class Group {
 public:
  Group(Graph& graph, const BlockView& view, Op& seed) : graph_(graph), view_(view) {
    const Compute& c = *seed.as<Compute>();
    Binding binding;
    std::vector<Axis> axes = proper(c.axes), inner = proper(c.reductions);
    if (c.combiner == Combiner::kNone && !axes.empty()) {
      inner = {axes.back()};
      axes.pop_back();
    }
    for (const Axis& a : axes) {
      rows_.push_back({graph.axis_var(static_cast<int>(rows_.size()), a.extent, false), a.extent});
      binding.bind(a.var, rows_.back().var);
    }
    for (const Axis& a : inner) {
      const int position = static_cast<int>(rows_.size() + inner_.size());
      inner_.push_back({graph.axis_var(position, a.extent, false), a.extent});
      binding.bind(a.var, inner_.back().var);
    }
    add(seed, std::move(binding));
  }

  static bool is_groupable(const Op& op) {
    const Compute* c = op.as<Compute>();
    if (c == nullptr || is_arg(c->combiner)) return false;
    if (!c->reductions.empty() && proper(c->reductions).empty()) return false;
    return classify(*c).kind != ComputeClass::kContraction;
  }

  bool is_possible_seed() const {
    if (inner_.empty()) return false;
    if (!rows_.empty()) return true;
    std::vector<Expr> extents;
    for (const Axis& a : inner_) extents.push_back(a.extent);
    return product_of(graph_, extents).range().hi <= kLongestSingleRow;
  }

  /// Whether a map's result goes to another map and to others besides, so that it has to exist and its reader could be made with it.
  static bool is_shared_map(const BlockView& view, const Op& op) {
    const Compute* c = op.as<Compute>();
    if (c == nullptr || c->combiner != Combiner::kNone || !is_groupable(op)) return false;
    const std::vector<Op*>& users = view.users(op.result());
    return users.size() > 1 && std::any_of(users.begin(), users.end(), [](const Op* u) {
             const Compute* reader = u != nullptr ? u->as<Compute>() : nullptr;
             return reader != nullptr && reader->combiner == Combiner::kNone;
           });
  }

  bool contains(const Op* op) const { return bindings_.contains(op); }
  const std::vector<Op*>& members() const { return members_; }

  /// More than one pass over the rows, or a number for each row made further: something is saved.
  bool is_worth_it() const { return members_.size() > 1; }

  void grow(Block& block) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& op : block.ops) {
        if (!contains(op.get()) && is_groupable(*op)) changed |= try_consumer(*op);
      }
      for (size_t k = 0; k < members_.size(); ++k) changed |= try_producers(*members_[k]);
    }
  }

  /// Adds the products in front of and behind a softmax, both or none.
  void grow_products(Block& block) {
    if (rows_.empty()) return;
    std::vector<Op*> scores, results;
    for (size_t k = 0; k < members_.size(); ++k) {
      for (Value* v : std::vector<Value*>(members_[k]->operands)) {
        const Source source = source_of(v);
        if (source.op == nullptr || source.op->block != &block || contains(source.op)) continue;
        if (is_product(*source.op) && try_scores(*members_[k], *source.op)) scores.push_back(source.op);
      }
    }
    if (scores.size() == 1) {
      for (const auto& op : block.ops) {
        if (!contains(op.get()) && is_product(*op) && try_result(*op)) results.push_back(op.get());
      }
    }
    if (scores.size() == 1 && results.size() == 1) return;
    for (Op* op : results) remove(*op);
    for (Op* op : scores) remove(*op);
  }

  /// Replaces the members by one op; returns it.
  void build(Block& block) {
    const auto by_position = [&](const Op* a, const Op* b) { return view_.position(a) < view_.position(b); };
    std::sort(members_.begin(), members_.end(), by_position);
    std::vector<Op*> dependents;
    for (const auto& op : block.ops) {
      if (view_.position(op.get()) > view_.position(members_.back())) break;
      if (!contains(op.get()) && !is_inner_view(*op) && reaches(op.get())) dependents.push_back(op.get());
    }
    RowMembers form(graph_, rows_, inner_, own_);
    for (Op* op : members_) form.add(*op, bindings_.at(op).map(), [&](const Op* o) { return contains(o); });
    form.share_dear_values();
    form.keep_factors();
    std::vector<Value*> results;
    for (Op* op : members_) {
      if (is_needed_outside(op->result())) results.push_back(op->result());
    }
    Op* group = form.make_op(block, results, members_.back());
    // What uses the results comes after them.
    const auto find = [&](const Op* op) {
      return std::find_if(block.ops.begin(), block.ops.end(), [&](const auto& o) { return o.get() == op; });
    };
    auto after = std::next(find(members_.back()));
    for (Op* op : dependents) block.ops.splice(after, block.ops, find(op));
    for (size_t k = 0; k < results.size(); ++k) {
      group->result(static_cast<int>(k))->name = results[k]->name;
      replace_all_uses(graph_, results[k], group->result(static_cast<int>(k)));
    }
    std::vector<Op*> dead;
    for (const auto& op : block.ops) {
      if (is_inner_view(*op)) dead.push_back(op.get());
    }
    for (auto op = dead.rbegin(); op != dead.rend(); ++op) erase_op(**op);
    for (auto op = members_.rbegin(); op != members_.rend(); ++op) erase_op(**op);
  }

 private:
  void add(Op& op, Binding binding) {
    members_.push_back(&op);
    bindings_.emplace(&op, std::move(binding));
    reaches_.clear();
  }
  void remove(Op& op) {
    std::erase(members_, &op);
    bindings_.erase(&op);
    reaches_.clear();
  }
  /// Adds an op if the group then still runs at once.
  bool try_add(Op& op, Binding binding) {
    add(op, std::move(binding));
    if (is_convex() && fits()) return true;
    remove(op);
    return false;
  }

  bool fits() const {
    std::unordered_set<const Value*> operands;
    size_t nodes = 0;
    for (const Op* op : members_) {
      operands.insert(op->operands.begin(), op->operands.end());
      visit_scalars(*op, [&](Scalar) { ++nodes; });
    }
    return operands.size() <= kMostOperands + members_.size() && nodes <= kMostNodes;
  }

  // ---- who fits

  bool try_consumer(Op& op) {
    Binding binding;
    bool reads_member = false;
    for (size_t slot = 0; slot < op.operands.size(); ++slot) {
      const Source source = source_of(op.operands[slot]);
      if (source.op == nullptr || !contains(source.op)) continue;
      reads_member = true;
      if (!bind_loads(op, static_cast<int>(slot), source, binding)) return false;
    }
    if (!reads_member || !complete(op, binding)) return false;
    return try_add(op, std::move(binding));
  }

  /// The variables at the indices of a member's result are those of its axes.
  bool bind_loads(Op& op, int slot, const Source& source, Binding& binding) {
    const Compute& own = *op.as<Compute>();
    const Compute& producer = *source.op->as<Compute>();
    const Binding& of_producer = bindings_.at(source.op);
    bool fine = true;
    visit_scalars(op, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || x->slot != slot || !fine) return;
      const auto at = indices_at(graph_, source, x);
      fine = at.has_value();
      for (size_t k = 0; fine && k < producer.axes.size(); ++k) {
        const Axis& axis = producer.axes[k];
        if (is_unit(axis)) continue;
        const Expr e = ir::as_expr((*at)[k]), var = of_producer.at(axis.var);
        const bool is_row = has_var(rows_, var);
        fine = e && (has_var(own.axes, e) || (!is_row && has_var(own.reductions, e))) && binding.bind(e, var);
      }
    });
    return fine;
  }

  /// All rows are axes of the op, and what else it has is the inner domain, or nothing.
  bool complete(const Op& op, Binding& binding) const {
    const Compute& c = *op.as<Compute>();
    std::vector<Axis> others;
    size_t rows = 0;
    for (const Axis& a : proper(c.axes)) {
      const Expr var = binding.at(a.var);
      const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Axis& r) { return r.var == var; });
      if (!var || row == rows_.end()) {
        others.push_back(a);
        continue;
      }
      if (!same_extents(graph_, {a.extent}, {row->extent})) return false;
      ++rows;
    }
    if (rows != rows_.size()) return false;
    const std::vector<Axis> reductions = proper(c.reductions);
    if (!others.empty() && !reductions.empty()) return false;
    others.insert(others.end(), reductions.begin(), reductions.end());
    if (others.empty()) return true;
    if (others.size() != inner_.size()) return false;
    size_t next = 0;
    for (const Axis& a : others) {
      Expr var = binding.at(a.var);
      if (!var) {
        while (next < inner_.size() && binding.is_bound(inner_[next].var)) ++next;
        if (next == inner_.size()) return false;
        var = inner_[next].var;
        binding.bind(a.var, var);
      }
      const auto inner = std::find_if(inner_.begin(), inner_.end(), [&](const Axis& i) { return i.var == var; });
      if (inner == inner_.end() || !same_extents(graph_, {a.extent}, {inner->extent})) return false;
    }
    return true;
  }

  /// Whether what stands for a row or for a point of one goes over all of it: a branch of a select, or a slice, may read the first part alone.
  bool covers(const std::vector<Axis>& axes, const Binding& binding) const {
    return std::all_of(axes.begin(), axes.end(), [&](const Axis& a) {
      const Expr var = binding.at(a.var);
      const auto is_it = [&](const Axis& of_group) { return of_group.var == var; };
      const auto row = std::find_if(rows_.begin(), rows_.end(), is_it);
      const auto inner = std::find_if(inner_.begin(), inner_.end(), is_it);
      if (row != rows_.end()) return same_extents(graph_, {a.extent}, {row->extent});
      return inner == inner_.end() || same_extents(graph_, {a.extent}, {inner->extent});
    });
  }

  /// A sum of products with no weights.
  static bool is_product(const Op& op) {
    const Compute* c = op.as<Compute>();
    if (c == nullptr) return false;
    const Classification found = classify(*c);
    if (found.kind != ComputeClass::kContraction || proper(c->reductions).size() != 1) return false;
    return std::none_of(op.operands.begin(), op.operands.end(), [&](Value* v) {
      const bool is_factor =
          v == op.operands[found.contraction.left_slot] || v == op.operands[found.contraction.right_slot];
      const Source source = source_of(v);
      return is_factor && source.op != nullptr && source.op->kind() == OpKind::kConstant;
    });
  }

  /// The members' rows, each element a sum over an axis of its own.
  bool try_scores(Op& member, Op& product) {
    if (is_needed_outside(product.result())) return false;
    for (size_t slot = 0; slot < member.operands.size(); ++slot) {
      const Source source = source_of(member.operands[slot]);
      if (source.op != &product) continue;
      auto binding = bind_as_producer(member, static_cast<int>(slot), source);
      if (!binding) return false;
      const Compute& c = *product.as<Compute>();
      size_t rows = 0, points = 0;
      for (const Axis& a : proper(c.axes)) {
        const Expr var = binding->at(a.var);
        if (!var) return false;
        (has_var(rows_, var) ? rows : points) += 1;
      }
      if (rows != rows_.size() || points != inner_.size() || !covers(proper(c.axes), *binding)) return false;
      bind_own_axes(c.reductions, *binding);
      return try_add(product, std::move(*binding));
    }
    return false;
  }

  /// A sum over the inner domain of a member's row with something else, for each point of an axis of its own.
  bool try_result(Op& product) {
    const Compute& c = *product.as<Compute>();
    const Classification found = classify(c);
    Binding binding;
    int factors = 0;
    for (size_t slot = 0; slot < product.operands.size(); ++slot) {
      const Source source = source_of(product.operands[slot]);
      if (source.op == nullptr || !contains(source.op)) continue;
      if (is_product(*source.op) || !bind_loads(product, static_cast<int>(slot), source, binding)) return false;
      const int own = static_cast<int>(slot);
      factors += own == found.contraction.left_slot || own == found.contraction.right_slot ? 1 : 0;
    }
    if (factors != 1) return false;
    size_t rows = 0, inner = 0, others = 0;
    for (const Axis& a : proper(c.axes)) {
      const Expr var = binding.at(a.var);
      if (var && !has_var(rows_, var)) return false;
      (var ? rows : others) += 1;
    }
    for (const Axis& a : proper(c.reductions)) {
      const Expr var = binding.at(a.var);
      if (!var || has_var(rows_, var)) return false;
      ++inner;
    }
    if (rows != rows_.size() || inner != inner_.size() || others != 1) return false;
    if (!covers(proper(c.axes), binding) || !covers(proper(c.reductions), binding)) return false;
    bind_own_axes(c.axes, binding);
    return try_add(product, std::move(binding));
  }

  /// Axes that are neither rows nor the inner domain get variables that no other member has.
  void bind_own_axes(const std::vector<Axis>& axes, Binding& binding) {
    for (const Axis& a : proper(axes)) {
      if (binding.at(a.var)) continue;
      own_.push_back({graph_.axis_var(kOwnPositions + static_cast<int>(own_.size()), a.extent, false), a.extent});
      binding.bind(a.var, own_.back().var);
    }
  }

  bool try_producers(Op& member) {
    bool changed = false;
    for (size_t slot = 0; slot < member.operands.size(); ++slot) {
      const Source source = source_of(member.operands[slot]);
      if (source.op == nullptr || source.op->block != member.block || contains(source.op)) continue;
      if (!is_groupable(*source.op)) continue;
      auto binding = bind_as_producer(member, static_cast<int>(slot), source);
      if (!binding || !complete(*source.op, *binding)) continue;
      // A map that others read, too, exists anyway.
      const bool is_map = source.op->as<Compute>()->combiner == Combiner::kNone;
      if (!try_add(*source.op, std::move(*binding))) continue;
      if (is_map && is_needed_outside(source.op->result())) {
        remove(*source.op);
        continue;
      }
      changed = true;
    }
    return changed;
  }

  std::optional<Binding> bind_as_producer(Op& member, int slot, const Source& source) {
    const Compute& producer = *source.op->as<Compute>();
    const Binding& of_member = bindings_.at(&member);
    Binding binding;
    bool fine = true;
    visit_scalars(member, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || x->slot != slot || !fine) return;
      const auto at = indices_at(graph_, source, x);
      fine = at.has_value();
      for (size_t k = 0; fine && k < producer.axes.size(); ++k) {
        if (is_unit(producer.axes[k])) continue;
        const Expr e = ir::as_expr((*at)[k]);
        const Expr var = e && e.is_symbol() ? of_member.at(e) : Expr();
        fine = var && binding.bind(producer.axes[k].var, var);
      }
    });
    if (!fine) return std::nullopt;
    return binding;
  }

  // ---- order

  /// Whether an op of the block depends on a member.
  bool reaches(Op* op) {
    if (op == nullptr || op->block != members_[0]->block) return false;
    if (contains(op)) return true;
    if (const auto known = reaches_.find(op); known != reaches_.end()) return known->second;
    int first = view_.position(members_[0]);
    for (const Op* m : members_) first = std::min(first, view_.position(m));
    bool found = false;
    if (view_.position(op) > first) {
      for (Value* v : uses_of(*op)) found = found || reaches(v->producer);
      found = found || depends_by_symbols(*op);
    }
    return reaches_[op] = found;
  }
  bool depends_by_symbols(const Op& op) {
    const std::vector<Expr> symbols = used_symbols(op);
    // An op that finds its own result's extent defines what its result's type uses.
    return std::any_of(symbols.begin(), symbols.end(), [&](Expr s) {
      Op* definer = view_.definer(s);
      return definer != &op && reaches(definer);
    });
  }
  bool is_convex() {
    return std::all_of(members_.begin(), members_.end(), [&](Op* m) {
      const bool free = std::all_of(m->operands.begin(), m->operands.end(), [&](Value* v) {
        const Source source = source_of(v);
        return (source.op != nullptr && contains(source.op)) || !reaches(v->producer);
      });
      return free && !depends_by_symbols(*m);
    });
  }

  /// Whether anything but members reads a value, directly or through Reshapes.
  bool is_needed_outside(const Value* v) const {
    const std::vector<Op*>& users = view_.users(v);
    return std::any_of(users.begin(), users.end(), [&](const Op* u) {
      if (u == nullptr) return true;
      if (contains(u)) return false;
      return u->kind() != OpKind::kReshape || is_needed_outside(u->result());
    });
  }
  /// A Reshape that only members look through.
  bool is_inner_view(const Op& op) const {
    if (op.kind() != OpKind::kReshape || is_needed_outside(op.result())) return false;
    const Source source = source_of(op.operands[0]);
    return source.op != nullptr && contains(source.op);
  }

  Graph& graph_;
  const BlockView& view_;
  std::vector<Axis> rows_, inner_, own_;
  std::vector<Op*> members_;
  std::unordered_map<const Op*, Binding> bindings_;
  std::unordered_map<const Op*, bool> reaches_;
};

bool run(Graph& graph, Block& block, bool is_trip = false) {
  bool changed = false;
  for (const auto& op : block.ops) {
    if (If* branch = op->as<If>()) {
      changed |= run(graph, *branch->then_block);
      changed |= run(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= run(graph, *loop->body, true);
    }
  }
  // Every group takes its members out of the block.
  std::unordered_set<const Op*> tried;
  for (bool again = true; again;) {
    again = false;
    const BlockView view(block);
    for (const auto& op : block.ops) {
      const Compute* c = op->as<Compute>();
      if (c == nullptr || !Group::is_groupable(*op)) continue;
      const bool is_seed = !c->reductions.empty() || (is_trip && Group::is_shared_map(view, *op));
      if (!is_seed || !tried.insert(op.get()).second) continue;
      Group group(graph, view, *op);
      if (!group.is_possible_seed()) continue;
      group.grow(block);
      group.grow_products(block);
      if (!group.is_worth_it()) continue;
      group.build(block);
      again = changed = true;
      break;
    }
  }
  return changed;
}

}  // namespace

bool group_rows(Graph& graph) { return run(graph, graph.body); }

}  // namespace stax::tensor
