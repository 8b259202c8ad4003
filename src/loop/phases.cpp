// SPDX-License-Identifier: Apache-2.0
#include "loop/phases.h"

#include <algorithm>

#include "loop/access.h"
#include "loop/transform_step.h"
#include "support/error.h"

namespace stax::loop {

Kernel add_param(const Kernel& kernel, symbolic::SymbolInfo info) {
  Kernel result = kernel;
  info.name = "p" + std::to_string(kernel.params.size());
  info.kind = symbolic::SymbolKind::kParam;
  result.params.push_back(result.context->exprs.new_symbol(std::move(info)));
  return result;
}

std::vector<Phase> phases_of(const Kernel& kernel) {
  Stmt at = kernel.body;
  while (const auto* a = at->as<Allocate>()) at = a->body;
  const auto* block = at->as<Block>();
  if (block == nullptr) return {};
  std::vector<Phase> phases;
  for (const Stmt& s : block->statements) {
    std::vector<int> used, own = slots_allocated_in(s);
    const std::vector<int> written = slots_written_in(s);
    for (const Access& a : accesses_in(s))
      if (std::find(own.begin(), own.end(), a.slot) == own.end()) used.push_back(a.slot);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    const auto is_written = [&](int slot) { return std::find(written.begin(), written.end(), slot) != written.end(); };
    std::stable_partition(used.begin(), used.end(), [&](int slot) { return !is_written(slot); });

    Phase phase;
    Kernel& k = phase.kernel;
    k = kernel;
    k.buffers.clear();
    k.schedule.clear();
    k.arguments = static_cast<int>(used.size());
    phase.arguments = used;
    used.insert(used.end(), own.begin(), own.end());
    k.body = s;
    const int apart = static_cast<int>(kernel.buffers.size());  // so that no number is both an old and a new one
    const auto renumber = [&](int from, int to) {
      k.body = map_accesses(k.body, from, to, [](const std::vector<Scalar>& index) { return index; });
    };
    for (size_t n = 0; n < used.size(); ++n) {
      Buffer b = kernel.buffers[static_cast<size_t>(used[n])];
      if (static_cast<int>(n) < k.arguments) {
        b.scope = Scope::kGlobal;
        b.written = is_written(used[n]);
      }
      k.buffers.push_back(std::move(b));
      renumber(used[n], apart + static_cast<int>(n));
    }
    for (size_t n = 0; n < used.size(); ++n) renumber(apart + static_cast<int>(n), static_cast<int>(n));
    // In a context of its own, like any naive nest.
    phase.kernel = parse_kernel(print(k));
    phases.push_back(std::move(phase));
  }
  return phases;
}

}  // namespace stax::loop
