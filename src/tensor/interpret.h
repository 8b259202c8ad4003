// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reference interpreter: the definition of tensor IR. All float arithmetic is done in double precision and rounded
// where a value of the narrower type is made (a cast to it, or an op's result). It is also what folds constants.
#include <functional>
#include <unordered_map>
#include <vector>

#include "tensor/graph.h"

namespace stax::tensor {

/// A tensor of concrete extents, or a sequence of such. A value of run-time rank is held with its true rank.
struct Item {
  Literal tensor;
  bool is_sequence = false;
  std::vector<Literal> sequence;
};

using Bindings = std::unordered_map<const symbolic::ExprNode*, int64_t>;

/// Sees each op of a run when its results are there, those of If and Loop after the ops of their blocks. May replace results: what follows then
/// reads the replacement. Bindings are those of the moment.
using OpObserver = std::function<void(const Op& op, const std::vector<const Item*>& operands, Bindings& bindings,
                                      std::vector<Item>& results)>;

/// Runs the whole graph. Inputs in the order of graph.inputs, extents already checked against their declarations by
/// bind_inputs. UserError where a Check, an index or a size fails. `evaluated` counts ops.
std::vector<Item> interpret(const Graph& graph, const std::vector<Item>& inputs, int64_t* evaluated = nullptr,
                            const OpObserver& observer = {});

/// Binds the input dims; a UserError names the inputs, the dim, and the values, where dtype, rank, extent or range is
/// wrong.
Bindings bind_inputs(const Graph& graph, const std::vector<Item>& inputs);

/// One op on concrete operands; binds what it defines. Not for If and Loop. `observer` sees the ops inside of a RowGroup.
std::vector<Item> evaluate_op(const Op& op, const std::vector<const Item*>& operands, Bindings& bindings,
                              const OpObserver& observer = {});

}  // namespace stax::tensor
