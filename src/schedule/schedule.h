// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how a naive nest is transformed for a CPU; never transforms by hand. The result is schedule text (loop/transform.h).
#include <string>

#include "loop/loop_ir.h"

namespace stax::schedule {

/// The form of a naive nest: perfectly nested independent loops around one store, or around {accumulator; reduction loops; store}.
struct NestForm {
  std::vector<loop::For> outer;        // outermost first
  std::vector<loop::For> reductions;   // empty for a map
  std::vector<ir::Scalar> loads;       // of global buffers, in the innermost value (and the final store)
  std::vector<ir::Scalar> inner_loads; // those in the innermost value alone
  int accumulators = 0;
  bool has_if = false;                 // arg reductions, guarded stores
  bool matches = false;
};
NestForm analyze(const loop::Kernel& kernel);

/// Distance in elements between neighbours along `var` of a load's address, or nullopt where it isn't affine.
std::optional<symbolic::Expr> stride_of(const loop::Kernel& kernel, ir::Scalar load, symbolic::Expr var);

/// The schedulers in order of priority; the last accepts everything.
std::string choose_schedule(const loop::Kernel& kernel);

std::optional<std::string> schedule_contraction(const loop::Kernel& kernel, const NestForm& form);
std::optional<std::string> schedule_reduction(const loop::Kernel& kernel, const NestForm& form);
std::optional<std::string> schedule_map(const loop::Kernel& kernel, const NestForm& form);
std::string schedule_fallback(const loop::Kernel& kernel, const NestForm& form);

/// Lanes of a vector loop: 16, or 32 where all element types are one byte.
int lanes_of(const loop::Kernel& kernel);

}  // namespace stax::schedule
