// SPDX-License-Identifier: Apache-2.0
// split_scan s 4 2 8 -> so
//
// A running sum makes each element wait for the one before. In tiles of 4 x 2 elements, which are read and written with lanes side by side, 4 lanes sum
// 2 neighbours each, and their sums are scanned in log2(4) steps:
//
//   for s in n { acc[] sum= x[s]; y[s] = acc[] }
//   -> allocate t[1, 9], a[4], b[4] {
//        for so in ceil(n/8) {
//          for so_in in 4 { for so_k in 2 { t[f/8, f mod 8] = s < n ? x[s] : 0 } }
//          for so_sum in 4 { allocate part[] { part[] = so_sum < 1 ? acc[] : 0;
//                                              for so_e in 2 { part[] sum= t[e/8, e mod 8]; t[e/8, e mod 8] = part[] }; a[so_sum] = part[] } }
//          for so_step0 in 4 { b[so_step0] = so_step0 < 1 ? a[so_step0] : a[so_step0 - 1] + a[so_step0] }
//          for so_step1 in 4 { a[so_step1] = so_step1 < 2 ? b[so_step1] : b[so_step1 - 2] + b[so_step1] }
//          for so_out in 4 { for so_f in 2 { if s < n { y[s] = f < 2 ? t[f/8, f mod 8] : a[f/2 - 1] + t[f/8, f mod 8] } } }
//          acc[] = a[3]
//        }
//      }
//
// with s = so*8 + f, where f = so_k*4 + so_in or so_f*4 + so_out, and e = so_sum*2 + so_e. The loops over lanes are independent, so they can be threads of
// a block. Rows of t have 8 elements and one of padding: where 8 elements are as long as all banks of shared memory, neither lanes side by side nor
// lanes that are a power of two apart meet in a bank. The order in which elements are combined is fixed by the lanes and their elements; it differs from
// the order before.
//
// phase_scan s p2 -> c
//
// One long row is cut into parts of p2 elements (a parameter of the kernel): each part's sum, what is in front of each part, and each part from there on, as
// three nests one behind the other, of which the first and the last have a loop over parts:
//
//   for i in m { allocate acc[] { acc[] = 0; for s in n { acc[] sum= x[i, s]; y[i, s] = acc[] } } }
//   -> allocate part[m, ceil(n/p2)], before[m, ceil(n/p2)] {
//        for i_t in m { for c in ceil(n/p2) { allocate acc_t[] {
//          acc_t[] = 0; for s_t in min(p2, n - c*p2) { acc_t[] sum= x[i_t, c*p2 + s_t] }; part[i_t, c] = acc_t[] } } }
//        for i_t_t in m { allocate acc_t_t[] { acc_t_t[] = 0; for c_t in ceil(n/p2) {
//          before[i_t_t, c_t] = acc_t_t[]; acc_t_t[] sum= part[i_t_t, c_t] } } }
//        for i in m { for c_t_t in ceil(n/p2) { allocate acc[] {
//          acc[] = before[i, c_t_t]; for s_t_t in min(p2, n - c_t_t*p2) { acc[] sum= x[i, c_t_t*p2 + s_t_t]; y[i, c_t_t*p2 + s_t_t] = acc[] } } } }
//      }
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

namespace {

class ScanSplitter {
 public:
  ScanSplitter(Edit& edit, const For& loop, const LoopScope& outer) : edit_(edit), loop_(loop) { find_scan(outer); }

  /// `outer`: the loops around the accumulator; `first`: what the accumulator is before the loop.
  Stmt phases(const std::vector<For>& outer, const Stmt& first, Expr part) {
    ir::Context& context = edit_.context();
    auto& scalars = context.scalars;
    const Buffer acc = edit_.kernel.buffers[static_cast<size_t>(acc_)];
    const Expr count = trip_count(loop_.extent), parts = symbolic::ceildiv(count, part);
    std::vector<Expr> extents;
    for (const For& f : outer) extents.push_back(f.extent);
    extents.push_back(parts);
    const int sums = edit_.new_local(acc.name + "_part", acc.dtype, extents),
              before = edit_.new_local(acc.name + "_before", acc.dtype, extents);
    const auto whole = [&](int slot) { return scalars.load(slot, acc.dtype, std::vector<Scalar>{}); };
    const auto same = [](const std::vector<Scalar>& index) { return index; };

    // A nest over rows, and over parts inside of them; `body` of the place of a part among all.
    const auto nest = [&](bool renamed, Expr c, int slot, bool parts_outside,
                          const std::function<Stmt(const std::vector<Scalar>& at)>& body) {
      std::vector<For> around = outer;
      std::vector<Scalar> at;
      symbolic::Substitution renaming;
      for (For& f : around) {
        if (renamed) {
          const Expr copy = edit_.fresh_loop(loop_name(f.var) + "_t", f.extent);
          renaming[f.var.node()] = copy;
          f.var = copy;
        }
        at.push_back(scalars.index(f.var));
      }
      at.push_back(scalars.index(c));
      Stmt result = substitute(body(at), renaming);
      if (parts_outside) {
        result = serial(c, parts, make(Allocate{slot, std::move(result)}));
      } else {
        result = make(Allocate{slot, std::move(result)});
      }
      for (size_t d = around.size(); d-- > 0;) {
        around[d].body = std::move(result);
        result = make(around[d]);
      }
      return result;
    };
    // The loop over the elements of a part.
    const auto elements = [&](Expr c, const Stmt& body) {
      const Expr length = symbolic::min(part, count - c * part);
      const Expr element = edit_.fresh_loop(loop_name(loop_.var) + "_t", length);
      return serial(element, length, substitute(body, {{loop_.var.node(), c * part + element}}));
    };
    const Expr c = edit_.new_loop(edit_.word(2), parts), c2 = edit_.fresh_loop(edit_.word(2) + "_t", parts),
               c3 = edit_.fresh_loop(edit_.word(2) + "_t", parts);
    const int own = edit_.new_local(acc.name + "_t", acc.dtype, {}),
              running = edit_.new_local(acc.name + "_r", acc.dtype, {});
    Stmt sum = nest(true, c, own, true, [&](const std::vector<Scalar>& at) {
      return make(Block{{make(Store{own, {}, neutral(context, update_->combiner, acc.dtype)}),
                         elements(c, make(Update{own, {}, update_->combiner, update_->value})),
                         make(Store{sums, at, whole(own)})}});
    });
    Stmt starts = nest(true, c2, running, false, [&](const std::vector<Scalar>& at) {
      Block step{{make(Store{before, at, whole(running)}),
                  make(Update{running, {}, update_->combiner, scalars.load(sums, acc.dtype, at)})}};
      return make(Block{{map_accesses(first, acc_, running, same), serial(c2, parts, make(std::move(step)))}});
    });
    NestCopier copier(edit_);
    const Stmt again = copier.copy(loop_.body);
    Stmt rest = nest(false, c3, acc_, true, [&](const std::vector<Scalar>& at) {
      return make(Block{{make(Store{acc_, {}, scalars.load(before, acc.dtype, at)}), elements(c3, again)}});
    });
    Stmt result = make(Block{{std::move(sum), std::move(starts), std::move(rest)}});
    for (int slot : {before, sums}) result = make(Allocate{slot, std::move(result)});
    return result;
  }

  Stmt run(int64_t lanes, int64_t each, int64_t row) {
    ir::Context& context = edit_.context();
    auto& exprs = context.exprs;
    const std::string& name = edit_.word(4);
    const DType type = edit_.kernel.buffers[static_cast<size_t>(acc_)].dtype;
    const Expr width = exprs.constant(lanes), neighbours = exprs.constant(each), count = trip_count(loop_.extent);
    const Expr tiles = symbolic::ceildiv(count, lanes * each), tile = edit_.new_loop(name, tiles);
    const int elements =
        edit_.new_local(name + "_t", type, {exprs.constant((lanes * each + row - 1) / row), exprs.constant(row + 1)});
    int now = edit_.new_local(name + "_a", type, {width}), next = edit_.new_local(name + "_b", type, {width});
    const int slots[] = {now, next, elements};
    const Scalar none = neutral(context, update_->combiner, type);
    const auto at = [&](Expr e) { return std::vector<Scalar>{context.scalars.index(e)}; };
    const auto load = [&](int slot, Expr e) { return context.scalars.load(slot, type, at(e)); };
    const auto whole = [&](int slot) { return context.scalars.load(slot, type, std::vector<Scalar>{}); };
    const auto place = [&](Expr f) {
      return std::vector<Scalar>{context.scalars.index(symbolic::floordiv(f, row)),
                                 context.scalars.index(symbolic::mod(f, row))};
    };
    const auto element = [&](Expr f) { return context.scalars.load(elements, type, place(f)); };
    // Element f of the tile, lanes side by side, with the body that is made of its number and of its iteration of the loop.
    const auto side_by_side = [&](const std::string& lane_name, const std::string& turn_name,
                                  const std::function<Stmt(Expr f, Expr s)>& body) {
      const Expr lane = edit_.new_loop(lane_name, width), turn = edit_.new_loop(turn_name, neighbours);
      const Expr f = turn * lanes + lane;
      return serial(lane, width, serial(turn, neighbours, body(f, tile * (lanes * each) + f)));
    };
    const auto exists = [&](Expr s) { return condition_of(context, symbolic::less(s, loop_.extent)); };
    Block body;

    body.statements.push_back(side_by_side(name + "_in", name + "_k", [&](Expr f, Expr s) {
      Stmt value = make(Store{elements, place(f), update_->value});
      value = substitute(value, {{loop_.var.node(), s}});
      return make(If{exists(s), std::move(value), make(Store{elements, place(f), none})});
    }));

    // What each lane has by itself; the first one also has what is in front of the tile.
    const Expr lane = edit_.new_loop(name + "_sum", width), own = edit_.new_loop(name + "_e", neighbours);
    const Expr e = lane * each + own;
    const int part = edit_.new_local(name + "_part", type, {});
    Block more{{make(Update{part, {}, update_->combiner, element(e)}), make(Store{elements, place(e), whole(part)})}};
    Block sum{{make(Store{part, {}, if_less(lane, 1, whole(acc_), none)}),
               serial(own, neighbours, make(std::move(more))), make(Store{now, at(lane), whole(part)})}};
    body.statements.push_back(serial(lane, width, make(Allocate{part, make(std::move(sum))})));

    // What all lanes up to each have.
    int step = 0;
    for (int64_t distance = 1; distance < lanes; distance *= 2, ++step) {
      const Expr to = edit_.new_loop(fmt::format("{}_step{}", name, step), width);
      const Scalar both = combine(update_->combiner, load(now, to - distance), load(now, to));
      body.statements.push_back(
          serial(to, width, make(Store{next, at(to), if_less(to, distance, load(now, to), both)})));
      std::swap(now, next);
    }

    // The loop's body, where the accumulator is what all elements up to its own have.
    const auto up_to = [&](Expr f) {
      const Expr before = symbolic::floordiv(f, each) - 1;
      return if_less(f, each, element(f), combine(update_->combiner, load(now, before), element(f)));
    };
    body.statements.push_back(side_by_side(name + "_out", name + "_f", [&](Expr f, Expr s) {
      const int running = edit_.new_local(name + "_run", type, {});
      const std::vector<Stmt>& statements = loop_.body->as<Block>()->statements;
      const auto update = std::find_if(statements.begin(), statements.end(),
                                       [&](const Stmt& one) { return one->as<Update>() == update_; });
      const auto reads = [&](const Stmt& one) {
        const std::vector<Access> all = accesses_in(one);
        return std::any_of(all.begin(), all.end(), [&](const Access& a) { return a.slot == acc_; });
      };
      const bool before = std::any_of(statements.begin(), update, reads),
                 after = std::any_of(update + 1, statements.end(), reads);
      Block again{{statements.begin(), update}};
      if (after) again.statements.push_back(make(Store{acc_, {}, up_to(f)}));
      again.statements.insert(again.statements.end(), update + 1, statements.end());
      Stmt all = map_accesses(NestCopier(edit_).copy(make(std::move(again))), acc_, running,
                              [](const std::vector<Scalar>& index) { return index; });
      all = substitute(all, {{loop_.var.node(), s}});
      if (before)
        all = make(Block{{make(Store{running, {}, if_less(f, 1, whole(acc_), up_to(f - 1))}), std::move(all)}});
      return make(Allocate{running, make(If{exists(s), std::move(all), {}})});
    }));

    body.statements.push_back(make(Store{acc_, {}, load(now, width - 1)}));
    Stmt result = serial(tile, tiles, make(std::move(body)));
    for (int slot : slots) result = make(Allocate{slot, std::move(result)});
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_.var), reason); }

  static Stmt serial(Expr var, Expr extent, Stmt body) {
    return make(For{var, extent, LoopKind::kSerial, 0, std::move(body)});
  }
  Scalar if_less(Expr e, int64_t bound, Scalar then, Scalar otherwise) {
    ir::Context& context = edit_.context();
    return context.scalars.op(
        ir::ScalarOp::kSelect,
        {condition_of(context, symbolic::less(e, context.exprs.constant(bound))), then, otherwise});
  }
  /// The one accumulator that lives outside of the loop, its update, and that nothing else goes from one iteration to another.
  void find_scan(const LoopScope& outer) {
    const auto* block = loop_.body->as<Block>();
    if (block == nullptr) fail("it is no scan: its body is one statement");
    const std::vector<int> own = slots_allocated_in(loop_.body);
    for (const Stmt& s : block->statements) {
      const auto* u = s->as<Update>();
      if (u == nullptr || edit_.kernel.buffers[static_cast<size_t>(u->slot)].scope != Scope::kLocal ||
          !u->index.empty())
        continue;
      if (std::find(own.begin(), own.end(), u->slot) != own.end()) continue;
      if (update_ != nullptr) fail("it updates more than one accumulator");
      update_ = u, acc_ = u->slot;
    }
    if (update_ == nullptr) fail("it is no scan: it updates no accumulator in every iteration");
    for (const Access& a : accesses_in(loop_.body))
      if (a.slot == acc_ && a.kind == AccessKind::kStore)
        fail(fmt::format("it overwrites {}", edit_.kernel.buffers[static_cast<size_t>(acc_)].name));
    int updates = 0;
    for (const Access& a : accesses_in(loop_.body)) updates += a.slot == acc_ && a.kind == AccessKind::kUpdate;
    if (updates != 1) fail("it updates its accumulator more than once");
    std::vector<int> changing = slots_written_in(loop_.body);
    if (reads_any(update_->value, changing)) fail("what it adds is made in it");
    // With an accumulator of each iteration's own, iterations are independent.
    For alone = loop_;
    alone.body =
        make(Allocate{acc_, make(Block{{make(Store{acc_,
                                                   {},
                                                   neutral(edit_.context(), update_->combiner,
                                                           edit_.kernel.buffers[static_cast<size_t>(acc_)].dtype)}),
                                        loop_.body}})});
    if (const std::string d = find_dependence(edit_.kernel, alone, outer, Reduction::kForbidden); !d.empty())
      fail("but for the accumulator its iterations are not independent: " + d);
  }

  Edit& edit_;
  const For& loop_;
  const Update* update_ = nullptr;
  int acc_ = 0;
};

}  // namespace

Kernel split_scan(Edit edit) {
  const Expr s = edit.loop(edit.word(0));
  const int64_t lanes = edit.number(1, 2, 1024), each = edit.number(2, 1, 64), row = edit.number(3, 1, 1024);
  if (!std::has_single_bit(static_cast<uint64_t>(lanes)))
    edit.fail("loop " + loop_name(s), fmt::format("{} is no power of two", lanes));
  edit.replace_loops(s, [&](const For& loop, const LoopScope& outer) {
    edit.require_kind(loop, LoopKind::kSerial);
    return ScanSplitter(edit, loop, outer).run(lanes, each, row);
  });
  return std::move(edit.kernel);
}

Kernel phase_scan(Edit edit) {
  const Expr s = edit.loop(edit.word(0));
  const auto fail = [&](const std::string& reason) { edit.fail("loop " + loop_name(s), reason); };
  std::vector<For> outer;
  LoopScope scope;
  Stmt at = edit.kernel.body;
  for (; const auto* f = at->as<For>(); at = f->body) {
    edit.require_kind(*f, LoopKind::kSerial);
    outer.push_back(*f);
    scope.push(f->var, f->extent);
  }
  const auto* allocate = at->as<Allocate>();
  const auto* nest = allocate == nullptr ? nullptr : allocate->body->as<Block>();
  if (nest == nullptr || nest->statements.size() != 2 || nest->statements[0]->as<Store>() == nullptr ||
      nest->statements[1]->as<For>() == nullptr || nest->statements[1]->as<For>()->var != s)
    fail("the nest is more than the scan");
  const For& loop = *nest->statements[1]->as<For>();
  edit.require_kind(loop, LoopKind::kSerial);
  for (const For& f : outer)
    for (const For& other : outer)
      if (symbolic::depends_on(f.extent, other.var) || symbolic::depends_on(loop.extent, other.var))
        fail("the loops around it decide extents");
  edit.kernel.body = ScanSplitter(edit, loop, scope).phases(outer, nest->statements[0], edit.parameter(1));
  return std::move(edit.kernel);
}

}  // namespace stax::loop
