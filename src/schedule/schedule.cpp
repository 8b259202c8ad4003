// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "loop/transform.h"
#include "support/error.h"

namespace stax::schedule {

using ir::Scalar;
using ir::ScalarKind;
using loop::Stmt;
using symbolic::Expr;

namespace {

void collect_loads(const loop::Kernel& kernel, Scalar root, std::vector<Scalar>& loads) {
  ir::visit(root, [&](Scalar s) {
    if (s->kind == ScalarKind::kLoad && s->slot < kernel.arguments &&
        std::find(loads.begin(), loads.end(), s) == loads.end())
      loads.push_back(s);
  });
}

}  // namespace

NestForm analyze(const loop::Kernel& kernel) {
  NestForm form;
  Stmt at = kernel.body;
  while (const auto* f = std::get_if<loop::For>(&at->v)) {
    form.outer.push_back(*f);
    at = f->body;
  }
  while (const auto* a = std::get_if<loop::Allocate>(&at->v)) {
    ++form.accumulators;
    at = a->body;
  }
  if (const auto* s = std::get_if<loop::Store>(&at->v)) {
    collect_loads(kernel, s->value, form.inner_loads);
    form.loads = form.inner_loads;
    form.matches = form.accumulators == 0;
    return form;
  }
  const auto* block = std::get_if<loop::Block>(&at->v);
  if (!block) return form;
  bool updated = false, stored = false;
  for (const Stmt& s : block->statements) {
    Stmt inner = s;
    std::vector<loop::For> loops;
    while (const auto* f = std::get_if<loop::For>(&inner->v)) {
      loops.push_back(*f);
      inner = f->body;
    }
    if (const auto* store = std::get_if<loop::Store>(&inner->v)) {
      if (!loops.empty()) return form;
      if (store->slot < kernel.arguments) {
        if (stored) return form;
        stored = true;
        collect_loads(kernel, store->value, form.loads);
      }
    } else if (const auto* update = std::get_if<loop::Update>(&inner->v)) {
      if (updated || update->slot < kernel.arguments) return form;
      updated = true;
      form.reductions = loops;
      collect_loads(kernel, update->value, form.inner_loads);
    } else if (std::holds_alternative<loop::If>(inner->v)) {
      if (updated) return form;
      updated = form.has_if = true;
      form.reductions = loops;
    } else {
      return form;
    }
  }
  for (Scalar s : form.inner_loads)
    if (std::find(form.loads.begin(), form.loads.end(), s) == form.loads.end()) form.loads.push_back(s);
  form.matches = updated && stored;
  return form;
}

std::optional<Expr> stride_of(const loop::Kernel& kernel, Scalar load, Expr var) {
  return stride_of(kernel, load->slot, load->args, var);
}

std::optional<Expr> stride_of(const loop::Kernel& kernel, int slot, std::span<const Scalar> index, Expr var) {
  const loop::Buffer& buffer = kernel.buffers[static_cast<size_t>(slot)];
  symbolic::ExprTable& table = kernel.context->exprs;
  Expr stride = table.constant(0), step = table.constant(1);
  for (size_t k = index.size(); k-- > 0;) {
    Expr pitch = buffer.strides.empty() ? step : buffer.strides[k];
    Expr e = ir::as_expr(index[k]);
    if (!e) {
      bool inside = false;
      ir::visit(index[k],
                [&](Scalar s) { inside |= s->kind == ScalarKind::kIndex && symbolic::depends_on(s->index, var); });
      if (inside) return std::nullopt;
    } else if (symbolic::depends_on(e, var)) {
      auto affine = symbolic::affine_in(e, var);
      if (!affine) return std::nullopt;
      stride = stride + affine->coefficient * pitch;
    }
    step = step * buffer.extents[k];
  }
  return stride;
}

int lanes_of(const loop::Kernel& kernel) {
  for (const loop::Buffer& b : kernel.buffers)
    if (ir::byte_size(b.dtype) > 1) return 16;
  return 32;
}

namespace {

Versions proposals(const loop::Kernel& kernel, const NestForm& form) {
  // A scatter's points may meet; their order is its meaning.
  if (kernel.kernel_class == "scatter") return {{"", {}}};
  if (kernel.kernel_class == "attention") return schedule_attention(kernel, form);
  if (kernel.kernel_class == "rows") return schedule_rows(kernel, form);
  if (kernel.kernel_class == "scan") return schedule_scan(kernel, form);
  using Scheduler = Versions (*)(const loop::Kernel&, const NestForm&);
  constexpr Scheduler kSchedulers[] = {schedule_contraction, schedule_reduction, schedule_map};
  if (form.matches)
    for (Scheduler scheduler : kSchedulers)
      if (Versions versions = scheduler(kernel, form); !versions.empty()) return versions;
  return {};
}

}  // namespace

bool apply_or_leave_out_hints(Version& version, const KernelSource& anew, std::vector<std::string>& refused) {
  std::string essential;
  for (size_t at = 0; at < version.schedule.size();) {
    const size_t end = std::min(version.schedule.find_first_of(";\n", at), version.schedule.size());
    const size_t first = std::min(version.schedule.find_first_not_of(' ', at), end);
    const std::string step = version.schedule.substr(first, end - first);
    const bool is_hint = step.starts_with("prefetch ") || step.starts_with("hint ") || step.starts_with("skip ");
    if (!step.empty() && !is_hint) essential += step + "\n";
    at = end + 1;
  }
  for (const std::string& schedule : {version.schedule, essential}) {
    try {
      version.kernel = loop::apply_schedule(anew(), schedule);
      version.schedule = schedule;
      return true;
    } catch (const loop::IllegalTransform& e) {
      if (refused.empty() || refused.back() != e.what()) refused.emplace_back(e.what());
    }
  }
  return false;
}

Versions choose_versions(const loop::Kernel& kernel, const KernelSource& anew) {
  const NestForm form = analyze(kernel);
  Versions chosen;
  std::vector<std::string> refused;
  // That iterations over several rows are independent cannot be proved of every place that results may have: what is illegal gives way to what
  // stands behind it.
  const auto take = [&](Versions versions) {
    for (Version& v : versions) {
      if (!apply_or_leave_out_hints(v, anew, refused)) continue;
      v.refused = std::exchange(refused, {});
      chosen.push_back(std::move(v));
      if (!chosen.back().guard) return true;
    }
    return false;
  };
  const bool total = take(proposals(kernel, form)) || take(schedule_fallback(form)) || take({{"", {}}});
  STAX_ASSERT(total, "the naive nest of {} takes every shape", kernel.name);
  return chosen;
}

}  // namespace stax::schedule
