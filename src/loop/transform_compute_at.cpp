// SPDX-License-Identifier: Apache-2.0
// compute_at 3 i
//
// A local buffer that is filled in front of the loops that read it is filled inside of loop i instead, for what the
// iteration reads. It becomes as small as that, and is still near when it is read:
//
//   allocate t[n] { for a in n { t[a] = f(a) }; for i in n - 2 { .. t[i] + t[i + 1] + t[i + 2] .. } }
//   -> for i in n - 2 { allocate t[3] { for a_ in 3 { t[a_] = f(i + a_) }; .. t[0] + t[1] + t[2] .. } }
//
// What several iterations need is computed again for each. The producer is a nest over the buffer's axes whose body
// writes that buffer alone, each element for itself; nothing it reads may change before the last reader.
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

struct Producer {
  std::vector<For> loops;       // over the axes, outer first
  std::vector<size_t> axis_of;  // which axis of the buffer each loop runs over
  Stmt body;
};

class Mover {
 public:
  Mover(Edit& edit, int slot, Expr var)
      : edit_(edit),
        slot_(slot),
        var_(var),
        subject_(fmt::format("buffer {} (slot {}) at loop {}", edit.kernel.buffers[slot].name, slot, loop_name(var))) {}

  void run() {
    int allocations = 0;
    edit_.kernel.body = rewrite(edit_.kernel.body, [&](const Stmt& s) -> Stmt {
      const Allocate* a = s->as<Allocate>();
      if (a == nullptr || a->slot != slot_) return s;
      ++allocations;
      return take_producer(a->body);
    });
    if (allocations != 1) fail("it is not a local buffer that is allocated once");
    if (loops_below_ == 0 || loops_below_ != count_loops(edit_.kernel.body))
      fail("the loop is not behind the producer");
    edit_.replace_loops(var_, [&](const For& loop, const LoopScope& outer) { return move_into(loop, outer); });
    // Every read is inside one of those loops, where the buffer is live.
    int depth = 0;
    check_reads(edit_.kernel.body, depth);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail(subject_, reason); }

  Stmt take_producer(const Stmt& body) {
    const Block* block = body->as<Block>();
    if (block == nullptr) fail("it is not filled by one nest and read by others");
    Block rest;
    Stmt nest;
    for (const Stmt& each : block->statements) {
      const std::vector<int> written = slots_written_in(each);
      if (std::find(written.begin(), written.end(), slot_) == written.end()) {
        rest.statements.push_back(each);
      } else if (nest != nullptr || !rest.statements.empty()) {
        fail("it is not filled by one nest in front of everything else");
      } else {
        nest = each;
      }
    }
    if (nest == nullptr) fail("nothing fills it");
    examine(nest, rest);
    Stmt result = make(std::move(rest));
    loops_below_ = count_loops(result);
    return result;
  }

  int count_loops(const Stmt& root) const {
    int count = 0;
    visit(root, [&](const Stmt& s) { count += s->as<For>() != nullptr && s->as<For>()->var == var_; });
    return count;
  }

  void examine(const Stmt& nest, const Block& rest) {
    std::vector<Expr> axes;
    const std::vector<int> priv = slots_allocated_in(nest);
    std::vector<int> read;
    for (const Access& a : accesses_in(nest)) {
      if (std::find(priv.begin(), priv.end(), a.slot) != priv.end()) continue;
      if (a.slot != slot_) {
        if (a.kind != AccessKind::kLoad) fail("its producer writes another buffer, too");
        read.push_back(a.slot);
        continue;
      }
      std::vector<Expr> index;
      for (Scalar i : a.index) index.push_back(ir::as_expr(i));
      for (Expr e : index) {
        if (!e || !e.is_symbol()) fail("its producer does not write the elements one loop an axis");
      }
      if (!axes.empty() && axes != index) fail("its producer reads and writes different elements");
      axes = index;
    }
    for (const Stmt& each : rest.statements) {
      for (int w : slots_written_in(each)) {
        if (std::find(read.begin(), read.end(), w) != read.end()) {
          fail(fmt::format("buffer {}, which its producer reads, is written later", edit_.kernel.buffers[w].name));
        }
      }
    }
    producer_.body = nest;
    while (producer_.loops.size() < axes.size()) {
      const For* f = producer_.body->as<For>();
      const auto at = f == nullptr ? axes.end() : std::find(axes.begin(), axes.end(), f->var);
      if (at == axes.end()) fail("its producer is not a nest of loops over its axes");
      for (const For& earlier : producer_.loops) {
        if (symbolic::depends_on(f->extent, earlier.var)) fail("the loops of its producer depend on each other");
      }
      edit_.require_kind(*f, LoopKind::kSerial);
      producer_.axis_of.push_back(static_cast<size_t>(at - axes.begin()));
      producer_.loops.push_back(*f);
      producer_.body = f->body;
    }
  }

  Stmt move_into(const For& loop, const LoopScope& outer) {
    if (loop.kind != LoopKind::kSerial && loop.kind != LoopKind::kParallel) {
      fail(fmt::format("the loop is {}", name_of(loop.kind)));
    }
    LoopScope scope = outer;
    scope.push(loop.var, loop.extent);
    const auto box = footprint_of(loop.body, slot_, scope);
    if (!box) fail("where it is read depends on data or has no bounds");
    Buffer& buffer = edit_.kernel.buffers[slot_];
    if (box->low.size() != buffer.extents.size() || buffer.extents.empty()) fail("it is not read in the loop");
    ir::Context& context = edit_.context();

    std::vector<For> loops(producer_.loops.size());
    std::vector<Expr> extents(loops.size());
    symbolic::Substitution shift;
    Expr inside = context.exprs.constant(1);
    LoopScope nest_scope = scope;
    for (size_t k = 0; k < loops.size(); ++k) {
      const size_t d = producer_.axis_of[k];
      const For& old = producer_.loops[k];
      const Expr extent = scope.simplify(box->high[d] - box->low[d] + 1);
      extents[d] = local_extent(extent, scope);
      if (!extents[d]) fail(fmt::format("no bound of the extent {} is known from parameters alone", extent.str()));
      const Expr var = edit_.fresh_loop(loop_name(old.var), extent);
      const Expr at = box->low[d] + var;
      loops[k] = {var, extent, LoopKind::kSerial, 0, nullptr};
      nest_scope.push(var, extent);
      shift[old.var.node()] = at;
      inside = symbolic::logical_and(inside, symbolic::less_equal(context.exprs.constant(0), at));
      inside = symbolic::logical_and(inside, symbolic::less(at, old.extent));
    }
    if (is_placed_ && extents != buffer.extents) fail("the copies of the loop read footprints of different extents");
    is_placed_ = true;
    buffer.extents = extents;
    buffer.strides.clear();

    const auto relative = [&](std::vector<Scalar> index) {
      for (size_t d = 0; d < index.size(); ++d) index[d] = context.scalars.index(ir::as_expr(index[d]) - box->low[d]);
      return index;
    };
    Stmt nest = map_accesses(substitute(producer_.body, shift), slot_, slot_, relative);
    inside = nest_scope.simplify(inside);
    if (!inside.is_constant(1)) nest = make(If{condition_of(context, inside), std::move(nest), {}});
    for (size_t k = loops.size(); k-- > 0;) {
      loops[k].body = std::move(nest);
      nest = make(loops[k]);
    }
    For result = loop;
    Stmt body = map_accesses(loop.body, slot_, slot_, relative);
    result.body = make(Allocate{slot_, make(Block{{std::move(nest), std::move(body)}})});
    return make(std::move(result));
  }

  void check_reads(const Stmt& s, int& depth) const {
    const bool live = s->as<Allocate>() != nullptr && s->as<Allocate>()->slot == slot_;
    depth += live;
    visit_scalars(*s, [&](Scalar x) {
      if (depth == 0 && loads_from(x, slot_)) fail("it is read outside of the loop, too");
    });
    if (const For* f = s->as<For>()) check_reads(f->body, depth);
    if (const Allocate* a = s->as<Allocate>()) check_reads(a->body, depth);
    if (const If* i = s->as<If>()) {
      check_reads(i->then_body, depth);
      if (i->else_body) check_reads(i->else_body, depth);
    }
    if (const Block* b = s->as<Block>()) {
      for (const Stmt& each : b->statements) check_reads(each, depth);
    }
    depth -= live;
  }

  Edit& edit_;
  int slot_;
  Expr var_;
  std::string subject_;
  Producer producer_;
  int loops_below_ = 0;  // of the variable, behind the producer
  bool is_placed_ = false;
};

}  // namespace

Kernel compute_at(Edit edit) {
  const int slot = edit.slot(0);
  Mover(edit, slot, edit.loop(edit.word(1))).run();
  return std::move(edit.kernel);
}

}  // namespace stax::loop
