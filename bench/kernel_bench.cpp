// SPDX-License-Identifier: Apache-2.0
// Kernel classes on this CPU: Stax, OpenBLAS, oneDNN and ONNX Runtime in turns.
//
//   kernel_bench --python .venv/bin/python --threads 1 [--kinds REGEX] [flags of Google Benchmark]
//
// Every solver's result is compared with ONNX Runtime's before it is timed; a wrong one ends the program. A benchmark is named KIND/PARAMETERS/SOLVER. Counters:
// `operations` and `bytes` a second, and `roof_ns`, the least time that this machine could take, 0 where that is not known. OpenBLAS and oneDNN take their
// number of threads from OPENBLAS_NUM_THREADS and OMP_NUM_THREADS: scripts/bench_kernels sets them.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <regex>

#include "problem.h"
#include "roof.h"
#include "worker.h"

#ifndef STAX_PROBLEMS
#error "STAX_PROBLEMS is the path of problems.py"
#endif

namespace stax::bench {
namespace {

using Parameters = std::map<std::string, int64_t>;

struct Row {
  std::string kind;
  Parameters parameters;
};

std::vector<Row> rows() {
  std::vector<Row> out;
  for (const auto& [k, n] :
       std::vector<std::pair<int64_t, int64_t>>{{768, 768}, {768, 3072}, {3072, 768}, {769, 767}, {256, 256}})
    for (const int64_t m : {1, 4, 8, 12, 16, 17, 64, 100, 128, 129, 384})
      out.push_back({"matmul", {{"m", m}, {"k", k}, {"n", n}}});
  for (const int64_t m : {17, 128, 384})
    out.push_back({"batched_matmul", {{"batch", 12}, {"m", m}, {"k", 64}, {"n", m}}});
  for (const int64_t m : {1, 16, 128}) out.push_back({"matmul_int8", {{"m", m}, {"k", 768}, {"n", 3072}}});
  const auto conv = [&](int64_t inputs, int64_t outputs, int64_t size, int64_t window, int64_t stride, int64_t groups) {
    out.push_back({"convolution",
                   {{"batch", 1},
                    {"inputs", inputs},
                    {"outputs", outputs},
                    {"height", size},
                    {"width", size},
                    {"window", window},
                    {"stride", stride},
                    {"groups", groups}}});
  };
  conv(3, 64, 224, 7, 2, 1);
  conv(64, 64, 56, 3, 1, 1);
  conv(64, 256, 56, 1, 1, 1);
  conv(256, 64, 56, 1, 1, 1);
  conv(128, 128, 56, 3, 2, 1);
  conv(512, 512, 7, 3, 1, 1);
  conv(144, 144, 56, 3, 1, 144);
  conv(40, 40, 61, 3, 1, 1);
  for (const auto& [kind, columns] :
       std::vector<std::pair<std::string, int64_t>>{{"layer_norm", 768}, {"gelu", 3072}, {"add", 3072}})
    for (const int64_t rows : {17, 128, 1024}) out.push_back({kind, {{"rows", rows}, {"columns", columns}}});
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{1536, 384}, {128, 1001}, {204, 17}})
    out.push_back({"softmax", {{"rows", rows}, {"columns", columns}}});
  for (const char* kind : {"exp", "tanh", "row_sums", "column_sums", "transpose"})
    for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{128, 1024}, {1000, 1001}})
      out.push_back({kind, {{"rows", rows}, {"columns", columns}}});
  out.push_back({"heads", {{"length", 384}, {"count", 12}, {"width", 64}}});
  out.push_back({"gather", {{"table", 30522}, {"width", 768}, {"count", 128}}});
  for (const int64_t batch : {1, 16})
    out.push_back({"lstm", {{"length", 50}, {"batch", batch}, {"inputs", 128}, {"hidden", 256}}});
  return out;
}

int64_t operations_of(const Problem& p) {
  if (p.kind == "matmul" || p.kind == "matmul_int8") return 2 * p["m"] * p["k"] * p["n"];
  if (p.kind == "batched_matmul") return 2 * p["batch"] * p["m"] * p["k"] * p["n"];
  if (p.kind == "convolution") return 2 * p.output.count() * (p["inputs"] / p["groups"]) * p["window"] * p["window"];
  if (p.kind == "lstm") return 8 * p["length"] * p["batch"] * p["hidden"] * (p["inputs"] + p["hidden"]);
  return p.inputs[0].count();
}

int64_t bytes_of(const Problem& p) {
  auto bytes = static_cast<int64_t>(p.output.bytes.size());
  for (const Array& each : p.inputs) bytes += static_cast<int64_t>(each.bytes.size());
  if (p.kind == "gather") return bytes + static_cast<int64_t>(p.output.bytes.size());
  for (const Array& each : p.constants) bytes += static_cast<int64_t>(each.bytes.size());
  return bytes;
}

void count(benchmark::State& state, const Problem& p, const tool::Roof& roof) {
  using benchmark::Counter;
  state.counters["operations"] = Counter(static_cast<double>(p.operations), Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = Counter(static_cast<double>(p.bytes), Counter::kIsIterationInvariantRate);
  // The roof is that of floats.
  state.counters["roof_ns"] = p.kind == "matmul_int8" ? 0 : roof.least_ns(p.operations, p.bytes);
}

// Compares, then registers.
void add(const std::shared_ptr<const Problem>& p, const std::string& solver_name, const Solver& solver,
         const tool::Roof& roof) {
  if (!solver.call) return;
  std::memset(solver.output->data(), 0xA5, solver.output->size());
  solver.call();
  if (const double d = distance(*p, p->output.bytes, *solver.output); d > 1e-3) {
    std::cerr << "kernel_bench: " << p->name() << ": " << solver_name << " parts from ONNX Runtime by " << d << "\n";
    std::exit(1);
  }
  benchmark::RegisterBenchmark((p->name() + "/" + solver_name).c_str(), [p, solver, &roof](benchmark::State& state) {
    for (auto _ : state) solver.call();
    count(state, *p, roof);
  })->UseRealTime();
}

int run(int argc, char** argv) {
  int threads = 1;
  std::string python = "python3", kinds;
  std::vector<char*> rest = {argv[0]};
  for (int k = 1; k < argc; ++k) {
    const std::string flag = argv[k];
    if (k + 1 < argc && flag == "--threads")
      threads = std::stoi(argv[++k]);
    else if (k + 1 < argc && flag == "--python")
      python = argv[++k];
    else if (k + 1 < argc && flag == "--kinds")
      kinds = argv[++k];
    else
      rest.push_back(argv[k]);
  }
  int count_of_rest = static_cast<int>(rest.size());
  benchmark::Initialize(&count_of_rest, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count_of_rest, rest.data())) return 1;

  std::string folder = (std::filesystem::temp_directory_path() / "kernel_bench.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    throw std::runtime_error("cannot make a folder in " + std::filesystem::temp_directory_path().string());
  const std::unique_ptr<const std::string, void (*)(const std::string*)> remove(&folder, [](const std::string* f) {
    std::error_code ignored;
    std::filesystem::remove_all(*f, ignored);
  });
  Worker worker(python, STAX_PROBLEMS, threads, folder);
  const tool::Roof roof = tool::measure_roof(threads);
  const std::regex wanted(kinds);
  for (const Row& row : rows()) {
    if (!std::regex_search(row.kind, wanted)) continue;
    auto p = std::make_shared<Problem>(worker.make(row.kind, row.parameters));
    p->operations = operations_of(*p);
    p->bytes = bytes_of(*p);
    add(p, "stax", solve_with_stax(*p, threads), roof);
    add(p, "openblas", solve_with_openblas(*p), roof);
    add(p, "onednn", solve_with_onednn(*p), roof);
    benchmark::RegisterBenchmark((p->name() + "/onnxruntime").c_str(), [p, &worker, &roof](benchmark::State& state) {
      // A request costs as much as a small kernel: ONNX Runtime's process times some calls in one.
      const int calls = static_cast<int>(std::clamp<int64_t>(20'000'000 / std::max<int64_t>(p->operations, 1), 1, 50));
      for (auto _ : state) state.SetIterationTime(worker.seconds(*p, calls));
      count(state, *p, roof);
    })->UseManualTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace stax::bench

int main(int argc, char** argv) {
  try {
    return stax::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "kernel_bench: " << e.what() << "\n";
    return 1;
  }
}
