// SPDX-License-Identifier: Apache-2.0
// libstax_runtime in a process that has no compiler: runtime_test FOLDER_OF_MODELS. Prints what loading takes.
#include <stax/stax.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#ifndef STAX_RUNTIME_ONLY
#error "the runtime target says that it is one"
#endif

namespace {

int faults = 0;

void check(bool holds, const char* what, int line) {
  if (holds) return;
  ++faults;
  std::fprintf(stderr, "line %d: %s\n", line, what);
}
#define CHECK(condition) check((condition), #condition, __LINE__)

bool is_mapped(const char* library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::string folder = argv[1];
  CHECK(!stax::has_compiler());

  auto start = std::chrono::steady_clock::now();
  stax::Model model = stax::Model::load(folder + "/dense.stax");
  double first = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  double best = first;
  for (int k = 0; k < 5; ++k) {
    start = std::chrono::steady_clock::now();
    stax::Model::load(folder + "/dense.stax");
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("load: %.2f ms at first, %.2f ms again\n", first, best);
  // It takes about one; what compiled anything, or read LLVM, would take far more.
  CHECK(best < 100);

  std::vector<float> x(4 * 100, 0.5f), y(3 * 100);
  for (int64_t n : {100, 1, 0, 33}) {
    model.run({stax::view(x.data(), {n, 4})}, {stax::view(y.data(), {n, 3})});
    // Column 0: 0.5 * (-5 - 2 + 1 + 4) / 8 + 0.5
    if (n > 0) CHECK(std::abs(y[static_cast<size_t>(3 * (n - 1))] - 0.375f) < 1e-6f);
  }
  stax::Options options;
  options.check_every = 2;
  options.on_mismatch = [](const stax::Mismatch& m) { std::printf("%s: %s\n", m.kernel.c_str(), m.what.c_str()); };
  stax::Model checked = stax::Model::load(folder + "/dense.stax", options);
  for (int k = 0; k < 3; ++k) checked.run({stax::view(x.data(), {50, 4})}, {stax::view(y.data(), {50, 3})});
  CHECK(checked.statistics().checked_calls == 2);
  CHECK(checked.statistics().mismatches == 0);
  options.check_every = -1;
  try {
    stax::Model::load(folder + "/dense.stax", options);
    CHECK(false);
  } catch (const stax::Error& e) {
    CHECK(std::strstr(e.what(), "check_every") != nullptr);
  }

  stax::Model positions = stax::Model::load(folder + "/nonzero.stax");
  CHECK(positions.run({stax::Tensor::of<float>({3}, {0, 5, 0})})[0].data<int64_t>()[0] == 1);

  for (const char* name : {"/dense.onnx", "/damaged.onnx"}) {
    try {
      stax::Model::load(folder + name);
      CHECK(false);
    } catch (const stax::Error& e) {
      CHECK(e.kind() == stax::ErrorKind::kUnsupported);
      CHECK(e.problem().find("this is the runtime library") != std::string::npos);
      CHECK(e.where() == folder + name);
      CHECK(e.how().find("stax compile") != std::string::npos);
    }
  }
  try {
    model.compile_to(folder + "/never.stax");
    CHECK(false);
  } catch (const stax::Error& e) {
    CHECK(e.kind() == stax::ErrorKind::kUnsupported);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> mine(4 * 3000, 0.5f), result(3 * 3000);
      for (int k = 0; k < 40; ++k) {
        int64_t n = (t * 977 + k * 131) % 3000;
        model.run({stax::view(mine.data(), {n, 4})}, {stax::view(result.data(), {n, 3})});
        for (int64_t r = 0; r < n; ++r) wrong += std::abs(result[static_cast<size_t>(3 * r)] - 0.375f) > 1e-6f;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  for (const char* library : {"LLVM", "protobuf", "libzip"}) CHECK(!is_mapped(library));
  std::printf("runtime: %s\n", faults ? "FAILED" : "ok");
  return faults ? 1 : 0;
}
