// SPDX-License-Identifier: Apache-2.0
#include "lower/vector_access.h"

#include <algorithm>
#include <unordered_map>

#include "loop/access.h"

namespace stax::lower {

namespace {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;
using thread::Stmt;

class LaneVectorizer {
 public:
  LaneVectorizer(thread::Kernel& kernel, const ir::Target& target, Expr lane, int width)
      : kernel_(kernel), context_(*kernel.context), most_bytes_(target.vector_bytes), lane_(lane), width_(width) {}

  Stmt run(const Stmt& s) {
    if (const auto* b = s->as<thread::Block>()) {
      thread::Block out;
      for (const Stmt& each : b->statements) out.statements.push_back(run(each));
      return thread::make(std::move(out));
    }
    if (const auto* i = s->as<thread::If>()) return conditional(s, *i);
    if (const auto* w = s->as<thread::Store>()) return store(s, *w);
    // One for all lanes.
    if (s->kind() == thread::StmtKind::kAsyncCopy) return s;
    return lane_by_lane(s);
  }

 private:
  Stmt lane_by_lane(const Stmt& s) {
    thread::Block out;
    for (int k = 0; k < width_; ++k) out.statements.push_back(thread::substitute(s, at_lane(k)));
    return thread::make(std::move(out));
  }
  symbolic::Substitution at_lane(int k) const { return {{lane_.node(), context_.exprs.constant(k)}}; }

  Stmt conditional(const Stmt& s, const thread::If& i) {
    if (!loop::depends_on(i.condition, lane_))
      return thread::make(thread::If{i.condition, run(i.then_body), i.else_body ? run(i.else_body) : nullptr});
    const Expr c = loop::condition_expr(i.condition);
    if (c && holds_for_all_or_none(c)) {
      const Scalar at_first = loop::condition_of(context_, symbolic::substitute(c, at_lane(0)));
      return thread::make(thread::If{at_first, run(i.then_body), i.else_body ? run(i.else_body) : nullptr});
    }
    if (!c || i.else_body || !falls(c)) return lane_by_lane(s);
    const Expr whole = symbolic::substitute(c, at_lane(width_ - 1));
    return thread::make(thread::If{loop::condition_of(context_, whole), run(i.then_body), lane_by_lane(s)});
  }

  // a < b where a - b is the lane's number and whole vectors: the vector is on one side.
  bool holds_for_all_or_none(Expr c) const { return lower::holds_for_all_or_none(c, lane_, width_); }

  // A condition that, once false, stays false in further lanes: a < b where a grows with the lane and b does not.
  bool falls(Expr c) const {
    if (!symbolic::depends_on(c, lane_)) return true;
    if (c.kind() == symbolic::ExprKind::kMin)
      return std::all_of(c.args().begin(), c.args().end(), [&](Expr e) { return falls(e); });
    if (c.kind() != symbolic::ExprKind::kLess) return false;
    const auto grows = symbolic::affine_in(c.args()[0] - c.args()[1], lane_);
    return grows && grows->coefficient.range().lo >= 0;
  }

  // The address at lane 0 where lanes are neighbours there and vectors are aligned.
  Expr vector_base(Scalar index, DType t) const {
    const Expr e = ir::as_expr(index);
    if (!e) return {};
    const auto affine = symbolic::affine_in(e, lane_);
    if (!affine || !affine->coefficient.is_constant(1)) return {};
    return is_multiple(kernel_, affine->rest, piece(t)) ? affine->rest : Expr();
  }
  // Elements of one access.
  int piece(DType t) const { return std::min(width_, std::max(1, most_bytes_ / static_cast<int>(ir::byte_size(t)))); }

  int add_local(const std::string& name, DType t, int count) {
    kernel_.buffers.push_back({name, t, thread::Space::kLocal, context_.exprs.constant(count), 0, false});
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }

  Stmt store(const Stmt& s, const thread::Store& w) {
    if (kernel_.buffers[w.slot].space == thread::Space::kLocal && !ir::has_load(w.value)) return lane_by_lane(s);
    if (Stmt copy = plain_copy(w)) return copy;
    thread::Block out;
    std::unordered_map<const ir::ScalarNode*, int> loaded;  // vector of a load
    ir::visit(w.value, [&](Scalar x) {
      if (const int chosen = choice(x, out); chosen >= 0) loaded[x.node()] = chosen;
    });
    ir::visit(w.value, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || kernel_.buffers[x->slot].space == thread::Space::kLocal) return;
      if (under_select(w.value, x)) return;
      const Expr base = vector_base(x->args[0], x->dtype);
      const int each = piece(x->dtype);
      if (!base || each == 1) return;
      const int slot = add_local(kernel_.buffers[x->slot].name + "_v", x->dtype, width_);
      for (int k = 0; k < width_; k += each)
        out.statements.push_back(thread::make(
            thread::LoadVector{slot, context_.exprs.constant(k), x->slot, context_.scalars.index(base + k), each}));
      loaded[x.node()] = slot;
    });
    const Expr to =
        kernel_.buffers[w.slot].space == thread::Space::kLocal ? Expr() : vector_base(w.index, w.value->dtype);
    const int each = piece(w.value->dtype);
    const bool vector_store = to && each > 1;
    const int result = vector_store ? add_local(kernel_.buffers[w.slot].name + "_v", w.value->dtype, width_) : -1;
    for (int k = 0; k < width_; ++k) {
      const Scalar v = value_at(w.value, k, loaded);
      if (vector_store) {
        out.statements.push_back(
            thread::make(thread::Store{result, context_.scalars.index(context_.exprs.constant(k)), v}));
      } else {
        out.statements.push_back(thread::make(thread::Store{w.slot, ir::substitute(w.index, at_lane(k)), v}));
      }
    }
    if (vector_store)
      for (int k = 0; k < width_; k += each)
        out.statements.push_back(thread::make(
            thread::StoreVector{w.slot, context_.scalars.index(to + k), result, context_.exprs.constant(k), each}));
    return thread::make(std::move(out));
  }

  // Neighbours in memory that are neighbours in registers, too, or the other way round: nothing in between.
  Stmt plain_copy(const thread::Store& w) {
    const Scalar load = w.value;
    if (load->kind != ScalarKind::kLoad) return nullptr;
    const bool to_local = kernel_.buffers[w.slot].space == thread::Space::kLocal;
    const bool from_local = kernel_.buffers[load->slot].space == thread::Space::kLocal;
    const int each = piece(load->dtype);
    if (to_local == from_local || each == 1) return nullptr;
    const Scalar there = to_local ? load->args[0] : w.index, here = to_local ? w.index : load->args[0];
    const Expr base = vector_base(there, load->dtype), first = vector_base(here, load->dtype);
    if (!base || !first) return nullptr;
    thread::Block out;
    for (int k = 0; k < width_; k += each) {
      const Scalar at = context_.scalars.index(base + k);
      out.statements.push_back(to_local ? thread::make(thread::LoadVector{w.slot, first + k, load->slot, at, each})
                                        : thread::make(thread::StoreVector{w.slot, at, load->slot, first + k, each}));
    }
    return thread::make(std::move(out));
  }

  // The vector of a choice between neighbours in memory and a constant that all lanes make alike; -1: it is none.
  int choice(Scalar x, thread::Block& out) {
    if (x->kind != ScalarKind::kOp || x->op != ir::ScalarOp::kSelect) return -1;
    const Scalar load = x->args[1];
    if (load->kind != ScalarKind::kLoad || x->args[2]->kind != ScalarKind::kConstant) return -1;
    if (kernel_.buffers[load->slot].space == thread::Space::kLocal) return -1;
    const Expr c = loop::condition_expr(x->args[0]);
    const Expr base = vector_base(load->args[0], x->dtype);
    const int each = piece(x->dtype);
    if (!c || !base || each == 1 || !holds_for_all_or_none(c)) return -1;
    const int slot = add_local(kernel_.buffers[load->slot].name + "_v", x->dtype, width_);
    thread::Block whole;
    for (int k = 0; k < width_; ++k)
      out.statements.push_back(
          thread::make(thread::Store{slot, context_.scalars.index(context_.exprs.constant(k)), x->args[2]}));
    for (int k = 0; k < width_; k += each)
      whole.statements.push_back(thread::make(
          thread::LoadVector{slot, context_.exprs.constant(k), load->slot, context_.scalars.index(base + k), each}));
    out.statements.push_back(thread::make(thread::If{loop::condition_of(context_, symbolic::substitute(c, at_lane(0))),
                                                     thread::make(std::move(whole)), nullptr}));
    return slot;
  }

  // Whether a load may be left out by a select, so that its address may be no good.
  static bool under_select(Scalar root, Scalar load) {
    bool found = false;
    ir::visit(root, [&](Scalar x) {
      if (found || x->kind != ScalarKind::kOp || x->op != ir::ScalarOp::kSelect) return;
      for (size_t k = 1; k < 3; ++k) ir::visit(x->args[k], [&](Scalar y) { found |= y == load; });
    });
    return found;
  }

  // The value of lane k: loads that are vectors are replaced by their elements, before the lane is.
  Scalar value_at(Scalar root, int k, const std::unordered_map<const ir::ScalarNode*, int>& loaded) {
    std::unordered_map<const ir::ScalarNode*, Scalar> made;
    const Scalar with_vectors = replace(root, k, loaded, made);
    return ir::substitute(with_vectors, at_lane(k));
  }
  Scalar replace(Scalar x, int k, const std::unordered_map<const ir::ScalarNode*, int>& loaded,
                 std::unordered_map<const ir::ScalarNode*, Scalar>& made) {
    if (const auto done = made.find(x.node()); done != made.end()) return done->second;
    auto& t = context_.scalars;
    Scalar r = x;
    if (const auto found = loaded.find(x.node()); found != loaded.end()) {
      r = t.load(found->second, x->dtype, {t.index(context_.exprs.constant(k))});
    } else if (!x->args.empty()) {
      std::vector<Scalar> args;
      bool same = true;
      for (Scalar a : x->args) {
        args.push_back(replace(a, k, loaded, made));
        same &= args.back() == a;
      }
      if (!same) {
        r = x->kind == ScalarKind::kLoad   ? t.load(x->slot, x->dtype, std::move(args))
            : x->kind == ScalarKind::kCast ? t.cast(x->dtype, args[0])
                                           : t.op(x->op, std::move(args));
      }
    }
    return made[x.node()] = r;
  }

  thread::Kernel& kernel_;
  ir::Context& context_;
  int most_bytes_;
  Expr lane_;
  int width_;
};

}  // namespace

bool is_multiple(const thread::Kernel& kernel, Expr e, int64_t by) {
  if (e.multiple() % by == 0) return true;
  if (e.kind() != symbolic::ExprKind::kAdd) return false;
  symbolic::ExprTable& table = e.table();
  Expr own = table.constant(0), rest = own;
  for (Expr term : e.args()) {
    const std::vector<Expr> symbols = symbolic::free_symbols(term);
    const bool is_own = std::all_of(symbols.begin(), symbols.end(), [&](Expr s) { return s == kernel.thread; });
    (is_own ? own : rest) = (is_own ? own : rest) + term;
  }
  if (rest.multiple() % by != 0) return false;
  for (int64_t t = 0; t < kernel.block; ++t) {
    const Expr value = symbolic::substitute(own, {{kernel.thread.node(), table.constant(t)}});
    if (!value.is_constant() || value.constant() % by != 0) return false;
  }
  return true;
}

bool holds_for_all_or_none(Expr c, Expr lane, int width) {
  if (!symbolic::depends_on(c, lane)) return true;
  if (c.kind() == symbolic::ExprKind::kMin) {
    const auto& parts = c.args();
    return std::all_of(parts.begin(), parts.end(), [&](Expr e) { return holds_for_all_or_none(e, lane, width); });
  }
  if (c.kind() != symbolic::ExprKind::kLess) return false;
  const auto difference = symbolic::affine_in(c.args()[0] - c.args()[1], lane);
  return difference && difference->coefficient.is_constant(1) && difference->rest.multiple() % width == 0;
}

Stmt vectorize_lanes(thread::Kernel& kernel, const ir::Target& target, Expr lane, int width, const Stmt& body) {
  return LaneVectorizer(kernel, target, lane, width).run(body);
}

}  // namespace stax::lower
