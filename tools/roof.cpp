// SPDX-License-Identifier: Apache-2.0
#include "roof.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "support/cpu.h"

namespace stax::tool {
namespace {

using Clock = std::chrono::steady_clock;

// x * 0.5 + 1 stays near 2, far from denormals. Independent chains hide the latency of a fused multiply-add, 4 or 5 cycles at two a cycle.
constexpr int kChains = 12;

template <int kBytes>
struct Vector {
  // NOLINTNEXTLINE(modernize-use-using): GCC leaves the attribute out of an alias.
  typedef float Type __attribute__((vector_size(kBytes)));
};

// A value that the compiler may not compute beforehand.
#if defined(__x86_64__)
#define STAX_IN_REGISTER(v) "+x"(v)
#else
#define STAX_IN_REGISTER(v) "+w"(v)
#endif

// Each machine's version is a function of its own, because the compiler chooses instructions by function.
#define STAX_DEFINE_ROOF(Name, attribute, kBytes)                              \
  attribute float multiply_##Name(int64_t rounds, float seed) {                \
    using V = Vector<kBytes>::Type;                                            \
    V x[kChains], a, b;                                                        \
    for (int k = 0; k < kBytes / 4; ++k) a[k] = 0.5F + seed, b[k] = 1.0F;      \
    _Pragma("GCC unroll 12") for (int c = 0; c < kChains; ++c) x[c] = a;       \
    for (int64_t r = 0; r < rounds; ++r) {                                     \
      _Pragma("GCC unroll 12") for (int c = 0; c < kChains; ++c) {             \
        x[c] = x[c] * a + b;                                                   \
        asm volatile("" : STAX_IN_REGISTER(x[c]));                             \
      }                                                                        \
    }                                                                          \
    _Pragma("GCC unroll 12") for (int c = 1; c < kChains; ++c) x[0] += x[c];   \
    return x[0][0];                                                            \
  }                                                                            \
  attribute float read_##Name(const float* from, int64_t count) {              \
    using V = Vector<kBytes>::Type;                                            \
    constexpr int kLanes = kBytes / 4;                                         \
    V sum[8] = {};                                                             \
    const V* at = reinterpret_cast<const V*>(from);                            \
    for (int64_t k = 0; k + 8 <= count / kLanes; k += 8)                       \
      _Pragma("GCC unroll 8") for (int c = 0; c < 8; ++c) sum[c] += at[k + c]; \
    _Pragma("GCC unroll 8") for (int c = 1; c < 8; ++c) sum[0] += sum[c];      \
    return sum[0][0];                                                          \
  }

#if defined(__x86_64__)
STAX_DEFINE_ROOF(Avx512, __attribute__((target("avx512f"))), 64)
STAX_DEFINE_ROOF(Avx2, __attribute__((target("avx2,fma"))), 32)
#endif
STAX_DEFINE_ROOF(Baseline, , 16)

struct Machine {
  int lanes;
  float (*multiply)(int64_t rounds, float seed);
  float (*read)(const float* from, int64_t count);
};

Machine this_machine() {
#if defined(__x86_64__)
  if (cpu_executes("avx512")) return {16, multiply_Avx512, read_Avx512};
  if (cpu_executes("avx2")) return {8, multiply_Avx2, read_Avx2};
#endif
  return {4, multiply_Baseline, read_Baseline};
}

/// The least of several times that all threads together take for `work(thread)`, in ns.
double least_time(int threads, const std::function<void(int)>& work) {
  double least = 1e18;
  for (int round = 0; round < 7; ++round) {
    std::atomic<int> ready{0};
    std::vector<std::thread> others;
    Clock::time_point start;
    const auto run = [&](int k) {
      ++ready;
      while (ready.load() < threads) {
      }
      if (k == 0) start = Clock::now();
      work(k);
    };
    for (int k = 1; k < threads; ++k) others.emplace_back(run, k);
    run(0);
    for (std::thread& t : others) t.join();
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return least;
}

}  // namespace

double Roof::least_ns(int64_t operations, int64_t bytes) const {
  auto at = std::find_if(bytes_per_ns.begin(), bytes_per_ns.end(), [&](const auto& b) { return bytes <= b.first; });
  if (at == bytes_per_ns.end()) --at;
  return std::max(static_cast<double>(operations) / operations_per_ns, static_cast<double>(bytes) / at->second);
}

Roof measure_roof(int threads) {
  const Machine machine = this_machine();
  std::atomic<float> sink{0};  // what is computed is used
  Roof roof;
  constexpr int64_t kRounds = 1'000'000;
  const double ns =
      least_time(threads, [&](int k) { sink = machine.multiply(kRounds, static_cast<float>(k) * 1e-9F); });
  roof.operations_per_ns = 2.0 * kChains * machine.lanes * kRounds * threads / ns;
  for (const int64_t bytes : {int64_t{32} << 10, int64_t{1} << 20, int64_t{16} << 20, int64_t{256} << 20}) {
    const int64_t each = bytes / 4 / threads / 128 * 128;
    std::vector<std::vector<float>> data;
    for (int k = 0; k < threads; ++k) data.emplace_back(static_cast<size_t>(each) + 16, 1.0F);
    const int64_t repeat = std::max<int64_t>(1, (int64_t{32} << 20) / bytes);
    const auto aligned = [&](int k) {
      auto at = reinterpret_cast<uintptr_t>(data[static_cast<size_t>(k)].data());
      return reinterpret_cast<const float*>((at + 63) / 64 * 64);
    };
    const double took = least_time(threads, [&](int k) {
      for (int64_t r = 0; r < repeat; ++r) sink = machine.read(aligned(k), each);
    });
    roof.bytes_per_ns.emplace_back(bytes, static_cast<double>(each * 4 * threads * repeat) / took);
  }
  return roof;
}

}  // namespace stax::tool
