// SPDX-License-Identifier: Apache-2.0
// Row groups: several passes over each row. As for reductions, two forms, told apart by what is contiguous in memory:
//   inner   the row itself is: each pass runs in lanes along it;
//   outer   neighbouring rows are (a softmax over channels): a strip of rows is in lanes, and each pass is a serial loop around it. What was one
//           number for a row is then a strip of them.
#include <algorithm>
#include <map>
#include <set>

#include "loop/access.h"
#include "loop/transform.h"
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {

using ir::Scalar;
using loop::Stmt;
using symbolic::Expr;

namespace {

constexpr int64_t kTogether = 2;    // rows whose passes run side by side
constexpr int64_t kKeeping = 4;     // of those that keep their elements from pass to pass
constexpr int64_t kMostKept = 256;  // elements that a row of those keeps beside its results
constexpr int64_t kShort = 8;       // an axis of fewer elements leaves most lanes empty

/// The innermost loops of the passes, each variable once.
std::vector<loop::For> innermost_loops(const loop::Kernel& kernel) {
  std::vector<loop::For> found;
  loop::visit(kernel.body, [&](const Stmt& s) {
    const auto* f = s->as<loop::For>();
    if (f == nullptr) return;
    bool is_innermost = true;
    loop::visit(f->body, [&](const Stmt& inner) { is_innermost = is_innermost && inner->as<loop::For>() == nullptr; });
    const bool is_known =
        std::any_of(found.begin(), found.end(), [&](const loop::For& other) { return other.var == f->var; });
    if (is_innermost && !is_known) found.push_back(*f);
  });
  return found;
}

bool is_short(const loop::For& f) { return f.extent.is_constant() && f.extent.constant() < kShort; }

/// Loads of global buffers whose neighbours along `var` are adjacent in memory.
int contiguous_loads(const loop::Kernel& kernel, Expr var) {
  int count = 0;
  loop::visit(kernel.body, [&](const Stmt& s) {
    loop::visit_scalars(*s, [&](Scalar root) {
      ir::visit(root, [&](Scalar x) {
        if (x->kind != ir::ScalarKind::kLoad || x->slot >= kernel.arguments) return;
        const auto stride = stride_of(kernel, x, var);
        count += stride && stride->is_constant(1) ? 1 : 0;
      });
    });
  });
  return count;
}

/// Global buffers whose rows come from memory or go there, element by element along `pass`: those worth a hint.
std::vector<int> streamed_buffers(const loop::Kernel& kernel, Expr pass, Expr row) {
  std::map<int, std::vector<Scalar>> places;
  std::set<int> scattered;
  for (const loop::Access& a : loop::accesses_in(kernel.body)) {
    const auto moves = [&](Expr var) {
      return std::ranges::any_of(a.index, [&](Scalar i) { return loop::depends_on(i, var); });
    };
    if (a.slot >= kernel.arguments || !moves(pass)) continue;
    const auto [place, is_new] = places.try_emplace(a.slot, a.index);
    const auto stride = stride_of(kernel, a.slot, a.index, pass);
    if (!moves(row) || !stride || !stride->is_constant(1) || place->second != a.index) scattered.insert(a.slot);
  }
  std::vector<int> slots;
  for (const auto& [slot, place] : places)
    if (!scattered.contains(slot)) slots.push_back(slot);
  return slots;
}

bool keeps_elements(const loop::Kernel& kernel) {
  return std::any_of(kernel.buffers.begin() + kernel.arguments, kernel.buffers.end(),
                     [](const loop::Buffer& b) { return !b.extents.empty(); });
}

/// Where rows are done one after the other: there is one, or what they keep beside their results is much.
Expr better_apart(const loop::Kernel& kernel, Expr rows, const std::vector<loop::For>& inner) {
  symbolic::ExprTable& table = rows.table();
  Expr apart = symbolic::less(rows, table.constant(kTogether));
  if (keeps_elements(kernel))
    for (const loop::For& f : inner)
      apart = symbolic::logical_or(apart, symbolic::less(table.constant(kMostKept), f.extent));
  return apart;
}

/// Lanes along each row. What comes between two passes is a chain of dear operations on single numbers; rows side by side share the wait for it.
std::string along_rows_of(const loop::Kernel& kernel, const NestForm& form, const std::vector<loop::For>& inner,
                          const std::string& lanes, int64_t together) {
  StepList steps(names_of(form.outer));
  std::vector<std::string> passes;
  for (const loop::For& f : inner) passes.push_back(loop::loop_name(f.var));
  const auto hint = [&](const std::string& row) {
    if (inner.size() != 1) return;
    for (int slot : streamed_buffers(kernel, inner[0].var, form.outer.back().var))
      steps.step("prefetch " + std::to_string(slot) + " " + passes[0] + " row " + row);
  };
  if (together > 1) {
    // What is left over has a nest of its own, whose loops are called after those of the whole one.
    const std::string row = loop::loop_name(form.outer.back().var);
    steps.split(row, together, "cases " + row + "l");
    hint(row + "o");
    steps.step("sink " + row + "i apart");
    steps.step("unroll " + row + "i");
    for (size_t k = 0; k < inner.size(); ++k) passes.push_back(passes[k] + "_t");
  }
  if (together == 1 && !form.outer.empty()) hint(loop::loop_name(form.outer.back().var));
  for (const std::string& pass : passes) steps.step("vectorize " + pass + " " + lanes);
  steps.parallelize_first(form.outer.size());
  return steps.str();
}

}  // namespace

Versions schedule_rows(const loop::Kernel& kernel, const NestForm& form) {
  std::vector<loop::For> inner = innermost_loops(kernel);
  // Where no member has a domain beside the rows, there are no passes.
  std::erase_if(inner, [&](const loop::For& f) {
    return std::any_of(form.outer.begin(), form.outer.end(), [&](const loop::For& row) { return row.var == f.var; });
  });
  StepList steps(names_of(form.outer));
  const std::string lanes = std::to_string(lanes_of(kernel));
  int along_inner = 0;
  bool all_short = true;
  for (const loop::For& f : inner) {
    along_inner += contiguous_loads(kernel, f.var);
    all_short = all_short && is_short(f);
  }
  const bool has_long_rows = !form.outer.empty() && !is_short(form.outer.back());
  const int along_rows = has_long_rows ? contiguous_loads(kernel, form.outer.back().var) : 0;
  if (!has_long_rows || (along_inner >= along_rows && !all_short)) {
    const std::string one = along_rows_of(kernel, form, inner, lanes, 1);
    if (!has_long_rows) return {{one, {}}};
    const std::string together =
        along_rows_of(kernel, form, inner, lanes, keeps_elements(kernel) ? kKeeping : kTogether);
    const Expr apart = better_apart(kernel, form.outer.back().extent, inner);
    if (apart.is_constant(0)) return {{together, {}}};
    if (apart.is_constant(1)) return {{one, {}}};
    return {{one, apart}, {together, {}}};
  }
  const loop::For& last = form.outer.back();
  const std::string row = loop::loop_name(last.var);
  steps.sink_strips(row, last.extent, lanes);
  return {{steps.str(), {}}};
}

}  // namespace stax::schedule
