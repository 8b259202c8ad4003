// SPDX-License-Identifier: Apache-2.0
#include "emit/scratch.h"

#include <algorithm>

#include "emit/emit.h"
#include "support/error.h"

namespace stax::emit {
namespace {

using symbolic::Expr;

constexpr int64_t kAlignment = 64;
// Larger buffers do not go on the stack of a thread whose size is not ours to choose.
constexpr int64_t kStackBytes = 32 << 10;

}  // namespace

// Every buffer has a place of its own: the sum of all is at most what the largest tile needs, a few times over.
ScratchPlan plan_scratch(const loop::Kernel& kernel) {
  symbolic::ExprTable& table = kernel.context->exprs;
  ScratchPlan plan;
  plan.offsets.resize(kernel.buffers.size());
  plan.bytes = table.constant(0);
  for (size_t slot = static_cast<size_t>(kernel.arguments); slot < kernel.buffers.size(); ++slot) {
    const loop::Buffer& buffer = kernel.buffers[slot];
    Expr bytes = table.constant(static_cast<int64_t>(ir::byte_size(buffer.dtype)));
    for (Expr extent : buffer.extents) bytes = bytes * symbolic::max(extent, 0);
    if (bytes.is_constant() && bytes.constant() <= kStackBytes) continue;
    for (Expr symbol : symbolic::free_symbols(bytes)) {
      STAX_ASSERT(std::find(kernel.params.begin(), kernel.params.end(), symbol) != kernel.params.end(),
                  "the size of local buffer {} depends on {}, which is no parameter", buffer.name, symbol.str());
    }
    plan.offsets[slot] = plan.bytes;
    plan.bytes = plan.bytes + symbolic::ceildiv(bytes, kAlignment) * kAlignment;
  }
  return plan;
}

symbolic::Expr scratch_bytes(const loop::Kernel& kernel) { return plan_scratch(kernel).bytes; }

}  // namespace stax::emit
