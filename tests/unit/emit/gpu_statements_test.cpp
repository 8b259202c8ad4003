// SPDX-License-Identifier: Apache-2.0
// Statements of thread IR in the C dialects: run on OpenCL against plain loops, assembled for CUDA and HIP without a byte of stack.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "thread/mma.h"
#include "thread/passes.h"
#include "unit/emit/gpu_kernel.h"

namespace stax::emit {
namespace {

using thread::parse_kernel;

template <class T>
OpenclBuffer filled(const std::vector<T>& values) {
  OpenclBuffer b(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(b.data(), values.data(), b.bytes());
  return b;
}

template <class T>
std::vector<T> values_of(const OpenclBuffer& b) {
  std::vector<T> values(b.bytes() / sizeof(T));
  std::memcpy(values.data(), b.data(), b.bytes());
  return values;
}

template <class T>
std::vector<T> random_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& v : values) {
    if constexpr (std::is_floating_point_v<T>)
      v = std::uniform_real_distribution<T>(-4, 4)(random);
    else
      v = static_cast<T>(random());
  }
  return values;
}

uint64_t fresh_seed() { return std::random_device()(); }

const std::vector<std::string> kAll(std::begin(kAssembled), std::end(kAssembled));

// Loops with an extent of the launch, a guard, an accumulator in a register, products summed with one rounding.
TEST(GpuStatements, LoopsGuardsAndSumsInRegisters) {
  STAX_NEEDS_OPENCL();
  for (int bits : {32, 64}) {
    const thread::Kernel kernel = parse_kernel(fmt::format(R"(
      kernel @rows reduction {{
        param n 0 .. 2147483647  param m 0 .. 2147483647
        global 0 @float f32 [n*m]  global 1 @float f32 [m]  global 2 @out f32 [n] written
        local 3 @acc f32 [2]
        grid bx floordiv(n + 63, 64) by 1 bz 1
        block t 64 warp 32
        index_bits {}
        if cast<bool>([less(bx*64 + t, n)]) {{
          %3[0] = 0.0:f32
          for i in m {{ %3[0] = add(load3[0], mul(load0[(bx*64 + t)*m + i], load1[i])) }}
          %2[bx*64 + t] = load3[0]
        }} else {{ %3[1] = 1.0:f32 }}
      }})",
                                                           bits));
    if (bits == 32) expect_assembles(kernel, kAll);
    const uint64_t seed = fresh_seed();
    for (const auto& [n, m] : {std::pair{1, 1}, {0, 5}, {5, 0}, {130, 17}}) {
      const auto x = random_values<float>(static_cast<size_t>(n) * m, seed),
                 y = random_values<float>(static_cast<size_t>(m), seed + 1);
      if (n == 0) continue;
      OpenclBuffer a = filled(x), b = filled(y), out(static_cast<size_t>(n) * 4);
      run_opencl(kernel, {&a, &b, &out}, {n, m});
      const auto got = values_of<float>(out);
      for (int r = 0; r < n; ++r) {
        float sum = 0;
        for (int i = 0; i < m; ++i) sum = std::fma(x[static_cast<size_t>(r) * m + i], y[i], sum);
        ASSERT_EQ(got[r], sum) << "row " << r << ", seed " << seed;
      }
    }
  }
}

// A product next to a sum is rounded, unless the sum is in place.
TEST(GpuStatements, ProductsAreNotContracted) {
  STAX_NEEDS_OPENCL();
  const thread::Kernel kernel = parse_kernel(R"(
    kernel @f map {
      global 0 @x f32 [64]  global 1 @y f32 [64]  global 2 @out f32 [64] written
      grid bx 1 by 1 bz 1
      block t 64 warp 32
      index_bits 32
      %2[t] = sub(mul(load0[t], load1[t]), mul(load1[t], load0[t]))
      %2[t] = add(load2[t], add(mul(load0[t], load0[t]), load1[t]))
    })");
  expect_assembles(kernel, {"cuda:sm_80", "hip:gfx90a"});
  const uint64_t seed = fresh_seed();
  const auto x = random_values<float>(64, seed), y = random_values<float>(64, seed + 1);
  OpenclBuffer a = filled(x), b = filled(y), out(256);
  run_opencl(kernel, {&a, &b, &out}, {});
  for (size_t i = 0; i < 64; ++i) {
    const volatile float square = x[i] * x[i];
    ASSERT_EQ(values_of<float>(out)[i], square + y[i]) << "seed " << seed;
  }
}

// Vector accesses of all types and widths, through registers and through an array.
TEST(GpuStatements, VectorsOfAllTypes) {
  STAX_NEEDS_OPENCL();
  for (int type = 0; type < ir::kDTypeCount; ++type) {
    const auto t = static_cast<DType>(type);
    const int size = static_cast<int>(ir::byte_size(t));
    const std::string name(ir::name_of(t));
    for (int bytes : {4, 8, 16}) {
      if (bytes < size) continue;
      const int width = bytes / size;
      // Shifts the elements of each vector by one, so that packing and unpacking are seen.
      std::string shift, indexed;
      for (int k = 0; k < width; ++k) shift += fmt::format("%4[{}] = load3[{}]\n", k, (k + 1) % width);
      const thread::Kernel kernel = parse_kernel(fmt::format(R"(
        kernel @vectors map {{
          global 0 @x {0} [{2}]  global 1 @y {0} [{2}] written
          shared 2 @tile {0} [{2}]
          local 3 @a {0} [{1}]  local 4 @b {0} [{1}]  local 5 @c {0} [{1}]
          grid bx 1 by 1 bz 1
          block t 64 warp 32
          index_bits 32
          load %3[0] = %0[t*{1}] width {1}
          {3}
          store %2[t*{1}] = %4[0] width {1}
          barrier
          load %5[0] = %2[(63 - t)*{1}] width {1}
          for i in {1} {{ %5[i] = load5[i] }}
          store %1[t*{1}] = %5[0] width {1}
        }})",
                                                             name, width, 64 * width, shift));
      if (bytes == 16 && (t == DType::kF16 || t == DType::kI8))
        expect_assembles(kernel, {"cuda:sm_80", "hip:gfx1100"}, false);
      const uint64_t seed = fresh_seed();
      auto x = random_values<uint8_t>(static_cast<size_t>(64 * bytes), seed);
      if (t == DType::kBool)
        for (uint8_t& v : x) v &= 1;
      OpenclBuffer a = filled(x), out(x.size());
      run_opencl(kernel, {&a, &out}, {});
      for (int thread = 0; thread < 64; ++thread)
        for (int k = 0; k < width; ++k)
          ASSERT_EQ(std::memcmp(out.data() + thread * bytes + k * size,
                                x.data() + (63 - thread) * bytes + (k + 1) % width * size, static_cast<size_t>(size)),
                    0)
              << name << " width " << width << " thread " << thread << " item " << k << ", seed " << seed;
    }
  }
}

TEST(GpuStatements, DynamicSharedMemoryAndBarriers) {
  STAX_NEEDS_OPENCL();
  const thread::Kernel kernel = parse_kernel(R"(
    kernel @dynamic map {
      param n 0 .. 64
      global 0 @x f16 [2*n]  global 1 @y f64 [2*n] written
      shared 2 @first f16 [n]  shared 3 @fixed i8 [64]  shared 4 @second f64 [n]
      grid bx 2 by 1 bz 1
      block t 64 warp 32
      index_bits 32
      %3[t] = cast<i8>([t])
      if cast<bool>([less(t, n)]) { %2[t] = load0[bx*n + t] }
      barrier
      if cast<bool>([less(t, n)]) { %4[t] = add(cast<f64>(load2[n - 1 - t]), cast<f64>(load3[63 - t])) }
      barrier
      if cast<bool>([less(t, n)]) { %1[bx*n + t] = load4[mod(t + 1, n)] }
    })");
  expect_assembles(kernel, {"cuda:sm_90a", "hip:gfx90a"});
  for (int n : {1, 3, 64}) {
    std::vector<uint16_t> x;
    for (int i = 0; i < 2 * n; ++i) {
      uint16_t h = 0;
      ir::store_element(DType::kF16, &h, 0, {.f = i * 0.25});
      x.push_back(h);
    }
    OpenclBuffer a = filled(x), out(static_cast<size_t>(2 * n) * 8);
    run_opencl(kernel, {&a, &out}, {n});
    for (int b = 0; b < 2; ++b)
      for (int t = 0; t < n; ++t) {
        const int from = (t + 1) % n;
        ASSERT_EQ(values_of<double>(out)[static_cast<size_t>(b * n + t)], (b * n + n - 1 - from) * 0.25 + (63 - from))
            << n;
      }
  }
}

// --- atomics --------------------------------------------------------------------------------------------------------------

// All threads of all blocks combine into three cells for each combiner, in shared and then in global memory.
TEST(GpuStatements, AtomicsOfAllTypes) {
  STAX_NEEDS_OPENCL();
  for (int type = 0; type < ir::kDTypeCount; ++type) {
    const auto t = static_cast<DType>(type);
    std::vector<std::pair<std::string, ir::ScalarOp>> combiners;
    if (t != DType::kBool)
      combiners = {{"sum", ir::ScalarOp::kAdd}, {"min", ir::ScalarOp::kMin}, {"max", ir::ScalarOp::kMax}};
    if (!ir::is_float(t)) {
      combiners.emplace_back("and", ir::ScalarOp::kAnd);
      combiners.emplace_back("or", ir::ScalarOp::kOr);
    }
    const size_t cells = combiners.size() * 3;
    std::string in_shared, in_global;
    for (size_t i = 0; i < combiners.size(); ++i) {
      in_shared += fmt::format("atomic %2[{} + mod(t, 3)] {}= load0[bx*64 + t]\n", 3 * i, combiners[i].first);
      in_global += fmt::format("atomic %1[{0} + t] {1}= load2[{0} + t]\n", 3 * i, combiners[i].first);
    }
    const thread::Kernel kernel = parse_kernel(fmt::format(R"(
      kernel @combine map {{
        global 0 @x {0} [256]  global 1 @y {0} [{1}] written
        shared 2 @s {0} [{1}]
        grid bx 4 by 1 bz 1
        block t 64 warp 32
        index_bits 32
        if cast<bool>([less(t, {1})]) {{ %2[t] = load0[t] }}
        barrier
        {2}
        barrier
        if cast<bool>([less(t, 3)]) {{ {3} }}
      }})",
                                                           ir::name_of(t), cells, in_shared, in_global));
    if (t == DType::kF16 || t == DType::kF32 || t == DType::kI64)
      expect_assembles(kernel, {"cuda:sm_80", "hip:gfx90a"});
    const uint64_t seed = fresh_seed();
    std::mt19937_64 random(seed);
    const size_t size = ir::byte_size(t);
    OpenclBuffer x(256 * size), y(cells * size);
    std::vector<ir::Value64> values(256);
    for (size_t i = 0; i < 256; ++i) {
      // Sums of these are exact in f16 and bf16.
      if (ir::is_float(t))
        values[i].f = static_cast<double>(random() % 2) * (i % 3 == 0 ? 1 : -1);
      else
        values[i].i = ir::wrap_integer(t, static_cast<int64_t>(random()));
      ir::store_element(t, x.data(), static_cast<int64_t>(i), values[i]);
    }
    std::vector<ir::Value64> expected(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(cells));
    for (size_t i = 0; i < cells; ++i) ir::store_element(t, y.data(), static_cast<int64_t>(i), values[i]);
    run_opencl(kernel, {&x, &y}, {});
    const auto combine = [&](ir::ScalarOp op, ir::Value64& into, ir::Value64 v) {
      const ir::Value64 args[] = {into, v};
      into = ir::evaluate_scalar_op(op, t, args);
    };
    for (size_t c = 0; c < combiners.size(); ++c) {
      for (size_t b = 0; b < 4; ++b) {
        std::vector<ir::Value64> shared(values.begin() + static_cast<std::ptrdiff_t>(3 * c),
                                        values.begin() + static_cast<std::ptrdiff_t>(3 * c + 3));
        for (size_t i = 0; i < 64; ++i) combine(combiners[c].second, shared[i % 3], values[b * 64 + i]);
        for (size_t i = 0; i < 3; ++i) combine(combiners[c].second, expected[3 * c + i], shared[i]);
      }
    }
    for (size_t i = 0; i < cells; ++i) {
      const ir::Value64 got = ir::load_element(t, y.data(), static_cast<int64_t>(i));
      const bool same = ir::is_float(t) ? got.f == expected[i].f : got.i == expected[i].i;
      ASSERT_TRUE(same) << ir::name_of(t) << " " << combiners[i / 3].first << "[" << i % 3 << "], seed " << seed;
    }
  }
}

// --- copies to shared memory ----------------------------------------------------------------------------------------------

TEST(GpuStatements, AsyncCopies) {
  STAX_NEEDS_OPENCL();
  for (const auto& [type, width] : {std::pair{"f32", 4}, {"f32", 2}, {"f32", 1}, {"f16", 8}, {"i8", 4}}) {
    const thread::Kernel kernel = parse_kernel(fmt::format(R"(
      kernel @copies map {{
        param n 0 .. 1000
        global 0 @x {0} [n*{1}] align 16  global 1 @y {0} [64*{1}] written
        shared 2 @tile {0} [64*{1}]
        local 3 @v {0} [{1}]
        grid bx 1 by 1 bz 1
        block t 64 warp 32
        index_bits 32
        async_copy %2[t*{1}] = %0[(n - 1 - t)*{1}] width {1} where cast<bool>([less(t, n)])
        async_commit
        async_wait 0
        barrier
        load %3[0] = %2[(63 - t)*{1}] width {1}
        store %1[t*{1}] = %3[0] width {1}
      }})",
                                                           type, width));
    if (width == 4 || width == 8) expect_assembles(kernel, {"cuda:sm_75", "cuda:sm_80"});
    const int64_t bytes = width * static_cast<int64_t>(ir::byte_size(*ir::parse_dtype(type)));
    const uint64_t seed = fresh_seed();
    for (int64_t n : {1, 20, 64}) {
      const auto x = random_values<uint8_t>(static_cast<size_t>(n * bytes), seed);
      OpenclBuffer a = filled(x), out(static_cast<size_t>(64 * bytes));
      run_opencl(kernel, {&a, &out}, {n});
      for (int64_t t = 0; t < 64; ++t)
        for (int64_t k = 0; k < bytes; ++k)
          ASSERT_EQ(out.data()[t * bytes + k], 63 - t < n ? x[static_cast<size_t>((n - 1 - (63 - t)) * bytes + k)] : 0)
              << type << ", seed " << seed;
    }
  }
}

// --- exchanges between lanes ----------------------------------------------------------------------------------------------

std::string exchanges(const std::string& type, int warp) {
  std::string body;
  int row = 0;
  for (int mask : {1, 2, 3, 4, 7, 8, 15, 16, 31}) {
    body += fmt::format("shuffle %2[0] = load0[t] xor {}\n%1[{} + t] = load2[0]\n", mask, 64 * row++);
  }
  body += fmt::format("shuffle %2[0] = load0[t] lane mod(t*5 + 3, {})\n%1[{} + t] = load2[0]\n", warp, 64 * row++);
  return fmt::format(R"(
    kernel @exchange map {{
      global 0 @x {0} [64]  global 1 @y {0} [640] written  
      local 2 @v {0} [1]
      grid bx 1 by 1 bz 1
      block t 64 warp {1}
      index_bits 32
      {2}
    }})",
                     type, warp, body);
}

TEST(GpuStatements, ShufflesAndVotesAreTaken) {
  if (!missing_compiler("cuda").empty() && !missing_compiler("hip").empty()) GTEST_SKIP() << missing_compiler("cuda");
  for (const std::string type : {"f32", "i64", "bool", "f16"}) {
    expect_assembles(parse_kernel(exchanges(type, 32)), {"cuda:sm_80", "hip:gfx1100"});
    expect_assembles(parse_kernel(exchanges(type, 64)), {"hip:gfx90a"});
  }
  for (int warp : {32, 64}) {
    const thread::Kernel kernel = parse_kernel(fmt::format(R"(
      kernel @votes map {{
        global 0 @x i32 [128]  global 1 @y bool [256] written
        local 2 @v bool [1]
        grid bx 1 by 1 bz 1
        block t 128 warp {}
        index_bits 32
        vote %2[0] = any eq(load0[t], 0:i32)
        %1[t] = load2[0]
        vote %2[0] = all eq(load0[t], 0:i32)
        %1[t + 128] = load2[0]
      }})",
                                                           warp));
    expect_assembles(kernel, warp == 32 ? std::vector<std::string>{"cuda:sm_80", "hip:gfx1100"}
                                        : std::vector<std::string>{"hip:gfx90a"});
  }
}

// --- indices --------------------------------------------------------------------------------------------------------------

TEST(GpuStatements, IndexArithmetic) {
  STAX_NEEDS_OPENCL();
  const std::vector<std::string> expressions{"floordiv(x, 8)",
                                             "mod(x, 8)",
                                             "floordiv(x, 7)",
                                             "mod(x, 7)",
                                             "floordiv(x, n)",
                                             "mod(x, n)",
                                             "floordiv(x, n*m)",
                                             "mod(x, n*m)",
                                             "floordiv(x - 1000, 7)",
                                             "mod(x - 1000, 7)",
                                             "floordiv(x - 1000, 16)",
                                             "mod(x - 1000, 16)",
                                             "floordiv(x - 1000, n)",
                                             "mod(x - 1000, n)",
                                             "min(x, n, m*9)",
                                             "max(x - 50, n, 3)",
                                             "less(x, n)",
                                             "equal(mod(x, n), 0)",
                                             "select(less(x, m), x*n, n - x)",
                                             "min(less(x, n), less(m, x))",
                                             "1 - less(x, n)",
                                             "x*n*m - x*2 + n - 5",
                                             "floordiv(mod(x, n*3), n)"};
  for (int bits : {32, 64}) {
    std::string body;
    for (size_t i = 0; i < expressions.size(); ++i) {
      std::string e = expressions[i];
      for (size_t at = 0; (at = e.find('x', at)) != std::string::npos; at += 1)
        if (at == 0 || !std::isalpha(static_cast<unsigned char>(e[at - 1]))) e.replace(at, 1, "(bx*64 + t)");
      body += fmt::format("%0[bx*64 + t + {}] = [{}]\n", i * 2048, e);
    }
    thread::Kernel kernel = parse_kernel(fmt::format(R"(
      kernel @indices map {{
        param n 1 .. 100000  param m 1 .. 100000
        global 0 @y i64 [{0}] written
        grid bx 32 by 1 bz 1
        block t 64 warp 32
        index_bits {1}
        {2}
      }})",
                                                     expressions.size() * 2048, bits, body));
    if (bits == 32) kernel = thread::reduce_divisions(kernel);
    expect_assembles(kernel, {"cuda:sm_80", "hip:gfx90a"});
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {64, 5}, {1021, 30}}) {
      std::vector<int64_t> params{n, m};
      std::unordered_map<const symbolic::ExprNode*, int64_t> values{{kernel.params[0].node(), n},
                                                                    {kernel.params[1].node(), m}};
      for (const thread::Divisor& d : kernel.divisors) {
        const int64_t value = symbolic::evaluate(d.value, values);
        int64_t shift = 0;
        while ((int64_t{1} << shift) < value) ++shift;
        params.push_back(static_cast<int64_t>((static_cast<unsigned __int128>(1) << 32) *
                                              static_cast<uint64_t>((int64_t{1} << shift) - value) /
                                              static_cast<uint64_t>(value)) +
                         1);
        params.push_back(shift);
      }
      OpenclBuffer out(expressions.size() * 2048 * 8);
      run_opencl(kernel, {&out}, params);
      const auto got = values_of<int64_t>(out);
      symbolic::ExprTable table;
      for (size_t i = 0; i < expressions.size(); ++i) {
        std::unordered_map<const symbolic::ExprNode*, int64_t> at;
        const Expr x = table.new_symbol({"x", symbolic::SymbolKind::kLoop, {0, 4000}, 1});
        const Expr pn = table.new_symbol({"n", symbolic::SymbolKind::kParam, {1, 100000}, 1});
        const Expr pm = table.new_symbol({"m", symbolic::SymbolKind::kParam, {1, 100000}, 1});
        const Expr e = symbolic::parse_expr(table, expressions[i], [&](const std::string& name) {
          return name == "x" ? x : name == "n" ? pn : pm;
        });
        at[pn.node()] = n, at[pm.node()] = m;
        for (int64_t v = 0; v < 2048; ++v) {
          at[x.node()] = v;
          ASSERT_EQ(got[i * 2048 + static_cast<size_t>(v)], symbolic::evaluate(e, at))
              << expressions[i] << " at " << v << ", n " << n << ", m " << m << ", " << bits << " bits";
        }
      }
    }
  }
}

TEST(GpuStatements, ChecksReportTheFirstFault) {
  STAX_NEEDS_OPENCL();
  const std::string text = R"(
    kernel @gather map {
      param n 0 .. 1000  param m 0 .. 1000
      global 0 @x f32 [n]  global 1 @i i64 [m]  global 2 @y f32 [m] written
      grid bx floordiv(m + 63, 64) by 1 bz 1
      block t 64 warp 32
      index_bits 32
      check "Gather"
      if cast<bool>([less(bx*64 + t, m)]) {
        %2[bx*64 + t] = select(eq(load1[bx*64 + t], 77:i64), -1.0:f32, load0[{checked_index(load1[bx*64 + t], [n])}])
      }
    })";
  const thread::Kernel kernel = parse_kernel(text);
  expect_assembles(kernel, {"cuda:sm_80", "hip:gfx1100"});
  const uint64_t seed = fresh_seed();
  const auto x = random_values<float>(10, seed);
  std::vector<int64_t> indices{0, 9, -1, -10, 77, 5, 3};
  const auto run = [&](std::vector<int64_t>& which, std::vector<float>& got) {
    OpenclBuffer a = filled(x), b = filled(which), out(which.size() * 4), fault(32);
    std::memset(fault.data(), 0, 32);
    run_opencl(kernel, {&a, &b, &out}, {10, static_cast<int64_t>(which.size())}, &fault);
    got = values_of<float>(out);
    EXPECT_TRUE(fault.guards_hold());
    return values_of<int64_t>(fault);
  };
  std::vector<float> got;
  EXPECT_EQ(run(indices, got), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(got, (std::vector<float>{x[0], x[9], x[9], x[0], -1, x[5], x[3]}));
  indices[5] = 10;
  EXPECT_EQ(run(indices, got), (std::vector<int64_t>{1, 10, 10, 0}));
  EXPECT_EQ(got[6], x[3]);
  indices[5] = -11;
  EXPECT_EQ(run(indices, got), (std::vector<int64_t>{1, -11, 10, 0}));
}

// Each select uses the one before it in both arms: the text grows by a few lines each, not twofold.
TEST(GpuStatements, SharedValuesAreWrittenOnce) {
  STAX_NEEDS_OPENCL();
  Maker m("shared", 64);
  const int x = m.global("x", DType::kF32, m.number(64), false), y = m.global("y", DType::kF32, m.number(64), true);
  constexpr int kDepth = 40;
  Scalar v = m.load(x, m.thread());
  for (int i = 0; i < kDepth; ++i) {
    const Scalar other = m.load(x, symbolic::mod(m.thread() + (i + 1), 64));
    v = ir::select(ir::less(v, other), v + other, other - v);
  }
  const thread::Kernel kernel = m.finish({m.store(y, m.thread(), v)});
  EXPECT_LT(emit_gpu(kernel, ir::CodeFormat::kOpencl, ir::find_target("opencl")).size(), 30000U);
  expect_assembles(kernel, {"cuda:sm_80", "hip:gfx90a"});
  const uint64_t seed = fresh_seed();
  const auto values = random_values<float>(64, seed);
  OpenclBuffer a = filled(values), out(256);
  run_opencl(kernel, {&a, &out}, {});
  for (size_t t = 0; t < 64; ++t) {
    float expected = values[t];
    for (size_t i = 0; i < kDepth; ++i) {
      const float other = values[(t + i + 1) % 64];
      expected = expected < other ? expected + other : other - expected;
    }
    ASSERT_EQ(values_of<float>(out)[t], expected) << "seed " << seed;
  }
}

// --- matrix instructions --------------------------------------------------------------------------------------------------

TEST(GpuStatements, MatrixInstructionsAreTaken) {
  if (!missing_compiler("cuda").empty() && !missing_compiler("hip").empty()) GTEST_SKIP() << missing_compiler("cuda");
  for (const thread::MmaInstruction& i : thread::mma_instructions()) {
    const auto elements = [&](const char* what, const thread::FragmentMap& map, int slot, int from) {
      std::string text;
      for (int k = 0; k < map.items; ++k)
        text += fmt::format("%{}[{}] = load{}[t*{} + {}]\n", slot, k, from, map.items, k);
      static_cast<void>(what);
      return text;
    };
    std::string back;
    for (int k = 0; k < i.c.items; ++k) back += fmt::format("%3[t*{} + {}] = load6[{}]\n", i.c.items, k, k);
    const thread::Kernel kernel = parse_kernel(
        fmt::format(R"(
      kernel @product map {{
        global 0 @a {0} [{2}]  global 1 @b {0} [{3}]  global 2 @c {1} [{4}]  global 3 @d {1} [{4}] written
        local 4 @x {0} [{5}]  local 5 @y {0} [{6}]  local 6 @z {1} [{7}]
        grid bx 1 by 1 bz 1
        block t {8} warp {8}
        index_bits 32
        {9}{10}{11}
        mma "{12}" %6[0] = %4[0] * %5[0] + %6[0]
        {13}
      }})",
                    ir::name_of(i.factor), ir::name_of(i.sum), i.a.items * i.lanes, i.b.items * i.lanes,
                    i.c.items * i.lanes, i.a.items, i.b.items, i.c.items, i.lanes, elements("a", i.a, 4, 0),
                    elements("b", i.b, 5, 1), elements("c", i.c, 6, 2), i.name, back));
    thread::verify(kernel, thread::Stage::kFinal);
    int taken = 0;
    for (const std::string target : {"cuda:sm_75", "cuda:sm_80", "hip:gfx90a", "hip:gfx942", "hip:gfx1100"}) {
      if (taken > 0 || !thread::has_instruction(ir::find_target(target), i)) continue;
      SCOPED_TRACE(i.name + " on " + target);
      expect_assembles(kernel, {target});
      ++taken;
    }
    EXPECT_GT(taken, 0) << i.name;
  }
}

}  // namespace
}  // namespace stax::emit
