// SPDX-License-Identifier: Apache-2.0
#include "schedule/gpu_steps.h"

#include <algorithm>

#include "loop/access.h"
#include "loop/transform.h"

namespace stax::schedule {

using symbolic::Expr;

std::string fuse_outer(StepList& steps, size_t count) {
  std::string fused = steps.order()[0];
  for (size_t k = 1; k < count; ++k) {
    const std::string next = "f" + std::to_string(k);
    steps.step("fuse " + fused + " " + steps.order()[k] + " -> " + next);
    fused = next;
  }
  return fused;
}

bool is_legal(const loop::Kernel& kernel, const GpuVersion& v) {
  try {
    loop::apply_schedule(with_known(kernel, v.known), v.schedule);
    return true;
  } catch (const loop::IllegalTransform&) {
    return false;
  }
}

void require(GpuVersion& v, Expr condition) {
  for (Expr* e : {&v.guard, &v.necessary}) *e = *e ? symbolic::logical_and(*e, condition) : condition;
}

bool make_multiple(const loop::Kernel& kernel, Expr e, int64_t multiple, GpuVersion& v) {
  if (e.multiple() % multiple == 0) return true;
  if (!e.is_symbol()) return false;
  for (size_t k = 0; k < kernel.params.size(); ++k) {
    if (kernel.params[k] != e) continue;
    if (std::any_of(v.known.begin(), v.known.end(), [&](const Known& m) { return m.param == k; })) return true;
    v.known.push_back({k, multiple, {}});
    require(v, symbolic::equal(symbolic::mod(e, multiple), 0));
    return true;
  }
  return false;
}

std::optional<ContractionAxes> contraction_axes(const NestForm& form) {
  if (form.inner_loads.size() != 2 || form.outer.size() < 2) return std::nullopt;
  const auto moves = [&](ir::Scalar load, const loop::For& f) {
    return std::any_of(load->args.begin(), load->args.end(), [&](ir::Scalar i) { return loop::depends_on(i, f.var); });
  };
  int m = -1, n = -1, right = 0;
  for (int k = static_cast<int>(form.outer.size()) - 1; k >= 0; --k) {
    const bool first = moves(form.inner_loads[0], form.outer[k]), second = moves(form.inner_loads[1], form.outer[k]);
    if (first == second) continue;
    if (n < 0) {
      n = k, right = second ? 1 : 0;
    } else if (m < 0 && (right == 1) == first) {
      m = k;
    }
  }
  if (m < 0 || n < 0) return std::nullopt;
  return ContractionAxes{m, n, right};
}

Expr fills_machine(const NestForm& form, const ContractionAxes& axes, int rows, int columns, const ir::Target& target) {
  symbolic::ExprTable& table = form.outer.front().extent.table();
  Expr blocks = table.constant(1);
  for (size_t k = 0; k < form.outer.size(); ++k) {
    const int axis = static_cast<int>(k), tile = axis == axes.rows ? rows : axis == axes.columns ? columns : 1;
    blocks = blocks * symbolic::ceildiv(form.outer[k].extent, tile);
  }
  return symbolic::less_equal(table.constant((target.units + 1) / 2), blocks);
}

}  // namespace stax::schedule
