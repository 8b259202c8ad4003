// SPDX-License-Identifier: Apache-2.0
// Local buffers under masks: what is left out of a write may be written anyway only where nobody reads it.
#include <fmt/format.h>

#include <random>

#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

// What is done with the sums of 32 columns, of which `guard` says which are there.
std::string tile(std::string_view first, std::string_view update, std::string_view last) {
  return fmt::format(R"(kernel @tile map {{
    param m 0 .. 1000 param n 0 .. 1000 param k 0 .. 1000
    argument 0 @a f32 [m, k] argument 1 @b f32 [k, n] argument 2 @c f32 [m, 32] written local 3 @acc f32 [2, 32] written
    for i in m {{ allocate 3 {{
      for j in 32 vector 16 {{ {} }}
      for r in k {{ for u in 2 unrolled {{ for j in 32 vector 16 {{ {} }} }} }}
      for j in 32 vector 16 {{ {} }}
    }} }}
  }})",
                     first, update, last);
}

constexpr const char* kClear = "%3[0, j] = 0.0:f32 %3[1, j] = 1.0:f32";
// Not 0 where the second load is left out.
constexpr const char* kAdd = "%3[u, j] sum= add(load0[i, r], load1[r, j])";
constexpr const char* kWrite = "%2[i, j] = add(load3[0, j], load3[1, j])";

std::string where(std::string_view condition, std::string_view what, std::string_view otherwise = {}) {
  return fmt::format("if cast<bool>([{}]) {{ {} }}", condition, what) +
         (otherwise.empty() ? "" : fmt::format(" else {{ {} }}", otherwise));
}

TEST(Guarded, IsWhatTheLoopsSay) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const std::string inside = "less(j, n)", nothing = "%2[i, j] = -1.0:f32";
  const std::string kernels[] = {
      // Guarded alike; and with a further condition where it is read.
      tile(where(inside, kClear), where(inside, kAdd), where(inside, kWrite, nothing)),
      tile(where(inside, kClear), where(inside, kAdd), where(inside, where("less(j, k)", kWrite, nothing), nothing)),
      // Read where it was not updated.
      tile(kClear, where(inside, kAdd), kWrite),
      tile(where(inside, kClear, kClear), where(inside, kAdd), where(inside, kWrite, kWrite)),
      // Updated under less, and under what changes from one update to the next.
      tile(where(inside, kClear), where(inside, where("less(j, k)", kAdd)), where(inside, kWrite, nothing)),
      tile(where(inside, kClear), where("min(less(j, n), less(j, r + 3))", kAdd), where(inside, kWrite, nothing)),
      tile(where(inside, kClear), where(inside, where("less(j, r + 3)", kAdd)), where(inside, kWrite, nothing)),
      // Another element than the condition is about.
      tile(where(inside, kClear),
           where(inside, kAdd) + " " + where("min(less(j, n), less(n, j + 32))", "%3[u, -j + 31] = load3[u, -j + 31]"),
           where(inside, kWrite, nothing)),
  };
  for (const std::string& kernel : kernels) {
    SCOPED_TRACE(kernel);
    Comparison comparison(kernel);
    comparison.tolerance = {1e-5, 1e-5};
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{2, 32, 3}, {1, 1, 1}, {3, 17, 9}, {1, 16, 0}, {2, 31, 20}, {1, 40, 40}})
      comparison.check(shape, seed);
  }
}

constexpr const char* kProduct = "%3[u, j] sum= mul(load0[i, r], load1[r, j])";

// A masked addition to what is in a register is a choice between two values.
TEST(Guarded, SumsOfATileHaveNoMask) {
  const std::string inside = "less(j, n)", nothing = "%2[i, j] = -1.0:f32";
  const auto masked = [&](const std::string& first, const std::string& update) {
    const std::string text =
        emit_asm_text(loop::parse_kernel(tile(first, update, where(inside, kWrite, nothing))), Isa::kAvx512);
    int count = 0;
    for (size_t at = text.find("vfmadd"); at != std::string::npos; at = text.find("vfmadd", at + 1))
      count += text.substr(at, text.find('\n', at) - at).find("{%k") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_EQ(masked(where(inside, kClear), where(inside, kProduct)), 0);
  EXPECT_GT(masked(kClear, where(inside, kProduct)), 0);
}

}  // namespace
}  // namespace stax::emit
