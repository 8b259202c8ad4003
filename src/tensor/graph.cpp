// SPDX-License-Identifier: Apache-2.0
#include "tensor/graph.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_set>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::tensor {

namespace {

template <class BlockType, class F>
void for_each_block_of(BlockType& op, const F& f) {
  if (auto* branch = op.template as<If>()) {
    f(*branch->then_block);
    f(*branch->else_block);
  } else if (auto* loop = op.template as<Loop>()) {
    f(*loop->body);
  } else if (auto* group = op.template as<RowGroup>()) {
    f(*group->body);
  }
}

void adopt(Graph& graph, Op& op) {
  for_each_block_of(op, [&](Block& block) {
    block.graph = &graph;
    block.parent = &op;
  });
}

// Collects the symbols of expressions, each once, in order of id.
class SymbolSet {
 public:
  void add(Expr e) {
    if (!e || !seen_.insert(e.node()).second) return;
    for (Expr symbol : symbolic::free_symbols(e)) {
      if (symbol.symbol().kind != symbolic::SymbolKind::kLoop) symbols_.insert({symbol.id(), symbol});
    }
  }
  void add(const Type& type) {
    for (Expr extent : type.extents) add(extent);
    add(type.rank);
  }
  void add(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) add(axis.extent);
  }
  void add(Scalar root) {
    if (!root) return;
    visit(root, [&](Scalar node) {
      if (node->kind == ir::ScalarKind::kIndex) add(node->index);
    });
  }
  std::vector<Expr> list() const {
    std::vector<Expr> result;
    for (const auto& [id, symbol] : symbols_) result.push_back(symbol);
    return result;
  }

 private:
  std::unordered_set<const symbolic::ExprNode*> seen_;
  std::map<uint32_t, Expr> symbols_;
};

}  // namespace

bool is_arg(Combiner c) {
  return c == Combiner::kArgMaxFirst || c == Combiner::kArgMaxLast || c == Combiner::kArgMinFirst ||
         c == Combiner::kArgMinLast;
}

ir::Combiner plain_combiner(Combiner c) {
  switch (c) {
    case Combiner::kSum: return ir::Combiner::kSum;
    case Combiner::kProd: return ir::Combiner::kProd;
    case Combiner::kMin: return ir::Combiner::kMin;
    case Combiner::kMax: return ir::Combiner::kMax;
    case Combiner::kAnd: return ir::Combiner::kAnd;
    case Combiner::kOr: return ir::Combiner::kOr;
    case Combiner::kNone:
    case Combiner::kArgMaxFirst:
    case Combiner::kArgMaxLast:
    case Combiner::kArgMinFirst:
    case Combiner::kArgMinLast: break;
  }
  STAX_UNREACHABLE();
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
#define STAX_TENSOR_OP(Name, text) \
  case OpKind::k##Name: return text;
#include "tensor/ops.def"
#undef STAX_TENSOR_OP
  }
  STAX_UNREACHABLE();
}

Graph::Graph(std::shared_ptr<ir::Context> shared_context) : context(std::move(shared_context)) {
  STAX_ASSERT(context != nullptr);
  body.graph = this;
}

Graph::~Graph() = default;

Expr Graph::axis_var(int position, Expr extent, bool reduction) {
  const int64_t bound = std::max<int64_t>(extent.range().hi, 0);
  std::string name = (reduction ? "r" : "i") + std::to_string(position);
  if (bound == symbolic::kPosInf) {
    name += "_inf";
  } else if (bound != symbolic::kMaxExtent) {
    name += "_" + std::to_string(bound);
  }
  Expr& var = axis_vars_[name];
  if (!var) {
    const int64_t last = bound == symbolic::kPosInf ? bound : std::max<int64_t>(bound - 1, 0);
    var = exprs().new_symbol({.name = name, .kind = symbolic::SymbolKind::kLoop, .range = {0, last}, .multiple = 1});
  }
  return var;
}

Value* Graph::add_input(Block& block, Type type, std::string name) {
  auto value = std::make_unique<Value>();
  value->type = std::move(type);
  value->result = static_cast<int>(block.inputs.size());
  value->id = next_value_id();
  value->name = std::move(name);
  block.graph = this;
  return block.inputs.emplace_back(std::move(value)).get();
}

Op* Graph::add_op(Block& block, Payload payload, std::vector<Value*> operands, std::vector<Type> result_types,
                  std::vector<Expr> defines, std::string source, Op* before) {
  auto op = std::make_unique<Op>();
  op->block = &block;
  op->payload = std::move(payload);
  op->operands = std::move(operands);
  op->defines = std::move(defines);
  op->source = std::move(source);
  for (Type& type : result_types) {
    auto value = std::make_unique<Value>();
    value->type = std::move(type);
    value->producer = op.get();
    value->result = static_cast<int>(op->results.size());
    value->id = next_value_id();
    op->results.push_back(std::move(value));
  }
  for (const Value* operand : op->operands)
    STAX_ASSERT(operand != nullptr, "{} without an operand", name_of(op->kind()));
  block.graph = this;
  adopt(*this, *op);
  auto position = block.ops.end();
  if (before != nullptr) {
    STAX_ASSERT(before->block == &block);
    do {
      STAX_ASSERT(position != block.ops.begin(), "the op to insert before is not in its block");
      --position;
    } while (position->get() != before);
  }
  return block.ops.insert(position, std::move(op))->get();
}

std::optional<std::vector<int64_t>> constant_extents(const Type& type) {
  if (!type.is_tensor() || !type.has_static_rank()) return std::nullopt;
  std::vector<int64_t> result;
  for (Expr extent : type.extents) {
    if (!extent.is_constant()) return std::nullopt;
    result.push_back(extent.constant());
  }
  return result;
}

std::optional<int64_t> constant_count(const Type& type) {
  const auto extents = constant_extents(type);
  if (!extents) return std::nullopt;
  int64_t count = 1;
  for (const int64_t extent : *extents) count = symbolic::saturating_mul(count, extent);
  return count;
}

void for_each_op(Block& block, const std::function<void(Op&)>& f) {
  for (const auto& op : block.ops) {
    f(*op);
    for_each_block_of(*op, [&](Block& inner) { for_each_op(inner, f); });
  }
}

void for_each_op(const Block& block, const std::function<void(const Op&)>& f) {
  for (const auto& op : block.ops) {
    f(*op);
    for_each_block_of(std::as_const(*op), [&](const Block& inner) { for_each_op(inner, f); });
  }
}

std::unordered_map<const Value*, int> count_uses(const Graph& graph) {
  std::unordered_map<const Value*, int> uses;
  for (const Value* output : graph.body.outputs) ++uses[output];
  for_each_op(graph.body, [&](const Op& op) {
    for (const Value* operand : op.operands) ++uses[operand];
    for_each_block_of(op, [&](const Block& block) {
      for (const Value* output : block.outputs) ++uses[output];
    });
  });
  return uses;
}

void replace_all_uses(Graph& graph, Value* from, Value* to) {
  if (from == to) return;
  if (to->name.empty()) to->name = from->name;
  const auto replace = [&](std::vector<Value*>& values) { std::replace(values.begin(), values.end(), from, to); };
  replace(graph.body.outputs);
  for (GraphOutput& output : graph.outputs) {
    if (output.value == from) output.value = to;
  }
  for_each_op(graph.body, [&](Op& op) {
    replace(op.operands);
    for_each_block_of(op, [&](Block& block) { replace(block.outputs); });
  });
}

std::vector<Expr> used_symbols(const Op& op) {
  SymbolSet symbols;
  for (const auto& result : op.results) symbols.add(result->type);
  if (const auto* compute = op.as<Compute>()) {
    symbols.add(compute->axes);
    symbols.add(compute->reductions);
    symbols.add(compute->body);
    symbols.add(compute->epilogue);
  } else if (const auto* scatter = op.as<Scatter>()) {
    symbols.add(scatter->axes);
    for (Scalar index : scatter->index) symbols.add(index);
    symbols.add(scatter->value);
    symbols.add(scatter->guard);
  } else if (const auto* group = op.as<RowGroup>()) {
    symbols.add(group->rows);
  } else if (const auto* check = op.as<Check>()) {
    symbols.add(check->condition);
    for (Expr argument : check->arguments) symbols.add(argument);
  }
  for_each_block_of(op, [&](const Block& block) {
    for (const auto& input : block.inputs) symbols.add(input->type);
  });
  return symbols.list();
}

}  // namespace stax::tensor
