// SPDX-License-Identifier: Apache-2.0
// skip r
//
// A convolution over a small image multiplies padding, too: a 3x3 window over one pixel reads nine times the weights it needs. Where a loop of a sum
// adds nothing but products with zeros, it need not run:
//
//   for r in K { for i in 4 unrolled { s[i] sum= select(c(i), x[.., r], 0) * w[r] } }
//   -> if c(0) or c(1) or c(2) or c(3) { for r in K { .. } }
//
// Zero times an infinity or a NaN is not zero, so the other factor has to be one element of a buffer that is known to hold neither. Of a sum that
// begins with 0 the sign of a zero stays what it is.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

// Iterations of the loops inside that are asked one by one.
constexpr size_t kMostAsked = 64;

class Skipper {
 public:
  Skipper(const Edit& edit, const For& loop) : edit_(edit), loop_(loop) {}

  Stmt run() {
    walk(loop_.body);
    if (conditions_.empty()) fail("it adds nothing");
    Expr any;
    for (Expr c : conditions_) any = any ? symbolic::max(any, c) : c;
    return make(If{condition_of(edit_.context(), any), make(For(loop_)), {}});
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_.var), reason); }

  void walk(const Stmt& s) {
    if (const For* f = s->as<For>()) {
      inside_.push_back(*f);
      walk(f->body);
      inside_.pop_back();
    } else if (const Block* b = s->as<Block>()) {
      for (const Stmt& each : b->statements) walk(each);
    } else if (const Update* u = s->as<Update>()) {
      note(*u);
    } else if (s->as<Prefetch>() == nullptr) {
      fail("there is more in it than sums");
    }
  }

  void note(const Update& u) {
    if (u.combiner != Combiner::kSum || u.value->kind != ir::ScalarKind::kOp || u.value->op != ir::ScalarOp::kMul)
      fail("it adds more than products");
    for (size_t side : {size_t{0}, size_t{1}}) {
      const Expr condition = condition_of_zero(u.value->args[side]);
      if (!condition || !is_finite(u.value->args[1 - side])) continue;
      add(condition, inside_.size());
      return;
    }
    fail("no factor is 0 under a condition and the other one finite");
  }

  /// The condition without which `x` is 0; null: there is none that is known without data.
  static Expr condition_of_zero(Scalar x) {
    if (x->kind != ir::ScalarKind::kOp || x->op != ir::ScalarOp::kSelect) return {};
    const Scalar zero = x->args[2];
    return zero->kind == ir::ScalarKind::kConstant && zero->bits == 0 ? condition_expr(x->args[0]) : Expr();
  }

  bool is_finite(Scalar x) const {
    while (x->kind == ir::ScalarKind::kCast && ir::byte_size(x->dtype) >= ir::byte_size(x->args[0]->dtype))
      x = x->args[0];
    return x->kind == ir::ScalarKind::kLoad && edit_.kernel.buffers[static_cast<size_t>(x->slot)].finite;
  }

  /// Adds the condition for all iterations of the first `depth` loops inside.
  void add(Expr condition, size_t depth) {
    if (symbolic::depends_on(condition, loop_.var)) fail("what is 0 differs between its iterations");
    while (depth > 0 && !symbolic::depends_on(condition, inside_[depth - 1].var)) --depth;
    if (depth == 0) {
      if (std::find(conditions_.begin(), conditions_.end(), condition) == conditions_.end())
        conditions_.push_back(condition);
      if (conditions_.size() > kMostAsked) fail("the conditions in it are too many");
      return;
    }
    const For& inner = inside_[depth - 1];
    if (!inner.extent.is_constant() || inner.extent.constant() > static_cast<int64_t>(kMostAsked))
      fail(
          fmt::format("what is 0 differs between the iterations of loop {}, which are too many", loop_name(inner.var)));
    for (int64_t i = 0; i < inner.extent.constant(); ++i)
      add(symbolic::substitute(condition, {{inner.var.node(), edit_.context().exprs.constant(i)}}), depth - 1);
  }

  const Edit& edit_;
  const For& loop_;
  std::vector<For> inside_;
  std::vector<Expr> conditions_;
};

}  // namespace

Kernel skip(Edit edit) {
  const Expr loop = edit.loop(edit.word(0));
  edit.replace_loops(loop, [&](const For& f, const LoopScope&) { return Skipper(edit, f).run(); });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
