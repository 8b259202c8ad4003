// SPDX-License-Identifier: Apache-2.0
// Local buffers whose elements are guarded alike.
//
//   allocate %3 { for i in 32 vector 16 { if i + c < n { %3[i] = .. } } .. for i in 32 vector 16 { if i + c < n { .. = load3[i] } } }
//
// An element is read only where the same condition held when it was written, so that writing the others, too, changes nothing. Without a mask the
// sums of a tile stay in registers as they are: with one, each is the old value, the new one and the choice.
#include <algorithm>

#include "native/kernel.h"

namespace stax::native {

namespace {

// The vector loop and the conditions between it and what is visited.
struct Guards {
  const loop::For* vector = nullptr;
  std::vector<Expr> conditions;  // of lanes; null: one that depends on data
};

class GuardedAlike {
 public:
  explicit GuardedAlike(int slot) : slot_(slot) {}

  bool holds_for(const Stmt& body) {
    visit(body);
    return same_ && written_;
  }

 private:
  void visit(const Stmt& s) {
    if (!same_) return;
    if (const auto* loop = s->as<loop::For>()) return visit(*loop);
    if (const auto* branch = s->as<loop::If>()) return visit(*branch);
    if (const auto* block = s->as<loop::Block>()) {
      for (const Stmt& each : block->statements) visit(each);
      return;
    }
    if (const auto* allocate = s->as<loop::Allocate>()) return visit(allocate->body);
    loop::visit_scalars(*s, [&](Scalar root) { visit_loads(root); });
    if (const auto* store = s->as<loop::Store>(); store != nullptr && store->slot == slot_) {
      see(store->index, true);
    } else if (const auto* update = s->as<loop::Update>(); update != nullptr && update->slot == slot_) {
      see(update->index, true);
    }
  }

  void visit(const loop::For& loop) {
    inside_.push_back(loop.var);
    const Guards outer = guards_;
    if (loop.kind == loop::LoopKind::kVector) guards_ = {&loop, {}};
    visit(loop.body);
    guards_ = outer;
  }

  void visit(const loop::If& branch) {
    visit_loads(branch.condition);
    const Guards outer = guards_;
    const Expr condition = loop::condition_expr(branch.condition);
    // What is the same in all lanes is a branch, not a mask.
    const bool is_mask =
        guards_.vector != nullptr && (!condition || symbolic::depends_on(condition, guards_.vector->var));
    if (is_mask) guards_.conditions.push_back(condition);
    visit(branch.then_body);
    if (branch.else_body) {
      if (is_mask) guards_.conditions.back() = Expr();
      visit(branch.else_body);
    }
    guards_ = outer;
  }

  void visit_loads(Scalar root) {
    ir::visit(root, [&](Scalar x) {
      if (x->kind == ir::ScalarKind::kLoad && x->slot == slot_) see(x->args, false);
    });
  }

  void see(const std::vector<Scalar>& index, bool written) {
    const loop::For* vector = guards_.vector;
    // Lanes past the end of the loop are not under the condition.
    const bool is_whole = vector != nullptr && vector->extent.is_constant() && vector->width > 0 &&
                          vector->extent.constant() % vector->width == 0;
    if (!is_whole || index.empty() || ir::as_expr(index.back()) != vector->var) return stop();
    for (size_t axis = 0; axis + 1 < index.size(); ++axis) {
      const Expr e = ir::as_expr(index[axis]);
      if (!e || symbolic::depends_on(e, vector->var)) return stop();
    }
    // A write is under this condition alone.
    if (written && guards_.conditions.size() != 1) return stop();
    written_ |= written;
    const auto is_it = [&](Expr condition) {
      if (!condition) return false;
      if (!of_) return may_be(condition);
      return symbolic::substitute(condition, {{vector->var.node(), var_}}) == of_;
    };
    const auto found = std::find_if(guards_.conditions.begin(), guards_.conditions.end(), is_it);
    if (found == guards_.conditions.end()) return stop();
    if (!of_) of_ = *found, var_ = vector->var;
  }

  /// As long as the buffer lives, the condition says the same of an element.
  bool may_be(Expr condition) const {
    return std::none_of(inside_.begin(), inside_.end(),
                        [&](Expr var) { return var != guards_.vector->var && symbolic::depends_on(condition, var); });
  }

  void stop() { same_ = false; }

  int slot_;
  bool same_ = true, written_ = false;
  Guards guards_;
  std::vector<Expr> inside_;  // variables of loops between the allocation and here, and of those seen before
  Expr of_, var_;             // the condition, and the vector loop's variable in it
};

}  // namespace

bool KernelEmitter::is_guarded_alike(const loop::Allocate& s) { return GuardedAlike(s.slot).holds_for(s.body); }

}  // namespace stax::native
