// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the local buffers of a kernel of blocks lie.
#include <vector>

#include "lower/fragments.h"

namespace stax::lower {

enum class Place : uint8_t {
  kThread,      // of one thread: allocated inside a thread loop
  kReplicated,  // every thread keeps a copy of equal values
  kSpread,  // `axis` counts iterations of thread loops: each thread keeps its own elements, without that axis or with one of `per_thread`
  kFragment,  // matrices that the lanes of a warp share: each warp has a box of elements of its own
  kShared,
};

/// Of a spread buffer an iteration v of the thread loops touches a box of elements that begins at a corner which depends on v alone; its thread
/// keeps `box` elements for each of its iterations. In every access an index is a sum of the corner and a part that does not depend on v.
struct Placement {
  Place place = Place::kShared;
  std::vector<int64_t> box,
      stride;  // elements, and how far apart they are; of spread buffers in as many steps as it takes: along axis 0 from
               // the furthest apart to neighbours, then along axis 1, ..
  std::vector<size_t> axis;  // of spread buffers: along which axis each step goes
  int64_t per_thread = 1;    // iterations of one thread
  // Of fragments: a lane keeps what it has of each tile of the box. `row_axis` of the buffer is the one of the rows.
  MatrixPart part = MatrixPart::kSum;
  int row_axis = 0;
};

/// By slot; those of arguments are not looked at.
std::vector<Placement> place_buffers(const loop::Kernel& kernel, int block);

/// The part of an index that does not depend on `var`; null if the index is no sum of such a part and one of `var` alone.
symbolic::Expr without_thread(symbolic::Expr index, symbolic::Expr var);

/// Which of the steps number `step` an element is at whose part of the index along its axis is `inner`.
symbolic::Expr digit(const Placement& spread, size_t step, symbolic::Expr inner);

}  // namespace stax::lower
