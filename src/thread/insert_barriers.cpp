// SPDX-License-Identifier: Apache-2.0
// Accesses that have happened since the last barrier are pending. A statement that may meet a pending one needs a barrier in front of it, as
// late as possible: on a straight line no other choice needs fewer. What a loop leaves pending meets what its next iteration does, and the
// ones after that, so a loop's body is walked until nothing new comes out; what was pending before the loop gets its barrier in front of it,
// where it costs once.
//
// A condition that threads answer differently is no place for a barrier. It is then pushed down to the statements inside it, and the barrier
// stands between them: if c { A; B } -> if c { A }; barrier; if c { B }.
#include <algorithm>
#include <map>
#include <utility>

#include "support/error.h"
#include "support/overloaded.h"
#include "thread/hazards.h"
#include "thread/passes.h"

namespace stax::thread {

namespace {

/// How far back, by loop around both: in this iteration, the one before, or any earlier one.
enum class Age : uint8_t { kThis, kLast, kAny };

/// The age in each of the loops around an access that still go on.
class Ages {
 public:
  Ages() = default;
  explicit Ages(size_t levels) : levels_(levels) { STAX_ASSERT(levels <= kMost, "loops are nested too deeply"); }
  size_t levels() const { return levels_; }
  Age at(size_t level) const { return static_cast<Age>(bits_ >> 2 * level & 3); }
  void set(size_t level, Age age) {
    bits_ = (bits_ & ~(uint64_t{3} << 2 * level)) | static_cast<uint64_t>(age) << 2 * level;
  }
  void cut(size_t levels) {
    levels_ = levels;
    bits_ &= (uint64_t{1} << 2 * levels) - 1;
  }
  bool operator==(const Ages&) const = default;

 private:
  static constexpr size_t kMost = 31;
  uint64_t bits_ = 0;
  size_t levels_ = 0;
};

struct Pending {
  int access = 0;  // number in Hazards
  Ages ages;
  bool in_flight = false;            // an asynchronous copy: its write is not done at a barrier, but at a wait
  const StmtNode* region = nullptr;  // the independent block around it
  bool operator==(const Pending&) const = default;
};
using State = std::vector<Pending>;

void add(State& state, const Pending& p) {
  if (std::find(state.begin(), state.end(), p) == state.end()) state.push_back(p);
}
void add(State& state, const State& other) {
  for (const Pending& p : other) add(state, p);
}

class Inserter {
 public:
  explicit Inserter(const Kernel& kernel) : kernel_(kernel), hazards_(kernel) {}

  Stmt run() {
    State state;
    return walk(kernel_.body, state);
  }

 private:
  // ---- What all threads of the block agree on

  bool is_uniform(Expr e) const {
    const std::vector<Expr> symbols = symbolic::free_symbols(e);
    return std::none_of(symbols.begin(), symbols.end(), [&](Expr s) {
      return s == kernel_.thread || std::find(divergent_.begin(), divergent_.end(), s) != divergent_.end();
    });
  }

  bool is_uniform(Scalar root) const {
    bool result = true;
    ir::visit(root, [&](Scalar x) {
      if (x->kind == ir::ScalarKind::kIndex) result &= is_uniform(x->index);
      if (x->kind != ir::ScalarKind::kLoad) return;
      const Buffer& b = kernel_.buffers[x->slot];
      // Read-only memory at an index that all agree on: the index is a part of the scalar and seen by itself.
      result &= b.space == Space::kGlobal && !b.written;
    });
    return result;
  }

  // ---- Statements

  Stmt walk(const Stmt& s, State& state) {
    return std::visit(Overloaded{
                          [&](const For& f) { return loop(s, f, state); },
                          [&](const Block& b) {
                            if (b.independent) return independent_block(s, b, state);
                            Block copy;
                            for (const Stmt& each : b.statements) copy.statements.push_back(walk(each, state));
                            return copy.statements == b.statements ? s : make(std::move(copy));
                          },
                          [&](const If& i) { return branch(s, i, state); },
                          [&](const Barrier&) {
                            pass_barrier(state);
                            return s;
                          },
                          [&](const AsyncWait&) {
                            for (size_t i = 0, n = state.size(); i < n; ++i) {
                              Pending done = state[i];
                              if (!std::exchange(done.in_flight, false)) continue;
                              add(state, done);
                            }
                            return s;
                          },
                          [&](const auto&) { return leaf(s, state); },
                      },
                      s->v);
  }

  static void pass_barrier(State& state) {
    std::erase_if(state, [](const Pending& p) { return !p.in_flight; });
  }

  /// Numbers of the accesses of the statement itself, loads first.
  const std::vector<int>& accesses_at(const Stmt& s) {
    const auto [found, is_new] = accesses_.try_emplace({s.get(), guards_number_});
    std::vector<int>& numbers = found->second;
    if (!is_new) return numbers;
    kept_.push_back(s);
    for (Access& a : accesses_of(kernel_, *s, guards_)) numbers.push_back(hazards_.number_of(std::move(a)));
    return numbers;
  }

  bool meets(const State& state, int access) {
    return inserting_ && std::any_of(state.begin(), state.end(), [&](const Pending& p) {
             return !p.in_flight && !is_of_region(p) && hazards_.may_meet(p.access, access);
           });
  }

  // Of the independent block at hand, and of the same time that it is entered.
  bool is_of_region(const Pending& p) const {
    if (region_ == nullptr || p.region != region_) return false;
    for (size_t level = 0; level < region_depth_; ++level)
      if (p.ages.at(level) != Age::kThis) return false;
    return true;
  }

  // Its parts need no barrier between them; what was pending before may need one in front of it.
  Stmt independent_block(const Stmt& s, const Block& b, State& state) {
    const auto needs_barrier = [&](State& from) {
      const bool needed = std::exchange(needed_, false);
      const StmtNode* region = std::exchange(region_, s.get());
      const size_t depth = std::exchange(region_depth_, depth_);
      for (const Stmt& each : b.statements) (void)walk(each, from);
      region_ = region;
      region_depth_ = depth;
      return std::exchange(needed_, needed);
    };
    State all = state;
    const bool in_front = needs_barrier(all);
    if (in_front) {
      pass_barrier(state);
      all = state;
      (void)needs_barrier(all);
    }
    add(state, all);
    return in_front ? with_barrier_in_front(s) : s;
  }

  Stmt with_barrier(const Stmt& s, State& state) {
    pass_barrier(state);
    needed_ = true;
    return make(Block{{make(Barrier{}), s}});
  }

  Stmt leaf(const Stmt& s, State& state) {
    const std::vector<int>& accesses = accesses_at(s);
    const bool need = std::any_of(accesses.begin(), accesses.end(), [&](int a) { return meets(state, a); });
    const Stmt result = need ? with_barrier(s, state) : s;
    const bool is_copy = s->kind() == StmtKind::kAsyncCopy;
    for (int a : accesses)
      add(state, {a, Ages(depth_), is_copy && hazards_.access(a).kind == AccessKind::kWrite, region_});
    return result;
  }

  Stmt branch(const Stmt& s, const If& i, State& state) {
    // What the condition itself reads.
    const std::vector<int>& accesses = accesses_at(s);
    const bool need = std::any_of(accesses.begin(), accesses.end(), [&](int a) { return meets(state, a); });
    if (need) pass_barrier(state);
    for (int a : accesses) add(state, {a, Ages(depth_), false, region_});
    const Stmt result = is_uniform(i.condition) ? uniform_branch(s, i, state) : divergent_branch(s, i, state);
    return need ? with_barrier_in_front(result) : result;
  }

  Stmt with_barrier_in_front(const Stmt& s) {
    needed_ = true;
    return make(Block{{make(Barrier{}), s}});
  }

  void push_guard(const Guard& guard) {
    guards_.push_back(guard);
    guards_number_ = number_of_guards();
  }
  void pop_guard() {
    guards_.pop_back();
    guards_number_ = number_of_guards();
  }
  int number_of_guards() {
    std::vector<std::pair<const ir::ScalarNode*, bool>> key;
    for (const Guard& g : guards_) key.emplace_back(g.condition.node(), g.holds);
    return guard_numbers_.try_emplace(std::move(key), static_cast<int>(guard_numbers_.size()) + 1).first->second;
  }

  // Calls f under the condition.
  template <class F>
  auto under(Scalar condition, bool holds, const F& f) {
    push_guard({condition, holds});
    auto result = f();
    pop_guard();
    return result;
  }

  Stmt uniform_branch(const Stmt& s, const If& i, State& state) {
    State other = state;
    If copy = i;
    copy.then_body = under(i.condition, true, [&] { return walk(i.then_body, state); });
    if (i.else_body) copy.else_body = under(i.condition, false, [&] { return walk(i.else_body, other); });
    add(state, other);
    return copy.then_body == i.then_body && copy.else_body == i.else_body ? s : make(std::move(copy));
  }

  Stmt divergent_branch(const Stmt& s, const If& i, State& state) {
    const auto needs_barrier = [&](State& from) {
      const bool needed = std::exchange(needed_, false);
      State other = from;
      (void)under(i.condition, true, [&] { return walk(i.then_body, from); });
      if (i.else_body) (void)under(i.condition, false, [&] { return walk(i.else_body, other); });
      add(from, other);
      return std::exchange(needed_, needed);
    };
    State inner;
    if (needs_barrier(inner)) return walk_parts(push_down(i), state);
    State all = state;
    const bool in_front = needs_barrier(all);
    if (in_front) {
      pass_barrier(state);
      all = state;
      (void)needs_barrier(all);
    }
    add(state, all);
    return in_front ? with_barrier_in_front(s) : s;
  }

  // The condition on each statement by itself, inside loops and conditions that all threads agree on.
  std::vector<Stmt> push_down(const If& i) {
    std::vector<int> written;
    visit(make(i), [&](const Stmt& s) {
      std::visit(Overloaded{
                     [&](const Store& n) { written.push_back(n.slot); },
                     [&](const LoadVector& n) { written.push_back(n.local); },
                     [&](const StoreVector& n) { written.push_back(n.memory); },
                     [&](const Shuffle& n) { written.push_back(n.local); },
                     [&](const Vote& n) { written.push_back(n.local); },
                     [&](const Atomic& n) { written.push_back(n.slot); },
                     [&](const AsyncCopy& n) { written.push_back(n.shared); },
                     [&](const LoadMatrix& n) { written.push_back(n.local); },
                     [&](const Mma& n) { written.push_back(n.d.local); },
                     [](const auto&) {},
                 },
                 s->v);
    });
    ir::visit(i.condition, [&](Scalar x) {
      if (x->kind != ir::ScalarKind::kLoad) return;
      STAX_ASSERT(std::find(written.begin(), written.end(), x->slot) == written.end(),
                  "kernel {}: a barrier has to stand inside `if {}`, which not all threads enter and which changes {}",
                  kernel_.name, i.condition.str(), kernel_.buffers[x->slot].name);
    });
    std::vector<Stmt> parts;
    push_down(i.condition, i.then_body, parts);
    if (i.else_body) push_down(ir::unary(ir::ScalarOp::kNot, i.condition), i.else_body, parts);
    return parts;
  }

  void push_down(Scalar condition, const Stmt& s, std::vector<Stmt>& parts) {
    const auto pushed = [&](const Stmt& body) {
      std::vector<Stmt> inner;
      push_down(condition, body, inner);
      return make(Block{std::move(inner)});
    };
    if (const Block* b = s->as<Block>()) {
      for (const Stmt& each : b->statements) push_down(condition, each, parts);
    } else if (const For* f = s->as<For>(); f != nullptr && is_uniform(f->extent)) {
      For copy = *f;
      copy.body = pushed(f->body);
      parts.push_back(make(std::move(copy)));
    } else if (const If* i = s->as<If>()) {
      If copy = *i;
      if (is_uniform(i->condition)) {
        copy.then_body = pushed(i->then_body);
        if (i->else_body) copy.else_body = pushed(i->else_body);
        parts.push_back(make(std::move(copy)));
      } else {
        copy.condition = ir::binary(ir::ScalarOp::kAnd, condition, i->condition);
        copy.else_body = nullptr;
        parts.push_back(make(copy));
        if (i->else_body) {
          copy.condition = ir::binary(ir::ScalarOp::kAnd, condition, ir::unary(ir::ScalarOp::kNot, i->condition));
          copy.then_body = i->else_body;
          parts.push_back(make(std::move(copy)));
        }
      }
    } else {
      parts.push_back(make(If{condition, s, nullptr}));
    }
  }

  // Walks the statements and joins neighbours that have one condition again.
  Stmt walk_parts(const std::vector<Stmt>& parts, State& state) {
    Block block;
    for (const Stmt& part : parts) block.statements.push_back(walk(part, state));
    return join(make(std::move(block)));
  }

  static Stmt join(const Stmt& s) {
    return rewrite(s, [](const Stmt& each) -> Stmt {
      const Block* b = each->as<Block>();
      if (b == nullptr) return each;
      Block joined;
      for (const Stmt& part : b->statements) {
        const If* next = part->as<If>();
        const If* last = joined.statements.empty() ? nullptr : joined.statements.back()->as<If>();
        if (next != nullptr && last != nullptr && next->condition == last->condition && !next->else_body &&
            !last->else_body) {
          joined.statements.back() =
              make(If{last->condition, make(Block{{last->then_body, next->then_body}}), nullptr});
        } else {
          joined.statements.push_back(part);
        }
      }
      return joined.statements.size() == b->statements.size() ? each : make(std::move(joined));
    });
  }

  // ---- Loops

  Stmt loop(const Stmt& s, const For& f, State& state) {
    const bool is_divergent = !is_uniform(f.extent);
    if (is_divergent) divergent_.push_back(f.var);
    const size_t level = depth_++;
    push_guard({condition_of(symbolic::less(f.var, f.extent)), true});
    Stmt body = f.body;
    // First what an iteration needs by itself, then what meets earlier ones. What a new barrier ends is carried no more.
    State alone;
    body = walk(body, alone);
    State carried = carried_by(body, f.var, level);
    for (State from = carried; inserting_; from = carried) {
      const Stmt next = walk(body, from);
      if (next == body) break;
      body = next;
      carried = carried_by(body, f.var, level);
    }
    STAX_ASSERT(!is_divergent || body == f.body, "kernel {}: a barrier has to stand inside loop {} in {}", kernel_.name,
                f.var.str(), f.extent.str());
    // What was pending before: does it meet anything of the loop in front of its barriers?
    const auto needs_barrier = [&](State& from) {
      const bool needed = std::exchange(needed_, false);
      add(from, carried);
      (void)walk(body, from);
      return std::exchange(needed_, needed);
    };
    State all = state;
    const bool in_front = needs_barrier(all);
    if (in_front) {
      pass_barrier(state);
      all = state;
      (void)needs_barrier(all);
    }
    --depth_;
    pop_guard();
    if (is_divergent) divergent_.pop_back();
    // A body that runs has ended what its barriers end.
    if (f.extent.range().lo >= 1) state.clear();
    for (Pending p : all) {
      if (p.ages.levels() > level) {
        p.access = hazards_.substituted(p.access, f.var, hazards_.another(f.var));
        p.ages.cut(level);
      }
      add(state, p);
    }
    Stmt result = s;
    if (body != f.body) {
      For copy = f;
      copy.body = body;
      result = make(std::move(copy));
    }
    return in_front ? with_barrier_in_front(result) : result;
  }

  /// What iterations leave pending for later ones, if no further barrier is put in.
  State carried_by(const Stmt& body, Expr var, size_t level) {
    const bool inserting = std::exchange(inserting_, false);
    State carried;
    size_t before = 0;
    do {
      before = carried.size();
      State state = carried;
      (void)walk(body, state);
      for (const Pending& p : state) add(carried, advance(p, var, level));
    } while (carried.size() != before);
    inserting_ = inserting;
    return carried;
  }

  Scalar condition_of(Expr truth) { return ir::cast(DType::kBool, kernel_.context->scalars.index(truth)); }

  /// As the next iteration sees it.
  Pending advance(Pending p, Expr var, size_t level) {
    STAX_ASSERT(p.ages.levels() > level);
    const auto becomes = [&](Age age, Expr value, Expr condition) {
      p.ages.set(level, age);
      Access access = hazards_.access(hazards_.substituted(p.access, var, value));
      access.guards.push_back({condition_of(condition), true});
      p.access = hazards_.number_of(std::move(access));
    };
    const Expr distance = hazards_.distance(var), zero = kernel_.context->exprs.constant(0);
    switch (p.ages.at(level)) {
      case Age::kThis: becomes(Age::kLast, var - 1, symbolic::less(zero, var)); break;
      case Age::kLast: becomes(Age::kAny, var - 1 - distance, symbolic::less(distance + 1, var)); break;
      case Age::kAny: break;
    }
    return p;
  }

  const Kernel& kernel_;
  Hazards hazards_;
  std::vector<Guard> guards_;
  std::map<std::vector<std::pair<const ir::ScalarNode*, bool>>, int> guard_numbers_;
  int guards_number_ = 0;
  std::map<std::pair<const StmtNode*, int>, std::vector<int>> accesses_;
  std::vector<Stmt> kept_;       // so that no other statement gets the address of one that was looked at
  std::vector<Expr> divergent_;  // variables of loops that threads leave at different times
  size_t depth_ = 0;
  const StmtNode* region_ = nullptr;  // the independent block at hand
  size_t region_depth_ = 0;           // loops around it
  bool needed_ = false;               // a barrier has been put in
  bool inserting_ = true;             // false: only what is pending is of interest
};

}  // namespace

Kernel insert_barriers(const Kernel& kernel) {
  Kernel result = kernel;
  // From here on barriers say what is independent.
  result.body = rewrite(Inserter(kernel).run(), [](const Stmt& s) -> Stmt {
    const Block* b = s->as<Block>();
    return b != nullptr && b->independent ? make(Block{b->statements}) : s;
  });
  return result;
}

}  // namespace stax::thread
