// SPDX-License-Identifier: Apache-2.0
// The interpreter of loop IR: its definition.
//
// A kernel is translated, for the parameters of the call, into a tree of actions. Innermost loops go to Leaf, which
// runs them over many iterations at a time. That is done where it cannot be told from one iteration after the other:
// each statement of the loops' body writes a buffer that nothing else in the body touches; or it stores to one where
// the same iteration alone reads, at the same index.
#include <algorithm>
#include <cstring>

#include "loop/access.h"
#include "loop/interpret_leaf.h"
#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::loop {

namespace {

struct Action {
  virtual ~Action() = default;
  virtual void run() = 0;
};
using ActionPtr = std::unique_ptr<Action>;

struct Sequence : Action {
  std::vector<ActionPtr> parts;
  void run() override {
    for (const ActionPtr& p : parts) p->run();
  }
};

struct LeafAction : Action {
  Leaf leaf;
  LeafAction(Machine& machine, std::vector<For> box, std::vector<Guard> guards, const Stmt& statement)
      : leaf(machine, std::move(box), std::move(guards), statement) {}
  void run() override { leaf.run(); }
};

struct LoopAction : Action {
  Machine& machine;
  IntProgram ints;
  int extent, variable;
  ActionPtr body;
  LoopAction(Machine& m, const For& f)
      : machine(m), ints(m), extent(ints.expr(f.extent)), variable(m.variable(f.var)) {}
  void run() override {
    ints.run();
    for (int64_t i = 0, n = ints[extent]; i < n; ++i) {
      machine.values[variable] = i;
      body->run();
    }
  }
};

struct IfAction : Action {
  ScalarLeaf condition;
  ActionPtr then_body, else_body;
  IfAction(Machine& machine, Scalar c) : condition(machine, c) {}
  void run() override {
    if (condition.run().i != 0) {
      then_body->run();
    } else if (else_body) {
      else_body->run();
    }
  }
};

struct AllocateAction : Action {
  BoundBuffer& buffer;
  std::vector<double> memory;  // aligned for any dtype
  size_t bytes;
  ActionPtr body;
  AllocateAction(BoundBuffer& b, size_t size) : buffer(b), memory(size / sizeof(double) + 1), bytes(size) {}
  void run() override {
    buffer.data = memory.data();  // a slot may be allocated in several places
    // Undefined contents: a NaN, or -1, makes a use of them visible. Only where that is cheap.
    constexpr size_t kCheap = 4096;
    if (bytes <= kCheap) std::memset(memory.data(), 0xFF, bytes);
    body->run();
  }
};

/// A Store or Update with the conditions between it and the loops.
struct Plain {
  std::vector<Guard> guards;
  Stmt statement;
  int slot = 0;
  const std::vector<Scalar>* index = nullptr;
  bool is_store = false;
};

// False if there is more than Ifs around plain statements.
bool collect_plain(const Stmt& s, std::vector<Guard>& guards, std::vector<Plain>& out) {
  if (const Store* w = s->as<Store>()) return out.push_back({guards, s, w->slot, &w->index, true}), true;
  if (const Update* w = s->as<Update>()) return out.push_back({guards, s, w->slot, &w->index, false}), true;
  if (const Block* b = s->as<Block>()) {
    return std::all_of(b->statements.begin(), b->statements.end(),
                       [&](const Stmt& each) { return collect_plain(each, guards, out); });
  }
  if (const If* i = s->as<If>()) {
    guards.push_back({i->condition, true});
    bool plain = collect_plain(i->then_body, guards, out);
    guards.back().holds = false;
    plain = plain && (!i->else_body || collect_plain(i->else_body, guards, out));
    guards.pop_back();
    return plain;
  }
  return false;
}

/// Whether two iterations of the box never have the same index: each variable has a dimension to itself.
bool is_injective(const std::vector<Scalar>& index, const std::vector<For>& box) {
  return std::all_of(box.begin(), box.end(), [&](const For& f) {
    return std::any_of(index.begin(), index.end(), [&](Scalar i) {
      const Expr e = ir::as_expr(i);
      if (!e) return false;
      const auto affine = symbolic::affine_in(e, f.var);
      if (!affine || !affine->coefficient.is_constant() || affine->coefficient.is_constant(0)) return false;
      return std::none_of(box.begin(), box.end(), [&](const For& other) {
        return other.var != f.var && symbolic::depends_on(affine->rest, other.var);
      });
    });
  });
}

/// Whether each statement may run over the whole box before the next one does.
bool can_run_by_blocks(const std::vector<Plain>& body, const std::vector<For>& box) {
  for (size_t d = 0; d < box.size(); ++d) {
    for (const For& f : box) {
      if (symbolic::depends_on(f.extent, box[d].var)) return false;
    }
  }
  for (const Plain& a : body) {
    for (const Plain& b : body) {
      const bool same = &a == &b;
      if (!same && a.slot == b.slot &&
          !(a.is_store && b.is_store && *a.index == *b.index && is_injective(*a.index, box))) {
        return false;
      }
      bool harmless = true;
      const auto look = [&](Scalar root) {
        ir::visit(root, [&](Scalar x) {
          if (x->kind != ir::ScalarKind::kLoad || x->slot != a.slot) return;
          harmless = harmless && same && a.is_store && x->args == *a.index && is_injective(*a.index, box);
        });
      };
      for (const Guard& g : b.guards) look(g.condition);
      visit_scalars(*b.statement, look);
      if (!harmless) return false;
    }
    // A reduction by lanes is one vector loop by itself.
    const For& inner = box.back();
    if (!a.is_store && inner.kind == LoopKind::kVector && box.size() > 1 &&
        std::none_of(a.index->begin(), a.index->end(), [&](Scalar i) { return depends_on(i, inner.var); })) {
      return false;
    }
  }
  return true;
}

class Translator {
 public:
  explicit Translator(Machine& machine) : machine_(machine) {}

  ActionPtr translate(const Stmt& s) {
    return std::visit(Overloaded{
                          [&](const For& f) { return loop(s, f); },
                          [&](const Block& b) -> ActionPtr {
                            auto sequence = std::make_unique<Sequence>();
                            for (const Stmt& each : b.statements) sequence->parts.push_back(translate(each));
                            return sequence;
                          },
                          [&](const Store&) -> ActionPtr { return plain({}, {.guards = {}, .statement = s}); },
                          [&](const Update&) -> ActionPtr { return plain({}, {.guards = {}, .statement = s}); },
                          [&](const If& i) -> ActionPtr {
                            auto action = std::make_unique<IfAction>(machine_, i.condition);
                            action->then_body = translate(i.then_body);
                            if (i.else_body) action->else_body = translate(i.else_body);
                            return action;
                          },
                          [&](const Allocate& a) { return allocate(a); },
                          [](const Prefetch&) -> ActionPtr { return std::make_unique<Sequence>(); },
                          [&](const Fence&) -> ActionPtr { return std::make_unique<Sequence>(); },
                      },
                      s->v);
  }

 private:
  ActionPtr plain(const std::vector<For>& box, const Plain& p) {
    return std::make_unique<LeafAction>(machine_, box, p.guards, p.statement);
  }

  ActionPtr loop(const Stmt& s, const For& f) {
    std::vector<For> box;
    Stmt inner = s;
    while (const For* each = inner->as<For>()) {
      box.push_back(*each);
      inner = each->body;
    }
    std::vector<Guard> guards;
    std::vector<Plain> body;
    if (collect_plain(inner, guards, body) && can_run_by_blocks(body, box)) {
      auto sequence = std::make_unique<Sequence>();
      for (const Plain& p : body) sequence->parts.push_back(plain(box, p));
      return sequence;
    }
    auto action = std::make_unique<LoopAction>(machine_, f);
    action->body = translate(f.body);
    return action;
  }

  ActionPtr allocate(const Allocate& a) {
    BoundBuffer& b = machine_.buffers[a.slot];
    size_t bytes = ir::byte_size(b.dtype);
    for (int64_t e : b.extents) {
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(std::max<int64_t>(e, 0)), &bytes) || bytes > SIZE_MAX / 4) {
        user_error("kernel {}: local buffer {} is too large for memory", machine_.kernel.name, b.name);
      }
    }
    auto action = std::make_unique<AllocateAction>(b, bytes);
    action->body = translate(a.body);
    return action;
  }

  Machine& machine_;
};

}  // namespace

void interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> params) {
  STAX_ASSERT(buffers.size() == static_cast<size_t>(kernel.arguments), "kernel {} takes {} buffers, not {}",
              kernel.name, kernel.arguments, buffers.size());
  STAX_ASSERT(params.size() == kernel.params.size(), "kernel {} takes {} parameters, not {}", kernel.name,
              kernel.params.size(), params.size());
  Machine machine{kernel, {}, {}, {}, {}};
  for (size_t i = 0; i < params.size(); ++i) machine.params[kernel.params[i].node()] = params[i];
  for (const Buffer& b : kernel.buffers) {
    BoundBuffer bound{b.name, b.dtype, nullptr, {}, {}};
    const size_t slot = machine.buffers.size();
    if (slot < buffers.size()) bound.data = buffers[slot];
    for (Expr e : b.extents) bound.extents.push_back(symbolic::evaluate(e, machine.params));
    for (Expr e : b.strides) bound.strides.push_back(symbolic::evaluate(e, machine.params));
    if (b.strides.empty()) {
      bound.strides.resize(bound.extents.size());
      int64_t stride = 1;
      for (size_t d = bound.extents.size(); d-- > 0;) {
        bound.strides[d] = stride;
        stride = symbolic::saturating_mul(stride, bound.extents[d]);
      }
    }
    machine.buffers.push_back(std::move(bound));
  }
  Translator(machine).translate(kernel.body)->run();
}

}  // namespace stax::loop
