// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how a naive nest becomes a grid of blocks of threads. The result is schedule text (loop/transform.h) in which one loop is parallel
// (blocks) and others are of kind thread, and what else a version needs to know.
#include <optional>
#include <string>
#include <vector>

#include "ir/target.h"
#include "schedule/schedule.h"

namespace stax::schedule {

/// What a version takes for granted of a parameter, by its number in the kernel: that it is a multiple, or a value.
struct Known {
  size_t param = 0;
  int64_t multiple = 1;
  std::optional<int64_t> value;
};

/// The kernel as a version with that knowledge has it.
loop::Kernel with_known(const loop::Kernel& kernel, const std::vector<Known>& known);

struct GpuVersion {
  std::string schedule;
  int block = 1;                     // threads
  std::vector<std::string> reasons;  // one line a decision, for `dump --stage mapping`
  std::vector<Known> known;
  bool rows_in_global = false;  // buffers of blocks whose size depends on the shape lie in global memory
  symbolic::Expr guard;         // over the kernel's parameters; null: any shape
  symbolic::Expr necessary;     // the part of it that says what is known; null: nothing
};

/// The last version has no guard.
std::vector<GpuVersion> choose_gpu_versions(const loop::Kernel& kernel, const ir::Target& target);

}  // namespace stax::schedule
