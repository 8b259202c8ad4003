// SPDX-License-Identifier: Apache-2.0
// The general forms of tensor IR, and what every op goes through when it is built: facts, folding, contents.
// The everyday helpers made of them are in builder_ops.cpp.
#include "tensor/builder.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/interpret.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::Interval;
using symbolic::Truth;

namespace {

// Folding takes no more than a few seconds for the largest op.
constexpr int64_t kMaxFoldedSteps = int64_t{1} << 25;
// The parts of an extent beyond which it gets a name.
constexpr int kLargestExtent = 256;
constexpr int64_t kAlwaysFoldedBytes = int64_t{1} << 20;
constexpr int64_t kFewWeightBytes = 4096;
std::string spell(Expr e) { return e.is_constant() ? std::to_string(e.constant()) : e.str(); }

// Puts `arguments` in the place of {0}, {1}, ...
std::string format_message(const std::string& message, const std::vector<Expr>& arguments) {
  std::string result;
  for (size_t i = 0; i < message.size(); ++i) {
    size_t end = i + 1;
    while (message[i] == '{' && end < message.size() && std::isdigit(static_cast<unsigned char>(message[end]))) ++end;
    if (end > i + 1 && end < i + 5 && end < message.size() && message[end] == '}') {
      const size_t k = std::stoul(message.substr(i + 1, end - i - 1));
      if (k < arguments.size()) {
        result += spell(arguments[k]);
        i = end;
        continue;
      }
    }
    result += message[i];
  }
  return result;
}

// A name that prints without quotes.
std::string plain_name(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127;
    if (letter || (c == '.' && !result.empty() && result.back() != '.')) {
      result += c;
    } else if (!result.empty() && result.back() != '_') {
      result += '_';
    }
  }
  while (!result.empty() && (result.back() == '_' || result.back() == '.')) result.pop_back();
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "v" + result;
  return result;
}

// The first op before which `symbols` are bound, as late in the list of checks there as possible; null for the end of
// the block. A check stands there because its fact, once assumed, may be used by every op that sees the symbols.
Op* place_of_check(const Block& block, const std::vector<Expr>& symbols) {
  auto place = block.ops.end();
  while (place != block.ops.begin()) {
    const Op& previous = **std::prev(place);
    const bool binds = std::any_of(previous.defines.begin(), previous.defines.end(), [&](Expr symbol) {
      return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
    });
    if (binds) break;
    --place;
  }
  while (place != block.ops.end() && (*place)->kind() == OpKind::kCheck) ++place;
  return place == block.ops.end() ? nullptr : place->get();
}

bool holds_integers(DType t) { return ir::is_integer(t) || t == DType::kBool; }

std::vector<Expr> contents_of(symbolic::ExprTable& exprs, const Literal& literal) {
  std::vector<Expr> result;
  for (int64_t i = 0; i < literal.count(); ++i) result.push_back(exprs.constant(literal.at(i).i));
  return result;
}

void erase(Op* op) {
  auto& ops = op->block->ops;
  for (auto it = ops.end(); it != ops.begin();) {
    if ((--it)->get() == op) {
      ops.erase(it);
      return;
    }
  }
  STAX_UNREACHABLE();
}

// How many times the interpreter evaluates a body for this op.
int64_t steps_of(const Op& op) {
  std::vector<Axis> axes;
  if (const auto* compute = op.as<Compute>()) {
    axes = compute->axes;
    axes.insert(axes.end(), compute->reductions.begin(), compute->reductions.end());
  } else if (const auto* scatter = op.as<Scatter>()) {
    axes = scatter->axes;
  }
  int64_t steps = 1;
  for (const Axis& axis : axes) {
    if (!axis.extent.is_constant()) return symbolic::kPosInf;
    steps = symbolic::saturating_mul(steps, axis.extent.constant());
  }
  return steps;
}

// Ops without operands that fill a tensor stay what they are unless they are small: a formula is cheaper than memory.
bool worth_folding(const Op& op) {
  int64_t operand_bytes = 0;
  bool widens = false;  // bytes to floats
  for (const Value* operand : op.operands) {
    const auto* constant = operand->producer == nullptr ? nullptr : operand->producer->as<Constant>();
    if (constant == nullptr) return false;
    operand_bytes = symbolic::saturating_add(operand_bytes, static_cast<int64_t>(constant->literal.bytes()));
    widens |= ir::byte_size(constant->literal.dtype()) == 1 && ir::is_float(op.result()->type.dtype);
  }
  const int64_t count = *constant_count(op.result()->type);
  if (op.operands.empty() && count > kMaxContents) return false;
  const int64_t bytes = symbolic::saturating_mul(count, static_cast<int64_t>(ir::byte_size(op.result()->type.dtype)));
  if (bytes > kAlwaysFoldedBytes && bytes / 4 > operand_bytes) return false;
  // Quantized weights stay bytes until contract_quantized has seen them; fold_constants folds what it leaves.
  if (bytes > kFewWeightBytes && widens) return false;
  return steps_of(op) <= kMaxFoldedSteps && used_symbols(op).empty();
}

// Drops operands that no scalar loads any more, because a selection on a known condition went away. The first `kept`
// stay.
void prune_operands(std::vector<Value*>& operands, size_t kept, const std::vector<Scalar*>& roots) {
  std::vector<bool> loaded(operands.size(), false);
  std::fill_n(loaded.begin(), kept, true);
  for (const Scalar* root : roots) {
    if (!*root) continue;
    visit(*root, [&](Scalar node) {
      if (node->kind == ScalarKind::kLoad) loaded.at(node->slot) = true;
    });
  }
  if (std::all_of(loaded.begin(), loaded.end(), [](bool is_loaded) { return is_loaded; })) return;
  std::vector<int> slot_of(operands.size(), -1);
  std::vector<Value*> remaining;
  for (size_t slot = 0; slot < operands.size(); ++slot) {
    if (!loaded[slot]) continue;
    slot_of[slot] = static_cast<int>(remaining.size());
    remaining.push_back(operands[slot]);
  }
  for (Scalar* root : roots) {
    if (!*root) continue;
    *root = rewrite(*root, {}, [&](Scalar node) {
      if (node->kind != ScalarKind::kLoad || slot_of[node->slot] == node->slot) return node;
      return node->table->load(slot_of[node->slot], node->dtype, node->args);
    });
  }
  operands = std::move(remaining);
}

// Whether an expression, written out, has more than `limit` parts.
bool is_larger(Expr e, int limit) {
  int left = limit;
  const std::function<bool(Expr)> count = [&](Expr part) {
    if (--left < 0) return false;
    return std::all_of(part.args().begin(), part.args().end(), count);
  };
  return !count(e);
}

// Extents are made of extents: an expression that has its operand twice doubles with every layer. A large one gets a
// symbol, bound to its value at run time, and growth begins anew. What relates it to others is lost, which costs a check
// where two such meet; so it has to be large.
Expr name_if_large(Builder& b, Expr e) {
  if (!is_larger(e, kLargestExtent)) return e;
  for (Block* block = &b.block(); block != nullptr; block = block->parent ? block->parent->block : nullptr) {
    for (const auto& op : block->ops) {
      if (op->kind() != OpKind::kBind || op->defines.size() != 1) continue;
      const auto& contents = op->operands[0]->contents;
      if (contents && contents->size() == 1 && (*contents)[0] == e) return op->defines[0];
    }
  }
  Interval range = b.graph().constraints.range(e);
  range.lo = std::max<int64_t>(range.lo, 0);
  const Expr symbol = b.new_symbol("extent", range);
  b.graph().add_op(b.block(), Bind{}, {b.int_scalar(e)}, {}, {symbol}, b.source);
  return symbol;
}

}  // namespace

// ---- Body -----------------------------------------------------------------------------------------------------------

Scalar Body::load(Value* v, std::vector<Scalar> indices) {
  STAX_ASSERT(v != nullptr && v->type.is_tensor());
  STAX_ASSERT(static_cast<int>(indices.size()) == v->type.static_rank(), "load of '{}' of rank {} with {} indices",
              v->name, v->type.static_rank(), indices.size());
  ir::ScalarTable& scalars = builder_->scalars();
  const DType t = v->type.dtype;
  // A known element is spelled as what it is.
  int64_t linear = 0;
  bool known = v->contents.has_value() || builder_->literal(v) != nullptr;
  for (size_t k = 0; k < indices.size() && known; ++k) {
    const Expr index = ir::as_expr(indices[k]);
    const Expr extent = v->type.extents[k];
    known = index && index.is_constant() && extent.is_constant() && index.constant() >= 0 &&
            index.constant() < extent.constant();
    if (known) linear = linear * extent.constant() + index.constant();
  }
  if (known) {
    if (const Literal* literal = builder_->literal(v)) {
      const ir::Value64 element = literal->at(linear);
      return ir::is_float(t) ? scalars.constant(t, element.f) : scalars.constant_int(t, element.i);
    }
    const Expr element = (*v->contents)[linear];
    return element.is_constant() ? scalars.constant_int(t, element.constant())
                                 : scalars.cast(t, scalars.index(element));
  }
  const auto found = std::find(operands_.begin(), operands_.end(), v);
  const int slot = static_cast<int>(found - operands_.begin());
  if (found == operands_.end()) operands_.push_back(v);
  return scalars.load(slot, t, std::move(indices));
}

Scalar Body::load(Value* v, const std::vector<Expr>& indices) {
  std::vector<Scalar> scalars;
  for (Expr index : indices) scalars.push_back(this->index(index));
  return load(v, std::move(scalars));
}

Scalar Body::load(Value* v) { return load(v, std::vector<Expr>(v->type.extents.size(), builder_->constant_expr(0))); }

Scalar Body::load_broadcast(Value* v, std::span<const Expr> indices, std::span<const Expr> extents) {
  STAX_ASSERT(indices.size() == extents.size() && v->type.extents.size() <= indices.size(),
              "broadcast of rank {} to rank {}", v->type.extents.size(), indices.size());
  const symbolic::ConstraintSet& facts = builder_->graph().constraints;
  const size_t skipped = indices.size() - v->type.extents.size();
  std::vector<Expr> own;
  for (size_t k = 0; k < v->type.extents.size(); ++k) {
    const Expr extent = v->type.extents[k];
    const Expr index = indices[skipped + k];
    if (extent.is_constant(1)) {
      own.push_back(builder_->constant_expr(0));
    } else if (extent == extents[skipped + k] || facts.equal(extent, extents[skipped + k]) == Truth::kYes ||
               facts.equal(extent, builder_->constant_expr(1)) == Truth::kNo) {
      own.push_back(index);
    } else {
      own.push_back(index * select(equal(extent, 1), builder_->constant_expr(0), builder_->constant_expr(1)));
    }
  }
  return load(v, own);
}

Scalar Body::index(Expr e) { return builder_->scalars().index(e); }
Scalar Body::number(DType t, double value) { return builder_->scalars().constant(t, value); }
Scalar Body::integer(DType t, int64_t value) { return builder_->scalars().constant_int(t, value); }

Scalar Body::checked(Scalar i, Expr n) {
  if (const Expr e = ir::as_expr(i)) {
    const symbolic::ConstraintSet& facts = builder_->graph().constraints;
    const Expr zero = builder_->constant_expr(0);
    if (facts.less_equal(zero, e) == Truth::kYes && facts.less(e, n) == Truth::kYes) return i;
    if (facts.less(e, zero) == Truth::kYes && facts.less_equal(zero, e + n) == Truth::kYes) return index(e + n);
  }
  return builder_->scalars().op(ScalarOp::kCheckedIndex, {i, index(n)});
}

// ---- expressions and facts ------------------------------------------------------------------------------------------

Expr Builder::product(std::span<const Expr> extents) {
  Expr result = constant_expr(1);
  for (Expr extent : extents) result = result * extent;
  return result;
}

Expr Builder::new_symbol(const std::string& name, Interval range) {
  return exprs().new_symbol(
      {.name = plain_name(name), .kind = symbolic::SymbolKind::kValue, .range = range, .multiple = 1});
}

// Inside a branch or a loop's body a fact holds only where the block runs: there, nothing is assumed of the whole
// program, and a check that must fail fails at run time, if that block runs at all.
void Builder::check(Expr condition, const std::string& message, std::vector<Expr> arguments) {
  const Truth truth = graph_->constraints.truth(condition);
  if (truth == Truth::kYes) return;
  const std::string text = source.empty() ? message : source + ": " + message;
  const bool everywhere = block_ == &graph_->body;
  if (truth == Truth::kNo) {
    if (everywhere) throw UserError(format_message(text, arguments));
    condition = constant_expr(0);
  }
  if (!everywhere) {
    for (const auto& op : block_->ops) {
      const auto* known = op->as<Check>();
      if (known != nullptr && known->condition == condition && truth != Truth::kNo) return;
    }
    graph_->add_op(*block_, Check{condition, text, std::move(arguments)}, {}, {}, {}, source);
    return;
  }
  std::vector<Expr> symbols = symbolic::free_symbols(condition);
  for (Expr argument : arguments) {
    const std::vector<Expr> more = symbolic::free_symbols(argument);
    symbols.insert(symbols.end(), more.begin(), more.end());
  }
  Op* const place = place_of_check(*block_, symbols);
  graph_->add_op(*block_, Check{condition, text, std::move(arguments)}, {}, {}, {}, source, place);
  graph_->constraints.assume_true(condition);
}

Expr Builder::broadcast_extent(Expr a, Expr b, const std::string& what) {
  return broadcast_extent_of(a, b, "cannot broadcast extent {0} with {1} (" + what + ")");
}

Expr Builder::broadcast_extent_of(Expr a, Expr b, const std::string& message) {
  const symbolic::ConstraintSet& facts = graph_->constraints;
  const Expr one = constant_expr(1);
  if (a == b || b.is_constant(1)) return a;
  if (a.is_constant(1)) return b;
  if (facts.equal(a, b) == Truth::kYes) return b.is_constant() ? b : a;
  const Truth a_is_one = facts.equal(a, one);
  const Truth b_is_one = facts.equal(b, one);
  if (b_is_one == Truth::kYes) return a;
  if (a_is_one == Truth::kYes) return b;
  Expr condition = equal(a, b);
  if (a_is_one == Truth::kUnknown) condition = logical_or(condition, equal(a, 1));
  if (b_is_one == Truth::kUnknown) condition = logical_or(condition, equal(b, 1));
  check(condition, message, {a, b});
  // From here on: the two are equal, or one of them is 1.
  if (a_is_one == Truth::kNo && b_is_one == Truth::kNo) return b.is_constant() ? b : a;
  if (b_is_one == Truth::kNo) return b;
  if (a_is_one == Truth::kNo) return a;
  if (facts.equal(a, b) == Truth::kYes) return a;
  return select(equal(a, 1), b, a);
}

std::vector<Expr> Builder::broadcast_extents(std::span<Value* const> values) {
  size_t rank = 0;
  for (const Value* v : values) {
    STAX_ASSERT(v != nullptr && v->type.is_tensor());
    rank = std::max(rank, v->type.extents.size());
  }
  const auto name = [&](size_t k) {
    return values[k]->name.empty() ? "operand " + std::to_string(k) : "'" + values[k]->name + "'";
  };
  std::vector<Expr> result(rank, constant_expr(1));
  std::vector<size_t> decided_by(rank, 0);
  for (size_t k = 0; k < values.size(); ++k) {
    const std::vector<Expr>& extents = values[k]->type.extents;
    const size_t skipped = rank - extents.size();
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      Expr& total = result[skipped + axis];
      const size_t before = decided_by[skipped + axis];
      const Expr extent = broadcast_extent_of(
          total, extents[axis],
          "cannot broadcast extent {0} of " + name(before) + " with {1} of " + name(k) + " (axis " +
              std::to_string(static_cast<int64_t>(axis) - static_cast<int64_t>(extents.size())) + ")");
      if (extent != total) decided_by[skipped + axis] = k;
      total = extent;
    }
  }
  return result;
}

// ---- constants and host values --------------------------------------------------------------------------------------

Value* Builder::constant(Literal literal, std::string name) {
  std::vector<Expr> extents;
  for (const int64_t extent : literal.extents()) extents.push_back(constant_expr(extent));
  const DType t = literal.dtype();
  std::optional<std::vector<Expr>> contents;
  if (holds_integers(t) && literal.count() <= kMaxContents) contents = contents_of(exprs(), literal);
  Op* op = graph_->add_op(*block_, Constant{std::move(literal)}, {}, {Type::tensor(t, std::move(extents))}, {}, source);
  op->result()->name = std::move(name);
  op->result()->contents = std::move(contents);
  return op->result();
}

Value* Builder::constant(DType t, double value) { return constant(Literal::scalar(t, value)); }

const Literal* Builder::literal(const Value* v) const {
  if (v == nullptr || v->producer == nullptr) return nullptr;
  const auto* constant = v->producer->as<Constant>();
  return constant == nullptr ? nullptr : &constant->literal;
}

Value* Builder::ints(const std::vector<Expr>& elements) {
  // A balanced tree of selections over the index.
  const std::function<Expr(Expr, size_t, size_t)> pick = [&](Expr i, size_t begin, size_t end) {
    if (end - begin == 1) return elements[begin];
    const size_t middle = begin + (end - begin) / 2;
    return select(less(i, constant_expr(static_cast<int64_t>(middle))), pick(i, begin, middle), pick(i, middle, end));
  };
  if (elements.empty()) return constant(Literal::ints({}));
  return map({constant_expr(static_cast<int64_t>(elements.size()))},
             [&](Body& body) { return body.index(pick(body.i[0], 0, elements.size())); });
}

Value* Builder::int_scalar(Expr e) {
  return map({}, [&](Body& body) { return body.index(e); });
}

// ---- the general forms ----------------------------------------------------------------------------------------------

Builder::Axes Builder::make_axes(const std::vector<Expr>& extents, bool reduction) {
  Axes result;
  for (Expr extent : extents) {
    STAX_ASSERT(static_cast<bool>(extent));
    // An axis of one point has index 0; as a reduction it is none.
    if (extent.is_constant(1)) {
      result.indices.push_back(constant_expr(0));
      if (reduction) continue;
    }
    const Expr var = graph_->axis_var(static_cast<int>(result.axes.size()), extent, reduction);
    result.axes.push_back({var, extent});
    if (!extent.is_constant(1)) result.indices.push_back(var);
  }
  return result;
}

Value* Builder::map(std::vector<Expr> extents, const BodyFn& body) { return map_ranked(std::move(extents), {}, body); }

Value* Builder::map_ranked(std::vector<Expr> extents, Expr rank, const BodyFn& body) {
  return reduce_ranked(Combiner::kNone, DType::kF32, std::move(extents), rank, {}, body, {});
}

Value* Builder::reduce(Combiner combiner, DType accumulate, std::vector<Expr> extents,
                       const std::vector<Expr>& reductions, const BodyFn& body, const EpilogueFn& epilogue) {
  STAX_ASSERT(combiner != Combiner::kNone);
  return reduce_ranked(combiner, accumulate, std::move(extents), {}, reductions, body, epilogue);
}

Value* Builder::reduce_ranked(Combiner combiner, DType accumulate, std::vector<Expr> extents, Expr rank,
                              const std::vector<Expr>& reductions, const BodyFn& body, const EpilogueFn& epilogue) {
  for (Expr& extent : extents) extent = name_if_large(*this, extent);
  Body spelled;
  spelled.builder_ = this;
  Axes axes = make_axes(extents, false);
  Axes reduced = make_axes(reductions, true);
  spelled.i = axes.indices;
  spelled.r = reduced.indices;
  Compute compute;
  compute.axes = std::move(axes.axes);
  compute.body = body(spelled);
  STAX_ASSERT(static_cast<bool>(compute.body), "a body without a value");
  if (combiner != Combiner::kNone) compute.body = scalars().cast(accumulate, compute.body);
  Scalar element = compute.body;
  if (!reduced.axes.empty()) {
    compute.reductions = std::move(reduced.axes);
    compute.combiner = combiner;
    compute.accumulate = accumulate;
    element = scalars().accumulator(is_arg(combiner) ? DType::kI64 : accumulate);
    if (epilogue) element = compute.epilogue = epilogue(spelled, element);
  } else {
    if (is_arg(combiner)) element = spelled.integer(DType::kI64, 0);
    compute.body = element = epilogue ? epilogue(spelled, element) : element;
  }
  STAX_ASSERT(static_cast<bool>(element), "an epilogue without a value");
  prune_operands(spelled.operands_, 0, {&compute.body, &compute.epilogue});
  Type type = Type::tensor(element->dtype, std::move(extents));
  type.rank = rank;
  return finish(
      graph_->add_op(*block_, std::move(compute), std::move(spelled.operands_), {std::move(type)}, {}, source));
}

Value* Builder::scatter(Value* data, const std::vector<Expr>& domain, Combiner mode,
                        const std::function<ScatterPoint(Body&)>& body) {
  Body spelled;
  spelled.builder_ = this;
  spelled.operands_.push_back(data);
  Axes axes = make_axes(domain, false);
  spelled.i = axes.indices;
  ScatterPoint point = body(spelled);
  STAX_ASSERT(point.value && point.value->dtype == data->type.dtype, "scatter of another dtype than the data's");
  STAX_ASSERT(point.index.size() == data->type.extents.size(), "scatter with {} indices into rank {}",
              point.index.size(), data->type.extents.size());
  Scatter payload{std::move(axes.axes), std::move(point.index), point.value, point.guard, mode};
  std::vector<Scalar*> roots{&payload.value, &payload.guard};
  for (Scalar& index : payload.index) roots.push_back(&index);
  prune_operands(spelled.operands_, 1, roots);
  return finish(graph_->add_op(*block_, std::move(payload), std::move(spelled.operands_), {data->type}, {}, source));
}

Op* Builder::op(Payload payload, std::vector<Value*> operands, std::vector<Type> results, std::vector<Expr> defines) {
  Op* made =
      graph_->add_op(*block_, std::move(payload), std::move(operands), std::move(results), std::move(defines), source);
  if (!made->results.empty()) made->result()->contents = infer_contents(*graph_, *made);
  return made;
}

Value* Builder::finish(Op* op) {
  Value* result = op->result();
  const auto extents = constant_extents(result->type);
  if (!extents) return result;
  const DType t = result->type.dtype;

  result->contents = infer_contents(*graph_, *op);
  if (result->contents) {
    const std::vector<Expr>& elements = *result->contents;
    if (!std::all_of(elements.begin(), elements.end(), [](Expr e) { return e.is_constant(); })) return result;
    Literal literal(t, *extents);
    for (size_t i = 0; i < elements.size(); ++i) literal.set(static_cast<int64_t>(i), {.i = elements[i].constant()});
    erase(op);
    return constant(std::move(literal));
  }

  if (!worth_folding(*op)) return result;
  std::vector<Item> items;
  std::vector<const Item*> operands;
  items.reserve(op->operands.size());
  for (const Value* operand : op->operands) {
    Item& item = items.emplace_back();
    item.tensor = *literal(operand);
    operands.push_back(&item);
  }
  Literal literal;
  try {
    Bindings bindings;
    literal = std::move(evaluate_op(*op, operands, bindings).at(0).tensor);
  } catch (const UserError&) {
    // In a block that may not run this is no fault yet.
    if (block_ != &graph_->body) return result;
    throw;
  }
  erase(op);
  return constant(std::move(literal));
}

}  // namespace stax::tensor
