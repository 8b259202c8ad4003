// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the schedulers of GPU kernels share.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/gpu.h"
#include "schedule/step_list.h"

namespace stax::schedule {

/// Fuses the first `count` loops of the list into one and gives its name.
std::string fuse_outer(StepList& steps, size_t count);

/// Whether all steps of the version can be applied.
bool is_legal(const loop::Kernel& kernel, const GpuVersion& v);

/// The version is for shapes of which `condition` holds, and wrong for others.
void require(GpuVersion& v, symbolic::Expr condition);
/// Makes `e` a provable multiple by what the version takes for granted of a parameter. False: there is no such parameter.
bool make_multiple(const loop::Kernel& kernel, symbolic::Expr e, int64_t multiple, GpuVersion& v);

/// Of a contraction: the outer loops along which one factor alone moves, `rows` for one and `columns` for the other, and the number in
/// `inner_loads` of the factor that moves along the columns. Columns are the innermost of such loops.
struct ContractionAxes {
  int rows = 0, columns = 0;
  int right = 0;
};
std::optional<ContractionAxes> contraction_axes(const NestForm& form);
/// The same of a matrix and a vector also, which has no rows: -1.
std::optional<ContractionAxes> product_axes(const NestForm& form);

/// Whether the load's neighbours along the loop are neighbours in memory.
bool is_contiguous(const loop::Kernel& kernel, ir::Scalar load, const loop::For& along);

/// Whether neighbours in memory are steps of the reduction, so that a block does one, or results, so that a thread does.
struct ReductionNeighbours {
  bool along_reduction = false, along_row = false;
};
ReductionNeighbours reduction_neighbours(const loop::Kernel& kernel, const NestForm& form);

/// How long a loop is in the first iteration of those around it, which is what guards speak of.
symbolic::Expr first_extent(symbolic::Expr extent, const std::vector<loop::For>& around);

/// A contraction and its two factors, by the axes along which they move.
struct Contraction {
  const loop::Kernel& kernel;
  const ir::Target& target;
  const NestForm& form;
  ContractionAxes axes;

  bool has_rows() const { return axes.rows >= 0; }
  const loop::For& axis(bool right) const { return form.outer[static_cast<size_t>(right ? axes.columns : axes.rows)]; }
  ir::Scalar load(bool right) const {
    return form.inner_loads[static_cast<size_t>(right ? axes.right : 1 - axes.right)];
  }
  /// Neighbours in memory are steps of the reduction.
  bool is_deep(bool right) const { return is_contiguous(kernel, load(right), form.reductions.back()); }
};

/// Takes for granted what accesses of whole vectors to that factor need. False: it cannot be.
bool align_factor(const Contraction& c, bool right, int vector, GpuVersion& v);

/// A tile of results that a block has.
struct ResultTile {
  int rows = 0, columns = 0;
  int64_t least_rows = 0, least_columns = 0;  // from which on it is worth it
  bool has_smaller = false;  // another one serves where this one leaves most of the machine without a block
};
/// The versions of a contraction with each of the tiles, the best first: with copies of `vector` elements where extents are multiples of that,
/// which the version then takes for granted, and one for any extents. `fill` writes the schedule; false: there is none.
std::vector<GpuVersion> tile_versions(const Contraction& c, int vector, const std::vector<ResultTile>& tiles,
                                      const std::function<bool(size_t tile, bool aligned, GpuVersion& v)>& fill);

/// Splits an axis into tiles, `axis`o and `axis`i, of one that is clamped at the end. Where copies are vectors along it, it is one of whole vectors.
void split_tile(StepList& steps, const std::string& axis, int tile, int vector);
/// Fuses the loops of the reduction into one and gives its name.
std::string fuse_reductions(StepList& steps, const NestForm& form);

/// Few rows: what counts is how fast the other factor is read.
std::vector<GpuVersion> skinny_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);
/// Tiles of results in registers of threads.
std::vector<GpuVersion> tiled_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);
/// Attention of tiles of queries; none where keys or values lie in another way than it reads them.
std::vector<GpuVersion> attention_tiles(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);
/// Tiles multiplied by matrix instructions; none where the target has none for the types.
std::vector<GpuVersion> matrix_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form);

}  // namespace stax::schedule
