// SPDX-License-Identifier: Apache-2.0
// Products whose result takes many instructions: code that stays a loop over rows, while the sums are in registers.
#include <fmt/format.h>

#include <random>

#include "loop/passes.h"
#include "loop/transform.h"
#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

std::string product(std::string_view epilogue) {
  return fmt::format(R"(kernel @product contraction {{
    param m 0 .. 1000 param n 0 .. 1000 param k 0 .. 1000
    argument 0 @a f32 [m, k] argument 1 @b f32 [k, n] argument 2 @bias f32 [n] argument 3 @c f32 [m, n] written local 4 @acc f32 [] written
    for i in m {{ for j in n {{ allocate 4 {{
      %4[] = 0.0:f32
      for r in k {{ %4[] sum= mul(load0[i, r], load1[r, j]) }}
      %3[i, j] = {}
    }} }} }}
  }})",
                     epilogue);
}

constexpr const char* kTile =
    "interchange i j; split i {0} -> io ii {1}; split j 32 -> jo ji guard; interchange ji io; interchange ji ii; "
    "interchange jo io; "
    "interchange io jo; sink ii; sink ji; vectorize ji 16; unroll ii";
constexpr const char* kGelu =
    "mul(add(load4[], load2[j]), add(1.0:f32, erf(mul(add(load4[], load2[j]), 0.70710677:f32))))";

TEST(CostlyEpilogue, IsWhatTheLoopsSay) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (const char* epilogue : {kGelu, "tanh(load4[])", "add(load4[], load2[j])"}) {
    for (const int rows : {3, 4, 9, 12}) {
      for (const char* mode : {"clamped", "guard"}) {
        Comparison comparison(
            loop::apply_schedule(loop::parse_kernel(product(epilogue)), fmt::format(fmt::runtime(kTile), rows, mode)));
        comparison.tolerance = {1e-5, 1e-5};
        for (const std::vector<int64_t>& shape :
             {std::vector<int64_t>{0, 5, 3}, {1, 1, 1}, {rows, 32, 4}, {rows + 1, 50, 0}, {2 * rows + 3, 70, 9}})
          comparison.check(shape, seed);
      }
    }
  }
}

TEST(CostlyEpilogue, IsThereOnce) {
  // Code of twelve rows is little more than that of four where the sums are all that a further row adds.
  const auto length = [](const char* epilogue, int rows) {
    return static_cast<double>(emit_asm_text(loop::apply_schedule(loop::parse_kernel(product(epilogue)),
                                                                  fmt::format(fmt::runtime(kTile), rows, "clamped")),
                                             Isa::kAvx512)
                                   .size());
  };
  EXPECT_LT(length(kGelu, 12), 2 * length(kGelu, 4));
}

}  // namespace
}  // namespace stax::emit
