// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop ops for whatever repeats a body: Loop, Scan, SequenceMap.
#include <functional>
#include <vector>

#include "frontend/importer.h"

namespace stax::frontend {

/// What a body makes of its inputs.
struct BodyResult {
  Value* condition = nullptr;  // go on? null: yes
  std::vector<Value*> carried;
  std::vector<Value*> scanned;
  symbolic::ConstraintSet facts;  // what holds at its end
};

/// Builds one trip of the body into `b`'s block. It is called several times, each time for a new block.
using TripFn = std::function<BodyResult(Builder& b, Value* iteration, std::span<Value* const> carried)>;

struct LoopResult {
  std::vector<Value*> carried;
  std::vector<Value*> scanned;  // stacked on a new axis 0
};

/// Runs the body while the iteration number is below `trips` (an i64 of one element, if given) and the condition holds (if
/// given at first, or made by the body).
LoopResult build_loop(Node& n, Value* trips, Value* condition, const std::vector<Value*>& initial, const TripFn& trip);

/// Are all symbols of `e` older than the table's symbol number `first`, or dims of inputs?
bool is_visible(Expr e, size_t first);

/// `v` as a value of run-time rank, in b's block, also where its rank is a constant.
Value* as_run_time_rank(Builder& b, Value* v);

}  // namespace stax::frontend
