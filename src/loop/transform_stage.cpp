// SPDX-License-Identifier: Apache-2.0
// stage 0 at i -> near
//
// What one iteration of i reads of a global buffer is copied to a local buffer in front of the iteration's body:
//
//   for i { for j in 8 { for k in 4 { .. x[i*8 + j + k] .. } } }
//   -> for i {
//        allocate near[11] {
//          for near_0 in 11 { near[near_0] = x[i*8 + near_0] };
//          for j in 8 { for k in 4 { .. near[j + k] .. } }
//        }
//      }
//
// The copy is the bounding box of all reads. Reads may be conditional and the box may reach beyond the buffer; what is
// beyond is not copied, and no read that happens asks for it.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

Kernel stage(Edit edit) {
  const int slot = edit.slot(0);
  const Expr i = edit.loop(edit.word(2));
  const std::string& name = edit.word(3);
  const Buffer buffer = edit.kernel.buffers[slot];
  const std::string subject = fmt::format("buffer {} (slot {}) at loop {}", buffer.name, slot, loop_name(i));
  if (edit.word(1) != "at") edit.fail(edit.word(1), "expected 'at'");
  if (buffer.scope != Scope::kGlobal) edit.fail(subject, "only global buffers are staged");
  for (const Buffer& b : edit.kernel.buffers) {
    if (b.name == name) edit.fail("buffer " + name, "the name is taken");
  }
  ir::Context& context = edit.context();
  edit.replace_loops(i, [&](const For& loop, const LoopScope& outer) -> Stmt {
    if (loop.kind != LoopKind::kSerial && loop.kind != LoopKind::kParallel) {
      edit.fail(subject, fmt::format("the loop is {}", name_of(loop.kind)));
    }
    for (int written : slots_written_in(loop.body)) {
      if (written == slot) edit.fail(subject, "it is written in the loop");
    }
    LoopScope scope = outer;
    scope.push(loop.var, loop.extent);
    const auto box = footprint_of(loop.body, slot, scope);
    if (!box) edit.fail(subject, "where it is read depends on data or has no bounds");
    if (box->low.size() != buffer.extents.size()) edit.fail(subject, "it is not read in the loop");

    std::vector<Expr> extents;
    std::vector<For> loops;
    std::vector<Scalar> from, to;
    Expr inside = context.exprs.constant(1);
    LoopScope copy_scope = scope;
    for (size_t d = 0; d < buffer.extents.size(); ++d) {
      const Expr extent = scope.simplify(box->high[d] - box->low[d] + 1);
      const Expr bound = local_extent(extent, scope);
      if (!bound)
        edit.fail(subject, fmt::format("no bound of the extent {} is known from parameters alone", extent.str()));
      extents.push_back(bound);
      const Expr var = edit.fresh_loop(fmt::format("{}_{}", name, d), extent);
      loops.push_back({var, extent, LoopKind::kSerial, 0, nullptr});
      copy_scope.push(var, extent);
      const Expr at = box->low[d] + var;
      from.push_back(context.scalars.index(at));
      to.push_back(context.scalars.index(var));
      inside = symbolic::logical_and(inside, symbolic::less_equal(context.exprs.constant(0), at));
      inside = symbolic::logical_and(inside, symbolic::less(at, buffer.extents[d]));
    }
    const int local = edit.new_local(name, buffer.dtype, extents);
    Stmt copy = make(Store{local, to, context.scalars.load(slot, buffer.dtype, from)});
    inside = copy_scope.simplify(inside);
    if (!inside.is_constant(1)) copy = make(If{condition_of(context, inside), std::move(copy), {}});
    for (size_t d = loops.size(); d-- > 0;) {
      loops[d].body = std::move(copy);
      copy = make(loops[d]);
    }
    Stmt body = map_accesses(loop.body, slot, local, [&](std::vector<Scalar> index) {
      for (size_t d = 0; d < index.size(); ++d) index[d] = context.scalars.index(ir::as_expr(index[d]) - box->low[d]);
      return index;
    });
    For result = loop;
    result.body = make(Allocate{local, make(Block{{std::move(copy), std::move(body)}})});
    return make(std::move(result));
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
