// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include "tensor/passes.h"

namespace stax::tensor {

namespace {

/// Marks what is needed, from the outputs and Checks backwards: producers of operands and definers of symbols.
class Liveness {
 public:
  explicit Liveness(Graph& graph) {
    for_each_op(graph.body, [&](Op& op) {
      for (Expr symbol : op.defines) definers_[symbol.node()] = &op;
      if (Loop* loop = op.as<Loop>()) {
        for (Expr symbol : loop->body_defines) definers_[symbol.node()] = &op;
      }
    });
    for_each_op(graph.body, [&](Op& op) {
      if (op.kind() == OpKind::kCheck) need(op);
    });
    need_outputs(graph.body);
    while (!work_.empty()) {
      Op* op = work_.back();
      work_.pop_back();
      scan(*op);
    }
  }
  bool is_live(const Op& op) const { return live_.contains(&op); }

 private:
  void need(Op& op) {
    if (live_.insert(&op).second) work_.push_back(&op);
  }
  void need(Value* v) {
    if (v->producer != nullptr) need(*v->producer);
  }
  void need(const std::vector<Expr>& symbols) {
    for (Expr s : symbols) {
      if (const auto found = definers_.find(s.node()); found != definers_.end()) need(*found->second);
    }
  }
  void need_outputs(Block& block) {
    for (Value* v : block.outputs) need(v);
  }
  void scan(Op& op) {
    for (Value* v : op.operands) need(v);
    need(used_symbols(op));
    if (op.block->parent != nullptr) need(*op.block->parent);
    if (If* branch = op.as<If>()) {
      need_outputs(*branch->then_block);
      need_outputs(*branch->else_block);
    } else if (Loop* loop = op.as<Loop>()) {
      need_outputs(*loop->body);
    } else if (RowGroup* group = op.as<RowGroup>()) {
      need_outputs(*group->body);
    }
  }

  std::unordered_map<const symbolic::ExprNode*, Op*> definers_;
  std::unordered_set<const Op*> live_;
  std::vector<Op*> work_;
};

bool sweep(Block& block, const Liveness& liveness) {
  // From the back, so that an op goes before those whose results it uses.
  bool changed = false;
  for (auto at = block.ops.end(); at != block.ops.begin();) {
    --at;
    if (!liveness.is_live(**at)) {
      at = block.ops.erase(at);
      changed = true;
      continue;
    }
    if (If* branch = (*at)->as<If>()) {
      changed |= sweep(*branch->then_block, liveness);
      changed |= sweep(*branch->else_block, liveness);
    } else if (Loop* loop = (*at)->as<Loop>()) {
      changed |= sweep(*loop->body, liveness);
    } else if (RowGroup* group = (*at)->as<RowGroup>()) {
      changed |= sweep(*group->body, liveness);
    }
  }
  return changed;
}

}  // namespace

bool eliminate_dead_ops(Graph& graph) {
  const Liveness liveness(graph);
  return sweep(graph.body, liveness);
}

}  // namespace stax::tensor
