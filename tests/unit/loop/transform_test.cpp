// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

namespace stax::loop::testing {
namespace {

TEST(Split, AllModesKeepTheResults) {
  expect_schedule(kMap, "split j 8 -> jo ji");
  expect_schedule(kMap, "split j 8 -> jo ji guard");
  expect_schedule(kMap, "split j 8 -> jo ji separate jt");
  expect_schedule(kMap, "split j 8 -> jo ji cases jt");
  expect_schedule(kMap, "split i 1 -> io ii exact");
  expect_schedule(kRow, "split i 8 -> io ii separate it; split r 4 -> ro ri separate rt; split j 8 -> jo ji");
}

TEST(Split, RegisterTileOfAContraction) {
  expect_schedule(kMatmul,
                  "split j 8 -> jo ji separate jt; split i 4 -> io ii separate it; sink ii; sink ji; vectorize ji 4;"
                  "unroll ii; sink jt; vectorize jt 4; sink it; sink ji_t; vectorize ji_t 4");
  expect_schedule(kMatmul,
                  "split j 8 -> jo ji cases jt; interchange i jo; split i 4 -> io ii cases it; fuse jo io -> p;"
                  "parallelize p; sink ii; sink ji; vectorize ji 4; unroll ii; sink jt; vectorize jt 8; sink it;"
                  "sink ji_t; vectorize ji_t 8; sink jt_t; vectorize jt_t 8");
}

}  // namespace
}  // namespace stax::loop::testing
