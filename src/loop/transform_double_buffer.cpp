// SPDX-License-Identifier: Apache-2.0
// double_buffer 5 i
//
// Filling a local buffer and using it alternate; with two halves, the next is filled while this one is used:
//
//   for i in n { allocate t { fill t by i; use t } }
//   -> allocate t[2] {
//        if 0 < n { fill t[0] by 0 };
//        for i in n { if i + 1 < n { fill t[(i + 1) mod 2] by i + 1 }; use t[i mod 2] }
//      }
//
// The fill moves one iteration ahead, so it may not read what the loop writes.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

Kernel double_buffer(Edit edit) {
  const int slot = edit.slot(0);
  const Expr i = edit.loop(edit.word(1));
  const std::string subject =
      fmt::format("buffer {} (slot {}) at loop {}", edit.kernel.buffers[slot].name, slot, loop_name(i));
  ir::Context& context = edit.context();
  int allocations = 0;
  visit(edit.kernel.body,
        [&](const Stmt& s) { allocations += s->as<Allocate>() != nullptr && s->as<Allocate>()->slot == slot; });
  if (allocations != 1) edit.fail(subject, "it is not a local buffer that is allocated once");

  edit.replace_loops(i, [&](const For& loop, const LoopScope&) -> Stmt {
    edit.require_kind(loop, LoopKind::kSerial);
    const Allocate* a = loop.body->as<Allocate>();
    if (a == nullptr || a->slot != slot) edit.fail(subject, "the loop's body is not the buffer's allocate");
    const Block* block = a->body->as<Block>();
    Block use;
    Stmt fill;
    if (block != nullptr) {
      fill = block->statements.front();
      use.statements.assign(block->statements.begin() + 1, block->statements.end());
    }
    const Stmt rest = make(std::move(use));
    const auto writes = [&](const Stmt& s, int buffer) {
      const std::vector<int> written = slots_written_in(s);
      return std::find(written.begin(), written.end(), buffer) != written.end();
    };
    if (fill == nullptr || !writes(fill, slot) || writes(rest, slot)) {
      edit.fail(subject, "it is not filled by the first statement alone");
    }
    const std::vector<int> priv = slots_allocated_in(fill);
    for (const Access& access : accesses_in(fill)) {
      if (access.slot == slot || std::find(priv.begin(), priv.end(), access.slot) != priv.end()) continue;
      const std::string& other = edit.kernel.buffers[access.slot].name;
      if (access.kind != AccessKind::kLoad) edit.fail(subject, "filling it writes buffer " + other + ", too");
      if (writes(rest, access.slot))
        edit.fail(subject, "buffer " + other + ", from which it is filled, is written in the loop");
    }

    const auto half = [&](const Stmt& s, Expr of) {
      const Scalar at = context.scalars.index(of);
      return map_accesses(s, slot, slot, [&](std::vector<Scalar> index) {
        index.insert(index.begin(), at);
        return index;
      });
    };
    const Expr zero = context.exprs.constant(0), next = i + 1;
    Stmt first = substitute(half(NestCopier(edit).copy(fill), zero), {{i.node(), zero}});
    const Expr any = symbolic::less(zero, loop.extent);
    if (!any.is_constant(1)) first = make(If{condition_of(context, any), std::move(first), {}});
    Stmt ahead = half(substitute(fill, {{i.node(), next}}), symbolic::mod(next, 2));
    ahead = make(If{condition_of(context, symbolic::less(next, loop.extent)), std::move(ahead), {}});
    For result = loop;
    result.body = make(Block{{std::move(ahead), half(rest, symbolic::mod(i, 2))}});
    Buffer& buffer = edit.kernel.buffers[slot];
    buffer.extents.insert(buffer.extents.begin(), context.exprs.constant(2));
    buffer.strides.clear();
    return make(Allocate{slot, make(Block{{std::move(first), make(std::move(result))}})});
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
