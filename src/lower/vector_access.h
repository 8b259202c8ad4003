// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lanes of one thread as vector accesses.
#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::lower {

/// `body` for lane = 0 .. width - 1, whose iterations are independent. Where the lanes of a load or store lie side by side at an address that is
/// provably a multiple of them, they are one access. Under a condition that may fail for the last lanes alone, whole vectors and single lanes
/// are two branches.
thread::Stmt vectorize_lanes(thread::Kernel& kernel, const ir::Target& target, symbolic::Expr lane, int width,
                             const thread::Stmt& body);

/// Whether `e` is divisible for every thread of a block: what depends on the thread alone is looked at number by number.
bool is_multiple(const thread::Kernel& kernel, symbolic::Expr e, int64_t by);

/// Whether a condition has one answer for a whole vector of lanes, because each of its parts is a < b where a - b is the lane's number plus
/// whole vectors.
bool holds_for_all_or_none(symbolic::Expr condition, symbolic::Expr lane, int width);

}  // namespace stax::lower
