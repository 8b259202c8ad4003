// SPDX-License-Identifier: Apache-2.0
#include "schedule/gpu_steps.h"

#include <fmt/format.h>

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
  if (e.kind() == symbolic::ExprKind::kMin || e.kind() == symbolic::ExprKind::kAdd) {
    GpuVersion with = v;
    for (Expr a : e.args())
      if (!make_multiple(kernel, a, multiple, with)) return false;
    v = std::move(with);
    return true;
  }
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
  const auto axes = product_axes(form);
  return axes && axes->rows >= 0 ? axes : std::nullopt;
}

std::optional<ContractionAxes> product_axes(const NestForm& form) {
  if (form.inner_loads.size() != 2) return std::nullopt;
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
  if (n < 0) return std::nullopt;
  return ContractionAxes{m, n, right};
}

bool is_contiguous(const loop::Kernel& kernel, ir::Scalar load, const loop::For& along) {
  const auto stride = stride_of(kernel, load, along.var);
  return stride && stride->is_constant(1);
}

Expr first_extent(Expr extent, const std::vector<loop::For>& around) {
  symbolic::Substitution first;
  for (const loop::For& f : around) first[f.var.node()] = extent.table().constant(0);
  return symbolic::substitute(extent, first);
}

ReductionNeighbours reduction_neighbours(const loop::Kernel& kernel, const NestForm& form) {
  ReductionNeighbours found{form.outer.empty(), false};
  for (ir::Scalar load : form.inner_loads) {
    const auto s = stride_of(kernel, load, form.reductions.back().var);
    found.along_reduction |= s && s->is_constant(1);
    if (form.outer.empty() || (s && s->is_constant(0))) continue;
    found.along_row |= is_contiguous(kernel, load, form.outer.back());
  }
  return found;
}

namespace {

// Whether tiles of that many rows and columns are blocks for half of the machine at least.
Expr fills_machine(const Contraction& c, const ResultTile& tile) {
  symbolic::ExprTable& table = c.kernel.context->exprs;
  Expr blocks = table.constant(1);
  for (size_t k = 0; k < c.form.outer.size(); ++k) {
    const int axis = static_cast<int>(k);
    const int side = axis == c.axes.rows ? tile.rows : axis == c.axes.columns ? tile.columns : 1;
    blocks = blocks * symbolic::ceildiv(c.form.outer[k].extent, side);
  }
  return symbolic::less_equal(table.constant((c.target.units + 1) / 2), blocks);
}

}  // namespace

bool align_factor(const Contraction& c, bool right, int vector, GpuVersion& v) {
  const loop::Buffer& buffer = c.kernel.buffers[static_cast<size_t>(c.load(right)->slot)];
  if (!buffer.strides.empty()) return false;
  const bool deep = c.is_deep(right);
  if (!deep && !is_contiguous(c.kernel, c.load(right), c.axis(right))) return false;
  if (!make_multiple(c.kernel, deep ? c.form.reductions.back().extent : c.axis(right).extent, vector, v)) return false;
  return buffer.extents.size() < 2 || make_multiple(c.kernel, buffer.extents.back(), vector, v);
}

std::vector<GpuVersion> tile_versions(const Contraction& c, int vector, const std::vector<ResultTile>& tiles,
                                      const std::function<bool(size_t tile, bool aligned, GpuVersion& v)>& fill) {
  std::vector<GpuVersion> versions;
  const auto at_least = [&](int64_t least, Expr extent) {
    return symbolic::less_equal(c.kernel.context->exprs.constant(least), extent);
  };
  for (size_t t = 0; t < tiles.size(); ++t) {
    for (const bool aligned : {true, false}) {
      GpuVersion v;
      if (aligned && !(align_factor(c, false, vector, v) && align_factor(c, true, vector, v))) continue;
      if (!fill(t, aligned, v)) continue;
      v.reasons.push_back(aligned ? fmt::format("{} elements a copy", vector) : "copies of one element: any extents");
      Expr fit = symbolic::logical_and(at_least(tiles[t].least_rows, c.axis(false).extent),
                                       at_least(tiles[t].least_columns, c.axis(true).extent));
      if (tiles[t].has_smaller) fit = symbolic::logical_and(fit, fills_machine(c, tiles[t]));
      v.guard = v.guard ? symbolic::logical_and(v.guard, fit) : fit;
      if (v.guard.is_constant(0)) continue;
      const bool always = v.guard.is_constant(1);
      if (always) v.guard = {};
      versions.push_back(std::move(v));
      if (always) return versions;
      // Where it is always aligned there is no other.
      if (aligned && !versions.back().necessary) break;
    }
  }
  return versions;
}

void split_tile(StepList& steps, const std::string& axis, int tile, int vector) {
  if (vector > 1) {
    steps.step(fmt::format("split {0} {1} -> {0}v {0}l exact", axis, vector));
    steps.step(fmt::format("split {0}v {1} -> {0}o {0}w clamped", axis, tile / vector));
    steps.step(fmt::format("fuse {0}w {0}l -> {0}i", axis));
  } else {
    steps.step(fmt::format("split {0} {1} -> {0}o {0}i clamped", axis, tile));
  }
}

std::string fuse_reductions(StepList& steps, const NestForm& form) {
  std::string fused = loop::loop_name(form.reductions[0].var);
  for (size_t r = 1; r < form.reductions.size(); ++r) {
    const std::string next = "g" + std::to_string(r);
    steps.step("fuse " + fused + " " + loop::loop_name(form.reductions[r].var) + " -> " + next);
    fused = next;
  }
  return fused;
}

}  // namespace stax::schedule
