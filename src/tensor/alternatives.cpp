// SPDX-License-Identifier: Apache-2.0
#include "tensor/alternatives.h"

#include <algorithm>

#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

std::vector<Value*> results_of(const Op& op) {
  std::vector<Value*> results;
  for (const auto& r : op.results) results.push_back(r.get());
  return results;
}

std::unique_ptr<Block> branch_of(Graph& graph) {
  auto block = std::make_unique<Block>();
  block->graph = &graph;
  return block;
}

/// Whether the op is what an earlier call kept where the condition does not hold.
bool is_kept_for(const Op& op, Expr condition) {
  const Op* parent = op.block->parent;
  const If* choice = parent != nullptr ? parent->as<If>() : nullptr;
  if (choice == nullptr || op.block != choice->else_block.get()) return false;
  const auto& contents = parent->operands[0]->contents;
  return contents && contents->front() == condition;
}

}  // namespace

std::vector<Op*> ops_of(Graph& graph, OpKind kind) {
  std::vector<Op*> found;
  for_each_op(graph.body, [&](Op& op) {
    if (op.kind() == kind) found.push_back(&op);
  });
  return found;
}

bool compute_otherwise(Op& op, Expr condition, const std::function<std::vector<Value*>(Builder&)>& build) {
  Block& block = *op.block;
  Graph& graph = *block.graph;
  const symbolic::Truth truth = graph.constraints.truth(condition);
  if (truth == symbolic::Truth::kNo || is_kept_for(op, condition)) return false;
  STAX_ASSERT(op.defines.empty(), "{} defines symbols", op.source);
  const size_t before = block.ops.size();
  Builder b(graph, block);
  b.source = op.source;
  std::vector<Value*> results;
  if (truth == symbolic::Truth::kYes) {
    results = build(b);
  } else {
    Value* holds = b.map({}, [&](Body& body) { return ir::cast(DType::kBool, body.index(condition)); });
    If choice{branch_of(graph), branch_of(graph)};
    Builder inside(graph, *choice.then_block);
    inside.source = op.source;
    choice.then_block->outputs = build(inside);
    std::vector<Type> types;
    for (const auto& r : op.results) types.push_back(r->type);
    // The op's payload goes with it: what is erased below is a shell.
    Op* kept = graph.add_op(*choice.else_block, std::move(op.payload), op.operands, types, {}, op.source);
    choice.else_block->outputs = results_of(*kept);
    results = results_of(*b.op(std::move(choice), {holds}, types));
  }
  // From the end of the block, where they were made, to where they are needed.
  const auto here = std::find_if(block.ops.begin(), block.ops.end(), [&](const auto& o) { return o.get() == &op; });
  block.ops.splice(here, block.ops, std::next(block.ops.begin(), static_cast<ptrdiff_t>(before)), block.ops.end());
  for (size_t k = 0; k < results.size(); ++k) {
    results[k]->name = op.results[k]->name;
    replace_all_uses(graph, op.results[k].get(), results[k]);
  }
  erase_op(op);
  return true;
}

}  // namespace stax::tensor
