// SPDX-License-Identifier: Apache-2.0
#include "procedures/procedures.h"

namespace stax::procedures {

void* Scratch::reserve(size_t bytes) {
  if (bytes > capacity_) {
    // Half as much again, so that slowly growing requests do not allocate each time.
    const size_t wanted = bytes > capacity_ + capacity_ / 2 ? bytes : capacity_ + capacity_ / 2;
    release();
    memory_.reset(new std::byte[wanted]);
    capacity_ = wanted;
  }
  return memory_.get();
}

void Scratch::release() {
  memory_.reset();
  capacity_ = 0;
}

AxisView view_along(std::span<const int64_t> extents, int axis) {
  AxisView view;
  for (int k = 0; k < static_cast<int>(extents.size()); ++k) {
    if (k < axis) view.outer *= extents[k];
    if (k == axis) view.count = extents[k];
    if (k > axis) view.inner *= extents[k];
  }
  return view;
}

}  // namespace stax::procedures
