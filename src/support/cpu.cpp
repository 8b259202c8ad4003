// SPDX-License-Identifier: Apache-2.0
#include "support/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stax {
namespace {

#if defined(__x86_64__)
// Leaf 7, subleaf 1: not all compilers' run-time libraries know of it.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 4)) != 0;
}
#endif

}  // namespace

bool cpu_executes(std::string_view isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (isa == "avx512vnni") return cpu_executes("avx512") && __builtin_cpu_supports("avx512vnni");
  if (isa == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
  if (isa == "avxvnni") return cpu_executes("avx2") && has_avx_vnni();
  if (isa == "avx2")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return isa == "baseline" && __builtin_cpu_supports("sse4.2");
#else
  return isa == "baseline";
#endif
}

}  // namespace stax
