// SPDX-License-Identifier: Apache-2.0
// Operators that know only static ranks, on operands whose rank is known at run time.
//
// Most operators treat such a value as one of rank kMaxRank, or see to it themselves. For the others (an axis counted from
// the front, a window over the last two axes) the operator is imported once for each rank that the operand can have, and
// the call takes the one that fits. Ranks for which the operator is no legal one are ruled out by a check; where one rank is
// left, there is nothing to choose. The ranks that are possible are few: GatherND and Squeeze bound them by those of their operands.
#include "frontend/branches.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

Value* run_time_ranked(const std::vector<Value*>& inputs) {
  for (Value* value : inputs)
    if (value && value->type.is_tensor() && !value->type.has_static_rank()) return value;
  return nullptr;
}

std::vector<Value*> with_rank(Builder& b, std::vector<Value*> inputs, const Value* ranked, int rank) {
  for (Value*& value : inputs) {
    if (value != ranked) continue;
    value = of_rank(b, value, rank);
    if (value->name.empty()) value->name = ranked->name;
  }
  return inputs;
}

}  // namespace

Importer::NodeResult Importer::run_operator(Frame& frame, const onnx::NodeProto& proto, const OperatorRow& row,
                                            int opset, const std::vector<Value*>& inputs) {
  try {
    Node node(*this, frame, proto, opset, inputs);
    row.function(node);
    return {std::move(node.outputs_), std::move(node.absent_outputs_)};
  } catch (const UnsupportedError&) {
    if (!run_time_ranked(inputs)) throw;
    std::optional<NodeResult> result = run_for_each_rank(frame, proto, row, opset, inputs);
    if (!result) throw;
    return std::move(*result);
  }
}

std::optional<Importer::NodeResult> Importer::run_for_each_rank(Frame& frame, const onnx::NodeProto& proto,
                                                                const OperatorRow& row, int opset,
                                                                const std::vector<Value*>& inputs) {
  Builder& b = *frame.builder;
  Value* ranked = run_time_ranked(inputs);
  const Expr rank = ranked->type.rank;
  const symbolic::Interval range = graph_->constraints.range(rank);
  const size_t first_symbol = b.exprs().symbol_count();

  std::vector<int> ranks;
  std::vector<Branch> branches;
  for (int64_t r = std::max<int64_t>(range.lo, 0); r <= std::min<int64_t>(range.hi, tensor::kMaxRank); ++r) {
    try {
      branches.push_back(make_branch(b, symbolic::equal(rank, r), [&](Branch& branch) {
        Builder inner(*graph_, *branch.block);
        inner.source = b.source;
        Frame inside;
        inside.outer = &frame;
        inside.builder = &inner;
        inside.opsets = frame.opsets;
        inside.attributes = frame.attributes;
        inside.function = frame.function;
        inside.depth = frame.depth;
        const NodeResult result =
            run_operator(inside, proto, row, opset, with_rank(inner, inputs, ranked, static_cast<int>(r)));
        branch.facts = graph_->constraints;
        // In a branch a check that must fail is left to run time; here it says that the rank is none for this operator.
        for (const auto& op : branch.block->ops) {
          const auto* check = op->as<tensor::Check>();
          if (check && check->condition.is_constant(0)) throw UserError(check->message);
        }
        if (!result.absent.empty()) unsupported("an optional value that depends on a rank");
        std::vector<Value*> outputs = result.outputs;
        outputs.resize(proto.output_size(), nullptr);
        for (int k = 0; k < proto.output_size(); ++k)
          if (!outputs[k] && !proto.output(k).empty()) unsupported("an output that depends on a rank");
        // Values of outputs that nobody names need not exist.
        std::erase(outputs, nullptr);
        return outputs;
      }));
      ranks.push_back(static_cast<int>(r));
    } catch (const UserError&) {
      // No legal operator at this rank, or one that is not supported.
    }
  }
  if (ranks.empty()) return std::nullopt;
  if (ranks.size() == 1) return run_operator(frame, proto, row, opset, with_rank(b, inputs, ranked, ranks[0]));

  Expr possible = b.constant_expr(0);
  for (const int r : ranks) possible = symbolic::logical_or(possible, symbolic::equal(rank, r));
  b.check(possible, "'" + ranked->name + "' has rank {0}, for which the operator is not defined", {rank});
  Node node(*this, frame, proto, opset, inputs);
  const auto condition = [&](Builder& at, int r) {
    return at.map({}, [&](tensor::Body& body) { return ir::cast(DType::kBool, body.index(symbolic::equal(rank, r))); });
  };
  Branch rest = std::move(branches.back());
  for (size_t k = branches.size() - 1; k-- > 1;) {
    Branch outer;
    outer.block->graph = graph_.get();
    outer.facts = graph_->constraints;
    Builder at(*graph_, *outer.block);
    at.source = b.source;
    outer.outputs = build_if(node, at, condition(at, ranks[k]), symbolic::equal(rank, ranks[k]), std::move(branches[k]),
                             std::move(rest), first_symbol);
    rest = std::move(outer);
  }
  const std::vector<Value*> results = build_if(node, b, condition(b, ranks[0]), symbolic::equal(rank, ranks[0]),
                                               std::move(branches[0]), std::move(rest), first_symbol);
  NodeResult made;
  size_t next = 0;
  for (int k = 0; k < proto.output_size(); ++k)
    made.outputs.push_back(proto.output(k).empty() || next >= results.size() ? nullptr : results[next++]);
  return made;
}

}  // namespace stax::frontend
