// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kind of loop nest a Compute is, read off its body. Passes and lowering ask the same question here.
#include <vector>

#include "tensor/graph.h"

namespace stax::tensor {

enum class ComputeClass : uint8_t {
  kMap,          // no reductions
  kReduction,    // anything else
  kContraction,  // a sum of products of two elements: matrix products, convolutions
};

/// A contraction sum(left * right): each factor is one load that moves with the reductions, under casts and arithmetic
/// with values that do not move with them (zero points, scales). The load may be left out by a condition on indices, 0 in its
/// place (padded_load).
struct Contraction {
  Scalar left, right;  // the two loads
  int left_slot = -1, right_slot = -1;
  /// Axis of the result whose elements are best computed side by side: it moves exactly one load. -1 if there is none.
  int vector_axis = -1;
  bool vector_in_left = false;  // which load it moves
  int vector_index = -1;        // in which index of that load, with coefficient 1
  bool contiguous = false;      // that index is the load's last, so neighbours are adjacent in memory
  std::vector<int> batch_axes;  // move both loads
  std::vector<int> m_axes;      // move only the load that the vector axis does not
  std::vector<int> n_axes;      // move only the load that the vector axis does, itself among them
  Scalar vector_load() const { return vector_in_left ? left : right; }
  Scalar row_load() const { return vector_in_left ? right : left; }
};

struct Classification {
  ComputeClass kind = ComputeClass::kMap;
  Contraction contraction;
};

Classification classify(const Compute& compute);

/// The load in select(condition on indices, load, 0) of floats, the form of an element of a padded tensor; null: not of that form.
Scalar padded_load(Scalar x);

}  // namespace stax::tensor
