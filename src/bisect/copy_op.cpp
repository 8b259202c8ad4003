// SPDX-License-Identifier: Apache-2.0
#include "bisect/copy_op.h"

#include <unordered_map>

namespace stax::bisect {

tensor::Payload payload_of(const tensor::Op& op, tensor::Graph& graph) {
  if (const auto* c = op.as<tensor::Compute>()) return *c;
  if (const auto* s = op.as<tensor::Scatter>()) return *s;
  if (const auto* p = op.as<tensor::PrefixScan>()) return *p;
  const auto& group = *op.as<tensor::RowGroup>();
  tensor::RowGroup copy{group.rows, std::make_unique<tensor::Block>()};
  copy.body->graph = &graph;
  std::unordered_map<const tensor::Value*, tensor::Value*> values;
  for (const auto& v : group.body->inputs) values[v.get()] = graph.add_input(*copy.body, v->type, v->name);
  for (const auto& inner : group.body->ops) {
    std::vector<tensor::Value*> operands;
    for (const tensor::Value* v : inner->operands) operands.push_back(values.at(v));
    std::vector<tensor::Type> types;
    for (const auto& r : inner->results) types.push_back(r->type);
    tensor::Op* made = graph.add_op(*copy.body, payload_of(*inner, graph), operands, types, {}, inner->source);
    for (size_t k = 0; k < types.size(); ++k) values[inner->results[k].get()] = made->results[k].get();
  }
  for (const tensor::Value* v : group.body->outputs) copy.body->outputs.push_back(values.at(v));
  return copy;
}

}  // namespace stax::bisect
