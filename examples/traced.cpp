// SPDX-License-Identifier: Apache-2.0
// A model written as a C++ function: traced [FILE.stax]
//
// How alike are n queries and m documents, as directions? Both numbers vary. The function below becomes one program,
// which is compared with plain loops and, if a file is named, written there for the runtime library.
#include <stax/stax.h>

#include <cmath>
#include <cstdio>

namespace {

constexpr int64_t kWidth = 24;

stax::Var normalized(const stax::Var& rows) { return rows / sqrt(sum(rows * rows, {-1}, true) + 1e-12); }

std::vector<float> rows(int64_t count, double phase) {
  std::vector<float> v(static_cast<size_t>(count * kWidth));
  for (size_t k = 0; k < v.size(); ++k) v[k] = static_cast<float>(std::sin(0.37 * static_cast<double>(k) + phase));
  return v;
}

float alike(const float* a, const float* b) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t k = 0; k < kWidth; ++k) ab += a[k] * b[k], aa += a[k] * a[k], bb += b[k] * b[k];
  return static_cast<float>(ab / std::sqrt(aa * bb));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    stax::Dim n = stax::dim("queries", 0, 1000), m = stax::dim("documents", 1, 100000);
    stax::Model model =
        stax::trace({{"queries", stax::DType::kF32, {n, kWidth}}, {"documents", stax::DType::kF32, {m, kWidth}}},
                    [](stax::Var queries, stax::Var documents) {
                      stax::Var score = matmul(normalized(queries), transpose(normalized(documents), {1, 0}));
                      return std::vector<stax::TraceOutput>{{"score", score}, {"best", argmax(score, -1)}};
                    });

    float worst = 0;
    struct Size {
      int64_t queries, documents;
    };
    for (Size size : {Size{1, 1}, Size{5, 300}, Size{0, 7}, Size{33, 65}}) {
      std::vector<float> q = rows(size.queries, 0.1), d = rows(size.documents, 1.9);
      std::vector<stax::Tensor> y =
          model.run({stax::view(q.data(), {size.queries, kWidth}), stax::view(d.data(), {size.documents, kWidth})});
      for (int64_t i = 0; i < size.queries; ++i)
        for (int64_t j = 0; j < size.documents; ++j)
          worst = std::max(worst, std::abs(y[0].data<float>()[i * size.documents + j] -
                                           alike(q.data() + i * kWidth, d.data() + j * kWidth)));
    }
    std::printf("largest error %.2g\n", worst);
    if (argc > 1) model.compile_to(argv[1]);
    return worst < 1e-5f ? 0 : 1;
  } catch (const stax::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
