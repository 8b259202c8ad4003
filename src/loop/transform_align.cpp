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
//
// Several loops r one after the other, passes over a row, are all cut at the same place, also those that read other buffers. A local buffer that
// they alone use, element r in iteration r, gets a mod 4 elements in front: what begins at a multiple of 4 in memory does so there, too.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

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
  return found;
}

// The address at which the loops of `var` begin, where all that read the slot begin at one.
Expr common_address(const Edit& edit, Expr var, int slot) {
  Expr common;
  bool is_one = true;
  visit(edit.kernel.body, [&](const Stmt& s) {
    const auto* f = s->as<For>();
    const Expr first = f != nullptr && f->var == var ? first_address(edit, *f, slot) : Expr();
    if (!first) return;
    is_one = is_one && (!common || common == first);
    common = first;
  });
  if (!common)
    edit.fail("loop " + loop_name(var), fmt::format("it does not read buffer {}", edit.kernel.buffers[slot].name));
  return is_one ? common : Expr();
}

// The expression can be evaluated there.
bool is_known(Expr e, const LoopScope& scope) {
  return std::ranges::all_of(symbolic::free_symbols(e), [&](Expr s) {
    return s.symbol().kind != symbolic::SymbolKind::kLoop ||
           std::ranges::any_of(scope.loops(), [&](const LoopRange& l) { return l.var == s; });
  });
}

// Local buffers of which all accesses are element `var` along one axis, each with that axis.
std::vector<std::pair<int, size_t>> rows_along(const Kernel& kernel, Expr var) {
  std::map<int, size_t> axis_of;
  std::set<int> others;
  for (const Access& a : accesses_in(kernel.body)) {
    if (a.slot < kernel.arguments) continue;
    size_t axis = a.index.size();
    bool is_row = true;
    for (size_t d = 0; d < a.index.size(); ++d) {
      if (!depends_on(a.index[d], var)) continue;
      is_row = is_row && axis == a.index.size() && ir::as_expr(a.index[d]) == var;
      axis = d;
    }
    is_row = is_row && axis < a.index.size() && axis_of.try_emplace(a.slot, axis).first->second == axis;
    if (!is_row) others.insert(a.slot);
  }
  std::erase_if(axis_of, [&](const auto& each) { return others.contains(each.first); });
  return {axis_of.begin(), axis_of.end()};
}

}  // namespace

Kernel align(Edit edit) {
  const Expr r = edit.loop(edit.word(0));
  const int64_t multiple = edit.number(1, 2, 1024);
  if (edit.word(2) != "of") edit.fail(edit.word(2), "expected of");
  const int slot = edit.slot(3);
  const Expr count = trip_count(edit.common_extent(r)), none = edit.context().exprs.constant(0);
  const Expr head = edit.new_loop(edit.word(4), edit.context().exprs.constant(multiple - 1));
  const Expr common = common_address(edit, r, slot);
  const std::vector<std::pair<int, size_t>> rows =
      common ? rows_along(edit.kernel, r) : std::vector<std::pair<int, size_t>>();
  for (const auto& [row, axis] : rows) {
    Expr& extent = edit.kernel.buffers[row].extents[axis];
    extent = symbolic::ceildiv(extent + (multiple - 1), multiple) * multiple;
  }
  // The body with `at` in place of r, where rows of local buffers have it at `at_row`.
  const auto body_at = [&](const Stmt& original, Expr at, Expr at_row) {
    Stmt body = substitute(original, {{r.node(), at}});
    for (const auto& [row, axis] : rows)
      body = map_accesses(body, row, row, [&, axis = axis](std::vector<Scalar> index) {
        index[axis] = edit.context().scalars.index(at_row);
        return index;
      });
    return body;
  };
  NestCopier copier(edit);
  edit.replace_loops(r, [&](const For& loop, const LoopScope& scope) -> Stmt {
    edit.require_kind(loop, LoopKind::kSerial);
    Expr first = first_address(edit, loop, slot);
    if (!first && common && is_known(common, scope)) first = common;
    if (!first)
      edit.fail("loop " + loop_name(r), fmt::format("it does not read buffer {}", edit.kernel.buffers[slot].name));
    const Expr distance = symbolic::ceildiv(first, multiple) * multiple - first;
    const Expr before = symbolic::min(symbolic::min(distance, multiple - 1), count);
    const Expr in_front = symbolic::mod(first, multiple);
    Stmt start = body_at(copier.copy(loop.body), head, head + in_front);
    Stmt rest = body_at(loop.body, distance + r, r + symbolic::min(in_front, 1) * multiple);
    return make(Block{{make(For{head, before, LoopKind::kSerial, 0, std::move(start)}),
                       make(For{r, symbolic::max(count - distance, none), LoopKind::kSerial, 0, std::move(rest)})}});
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
