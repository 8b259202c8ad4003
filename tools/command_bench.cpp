// SPDX-License-Identifier: Apache-2.0
// stax bench: where the time of a model goes, kernel by kernel, at many shapes, and how far from what the machine can do.
#include <algorithm>
#include <cstdio>
#include <thread>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "measure.h"
#include "random_inputs.h"
#include "session/npz.h"
#include "shapes.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

struct BenchOptions {
  std::string model, device = "cpu", json_file, shapes;
  std::vector<std::string> sweeps, inputs, dims, force;
  int threads = 0, repeat = 20, warmup = 3;
  uint64_t seed = 1;
};

json json_of(const Cost& cost, const session::Session& session, const std::vector<runtime::Item>& items) {
  const program::Program& program = *session.program();
  json kernels = json::array();
  for (const KernelCost& k : cost.kernels)
    kernels.push_back({{"name", program.kernels[k.kernel].name},
                       {"class", program.kernels[k.kernel].kernel_class},
                       {"launches", k.launches},
                       {"us", k.ns / 1e3},
                       {"bytes", k.bytes},
                       {"operations", k.operations},
                       {"gbytes_per_s", static_cast<double>(k.bytes) / k.ns},
                       {"goperations_per_s", static_cast<double>(k.operations) / k.ns},
                       {"share_of_roof", k.share_of_roof()},
                       {"source", program.kernels[k.kernel].source}});
  json shapes = json::object();
  for (size_t k = 0; k < items.size(); ++k) shapes[session.inputs()[k].name] = items[k].tensor.extents;
  return {{"shapes", shapes},
          {"call_us", cost.call_us},
          {"kernels_us", cost.kernels_us},
          {"roof_us", cost.roof_us},
          {"share_of_roof", cost.share_of_roof()},
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
  if (int{!o.sweeps.empty()} + int{!o.inputs.empty()} + int{!o.shapes.empty()} > 1)
    user_error("--sweep, --shapes and --inputs say each what to call; give one of them");
  if (o.device != "cpu") unsupported("bench measures device cpu; device '{}' has stax doctor", o.device);
  refuse_to_overwrite(o.json_file, o.model, o.inputs);
  session::SessionOptions options;
  options.device = o.device;
  options.dims = parse_dims(o.dims);
  options.threads = o.threads;
  for (const std::string& text : o.force)
    for (const auto& [family, version] : parse_at(text))
      options.forced_versions[family] = static_cast<uint32_t>(version);
  const std::vector<Shape> shapes = o.shapes.empty() ? shapes_of_sweeps(o.sweeps) : read_shapes(o.shapes);
  std::unique_ptr<tensor::Graph> graph;
  if (o.inputs.empty()) {
    graph = session::load_graph(o.model, options.dims);
    check_shapes(*graph, shapes, o.shapes.empty() ? "--sweep" : "--shapes '" + o.shapes + "'");
  }
  auto session = session::Session::load(o.model, options);
  const int threads = o.threads > 0 ? o.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Roof roof = measure_roof(threads);
  std::printf("roof of %d thread%s: %.0f Gop/s of f32", threads, threads == 1 ? "" : "s", roof.operations_per_ns);
  for (const auto& [bytes, rate] : roof.bytes_per_ns)
    std::printf(", %.0f GB/s from %lld KB", rate, static_cast<long long>(bytes >> 10));
  std::printf("\n");
  json report = json::array();
  const auto add = [&](const std::string& name, const std::vector<runtime::Item>& items, int64_t calls) {
    report.push_back(json_of(measure(*session, items, o.warmup, o.repeat, roof), *session, items));
    if (!o.shapes.empty()) report.back()["calls"] = calls;
    print(name, report.back());
  };
  for (const std::string& file : o.inputs)
    add(file, session::feed(session->inputs(), session::read_npz(file), file), 1);
  if (graph != nullptr)
    for (const Shape& shape : shapes) {
      std::mt19937_64 rng(o.seed);  // so that the dims that are drawn are the same at all shapes
      const auto items = legal_inputs(*graph, *session, rng, shape.dims);
      const auto extents = extents_of(session->inputs(), items);
      add(name_of({extents.begin(), extents.end()}), items, shape.calls);
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
      "  stax bench m.onnx --sweep seq=1..512:log            random inputs; other dims are drawn once\n"
      "  stax bench m.onnx --sweep seq=64 --sweep batch=1..8\n"
      "  stax bench m.onnx --shapes h.json                   what stax run --record h.json counted\n"
      "  stax bench m.onnx --inputs a.npz b.npz --threads 1 --json times.json");
  c->add_option("model", o->model, "an ONNX file or .stax text; with --inputs also a compiled .stax file")->required();
  c->add_option("--sweep", o->sweeps, "NAME=LOW..HIGH in equal steps, NAME=LOW..HIGH:log in powers of two, NAME=N");
  c->add_option("--shapes", o->shapes, "the shapes that stax run --record wrote");
  c->add_option("--inputs", o->inputs, ".npz files, one array per graph input by name");
  c->add_option("--device", o->device, "cpu");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  c->add_option("--repeat", o->repeat, "timed calls for each shape")->capture_default_str();
  c->add_option("--warmup", o->warmup, "calls before the timed ones")->capture_default_str();
  c->add_option("--seed", o->seed, "of the random inputs")->capture_default_str();
  c->add_option("--force", o->force, "KERNEL=VERSION, or *=VERSION for all kernels");
  c->add_option("--json", o->json_file, "all of it as a file");
  actions[c] = [o] { return bench(*o); };
}

}  // namespace stax::tool
