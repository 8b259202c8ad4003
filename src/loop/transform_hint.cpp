// SPDX-License-Identifier: Apache-2.0
// hint 2 before r
//
// A sum whose result is added to another tensor reads that tensor when the sum is done, all at once, and waits for it. It can be on its way while the
// sum runs:
//
//   { for r in K { .. } ; for i in 8 unrolled { for j in 32 vector { y[p, i, j] = s[i, j] + x[p, i, j] } } }
//   -> { for i_h in 8 unrolled { prefetch 1 %x[p, i_h, 0]; prefetch 1 %x[p, i_h, 16] }; for r in K { .. } ; .. }
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostHints = 64;

class Hinter {
 public:
  Hinter(const Edit& edit, int slot) : edit_(edit), slot_(slot) {}

  /// Hints for what `s` reads of the buffer; null: it reads nothing of it.
  Stmt of(const Stmt& s) {
    std::vector<Access> reads;
    for (const Access& a : accesses_in(s))
      if (a.slot == slot_ && a.kind == AccessKind::kLoad) reads.push_back(a);
    if (reads.empty()) return {};
    for (const Access& a : reads)
      if (a.index != reads[0].index) fail("it is read at several places");
    std::vector<Expr> index;
    for (Scalar i : reads[0].index) {
      index.push_back(ir::as_expr(i));
      if (!index.back()) fail("where it is read depends on data");
    }
    return around(reads[0].loops, std::move(index));
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    edit_.fail("buffer " + edit_.kernel.buffers[static_cast<size_t>(slot_)].name, reason);
  }

  Stmt around(std::vector<LoopRange> loops, std::vector<Expr> index) {
    Block hints;
    int64_t run = 1;
    // Along the innermost loop a hint serves a line.
    if (!loops.empty() && index.back() && is_run(loops.back(), index)) {
      run = loops.back().extent.constant();
      for (Expr& e : index) e = symbolic::substitute(e, {{loops.back().var.node(), edit_.context().exprs.constant(0)}});
      loops.pop_back();
    }
    int64_t count = run;
    symbolic::Substitution names;
    for (LoopRange& l : loops) {
      if (!l.extent.is_constant()) fail("how much is read is not known");
      count *= l.extent.constant();
      const Expr var = edit_.fresh_loop(loop_name(l.var) + "_h", l.extent);
      names[l.var.node()] = var;
      l.var = var;
    }
    const auto bytes = static_cast<int64_t>(ir::byte_size(edit_.kernel.buffers[static_cast<size_t>(slot_)].dtype));
    const int64_t line = std::max<int64_t>(kLineBytes / bytes, 1);
    if (count / std::min(line, run) > kMostHints) fail("what is read are more than a few lines");
    for (Expr& e : index) e = symbolic::substitute(e, names);
    for (int64_t element = 0; element < run; element += line) {
      Prefetch hint{1, slot_, {}};
      for (Expr e : index) hint.index.push_back(edit_.context().scalars.index(e));
      hint.index.back() = edit_.context().scalars.index(index.back() + element);
      hints.statements.push_back(make(std::move(hint)));
    }
    Stmt result = hints.statements.size() == 1 ? hints.statements[0] : make(std::move(hints));
    for (size_t k = loops.size(); k-- > 0;)
      result = make(For{loops[k].var, loops[k].extent, LoopKind::kUnrolled, 0, std::move(result)});
    return result;
  }

  bool is_run(const LoopRange& l, const std::vector<Expr>& index) const {
    if (!l.extent.is_constant()) return false;
    for (size_t k = 0; k + 1 < index.size(); ++k)
      if (symbolic::depends_on(index[k], l.var)) return false;
    const auto form = symbolic::affine_in(index.back(), l.var);
    return form && form->coefficient.is_constant(1) && edit_.kernel.buffers[static_cast<size_t>(slot_)].strides.empty();
  }

  const Edit& edit_;
  int slot_;
};

bool is_loop_of(const Stmt& s, Expr var) {
  const For* f = s->as<For>();
  return f != nullptr && f->var == var;
}

}  // namespace

Kernel hint(Edit edit) {
  const int slot = edit.slot(0);
  if (edit.word(1) != "before") edit.fail(edit.word(1), "expected before LOOP");
  if (slot >= edit.kernel.arguments) edit.fail(edit.word(0), "only global buffers are hinted at");
  const Expr loop = edit.loop(edit.word(2));
  bool found = false;
  edit.kernel.body = rewrite(edit.kernel.body, [&](const Stmt& s) -> Stmt {
    const Block* b = s->as<Block>();
    if (b == nullptr) return s;
    const auto at = std::find_if(b->statements.begin(), b->statements.end(),
                                 [&](const Stmt& each) { return is_loop_of(each, loop); });
    if (at == b->statements.end()) return s;
    Block copy{{b->statements.begin(), at}};
    for (auto behind = at + 1; behind != b->statements.end(); ++behind) {
      if (Stmt hints = Hinter(edit, slot).of(*behind)) {
        copy.statements.push_back(std::move(hints));
        found = true;
      }
    }
    copy.statements.insert(copy.statements.end(), at, b->statements.end());
    return make(std::move(copy));
  });
  if (!found)
    edit.fail("loop " + loop_name(loop), fmt::format("what stands behind it reads nothing of buffer {}", slot));
  return std::move(edit.kernel);
}

}  // namespace stax::loop
