// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how a naive nest is transformed for a CPU; never transforms by hand. The result is schedule text (loop/transform.h).
#include <optional>
#include <span>
#include <string>

#include "loop/loop_ir.h"

namespace stax::schedule {

/// The form of a naive nest: perfectly nested independent loops around one store, or around {accumulator; reduction loops; store}.
struct NestForm {
  std::vector<loop::For> outer;         // outermost first
  std::vector<loop::For> reductions;    // empty for a map
  std::vector<ir::Scalar> loads;        // of global buffers, in the innermost value (and the final store)
  std::vector<ir::Scalar> inner_loads;  // those in the innermost value alone
  int accumulators = 0;
  bool has_if = false;  // arg reductions, guarded stores
  bool matches = false;
};
NestForm analyze(const loop::Kernel& kernel);

/// Distance in elements between neighbours along `var` of a load's address, or nullopt where it isn't affine.
std::optional<symbolic::Expr> stride_of(const loop::Kernel& kernel, ir::Scalar load, symbolic::Expr var);
/// The same of any place in a buffer.
std::optional<symbolic::Expr> stride_of(const loop::Kernel& kernel, int slot, std::span<const ir::Scalar> index,
                                        symbolic::Expr var);

/// A kernel under one schedule. The guard is a condition over the kernel's parameters that says where the version is the better one (all are right
/// everywhere); the last version of a kernel has none.
struct Version {
  std::string schedule;
  symbolic::Expr guard;
  loop::Kernel kernel = {};               // `schedule` applied; filled in by choose_versions
  std::vector<std::string> refused = {};  // better ones that could not be proved legal: which step, which rule
};
using Versions = std::vector<Version>;

/// Makes a naive nest anew, in a context of its own, so that its loops have the names that a schedule calls them by.
using KernelSource = std::function<loop::Kernel()>;

/// The schedulers in order of priority; the last accepts everything. `kernel` is what the guards speak of; each version is applied to a nest that
/// `anew` makes.
Versions choose_versions(const loop::Kernel& kernel, const KernelSource& anew);

/// Applies `version.schedule`. Where that is illegal and some of its steps only make the nest faster (prefetch, hint, skip), leaves those out; what was illegal
/// is noted in `refused`. False: illegal without them, too.
bool apply_or_leave_out_hints(Version& version, const KernelSource& anew, std::vector<std::string>& refused);

Versions schedule_rows(const loop::Kernel& kernel, const NestForm& form);         // for kernels of class "rows"
Versions schedule_attention(const loop::Kernel& kernel, const NestForm& form);    // for kernels of class "attention"
Versions schedule_scan(const loop::Kernel& kernel, const NestForm& form);         // for kernels of class "scan"
Versions schedule_contraction(const loop::Kernel& kernel, const NestForm& form);  // none: not this form
Versions schedule_reduction(const loop::Kernel& kernel, const NestForm& form);
Versions schedule_map(const loop::Kernel& kernel, const NestForm& form);
Versions schedule_fallback(const NestForm& form);

/// Lanes of a vector loop: 16, or 32 where all element types are one byte.
int lanes_of(const loop::Kernel& kernel);

}  // namespace stax::schedule
