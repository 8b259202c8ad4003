// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "unit/emit/native.h"

#include <cmath>
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
    })",
                     isa);
    for (int64_t n : {0, 1, 7, 15, 16, 17, 31, 32, 33, 97, 256}) {
      Guarded x(n * 4), y(n * 4), z(n * 4);
      for (int64_t i = 0; i < n; ++i) x.as<float>()[i] = 0.5F * i, y.as<float>()[i] = 3.0F - i;
      add.run({x.data(), y.data(), z.data()}, {n});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(z.as<float>()[i], 3.0F - 0.5F * i) << n << " " << i;
    }
  }
}

TEST(Native, RunsAPartOfTheParallelLoop) {
  const Native fill(
      "kernel @fill map { param n 0 .. 1000 argument 0 @y i64 [n] written for i in n parallel { %0[i] = [3*i] } }");
  Guarded y(10 * 8);
  fill.run({y.data()}, {10}, 2, 5);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(y.as<int64_t>()[i], i >= 2 && i < 5 ? 3 * i : -1);
}

TEST(Native, ReportsIndicesOutOfRange) {
  for (Isa isa : testable_isas()) {
    for (const char* kind : {"vector 16", ""}) {
      const Native gather(fmt::format(R"(kernel @gather map {{
        param n 0 .. 1000
        param extent 0 .. 1000
        argument 0 @x f32 [extent]
        argument 1 @index i64 [n]
        argument 2 @y f32 [n] written
        for i in n {} {{ %2[i] = load0[{{checked_index(load1[i], [extent])}}] }}
      }})",
                                      kind),
                          isa);
      for (int64_t bad : {int64_t{8}, int64_t{-9}, INT64_MAX, INT64_MIN}) {
        for (int64_t at : {0, 3, 16, 36}) {
          Guarded x(8 * 4), index(37 * 8), y(37 * 4);
          for (int64_t i = 0; i < 37; ++i) index.as<int64_t>()[i] = i % 16 - 8;
          KernelFault fault = gather.run({x.data(), index.data(), y.data()}, {37, 8});
          EXPECT_EQ(fault.failed, 0);
          index.as<int64_t>()[at] = bad;
          fault = gather.run({x.data(), index.data(), y.data()}, {37, 8});
          EXPECT_NE(fault.failed, 0);
          EXPECT_EQ(fault.index, bad);
          EXPECT_EQ(fault.extent, 8);
        }
      }
      // Nothing to continue with.
      Guarded x(0), index(8), y(4);
      index.as<int64_t>()[0] = 0;
      EXPECT_NE(gather.run({x.data(), index.data(), y.data()}, {1, 0}).failed, 0);
    }
  }
}

TEST(Native, ChecksOnlyWhatIsEvaluated) {
  for (const char* kind : {"vector 16", ""}) {
    const Native gather(fmt::format(R"(kernel @gather map {{
      param n 0 .. 1000
      argument 0 @x f32 [4]
      argument 1 @index i64 [n]
      argument 2 @y f32 [n] written
      for i in n {} {{ %2[i] = select(lt(load1[i], [4]), load0[{{checked_index(load1[i], [4])}}], 9.0:f32) }}
    }})",
                                    kind));
    Guarded x(16), index(50 * 8), y(50 * 4);
    for (int64_t i = 0; i < 4; ++i) x.as<float>()[i] = static_cast<float>(i);
    for (int64_t i = 0; i < 50; ++i) index.as<int64_t>()[i] = i;
    EXPECT_EQ(gather.run({x.data(), index.data(), y.data()}, {50}).failed, 0);
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(y.as<float>()[i], i < 4 ? static_cast<float>(i) : 9.0F);
  }
}

TEST(Native, RandomBitsAreThoseOfTheHost) {
  for (Isa isa : testable_isas()) {
    const Native random(
        "kernel @random map { param n 0 .. 1000 argument 0 @seed i64 [1] argument 1 @y u32 [n] written "
        "for i in n vector 16 { %1[i] = hash(load0[0], [i + 1099511627776*i]) } }",
        isa);
    int64_t seed = 0x123456789ABCDEF;
    Guarded y(100 * 4);
    random.run({&seed, y.data()}, {100});
    for (int64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(y.as<uint32_t>()[i],
                ir::random_bits(static_cast<uint64_t>(seed), static_cast<uint64_t>(i + 1099511627776 * i)));
    }
  }
}

TEST(Native, TheImageDependsOnTheKernelsAlone) {
  std::vector<loop::Kernel> kernels;
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) {
    kernels.push_back(
        loop::parse_kernel(fmt::format("kernel @k map {{ param n 0 .. 1000 argument 0 @x f32 [n] argument 1 @y f32 [n] "
                                       "written for i in n vector 16 {{ %1[i] = mul(tanh(load0[i]), {}.0:f32) }} }}",
                                       i)));
    names.push_back(fmt::format("kernel_{}", i));
  }
  std::vector<NativeKernel> list;
  for (size_t i = 0; i < kernels.size(); ++i) list.push_back({&kernels[i], names[i]});
  EmitOptions options;
  options.isa = host_isa();
  const NativeImage one = emit_native(list, options);
  options.threads = 3;
  const NativeImage three = emit_native(list, options);
  EXPECT_EQ(one.bytes, three.bytes);
  Mapped mapped(three);
  float x = 0.5F, y = 0;
  void* buffers[] = {&x, &y};
  const int64_t n = 1;
  KernelFault fault;
  for (size_t i = 0; i < names.size(); ++i) {
    mapped.entry(names[i])(buffers, &n, 0, 1, nullptr, &fault);
    EXPECT_NEAR(y, std::tanh(0.5) * static_cast<double>(i), 1e-5);
  }
}

TEST(Native, TextOfTheCode) {
  const auto kernel = loop::parse_kernel(
      "kernel @add map { param n 0 .. 1000 argument 0 @x f32 [n] argument 1 @y f32 [n] written for i in n vector 16 { "
      "%1[i] = add(load0[i], 1.0:f32) } }");
  EXPECT_NE(emit_llvm_text(kernel, Isa::kAvx512).find("fadd <16 x float>"), std::string::npos);
  EXPECT_NE(emit_asm_text(kernel, Isa::kAvx512).find("vaddps"), std::string::npos);
  EXPECT_NE(emit_asm_text(kernel, Isa::kBaseline).find("addps"), std::string::npos);
}

}  // namespace
}  // namespace stax::emit
