// SPDX-License-Identifier: Apache-2.0
// What the schedulers see of a nest, and that whatever they choose is legal, parallel where it can be, and means the same.
#include "schedule/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "loop/passes.h"
#include "loop/transform.h"
#include "unit/loop/kernels.h"

namespace stax::schedule {
namespace {

using loop::Kernel;
using loop::parse_kernel;
using loop::testing::kMap;
using loop::testing::kMatmul;

std::string spell(const std::string& text, const std::vector<std::pair<std::string, std::string>>& replacements) {
  std::string result = text;
  for (const auto& [from, to] : replacements)
    for (size_t at = 0; (at = result.find(from, at)) != std::string::npos; at += to.size())
      result.replace(at, from.size(), to);
  return result;
}

const std::string kRowSum = R"(
kernel @sum reduction {
  param n 0 .. 2147483647
  param m 0 .. 2147483647
  argument 0 @x f32 [n, m]
  argument 1 @out f32 [n] written
  local 2 @acc f32 [] written
  for i in n {
    allocate 2 {
      %2[] = 0.0:f32
      for r in m {
        %2[] sum= load0[i, r]
      }
      %1[i] = load2[]
    }
  }
})";
const std::string kColumnSum = spell(kRowSum, {{"f32 [n, m]", "f32 [m, n]"}, {"load0[i, r]", "load0[r, i]"}});
const std::string kTotal = R"(
kernel @total reduction {
  param m 0 .. 2147483647
  argument 0 @x f32 [m]
  argument 1 @out f32 [] written
  local 2 @acc f32 [] written
  allocate 2 {
    %2[] = 0.0:f32
    for r in m {
      %2[] sum= load0[r]
    }
    %1[] = load2[]
  }
})";
const std::string kFirst = R"(
kernel @first reduction {
  param n 0 .. 2147483647
  param m 0 .. 2147483647
  argument 0 @x f32 [n, m]
  argument 1 @out i64 [n] written
  local 2 @place i64 [] written
  local 3 @best f32 [] written
  for i in n {
    allocate 3 {
      allocate 2 {
        %3[] = -inf:f32
        %2[] = 0:i64
        for r in m {
          if lt(load3[], load0[i, r]) {
            %2[] = [r]
            %3[] = load0[i, r]
          }
        }
        %1[i] = load2[]
      }
    }
  }
})";
const std::string kScatter = R"(
kernel @put scatter {
  param n 0 .. 2147483647
  argument 0 @x f32 [n]
  argument 1 @at i64 [n]
  argument 2 @out f32 [n] written
  for i in n {
    %2[{load1[i]}] = load0[i]
  }
})";

// ---- what is seen

TEST(Analyze, AMap) {
  const NestForm form = analyze(parse_kernel(kMap));
  EXPECT_TRUE(form.matches);
  EXPECT_EQ(form.outer.size(), 2u);
  EXPECT_TRUE(form.reductions.empty());
  EXPECT_EQ(form.loads.size(), 2u);
  EXPECT_EQ(form.accumulators, 0);
  EXPECT_FALSE(form.has_if);
}

TEST(Analyze, AContraction) {
  const NestForm form = analyze(parse_kernel(kMatmul));
  EXPECT_TRUE(form.matches);
  EXPECT_EQ(form.outer.size(), 2u);
  EXPECT_EQ(form.reductions.size(), 1u);
  EXPECT_EQ(form.inner_loads.size(), 2u);
  EXPECT_EQ(form.accumulators, 1);
}

TEST(Analyze, AnArgument) {
  const NestForm form = analyze(parse_kernel(kFirst));
  EXPECT_TRUE(form.has_if);
  EXPECT_EQ(form.accumulators, 2);
  EXPECT_EQ(form.reductions.size(), 1u);
}

TEST(StrideOf, IsTheDistanceOfNeighbours) {
  const Kernel kernel = parse_kernel(kMatmul);
  const NestForm form = analyze(kernel);
  const symbolic::Expr i = form.outer[0].var, j = form.outer[1].var, r = form.reductions[0].var;
  const ir::Scalar a = form.inner_loads[0]->slot == 0 ? form.inner_loads[0] : form.inner_loads[1],
                   b = form.inner_loads[0]->slot == 0 ? form.inner_loads[1] : form.inner_loads[0];
  EXPECT_EQ(stride_of(kernel, a, i)->str(), "k");
  EXPECT_TRUE(stride_of(kernel, a, j)->is_constant(0));
  EXPECT_TRUE(stride_of(kernel, a, r)->is_constant(1));
  EXPECT_TRUE(stride_of(kernel, b, i)->is_constant(0));
  EXPECT_TRUE(stride_of(kernel, b, j)->is_constant(1));
  EXPECT_EQ(stride_of(kernel, b, r)->str(), "m");
}

TEST(StrideOf, IsUnknownWhereDataOrDivisionsDecide) {
  const Kernel gather =
      parse_kernel(spell(kScatter, {{"scatter", "map"}, {"%2[{load1[i]}] = load0[i]", "%2[i] = load0[{load1[i]}]"}}));
  const NestForm form = analyze(gather);
  for (const ir::Scalar load : form.loads) {
    const auto stride = stride_of(gather, load, form.outer[0].var);
    EXPECT_EQ(stride.has_value(), load->slot == 1);
  }
  const Kernel halves = parse_kernel(
      spell(kScatter, {{"scatter", "map"}, {"%2[{load1[i]}] = load0[i]", "%2[i] = load0[floordiv(i, 2)]"}}));
  EXPECT_FALSE(stride_of(halves, analyze(halves).loads[0], analyze(halves).outer[0].var).has_value());
}

TEST(LanesOf, AreMoreForBytes) {
  EXPECT_EQ(lanes_of(parse_kernel(kMap)), 16);
  EXPECT_EQ(lanes_of(parse_kernel(spell(kMap, {{"f32", "u8"}, {"2.0:u8", "2:u8"}}))), 32);
}

// ---- what is chosen

Versions versions_of(const Kernel& naive, const std::string& text) {
  return choose_versions(naive, [&] { return parse_kernel(text); });
}

// Applies each version and runs it beside the naive nest.
void expect_versions(const std::string& text, size_t at_least = 1) {
  const Kernel naive = parse_kernel(text);
  const Versions versions = versions_of(naive, text);
  ASSERT_GE(versions.size(), at_least) << text;
  ASSERT_LE(versions.size(), 12u) << "few versions";
  for (size_t v = 0; v < versions.size(); ++v) {
    EXPECT_EQ(v + 1 == versions.size(), !versions[v].guard) << "the last version, and no other, takes every shape";
    if (versions[v].guard) {
      for (const symbolic::Expr s : symbolic::free_symbols(versions[v].guard))
        EXPECT_EQ(s.symbol().kind, symbolic::SymbolKind::kParam)
            << "guards are over parameters: " << versions[v].guard.str();
    }
    Kernel kernel =
        loop::hoist_loop_invariants(loop::simplify(loop::apply_schedule(parse_kernel(text), versions[v].schedule)));
    loop::verify(kernel);
    for (const int64_t n : {0, 1, 2, 7, 8, 9, 31, 33, 65}) {
      for (const int64_t m : {0, 1, 3, 16, 17, 64, 130}) {
        std::vector<int64_t> params;
        for (size_t p = 0; p < naive.params.size(); ++p) params.push_back(p == 0 ? n : p == 1 ? m : 5);
        const auto elements = [&](const loop::Buffer& buffer) {
          std::unordered_map<const symbolic::ExprNode*, int64_t> values;
          for (size_t p = 0; p < params.size(); ++p) values[naive.params[p].node()] = params[p];
          int64_t count = 1;
          for (const symbolic::Expr e : buffer.extents) count *= symbolic::evaluate(e, values);
          return static_cast<size_t>(count);
        };
        std::vector<std::vector<char>> want, got;
        std::mt19937_64 random(7);
        for (int slot = 0; slot < naive.arguments; ++slot) {
          const loop::Buffer& buffer = naive.buffers[static_cast<size_t>(slot)];
          want.emplace_back(elements(buffer) * ir::byte_size(buffer.dtype) + 1, static_cast<char>(0xFF));
          if (buffer.written) continue;
          for (size_t i = 0; i < elements(buffer); ++i) {
            const auto quarter = static_cast<int64_t>(random() % 17) - 8;
            ir::Value64 value{};
            if (ir::is_float(buffer.dtype))
              value.f = static_cast<double>(quarter) / 4;
            else
              value.i = ir::wrap_integer(buffer.dtype, quarter);
            ir::store_element(buffer.dtype, want.back().data(), static_cast<int64_t>(i), value);
          }
        }
        got = want;
        const auto run = [&](const Kernel& k, std::vector<std::vector<char>>& memory) {
          std::vector<void*> buffers;
          for (auto& bytes : memory) buffers.push_back(bytes.data());
          loop::interpret(k, buffers, params);
        };
        run(naive, want);
        run(kernel, got);
        ASSERT_EQ(want, got) << "version " << v << " at " << n << ", " << m << "\n"
                             << versions[v].schedule << loop::print(kernel);
      }
    }
  }
}

bool is_parallel(const Kernel& kernel) {
  const auto* f = kernel.body->as<loop::For>();
  return f != nullptr && f->kind == loop::LoopKind::kParallel;
}
bool has_vector(const Kernel& kernel) {
  bool found = false;
  loop::visit(kernel.body, [&](const loop::Stmt& s) {
    if (const auto* f = s->as<loop::For>()) found |= f->kind == loop::LoopKind::kVector;
  });
  return found;
}

TEST(Versions, MeanTheSame) {
  expect_versions(kMap);
  expect_versions(kRowSum);
  expect_versions(kColumnSum);
  expect_versions(kTotal);
  expect_versions(kFirst);
  expect_versions(loop::testing::kWindow);
}

TEST(Versions, OfContractionsMeanTheSame) {
  expect_versions(kMatmul, 2);
  expect_versions(spell(kMatmul, {{"load1[r, j]", "load1[j, r]"}, {"f32 [k, m]", "f32 [m, k]"}}));
  expect_versions(spell(kMatmul, {{"load0[i, r]", "load0[r, i]"}, {"f32 [n, k]", "f32 [k, n]"}}));
  expect_versions(
      spell(kMatmul, {{"for j in m", "for j in 64"}, {"f32 [k, m]", "f32 [k, 64]"}, {"f32 [n, m]", "f32 [n, 64]"}}));
  expect_versions(
      spell(kMatmul, {{"for j in m", "for j in 5"}, {"f32 [k, m]", "f32 [k, 5]"}, {"f32 [n, m]", "f32 [n, 5]"}}));
  // One vector of columns, full and not: tiles of more rows.
  expect_versions(
      spell(kMatmul, {{"for j in m", "for j in 16"}, {"f32 [k, m]", "f32 [k, 16]"}, {"f32 [n, m]", "f32 [n, 16]"}}));
  expect_versions(
      spell(kMatmul, {{"for j in m", "for j in 11"}, {"f32 [k, m]", "f32 [k, 11]"}, {"f32 [n, m]", "f32 [n, 11]"}}));
  expect_versions(
      spell(kMatmul, {{"for i in n", "for i in 1"}, {"f32 [n, k]", "f32 [1, k]"}, {"f32 [n, m]", "f32 [1, m]"}}));
}

// What is added to the sums may be at a place that data decides, at several places, or one number.
TEST(Versions, OfContractionsTakeAnyAddend) {
  for (const char* addend :
       {"load3[i, j]", "load3[{load4[]}, j]", "add(load3[i, j], load3[0, j])", "load3[i, 0]", "load3[0, j]"}) {
    const std::string text = fmt::format(R"(kernel @sum contraction {{
      param n 0 .. 1000
      argument 0 @x f32 [n, 6]
      argument 1 @w f32 [6, 64]
      argument 2 @y f32 [n, 64] written
      argument 3 @z f32 [n, 64]
      argument 4 @at i64 []
      local 5 @acc f32 [] written
      for i in n {{ for j in 64 {{ allocate 5 {{
        %5[] = 0.0:f32
        for r in 6 {{ %5[] sum= mul(load0[i, r], load1[r, j]) }}
        %2[i, j] = add(load5[], {})
      }} }} }}
    }})",
                                         addend);
    for (const Version& v : versions_of(parse_kernel(text), text)) {
      EXPECT_TRUE(has_vector(v.kernel)) << v.schedule;
      EXPECT_TRUE(v.refused.empty()) << addend << ": " << v.refused[0];
    }
  }
}

// Weights of bytes in panels of groups of four: of several groups, and of one, which leaves no index of its own.
TEST(Versions, OfProductsOfBytesAreTiles) {
  for (const auto& [length, panels, index] :
       {std::tuple{8, "2, 32, 4", "floordiv(r, 4), mod(j, 32), mod(r, 4)"}, {4, "32, 4", "mod(j, 32), r"}}) {
    const std::string text = fmt::format(R"(kernel @bytes contraction {{
      param n 0 .. 1000000
      argument 0 @x u8 [n, 3, {0}]
      argument 1 @w i8 [2, 3, {1}]
      argument 2 @y i32 [n, 64] written
      local 3 @acc i32 [] written
      for i in n {{ for j in 64 {{ allocate 3 {{
        %3[] = 0:i32
        for t in 3 {{ for r in {0} {{
          %3[] sum= mul(cast<i32>(load0[i, t, r]), cast<i32>(load1[floordiv(j, 32), t, {2}]))
        }} }}
        %2[i, j] = load3[]
      }} }} }}
    }})",
                                         length, panels, index);
    expect_versions(text, 4);
    for (const Version& v : versions_of(parse_kernel(text), text)) {
      EXPECT_TRUE(is_parallel(v.kernel) && has_vector(v.kernel)) << v.schedule;
      EXPECT_TRUE(v.refused.empty()) << v.refused[0];
    }
  }
}

// Whatever is known of the extent along which an operand is contiguous.
TEST(Versions, OfTransposesAreBlocks) {
  for (const char* rows : {"n", "16*n", "8", "12", "16", "40", "48", "16*floordiv(n + 15, 16)"}) {
    for (const char* columns : {"m", "5", "64", "200"}) {
      const std::string text = fmt::format(R"(kernel @turned map {{
        param n 0 .. 1000000
        param m 0 .. 1000000
        argument 0 @x f32 [{1}, {0}]
        argument 1 @y f32 [{0}, {1}] written
        for i in {0} {{ for j in {1} {{ %1[i, j] = add(load0[j, i], 1.0:f32) }} }}
      }})",
                                           rows, columns);
      expect_versions(text);
      const Versions versions = versions_of(parse_kernel(text), text);
      ASSERT_EQ(versions.size(), 1u);
      EXPECT_TRUE(versions[0].refused.empty()) << rows << " x " << columns << ": " << versions[0].refused[0];
      EXPECT_NE(versions[0].schedule.find("unroll"), std::string::npos) << versions[0].schedule;
    }
  }
}

TEST(Versions, RunInParallelAndInLanesWhereTheyCan) {
  for (const std::string& text : {std::string(kMap), kRowSum, kColumnSum, std::string(kMatmul)}) {
    const Kernel naive = parse_kernel(text);
    for (const Version& v : versions_of(naive, text)) {
      EXPECT_TRUE(is_parallel(v.kernel)) << v.schedule;
      EXPECT_TRUE(has_vector(v.kernel)) << v.schedule;
      EXPECT_TRUE(v.refused.empty()) << v.refused[0];
    }
  }
}

TEST(Versions, DoWithoutHintsThatAreIllegal) {
  const KernelSource anew = [] { return parse_kernel(kMatmul); };
  Version v{.schedule = "split i 4 -> io ii\nprefetch 1 nowhere 8\nparallelize io\n", .guard = {}};
  std::vector<std::string> refused;
  ASSERT_TRUE(apply_or_leave_out_hints(v, anew, refused));
  EXPECT_EQ(v.schedule, "split i 4 -> io ii\nparallelize io\n");
  EXPECT_TRUE(is_parallel(v.kernel));
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_NE(refused[0].find("nowhere"), std::string::npos) << refused[0];

  Version illegal{.schedule = "hint 1 before r; parallelize nowhere", .guard = {}};
  EXPECT_FALSE(apply_or_leave_out_hints(illegal, anew, refused));
}

TEST(Versions, AScatterKeepsItsOrder) {
  const Kernel naive = parse_kernel(kScatter);
  const Versions versions = versions_of(naive, kScatter);
  ASSERT_EQ(versions.size(), 1u);
  EXPECT_EQ(versions[0].schedule, "");
}

TEST(Versions, AreTheSameEveryTime) {
  for (const std::string& text : {std::string(kMap), kRowSum, std::string(kMatmul)}) {
    const Kernel naive = parse_kernel(text);
    const Versions a = versions_of(naive, text), b = versions_of(naive, text);
    ASSERT_EQ(a.size(), b.size());
    for (size_t v = 0; v < a.size(); ++v) EXPECT_EQ(a[v].schedule, b[v].schedule);
  }
}

}  // namespace
}  // namespace stax::schedule
