// SPDX-License-Identifier: Apache-2.0
#include "tensor/row_members.h"

#include <algorithm>
#include <unordered_set>

#include "support/error.h"
#include "tensor/classify.h"
#include "tensor/fusion_cost.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;

namespace {

// Arithmetic that is worth a store and further loads of a buffer in cache.
constexpr int kDearWeight = 8;
// Positions from here on never are those of the group's variables.
constexpr int kUnitPositions = 40;

}  // namespace

int RowMembers::number_of(const Value* v) {
  const auto [found, is_new] = numbers_.try_emplace(v, static_cast<int>(values_.size()));
  if (is_new) values_.push_back(v);
  return found->second;
}

void RowMembers::add(const Op& op, const symbolic::Substitution& map, const std::function<bool(const Op*)>& is_member) {
  Member member;
  Compute& c = member.compute = *op.as<Compute>();
  member.type = op.result()->type;
  member.source = op.source;
  std::vector<Source> sources;
  for (Value* v : op.operands) sources.push_back(source_of(v));
  const auto renumbered = [&](Scalar x) {
    if (x->kind != ScalarKind::kLoad) return x;
    const Source& source = sources[x->slot];
    if (source.op == nullptr || !is_member(source.op)) {
      return x->table->load(number_of(source.views.front()), x->dtype, x->args);
    }
    // At the place in the member's own result, whatever views lie between; an axis of one element is at 0.
    std::vector<Scalar> at = *indices_at(graph_, source, x);
    const std::vector<Axis>& axes = source.op->as<Compute>()->axes;
    for (size_t k = 0; k < at.size(); ++k) {
      if (axes[k].extent.is_constant(1)) at[k] = x->table->index(graph_.exprs().constant(0));
    }
    return x->table->load(number_of(source.views.back()), x->dtype, std::move(at));
  };
  symbolic::Substitution variables = map;
  const auto rename = [&](std::vector<Axis>& axes) {
    for (size_t k = 0; k < axes.size(); ++k) {
      if (axes[k].extent.is_constant(1)) {
        variables[axes[k].var.node()] = graph_.exprs().constant(0);
        axes[k].var = graph_.axis_var(kUnitPositions + static_cast<int>(k), axes[k].extent, false);
        continue;
      }
      const Expr var = map.at(axes[k].var.node());
      for (const std::vector<Axis>* list : {&rows_, &inner_, &own_}) {
        for (const Axis& own : *list) {
          if (own.var == var) axes[k] = own;
        }
      }
    }
  };
  rename(c.axes);
  std::vector<Axis> reductions = c.reductions;
  rename(reductions);
  std::erase_if(reductions, [](const Axis& a) { return a.extent.is_constant(1); });
  c.reductions = reductions;
  for (Scalar* root : {&c.body, &c.epilogue}) {
    if (*root) *root = ir::substitute(ir::rewrite(*root, {}, renumbered), variables);
  }
  member.value = number_of(op.result());
  members_.push_back(std::move(member));
}

/// Whether a scalar is another one at each point of a row.
bool RowMembers::varies(Scalar x) {
  if (const auto known = varies_.find(x.node()); known != varies_.end()) return known->second;
  bool result = false;
  if (x->kind == ScalarKind::kIndex) {
    result =
        std::any_of(inner_.begin(), inner_.end(), [&](const Axis& a) { return symbolic::depends_on(x->index, a.var); });
  }
  for (Scalar a : x->args) result = varies(a) || result;
  return varies_[x.node()] = result;
}

int RowMembers::weight_of(Scalar x) {
  int weight = 0;
  visit(x, [&](Scalar node) {
    if (varies(node)) weight += weight_of_node(node);
  });
  return weight;
}

/// What is evaluated whatever the data are: not the branches of a select, which may load out of bounds.
void RowMembers::collect(Scalar root, std::vector<Scalar>& found) {
  std::unordered_set<const ir::ScalarNode*> seen;
  std::vector<Scalar> work{root};
  while (!work.empty()) {
    const Scalar x = work.back();
    work.pop_back();
    if (!seen.insert(x.node()).second || !varies(x)) continue;
    if (x->kind == ScalarKind::kOp || x->kind == ScalarKind::kCast) found.push_back(x);
    if (x->kind == ScalarKind::kLoad) continue;
    const bool is_select = x->kind == ScalarKind::kOp && x->op == ScalarOp::kSelect;
    for (size_t k = 0; k < (is_select ? 1 : x->args.size()); ++k) work.push_back(x->args[k]);
  }
}

/// Null where there is none; `first`: the first member that has it.
Scalar RowMembers::dearest_shared(size_t& first) {
  std::unordered_map<const ir::ScalarNode*, size_t> first_in;
  Scalar best;
  int best_weight = kDearWeight - 1;
  for (size_t k = 0; k < members_.size(); ++k) {
    std::vector<Scalar> found;
    collect(members_[k].compute.body, found);
    for (Scalar x : found) {
      const auto [known, is_new] = first_in.try_emplace(x.node(), k);
      // The whole of a map is a value of the row as it is.
      if (is_new || known->second == k) continue;
      const int weight = weight_of(x);
      if (weight <= best_weight) continue;
      best = x;
      best_weight = weight;
      first = known->second;
    }
  }
  return best;
}

void RowMembers::share_dear_values() {
  size_t first = 0;
  for (Scalar shared; (shared = dearest_shared(first));) {
    std::vector<Axis> axes = rows_;
    axes.insert(axes.end(), inner_.begin(), inner_.end());
    std::vector<Scalar> at;
    for (const Axis& x : axes) at.push_back(graph_.scalars().index(x.var));
    const int value = add_row_value(first, axes, shared);
    const Scalar load = graph_.scalars().load(value, shared->dtype, at);
    for (Member& m : members_) {
      if (m.value != value)
        m.compute.body = ir::rewrite(m.compute.body, {}, [&](Scalar x) { return x == shared ? load : x; });
    }
  }
}

/// A member without reductions in front of member `before`; returns its number.
int RowMembers::add_row_value(size_t before, std::vector<Axis> axes, Scalar body) {
  Member member;
  std::vector<Expr> extents;
  for (const Axis& a : axes) extents.push_back(a.extent);
  member.compute.axes = std::move(axes);
  member.compute.body = body;
  member.type = Type::tensor(body->dtype, std::move(extents));
  member.source = members_[before].source;
  member.value = static_cast<int>(values_.size());
  values_.push_back(nullptr);
  members_.insert(members_.begin() + static_cast<std::ptrdiff_t>(before), std::move(member));
  return members_[before].value;
}

bool RowMembers::is_made(int value) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& m) { return m.value == value; });
}

/// What an operand's element is in terms of what the map behind it reads; `load` itself where there is no such map.
Scalar RowMembers::seen_through_map(Scalar load) {
  const Value* v = values_[load->slot];
  const Op* producer = v == nullptr ? nullptr : v->producer;
  const Compute* map = producer == nullptr ? nullptr : producer->as<Compute>();
  if (map == nullptr || map->combiner != Combiner::kNone) return load;
  const BodyCost cost = cost_of(*map);
  if (cost.checked || cost.expensive) return load;
  const Scalar body = ir::rewrite(map->body, {}, [&](Scalar x) {
    if (x->kind != ScalarKind::kLoad) return x;
    return x->table->load(number_of(producer->operands[x->slot]), x->dtype, x->args);
  });
  return at_indices(body, map->axes, load->args);
}

/// The same through a map that only says where the element is, affine in `moving`, and may scale it by a constant, which is returned beside it. What
/// else finds the element (a head among those that share it) is found once for all of `moving`.
std::pair<Scalar, Scalar> RowMembers::seen_in_place(Scalar load, const std::vector<Axis>& moving) {
  Scalar seen = seen_through_map(load), scale;
  if (seen->kind == ScalarKind::kOp && seen->op == ScalarOp::kMul && ir::is_float(seen->dtype)) {
    for (const int side : {0, 1}) {
      if (seen->args[side]->kind != ScalarKind::kConstant) continue;
      scale = seen->args[side];
      seen = seen->args[1 - side];
      break;
    }
  }
  const bool is_place = seen->kind == ScalarKind::kLoad &&
                        std::all_of(seen->args.begin(), seen->args.end(),
                                    [&](Scalar a) { return ir::as_expr(a) && is_affine(ir::as_expr(a), moving); });
  return is_place ? std::pair(seen, scale) : std::pair(load, Scalar());
}

/// A factor that all products of a sum have is one of the sum.
void RowMembers::scale_sum(Compute& c, Scalar scale) {
  const Scalar sum = graph_.scalars().accumulator(c.accumulate);
  const Scalar scaled = ir::binary(ScalarOp::kMul, sum, ir::cast(c.accumulate, scale));
  c.epilogue = c.epilogue ? ir::rewrite(c.epilogue, {}, [&](Scalar x) { return x == sum ? scaled : x; })
                          : ir::cast(c.body->dtype, scaled);
}

void RowMembers::keep_factors() {
  for (size_t k = 0; k < members_.size(); ++k) {
    const Classification found = classify(members_[k].compute);
    if (found.kind != ComputeClass::kContraction) continue;
    const auto replace = [&](Scalar load, Scalar by) {
      Scalar& body = members_[k].compute.body;
      if (load != by) body = ir::rewrite(body, {}, [&](Scalar x) { return x == load ? by : x; });
    };
    const Scalar factors[2] = {found.contraction.left, found.contraction.right};
    for (int side = 0; side < 2; ++side) {
      const Scalar load = factors[side];
      if (is_made(load->slot)) continue;
      if (!moves_alone(load, factors[1 - side])) {
        std::vector<Axis> moving = members_[k].compute.reductions;
        moving.insert(moving.end(), inner_.begin(), inner_.end());
        moving.insert(moving.end(), own_.begin(), own_.end());
        const auto [seen, scale] = seen_in_place(load, moving);
        replace(load, seen);
        if (scale) scale_sum(members_[k].compute, scale);
        continue;
      }
      std::vector<Axis> axes = rows_;
      axes.insert(axes.end(), members_[k].compute.reductions.begin(), members_[k].compute.reductions.end());
      if (!depends_only_on(load, axes)) continue;
      std::vector<Scalar> at;
      for (const Axis& a : axes) at.push_back(graph_.scalars().index(a.var));
      const int value = add_row_value(k, axes, seen_through_map(load));
      ++k;
      replace(load, graph_.scalars().load(value, load->dtype, at));
    }
  }
}

/// Whether a row axis moves one factor and not the other.
bool RowMembers::moves_alone(Scalar load, Scalar other) const {
  const auto moves = [](Scalar x, const Axis& row) {
    return std::any_of(x->args.begin(), x->args.end(),
                       [&](Scalar a) { return symbolic::depends_on(ir::as_expr(a), row.var); });
  };
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Axis& row) { return moves(load, row) && !moves(other, row); });
}

bool RowMembers::depends_only_on(Scalar load, const std::vector<Axis>& axes) {
  return std::all_of(load->args.begin(), load->args.end(), [&](Scalar a) {
    const std::vector<Expr> symbols = symbolic::free_symbols(ir::as_expr(a));
    return std::all_of(symbols.begin(), symbols.end(), [&](Expr symbol) {
      return symbol.symbol().kind != symbolic::SymbolKind::kLoop ||
             std::any_of(axes.begin(), axes.end(), [&](const Axis& x) { return x.var == symbol; });
    });
  });
}

Op* RowMembers::make_op(Block& block, const std::vector<Value*>& results, Op* before) {
  std::vector<bool> is_operand(values_.size(), false);
  for (const Member& m : members_) {
    for (Scalar root : {m.compute.body, m.compute.epilogue}) {
      if (!root) continue;
      visit(root, [&](Scalar x) {
        if (x->kind == ScalarKind::kLoad) is_operand[x->slot] = true;
      });
    }
  }
  for (const Member& m : members_) is_operand[m.value] = false;
  std::vector<Value*> operands;
  std::vector<Value*> inside(values_.size(), nullptr);
  auto body = std::make_unique<Block>();
  for (size_t k = 0; k < values_.size(); ++k) {
    if (!is_operand[k]) continue;
    operands.push_back(const_cast<Value*>(values_[k]));
    inside[k] = graph_.add_input(*body, values_[k]->type, "");
    inside[k]->contents = values_[k]->contents;
  }
  for (Member& m : members_) {
    std::vector<int> slots(values_.size(), -1);
    std::vector<Value*> own;
    const auto local = [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad) return x;
      int& slot = slots[x->slot];
      if (slot < 0) {
        slot = static_cast<int>(own.size());
        STAX_ASSERT(inside[x->slot] != nullptr, "a member of a row group reads what comes later");
        own.push_back(inside[x->slot]);
      }
      return x->table->load(slot, x->dtype, x->args);
    };
    for (Scalar* root : {&m.compute.body, &m.compute.epilogue}) {
      if (*root) *root = ir::rewrite(*root, {}, local);
    }
    Op* op = graph_.add_op(*body, std::move(m.compute), std::move(own), {m.type}, {}, m.source);
    inside[m.value] = op->result();
  }
  std::vector<Type> types;
  for (Value* v : results) {
    types.push_back(v->type);
    body->outputs.push_back(inside[numbers_.at(v)]);
  }
  std::string source = members_.back().source;
  return graph_.add_op(block, RowGroup{rows_, std::move(body)}, std::move(operands), std::move(types), {},
                       std::move(source), before);
}

}  // namespace stax::tensor
