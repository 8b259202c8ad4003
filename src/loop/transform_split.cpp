// SPDX-License-Identifier: Apache-2.0
// split i f -> io ii [exact | guard | bounded | clamped | padded | zeros | separate it | cases it]
//
// With q = n div f whole tiles and n mod f iterations left:
//   exact      for io in n/f  { for ii in f  body(io*f + ii) }
//   guard      for io in ceil(n/f) { for ii in f  if io*f + ii < n  body(io*f + ii) }
//   bounded    for io in ceil(n/f) { for ii in min(f, n - io*f)  body(io*f + ii) }
//   clamped    for io in ceil(n/f) { for ii in f  body(min(io*f + ii, n - 1)) }, storing to buffers that outlive it if
//              io*f + ii < n
//   padded     as clamped, but iterations past the end do run, on the padding of the buffers they read
//   zeros      for io in ceil(n/f) { for ii in f  body' }, of sums alone, where body' adds x' * y' instead of x * y:
//              x' is x where io*f + ii < n, and else 0
//   separate   for io in q { for ii in f  body(io*f + ii) };  for it in n mod f  body(q*f + it)
//   cases      for io in ceil(n/f) { if io < q { for ii in f  body(io*f + ii) }
//                                    else { for it in n mod f  body(io*f + it) } }
//
// The order of iterations stays, so all are legal, except that `exact` has something to prove, and `clamped`, which
// does the last iteration again and again without storing it, reads no local buffer that it writes and that outlives an
// iteration. `cases`
// keeps one outer loop, which can still be interchanged, fused and made parallel, and has no guard where the time is
// spent.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

enum class Mode : uint8_t { kExact, kGuard, kBounded, kClamped, kPadded, kZeros, kSeparate, kCases };

Mode parse_mode(const Edit& edit) {
  if (edit.step.words.size() == 4) return Mode::kGuard;
  const std::string& word = edit.word(4);
  const bool has_tail = edit.step.words.size() == 6;
  if (word == "exact" && !has_tail) return Mode::kExact;
  if (word == "guard" && !has_tail) return Mode::kGuard;
  if (word == "bounded" && !has_tail) return Mode::kBounded;
  if (word == "clamped" && !has_tail) return Mode::kClamped;
  if (word == "padded" && !has_tail) return Mode::kPadded;
  if (word == "zeros" && !has_tail) return Mode::kZeros;
  if (word == "separate" && has_tail) return Mode::kSeparate;
  if (word == "cases" && has_tail) return Mode::kCases;
  edit.fail(word, "expected exact, guard, bounded, clamped, padded, zeros, separate and a loop, or cases and a loop");
}

// That every load under `s` which moves with the tile stays in its buffer for all of the last tile.
void require_padding(const Edit& edit, const Stmt& s, Expr io, Expr outer_extent, Expr ii, int64_t factor) {
  const auto check = [&](Scalar root) {
    ir::visit(root, [&](Scalar x) {
      if (x->kind != ir::ScalarKind::kLoad || x->slot >= edit.kernel.arguments) return;
      for (size_t k = 0; k < x->args.size(); ++k) {
        const Expr e = ir::as_expr(x->args[k]), extent = edit.kernel.buffers[x->slot].extents[k];
        if (e && !symbolic::depends_on(e, io) && !symbolic::depends_on(e, ii)) continue;
        if (e && e == io && extent == outer_extent) continue;
        if (e && e == ii && extent.is_constant() && extent.constant() >= factor) continue;
        edit.fail("loop " + loop_name(ii),
                  "the load " + x.str() + " may go past the end of its buffer, which is not padded to whole tiles");
      }
    });
  };
  visit(s, [&](const Stmt& each) {
    const Store* store = each->as<Store>();
    if (!store || store->slot >= edit.kernel.arguments)
      visit_scalars(*each, check);  // stores to arguments are made inside only
  });
}

// The body of iteration `at`, which may be past the end: then that of iteration `last`, without its stores to buffers that
// outlive it.
Stmt clamped(const Edit& edit, const For& loop, Expr at, Expr count, Expr last) {
  const Expr inside = symbolic::less(at, count);
  const symbolic::Substitution exact{{loop.var.node(), at}}, repeated{{loop.var.node(), last}};
  const std::vector<int> priv = slots_allocated_in(loop.body);
  const auto outlives = [&](int slot) { return std::find(priv.begin(), priv.end(), slot) == priv.end(); };
  const std::vector<Access> accesses = accesses_in(loop.body);
  for (int slot : slots_written_in(loop.body)) {
    if (slot < edit.kernel.arguments || !outlives(slot)) continue;
    const bool is_read = std::any_of(accesses.begin(), accesses.end(),
                                     [&](const Access& a) { return a.slot == slot && a.kind == AccessKind::kLoad; });
    if (!is_read) continue;
    edit.fail("loop " + loop_name(loop.var),
              fmt::format("clamped iterations may not read buffer {}, which they write and which outlives them",
                          edit.kernel.buffers[slot].name));
  }
  const std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    if (const For* f = s->as<For>()) {
      For copy = *f;
      copy.extent = symbolic::substitute(f->extent, repeated);
      copy.body = go(f->body);
      return make(std::move(copy));
    }
    if (const Block* b = s->as<Block>()) {
      Block copy;
      for (const Stmt& each : b->statements) copy.statements.push_back(go(each));
      return make(std::move(copy));
    }
    if (const Allocate* a = s->as<Allocate>()) return make(Allocate{a->slot, go(a->body)});
    if (const If* i = s->as<If>()) {
      Stmt then_body = go(i->then_body);
      return make(
          If{ir::substitute(i->condition, repeated), std::move(then_body), i->else_body ? go(i->else_body) : Stmt()});
    }
    if (const Store* store = s->as<Store>(); store && outlives(store->slot)) {
      if (inside.is_constant(1)) return substitute(s, exact);
      return make(If{condition_of(edit.context(), inside), substitute(s, exact), {}});
    }
    if (const Update* update = s->as<Update>(); update && outlives(update->slot)) {
      edit.fail("loop " + loop_name(loop.var), "clamped iterations may not update buffer " +
                                                   edit.kernel.buffers[update->slot].name + ", which outlives them");
    }
    return substitute(s, repeated);
  };
  return go(loop.body);
}

// The body, which adds, with 0 for all that is multiplied past the end.
Stmt with_zeros(const Edit& edit, const For& loop, Expr at, Expr count) {
  ir::Context& context = edit.context();
  const Scalar inside = condition_of(context, symbolic::less(at, count));
  const std::function<Scalar(Scalar)> zero = [&](Scalar x) {
    if (x->kind == ir::ScalarKind::kCast) return ir::cast(x->dtype, zero(x->args[0]));
    return ir::select(inside, x, neutral(context, Combiner::kSum, x->dtype));
  };
  const Stmt body = substitute(loop.body, {{loop.var.node(), at}});
  return rewrite(body, [&](const Stmt& s) -> Stmt {
    if (s->as<Store>() != nullptr) edit.fail("loop " + loop_name(loop.var), "there is more in it than sums");
    const Update* u = s->as<Update>();
    if (u == nullptr) return s;
    if (u->combiner != Combiner::kSum)
      edit.fail("loop " + loop_name(loop.var), fmt::format("zeros change the {} in it", name_of(u->combiner)));
    Update copy = *u;
    if (u->value->kind == ir::ScalarKind::kOp && u->value->op == ir::ScalarOp::kMul) {
      copy.value = ir::binary(ir::ScalarOp::kMul, zero(u->value->args[0]), zero(u->value->args[1]));
    } else {
      copy.value = zero(u->value);
    }
    return make(std::move(copy));
  });
}

}  // namespace

Kernel split(Edit edit) {
  const Expr i = edit.loop(edit.word(0));
  const int64_t factor = edit.number(1, 1, int64_t{1} << 20);
  const std::string &outer_name = edit.word(2), &inner_name = edit.word(3);
  const Mode mode = parse_mode(edit);
  const bool has_tail = mode == Mode::kSeparate || mode == Mode::kCases;
  ir::Context& context = edit.context();

  const Expr extent = edit.common_extent(i), count = trip_count(extent);
  const Expr whole = symbolic::floordiv(count, factor), left = symbolic::mod(count, factor);
  if (mode == Mode::kExact && !left.is_constant(0)) {
    edit.fail("loop " + loop_name(i), fmt::format("{} does not provably divide its extent {}", factor, extent.str()));
  }
  const bool up = mode != Mode::kExact && mode != Mode::kSeparate;
  const Expr outer_extent = up ? symbolic::ceildiv(count, factor) : whole;
  const Expr inner_extent = context.exprs.constant(factor);
  const Expr io = edit.new_loop(outer_name, outer_extent), ii = edit.new_loop(inner_name, inner_extent);
  const Expr rest = symbolic::min(inner_extent, count - io * factor);
  const Expr it = has_tail ? edit.new_loop(edit.word(5), left) : Expr();

  NestCopier copier(edit);
  edit.replace_loops(i, [&](const For& loop, const LoopScope&) -> Stmt {
    edit.require_kind(loop, LoopKind::kSerial);
    const Expr steady = io * factor + ii;
    if (mode == Mode::kClamped || mode == Mode::kPadded) {
      const Expr last = mode == Mode::kPadded ? steady : symbolic::min(steady, count - 1);
      Stmt body = clamped(edit, loop, steady, count, last);
      if (mode == Mode::kPadded) require_padding(edit, body, io, outer_extent, ii, factor);
      Stmt inner = make(For{ii, inner_extent, LoopKind::kSerial, 0, std::move(body)});
      return make(For{io, outer_extent, LoopKind::kSerial, 0, std::move(inner)});
    }
    const bool whole_tiles = left.is_constant(0);
    Stmt body = mode == Mode::kZeros && !whole_tiles ? with_zeros(edit, loop, steady, count)
                                                     : substitute(loop.body, {{i.node(), steady}});
    if (mode == Mode::kGuard) {
      const Expr inside = symbolic::less(steady, count);
      if (!inside.is_constant(1)) body = make(If{condition_of(context, inside), std::move(body), {}});
    }
    Stmt nest = make(For{ii, mode == Mode::kBounded ? rest : inner_extent, LoopKind::kSerial, 0, std::move(body)});
    if (!has_tail) return make(For{io, outer_extent, LoopKind::kSerial, 0, std::move(nest)});
    const Expr last = (mode == Mode::kSeparate ? whole : io) * factor + it;
    Stmt tail_body = substitute(copier.copy(loop.body), {{i.node(), last}});
    Stmt tail = make(For{it, left, LoopKind::kSerial, 0, std::move(tail_body)});
    if (mode == Mode::kSeparate) {
      nest = make(For{io, outer_extent, LoopKind::kSerial, 0, std::move(nest)});
      return make(Block{{std::move(nest), std::move(tail)}});
    }
    Stmt cases = make(If{condition_of(context, symbolic::less(io, whole)), std::move(nest), std::move(tail)});
    return make(For{io, outer_extent, LoopKind::kSerial, 0, std::move(cases)});
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
