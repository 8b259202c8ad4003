// SPDX-License-Identifier: Apache-2.0
#include "thread/passes.h"

namespace stax::thread {

std::span<const Pass> passes(int index_bits) {
  static constexpr Pass kPasses[] = {
      // Registers have no index: the elements of local buffers get constant ones.
      {"unroll_loops", unroll_loops},
      // After unrolling, when each copy has its conditions; barriers are for both loops.
      {"peel_rests", peel_rests},
      // After unrolling, which shows which locations belong to one thread.
      {"insert_barriers", insert_barriers},
      // Of 32-bit arithmetic alone: the last.
      {"reduce_divisions", reduce_divisions},
  };
  return std::span(kPasses).first(index_bits == 32 ? 4 : 3);
}

}  // namespace stax::thread
