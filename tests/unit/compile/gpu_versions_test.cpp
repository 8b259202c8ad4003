// SPDX-License-Identifier: Apache-2.0
// Every version that GPUs get of a kernel, run by the interpreter of thread IR, against the naive nest run by the loop interpreter: equal results at
// every shape that the version is for, and no race, no access out of bounds, no read of what was never written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iostream>
#include <random>

#include "compile/kernel_stages.h"
#include "ir/scalar.h"
#include "loop/passes.h"
#include "loop/phases.h"
#include "loop/transform.h"
#include "lower/loop_to_thread.h"
#include "schedule/gpu.h"
#include "schedule/gpu_phases.h"
#include "thread/interpret.h"

namespace stax {
namespace {

using symbolic::Expr;

constexpr const char* kRowSum = R"(kernel @row_sum reduction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @in f32 [p0, p1]
  argument 1 @out f32 [p0] written
  local 2 @acc f64 [] written
  for i in p0 {
    allocate 2 {
      %2[] = 0.0:f64
      for r in p1 {
        %2[] sum= cast<f64>(load0[i, r])
      }
      %1[i] = cast<f32>(load2[])
    }
  }
})";
constexpr const char* kColumnMax = R"(kernel @column_max reduction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @in f32 [p1, p0]
  argument 1 @out f32 [p0] written
  local 2 @acc f32 [] written
  for i in p0 {
    allocate 2 {
      %2[] = -inf:f32
      for r in p1 {
        %2[] max= load0[r, i]
      }
      %1[i] = load2[]
    }
  }
})";
constexpr const char* kColumnMean = R"(kernel @column_mean reduction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  param p2 0 .. 2147483647
  argument 0 @in f16 [p0, p1, p2]
  argument 1 @out f16 [p0, p2] written
  local 2 @acc f32 [] written
  for b in p0 {
    for i in p2 {
      allocate 2 {
        %2[] = 0.0:f32
        for r in p1 {
          %2[] sum= cast<f32>(load0[b, r, i])
        }
        %1[b, i] = cast<f16>(div(load2[], cast<f32>([max(p1, 1)])))
      }
    }
  }
})";
constexpr const char* kPointwise = R"(kernel @pointwise map {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @a f32 [p0, p1]
  argument 1 @b f32 [p1]
  argument 2 @out f32 [p0, p1] written
  for i in p0 {
    for j in p1 {
      %2[i, j] = max(add(load0[i, j], load1[j]), 0.0:f32)
    }
  }
})";
constexpr const char* kTranspose = R"(kernel @transpose map {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @a f32 [p1, p0]
  argument 1 @out f32 [p0, p1] written
  for i in p0 {
    for j in p1 {
      %1[i, j] = load0[j, i]
    }
  }
})";
constexpr const char* kMatmul = R"(kernel @matmul contraction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  param p2 0 .. 2147483647
  argument 0 @a f32 [p0, p2]
  argument 1 @b f32 [p2, p1]
  argument 2 @c f32 [p1]
  argument 3 @out f32 [p0, p1] written
  local 4 @acc f32 [] written
  for i in p0 {
    for j in p1 {
      allocate 4 {
        %4[] = 0.0:f32
        for r in p2 {
          %4[] sum= mul(load0[i, r], load1[r, j])
        }
        %3[i, j] = max(add(load4[], load2[j]), 0.0:f32)
      }
    }
  }
})";
constexpr const char* kHalfMatmul = R"(kernel @half_matmul contraction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  param p2 0 .. 2147483647
  argument 0 @a f16 [p0, p2]
  argument 1 @b f16 [p2, p1]
  argument 2 @c f32 [p1]
  argument 3 @out f16 [p0, p1] written
  local 4 @acc f32 [] written
  for i in p0 {
    for j in p1 {
      allocate 4 {
        %4[] = 0.0:f32
        for r in p2 {
          %4[] sum= mul(cast<f32>(load0[i, r]), cast<f32>(load1[r, j]))
        }
        %3[i, j] = cast<f16>(max(add(load4[], load2[j]), 0.0:f32))
      }
    }
  }
})";
constexpr const char* kTurnedMatmul = R"(kernel @turned_matmul contraction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  param p2 0 .. 2147483647
  argument 0 @a bf16 [p2, p0]
  argument 1 @b bf16 [p1, p2]
  argument 2 @c f32 [p1]
  argument 3 @out f32 [p0, p1] written
  local 4 @acc f32 [] written
  for i in p0 {
    for j in p1 {
      allocate 4 {
        %4[] = 0.0:f32
        for r in p2 {
          %4[] sum= mul(cast<f32>(load0[r, i]), cast<f32>(load1[j, r]))
        }
        %3[i, j] = max(add(load4[], load2[j]), 0.0:f32)
      }
    }
  }
})";
constexpr const char* kConvolution = R"(kernel @convolution contraction {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @a f32 [3, p0 + 2, p1 + 2]
  argument 1 @b f32 [3, 3, 3, 24]
  argument 2 @out f32 [24, p0, p1] written
  local 3 @acc f32 [] written
  for o in 24 {
    for y in p0 {
      for x in p1 {
        allocate 3 {
          %3[] = 0.0:f32
          for c in 3 {
            for u in 3 {
              for v in 3 {
                %3[] sum= mul(load0[c, y + u, x + v], load1[c, u, v, o])
              }
            }
          }
          %2[o, y, x] = load3[]
        }
      }
    }
  }
})";
constexpr const char* kRunningSum = R"(kernel @running_sum scan {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  argument 0 @in f32 [p0, p1]
  argument 1 @out f32 [p0, p1] written
  local 2 @acc f32 [] written
  for i in p0 {
    allocate 2 {
      %2[] = 0.0:f32
      for s in p1 {
        %2[] sum= load0[i, s]
        %1[i, s] = load2[]
      }
    }
  }
})";

// Neither the width of queries nor that of values fills a tile; a weight of a key may be 0.
constexpr const char* kAttention = R"(kernel @attention attention {
  param p0 0 .. 2147483647
  param p1 0 .. 2147483647
  param p2 0 .. 2147483647
  argument 0 @q f32 [p0, p1, 24]
  argument 1 @v f32 [p0, p2, 20]
  argument 2 @k f32 [p0, p2, 24]
  argument 3 @mask f32 [p1, p2]
  argument 4 @out f32 [p0, p1, 20] written
  local 5 @row0 f32 [24] written
  local 6 @row1 f32 [p2] written
  local 7 @acc1 f32 [] written
  local 8 @row2 f32 [] written
  local 9 @acc2 f32 [] written
  local 10 @acc4 f32 [] written
  local 11 @acc6 f32 [] written
  for i0 in p0 {
    for i1 in p1 {
      allocate 5 { allocate 6 { allocate 8 { allocate 9 { allocate 10 {
        for r0 in 24 { %5[r0] = load0[i0, i1, r0] }
        for c0 in p2 {
          allocate 7 {
            %7[] = 0.0:f32
            for d1 in 24 { %7[] sum= mul(load5[d1], load2[i0, c0, d1]) }
            %6[c0] = add(mul(load7[], 0.25:f32), load3[i1, c0])
          }
        }
        %9[] = -inf:f32
        for r1 in p2 { %9[] max= load6[r1] }
        %8[] = load9[]
        %10[] = 0.0:f32
        for r1 in p2 {
          %6[r1] = exp(sub(load6[r1], load8[]))
          %10[] sum= load6[r1]
        }
        for r1 in p2 { %6[r1] = div(load6[r1], load10[]) }
        for c2 in 20 {
          allocate 11 {
            %11[] = 0.0:f32
            for d3 in p2 { %11[] sum= mul(load6[d3], load1[i0, d3, c2]) }
            %4[i0, i1, c2] = load11[]
          }
        }
      } } } } }
    }
  }
})";

struct Case {
  const char* name;
  const char* text;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
constexpr Case kCases[] = {{"row_sum", kRowSum},          {"column_max", kColumnMax},
                           {"column_mean", kColumnMean},  {"pointwise", kPointwise},
                           {"transpose", kTranspose},     {"matmul", kMatmul},
                           {"convolution", kConvolution}, {"running_sum", kRunningSum},
                           {"half_matmul", kHalfMatmul},  {"turned_matmul", kTurnedMatmul},
                           {"attention", kAttention}};

int64_t evaluate(Expr e, const loop::Kernel& kernel, const std::vector<int64_t>& params) {
  symbolic::Substitution values;
  for (size_t k = 0; k < params.size(); ++k)
    values[kernel.params[k].node()] = kernel.context->exprs.constant(params[k]);
  return symbolic::substitute(e, values).constant();
}

struct Values {
  ir::DType dtype = ir::DType::kF32;
  std::vector<std::byte> bytes;
  size_t count = 0;
  double at(size_t k) const { return ir::load_element(dtype, bytes.data(), static_cast<int64_t>(k)).f; }
};

std::vector<Values> buffers_of(const loop::Kernel& kernel, const std::vector<int64_t>& params,
                               std::mt19937_64& random) {
  std::vector<Values> buffers;
  std::normal_distribution<double> normal;
  for (int k = 0; k < kernel.arguments; ++k) {
    int64_t count = 1;
    for (Expr e : kernel.buffers[k].extents) count *= evaluate(e, kernel, params);
    Values& b = buffers.emplace_back();
    b.dtype = kernel.buffers[k].dtype;
    b.count = static_cast<size_t>(count);
    b.bytes.resize(b.count * ir::byte_size(b.dtype));
    for (int64_t i = 0; i < count; ++i) {
      ir::Value64 v;
      v.f = kernel.buffers[k].written ? std::nan("") : normal(random);
      ir::store_element(b.dtype, b.bytes.data(), i, v);
    }
  }
  return buffers;
}

std::vector<void*> pointers_to(std::vector<Values>& buffers) {
  std::vector<void*> p;
  for (Values& b : buffers) p.push_back(b.bytes.data());
  return p;
}

/// Every version that the target gets of the kernel, where it is right, at each of the shapes.
void expect_versions(const std::string& text, const ir::Target& target, const std::vector<std::vector<int64_t>>& shapes,
                     std::mt19937_64& random) {
  const loop::Kernel naive = loop::parse_kernel(text);
  const auto versions = schedule::choose_gpu_versions(naive, target);
  ASSERT_FALSE(versions.empty());
  EXPECT_FALSE(versions.back().guard) << "the last version has to be total";
  for (size_t v = 0; v < versions.size(); ++v) {
    // The same nest with buffers of blocks elsewhere.
    if (versions[v].rows_in_global) continue;
    for (int bits : {32, 64}) {
      const loop::Kernel fresh = loop::parse_kernel(text);
      const loop::Kernel scheduled =
          loop::simplify(loop::apply_schedule(schedule::with_known(fresh, versions[v].known), versions[v].schedule));
      const thread::Kernel threads = lower::lower_to_thread(scheduled, target, versions[v].block, bits);
      const thread::Interpreter interpreter(threads);
      int runs = 0;
      for (std::vector<int64_t> params : shapes) {
        params.resize(naive.params.size());
        SCOPED_TRACE(testing::Message() << target.name << ", version " << v << ", " << bits << " bits, shape "
                                        << testing::PrintToString(params));
        if (versions[v].necessary && evaluate(versions[v].necessary, naive, params) == 0) continue;
        ++runs;
        auto want = buffers_of(naive, params, random), got = want;
        const auto want_at = pointers_to(want);
        loop::interpret(naive, want_at, params);
        std::vector<int64_t> passed = params;
        for (const thread::Divisor& d : threads.divisors) {
          const auto value = static_cast<uint64_t>(evaluate(d.value, scheduled, params));
          int shift = 0;
          while ((uint64_t{1} << shift) < value) ++shift;
          passed.push_back(static_cast<int64_t>((((uint64_t{1} << shift) - value) << 32) / value + 1));
          passed.push_back(shift);
        }
        int64_t fault[4] = {};
        const auto got_at = pointers_to(got);
        thread::Launch launch;
        launch.buffers = got_at;
        launch.params = passed;
        launch.fault = fault;
        const thread::Outcome outcome = interpreter.run(launch);
        ASSERT_TRUE(outcome.reports.empty()) << outcome.reports.front().str();
        for (size_t k = 0; k < want.size(); ++k)
          for (size_t i = 0; i < want[k].count; ++i)
            ASSERT_NEAR(got[k].at(i), want[k].at(i),
                        (want[k].dtype == ir::DType::kF16 ? 2e-3 : 1e-4) * (1 + std::fabs(want[k].at(i))))
                << "buffer " << k << " at " << i;
      }
      EXPECT_GT(runs, 0) << "no shape is for version " << v;
    }
  }
}

class GpuVersions : public testing::TestWithParam<std::tuple<Case, std::string>> {
 protected:
  void SetUp() override {
    const uint64_t seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    std::cout << "seed " << seed << "\n";
    random_.seed(seed);
  }
  const ir::Target& target() const { return ir::find_target(std::get<1>(GetParam())); }
  std::mt19937_64 random_;
};

TEST_P(GpuVersions, AgreeWithTheNaiveNest) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},    {3, 5, 2},    {17, 33, 16}, {32, 64, 48}, {64, 4, 7},
                                                    {65, 70, 19}, {130, 68, 5}, {2, 300, 33}, {40, 136, 72}};
  // Heads are alike.
  const std::vector<std::vector<int64_t>> attention = {{1, 1, 1}, {3, 5, 2}, {2, 17, 33}, {1, 40, 136}};
  const Case& c = std::get<0>(GetParam());
  expect_versions(c.text, target(), c.text == kAttention ? attention : shapes, random_);
}

// Where a kernel has phases, each of them is a kernel with versions of its own.
TEST_P(GpuVersions, PhasesAgreeWithTheirNaiveNests) {
  const auto phases = schedule::choose_gpu_phases(loop::parse_kernel(std::get<0>(GetParam()).text), target());
  if (!phases) GTEST_SKIP() << "it has no phases";
  const int64_t part = phases->kernel.params.back().symbol().multiple;
  std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},
                                              {3, 5, 2},
                                              {17, 33, 2 * part},
                                              {40, 136, 2 * part + 8},
                                              {1, 8, 3 * part},
                                              {4, 2 * part + 4, 72},
                                              {2, 300, part + 1},
                                              {130, 132, part},
                                              {5, 3 * part + 7, 9},
                                              {515, 4 * part + 5, 3}};
  for (auto& shape : shapes) {
    shape.resize(phases->kernel.params.size() - 1);
    shape.push_back(shape.front() % 2 == 0 ? 2 * part : part);
  }
  const std::vector<loop::Phase> nests = loop::phases_of(phases->kernel);
  ASSERT_EQ(nests.size(), phases->classes.size());
  for (size_t k = 0; k < nests.size(); ++k) {
    loop::Kernel kernel = nests[k].kernel;
    kernel.kernel_class = phases->classes[k];
    SCOPED_TRACE(loop::print(kernel));
    expect_versions(loop::print(kernel), target(), shapes, random_);
  }
}

/// Blocks of a scheduled kernel times their threads.
int64_t threads_of(const loop::Kernel& kernel, const schedule::GpuVersion& v, const std::vector<int64_t>& params) {
  const loop::Kernel scheduled = loop::apply_schedule(schedule::with_known(kernel, v.known), v.schedule);
  int64_t threads = v.block;
  loop::visit(scheduled.body, [&](const loop::Stmt& s) {
    const auto* f = s->as<loop::For>();
    if (f != nullptr && f->kind == loop::LoopKind::kParallel) threads *= evaluate(f->extent, scheduled, params);
  });
  return threads;
}

// Phases are there to give the machine more to do at once: the first has threads for its many parts, whatever the number of rows.
TEST_P(GpuVersions, PartsRunSideBySide) {
  const auto phases = schedule::choose_gpu_phases(loop::parse_kernel(std::get<0>(GetParam()).text), target());
  if (!phases) GTEST_SKIP() << "it has no phases";
  constexpr int64_t kParts = 512, kResultsOfThread = 128;
  const int64_t part = phases->kernel.params.back().symbol().multiple;
  const std::vector<loop::Phase> nests = loop::phases_of(phases->kernel);
  for (const size_t k : {size_t{0}, nests.size() - 1}) {
    if (k > 0 && nests.size() < 3) continue;
    loop::Kernel kernel = nests[k].kernel;
    kernel.kernel_class = phases->classes[k];
    std::vector<int64_t> params(kernel.params.size(), kParts * part);
    params.back() = part;
    int64_t results = 0;
    for (int slot = 0; slot < kernel.arguments; ++slot) {
      if (!kernel.buffers[slot].written) continue;
      int64_t count = 1;
      for (Expr e : kernel.buffers[slot].extents) count *= evaluate(e, kernel, params);
      results = std::max(results, count);
    }
    // The last phase of a scan writes all elements of its parts.
    if (k > 0) results /= part;
    const loop::Kernel text = loop::parse_kernel(loop::print(kernel));
    for (const schedule::GpuVersion& v : schedule::choose_gpu_versions(text, target()))
      EXPECT_GE(threads_of(text, v, params) * kResultsOfThread, results) << v.schedule;
  }
}

// Kernels with more than a block may always have do not load. Heads of 256 and 512 come near it and beyond.
TEST(GpuKernels, StaticSharedMemoryIsThere) {
  for (const char* width : {"128", "256", "512", "1024"}) {
    std::string text = kAttention;
    for (const char* narrow : {"24", "20"})
      for (size_t at = text.find(narrow); at != std::string::npos; at = text.find(narrow, at + std::strlen(width)))
        text.replace(at, std::strlen(narrow), width);
    for (const char* name : {"cuda:sm_75", "cuda:sm_90a", "hip:gfx942", "opencl"}) {
      const ir::Target& target = ir::find_target(name);
      for (const compile::GpuKernelVersion& v : compile::gpu_kernel_versions(loop::parse_kernel(text), target)) {
        const loop::Kernel fresh = loop::parse_kernel(text);
        const loop::Kernel scheduled =
            loop::apply_schedule(schedule::with_known(fresh, v.version.known), v.version.schedule);
        const thread::Kernel threads = lower::lower_to_thread(loop::simplify(scheduled), target, v.version.block,
                                                              v.index_bits, v.version.rows_in_global);
        EXPECT_LE(thread::static_shared_bytes(threads), target.static_shared) << name << ", heads of " << width;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GpuVersions,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values("opencl", "cuda:sm_80", "hip:gfx90a", "hip:gfx1100")),
                         [](const auto& info) {
                           std::string name = std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace stax
