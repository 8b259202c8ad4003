// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the schedules of attention share: the two products around a row of scores.
#include <vector>

#include "schedule/schedule.h"

namespace stax::schedule {

struct Product {
  loop::For points;      // the loop around the sum
  loop::For terms;       // that of the sum
  ir::Scalar factor;     // what is read from memory at each step
  ir::Scalar row;        // the other factor, a value of the row; null: there is none, or more than one
  bool is_last = false;  // its result leaves the kernel
};

/// Loops with a sum of their own directly in them.
std::vector<Product> products_of(const loop::Kernel& kernel);

/// Whether a factor of a product that is no value of the row moves with an outer loop.
bool moves_factor(const std::vector<Product>& products, symbolic::Expr var);

}  // namespace stax::schedule
