// SPDX-License-Identifier: Apache-2.0
#include "lower/loop_to_thread.h"

#include <algorithm>
#include <bit>
#include <set>

#include "ir/math_table.h"
#include "lower/thread_lowering.h"
#include "lower/vector_access.h"
#include "support/error.h"
#include "thread/passes.h"

namespace stax::lower {

namespace {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;

// A loop over that many iterations of one thread is written out where registers are indexed by it.
constexpr int64_t kMostUnrolled = 64;
// Of a thread loop: iterations of one thread that are written out.
constexpr int64_t kMostIterations = 16;
// Of a thread loop of sums alone: iterations of one thread that are written out at a time, and nodes of what is added.
constexpr int64_t kTogether = 8;
constexpr size_t kShortSum = 8;
// Groups of copies in the background for which nobody waits: as many as a buffer can have stages.
constexpr int kMostPending = 8;

// scale * m, where m may be the c-th part of what is a multiple of c.
Expr times(Expr scale, Expr m) {
  const bool is_part = m.kind() == symbolic::ExprKind::kFloorDiv && m.args()[1].is_constant() &&
                       m.args()[0].multiple() % m.args()[1].constant() == 0 &&
                       scale.multiple() % m.args()[1].constant() == 0;
  if (!is_part) return scale * m;
  return symbolic::floordiv(scale, m.args()[1]) * m.args()[0];
}

// m * floordiv(x, m) + mod(x, m) is x, as no extent is 0 where a kernel runs. Of an x that is a quotient, the quotient's quotient may be written as
// one division.
Expr rejoin_quotients(Expr sum) {
  if (sum.kind() != symbolic::ExprKind::kAdd) return sum;
  symbolic::ExprTable& table = sum.table();
  for (Expr term : sum.args()) {
    const std::vector<Expr> factors = term.kind() == symbolic::ExprKind::kMul
                                          ? std::vector<Expr>(term.args().begin(), term.args().end())
                                          : std::vector{term};
    for (size_t k = 0; k < factors.size(); ++k) {
      if (factors[k].kind() != symbolic::ExprKind::kMod) continue;
      const Expr x = factors[k].args()[0], m = factors[k].args()[1];
      std::vector<Expr> others = factors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      const Expr scale = table.make(symbolic::ExprKind::kMul, others);
      std::vector<Expr> quotients{symbolic::floordiv(x, m)};
      if (x.kind() == symbolic::ExprKind::kFloorDiv)
        quotients.push_back(symbolic::floordiv(x.args()[0], x.args()[1] * m));
      for (Expr quotient : quotients) {
        const Expr other = times(scale, m) * quotient;
        if (std::find(sum.args().begin(), sum.args().end(), other) == sum.args().end()) continue;
        return rejoin_quotients(sum - term - other + scale * x);
      }
    }
  }
  return sum;
}

}  // namespace

ThreadLowering::ThreadLowering(const loop::Kernel& from, const ir::Target& target, int block, int index_bits,
                               bool rows_in_global)
    : from_(from), target_(target), context_(*from.context), places_(place_buffers(from, block)) {
  if (const int i = matrix_instruction(from, target); i >= 0) instruction_ = i, mma_ = &thread::mma_instructions()[i];
  to_.context = from.context;
  to_.name = from.name;
  to_.kernel_class = from.kernel_class;
  to_.arguments = from.arguments;
  to_.params = from.params;
  to_.block = block;
  to_.warp = target.warp;
  to_.index_bits = index_bits;
  to_.check_messages = from.check_messages;
  to_.schedule = from.schedule;
  auto& exprs = context_.exprs;
  to_.thread = exprs.new_symbol({"thread", symbolic::SymbolKind::kLoop, {0, block - 1}, 1});
  const char* names[] = {"block_x", "block_y", "block_z"};
  for (int k = 0; k < 3; ++k) {
    to_.block_index[k] = exprs.new_symbol(
        {names[k], symbolic::SymbolKind::kLoop, {0, k == 0 ? target.max_grid_x - 1 : target.max_grid_yz - 1}, 1});
    to_.grid[k] = exprs.constant(1);
  }
  slots_.resize(from.buffers.size());
  const auto is_scratch = [&](int slot) {
    if (!rows_in_global || slot < from.arguments || places_[slot].place != Place::kShared) return false;
    const auto& extents = from.buffers[slot].extents;
    return !std::all_of(extents.begin(), extents.end(), [](Expr e) { return e.is_constant(); });
  };
  const int count = static_cast<int>(from.buffers.size());
  for (int slot = 0; slot < from.arguments; ++slot) add(from.buffers[slot], slot);
  for (int slot = from.arguments; slot < count; ++slot)
    if (is_scratch(slot)) add_scratch(from.buffers[slot], slot);
  for (int slot = from.arguments; slot < count; ++slot)
    if (!is_scratch(slot)) add(from.buffers[slot], slot);
}

thread::Kernel ThreadLowering::run() {
  loop::Stmt body = from_.body;
  if (const auto* grid = body->as<loop::For>(); grid && grid->kind == loop::LoopKind::kParallel) {
    to_.grid[0] = symbolic::max(grid->extent, 0);
    for (int k = to_.arguments - to_.scratch; k < to_.arguments; ++k)
      to_.buffers[k].count = to_.buffers[k].count * to_.grid[0];
    bind(grid->var, to_.block_index[0]);
    body = grid->body;
  }
  to_.body = lower(body);
  if (to_.check_messages.empty() && checks_an_index()) to_.check_messages.emplace_back("an index is out of range");
  return std::move(to_);
}

bool ThreadLowering::checks_an_index() const {
  bool found = false;
  thread::visit(to_.body, [&](const thread::Stmt& s) {
    thread::for_each_scalar(*s, [&](Scalar root) {
      ir::visit(root, [&](Scalar x) { found |= x->kind == ScalarKind::kOp && x->op == ir::ScalarOp::kCheckedIndex; });
    });
  });
  return found;
}

void ThreadLowering::add(const loop::Buffer& b, int slot) {
  thread::Buffer n;
  n.name = b.name;
  n.dtype = b.dtype;
  n.written = b.written && slot < from_.arguments;
  n.alignment = 16;
  n.count = context_.exprs.constant(1);
  const Placement& at = places_[slot];
  const bool argument = slot < from_.arguments;
  n.space = argument                     ? thread::Space::kGlobal
            : at.place == Place::kShared ? thread::Space::kShared
                                         : thread::Space::kLocal;
  if (!argument && at.place == Place::kFragment) {
    const FragmentShape shape = fragment_shape(*mma_, at.part);
    n.count = context_.exprs.constant(at.box[at.row_axis] / shape.rows * (at.box[1 - at.row_axis] / shape.columns) *
                                      shape.map->items);
  } else if (!argument && at.place == Place::kSpread) {
    for (int64_t e : at.box) n.count = n.count * e;
    n.count = n.count * at.per_thread;
  } else {
    for (Expr e : b.extents) n.count = n.count * e;
  }
  slots_[slot] = static_cast<int>(to_.buffers.size());
  STAX_ASSERT(n.space != thread::Space::kLocal || n.count.is_constant(), "the {} elements of {} are not registers",
              n.count.str(), b.name);
  to_.buffers.push_back(std::move(n));
}

void ThreadLowering::add_scratch(const loop::Buffer& b, int slot) {
  Expr count = context_.exprs.constant(1);
  for (Expr e : b.extents) count = count * e;
  slots_[slot] = static_cast<int>(to_.buffers.size());
  block_part_[slot] = count;
  to_.buffers.push_back({b.name, b.dtype, thread::Space::kGlobal, count, 16, true});
  ++to_.arguments;
  ++to_.scratch;
}

int ThreadLowering::add_local(const std::string& name, DType t, int64_t count) {
  to_.buffers.push_back({name, t, thread::Space::kLocal, context_.exprs.constant(count), 0, false});
  return static_cast<int>(to_.buffers.size()) - 1;
}

int ThreadLowering::add_shared(const std::string& name, DType t, int64_t count) {
  to_.buffers.push_back({name, t, thread::Space::kShared, context_.exprs.constant(count), 16, false});
  return static_cast<int>(to_.buffers.size()) - 1;
}

Scalar ThreadLowering::scalar(Scalar x) {
  Made made;
  return scalar(x, made);
}

Scalar ThreadLowering::scalar(Scalar x, Made& made) {
  if (const auto done = made.find(x.node()); done != made.end()) return done->second;
  return made[x.node()] = fresh_scalar(x, made);
}

Scalar ThreadLowering::fresh_scalar(Scalar x, Made& made) {
  auto& t = context_.scalars;
  switch (x->kind) {
    case ScalarKind::kConstant: return x;
    case ScalarKind::kIndex: return index(value(x->index));
    case ScalarKind::kLoad: return t.load(slot_of(x->slot), x->dtype, {linear(x->slot, x->args)});
    case ScalarKind::kCast: return t.cast(x->dtype, scalar(x->args[0], made));
    case ScalarKind::kOp: {
      std::vector<Scalar> args;
      for (Scalar a : x->args) args.push_back(scalar(a, made));
      return t.op(x->op, std::move(args));
    }
    case ScalarKind::kAccumulator: break;
  }
  STAX_UNREACHABLE();
}

int ThreadLowering::slot_of(int slot) const {
  const auto found = partials_.find(slot);
  return found == partials_.end() ? slots_[slot] : found->second;
}

Scalar ThreadLowering::linear(int slot, const std::vector<Scalar>& original) {
  const loop::Buffer& b = from_.buffers[slot];
  const Placement& p = places_[slot];
  if (slot >= from_.arguments && p.place == Place::kSpread) {
    Expr sum = iteration_;
    for (size_t k = 0; k < p.box.size(); ++k) {
      const Expr inner = value(without_thread(ir::as_expr(original[p.axis[k]]), thread_var_));
      sum = sum * p.box[k] + digit(p, k, inner);
    }
    return index(sum);
  }
  if (slot >= from_.arguments && p.place == Place::kFragment) return index(fragment_item(slot, original));
  Scalar sum = index(context_.exprs.constant(0));
  Expr stride = context_.exprs.constant(1);
  for (size_t d = original.size(); d-- > 0;) {
    sum = sum + scalar(original[d]) * index(b.strides.empty() ? stride : value(b.strides[d]));
    stride = stride * value(b.extents[d]);
  }
  if (const auto part = block_part_.find(slot); part != block_part_.end())
    sum = sum + index(to_.block_index[0] * part->second);
  if (const Expr e = ir::as_expr(sum)) return index(rejoin_quotients(e));
  return sum;
}

Expr ThreadLowering::fragment_item(int slot, const std::vector<Scalar>& original) const {
  const Placement& p = places_[slot];
  const FragmentShape shape = fragment_shape(*mma_, p.part);
  const auto along = [&](int axis) {
    const Expr inner = without_thread(ir::as_expr(original[static_cast<size_t>(axis)]), thread_var_);
    return value(symbolic::substitute(inner, tiles_));
  };
  const Expr tile = symbolic::floordiv(along(p.row_axis), shape.rows) * (p.box[1 - p.row_axis] / shape.columns) +
                    symbolic::floordiv(along(1 - p.row_axis), shape.columns);
  return tile * shape.map->items + item_;
}

thread::Stmt ThreadLowering::lower(const loop::Stmt& s) {
  return std::visit([&](const auto& n) { return lower_node(n); }, s->v);
}

thread::Stmt ThreadLowering::lower_node(const loop::Block& b) {
  thread::Block out;
  for (size_t k = 0; k < b.statements.size();) {
    const size_t count = level_ == Level::kBlock ? loops_of_one_reduction(b, k) : 1;
    if (count < 2) {
      out.statements.push_back(lower(b.statements[k++]));
      continue;
    }
    const auto first = b.statements.begin() + static_cast<std::ptrdiff_t>(k);
    const loop::Stmt all = loop::make(loop::Block{{first, first + static_cast<std::ptrdiff_t>(count)}});
    out.statements.push_back(reduced(all, [&] {
      thread::Block parts;
      for (const loop::Stmt& each : all->as<loop::Block>()->statements)
        parts.statements.push_back(iterations(*each->as<loop::For>()));
      return thread::make(std::move(parts));
    }));
    k += count;
  }
  return thread::make(std::move(out));
}

thread::Stmt ThreadLowering::lower_node(const loop::Fence& f) {
  thread::Block out;
  out.statements.push_back(thread::make(thread::AsyncCommit{}));
  if (f.pending < kMostPending) out.statements.push_back(thread::make(thread::AsyncWait{f.pending}));
  return thread::make(std::move(out));
}

thread::Stmt ThreadLowering::lower_node(const loop::If& i) {
  thread::If out{scalar(i.condition), lower(i.then_body), i.else_body ? lower(i.else_body) : nullptr};
  if (const Expr known = loop::condition_expr(out.condition); known && known.is_constant()) {
    if (known.constant() != 0) return out.then_body;
    return out.else_body ? out.else_body : thread::make(thread::Block{});
  }
  return thread::make(std::move(out));
}

thread::Stmt ThreadLowering::lower_node(const loop::Store& w) {
  if (w.in_background && target_.async_copy)
    if (thread::Stmt copy = copy_in_background(w)) return copy;
  return store(w.slot, w.index, scalar(w.value));
}

thread::Stmt ThreadLowering::lower_node(const loop::Update& u) {
  Scalar old = context_.scalars.load(slot_of(u.slot), from_.buffers[u.slot].dtype, {linear(u.slot, u.index)});
  return store(u.slot, u.index, ir::combine(u.combiner, old, scalar(u.value)));
}

thread::Stmt ThreadLowering::store(int slot, const std::vector<Scalar>& at, Scalar v) {
  thread::Stmt s = thread::make(thread::Store{slot_of(slot), linear(slot, at), v});
  const bool mine = to_.buffers[slot_of(slot)].space == thread::Space::kLocal;
  return level_ == Level::kBlock && !mine ? by_thread_zero(std::move(s)) : s;
}

thread::Stmt ThreadLowering::by_thread_zero(thread::Stmt s) {
  if (to_.block == 1) return s;
  return thread::make(thread::If{loop::condition_of(context_, symbolic::equal(to_.thread, 0)), std::move(s), nullptr});
}

thread::Stmt ThreadLowering::lower_node(const loop::For& f) {
  if (f.kind == loop::LoopKind::kThread) return thread_loop(f);
  if (f.kind == loop::LoopKind::kWarp) return warp_loop(f);
  if (loop::is_matrix(f.kind)) return matrix_loops(f);
  if (f.kind == loop::LoopKind::kVector && level_ == Level::kThread) return vector_loop(f);
  const Expr extent = value(f.extent);
  const bool constant = extent.is_constant();
  if (constant && extent.constant() <= 0) return thread::make(thread::Block{});
  if (constant && extent.constant() == 1) {
    bind(f.var, context_.exprs.constant(0));
    return lower(f.body);
  }
  variables_.erase(f.var.node());
  const bool unrolled =
      constant && (f.kind == loop::LoopKind::kUnrolled || (extent.constant() <= kMostUnrolled && indexes_registers(f)));
  return thread::make(thread::For{f.var, extent, unrolled, lower(f.body)});
}

bool ThreadLowering::indexes_registers(const loop::For& f) const {
  bool found = false;
  for (const loop::Access& a : loop::accesses_in(f.body)) {
    if (a.slot < from_.arguments || places_[a.slot].place == Place::kShared) continue;
    for (Scalar i : a.index) found |= loop::depends_on(i, f.var);
  }
  return found;
}

thread::Stmt ThreadLowering::vector_loop(const loop::For& f) {
  loop::For lanes = f;
  lanes.kind = loop::LoopKind::kUnrolled;
  const Expr extent = value(f.extent);
  if (!extent.is_constant() || extent.constant() > 16) {
    lanes.kind = loop::LoopKind::kSerial;
    return lower_node(lanes);
  }
  const int width = static_cast<int>(extent.constant());
  vector_lane_ = f.var, vector_width_ = width;
  const thread::Stmt each = lower(f.body);
  vector_width_ = 1;
  return vectorize_lanes(to_, target_, f.var, width, each);
}

thread::Stmt ThreadLowering::copy_in_background(const loop::Store& w) {
  Scalar load = w.value;
  Expr condition;
  if (load->kind == ScalarKind::kOp && load->op == ir::ScalarOp::kSelect &&
      load->args[2] == ir::neutral(context_, ir::Combiner::kSum, load->dtype)) {
    condition = loop::condition_expr(scalar(load->args[0]));
    if (!condition) return nullptr;
    load = load->args[1];
  }
  if (load->kind != ScalarKind::kLoad || load->slot >= from_.arguments) return nullptr;
  if (to_.buffers[slot_of(w.slot)].space != thread::Space::kShared) return nullptr;
  const Expr to = ir::as_expr(linear(w.slot, w.index)), from = ir::as_expr(linear(load->slot, load->args));
  const int64_t bytes = vector_width_ * static_cast<int64_t>(ir::byte_size(load->dtype));
  if (!to || !from || bytes < 4 || bytes > 16) return nullptr;
  Expr at[2] = {to, from};
  for (Expr& e : at) {
    if (vector_width_ == 1) continue;
    const auto affine = symbolic::affine_in(e, vector_lane_);
    if (!affine || !affine->coefficient.is_constant(1) || !is_multiple(to_, affine->rest, vector_width_))
      return nullptr;
    e = affine->rest;
  }
  if (condition && vector_width_ > 1) {
    if (!holds_for_all_or_none(condition, vector_lane_, vector_width_)) return nullptr;
    condition = symbolic::substitute(condition, {{vector_lane_.node(), context_.exprs.constant(0)}});
  }
  if (condition && condition.is_constant(1)) condition = {};
  return thread::make(thread::AsyncCopy{slot_of(w.slot), index(at[0]), slots_[load->slot], index(at[1]), vector_width_,
                                        condition ? loop::condition_of(context_, condition) : Scalar()});
}

std::vector<ThreadLowering::Reduced> ThreadLowering::reductions_of(const loop::Stmt& s) {
  std::vector<Reduced> found;
  loop::visit(s, [&](const loop::Stmt& each) {
    const auto* u = each->as<loop::Update>();
    if (u == nullptr || u->slot < from_.arguments || places_[u->slot].place != Place::kReplicated) return;
    if (std::any_of(found.begin(), found.end(), [&](const Reduced& r) { return r.slot == u->slot; })) return;
    found.push_back({u->slot, 0, u->combiner});
  });
  for (Reduced& r : found) {
    const thread::Buffer b = to_.buffers[slots_[r.slot]];
    r.partial = add_local(b.name + "_part", b.dtype, b.count.constant());
    partials_[r.slot] = r.partial;
  }
  return found;
}

size_t ThreadLowering::loops_of_one_reduction(const loop::Block& b, size_t first) const {
  const auto sum_of = [&](const loop::Stmt& s) -> const loop::Update* {
    const auto* f = s->as<loop::For>();
    if (f == nullptr || f->kind != loop::LoopKind::kThread) return nullptr;
    const loop::Update* only = nullptr;
    bool is_one = true;
    loop::visit(f->body, [&](const loop::Stmt& each) {
      const auto* u = each->as<loop::Update>();
      if (u == nullptr || u->slot < from_.arguments || places_[u->slot].place != Place::kReplicated) return;
      is_one = is_one && only == nullptr;
      only = u;
    });
    return is_one ? only : nullptr;
  };
  const loop::Update* sum = sum_of(b.statements[first]);
  size_t count = 1;
  for (; sum != nullptr && first + count < b.statements.size(); ++count) {
    const loop::Update* next = sum_of(b.statements[first + count]);
    if (next == nullptr || next->slot != sum->slot || next->combiner != sum->combiner) break;
  }
  return count;
}

thread::Stmt ThreadLowering::thread_loop(const loop::For& f) {
  STAX_ASSERT(level_ == Level::kBlock, "thread loop {} is inside a thread loop", f.var.str());
  return reduced(loop::make(f), [&] { return iterations(f); });
}

thread::Stmt ThreadLowering::reduced(const loop::Stmt& s, const std::function<thread::Stmt()>& body) {
  thread::Block out;
  const std::vector<Reduced> reductions = reductions_of(s);
  for (const Reduced& r : reductions) {
    const Scalar zero = ir::neutral(context_, r.combiner, to_.buffers[r.partial].dtype);
    for (int64_t k = 0; k < to_.buffers[r.partial].count.constant(); ++k)
      out.statements.push_back(thread::make(thread::Store{r.partial, index(context_.exprs.constant(k)), zero}));
  }
  level_ = Level::kThread;
  out.statements.push_back(thread::make(thread::Block{{body()}, true}));
  level_ = Level::kBlock;
  for (const Reduced& r : reductions) {
    partials_.erase(r.slot);
    for (int64_t k = 0; k < to_.buffers[r.partial].count.constant(); ++k) reduce(out, r, k);
  }
  return thread::make(std::move(out));
}

thread::Stmt ThreadLowering::iterations(const loop::For& f) {
  auto& exprs = context_.exprs;
  const Expr extent = value(f.extent);
  const auto guarded = [&](Expr v, Expr iteration) {
    bind(f.var, v);
    thread_var_ = f.var;
    iteration_ = iteration;
    thread::Stmt body = lower(f.body);
    const Expr inside = symbolic::less(v, extent);
    if (inside.is_constant(1)) return body;
    return thread::make(thread::If{loop::condition_of(context_, inside), std::move(body), nullptr});
  };
  if (extent.is_constant() && extent.constant() <= to_.block) return guarded(to_.thread, exprs.constant(0));
  if (extent.is_constant() && touches_spread(f)) {
    thread::Block all;
    for (int64_t k = 0; k * to_.block < extent.constant(); ++k)
      all.statements.push_back(guarded(to_.thread + k * to_.block, exprs.constant(k)));
    return thread::make(std::move(all));
  }
  const Expr count = symbolic::ceildiv(extent - to_.thread, to_.block);
  const Expr most = symbolic::ceildiv(extent, to_.block);
  if (most.range().hi <= 1) return guarded(to_.thread, exprs.constant(0));
  const auto loop = [&](Expr it, Expr iterations, bool unrolled, Expr iteration) {
    bind(f.var, to_.thread + iteration * to_.block);
    thread_var_ = f.var;
    iteration_ = iteration;
    return thread::make(thread::For{it, iterations, unrolled, lower(f.body)});
  };
  // A few iterations are written out, so that their loads are under way together.
  const Expr it = loop::loop_var(context_, loop_name_of(f), most);
  const bool few = count.is_constant() && count.constant() <= kMostIterations;
  if (few || most.range().hi < 2 * kTogether || !is_short_sum(f)) return loop(it, count, few, it);
  const Expr whole = symbolic::floordiv(count, kTogether), left = symbolic::mod(count, kTogether);
  const Expr group = loop::loop_var(context_, loop_name_of(f), symbolic::floordiv(most, kTogether));
  const Expr one = loop::loop_var(context_, loop_name_of(f), exprs.constant(kTogether));
  thread::Stmt steady = thread::make(
      thread::For{group, whole, false, loop(one, exprs.constant(kTogether), true, group * kTogether + one)});
  return thread::make(thread::Block{{std::move(steady), loop(it, left, false, whole * kTogether + it)}});
}

bool ThreadLowering::is_short_sum(const loop::For& f) {
  size_t nodes = 0;
  bool is_sum = true;
  loop::visit(f.body, [&](const loop::Stmt& s) {
    const auto* inner = s->as<loop::For>();
    const auto* u = s->as<loop::Update>();
    is_sum = is_sum && (u != nullptr || (inner != nullptr && inner->kind == loop::LoopKind::kVector));
    if (u == nullptr) return;
    nodes += ir::node_count(u->value);
    ir::visit(u->value, [&](Scalar x) {
      if (x->kind == ScalarKind::kOp && ir::is_math_function(x->op)) is_sum = false;
    });
  });
  return is_sum && nodes <= kShortSum;
}

std::string ThreadLowering::loop_name_of(const loop::For& f) {
  const std::string& name = f.var.symbol().name;
  return name.substr(0, name.find('.')) + "_it";
}

bool ThreadLowering::touches_spread(const loop::For& f) const {
  for (const loop::Access& a : loop::accesses_in(f.body))
    if (a.slot >= from_.arguments && places_[a.slot].place == Place::kSpread) return true;
  return false;
}

void ThreadLowering::reduce(thread::Block& out, const Reduced& r, int64_t element) {
  auto& scalars = context_.scalars;
  const DType t = to_.buffers[r.partial].dtype;
  const auto load = [&](int slot, Expr at) { return scalars.load(slot, t, {index(at)}); };
  const Expr k = context_.exprs.constant(element), zero = context_.exprs.constant(0);
  const auto assign = [&](int slot, Expr at, Scalar v) { return thread::make(thread::Store{slot, index(at), v}); };
  const Scalar own = load(r.partial, k);
  const auto finish = [&](Scalar total) {
    const int target = slots_[r.slot];
    out.statements.push_back(assign(target, k, ir::combine(r.combiner, load(target, k), total)));
  };
  if (to_.block == 1) return finish(own);
  if (!target_.shuffle) {
    // A tree in shared memory.
    const int tree = add_shared(to_.buffers[slots_[r.slot]].name + "_tree", t, to_.block);
    out.statements.push_back(assign(tree, to_.thread, own));
    for (int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(to_.block))) / 2; half > 0; half /= 2) {
      const Expr there = to_.thread + half;
      const Expr inside =
          symbolic::less(to_.thread, context_.exprs.constant(std::min<int64_t>(half, to_.block - half)));
      out.statements.push_back(thread::make(thread::If{
          loop::condition_of(context_, inside),
          assign(tree, to_.thread, ir::combine(r.combiner, load(tree, to_.thread), load(tree, there))), nullptr}));
    }
    return finish(load(tree, zero));
  }
  // Trees of shuffles in each warp; then every thread combines the warps' values in the same order.
  const int other = add_local(to_.buffers[slots_[r.slot]].name + "_other", t, 1);
  for (int step = to_.warp / 2; step > 0; step /= 2) {
    out.statements.push_back(thread::make(
        thread::Shuffle{other, zero, thread::ShuffleMode::kXor, context_.exprs.constant(step), load(r.partial, k)}));
    out.statements.push_back(assign(r.partial, k, ir::combine(r.combiner, load(r.partial, k), load(other, zero))));
  }
  const int warps = to_.block / to_.warp;
  if (warps == 1) return finish(own);
  const int shared = add_shared(to_.buffers[slots_[r.slot]].name + "_warps", t, warps);
  const Expr lane = symbolic::mod(to_.thread, to_.warp), warp = symbolic::floordiv(to_.thread, to_.warp);
  out.statements.push_back(thread::make(thread::If{loop::condition_of(context_, symbolic::equal(lane, 0)),
                                                   assign(shared, warp, load(r.partial, k)), nullptr}));
  Scalar total = load(shared, zero);
  for (int w = 1; w < warps; ++w) total = ir::combine(r.combiner, total, load(shared, zero + w));
  finish(total);
}

thread::Kernel lower_to_structured(const loop::Kernel& kernel, const ir::Target& target, int block, int index_bits,
                                   bool rows_in_global) {
  STAX_ASSERT(block == 1 || block % target.warp == 0, "a block of {} threads is no whole number of warps of {}", block,
              target.warp);
  return ThreadLowering(kernel, target, block, index_bits, rows_in_global).run();
}

thread::Kernel lower_to_thread(const loop::Kernel& kernel, const ir::Target& target, int block, int index_bits,
                               bool rows_in_global) {
  thread::Kernel k = lower_to_structured(kernel, target, block, index_bits, rows_in_global);
  for (const thread::Pass& p : thread::passes(index_bits)) k = p.pass(k);
  thread::verify(k, thread::Stage::kFinal);
  return k;
}

}  // namespace stax::lower
