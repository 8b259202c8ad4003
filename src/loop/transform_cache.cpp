// SPDX-License-Identifier: Apache-2.0
// cache 0 at k over i j [pad 1] -> near
//
// What the iterations of loops i and j inside of k read of a buffer is read once, in front of the body of k:
//
//   for k { for i in 8 { for j in 4 { .. x[min(i, n - 1), k*4 + j] .. } } }
//   -> for k {
//        allocate near[8, 4] {
//          for near_0 in 8 { for near_1 in 4 { near[near_0, near_1] = x[min(near_0, n - 1), k*4 + near_1] } };
//          for i in 8 { for j in 4 { .. near[i, j] .. } }
//        }
//      }
//
// Where `stage` copies a box of addresses, this keeps one value for each iteration, in the order in which the loops are listed, whatever the
// addresses are. All loads of the buffer in k have the same index; of the loops inside k it depends on those listed alone, whose extents are
// constants. Where conditions are around them, all the same ones and known without data, what they leave out is not copied; where a load stands in
// a select against a constant, the outcome of the select is what is kept. `pad` makes rows of the last listed loop longer by that many elements, which keeps columns apart in banked memory.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

struct Read {
  Scalar unit;                     // what is kept: a load, or the selects around it
  std::vector<Scalar> conditions;  // around it
};

// A load of `slot`, or a choice between one and a constant that no data decides.
bool is_unit(Scalar x, int slot) {
  if (x->kind == ir::ScalarKind::kLoad) return x->slot == slot;
  return x->kind == ir::ScalarKind::kOp && x->op == ir::ScalarOp::kSelect && !ir::has_load(x->args[0]) &&
         x->args[2]->kind == ir::ScalarKind::kConstant && is_unit(x->args[1], slot);
}

void for_each_unit(Scalar x, int slot, const std::function<void(Scalar)>& f) {
  if (is_unit(x, slot)) return f(x);
  for (Scalar arg : x->args) for_each_unit(arg, slot, f);
}

Scalar with_unit(Scalar x, Scalar unit, Scalar by) {
  if (x == unit) return by;
  if (x->args.empty()) return x;
  std::vector<Scalar> args;
  for (Scalar arg : x->args) args.push_back(with_unit(arg, unit, by));
  if (args == x->args) return x;
  ir::ScalarTable& table = *x->table;
  return x->kind == ir::ScalarKind::kLoad   ? table.load(x->slot, x->dtype, std::move(args))
         : x->kind == ir::ScalarKind::kCast ? table.cast(x->dtype, args[0])
                                            : table.op(x->op, std::move(args));
}

// The one way in which `slot` is read in `root`, and under which conditions; fails where there are several.
Read only_read(const Edit& edit, const std::string& subject, const Stmt& root, int slot) {
  std::optional<Read> read;
  std::vector<Scalar> conditions;
  const std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    visit_scalars(*s, [&](Scalar value) {
      ir::visit(value, [&](Scalar x) {
        if (x->kind != ir::ScalarKind::kOp || x->op != ir::ScalarOp::kSelect || is_unit(x, slot)) return;
        for (size_t k = 1; k < 3; ++k)
          if (loads_from(x->args[k], slot)) edit.fail(subject, "it is read under a condition");
      });
      for_each_unit(value, slot, [&](Scalar unit) {
        if (read && (read->unit != unit || read->conditions != conditions))
          edit.fail(subject, "it is read at several places");
        read = Read{unit, conditions};
      });
    });
    if (const For* f = s->as<For>()) go(f->body);
    if (const Allocate* a = s->as<Allocate>()) go(a->body);
    if (const Block* b = s->as<Block>())
      for (const Stmt& each : b->statements) go(each);
    if (const If* i = s->as<If>()) {
      conditions.push_back(i->condition);
      go(i->then_body);
      conditions.back() = logical_not(i->condition);
      if (i->else_body) go(i->else_body);
      conditions.pop_back();
    }
  };
  go(root);
  if (!read) edit.fail(subject, "it is not read in the loop");
  for (Scalar c : read->conditions)
    if (!condition_expr(c)) edit.fail(subject, "it is read under a condition that depends on data");
  return *read;
}

}  // namespace

Kernel cache(Edit edit) {
  const int slot = edit.slot(0);
  const Expr k = edit.loop(edit.word(2));
  const std::string& name = edit.word(edit.step.words.size() - 1);
  const Buffer buffer = edit.kernel.buffers[slot];
  const std::string subject = fmt::format("buffer {} (slot {}) at loop {}", buffer.name, slot, loop_name(k));
  if (edit.word(1) != "at") edit.fail(edit.word(1), "expected 'at'");
  if (edit.word(3) != "over") edit.fail(edit.word(3), "expected 'over'");
  for (const Buffer& b : edit.kernel.buffers)
    if (b.name == name) edit.fail("buffer " + name, "the name is taken");
  size_t end = edit.step.words.size() - 1;
  int64_t pad = 0;
  if (end >= 6 && edit.word(end - 2) == "pad") pad = edit.number(end - 1, 0, 64), end -= 2;
  std::vector<Expr> over;
  for (size_t w = 4; w < end; ++w) over.push_back(edit.loop(edit.word(w)));
  ir::Context& context = edit.context();
  edit.replace_loops(k, [&](const For& loop, const LoopScope&) -> Stmt {
    for (int written : slots_written_in(loop.body))
      if (written == slot) edit.fail(subject, "it is written in the loop");
    for (int allocated : slots_allocated_in(loop.body))
      if (allocated == slot) edit.fail(subject, "it is allocated in the loop");
    const Read read = only_read(edit, subject, loop.body, slot);
    std::vector<Scalar> parts = read.conditions;
    parts.push_back(read.unit);
    visit(loop.body, [&](const Stmt& s) {
      const For* f = s->as<For>();
      if (f == nullptr || std::find(over.begin(), over.end(), f->var) != over.end()) return;
      for (Scalar part : parts)
        if (depends_on(part, f->var))
          edit.fail(subject,
                    fmt::format("where it is read depends on loop {}, which is not listed", loop_name(f->var)));
    });
    std::vector<Expr> extents;
    std::vector<For> loops;
    std::vector<Scalar> at, near;
    symbolic::Substitution renamed;
    for (size_t d = 0; d < over.size(); ++d) {
      const Expr extent = edit.common_extent(over[d]);
      if (!extent.is_constant())
        edit.fail(subject, fmt::format("the extent {} of loop {} is no constant", extent.str(), loop_name(over[d])));
      const Expr var = edit.fresh_loop(fmt::format("{}_{}", name, d), extent);
      extents.push_back(d + 1 == over.size() ? extent + pad : extent);
      loops.push_back({var, extent, LoopKind::kSerial, 0, nullptr});
      renamed[over[d].node()] = var;
      at.push_back(context.scalars.index(over[d]));
      near.push_back(context.scalars.index(var));
    }
    const int local = edit.new_local(name, buffer.dtype, extents);
    Scalar load = read.unit;
    while (load->kind != ir::ScalarKind::kLoad) load = load->args[1];
    for (Scalar i : load->args)
      if (loads_from(i, slot)) edit.fail(subject, "where it is read depends on what is read");
    Stmt copy = make(Store{local, near, ir::substitute(read.unit, renamed)});
    for (Scalar c : read.conditions) copy = make(If{ir::substitute(c, renamed), std::move(copy), {}});
    for (size_t d = loops.size(); d-- > 0;) {
      loops[d].body = std::move(copy);
      copy = make(loops[d]);
    }
    const Scalar kept = context.scalars.load(local, buffer.dtype, at);
    Stmt body = rewrite(loop.body, [&](const Stmt& s) {
      return map_scalars(s, [&](Scalar x) { return with_unit(x, read.unit, kept); });
    });
    For result = loop;
    result.body = make(Allocate{local, make(Block{{std::move(copy), std::move(body)}})});
    return make(std::move(result));
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
