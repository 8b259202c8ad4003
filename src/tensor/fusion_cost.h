// SPDX-License-Identifier: Apache-2.0
#pragma once
// What evaluating a map's body costs, and how often a consumer would evaluate it: the facts that fuse_ops decides by.
#include "tensor/graph.h"

namespace stax::tensor {

struct BodyCost {
  int weight = 0;  // arithmetic of one point; an addition is 1
  int loads = 0;
  bool expensive = false;   // transcendental functions, random numbers: not to be done twice
  bool checked = false;     // may end the run with an error
  bool index_map = false;   // one load at data-free indices, under casts
  bool affine = false;      // an index map of affine indices
  bool transposes = false;  // an index map whose neighbours along the last axis are not adjacent in memory
  bool picks_rows = false;  // loads neighbours along a long last axis, from a place that depends on data
};
BodyCost cost_of(const Compute& map);
/// The arithmetic of one node; an addition is 1.
int weight_of_node(Scalar x);

/// True if the elements of `map` cannot be held in memory on any machine that Stax runs on.
bool is_too_large(Graph& graph, const std::vector<Axis>& axes);

/// True if loading at `indices` for each point of `axes` and `reductions` evaluates an element of a tensor of `extents`
/// about once.
bool reads_once(Graph& graph, const std::vector<Axis>& axes, const std::vector<Axis>& reductions,
                const std::vector<Scalar>& indices, const std::vector<Expr>& extents);

/// True if e is a sum of multiples of axis variables, with symbolic coefficients and offset.
bool is_affine(Expr e, const std::vector<Axis>& axes);

}  // namespace stax::tensor
