// SPDX-License-Identifier: Apache-2.0
// Siblings: products of one tensor with several weights, the query, key and value projections of attention for one, are a single product
// with the weights side by side. It reads the tensor once, is one launch, and its rows are long enough to fill tiles; what was a result of
// its own is a part of each row, which readers find by an offset.
//
// What is added to each product, a bias, goes along, so that it can become the epilogue of the one product. A sibling whose readers would
// need its elements in one piece (an output, a reshape that is not a split of the last axis) stays by itself: it would be copied.
#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

using ir::ScalarKind;

namespace {

/// A Compute whose result's last axis is that of a constant operand, and of nothing else.
struct Sibling {
  Op* op = nullptr;
  int constant_slot = -1;
  int constant_axis = -1;  // the constant's axis that is the last of the result
  Scalar signature;        // the body with the last axis' variable and the operands' slots in a common form
};

class SiblingFuser {
 public:
  SiblingFuser(Graph& graph, Block& block) : graph_(graph), block_(block) {
    for (const auto& op : block.ops) {
      for (Value* v : op->operands) users_[v].push_back(op.get());
      for_each_inner(*op, [&](Op& inner) {
        for (Value* v : inner.operands) users_[v].push_back(nullptr);
      });
    }
    for (Value* v : block.outputs) users_[v].push_back(nullptr);
  }

  bool run() {
    bool changed = false;
    std::vector<std::pair<Value*, std::vector<Sibling>>> families;
    for (const auto& op : block_.ops) {
      const auto sibling = product_with_constant(*op);
      if (!sibling || !can_be_part(op->result())) continue;
      Value* left = op->operands[1 - sibling->constant_slot];
      auto family = std::find_if(families.begin(), families.end(),
                                 [&](const auto& f) { return f.first == left && are_alike(f.second[0], *sibling); });
      if (family == families.end()) {
        families.push_back({left, {*sibling}});
      } else {
        family->second.push_back(*sibling);
      }
    }
    for (auto& [left, siblings] : families) {
      if (siblings.size() < 2) continue;
      fuse(siblings);
      changed = true;
    }
    return changed;
  }

 private:
  template <class F>
  static void for_each_inner(Op& op, const F& f) {
    if (If* branch = op.as<If>()) {
      for (Block* b : {branch->then_block.get(), branch->else_block.get()}) add_block(*b, f);
    } else if (Loop* loop = op.as<Loop>()) {
      add_block(*loop->body, f);
    }
  }
  template <class F>
  static void add_block(Block& b, const F& f) {
    for_each_op(b, f);
    for (Value* v : b.outputs) {
      Op user;
      user.operands = {v};
      f(user);
    }
  }

  // ---- who is one

  std::optional<Sibling> product_with_constant(Op& op) {
    const Compute* c = op.as<Compute>();
    if (c == nullptr || op.operands.size() != 2 || classify(*c).kind != ComputeClass::kContraction) return std::nullopt;
    return sibling_of(op);
  }

  /// Of two operands, one a constant.
  std::optional<Sibling> sibling_of(Op& op) {
    const Compute& c = *op.as<Compute>();
    if (c.axes.empty() || c.epilogue || op.operands.size() != 2) return std::nullopt;
    Sibling s;
    s.op = &op;
    for (int k = 0; k < 2; ++k) {
      if (op.operands[k]->producer != nullptr && op.operands[k]->producer->kind() == OpKind::kConstant)
        s.constant_slot = k;
    }
    if (s.constant_slot < 0 || !c.axes.back().extent.is_constant()) return std::nullopt;
    const Expr var = c.axes.back().var;
    bool fine = true;
    visit(c.body, [&](Scalar x) {
      if (x->kind == ScalarKind::kIndex && x->index != var && symbolic::depends_on(x->index, var)) fine = false;
      if (x->kind != ScalarKind::kLoad) {
        for (Scalar a : x->args) fine = fine && ir::as_expr(a) != var;
        return;
      }
      for (size_t k = 0; k < x->args.size(); ++k) {
        if (ir::as_expr(x->args[k]) != var) continue;
        const bool is_own = x->slot == s.constant_slot &&
                            op.operands[x->slot]->type.extents[k] == c.axes.back().extent &&
                            (s.constant_axis < 0 || s.constant_axis == static_cast<int>(k));
        fine = fine && is_own;
        s.constant_axis = static_cast<int>(k);
      }
    });
    if (!fine || s.constant_axis < 0) return std::nullopt;
    s.signature = signature_of(op, s.constant_slot, var);
    return s;
  }

  Scalar signature_of(const Op& op, int constant_slot, Expr var) {
    const Scalar body = ir::substitute(op.as<Compute>()->body, {{var.node(), common_axis()}});
    return ir::rewrite(body, {}, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad) return x;
      return x->table->load(x->slot == constant_slot ? 1 : 0, x->dtype, x->args);
    });
  }
  Expr common_axis() { return graph_.axis_var(kMaxRank + 1, graph_.exprs().constant(symbolic::kMaxExtent), false); }

  static bool are_alike(const Sibling& a, const Sibling& b) {
    const Compute &x = *a.op->as<Compute>(), &y = *b.op->as<Compute>();
    if (a.signature != b.signature || a.constant_axis != b.constant_axis || x.combiner != y.combiner ||
        x.accumulate != y.accumulate || x.reductions != y.reductions || x.axes.size() != y.axes.size()) {
      return false;
    }
    if (!std::equal(x.axes.begin(), x.axes.end() - 1, y.axes.begin())) return false;
    const Type &p = a.op->operands[a.constant_slot]->type, &q = b.op->operands[b.constant_slot]->type;
    if (p.dtype != q.dtype || p.extents.size() != q.extents.size()) return false;
    for (size_t k = 0; k < p.extents.size(); ++k) {
      if (static_cast<int>(k) != a.constant_axis && p.extents[k] != q.extents[k]) return false;
    }
    return a.op->result()->type.dtype == b.op->result()->type.dtype && !a.op->result()->type.rank &&
           !b.op->result()->type.rank;
  }

  /// Whether all readers find an element by its index, whatever lies between the rows.
  bool can_be_part(const Value* v) {
    const std::vector<Op*>& users = users_[v];
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Op* u) {
      if (u == nullptr) return false;
      if (u->kind() == OpKind::kCompute) return true;
      if (u->kind() != OpKind::kReshape || u->result()->type.rank) return false;
      std::vector<Expr> at;
      for (Expr e : u->result()->type.extents) at.push_back(graph_.axis_var(static_cast<int>(at.size()), e, false));
      return indices_before_reshape(graph_, v->type.extents, u->result()->type.extents, at) && can_be_part(u->result());
    });
  }

  /// The map that adds a constant to a product and is its only reader.
  Op* bias_of(const Sibling& s) {
    const std::vector<Op*>& users = users_[s.op->result()];
    if (users.size() != 1 || users[0] == nullptr) return nullptr;
    const Compute* c = users[0]->as<Compute>();
    const Compute& product = *s.op->as<Compute>();
    if (c == nullptr || c->combiner != Combiner::kNone || c->axes.size() != product.axes.size()) return nullptr;
    for (size_t k = 0; k < c->axes.size(); ++k) {
      if (c->axes[k].extent != product.axes[k].extent) return nullptr;
    }
    return users[0];
  }

  /// The maps behind the products as siblings: the product's index along the last axis is the map's own.
  std::vector<Sibling> biases_of(const std::vector<Sibling>& products) {
    std::vector<Sibling> biases;
    for (const Sibling& s : products) {
      Op* bias = bias_of(s);
      if (bias == nullptr || bias->operands.size() != 2 || !can_be_part(bias->result())) return {};
      auto own = bias_sibling(*bias, s);
      if (!own || (!biases.empty() && !are_alike(biases[0], *own))) return {};
      biases.push_back(*own);
    }
    return biases;
  }
  std::optional<Sibling> bias_sibling(Op& bias, const Sibling& product) {
    const Compute& c = *bias.as<Compute>();
    Sibling s;
    s.op = &bias;
    s.constant_slot = bias.operands[0] == product.op->result() ? 1 : 0;
    Value* constant = bias.operands[s.constant_slot];
    if (constant->producer == nullptr || constant->producer->kind() != OpKind::kConstant) return std::nullopt;
    const Expr var = c.axes.back().var;
    bool fine = true;
    visit(c.body, [&](Scalar x) {
      if (x->kind == ScalarKind::kIndex && x->index != var && symbolic::depends_on(x->index, var)) fine = false;
      if (x->kind != ScalarKind::kLoad) {
        for (Scalar a : x->args) fine = fine && ir::as_expr(a) != var;
        return;
      }
      for (size_t k = 0; k < x->args.size(); ++k) {
        const Expr e = ir::as_expr(x->args[k]);
        if (x->slot != s.constant_slot) {
          fine = fine && e == c.axes[k].var;
        } else if (e == var) {
          fine = fine && constant->type.extents[k] == c.axes.back().extent &&
                 (s.constant_axis < 0 || s.constant_axis == static_cast<int>(k));
          s.constant_axis = static_cast<int>(k);
        }
      }
    });
    if (!fine || s.constant_axis < 0) return std::nullopt;
    s.signature = signature_of(bias, s.constant_slot, var);
    return s;
  }

  // ---- one out of several

  void fuse(const std::vector<Sibling>& products) {
    const std::vector<Sibling> biases = biases_of(products);
    Value* left = products[0].op->operands[1 - products[0].constant_slot];
    // All of it stands where the first product stood, in front of every reader.
    Op* before = products[0].op;
    Value* whole = joined(products, left, before);
    if (!biases.empty()) whole = joined(biases, whole, before);
    int64_t offset = 0;
    for (const Sibling& s : biases.empty() ? products : biases) {
      Value* old = s.op->result();
      Value* part = part_of(whole, *s.op, offset, before);
      part->name = old->name;
      replace_all_uses(graph_, old, part);
      offset += s.op->as<Compute>()->axes.back().extent.constant();
    }
  }

  /// The siblings with `left` as their common operand.
  Value* joined(const std::vector<Sibling>& siblings, Value* left, Op* before) {
    const Sibling& first = siblings[0];
    int64_t length = 0;
    for (const Sibling& s : siblings) length += s.op->as<Compute>()->axes.back().extent.constant();
    Op* constant =
        graph_.add_op(block_, Constant{side_by_side(siblings, length)}, {}, {}, {}, first.op->source, before);
    Type constant_type = first.op->operands[first.constant_slot]->type;
    constant_type.extents[first.constant_axis] = graph_.exprs().constant(length);
    add_result(*constant, constant_type);
    Compute c = *first.op->as<Compute>();
    const Expr extent = graph_.exprs().constant(length);
    const Axis axis{graph_.axis_var(static_cast<int>(c.axes.size()) - 1, extent, false), extent};
    c.body = ir::substitute(first.signature, {{common_axis().node(), axis.var}});
    c.axes.back() = axis;
    Type type = first.op->result()->type;
    type.extents.back() = extent;
    return graph_
        .add_op(block_, std::move(c), {left, constant->result()}, {std::move(type)}, {}, first.op->source, before)
        ->result();
  }

  void add_result(Op& op, Type type) {
    auto v = std::make_unique<Value>();
    v->type = std::move(type);
    v->producer = &op;
    v->id = graph_.next_value_id();
    op.results.push_back(std::move(v));
  }

  Literal side_by_side(const std::vector<Sibling>& siblings, int64_t length) {
    const Sibling& first = siblings[0];
    const auto literal_of = [](const Sibling& s) -> const Literal& {
      return s.op->operands[s.constant_slot]->producer->as<Constant>()->literal;
    };
    std::vector<int64_t> extents = literal_of(first).extents();
    int64_t before = 1, after = 1;
    for (int k = 0; k < static_cast<int>(extents.size()); ++k) {
      if (k < first.constant_axis) before *= extents[k];
      if (k > first.constant_axis) after *= extents[k];
    }
    extents[first.constant_axis] = length;
    Literal whole(literal_of(first).dtype(), extents);
    char* to = static_cast<char*>(whole.data());
    for (int64_t row = 0; row < before; ++row) {
      for (const Sibling& s : siblings) {
        const Literal& own = literal_of(s);
        const size_t bytes = static_cast<size_t>(own.extents()[first.constant_axis] * after) *
                             static_cast<size_t>(ir::byte_size(own.dtype()));
        std::memcpy(to, static_cast<const char*>(own.data()) + static_cast<size_t>(row) * bytes, bytes);
        to += bytes;
      }
    }
    return whole;
  }

  /// What was the result of `op`: a window of each row.
  Value* part_of(Value* whole, Op& op, int64_t offset, Op* before) {
    Compute c;
    c.axes = op.as<Compute>()->axes;
    std::vector<Scalar> at;
    for (const Axis& a : c.axes) at.push_back(graph_.scalars().index(a.var));
    at.back() = graph_.scalars().index(c.axes.back().var + offset);
    c.body = graph_.scalars().load(0, whole->type.dtype, std::move(at));
    return graph_.add_op(block_, std::move(c), {whole}, {op.result()->type}, {}, op.source, before)->result();
  }

  Graph& graph_;
  Block& block_;
  std::unordered_map<const Value*, std::vector<Op*>> users_;
};

bool run(Graph& graph, Block& block) {
  bool changed = false;
  for (const auto& op : block.ops) {
    if (If* branch = op->as<If>()) {
      changed |= run(graph, *branch->then_block);
      changed |= run(graph, *branch->else_block);
    } else if (Loop* loop = op->as<Loop>()) {
      changed |= run(graph, *loop->body);
    }
  }
  return SiblingFuser(graph, block).run() || changed;
}

}  // namespace

bool fuse_siblings(Graph& graph) { return run(graph, graph.body); }

}  // namespace stax::tensor
