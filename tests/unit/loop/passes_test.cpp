// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "loop/access.h"
#include "loop/dependence.h"

namespace stax::loop::testing {
namespace {

std::string body_of(const Kernel& kernel) {
  const std::string text = print(kernel);
  const size_t begin = text.find("\n  for "), other = text.find("\n  if ");
  return text.substr(std::min(begin, other) + 1);
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

TEST(Simplify, RemovesWhatIsKnown) {
  const Kernel kernel = parse_kernel(R"(kernel @k map {
    param n 0 .. 100
    argument 0 @y f32 [n] written
    local 1 @unused f32 [3]
    for i in n {
      for one in 1 {
        for none in 0 { %0[i] = 1.0:f32 }
        if cast<bool>([less(i + one, n)]) {
          allocate 1 {
            if cast<bool>([less(i, n - 5)]) {
              if cast<bool>([less(i + 5, n)]) { %0[i + one] = cast<f32>([select(less(i, n - 5), min(i, n), 7)]) }
            }
          }
        }
      }
    }
  })");
  EXPECT_EQ(body_of(simplify(kernel)), R"(  for i in n {
    if cast<bool>([less(i + 5, n)]) {
      %0[i] = cast<f32>([i])
    }
  }
}
)");
}

TEST(Simplify, GuardsOfWholeTilesVanish) {
  const Kernel kernel = apply_schedule(parse_kernel(kMap), "split j 8 -> jo ji separate jt");
  EXPECT_EQ(count(print(kernel), "if "), 0);
  const Kernel guarded = parse_kernel(R"(kernel @k map {
    param n 0 .. 100
    argument 0 @y f32 [n] written
    for io in floordiv(n, 8) { for ii in 8 { if cast<bool>([less(io*8 + ii, n)]) { %0[io*8 + ii] = 1.0:f32 } } }
    for it in mod(n, 8) { if cast<bool>([less(floordiv(n, 8)*8 + it, n)]) { %0[floordiv(n, 8)*8 + it] = 2.0:f32 } }
  })");
  EXPECT_EQ(count(print(simplify(guarded)), "if "), 0) << print(simplify(guarded));
}

TEST(PartitionLoops, SteadyPartHasNoGuard) {
  const Kernel guarded =
      simplify(apply_schedule(parse_kernel(kMatmul), "split j 8 -> jo ji guard; sink ji; vectorize ji 8"));
  EXPECT_EQ(count(print(guarded), "if "), 3);
  const Kernel parts = simplify(partition_loops(guarded));
  const std::string text = print(parts);
  EXPECT_EQ(count(text, "if "), 3) << text;
  const size_t tail = text.find("for jo_t");
  ASSERT_NE(tail, std::string::npos) << text;
  EXPECT_EQ(text.find("if "), text.find("if ", tail)) << text;
  EXPECT_NE(text.find("for jo in floordiv(m, 8) "), std::string::npos) << text;
  for (const Parameters& shape : all_shapes(3, 8)) expect_same(guarded, parts, shape);
}

TEST(HoistLoopInvariants, ConditionsLeaveLoops) {
  const Kernel kernel = parse_kernel(R"(kernel @k map {
    param n 0 .. 100
    argument 0 @x f32 [n]
    argument 1 @y f32 [n, n] written
    for i in n {
      for j in n {
        for k in 2 {
          if cast<bool>([less(i, 3)]) { %1[i, j] = 1.0:f32 } else { %1[i, j] = load0[j] }
        }
      }
    }
    for i in n { for j in n { if lt(load0[i], 0.0:f32) { %1[i, j] = 0.0:f32 } } }
  })");
  const Kernel after = hoist_loop_invariants(kernel);
  EXPECT_NE(print(after).find("for i in n {\n    if cast<bool>([less(i, 3)]) {\n      for j in n {"), std::string::npos)
      << print(after);
  // A condition that loads would be evaluated where the loop does not run.
  EXPECT_NE(print(after).find("for j in n {\n      if lt(load0[i], 0.0:f32) {"), std::string::npos) << print(after);
  for (int64_t n : {0, 1, 5}) expect_same(kernel, after, {n});
}

std::string dependence(const std::string& index, const std::string& other, Reduction reduction, const char* op = "=") {
  const Kernel k = parse_kernel(
      "kernel @k map {\n param n 0 .. 1000\n param m 0 .. 1000\n argument 0 @x f32 [n*m + 1000, n] written\n"
      "for o in 10 { for i in n { for j in m { for k in 4 { %0[" +
      index + "] " + op + " load0[" + other + "] } } } } }");
  const For& outer = *k.body->as<For>();
  LoopScope scope;
  scope.push(outer.var, outer.extent);
  return find_dependence(k, *outer.body->as<For>(), scope, reduction);
}

TEST(Dependence, AffineIndices) {
  const auto independent = [](const std::string& a, const std::string& b) {
    return dependence(a, b, Reduction::kForbidden).empty();
  };
  EXPECT_TRUE(independent("i, 0", "i, 0"));
  EXPECT_TRUE(independent("j, i", "k, i"));
  EXPECT_TRUE(independent("i*m + j, 0", "i*m + j, 0"));
  EXPECT_TRUE(independent("i*m*4 + j*4 + k, 0", "i*m*4 + j*4 + k, 0"));
  EXPECT_TRUE(independent("i*4 + k, 0", "i*4, 1"));
  EXPECT_TRUE(independent("2*i, 0", "2*i + 1, 0"));
  EXPECT_TRUE(independent("floordiv(i, 3), mod(i, 3)", "floordiv(i, 3), mod(i, 3)"));
  EXPECT_TRUE(independent("i + o, 0", "i + o, 0"));
  // (i mod 500)*8 + (i / 500)*4 + k: digits that have changed places; and where they overlap.
  EXPECT_TRUE(independent("k + i*8 - floordiv(i, 500)*3996, 0", "k + i*8 - floordiv(i, 500)*3996, 0"));
  EXPECT_FALSE(independent("k + i*8 - floordiv(i, 500)*3997, 0", "k + i*8 - floordiv(i, 500)*3997, 0"));
  const char* halves = "k + floordiv(i, 2)*8 - floordiv(i, 500)*1996, mod(i, 2)";
  EXPECT_TRUE(independent(halves, halves));
  EXPECT_FALSE(independent("k + floordiv(i, 2)*8 - floordiv(i, 500)*1996, 0", halves));
  EXPECT_TRUE(independent("k, 0", "k + 4, 0") == false);
  EXPECT_FALSE(independent("i, 0", "i + 1, 0"));
  EXPECT_FALSE(independent("i + k, 0", "i + k, 0"));
  EXPECT_FALSE(independent("j, 0", "j, 0"));
  EXPECT_FALSE(independent("i*m + j + k, 0", "i*m + j, 0"));
  EXPECT_FALSE(independent("mod(i, 3), 0", "mod(i, 3), 0"));
  EXPECT_FALSE(independent("i*m + j, 0", "j*m + i, 0"));
}

TEST(Dependence, Reductions) {
  const std::string elsewhere = "n*m + 999, i";
  EXPECT_FALSE(dependence("j, 0", elsewhere, Reduction::kForbidden, "sum=").empty());
  EXPECT_TRUE(dependence("j, 0", elsewhere, Reduction::kAny, "sum=").empty());
  EXPECT_TRUE(dependence("j, 0", elsewhere, Reduction::kInvariant, "sum=").empty());
  EXPECT_FALSE(dependence("mod(i, 2), 0", elsewhere, Reduction::kInvariant, "sum=").empty());
  EXPECT_TRUE(dependence("mod(i, 2), 0", elsewhere, Reduction::kAny, "sum=").empty());
  EXPECT_FALSE(dependence("j, 0", "j, 0", Reduction::kAny, "sum=").empty());
}

TEST(LoopScope, Bounds) {
  const Kernel k = parse_kernel(kMap);
  symbolic::ExprTable& table = k.context->exprs;
  const Expr n = table.find_symbol("n"), m = table.find_symbol("m"), i = table.find_symbol("i"),
             j = table.find_symbol("j");
  LoopScope scope;
  scope.push(i, n);
  scope.push(j, m);
  EXPECT_EQ(scope.upper(i * m + j), (n - 1) * m + m - 1);
  EXPECT_EQ(scope.lower(i * m + j), table.constant(0));
  EXPECT_EQ(scope.upper(i * m + j, 1), i * m + m - 1);
  EXPECT_TRUE(scope.is_nonnegative(n * m - 1 - i * m - j));
  EXPECT_TRUE(scope.is_nonzero(m));
  EXPECT_EQ(scope.truth(symbolic::less(i, n)), symbolic::Truth::kYes);
  EXPECT_EQ(scope.truth(symbolic::less(i, j)), symbolic::Truth::kUnknown);
  EXPECT_EQ(scope.simplify(symbolic::floordiv(i * m + j, m)), i);
}

}  // namespace
}  // namespace stax::loop::testing
