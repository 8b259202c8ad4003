// SPDX-License-Identifier: Apache-2.0
// align r 4 of 0 -> rh
//
// Rows of any length begin anywhere, and vectors at multiples of their length. With h the distance from where r's first iteration
// reads buffer slot 0 to the next multiple of 4 elements:
//
//   for r in n { acc[] sum= x[i, r] }
//   -> for rh in min(h, n) { acc[] sum= x[i, rh] };
//      for r in max(n - h, 0) { acc[] sum= x[i, h + r] }
//
// h is written as 4 ceil(a / 4) - a for an address a, so that h + a is a multiple of 4 for everyone to see. The order of iterations
// stays.
#include <fmt/format.h>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

// The address of the element of the slot that the body reads, which moves by one element with the loop, at iteration 0.
Expr first_address(const Edit& edit, const For& loop, int slot) {
  const std::string name = "loop " + loop_name(loop.var);
  const Buffer& buffer = edit.kernel.buffers[slot];
  Expr found;
  for (const Access& a : accesses_in(loop.body)) {
    if (a.slot != slot) continue;
    Expr address = edit.context().exprs.constant(0), stride = edit.context().exprs.constant(1);
    for (size_t k = a.index.size(); k-- > 0;) {
      const Expr e = ir::as_expr(a.index[k]);
      if (!e) edit.fail(name, fmt::format("where it reads buffer {} depends on data", buffer.name));
      address = address + e * (buffer.strides.empty() ? stride : buffer.strides[k]);
      stride = stride * buffer.extents[k];
    }
    for (const LoopRange& inner : a.loops)
      if (symbolic::depends_on(address, inner.var))
        edit.fail(name,
                  fmt::format("what it reads of buffer {} depends on loop {}", buffer.name, loop_name(inner.var)));
    const auto affine = symbolic::affine_in(address, loop.var);
    if (!affine || !affine->coefficient.is_constant(1))
      edit.fail(name, fmt::format("it does not go from element to element of buffer {}", buffer.name));
    if (found && found != affine->rest)
      edit.fail(name, fmt::format("it reads buffer {} at more than one place", buffer.name));
    found = affine->rest;
  }
  if (!found) edit.fail(name, fmt::format("it does not read buffer {}", buffer.name));
  return found;
}

}  // namespace

Kernel align(Edit edit) {
  const Expr r = edit.loop(edit.word(0));
  const int64_t multiple = edit.number(1, 2, 1024);
  if (edit.word(2) != "of") edit.fail(edit.word(2), "expected of");
  const int slot = edit.slot(3);
  const Expr count = trip_count(edit.common_extent(r)), none = edit.context().exprs.constant(0);
  const Expr head = edit.new_loop(edit.word(4), edit.context().exprs.constant(multiple - 1));
  NestCopier copier(edit);
  edit.replace_loops(r, [&](const For& loop, const LoopScope&) -> Stmt {
    edit.require_kind(loop, LoopKind::kSerial);
    const Expr first = first_address(edit, loop, slot);
    const Expr distance = symbolic::ceildiv(first, multiple) * multiple - first;
    const Expr before = symbolic::min(symbolic::min(distance, multiple - 1), count);
    Stmt start = substitute(copier.copy(loop.body), {{r.node(), head}});
    Stmt rest = substitute(loop.body, {{r.node(), distance + r}});
    return make(Block{{make(For{head, before, LoopKind::kSerial, 0, std::move(start)}),
                       make(For{r, symbolic::max(count - distance, none), LoopKind::kSerial, 0, std::move(rest)})}});
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
