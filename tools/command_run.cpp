// SPDX-License-Identifier: Apache-2.0
// stax run: one session, the input files in order.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "checked_run.h"
#include "commands.h"
#include "session/npz.h"
#include "shapes.h"
#include "support/error.h"

namespace stax::tool {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs, dims, force;
  std::string outputs, device = "cpu", json_file, launch_log, emit, record;
  int threads = 0, repeat = 1, warmup = 0, check = 0;
  bool quiet = false, profile = false, frozen = false, batch_invariant = false;
};

/// The peak of this program. What getrusage tells begins with the process that started it.
int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::string text_of(const json& j) { return j.dump(1, ' ', false, json::error_handler_t::replace); }

void write_text(const std::string& path, const std::string& text) {
  session::write_file_atomically(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void print_summary(const std::string& file, const session::Session& session, const std::vector<runtime::Item>& outputs,
                   std::vector<double> latencies) {
  std::nth_element(latencies.begin(), latencies.begin() + static_cast<std::ptrdiff_t>(latencies.size() / 2),
                   latencies.end());
  std::printf("%s: %.1f us", file.c_str(), latencies[latencies.size() / 2]);
  if (latencies.size() > 1) std::printf(", median of %zu calls", latencies.size());
  std::printf("\n");
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].is_sequence) {
      std::printf("  %s: sequence of %zu\n", session.outputs()[k].name.c_str(), outputs[k].sequence.size());
      continue;
    }
    const runtime::Tensor& t = outputs[k].tensor;
    std::printf("  %s: %s [%s]\n", session.outputs()[k].name.c_str(), std::string(ir::long_name_of(t.dtype)).c_str(),
                fmt::format("{}", fmt::join(t.extents, ", ")).c_str());
  }
}

void print_profile(const program::Program& program, const std::vector<runtime::KernelUse>& uses) {
  std::vector<std::pair<int64_t, size_t>> order;
  int64_t total = 0;
  for (size_t k = 0; k < uses.size(); ++k)
    if (uses[k].ns > 0) order.emplace_back(uses[k].ns, k), total += uses[k].ns;
  std::sort(order.rbegin(), order.rend());
  for (auto [t, k] : order) {
    const auto ns = static_cast<double>(t);
    std::printf("  %10.1f us %5.1f %% %8.3f MB %7.1f GB/s %7.1f Gop/s  %-20s %s\n", ns / 1e3,
                100.0 * ns / static_cast<double>(total), static_cast<double>(uses[k].bytes) / 1e6,
                static_cast<double>(uses[k].bytes) / ns, static_cast<double>(uses[k].operations) / ns,
                program.kernels[k].name.c_str(), program.kernels[k].source.c_str());
  }
}

/// Where the results of an input file go.
fs::path result_path(const RunOptions& o, const std::string& input) {
  return fs::path(o.outputs) / fs::path(input).filename();
}

/// Results must not meet each other, nor what they are made from.
void check_result_paths(const RunOptions& o) {
  std::map<std::string, std::string> made;
  for (const std::string& file : o.inputs) {
    std::error_code none;
    auto [it, fresh] = made.emplace(fs::path(file).filename().string(), file);
    if (!fresh && it->second != file && !fs::equivalent(it->second, file, none))
      user_error("the results of '{}' and '{}' would be the same file '{}'; give them different names", it->second,
                 file, result_path(o, file).string());
    for (const std::string& other : o.inputs)
      if (fs::equivalent(other, result_path(o, file), none))
        user_error("the results of '{}' would overwrite the input file '{}'; give another folder with --outputs", file,
                   other);
  }
}

void check(const RunOptions& o) {
  if (o.inputs.empty()) user_error("no input files; give at least one with --inputs a.npz");
  if (o.repeat < 1 || o.warmup < 0) user_error("--repeat must be at least 1 and --warmup at least 0");
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  for (const std::string& output : {o.json_file, o.record}) refuse_to_overwrite(output, o.model, o.inputs);
  if (o.check < 0) user_error("--check must be at least 1: every so many calls one is checked");
}

session::SessionOptions session_options(const RunOptions& o) {
  session::SessionOptions options;
  options.device = o.device;
  options.launch_log = o.launch_log;
  options.emit = o.emit;
  options.dims = parse_dims(o.dims);
  options.threads = o.threads;
  options.check_every = o.check;
  for (const std::string& text : o.force)
    for (const auto& [family, version] : parse_at(text))
      options.forced_versions[family] = static_cast<uint32_t>(version);
  return options;
}

void prepare_output_folder(const RunOptions& o) {
  if (o.outputs.empty()) return;
  std::error_code error;
  fs::create_directories(o.outputs, error);
  if (!fs::is_directory(o.outputs))
    user_error("the output folder '{}' cannot be made: {}; name another with --outputs", o.outputs, error.message());
  check_result_paths(o);
  // What an earlier run left must not be taken for the result of a call that fails.
  for (const std::string& file : o.inputs) fs::remove(result_path(o, file), error);
}

/// One input file: its calls, its results, and what --json says of it.
json run_file(const RunOptions& o, session::Session& session, const std::string& file, ShapeHistogram& histogram) {
  const auto arrays = session::read_npz(file);
  const std::vector<runtime::Item> items = session::feed(session.inputs(), arrays, file);
  runtime::CallStatistics statistics;
  std::vector<runtime::Item> outputs;
  std::vector<double> latencies;
  for (int k = -o.warmup; k < o.repeat; ++k) {
    outputs.clear();  // those of one call are gone before the next: there are never two of each
    const auto start = std::chrono::steady_clock::now();
    outputs = session.run(items, &statistics, o.profile && k >= 0);
    if (k >= 0)
      latencies.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    histogram.add(session.inputs(), items);
  }
  if (!o.outputs.empty())
    session::write_npz(result_path(o, file).string(), session::unfeed(session.outputs(), outputs));
  json entry, shapes = json::object();
  for (size_t k = 0; k < items.size(); ++k) shapes[session.inputs()[k].name] = items[k].tensor.extents;
  entry["file"] = file;
  entry["shapes"] = shapes;
  entry["latency_us"] = latencies;
  entry["dispatch_ns"] = statistics.dispatch_ns;
  entry["launches_per_call"] = statistics.launches;
  entry["versions_used"] = json::object();
  if (const program::Program* p = session.program())
    for (uint32_t k : statistics.versions_used) entry["versions_used"][p->kernels[k].family] = p->kernels[k].version;
  if (!o.quiet) print_summary(file, session, outputs, latencies);
  if (o.profile && session.program()) print_profile(*session.program(), statistics.kernels);
  return entry;
}

void write_statistics(const RunOptions& o, const session::Session& session, const json& files) {
  const session::SessionStatistics s = session.statistics();
  json j;
  j["device"] = {{"kind", o.device}, {"name", s.device_name}};
  j["launches"] = s.launches;
  j["resident_bytes"] = resident_bytes();
  j["compile_ms"] = s.compile_ms;
  j["load_ms"] = s.load_ms;
  j["compiles_after_load"] = s.compiles_after_load;
  j["kernels"] = s.kernels;
  j["versions"] = s.versions;
  j["peak_bytes"] = s.peak_bytes;
  if (o.check > 0)
    j["check"] = {{"calls", s.checked_calls}, {"launches", s.checked_launches}, {"mismatches", s.mismatches}};
  j["inputs"] = files;
  write_text(o.json_file, text_of(j));
}

int run(const RunOptions& o) {
  check(o);
  session::SessionOptions options = session_options(o);
  CheckedRun checked(o.model, {.threads = o.threads, .device = o.device, .emit = o.emit}, options.dims);
  checked.listen(options);
  prepare_output_folder(o);
  auto session = session::Session::load(o.model, options);
  checked.attach(*session);
  if (!o.quiet)
    for (const std::string& w : session->warnings()) std::fprintf(stderr, "stax: warning: %s\n", w.c_str());
  json files = json::array();
  ShapeHistogram histogram;
  bool failed = false;
  const auto fail = [&](const std::string& file, const std::string& message, const std::string& entry) {
    std::fprintf(stderr, "stax: %s\n", message.c_str());
    files.push_back({{"file", file}, {"error", entry}});
    failed = true;
  };
  for (const std::string& file : o.inputs) {
    checked.begin(file);
    try {
      files.push_back(run_file(o, *session, file, histogram));
    } catch (const UserError& e) {
      const std::string text = e.what();
      fail(file, text.find(file) == std::string::npos ? file + ": " + text : text, text);
    } catch (const std::bad_alloc&) {
      fail(file, file + ": out of memory; use smaller inputs or free memory", "out of memory");
    }
  }
  if (!o.json_file.empty()) write_statistics(o, *session, files);
  if (!o.record.empty()) write_text(o.record, histogram.text());
  if (o.check > 0 && !o.quiet) checked.print_summary();
  if (checked.found()) return checked.explain();
  return failed ? 1 : 0;
}

}  // namespace

void add_run(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* c = app.add_subcommand("run", "Run a model on arrays from .npz files, in one session");
  c->footer(
      "One session runs the files in order; the shapes may differ from file to file.\n"
      "  stax run m.onnx --inputs a.npz b.npz --outputs out     results in out/a.npz and out/b.npz\n"
      "  stax run m.onnx --inputs a.npz --dim batch=1..8        calls outside of the range are errors\n"
      "  stax run m.onnx --inputs a.npz --repeat 100 --profile  time of each kernel\n"
      "  stax run m.onnx --inputs a.npz --check 10              every 10th call checked; 70 and a repro if it is "
      "wrong\n"
      "  stax run m.onnx --inputs *.npz --record h.json         for stax bench m.onnx --shapes h.json");
  c->add_option("model", o->model, "an ONNX file, a compiled .stax file, or .stax text")->required();
  c->add_option("--inputs", o->inputs, ".npz files, one array per graph input by name");
  c->add_option("--outputs", o->outputs, "folder for the results: x.npz gives DIR/x.npz");
  c->add_option("--device", o->device, "cpu, cuda, hip, opencl, sim, loop or reference");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH; unnamed dims are input[axis]");
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  c->add_option("--repeat", o->repeat, "timed calls for each file")->capture_default_str();
  c->add_option("--warmup", o->warmup, "calls before the timed ones")->capture_default_str();
  c->add_option("--check", o->check,
                "of N calls check one: each kernel again in the version that is right at every shape");
  c->add_option("--record", o->record, "the shapes that ran, with the number of calls, as a file for --shapes");
  c->add_option("--json", o->json_file, "statistics of the session");
  c->add_option("--launch-log", o->launch_log, "folder for every launch of GPU code, its code and its memory");
  add_emit(c, o->emit);
  c->add_option("--force", o->force, "KERNEL=VERSION, or *=VERSION for all kernels; beyond the last one: the last");
  c->add_flag("--quiet", o->quiet, "print errors only");
  c->add_flag("--profile", o->profile, "print the time of each kernel in the last call");
  c->add_flag("--frozen", o->frozen, "never compile after load (always so)");
  c->add_flag("--batch-invariant", o->batch_invariant, "a row's result does not depend on its batch (always so)");
  actions[c] = [o] { return run(*o); };
}

}  // namespace stax::tool
