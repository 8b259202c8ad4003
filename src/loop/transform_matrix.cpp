// SPDX-License-Identifier: Apache-2.0
// matrix i j k    (a dash for a loop that there is none of)
//
// Marks the loops of a product of two small matrices, and those that fill its factors or go over its sums:
//
//   for i in 16 { for j in 8 { for k in 16 { c[i, j] sum= mul(a[i, k], b[k, j]) } } }      matrix i j k
//   for i in 16 { for k in 16 { a[i, k] = x[i, k + 32] } }                                 matrix i - k
//
// Their iterations are then done by the lanes of a warp together, each of which holds a part of a, b and c. Which part follows from the
// machine's instruction, which is chosen where loops become threads (lower/matrix_nest.h); nothing here depends on it.
#include <fmt/format.h>

#include <algorithm>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

namespace {

struct Nest {
  std::vector<For> loops;  // outer first
  Stmt leaf;
  bool has_condition = false;
};

class Checker {
 public:
  explicit Checker(const Edit& edit) : edit_(edit) {}

  void run(const Stmt& s, const LoopScope& scope) {
    if (const For* f = s->as<For>()) {
      if (is_matrix(f->kind)) return nest(s, scope);
      LoopScope inner = scope;
      inner.push(f->var, f->extent);
      run(f->body, inner);
    } else if (const Block* b = s->as<Block>()) {
      for (const Stmt& each : b->statements) run(each, scope);
    } else if (const If* i = s->as<If>()) {
      run(i->then_body, scope);
      if (i->else_body) run(i->else_body, scope);
    } else if (const Allocate* a = s->as<Allocate>()) {
      run(a->body, scope);
    }
  }

 private:
  void nest(const Stmt& root, LoopScope scope) {
    Nest n;
    for (Stmt s = root; !n.leaf;) {
      if (const For* f = s->as<For>()) {
        if (!is_matrix(f->kind)) fail(*f, "it is inside of matrix loops and none itself");
        for (const For& outer : n.loops)
          if (outer.kind == f->kind) fail(*f, fmt::format("there are two loops over {}", name_of(f->kind)));
        n.loops.push_back(*f);
        s = f->body;
      } else if (const If* i = s->as<If>(); i != nullptr && !i->else_body) {
        n.has_condition = true;
        s = i->then_body;
      } else if (s->as<Store>() != nullptr || s->as<Update>() != nullptr) {
        n.leaf = s;
      } else {
        fail(n.loops.back(), "there is more than one statement in it");
      }
    }
    if (n.loops.size() < 2) fail(n.loops[0], "it is alone: matrices have two sides");
    if (n.loops.size() == 3) return product(n);
    for (const For& f : n.loops) {
      const std::string dependence = find_dependence(edit_.kernel, f, scope, Reduction::kForbidden);
      if (!dependence.empty()) fail(f, "its iterations are not independent: " + dependence);
      scope.push(f.var, f.extent);
    }
  }

  void product(const Nest& n) {
    const For& inner = n.loops.back();
    if (n.has_condition) fail(inner, "there is a condition around the sum");
    const Update* sum = n.leaf->as<Update>();
    if (sum == nullptr || sum->combiner != Combiner::kSum) fail(inner, "there is no sum in it");
    const auto var = [&](LoopKind kind) {
      return std::find_if(n.loops.begin(), n.loops.end(), [&](const For& f) { return f.kind == kind; })->var;
    };
    const Expr rows = var(LoopKind::kRows), columns = var(LoopKind::kColumns), depth = var(LoopKind::kDepth);
    const auto moves = [&](const std::vector<Scalar>& index, Expr with) {
      return std::any_of(index.begin(), index.end(), [&](Scalar i) { return depends_on(i, with); });
    };
    if (!moves(sum->index, rows) || !moves(sum->index, columns) || moves(sum->index, depth))
      fail(inner, "the sum is not an element for each row and column");
    const Scalar value = sum->value;
    if (value->kind != ir::ScalarKind::kOp || value->op != ir::ScalarOp::kMul)
      fail(inner, "what is added is no product");
    bool left = false, right = false;
    for (Scalar factor : value->args) {
      while (factor->kind == ir::ScalarKind::kCast) factor = factor->args[0];
      if (factor->kind != ir::ScalarKind::kLoad || factor->slot < edit_.kernel.arguments)
        fail(inner, "the factor " + factor.str() + " is no element of a local buffer");
      const bool by_row = moves(factor->args, rows), by_column = moves(factor->args, columns);
      if (!moves(factor->args, depth) || by_row == by_column)
        fail(inner, "the factor " + factor.str() + " is not one of rows and depth, or of depth and columns");
      (by_row ? left : right) = true;
    }
    if (!left || !right) fail(inner, "both factors are of one side");
  }

  [[noreturn]] void fail(const For& f, const std::string& reason) const {
    edit_.fail("loop " + loop_name(f.var), reason);
  }

  const Edit& edit_;
};

}  // namespace

Kernel matrix(Edit edit) {
  constexpr LoopKind kRoles[] = {LoopKind::kRows, LoopKind::kColumns, LoopKind::kDepth};
  constexpr int64_t kMost = 256;
  for (size_t k = 0; k < std::size(kRoles); ++k) {
    if (edit.word(k) == "-") continue;
    edit.replace_loops(edit.loop(edit.word(k)), [&](const For& loop, const LoopScope&) {
      edit.require_kind(loop, LoopKind::kSerial);
      if (!loop.extent.is_constant() || loop.extent.constant() > kMost)
        edit.fail("loop " + loop_name(loop.var),
                  fmt::format("its extent {} is not a constant up to {}", loop.extent.str(), kMost));
      For copy = loop;
      copy.kind = kRoles[k];
      return make(std::move(copy));
    });
  }
  Checker(edit).run(edit.kernel.body, LoopScope());
  return std::move(edit.kernel);
}

}  // namespace stax::loop
