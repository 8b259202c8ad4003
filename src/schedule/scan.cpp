// SPDX-License-Identifier: Apache-2.0
// Running sums along another axis than the one along which elements are neighbours: a strip of neighbouring sums runs together, in vector lanes. Others
// wait for the element before, in the order of memory, and a thread has whole rows.
#include <algorithm>

#include "loop/access.h"
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {

Versions schedule_scan(const loop::Kernel& kernel, const NestForm& form) {
  if (form.outer.empty()) return {};
  const std::vector<loop::Access> accesses = loop::accesses_in(kernel.body);
  for (size_t k = form.outer.size(); k-- > 0;) {
    const bool contiguous = std::all_of(accesses.begin(), accesses.end(), [&](const loop::Access& a) {
      if (a.slot >= kernel.arguments) return true;
      const auto stride = stride_of(kernel, a.slot, a.index, form.outer[k].var);
      return stride && stride->is_constant(1);
    });
    if (!contiguous) continue;
    StepList steps(names_of(form.outer));
    const std::string row = form.outer[k].var.symbol().name;
    steps.move(row, form.outer.size() - 1);
    steps.sink_strips(row, form.outer[k].extent, std::to_string(lanes_of(kernel)));
    return {{steps.str(), {}}};
  }
  return {};
}

}  // namespace stax::schedule
