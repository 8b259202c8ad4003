// SPDX-License-Identifier: Apache-2.0
// stax bench: where the time of a model goes, kernel by kernel, at many shapes, and how far from what the machine can do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "random_inputs.h"
#include "roof.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;
using runtime::KernelUse;

struct BenchOptions {
  std::string model, device = "cpu", json_file;
  std::vector<std::string> sweeps, inputs, dims, force;
  int threads = 0, repeat = 20, warmup = 3;
  uint64_t seed = 1;
};

constexpr size_t kMostPoints = 256;
constexpr int64_t kSteps = 8;  // of a sweep that is not logarithmic

/// "seq=1..512:log" -> the dim and its extents: powers of two between the ends, or equal steps; both ends belong to it.
std::pair<std::string, std::vector<int64_t>> parse_sweep(const std::string& text) {
  const bool logarithmic = text.ends_with(":log");
  if (text.find('=') == std::string::npos || text.starts_with('='))
    user_error("--sweep '{}' has no dim and '='; write NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=N", text);
  const auto [name, range] = *parse_dims({logarithmic ? text.substr(0, text.size() - 4) : text}).begin();
  std::vector<int64_t> extents{range.lo};
  if (logarithmic) {
    for (int64_t e = 1; e < range.hi; e *= 2)
      if (e > range.lo) extents.push_back(e);
  } else {
    for (int64_t k = 1; k < kSteps; ++k) {
      const int64_t e = range.lo + (range.hi - range.lo) * k / kSteps;
      if (e > extents.back()) extents.push_back(e);
    }
  }
  if (range.hi > range.lo) extents.push_back(range.hi);
  return {name, extents};
}

/// All combinations of the sweeps' extents, the last sweep's moving fastest.
std::vector<std::map<std::string, int64_t>> points_of(const std::vector<std::string>& sweeps) {
  std::vector<std::map<std::string, int64_t>> points{{}};
  for (const std::string& text : sweeps) {
    const auto [name, extents] = parse_sweep(text);
    std::vector<std::map<std::string, int64_t>> more;
    for (const auto& point : points)
      for (int64_t e : extents) {
        more.push_back(point);
        if (!more.back().emplace(name, e).second) user_error("--sweep: dim '{}' is swept twice", name);
      }
    points = std::move(more);
    if (points.size() > kMostPoints)
      user_error("--sweep: {} shapes are more than {}; narrow the ranges or use :log", points.size(), kMostPoints);
  }
  return points;
}

void check_sweeps(tensor::Graph& graph, const std::vector<std::string>& sweeps) {
  std::vector<std::string> names;
  for (const auto& input : graph.inputs)
    for (symbolic::Expr e : input.value->type.extents)
      if (e.is_symbol() && std::find(names.begin(), names.end(), e.symbol().name) == names.end())
        names.push_back(e.symbol().name);
  for (const std::string& text : sweeps) {
    const std::string name = parse_sweep(text).first;
    if (std::find(names.begin(), names.end(), name) == names.end())
      user_error("--sweep {}: the model has no dim '{}'; its dims are {}", text, name, fmt::join(names, ", "));
  }
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Calls at one shape: all of them timed whole, half of them by kernel.
json measure(session::Session& session, const std::vector<runtime::Item>& items, const BenchOptions& o,
             const Roof& roof) {
  for (int k = 0; k < o.warmup; ++k) session.run(items, nullptr);
  std::vector<double> calls;
  for (int k = 0; k < o.repeat; ++k) {
    const auto start = std::chrono::steady_clock::now();
    session.run(items, nullptr);
    calls.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  const program::Program& program = *session.program();
  std::vector<KernelUse> uses;
  std::vector<std::vector<double>> times(program.kernels.size());
  for (int k = 0; k < (o.repeat + 1) / 2; ++k) {
    runtime::CallStatistics statistics;
    session.run(items, &statistics, true);
    uses = statistics.kernels;
    for (size_t n = 0; n < uses.size(); ++n) times[n].push_back(static_cast<double>(uses[n].ns));
  }
  json kernels = json::array();
  double all = 0, least = 0;
  for (size_t n = 0; n < uses.size(); ++n) {
    if (uses[n].launches == 0) continue;
    const double ns = std::max(median(times[n]), 1.0);
    const double bound = static_cast<double>(uses[n].launches) *
                         roof.least_ns(uses[n].operations / uses[n].launches, uses[n].bytes / uses[n].launches);
    all += ns, least += std::min(bound, ns);  // what takes less than it could would hide the others
    kernels.push_back({{"name", program.kernels[n].name},
                       {"class", program.kernels[n].kernel_class},
                       {"launches", uses[n].launches},
                       {"us", ns / 1e3},
                       {"bytes", uses[n].bytes},
                       {"operations", uses[n].operations},
                       {"gbytes_per_s", static_cast<double>(uses[n].bytes) / ns},
                       {"goperations_per_s", static_cast<double>(uses[n].operations) / ns},
                       {"share_of_roof", bound / ns},
                       {"source", program.kernels[n].source}});
  }
  std::sort(kernels.begin(), kernels.end(), [](const json& a, const json& b) { return a["us"] > b["us"]; });
  json shapes = json::object();
  for (size_t k = 0; k < items.size(); ++k) shapes[session.inputs()[k].name] = items[k].tensor.extents;
  return {{"shapes", shapes},
          {"call_us", median(calls)},
          {"kernels_us", all / 1e3},
          {"roof_us", least / 1e3},
          {"share_of_roof", all > 0 ? least / all : 0},
          {"kernels", kernels}};
}

void print(const std::string& name, const json& point) {
  std::printf("%s: %.1f us a call, kernels %.1f us, %.0f %% of the roof\n", name.c_str(),
              point["call_us"].get<double>(), point["kernels_us"].get<double>(),
              100 * point["share_of_roof"].get<double>());
  std::printf("  %10s %6s %5s %9s %8s %8s %6s  %s\n", "us", "share", "times", "MB", "GB/s", "Gop/s", "roof", "kernel");
  for (const json& k : point["kernels"])
    std::printf("  %10.1f %5.1f%% %5lld %9.3f %8.1f %8.1f %5.0f%%  %s: %s\n", k["us"].get<double>(),
                100 * k["us"].get<double>() / std::max(point["kernels_us"].get<double>(), 1e-9),
                static_cast<long long>(k["launches"].get<int64_t>()), k["bytes"].get<double>() / 1e6,
                k["gbytes_per_s"].get<double>(), k["goperations_per_s"].get<double>(),
                100 * k["share_of_roof"].get<double>(), k["name"].get<std::string>().c_str(),
                k["source"].get<std::string>().c_str());
}

int bench(const BenchOptions& o) {
  if (o.repeat < 1 || o.warmup < 0) user_error("--repeat must be at least 1 and --warmup at least 0");
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  if (!o.sweeps.empty() && !o.inputs.empty()) user_error("--sweep draws inputs of its own; leave out --inputs");
  if (o.device != "cpu") unsupported("bench measures device cpu; device '{}' has stax doctor", o.device);
  session::SessionOptions options;
  options.device = o.device;
  options.dims = parse_dims(o.dims);
  options.threads = o.threads;
  for (const std::string& text : o.force)
    for (const auto& [family, version] : parse_at(text))
      options.forced_versions[family] = static_cast<uint32_t>(version);
  std::vector<std::map<std::string, int64_t>> points = points_of(o.sweeps);
  std::unique_ptr<tensor::Graph> graph;
  if (o.inputs.empty()) {
    graph = session::load_graph(o.model, options.dims);
    check_sweeps(*graph, o.sweeps);
  }
  auto session = session::Session::load(o.model, options);
  const int threads = o.threads > 0 ? o.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Roof roof = measure_roof(threads);
  std::printf("roof of %d thread%s: %.0f Gop/s of f32", threads, threads == 1 ? "" : "s", roof.operations_per_ns);
  for (const auto& [bytes, rate] : roof.bytes_per_ns)
    std::printf(", %.0f GB/s from %lld KB", rate, static_cast<long long>(bytes >> 10));
  std::printf("\n");
  json report = json::array();
  const auto add = [&](const std::string& name, const std::vector<runtime::Item>& items) {
    report.push_back(measure(*session, items, o, roof));
    print(name, report.back());
  };
  for (const std::string& file : o.inputs) add(file, session::feed(session->inputs(), session::read_npz(file), file));
  std::mt19937_64 rng(o.seed);
  if (graph != nullptr)
    for (const auto& point : points) {
      std::string name;
      for (const auto& [dim, extent] : point) name += fmt::format("{}{}={}", name.empty() ? "" : ",", dim, extent);
      add(name.empty() ? "random inputs" : name, legal_inputs(*graph, *session, rng, point));
    }
  if (!o.json_file.empty()) {
    json rates = json::object();
    for (const auto& [bytes, rate] : roof.bytes_per_ns) rates[std::to_string(bytes)] = rate;
    const json j = {{"model", o.model},
                    {"threads", threads},
                    {"roof", {{"goperations_per_s", roof.operations_per_ns}, {"gbytes_per_s", rates}}},
                    {"points", report}};
    const std::string text = j.dump(1, ' ', false, json::error_handler_t::replace);
    session::write_file_atomically(o.json_file, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* c = app.add_subcommand("bench", "Time a model kernel by kernel, beside what the machine can do");
  c->footer(
      "Bytes are those of all arguments, operations those of a kernel's definition; the roof is the least time that "
      "both take on this machine, measured "
      "first. More than 100 % means that not all of an argument is read, or arithmetic on fewer bits than f32.\n"
      "  stax bench m.onnx --sweep seq=1..512:log            random inputs; other dims are drawn\n"
      "  stax bench m.onnx --sweep seq=64 --sweep batch=1..8\n"
      "  stax bench m.onnx --inputs a.npz b.npz --threads 1 --json times.json");
  c->add_option("model", o->model, "an ONNX file or .stax text; with --inputs also a compiled .stax file")->required();
  c->add_option("--sweep", o->sweeps, "NAME=LOW..HIGH in equal steps, NAME=LOW..HIGH:log in powers of two, NAME=N");
  c->add_option("--inputs", o->inputs, ".npz files, one array per graph input by name");
  c->add_option("--device", o->device, "cpu");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  c->add_option("--repeat", o->repeat, "timed calls for each shape");
  c->add_option("--warmup", o->warmup, "calls before the timed ones");
  c->add_option("--seed", o->seed, "of the random inputs");
  c->add_option("--force", o->force, "KERNEL=VERSION, or *=VERSION for all kernels");
  c->add_option("--json", o->json_file, "all of it as a file");
  actions[c] = [o] { return bench(*o); };
}

}  // namespace stax::tool
