// SPDX-License-Identifier: Apache-2.0
// pipeline 4 5 at i 3
//
// Local buffers that each iteration of i fills and then uses get as many stages as said, filled in the background that many iterations, less
// one, ahead:
//
//   for i in n { allocate a { fill a by i; allocate b { fill b by i; use a and b } } }       pipeline a b at i 3
//   -> allocate a[3] { allocate b[3] {
//        fill a[0] and b[0] by 0 async; fence 8;
//        fill a[1] and b[1] by 1 async;
//        for i in n {
//          fence 1;
//          fill a[(i + 2) mod 3] and b[(i + 2) mod 3] by i + 2 async;
//          use a[i mod 3] and b[i mod 3]
//        }
//      } }
//
// A fence ends the group of stores that came before it; the one in the loop leaves all but the oldest stages to themselves. Fills for
// iterations that do not come are of zeros, without a condition around them, so that a barrier has one place for all.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

constexpr int kNobodyWaits = 8;  // more groups than there are stages

struct Filled {
  int slot = 0;
  Stmt fill;
};

class Pipeline {
 public:
  Pipeline(Edit& edit, std::vector<int> slots, Expr var, int stages)
      : edit_(edit), slots_(std::move(slots)), var_(var), stages_(stages) {}

  Stmt run(const For& loop) {
    edit_.require_kind(loop, LoopKind::kSerial);
    std::vector<Filled> filled;
    Stmt use = take_fills(loop.body, filled);
    for (const Filled& f : filled) check(f, filled, use);
    symbolic::ExprTable& table = edit_.context().exprs;
    Block all;
    for (int stage = 0; stage + 1 < stages_; ++stage) {
      if (stage > 0) all.statements.push_back(make(Fence{kNobodyWaits}));
      const Expr first = table.constant(stage);
      for (const Filled& f : filled)
        all.statements.push_back(ahead(f, NestCopier(edit_).copy(f.fill), loop, first, first));
    }
    Block body;
    body.statements.push_back(make(Fence{stages_ - 2}));
    const Expr next = var_ + (stages_ - 1);
    for (const Filled& f : filled)
      body.statements.push_back(ahead(f, f.fill, loop, next, symbolic::mod(next, stages_)));
    for (const Filled& f : filled) use = in_stage(use, f.slot, symbolic::mod(var_, stages_));
    body.statements.push_back(std::move(use));
    For result = loop;
    result.body = make(std::move(body));
    all.statements.push_back(make(std::move(result)));
    Stmt whole = make(std::move(all));
    for (size_t k = filled.size(); k-- > 0;) {
      Buffer& buffer = edit_.kernel.buffers[filled[k].slot];
      buffer.extents.insert(buffer.extents.begin(), table.constant(stages_));
      buffer.strides.clear();
      whole = make(Allocate{filled[k].slot, std::move(whole)});
    }
    return whole;
  }

 private:
  [[noreturn]] void fail(int slot, const std::string& reason) const {
    edit_.fail(fmt::format("buffer {} (slot {}) at loop {}", edit_.kernel.buffers[slot].name, slot, loop_name(var_)),
               reason);
  }

  // The fills of the buffers, from the outermost allocate on; what is left uses them.
  Stmt take_fills(Stmt s, std::vector<Filled>& filled) const {
    while (const Allocate* a = s->as<Allocate>()) {
      if (std::find(slots_.begin(), slots_.end(), a->slot) == slots_.end()) break;
      const Block* block = a->body->as<Block>();
      if (block == nullptr) fail(a->slot, "it is not filled by the first statement in its allocate");
      filled.push_back({a->slot, block->statements.front()});
      s = make(Block{{block->statements.begin() + 1, block->statements.end()}});
    }
    for (int slot : slots_)
      if (std::none_of(filled.begin(), filled.end(), [&](const Filled& f) { return f.slot == slot; }))
        fail(slot, "the loop's body is not its allocate");
    return s;
  }

  void check(const Filled& f, const std::vector<Filled>& filled, const Stmt& use) const {
    const std::vector<int> in_use = slots_written_in(use);
    const auto is_written = [&](int slot) { return std::find(in_use.begin(), in_use.end(), slot) != in_use.end(); };
    if (is_written(f.slot)) fail(f.slot, "it is written after it is filled");
    visit(f.fill, [&](const Stmt& s) {
      if (s->as<Update>() != nullptr || s->as<Allocate>() != nullptr || s->as<Fence>() != nullptr)
        fail(f.slot, "filling it is more than stores");
    });
    for (const Access& access : accesses_in(f.fill)) {
      if (access.kind != AccessKind::kLoad && access.slot != f.slot)
        fail(f.slot, "filling it writes buffer " + edit_.kernel.buffers[access.slot].name + ", too");
      if (access.kind != AccessKind::kLoad) continue;
      const bool is_filled =
          std::any_of(filled.begin(), filled.end(), [&](const Filled& o) { return o.slot == access.slot; });
      if (is_filled || is_written(access.slot))
        fail(f.slot,
             "buffer " + edit_.kernel.buffers[access.slot].name + ", from which it is filled, is written in the loop");
    }
  }

  Stmt in_stage(const Stmt& s, int slot, Expr stage) const {
    const Scalar at = edit_.context().scalars.index(stage);
    return map_accesses(s, slot, slot, [&](std::vector<Scalar> index) {
      index.insert(index.begin(), at);
      return index;
    });
  }

  // The fill for iteration `at`, in the background, or zeros where it does not come.
  Stmt ahead(const Filled& f, const Stmt& fill, const For& loop, Expr at, Expr stage) const {
    ir::Context& context = edit_.context();
    const Expr comes = symbolic::less(at, loop.extent);
    const Stmt moved = substitute(fill, {{var_.node(), at}});
    const Stmt marked = rewrite(moved, [&](const Stmt& s) -> Stmt {
      const Store* w = s->as<Store>();
      if (w == nullptr) return s;
      Store copy = *w;
      copy.in_background = true;
      const Scalar zero = neutral(context, Combiner::kSum, w->value->dtype);
      const bool is_choice = w->value->kind == ir::ScalarKind::kOp && w->value->op == ir::ScalarOp::kSelect &&
                             w->value->args[2] == zero && condition_expr(w->value->args[0]);
      if (is_choice) {
        const Expr both = symbolic::logical_and(condition_expr(w->value->args[0]), comes);
        copy.value = ir::select(condition_of(context, both), w->value->args[1], zero);
      } else if (!comes.is_constant(1)) {
        copy.value = ir::select(condition_of(context, comes), w->value, zero);
      }
      return make(std::move(copy));
    });
    return in_stage(marked, f.slot, stage);
  }

  Edit& edit_;
  const std::vector<int> slots_;
  const Expr var_;
  const int stages_;
};

}  // namespace

Kernel pipeline(Edit edit) {
  const size_t words = edit.step.words.size();
  if (edit.word(words - 3) != "at") edit.fail(edit.word(words - 3), "expected 'at'");
  const Expr i = edit.loop(edit.word(words - 2));
  const auto stages = static_cast<int>(edit.number(words - 1, 2, kNobodyWaits));
  std::vector<int> slots;
  for (size_t k = 0; k + 3 < words; ++k) slots.push_back(edit.slot(k));
  for (int slot : slots) {
    int allocations = 0;
    visit(edit.kernel.body, [&](const Stmt& s) {
      allocations += s->as<Allocate>() != nullptr && s->as<Allocate>()->slot == slot ? 1 : 0;
    });
    if (allocations != 1)
      edit.fail(fmt::format("buffer {} (slot {})", edit.kernel.buffers[slot].name, slot),
                "it is not a local buffer that is allocated once");
  }
  edit.replace_loops(i, [&](const For& loop, const LoopScope&) { return Pipeline(edit, slots, i, stages).run(loop); });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
