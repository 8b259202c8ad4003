// SPDX-License-Identifier: Apache-2.0
#include <cblas-openblas.h>

#include "problem.h"

namespace stax::bench {

Solver solve_with_openblas(const Problem& problem) {
  const bool batched = problem.kind == "batched_matmul";
  if (!batched && problem.kind != "matmul") return {};
  auto output = std::make_shared<std::vector<std::byte>>(problem.output.bytes.size());
  const int64_t batch = batched ? problem["batch"] : 1, m = problem["m"], k = problem["k"], n = problem["n"];
  const float* a = problem.inputs[0].data<float>();
  const float* b = batched ? problem.inputs[1].data<float>() : problem.constants[0].data<float>();
  auto* c = reinterpret_cast<float*>(output->data());
  return {[=] {
            for (int64_t i = 0; i < batch; ++i)
              cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
                          static_cast<int>(k), 1, a + i * m * k, static_cast<int>(k), b + i * k * n,
                          static_cast<int>(n), 0, c + i * m * n, static_cast<int>(n));
          },
          output};
}

}  // namespace stax::bench
