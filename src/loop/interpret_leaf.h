// SPDX-License-Identifier: Apache-2.0
#pragma once
// The inner engine of the loop interpreter: one Store or Update under its conditions, over a box of iterations, a block
// of iterations at a time.
//
// Expressions become a list of steps in topological order, one for each distinct node; each owns an array with one
// value for each iteration of a block (kBlock at most), so the cost of looking at a node is shared by the block. What
// does not depend on the box is computed once for each time the statement is entered. An index that is affine in the
// loops of the box needs no array: its bounds over the box are checked once, and its addresses are a base and a
// pattern of offsets that is the same for all blocks.
//
// The branch of a select that is not taken, and what stands under a false If, is not evaluated: a load and a checked
// index know the condition under which they are needed (a mask) and leave out the other iterations. A node that is
// needed under several conditions has a step for each.
#include <memory>
#include <vector>

#include "loop/interpret_integers.h"
#include "loop/interpret_values.h"

namespace stax::loop {

/// A condition on the way to a statement.
struct Guard {
  Scalar condition;
  bool holds = true;
};

class Leaf {
 public:
  /// `box`: the loops around the statement that it runs over by itself, outer first; their extents depend on none of
  /// them. May be empty. `statement`: a Store or Update.
  Leaf(Machine& machine, std::vector<For> box, const std::vector<Guard>& guards, const Stmt& statement);
  ~Leaf();
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A scalar outside of any box: the condition of an If around loops.
class ScalarLeaf {
 public:
  ScalarLeaf(Machine& machine, Scalar scalar);
  ~ScalarLeaf();
  Value64 run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stax::loop
