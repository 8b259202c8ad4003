// SPDX-License-Identifier: Apache-2.0
#include "unit/emit/native.h"

#include <random>

namespace stax::emit {
namespace {

TEST(Native, AddsVectors) {
  for (Isa isa : testable_isas()) {
    const Native add(R"(kernel @add map {
      param n 0 .. 1000
      argument 0 @x f32 [n]
      argument 1 @y f32 [n]
      argument 2 @z f32 [n] written
      for i in n vector 16 { %2[i] = add(load0[i], load1[i]) }
    })", isa);
    for (int64_t n : {0, 1, 7, 15, 16, 17, 31, 32, 33, 97, 256}) {
      Guarded x(n * 4), y(n * 4), z(n * 4);
      for (int64_t i = 0; i < n; ++i) x.as<float>()[i] = 0.5F * i, y.as<float>()[i] = 3.0F - i;
      add.run({x.data(), y.data(), z.data()}, {n});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(z.as<float>()[i], 3.0F - 0.5F * i) << n << " " << i;
    }
  }
}

}  // namespace
}  // namespace stax::emit
