// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "support/error.h"
#include "support/overloaded.h"
#include "thread/interpret_program.h"
#include "thread/mma.h"

namespace stax::thread {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::ExprKind;

Lane lane_of(DType t) {
  if (t == DType::kF64) return Lane::kF64;
  return ir::is_float(t) ? Lane::kF32 : Lane::kInt;
}

namespace {

class Translator {
 public:
  explicit Translator(const Kernel& kernel) : kernel_(kernel), lines_(lines_of(kernel)) {
    program_.kernel = &kernel;
    program_.lanes = (kernel.block + 15) / 16 * 16;
  }

  InterpreterProgram run() {
    levels_.push_back({&program_.prologue, &program_.prologue_cost, {}});
    for (Expr p : kernel_.params) program_.params.push_back(variable(p));
    for (int k = 0; k < 3; ++k) program_.block_index[k] = variable(kernel_.block_index[k]);
    program_.thread = array();
    levels_[0].known[kernel_.thread.node()] = program_.thread;
    for (const Buffer& b : kernel_.buffers) {
      int64_t place = -1;
      if (b.space == Space::kLocal) place = allocate(b.count.constant() * program_.lanes * 8);
      program_.locals.push_back(place);
    }
    program_.body = statement(kernel_.body);
    program_.bytes = fixed_ + temporary_bytes_;
    shift_temporaries(program_.body);
    return std::move(program_);
  }

 private:
  // ---- Places

  int64_t allocate(int64_t bytes) {
    const int64_t at = fixed_;
    fixed_ += (bytes + 63) / 64 * 64;
    return at;
  }
  Operand array() { return {allocate(program_.lanes * 8), false, false}; }
  Operand single() { return {allocate(8), true, false}; }

  Operand variable(Expr symbol) {
    const Operand result = single();
    levels_[0].known[symbol.node()] = result;
    return result;
  }

  Operand integer(int64_t value) {
    const auto [found, is_new] = integers_.try_emplace(value);
    if (is_new) {
      found->second = single();
      program_.integers.emplace_back(found->second.at, value);
    }
    return found->second;
  }

  Operand constant(Scalar x) {
    if (!ir::is_float(x->dtype)) return integer(x->as_int());
    const Operand result = single();
    if (x->dtype == DType::kF64) {
      program_.doubles.emplace_back(result.at, x->as_double());
    } else {
      program_.floats.emplace_back(result.at, static_cast<float>(x->as_double()));
    }
    return result;
  }

  // ---- Index expressions

  struct Level {
    std::vector<Step>* steps;
    Cost* cost;
    std::unordered_map<const symbolic::ExprNode*, Operand> known;
    Expr variable;
  };

  size_t level_of(Expr e) const {
    for (size_t level = levels_.size(); level-- > 1;)
      if (symbolic::depends_on(e, levels_[level].variable)) return level;
    return 0;
  }

  Operand index(Expr e) {
    if (e.is_constant()) return integer(e.constant());
    Level& level = levels_[level_of(e)];
    if (const auto found = level.known.find(e.node()); found != level.known.end()) return found->second;
    STAX_ASSERT(!e.is_symbol(), "kernel {}: {} has no value here", kernel_.name, e.str());
    std::vector<Operand> args;
    for (Expr arg : e.args()) args.push_back(index(arg));
    const bool is_select = e.kind() == ExprKind::kSelect;
    Operand result = args[0];
    for (size_t k = 1; k < args.size(); k += is_select ? 2 : 1) {
      Step step;
      step.kind = Step::Kind::kIndex;
      step.index = e.kind();
      step.args[0] = result, step.args[1] = args[k];
      step.count = 2;
      if (is_select) step.args[2] = args[2], step.count = 3;
      const bool uniform = std::all_of(step.args, step.args + step.count, [](const Operand& o) { return o.uniform; });
      step.out = uniform ? single() : array();
      result = step.out;
      level.steps->push_back(step);
      ++level.cost->integer_ops;
    }
    level.known[e.node()] = result;
    return result;
  }

  /// An index and what is added to it.
  std::pair<Operand, int64_t> split_index(Expr e) {
    if (e.is_constant()) return {integer(0), e.constant()};
    if (e.kind() == ExprKind::kAdd && e.args().back().is_constant()) {
      const int64_t offset = e.args().back().constant();
      return {index(e - offset), offset};
    }
    return {index(e), 0};
  }

  // ---- Scalars

  Operand temporary(bool uniform) { return {temporaries_++, uniform, true}; }

  Operand emit(Step step, bool uniform) {
    step.out = temporary(uniform);
    node_->steps.push_back(step);
    return step.out;
  }

  bool has_effect(Scalar root) const {
    bool result = false;
    ir::visit(root, [&](Scalar x) {
      result |= x->kind == ScalarKind::kLoad && kernel_.buffers[static_cast<size_t>(x->slot)].space != Space::kLocal;
      result |= x->kind == ScalarKind::kLoad && !ir::as_expr(x->args[0]);
      result |= x->kind == ScalarKind::kOp && x->op == ScalarOp::kCheckedIndex;
    });
    return result;
  }

  struct Known {
    int64_t mask;
    Operand value;
  };

  Operand scalar(Scalar x, int64_t mask) {
    if (x->kind == ScalarKind::kConstant) return constant_of(x);
    if (const Expr e = ir::as_expr(x)) return index(e);
    const int64_t under = has_effect(x) ? mask : -1;
    for (const Known& k : known_[x.node()])
      if (k.mask == under || k.mask == -1) return k.value;
    const Operand result = make_scalar(x, under);
    known_[x.node()].push_back({under, result});
    return result;
  }

  Operand constant_of(Scalar x) {
    const auto [found, is_new] = constants_.try_emplace(x.node());
    if (is_new) found->second = constant(x);
    return found->second;
  }

  Operand make_scalar(Scalar x, int64_t mask) {
    Step step;
    step.dtype = x->dtype;
    step.mask = mask;
    if (x->kind == ScalarKind::kLoad) return load(x, step);
    step.from = x->args[0]->dtype;
    if (x->kind == ScalarKind::kCast) {
      step.kind = Step::Kind::kCast;
      step.count = 1;
      step.args[0] = scalar(x->args[0], mask);
      // Between f16, bf16 and f32 only the rounding is left.
      if (x->dtype == DType::kF32 && lane_of(step.from) == Lane::kF32) return step.args[0];
      count(step.from == DType::kF64 || ir::is_float(x->dtype) ? &Cost::float_ops : &Cost::integer_ops);
      return emit(step, step.args[0].uniform);
    }
    STAX_ASSERT(x->kind == ScalarKind::kOp, "kernel {}: {} has no value", kernel_.name, x.str());
    if (x->op == ScalarOp::kSelect) return select(x, step);
    step.kind = x->op == ScalarOp::kCheckedIndex ? Step::Kind::kCheckedIndex : Step::Kind::kOp;
    step.op = x->op;
    bool uniform = true;
    for (Scalar arg : x->args) {
      step.args[step.count++] = scalar(arg, mask);
      uniform &= step.args[step.count - 1].uniform;
    }
    if (ir::is_float(step.from) && ir::is_math_function(x->op)) {
      step.math = &ir::math_function(x->op, step.from == DType::kF64 ? DType::kF64 : DType::kF32);
    }
    count(step.math != nullptr || x->op == ScalarOp::kSqrt ? &Cost::special_ops
          : ir::is_float(step.from)                        ? &Cost::float_ops
                                                           : &Cost::integer_ops);
    if (step.kind == Step::Kind::kCheckedIndex) uniform = false;  // only threads that come here fail
    return emit(step, uniform);
  }

  void count(int Cost::* which) { ++(node_->cost.*which); }

  Operand load(Scalar x, Step step) {
    step.slot = x->slot;
    const Expr e = ir::as_expr(x->args[0]);
    const bool is_local = kernel_.buffers[static_cast<size_t>(x->slot)].space == Space::kLocal;
    if (is_local && e && e.is_constant()) return local_element(x->slot, e.constant());
    step.kind = is_local ? Step::Kind::kElement : Step::Kind::kLoad;
    step.count = 1;
    if (e) {
      std::tie(step.args[0], step.offset) = split_index(e);
    } else {
      step.args[0] = scalar(x->args[0], step.mask);
    }
    return emit(step, false);
  }

  Operand local_element(int slot, int64_t element) const {
    const int64_t count = kernel_.buffers[static_cast<size_t>(slot)].count.constant();
    STAX_ASSERT(element >= 0 && element < count, "kernel {}: element {} of buffer {}, which has {}", kernel_.name,
                element, kernel_.buffers[static_cast<size_t>(slot)].name, count);
    return {program_.locals[static_cast<size_t>(slot)] + element * program_.lanes * 8, false, false};
  }

  Operand select(Scalar x, Step step) {
    step.kind = Step::Kind::kSelect;
    step.from = x->dtype;
    step.count = 3;
    step.args[0] = scalar(x->args[0], step.mask);
    const int64_t outer = step.mask;
    for (int k = 1; k < 3; ++k) {
      int64_t mask = outer;
      if (has_effect(x->args[static_cast<size_t>(k)])) mask = branch(step.args[0], k == 1, outer);
      step.args[k] = scalar(x->args[static_cast<size_t>(k)], mask);
    }
    count(lane_of(x->dtype) == Lane::kInt ? &Cost::integer_ops : &Cost::float_ops);
    const bool uniform = step.args[0].uniform && step.args[1].uniform && step.args[2].uniform;
    return emit(step, uniform);
  }

  /// The threads of `outer` for which the condition is so.
  int64_t branch(Operand condition, bool holds, int64_t outer) {
    Step step;
    step.kind = Step::Kind::kMask;
    step.args[0] = condition;
    step.count = 1;
    step.holds = holds;
    step.mask = outer;
    return emit(step, false).at;
  }

  // ---- Statements

  void begin(Node& node, const Stmt& s) {
    node.kind = s->kind();
    node.statement = s.get();
    if (const auto found = lines_.find(s.get()); found != lines_.end()) node.line = found->second;
    node_ = &node;
    known_.clear();
    temporaries_ = 0;
  }

  // Gives temporaries their places, as few as may be.
  void finish(Node& node) {
    std::vector<size_t> last_use(static_cast<size_t>(temporaries_), 0);
    const auto use = [&](int64_t temporary, size_t step) { last_use[static_cast<size_t>(temporary)] = step; };
    for (size_t i = 0; i < node.steps.size(); ++i) {
      const Step& step = node.steps[i];
      for (int k = 0; k < step.count; ++k)
        if (step.args[k].temporary) use(step.args[k].at, i);
      if (step.mask >= 0) use(step.mask, i);
      use(step.out.at, i);
    }
    std::vector<Operand*> results{&node.value, &node.place.index, &node.from.index, &node.first};
    if (node.lane) results.push_back(&*node.lane);
    for (Operand* o : results)
      if (o->temporary) use(o->at, node.steps.size());
    std::vector<int64_t> places(static_cast<size_t>(temporaries_), -1), free;
    int64_t top = 0;
    const int64_t size = program_.lanes * 8;
    for (size_t i = 0; i < node.steps.size(); ++i) {
      Step& step = node.steps[i];
      const auto number = static_cast<size_t>(step.out.at);
      if (free.empty()) {
        places[number] = top;
        top += size;
      } else {
        places[number] = free.back();
        free.pop_back();
      }
      std::vector<int64_t> dead;
      const auto settle = [&](int64_t& at) {
        const auto t = static_cast<size_t>(at);
        at = places[t];
        if (last_use[t] == i) dead.push_back(at);
      };
      for (int k = 0; k < step.count; ++k)
        if (step.args[k].temporary) settle(step.args[k].at);
      if (step.mask >= 0) settle(step.mask);
      settle(step.out.at);
      std::sort(dead.begin(), dead.end());
      dead.erase(std::unique(dead.begin(), dead.end()), dead.end());
      free.insert(free.end(), dead.begin(), dead.end());
    }
    for (Operand* o : results)
      if (o->temporary) o->at = places[static_cast<size_t>(o->at)];
    temporary_bytes_ = std::max(temporary_bytes_, top);
  }

  // Temporaries lie behind all that is fixed, which is known in the end.
  void shift_temporaries(Node& node) const {
    const auto shift = [&](Operand& o) {
      if (o.temporary) o.at += fixed_;
    };
    for (Step& step : node.steps) {
      for (int k = 0; k < step.count; ++k) shift(step.args[k]);
      shift(step.out);
      if (step.mask >= 0) step.mask += fixed_;
    }
    shift(node.value), shift(node.place.index), shift(node.from.index), shift(node.first);
    if (node.lane) shift(*node.lane);
    for (Node& inner : node.body) shift_temporaries(inner);
    for (Node& inner : node.other) shift_temporaries(inner);
  }

  Place place(int slot, Scalar index_scalar) {
    Place result;
    result.slot = slot;
    if (const Expr e = ir::as_expr(index_scalar)) {
      std::tie(result.index, result.offset) = split_index(e);
    } else {
      result.index = scalar(index_scalar, -1);
    }
    return result;
  }

  void local(Node& node, int slot, Expr first) {
    node.local = slot;
    node.first_constant = first.is_constant();
    std::tie(node.first, node.first_offset) = split_index(first);
  }

  Node statement(const Stmt& s) {
    Node node;
    begin(node, s);
    std::visit(Overloaded{
                   [&](const For& f) { loop(node, f); },
                   [&](const Block& b) {
                     for (const Stmt& each : b.statements) node.body.push_back(statement(each));
                   },
                   [&](const If& i) {
                     node.value = scalar(i.condition, -1);
                     finish(node);
                     node.body.push_back(statement(i.then_body));
                     if (i.else_body) node.other.push_back(statement(i.else_body));
                   },
                   [&](const Store& n) {
                     store(node, n);
                     finish(node);
                   },
                   [&](const LoadVector& n) {
                     node.place = place(n.memory, n.index);
                     local(node, n.local, n.first);
                     node.width = n.width;
                     finish(node);
                   },
                   [&](const StoreVector& n) {
                     node.place = place(n.memory, n.index);
                     local(node, n.local, n.first);
                     node.width = n.width;
                     finish(node);
                   },
                   [&](const Barrier&) {},
                   [&](const Shuffle& n) {
                     node.value = scalar(n.value, -1);
                     node.dtype = n.value->dtype;
                     node.lane = index(n.lane);
                     local(node, n.local, n.first);
                     finish(node);
                   },
                   [&](const Vote& n) {
                     node.value = scalar(n.condition, -1);
                     local(node, n.local, n.first);
                     finish(node);
                   },
                   [&](const Atomic& n) {
                     node.place = place(n.slot, n.index);
                     node.value = scalar(n.value, -1);
                     node.dtype = n.value->dtype;
                     finish(node);
                   },
                   [&](const AsyncCopy& n) {
                     node.has_condition = static_cast<bool>(n.condition);
                     if (n.condition) node.value = scalar(n.condition, -1);
                     node.place = place(n.shared, n.to);
                     node.from = place(n.global, n.from);
                     node.width = n.width;
                     finish(node);
                   },
                   [&](const AsyncCommit&) {},
                   [&](const AsyncWait& n) { node.width = n.pending; },
                   [&](const LoadMatrix& n) {
                     node.place = place(n.memory, n.index);
                     local(node, n.local, n.first);
                     node.width = n.count;
                     finish(node);
                   },
                   [&](const Mma& n) {
                     for (const Fragment& f : {n.d, n.a, n.b, n.c}) {
                       const auto [first, offset] = split_index(f.first);
                       node.parts.push_back({f.local, first, offset, f.first.is_constant()});
                     }
                     node.width = n.instruction;
                   },
               },
               s->v);
    return node;
  }

  void store(Node& node, const Store& n) {
    const Buffer& b = kernel_.buffers[static_cast<size_t>(n.slot)];
    const Expr e = ir::as_expr(n.index);
    node.dtype = b.dtype;
    if (b.space != Space::kLocal) {
      node.place = place(n.slot, n.index);
      node.value = scalar(n.value, -1);
      return;
    }
    if (e) {
      local(node, n.slot, e);
      if (e.is_constant()) (void)local_element(n.slot, e.constant());
    } else {
      node.local = n.slot;
      node.first_constant = false;
      node.first = scalar(n.index, -1);
    }
    node.value = scalar(n.value, -1);
    const bool rounds = b.dtype == DType::kF16 || b.dtype == DType::kBF16;
    node.direct = node.first_constant && !rounds && !node.steps.empty() && node.value.temporary &&
                  !node.value.uniform && node.steps.back().out.at == node.value.at &&
                  node.steps.back().kind != Step::Kind::kMask;
  }

  void loop(Node& node, const For& f) {
    node.value = index(f.extent);
    Level level;
    level.steps = &node.iteration;
    level.cost = &node.iteration_cost;
    level.variable = f.var;
    node.variable = single();
    level.known[f.var.node()] = node.variable;
    levels_.push_back(std::move(level));
    Node body = statement(f.body);
    levels_.pop_back();
    node.body.push_back(std::move(body));
  }

  const Kernel& kernel_;
  const std::unordered_map<const StmtNode*, int> lines_;
  InterpreterProgram program_;
  int64_t fixed_ = 0, temporary_bytes_ = 0;
  std::unordered_map<int64_t, Operand> integers_;
  std::unordered_map<const ir::ScalarNode*, Operand> constants_;
  std::vector<Level> levels_;
  // Of the statement at hand:
  Node* node_ = nullptr;
  std::unordered_map<const ir::ScalarNode*, std::vector<Known>> known_;
  int64_t temporaries_ = 0;
};

}  // namespace

InterpreterProgram translate(const Kernel& kernel) { return Translator(kernel).run(); }

}  // namespace stax::thread
