// SPDX-License-Identifier: Apache-2.0
#include "emit/ptx_kernel.h"

#include <algorithm>

#include "support/error.h"
#include "support/overloaded.h"
#include "thread/mma.h"

namespace stax::emit::ptx {

using thread::Space;
using thread::Stmt;

KernelEmitter::KernelEmitter(const thread::Kernel& kernel, const ir::Target& target, int sm)
    : kernel_(kernel),
      target_(target),
      index_(b_, kernel),
      ops_(b_, sm, kernel.flush_denormals),
      sm_(sm),
      states_(kernel.buffers.size(), 0) {}

KernelCode KernelEmitter::emit() {
  declare();
  plan_locals();
  memo_.emplace_back();
  statement(kernel_.body);
  KernelCode result;
  result.math_table = ops_.uses_table();
  result.code = b_.finish();
  clean_up(result.code);
  result.declarations = declarations_;
  result.dynamic_shared = dynamic_shared_;
  return result;
}

void KernelEmitter::declare() {
  const auto special = [&](Expr symbol, const char* name) {
    if (symbol && symbol.is_symbol()) index_.bind(symbol, b_.pure(Class::kB32, "mov.u32", {b_.name(name)}));
  };
  special(kernel_.thread, "%tid.x");
  special(kernel_.block_index[0], "%ctaid.x");
  special(kernel_.block_index[1], "%ctaid.y");
  special(kernel_.block_index[2], "%ctaid.z");
  const bool wide = kernel_.index_bits == 64;
  for (size_t k = 0; k < kernel_.params.size(); ++k) {
    const Operand name = b_.name(fmt::format("[{}_p{}]", kernel_.name, k));
    // A parameter that fits into 32 bits is read as such: the upper half says nothing.
    const bool narrow = index_.is_narrow(kernel_.params[k]);
    index_.bind(kernel_.params[k], wide && !narrow ? b_.pure(Class::kB64, "ld.param.b64", {name})
                                                   : b_.pure(Class::kB32, "ld.param.b32", {name}));
  }
  for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
    const thread::Buffer& buffer = kernel_.buffers[slot];
    if (buffer.space != Space::kShared) continue;
    if (!buffer.count.is_constant()) {
      dynamic_shared_ = true;
      continue;
    }
    const int64_t bytes = buffer.count.constant() * static_cast<int64_t>(ir::byte_size(buffer.dtype));
    declarations_ += fmt::format("  .shared .align 16 .b8 shared_{}[{}];\n", slot, std::max<int64_t>(bytes, 1));
  }
}

std::vector<Instruction> KernelEmitter::close() {
  index_.close(b_.depth());
  return b_.close();
}

void KernelEmitter::statement(const Stmt& s) {
  memo_.emplace_back();
  const auto plain = [&](const char* op, std::vector<Operand> src = {}) {
    Instruction i;
    i.op = op;
    i.src = std::move(src);
    b_.effect(std::move(i));
  };
  std::visit(Overloaded{
                 [&](const thread::For& n) { loop(n); },
                 [&](const thread::Block& n) {
                   for (const Stmt& each : n.statements) statement(each);
                 },
                 [&](const thread::If& n) { condition(n); },
                 [&](const thread::Store& n) {
                   const Operand value = stored_value(n);
                   if (buffer(n.slot).space == Space::kLocal && locals_[static_cast<size_t>(n.slot)].in_registers)
                     write_local(n.slot, ir::as_expr(n.index).constant(), value);
                   else
                     store(n.slot, place_of(n.slot, n.index), value);
                 },
                 [&](const thread::LoadVector& n) { load_vector(n); },
                 [&](const thread::StoreVector& n) { store_vector(n); },
                 [&](const thread::Barrier&) {
                   plain("bar.sync", {integer(0)});
                   changed_all();
                 },
                 [&](const thread::Shuffle& n) { shuffle(n); },
                 [&](const thread::Vote& n) { vote(n); },
                 [&](const thread::Atomic& n) { atomic(n); },
                 [&](const thread::AsyncCopy& n) { async_copy(n); },
                 [&](const thread::AsyncCommit&) { plain("cp.async.commit_group"); },
                 [&](const thread::AsyncWait& n) {
                   plain("cp.async.wait_group", {integer(n.pending)});
                   changed_all();
                 },
                 [&](const thread::LoadMatrix& n) { load_matrix(n); },
                 [&](const thread::Mma& n) { mma(n); },
             },
             s->v);
  memo_.pop_back();
}

// --- control flow ---------------------------------------------------------------------------------------------------------

// Elements that the body writes go around in registers of their own; so does each address that advances by a fixed step.
void KernelEmitter::loop(const thread::For& s) {
  STAX_ASSERT(!s.unrolled, "loop {} is not written out", s.var.str());
  const Interval range = s.extent.range();
  if (range.hi <= 0) return;
  if (s.extent.is_constant(1)) {
    index_.bind(s.var, integer(0));
    statement(s.body);
    return;
  }
  const Operand extent = index_.value(s.extent);
  const bool wide = extent.is_reg() && extent.cls == Class::kB64;
  const std::string type = wide ? "s64" : "s32";
  const Operand guard = b_.guard();
  STAX_ASSERT(!guard, "a loop under a predicate");

  std::vector<std::pair<Unit, Operand>> carried;
  for (Unit u : written(s.body)) {
    const Local& local = locals_[static_cast<size_t>(u.slot)];
    const Operand home = b_.fresh(local.cls), current = local.values[static_cast<size_t>(u.number)];
    if (current) b_.copy(home, current);
    carried.emplace_back(u, home);
  }
  const int done = b_.new_label(), start = b_.new_label();
  Operand empty;
  if (range.lo <= 0)
    empty = b_.as_predicate(index_.condition(symbolic::less(s.extent.table().constant(0), s.extent), false));
  const Operand var = b_.fresh(wide ? Class::kB64 : Class::kB32);
  b_.open(Builder::Kind::kLoop);
  const int depth = b_.depth();
  b_.set_depth(var, depth);
  for (const auto& [u, home] : carried) {
    b_.set_depth(home, depth);
    set_unit(u, home);
  }
  index_.bind(s.var, var);
  index_.loops.push_back({s.var, depth, {}, {}});
  changed_all();
  const int loops_before = loops_++;
  statement(s.body);
  const bool innermost = loops_ == loops_before + 1;

  std::vector<std::pair<Operand, Operand>> copies;
  for (const auto& [u, home] : carried)
    copies.emplace_back(home, locals_[static_cast<size_t>(u.slot)].values[static_cast<size_t>(u.number)]);
  b_.copy_all(copies);
  IndexEmitter::Loop made = std::move(index_.loops.back());
  index_.loops.pop_back();
  std::vector<Instruction> body = close();

  // What the body has put in front of the loop is there also where the loop is not entered: it may be wanted again.
  if (empty) b_.branch(done, empty);
  for (const auto& [to, from] : made.starts) b_.copy(to, from);
  b_.copy(var, integer(0));
  b_.label(start);
  // ptxas writes loops out as it likes: short ones gain by it, in others it takes all registers that there are.
  const auto size = static_cast<int64_t>(body.size());
  const bool gains = innermost && size <= 40 && (!s.extent.is_constant() || s.extent.constant() * size <= 160);
  if (!gains) {
    Instruction pragma;
    pragma.op = ".pragma \"nounroll\"";
    pragma.effect = true;
    b_.append({pragma});
  }
  b_.append(std::move(body));
  const auto advance = [&](Operand x, Operand step) {
    Instruction i;
    i.op = x.cls == Class::kB64 ? "add.s64" : "add.s32";
    i.dst = {x};
    i.src = {x, step};
    b_.append({i});
  };
  for (const auto& [x, step] : made.steps) advance(x, step);
  advance(var, integer(1));
  Instruction again;
  again.op = "setp.lt." + type;
  again.dst = {b_.fresh(Class::kPred)};
  again.src = {var, extent};
  const Operand p = again.dst[0];
  b_.append({again});
  b_.branch(start, p);
  b_.label(done);
  for (const auto& [u, home] : carried) {
    b_.set_depth(home, b_.depth());
    set_unit(u, home);
  }
  changed_all();
}

// A handful of accesses without a loop, a barrier or anything long: predicates instead of a branch.
bool KernelEmitter::is_short(const Stmt& root, int& budget) const {
  const auto light = [&](Scalar s, int cost) {
    bool ok = true;
    ir::visit(s, [&](Scalar x) {
      if (x->kind == ir::ScalarKind::kLoad && buffer(x->slot).space != Space::kLocal) {
        budget -= 2;
        // An address made of data, and a check of an index, have no value where the data is not read.
        ok = ok && ir::as_expr(x->args[0]);
      }
      if (x->kind == ir::ScalarKind::kOp) {
        --budget;
        ok = ok && !ir::is_math_function(x->op) && x->op != ScalarOp::kHash && x->op != ScalarOp::kCheckedIndex &&
             x->op != ScalarOp::kModFloor && x->op != ScalarOp::kModTrunc && x->op != ScalarOp::kPow &&
             !(x->op == ScalarOp::kDiv);
      }
    });
    budget -= cost;
    return ok && budget >= 0;
  };
  return std::visit(Overloaded{
                        [&](const thread::Block& n) {
                          return std::all_of(n.statements.begin(), n.statements.end(),
                                             [&](const Stmt& each) { return is_short(each, budget); });
                        },
                        [&](const thread::If& n) {
                          return light(n.condition, 1) && is_short(n.then_body, budget) &&
                                 (!n.else_body || is_short(n.else_body, budget));
                        },
                        [&](const thread::Store& n) { return light(n.value, 1) && light(n.index, 1); },
                        [&](const thread::LoadVector& n) { return light(n.index, 2); },
                        [&](const thread::StoreVector& n) { return light(n.index, 2); },
                        [&](const thread::Atomic& n) { return light(n.value, 2) && light(n.index, 0); },
                        [&](const thread::AsyncCopy& n) { return light(n.to, 1) && light(n.from, 1); },
                        [](const auto&) { return false; },
                    },
                    root->v);
}

void KernelEmitter::condition(const thread::If& s) {
  const Operand p = truth(s.condition);
  if (p.is_int()) {
    if (p.value != 0) statement(s.then_body);
    if (p.value == 0 && s.else_body) statement(s.else_body);
    return;
  }
  int budget = 32;
  const bool is_predicated = is_short(s.then_body, budget) && (!s.else_body || is_short(s.else_body, budget));
  if (is_predicated || b_.guard()) {
    predicated(s, p);
  } else {
    branched(s, p);
  }
}

void KernelEmitter::predicated(const thread::If& s, Operand p) {
  const Operand outer = b_.guard();
  b_.set_guard(b_.both(outer, p));
  statement(s.then_body);
  if (s.else_body) {
    b_.set_guard(b_.both(outer, b_.negation(p)));
    statement(s.else_body);
  }
  b_.set_guard(outer);
}

void KernelEmitter::branched(const thread::If& s, Operand p) {
  std::set<Unit> units = written(s.then_body);
  if (s.else_body) units.merge(written(s.else_body));
  std::vector<std::pair<Unit, Operand>> merged;
  const auto value_of = [&](Unit u) -> Operand& {
    return locals_[static_cast<size_t>(u.slot)].values[static_cast<size_t>(u.number)];
  };
  std::vector<Operand> before;
  for (Unit u : units) {
    merged.emplace_back(u, b_.fresh(locals_[static_cast<size_t>(u.slot)].cls));
    before.push_back(value_of(u));
    if (!s.else_body && before.back()) b_.copy(merged.back().second, before.back());
  }
  const int otherwise = b_.new_label(), done = b_.new_label();
  b_.branch(otherwise, p, true);
  const auto arm = [&](const Stmt& body) {
    b_.open(Builder::Kind::kBranch);
    statement(body);
    std::vector<std::pair<Operand, Operand>> copies;
    for (const auto& [u, to] : merged)
      if (value_of(u)) copies.emplace_back(to, value_of(u));
    b_.copy_all(copies);
    b_.append(close());
    size_t k = 0;
    for (const auto& [u, to] : merged) value_of(u) = before[k++];
  };
  arm(s.then_body);
  if (s.else_body) {
    b_.branch(done);
    b_.label(otherwise);
    arm(s.else_body);
    b_.label(done);
  } else {
    b_.label(otherwise);
  }
  for (const auto& [u, to] : merged) {
    b_.set_depth(to, b_.depth());
    value_of(u) = to;
  }
  changed_all();
}

// --- the warp -------------------------------------------------------------------------------------------------------------

// The lanes that exist: all of them, but for the last warp of a block that is no multiple of it.
Operand KernelEmitter::warp_mask() {
  const int rest = kernel_.block % 32;
  if (rest == 0) return integer(-1);
  const Operand full =
      index_.condition(symbolic::less(kernel_.thread, kernel_.thread.table().constant(kernel_.block - rest)));
  const auto last = integer(static_cast<int32_t>((uint32_t{1} << rest) - 1));
  return ops_.in_register(Class::kB32, ops_.select(DType::kU32, full, integer(-1), last));
}

void KernelEmitter::shuffle(const thread::Shuffle& s) {
  const DType t = s.value->dtype;
  const Class cls = class_of(t);
  Operand value = scalar(s.value);
  if (t == DType::kBool) value = ops_.select(DType::kU32, value, integer(1), integer(0));
  value = ops_.in_register(cls == Class::kPred ? Class::kB32 : cls, value);
  const Operand lane = s.mode == thread::ShuffleMode::kXor ? integer(s.lane.constant()) : index_.low32(s.lane);
  const Operand mask = warp_mask();
  const auto exchange = [&](Class part_class, Operand part) {
    Instruction i;
    i.op = s.mode == thread::ShuffleMode::kXor ? "shfl.sync.bfly.b32" : "shfl.sync.idx.b32";
    i.dst = {b_.fresh(part_class)};
    i.src = {part, lane, integer(31), mask};
    const Operand result = i.dst[0];
    b_.effect(std::move(i));
    return result;
  };
  Operand result;
  if (cls == Class::kB64 || cls == Class::kF64) {
    const Operand low = exchange(Class::kB32, b_.half(Class::kB32, "mov.b64", value, 0));
    const Operand high = exchange(Class::kB32, b_.half(Class::kB32, "mov.b64", value, 1));
    result = b_.join(cls, "mov.b64", low, high);
  } else {
    result = exchange(cls == Class::kPred ? Class::kB32 : cls, value);
    if (t == DType::kBool) result = b_.pure(Class::kPred, "setp.ne.s32", {result, integer(0)});
  }
  store_to_local(s.local, s.first, result);
}

void KernelEmitter::vote(const thread::Vote& s) {
  Instruction i;
  i.op = s.mode == thread::VoteMode::kAny ? "vote.sync.any.pred" : "vote.sync.all.pred";
  i.src = {b_.as_predicate(truth(s.condition)), warp_mask()};
  i.dst = {b_.fresh(Class::kPred)};
  const Operand result = i.dst[0];
  b_.effect(std::move(i));
  store_to_local(s.local, s.first, result);
}

void KernelEmitter::mma(const thread::Mma& s) {
  const thread::MmaInstruction& m = thread::mma_instructions()[static_cast<size_t>(s.instruction)];
  Instruction i;
  i.op = m.ptx;
  i.layout = Layout::kMma;
  const auto words_of = [&](const thread::Fragment& f, int items) {
    return std::max(1, items * element_size(f.local) / std::max(4, element_size(f.local)));
  };
  const std::pair<const thread::Fragment*, int> inputs[3] = {{&s.a, m.a.items}, {&s.b, m.b.items}, {&s.c, m.c.items}};
  for (int k = 0; k < 3; ++k) {
    i.groups[k] = words_of(*inputs[k].first, inputs[k].second);
    for (int w = 0; w < i.groups[k]; ++w)
      i.src.push_back(word_of(inputs[k].first->local, inputs[k].first->first.constant(), w));
  }
  const int count = words_of(s.d, m.c.items);
  const DType t = buffer(s.d.local).dtype;
  const Class cls = ir::byte_size(t) < 4 ? Class::kB32 : class_of(t);
  std::vector<Operand> results;
  for (int w = 0; w < count; ++w) results.push_back(b_.fresh(cls));
  i.dst = results;
  b_.effect(std::move(i));
  set_words(s.d.local, s.d.first.constant(), results);
}

}  // namespace stax::emit::ptx
