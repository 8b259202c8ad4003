// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: blocks in order, control flow, and the binding of symbols.
#include "tensor/interpret.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "tensor/interpret_ops.h"

namespace stax::tensor {

using reference::Call;
using symbolic::ExprNode;

namespace reference {

int64_t count_of(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (int64_t e : extents) n = symbolic::saturating_mul(n, e);
  return n;
}

Literal Call::tensor(size_t k) const {
  const Literal& literal = items[k]->tensor;
  if (op.operands[k]->type.has_static_rank() || literal.rank() >= kMaxRank) return literal;
  std::vector<int64_t> extents(kMaxRank - literal.rank(), 1);
  extents.insert(extents.end(), literal.extents().begin(), literal.extents().end());
  return literal.reshaped(extents);
}

std::vector<int64_t> Call::values(const std::vector<Expr>& expressions) const {
  std::vector<int64_t> out;
  out.reserve(expressions.size());
  for (Expr e : expressions) out.push_back(value(e));
  return out;
}

Literal Call::allocate(DType t, std::vector<int64_t> extents) const {
  for (int64_t e : extents) {
    if (e < 0) fail(fmt::format("an extent of the result is {}", e));
  }
  try {
    return Literal(t, std::move(extents));
  } catch (const UserError& error) {
    fail(error.what());
  }
}

std::string Call::where() const { return op.source.empty() ? fmt::format("op '{}'", name_of(op.kind())) : op.source; }

void Call::fail(const std::string& message) const { throw UserError(where() + ": " + message); }

int64_t single_int(const Call& call, size_t operand, const char* what) {
  const Literal& l = call.items[operand]->tensor;
  if (l.count() != 1) call.fail(fmt::format("{} has {} elements instead of one", what, l.count()));
  return l.at(0).i;
}

double single_float(const Call& call, size_t operand, const char* what) {
  const Literal& l = call.items[operand]->tensor;
  if (l.count() != 1) call.fail(fmt::format("{} has {} elements instead of one", what, l.count()));
  return l.at(0).f;
}

namespace {

std::string list_of(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

void bind_symbol(const std::string& where, Bindings& bindings, Expr symbol, int64_t value) {
  const symbolic::Interval range = symbol.symbol().range;
  if (!range.contains(value)) {
    throw UserError(fmt::format("{}: {} is {}, outside its range {} .. {}", where, symbol.symbol().name, value,
                                range.lo, range.hi));
  }
  bindings[symbol.node()] = value;
}

/// Binds those extents (and the rank) of a type that are symbols of `defines` to what the item has.
void bind_type(const std::string& where, Bindings& bindings, const Type& type, const Item& item,
               const std::vector<Expr>& defines) {
  if (!type.is_tensor() || defines.empty()) return;
  const auto is_defined = [&](Expr e) {
    return e && e.is_symbol() && std::find(defines.begin(), defines.end(), e) != defines.end();
  };
  const std::vector<int64_t>& actual = item.tensor.extents();
  if (is_defined(type.rank)) bind_symbol(where, bindings, type.rank, static_cast<int64_t>(actual.size()));
  for (size_t k = 0; k < type.extents.size(); ++k) {
    if (!is_defined(type.extents[k])) continue;
    const auto axis =
        static_cast<int64_t>(actual.size()) - static_cast<int64_t>(type.extents.size()) + static_cast<int64_t>(k);
    if (axis < 0 && type.has_static_rank()) break;  // check_type says it better
    bind_symbol(where, bindings, type.extents[k], axis < 0 ? 1 : actual[axis]);
  }
}

/// Gives an item of run-time rank its true rank, and makes sure that it is what its type says.
void settle_type(const std::string& where, const Bindings& bindings, const Value& value, Item& item) {
  const Type& type = value.type;
  if (!type.is_tensor()) {
    STAX_ASSERT(item.is_sequence, "{}: '{}' is no sequence", where, value.name);
    return;
  }
  STAX_ASSERT(!item.is_sequence, "{}: '{}' is a sequence", where, value.name);
  STAX_ASSERT(item.tensor.dtype() == type.dtype, "{}: '{}' is {} instead of {}", where, value.name,
              name_of(item.tensor.dtype()), name_of(type.dtype));
  std::vector<int64_t> expected;
  expected.reserve(type.extents.size());
  for (Expr e : type.extents) expected.push_back(symbolic::evaluate(e, bindings));
  if (!type.has_static_rank()) {
    const int64_t rank = symbolic::evaluate(type.rank, bindings);
    STAX_ASSERT(rank >= 0 && rank <= kMaxRank, "{}: '{}' has rank {}", where, value.name, rank);
    expected.erase(expected.begin(), expected.end() - rank);
  }
  if (item.tensor.extents() == expected) return;
  if (!type.has_static_rank() && item.tensor.rank() == kMaxRank && item.tensor.count() == count_of(expected)) {
    item.tensor = item.tensor.reshaped(expected);
    return;
  }
  internal_error("{}: '{}' has extents {} instead of {}", where, value.name, list_of(item.tensor.extents()),
                 list_of(expected));
}

Item item_of(Literal literal) {
  Item item;
  item.tensor = std::move(literal);
  return item;
}

// ---- the ops about shapes

Literal evaluate_reshape(const Call& call) {
  const Literal data = call.tensor(0);
  const std::vector<int64_t> extents = call.values(call.op.result()->type.extents);
  for (int64_t e : extents) {
    if (e < 0) call.fail(fmt::format("an extent of the result is {}", e));
  }
  if (count_of(extents) != data.count()) {
    call.fail(fmt::format("{} elements of {} cannot be reshaped to {}", data.count(), list_of(data.extents()),
                          list_of(extents)));
  }
  return data.reshaped(extents);
}

Literal evaluate_reshape_dynamic(const Call& call, const ReshapeDynamic& r) {
  const Literal& data = call.items[0]->tensor;
  const Literal& shape = call.items[1]->tensor;
  std::vector<int64_t> wanted;
  wanted.reserve(static_cast<size_t>(shape.count()));
  for (int64_t k = 0; k < shape.count(); ++k) wanted.push_back(shape.at(k).i);
  if (wanted.size() > static_cast<size_t>(kMaxRank)) {
    call.fail(fmt::format("the shape {} has more than {} axes", list_of(wanted), kMaxRank));
  }
  std::vector<int64_t> extents = wanted;
  int inferred = -1;
  int64_t known = 1;
  for (size_t k = 0; k < extents.size(); ++k) {
    if (extents[k] == 0 && !r.allow_zero) {
      if (static_cast<int>(k) >= data.rank())
        call.fail(fmt::format("the shape {} copies axis {} of a tensor of rank {}", list_of(wanted), k, data.rank()));
      extents[k] = data.extents()[k];
    }
    if (extents[k] == -1) {
      if (inferred >= 0) call.fail(fmt::format("the shape {} has more than one -1", list_of(wanted)));
      inferred = static_cast<int>(k);
      continue;
    }
    if (extents[k] < -1) call.fail(fmt::format("the shape {} has a negative extent", list_of(wanted)));
    known = symbolic::saturating_mul(known, extents[k]);
  }
  const int64_t count = data.count();
  if (inferred >= 0) {
    if (known == 0 || count % known != 0) {
      call.fail(fmt::format("the -1 of the shape {} stands for no extent that holds {} elements (the others hold {})",
                            list_of(wanted), count, known));
    }
    extents[inferred] = count / known;
    known = count;
  }
  if (known != count) {
    call.fail(fmt::format("a tensor of {} with {} elements cannot be reshaped to {}, which has {}",
                          list_of(data.extents()), count, list_of(wanted), known));
  }
  return data.reshaped(extents);
}

void evaluate_bind(const Call& call) {
  const Literal values = call.tensor(0);
  STAX_ASSERT(values.count() == static_cast<int64_t>(call.op.defines.size()), "{}: {} values for {} symbols",
              call.where(), values.count(), call.op.defines.size());
  for (int64_t k = 0; k < values.count(); ++k)
    bind_symbol(call.where(), call.bindings, call.op.defines[k], values.at(k).i);
}

void evaluate_check(const Call& call, const Check& check) {
  if (call.value(check.condition) != 0) return;
  std::string message;
  for (size_t i = 0; i < check.message.size();) {
    // "{12}" -> the value of argument 12
    const size_t close = check.message[i] == '{' ? check.message.find('}', i) : std::string::npos;
    const std::string number = close == std::string::npos ? "" : check.message.substr(i + 1, close - i - 1);
    const bool is_number =
        !number.empty() && number.size() < 4 && number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && std::stoul(number) < check.arguments.size()) {
      message += std::to_string(call.value(check.arguments[std::stoul(number)]));
      i = close + 1;
    } else {
      message += check.message[i++];
    }
  }
  throw UserError(message);
}

std::vector<Item> evaluate_by_kind(const Call& call) {
  std::vector<Item> results;
  switch (call.op.kind()) {
    case OpKind::kConstant: results.push_back(item_of(call.op.as<Constant>()->literal)); break;
    case OpKind::kCompute: results.push_back(item_of(evaluate_compute(call, *call.op.as<Compute>()))); break;
    case OpKind::kReshape: results.push_back(item_of(evaluate_reshape(call))); break;
    case OpKind::kReshapeDynamic:
      results.push_back(item_of(evaluate_reshape_dynamic(call, *call.op.as<ReshapeDynamic>())));
      break;
    case OpKind::kBind: evaluate_bind(call); break;
    case OpKind::kCheck: evaluate_check(call, *call.op.as<Check>()); break;
    case OpKind::kScatter: results.push_back(item_of(evaluate_scatter(call, *call.op.as<Scatter>()))); break;
    case OpKind::kPrefixScan:
    case OpKind::kTopK:
    case OpKind::kNonZero:
    case OpKind::kUnique:
    case OpKind::kNonMaxSuppression:
    case OpKind::kDeterminant:
    case OpKind::kSequenceConstruct:
    case OpKind::kSequenceInsert:
    case OpKind::kSequenceErase:
    case OpKind::kSequenceAt:
    case OpKind::kSequenceLength:
    case OpKind::kSplitToSequence:
    case OpKind::kConcatFromSequence: results = evaluate_special(call); break;
    case OpKind::kIf:
    case OpKind::kLoop:
    case OpKind::kRowGroup: internal_error("{}: blocks are run by their graph's interpreter", call.where());
  }
  return results;
}

/// The values whose last use in a block is a given op: they are dropped after it. Uses in the blocks of an If or Loop
/// count for the op itself.
using LastUses = std::unordered_map<const Op*, std::vector<const Value*>>;

void collect_uses(const Op& op, std::vector<const Value*>& used);

void collect_uses(const Block& block, std::vector<const Value*>& used) {
  for (const auto& op : block.ops) collect_uses(*op, used);
  used.insert(used.end(), block.outputs.begin(), block.outputs.end());
}

void collect_uses(const Op& op, std::vector<const Value*>& used) {
  used.insert(used.end(), op.operands.begin(), op.operands.end());
  if (const If* branch = op.as<If>()) {
    collect_uses(*branch->then_block, used);
    collect_uses(*branch->else_block, used);
  } else if (const Loop* loop = op.as<Loop>()) {
    collect_uses(*loop->body, used);
  } else if (const RowGroup* group = op.as<RowGroup>()) {
    collect_uses(*group->body, used);
  }
}

void add_last_uses(const Block& block, LastUses& uses) {
  std::unordered_set<const Value*> own, seen(block.outputs.begin(), block.outputs.end());
  for (const auto& v : block.inputs) own.insert(v.get());
  for (const auto& op : block.ops) {
    for (const auto& r : op->results) own.insert(r.get());
  }
  for (auto op = block.ops.rbegin(); op != block.ops.rend(); ++op) {
    std::vector<const Value*> used;
    collect_uses(**op, used);
    for (const auto& r : (*op)->results) used.push_back(r.get());
    std::vector<const Value*>& last = uses[op->get()];
    for (const Value* v : used) {
      if (own.contains(v) && seen.insert(v).second) last.push_back(v);
    }
    if (const If* branch = (*op)->as<If>()) {
      add_last_uses(*branch->then_block, uses);
      add_last_uses(*branch->else_block, uses);
    } else if (const Loop* loop = (*op)->as<Loop>()) {
      add_last_uses(*loop->body, uses);
    } else if (const RowGroup* group = (*op)->as<RowGroup>()) {
      add_last_uses(*group->body, uses);
    }
  }
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, Bindings bindings, const OpObserver& observer)
      : bindings_(std::move(bindings)), observer_(observer) {
    add_last_uses(graph.body, last_uses_);
  }

  std::vector<Item> run(const Block& block, std::vector<Item> inputs) {
    STAX_ASSERT(inputs.size() == block.inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) values_[block.inputs[k].get()] = std::move(inputs[k]);
    for (const auto& op : block.ops) {
      run_op(*op);
      for (const Value* v : last_uses_[op.get()]) values_.erase(v);
    }
    std::vector<Item> outputs;
    outputs.reserve(block.outputs.size());
    for (const Value* v : block.outputs) outputs.push_back(item(v));
    return outputs;
  }

  int64_t evaluated = 0;

 private:
  const Item& item(const Value* v) const {
    const auto found = values_.find(v);
    STAX_ASSERT(found != values_.end(), "value '{}' (%{}) is used before it is computed", v->name, v->id);
    return found->second;
  }

  void run_op(const Op& op) {
    evaluated += op.kind() == OpKind::kConstant || op.kind() == OpKind::kRowGroup ? 0 : 1;
    std::vector<const Item*> operands;
    operands.reserve(op.operands.size());
    for (const Value* v : op.operands) operands.push_back(&item(v));
    std::vector<Item> results;
    const Call call{op, operands, bindings_};
    if (const If* branch = op.as<If>()) {
      results = run_if(call, *branch);
    } else if (const Loop* loop = op.as<Loop>()) {
      results = run_loop(call, *loop);
    } else if (const RowGroup* group = op.as<RowGroup>()) {
      results = run_rows(call, *group);
    } else {
      results = evaluate_op(op, operands, bindings_);
    }
    if (observer_) observer_(op, operands, bindings_, results);
    for (size_t k = 0; k < results.size(); ++k) values_[op.result(static_cast<int>(k))] = std::move(results[k]);
  }

  std::vector<Item> settle(const Call& call, std::vector<Item> results) {
    for (size_t k = 0; k < results.size(); ++k)
      bind_type(call.where(), bindings_, call.op.result(k)->type, results[k], call.op.defines);
    for (size_t k = 0; k < results.size(); ++k) settle_type(call.where(), bindings_, *call.op.result(k), results[k]);
    return results;
  }

  std::vector<Item> run_if(const Call& call, const If& branch) {
    const bool condition = single_int(call, 0, "the condition") != 0;
    return settle(call, run(condition ? *branch.then_block : *branch.else_block, {}));
  }

  /// That rows are done one after the other changes nothing.
  std::vector<Item> run_rows(const Call& call, const RowGroup& group) {
    std::vector<Item> inputs;
    for (const Item* item : call.items) inputs.push_back(*item);
    return settle(call, run(*group.body, std::move(inputs)));
  }

  std::vector<Item> run_loop(const Call& call, const Loop& loop) {
    size_t operand = 0;
    const int64_t trips = loop.has_trip_count ? single_int(call, operand++, "the trip count") : symbolic::kPosInf;
    bool condition = loop.has_condition ? single_int(call, operand++, "the condition") != 0 : true;
    std::vector<Item> carried;
    for (; operand < call.items.size(); ++operand) carried.push_back(*call.items[operand]);
    STAX_ASSERT(carried.size() == static_cast<size_t>(loop.carried));
    const Block& body = *loop.body;
    const size_t scanned_count = call.op.results.size() - carried.size();
    std::vector<std::vector<Literal>> scanned(scanned_count);
    for (int64_t iteration = 0; iteration < trips && condition; ++iteration) {
      Literal number(DType::kI64, {});
      number.set(0, {.i = iteration});
      std::vector<Item> inputs{item_of(number)};
      for (size_t k = 0; k < carried.size(); ++k) {
        const Value& v = *body.inputs[k + 1];
        bind_type(call.where(), bindings_, v.type, carried[k], loop.body_defines);
        settle_type(call.where(), bindings_, v, carried[k]);
        inputs.push_back(std::move(carried[k]));
      }
      std::vector<Item> outputs = run(body, std::move(inputs));
      size_t next = 0;
      if (loop.has_condition) condition = condition_of(call, outputs[next++]);
      for (Item& c : carried) c = std::move(outputs[next++]);
      for (auto& s : scanned) s.push_back(std::move(outputs[next++].tensor));
    }
    std::vector<Item> results = std::move(carried);
    for (size_t k = 0; k < scanned_count; ++k) {
      const Value& result = *call.op.result(static_cast<int>(results.size()));
      results.push_back(item_of(stack(call, result, scanned[k])));
    }
    return settle(call, std::move(results));
  }

  static bool condition_of(const Call& call, const Item& item) {
    if (item.tensor.count() != 1)
      call.fail(fmt::format("the condition has {} elements instead of one", item.tensor.count()));
    return item.tensor.at(0).i != 0;
  }

  Literal stack(const Call& call, const Value& result, const std::vector<Literal>& parts) {
    std::vector<int64_t> extents{static_cast<int64_t>(parts.size())};
    if (parts.empty()) {
      // No iteration has told the extents that only the body knows; they are as small as they may be.
      const Type& type = result.type;
      for (size_t k = 1; type.has_static_rank() && k < type.extents.size(); ++k) {
        const Expr e = type.extents[k];
        const bool is_own =
            e.is_symbol() && std::find(call.op.defines.begin(), call.op.defines.end(), e) != call.op.defines.end();
        extents.push_back(is_own ? std::max<int64_t>(e.range().lo, 0) : call.value(e));
      }
      return call.allocate(type.dtype, extents);
    }
    extents.insert(extents.end(), parts[0].extents().begin(), parts[0].extents().end());
    Literal out = call.allocate(result.type.dtype, extents);
    char* to = static_cast<char*>(out.data());
    for (size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].extents() != parts[0].extents()) {
        call.fail(fmt::format("the scanned output '{}' has extents {} in iteration {} and {} in the first", result.name,
                              list_of(parts[k].extents()), k, list_of(parts[0].extents())));
      }
      std::copy_n(static_cast<const char*>(parts[k].data()), parts[k].bytes(), to);
      to += parts[k].bytes();
    }
    return out;
  }

  Bindings bindings_;
  const OpObserver& observer_;
  LastUses last_uses_;
  std::unordered_map<const Value*, Item> values_;
};

}  // namespace
}  // namespace reference

std::vector<Item> evaluate_op(const Op& op, const std::vector<const Item*>& operands, Bindings& bindings,
                              const OpObserver& observer) {
  const Call call{op, operands, bindings};
  STAX_ASSERT(operands.size() == op.operands.size(), "{}: {} operands instead of {}", call.where(), operands.size(),
              op.operands.size());
  std::vector<Item> results;
  if (const RowGroup* group = op.as<RowGroup>()) {
    reference::Interpreter interpreter(*op.block->graph, bindings, observer);
    std::vector<Item> inputs;
    for (const Item* item : operands) inputs.push_back(*item);
    results = interpreter.run(*group->body, std::move(inputs));
  } else {
    results = reference::evaluate_by_kind(call);
  }
  STAX_ASSERT(results.size() == op.results.size(), "{}: {} results instead of {}", call.where(), results.size(),
              op.results.size());
  for (size_t k = 0; k < results.size(); ++k)
    reference::bind_type(call.where(), bindings, op.result(k)->type, results[k], op.defines);
  for (size_t k = 0; k < results.size(); ++k) reference::settle_type(call.where(), bindings, *op.result(k), results[k]);
  return results;
}

std::vector<Item> interpret(const Graph& graph, const std::vector<Item>& inputs, int64_t* evaluated,
                            const OpObserver& observer) {
  reference::Interpreter interpreter(graph, bind_inputs(graph, inputs), observer);
  std::vector<Item> outputs = interpreter.run(graph.body, inputs);
  if (evaluated != nullptr) *evaluated = interpreter.evaluated;
  return outputs;
}

namespace {

std::string input_name(const Graph& graph, size_t k) { return fmt::format("input '{}'", graph.inputs[k].name); }

void check_input_type(const std::string& who, const Type& type, const Item& item) {
  if (type.is_tensor() == item.is_sequence) {
    user_error("{} is a {}, expected a {}", who, item.is_sequence ? "sequence" : "tensor",
               item.is_sequence ? "tensor" : "sequence");
  }
  if (item.is_sequence) {
    for (size_t k = 0; k < item.sequence.size(); ++k) {
      const Literal& l = item.sequence[k];
      if (l.dtype() != type.dtype) {
        user_error("{}: element {} has type {}, expected {}", who, k, long_name_of(l.dtype()),
                   long_name_of(type.dtype));
      }
      if (type.element_rank >= 0 && l.rank() != type.element_rank) {
        user_error("{}: element {} has rank {}, expected {}", who, k, l.rank(), type.element_rank);
      }
    }
    return;
  }
  if (item.tensor.dtype() != type.dtype) {
    user_error("{} has type {}, expected {}", who, long_name_of(item.tensor.dtype()), long_name_of(type.dtype));
  }
  if (type.has_static_rank() && item.tensor.rank() != type.static_rank()) {
    user_error("{} has rank {}, expected {}", who, item.tensor.rank(), type.static_rank());
  }
}

struct BoundBy {
  size_t input;
  size_t axis;
};

}  // namespace

Bindings bind_inputs(const Graph& graph, const std::vector<Item>& inputs) {
  if (inputs.size() != graph.inputs.size())
    user_error("{} inputs are given, the model has {}", inputs.size(), graph.inputs.size());
  Bindings bindings;
  std::unordered_map<const ExprNode*, BoundBy> bound_by;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Type& type = graph.inputs[k].value->type;
    const std::string who = input_name(graph, k);
    check_input_type(who, type, inputs[k]);
    if (!type.is_tensor()) continue;
    // One of run-time rank is seen with kMaxRank axes, leading ones in front.
    std::vector<int64_t> extents = inputs[k].tensor.extents();
    if (!type.has_static_rank()) {
      const int rank = inputs[k].tensor.rank();
      if (rank > kMaxRank) user_error("{} has rank {}, at most {} is possible", who, rank, kMaxRank);
      if (type.rank.is_symbol()) bindings[type.rank.node()] = rank;
      extents.insert(extents.begin(), static_cast<size_t>(kMaxRank - rank), 1);
    }
    for (size_t axis = 0; axis < type.extents.size(); ++axis) {
      const Expr e = type.extents[axis];
      const int64_t actual = extents[axis];
      if (e.is_constant()) {
        if (actual != e.constant())
          user_error("{} has extent {} on axis {}, expected {}", who, actual, axis, e.constant());
        continue;
      }
      STAX_ASSERT(e.is_symbol(), "{}: the extent of axis {} is {}", who, axis, e.str());
      const symbolic::SymbolInfo& dim = e.symbol();
      const auto [bound, is_new] = bound_by.emplace(e.node(), BoundBy{k, axis});
      if (!is_new) {
        const int64_t before = bindings.at(e.node());
        if (before == actual) continue;
        const BoundBy& first = bound->second;
        if (first.input == k) {
          user_error("{}: dim '{}' is {} on axis {} but {} on axis {}", who, dim.name, before, first.axis, actual,
                     axis);
        }
        user_error("dim '{}' is {} in {} (axis {}) but {} in {} (axis {}); they must agree", dim.name, before,
                   input_name(graph, first.input), first.axis, actual, who, axis);
      }
      if (!dim.range.contains(actual)) {
        user_error("{}: dim '{}' (axis {}) is {}, outside its range {} .. {}", who, dim.name, axis, actual,
                   dim.range.lo, dim.range.hi);
      }
      if (dim.multiple > 1 && actual % dim.multiple != 0) {
        user_error("{}: dim '{}' (axis {}) is {}, which is no multiple of {}", who, dim.name, axis, actual,
                   dim.multiple);
      }
      bindings.emplace(e.node(), actual);
    }
  }
  return bindings;
}

}  // namespace stax::tensor
