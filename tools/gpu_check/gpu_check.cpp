// SPDX-License-Identifier: Apache-2.0
// gpu_check BUNDLE [--device cuda] [--only REGEX] [--seconds N] [--json FILE]: every case of a bundle on the GPU, against the CPU.
//
// A bundle is a folder with cases.json and, for each case, NAME.cuda.stax and NAME.cpu.stax: one model, compiled for both. Weights are inputs like
// others; all are drawn from seeds, here. This program is the runtime and nothing else: no compiler, no LLVM.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/cuda.h"
#include "runtime/runtime.h"
#include "support/error.h"
#include "support/float16.h"

namespace stax {
namespace {

using json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::vector<uint8_t> read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) user_error("'{}' cannot be read; is this a bundle of scripts/gpu_bundle?", path);
  return {std::istreambuf_iterator<char>(in), {}};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double element(const runtime::Tensor& t, int64_t i) {
  const ir::Value64 v = ir::load_element(t.dtype, t.data, i);
  return ir::is_float(t.dtype) ? v.f : static_cast<double>(v.i);
}

// "normal", or "below N": integers 0 .. N - 1.
runtime::Item draw(const json& spec, std::mt19937_64& random) {
  runtime::Item item;
  runtime::Tensor& t = item.tensor;
  t.dtype = *ir::parse_dtype(spec.at("dtype").get<std::string>());
  t.extents = spec.at("extents").get<std::vector<int64_t>>();
  const std::string how = spec.at("draw");
  int64_t count = 1;
  for (int64_t e : t.extents) count *= e;
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(count) * ir::byte_size(t.dtype) + 64);
  std::normal_distribution<double> normal(0, spec.value("scale", 1.0));
  for (int64_t i = 0; i < count; ++i) {
    ir::Value64 v;
    if (ir::is_float(t.dtype)) {
      v.f = normal(random);
    } else {
      v.i = static_cast<int64_t>(random() % static_cast<uint64_t>(std::stoll(how.substr(6))));
    }
    ir::store_element(t.dtype, bytes->data(), i, v);
  }
  t.data = bytes->data();
  t.owner = std::shared_ptr<void>(bytes, bytes->data());
  return item;
}

struct Difference {
  double worst = 0;  // relative to the largest value of the output
  std::string text;  // not empty: wrong
};

Difference compare(const std::vector<runtime::Item>& got, const std::vector<runtime::Item>& want, double tolerance) {
  Difference d;
  for (size_t k = 0; k < want.size(); ++k) {
    const runtime::Tensor &a = got[k].tensor, &b = want[k].tensor;
    if (a.dtype != b.dtype || a.extents != b.extents) return {1, fmt::format("output {} has another type or shape", k)};
    int64_t count = 1;
    for (int64_t e : b.extents) count *= e;
    double top = 1e-30;
    for (int64_t i = 0; i < count; ++i)
      if (std::isfinite(element(b, i))) top = std::max(top, std::fabs(element(b, i)));
    for (int64_t i = 0; i < count; ++i) {
      const double x = element(a, i), y = element(b, i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      const double off = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) / top : 1;
      d.worst = std::max(d.worst, off);
      if (off > tolerance && d.text.empty()) d.text = fmt::format("output {} at {}: {} instead of {}", k, i, x, y);
    }
  }
  return d;
}

struct Options {
  std::string bundle, only, json_file;
  double seconds = 400;  // then the rest is only checked at the first shape of each case
};

class Check {
 public:
  explicit Check(Options o) : o_(std::move(o)), start_(Clock::now()) {}

  int run() {
    const auto text = read(o_.bundle + "/cases.json");
    const json cases = json::parse(text.begin(), text.end());
    result_["capability"] = runtime::cuda_compute_capability();
    std::printf("%-18s %-26s %12s %12s %10s %10s  %s\n", "case", "shape", "call us", "kernels us", "GFLOP/s", "GB/s",
                "largest difference");
    for (const json& c : cases)
      if (std::regex_search(c.at("name").get<std::string>(), std::regex(o_.only))) check(c);
    result_["passed"] = passed_;
    result_["failed"] = failed_;
    if (!o_.json_file.empty()) std::ofstream(o_.json_file) << result_.dump(1) << "\n";
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void check(const json& c) {
    const std::string name = c.at("name");
    try {
      const auto load = [&](const char* device) {
        const std::string path = o_.bundle + "/" + name + "." + device + ".stax";
        return std::make_shared<program::Program>(program::deserialize(read(path), path));
      };
      const auto for_cpu = load("cpu"), for_gpu = load("cuda");
      const auto before = Clock::now();
      runtime::Module gpu(for_gpu, runtime::open_cuda(*for_gpu), {});
      const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - before).count();
      runtime::Module cpu(for_cpu, runtime::open_cpu(*for_cpu), {});
      result_["device"] = gpu.device().name();
      json entry = {
          {"name", name}, {"load_ms", load_ms}, {"kernels", for_gpu->kernels.size()}, {"shapes", json::array()}};
      bool first = true;
      for (const json& shape : c.at("shapes")) {
        if (!first && elapsed() > o_.seconds) break;
        first = false;
        entry["shapes"].push_back(at_shape(name, shape, c.value("tolerance", 1e-4), *for_gpu, cpu, gpu));
      }
      result_["cases"].push_back(std::move(entry));
    } catch (const std::exception& e) {
      ++failed_;
      std::printf("FAIL %s: %s\n", name.c_str(), e.what());
      result_["cases"].push_back({{"name", name}, {"error", e.what()}});
    }
  }

  json at_shape(const std::string& name, const json& shape, double tolerance, const program::Program& program,
                runtime::Module& cpu, runtime::Module& gpu) {
    std::mt19937_64 random(shape.at("seed").get<uint64_t>());
    std::vector<runtime::Item> inputs;
    for (const program::InputSpec& i : program.inputs) inputs.push_back(draw(shape.at("inputs").at(i.name), random));
    const std::vector<runtime::Item> want = cpu.run(inputs), got = gpu.run(inputs);
    const Difference d = compare(got, want, tolerance);
    d.text.empty() ? ++passed_ : ++failed_;
    // Whole calls, from host memory to host memory; then with each kernel timed by itself.
    std::vector<double> call_us, kernels_us;
    const auto stop = Clock::now() + std::chrono::milliseconds(o_.seconds > elapsed() ? 150 : 0);
    for (int k = 0; k < 3 || (k < 50 && Clock::now() < stop); ++k) {
      const auto before = Clock::now();
      gpu.run(inputs);
      call_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    json kernels = json::object();
    for (int k = 0; k < 5; ++k) {
      runtime::CallStatistics statistics;
      gpu.run(inputs, &statistics, true);
      double sum = 0;
      for (size_t n = 0; n < statistics.kernels.size(); ++n) {
        const double us = static_cast<double>(statistics.kernels[n].ns) / 1e3;
        sum += us;
        if (us > 0) kernels[program.kernels[n].name] = us;
      }
      kernels_us.push_back(sum);
    }
    const double us = std::max(median(kernels_us), 1e-3), gflops = shape.value("flops", 0.0) / us / 1e3,
                 gbs = shape.value("bytes", 0.0) / us / 1e3;
    const std::string label = shape.at("label");
    std::printf("%-18s %-26s %12.1f %12.1f %10.1f %10.1f  %.2g%s%s\n", name.c_str(), label.c_str(), median(call_us), us,
                gflops, gbs, d.worst, d.text.empty() ? "" : "  FAIL ", d.text.c_str());
    std::fflush(stdout);
    return {{"label", label},   {"call_us", median(call_us)}, {"kernels_us", us}, {"kernels", kernels},
            {"gflops", gflops}, {"gbytes_per_s", gbs},        {"worst", d.worst}, {"fault", d.text}};
  }

  Options o_;
  Clock::time_point start_;
  json result_;
  int passed_ = 0, failed_ = 0;
};

int usage() {
  std::fprintf(stderr, "usage: gpu_check BUNDLE [--only REGEX] [--seconds N] [--json FILE]\n");
  return 2;
}

}  // namespace
}  // namespace stax

int main(int argc, char** argv) {
  stax::Options o;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const bool has_value = k + 1 < argc;
    if (word == "--only" && has_value) {
      o.only = argv[++k];
    } else if (word == "--json" && has_value) {
      o.json_file = argv[++k];
    } else if (word == "--seconds" && has_value) {
      o.seconds = std::atof(argv[++k]);
    } else if (o.bundle.empty() && !word.starts_with("--")) {
      o.bundle = word;
    } else {
      return stax::usage();
    }
  }
  if (o.bundle.empty()) return stax::usage();
  try {
    return stax::Check(std::move(o)).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_check: %s\n", e.what());
    return 1;
  }
}
