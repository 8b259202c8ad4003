// SPDX-License-Identifier: Apache-2.0
#pragma once
// What no loop nest of the compiler says: sorting and top-k, nonzero, unique, non-max suppression, determinants, on
// plain arrays. Programs call them; the reference interpreter has definitions of its own (tensor/interpret_procedures.cpp), so that a fault here shows.
//
// All are deterministic, and none depends on how its work was split: those that take a range may be called from several
// threads on disjoint ranges. Arrays are row-major and contiguous. Memory comes from a Scratch that the caller keeps,
// one for each thread, so that repeated calls allocate nothing.
//
// Order of values: ascending; -0 equals +0; a NaN is greater than every number and equal to every NaN; false < true.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ir/dtype.h"

namespace stax::procedures {

/// Memory that grows as needed and is kept between calls. Its contents are not.
class Scratch {
 public:
  /// At least `bytes` bytes, aligned for any type; invalidates what an earlier call returned.
  void* reserve(size_t bytes);
  template <class T>
  T* reserve_array(int64_t n) {
    return static_cast<T*>(reserve(static_cast<size_t>(n) * sizeof(T)));
  }
  size_t capacity() const { return capacity_; }
  void release();

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
};

/// A tensor seen along one axis: [outer, count, inner].
struct AxisView {
  int64_t outer = 1;
  int64_t count = 0;
  int64_t inner = 1;
  int64_t rows() const { return outer * inner; }
};

/// The view of a tensor along `axis`.
AxisView view_along(std::span<const int64_t> extents, int axis);

/// For rows [row_begin, row_end) of view.rows(): the k largest (or smallest) values in order, ties by lower index, k <=
/// view.count. `values` and `indices` are [outer, k, inner]; either may be null. k = count sorts.
void top_k(ir::DType type, const void* data, AxisView view, int64_t k, bool largest, void* values, int64_t* indices,
           int64_t row_begin, int64_t row_end, Scratch& scratch);

/// Elements in [begin, end) that are not zero. A NaN is not zero.
int64_t count_nonzero(ir::DType type, const void* data, int64_t begin, int64_t end);
/// Writes the positions of the nonzero elements in [begin, end) of a tensor as columns first, first + 1, ... of `out`,
/// which is [rank, total]. To split the work: count each range, then write each at the sum of the counts before it.
void write_nonzero(ir::DType type, const void* data, std::span<const int64_t> extents, int64_t begin, int64_t end,
                   int64_t* out, int64_t total, int64_t first);

/// Where unique() writes; null pointers are left out. With n = view.count there must be room for n items each.
struct UniqueOutputs {
  void* items = nullptr;             // [outer, m, inner], contiguous for the m found
  int64_t* first_indices = nullptr;  // [m]
  int64_t* inverse = nullptr;        // [n]: the item that each one is
  int64_t* counts = nullptr;         // [m]
};
/// The different items along the axis (slices of outer x inner elements, compared in row-major order); returns their
/// number m. Sorted ascending, or in the order of first occurrence.
int64_t unique(ir::DType type, const void* data, AxisView view, bool sorted, const UniqueOutputs& out,
               Scratch& scratch);

struct SuppressionOptions {
  int64_t batches = 0, classes = 0, boxes = 0;
  int64_t most_per_class = 0;     // <= 0: none are selected
  double iou_threshold = 0;       // a box is dropped if it overlaps a selected one by more than this
  double score_threshold = 0;     // only boxes with a greater score take part
  bool center_point_box = false;  // [x center, y center, width, height], else two opposite corners [y, x, y, x]
};
/// Rows that one (batch, class) pair may need at most.
int64_t suppression_capacity(const SuppressionOptions& options);
/// For pairs [begin, end) of batches * classes: greedy selection by score (ties by lower index). boxes [batches, boxes,
/// 4], scores [batches, classes, boxes], both of a float `type`. Writes rows {batch, class, box} to `out`, at most
/// suppression_capacity() for each pair, and returns their number. To split the work, join the rows of the ranges in
/// order.
int64_t non_max_suppression(ir::DType type, const void* boxes, const void* scores, const SuppressionOptions& options,
                            int64_t begin, int64_t end, int64_t* out, Scratch& scratch);

/// out[i] = determinant of matrix i of [batch, n, n], for i in [begin, end); a float `type`. By elimination with
/// partial pivoting in double; the determinant of an empty matrix is 1.
void determinant(ir::DType type, const void* data, int64_t n, int64_t begin, int64_t end, void* out, Scratch& scratch);

}  // namespace stax::procedures
