// SPDX-License-Identifier: Apache-2.0
// stax verify: the levels of a model against each other, on given or random inputs.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "random_inputs.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using runtime::Item;
using runtime::Tensor;

constexpr int kRandomCalls = 3;

struct VerifyOptions {
  std::string model;
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0;
  int threads = 0;
};

// The first element where two results differ by more than rounding explains, as text; empty if there is none.
std::string difference(const Tensor& got, const Tensor& want) {
  if (got.dtype != want.dtype || got.extents != want.extents)
    return fmt::format("{}[{}] instead of {}[{}]", ir::long_name_of(got.dtype), fmt::join(got.extents, ", "),
                       ir::long_name_of(want.dtype), fmt::join(want.extents, ", "));
  int64_t n = static_cast<int64_t>(want.bytes() / ir::byte_size(want.dtype));
  double top = 0;
  if (ir::is_float(want.dtype))
    for (int64_t k = 0; k < n; ++k)
      if (double v = std::fabs(ir::load_element(want.dtype, want.data, k).f); std::isfinite(v)) top = std::max(top, v);
  double relative = want.dtype == ir::DType::kF64 ? 1e-9 : want.dtype == ir::DType::kF32 ? 1e-3 : 2e-2;
  for (int64_t k = 0; k < n; ++k) {
    ir::Value64 a = ir::load_element(got.dtype, got.data, k), b = ir::load_element(want.dtype, want.data, k);
    bool same = ir::is_float(want.dtype) ? a.f == b.f || (std::isnan(a.f) && std::isnan(b.f)) ||
                                               std::fabs(a.f - b.f) <= relative * (std::fabs(b.f) + 0.1 * top) + 1e-6
                                         : a.i == b.i || (ir::byte_size(want.dtype) == 1 &&
                                                          want.dtype != ir::DType::kBool && std::abs(a.i - b.i) <= 1);
    if (!same) {
      if (ir::is_float(want.dtype)) return fmt::format("element {}: {} instead of {}", k, a.f, b.f);
      return fmt::format("element {}: {} instead of {}", k, a.i, b.i);
    }
  }
  return {};
}

int verify(const VerifyOptions& o) {
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  uint64_t seed = o.seed ? o.seed : static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::mt19937_64 rng(seed);
  session::SessionOptions options;
  options.dims = parse_dims(o.dims);
  options.threads = o.threads;
  std::vector<std::pair<std::string, std::vector<Item>>> calls;
  std::vector<std::unique_ptr<session::Session>> levels;
  const char* names[] = {"reference", "loop", "cpu"};
  for (const char* name : names) {
    options.device = name;
    levels.push_back(session::Session::load(o.model, options));
  }
  if (o.inputs.empty()) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    auto graph = session::load_graph(o.model, options.dims);
    for (int k = 0; k < kRandomCalls; ++k)
      calls.emplace_back("random inputs " + std::to_string(k), legal_inputs(*graph, *levels[0], rng));
  }
  for (const std::string& file : o.inputs)
    calls.emplace_back(file, session::feed(levels[0]->inputs(), session::read_npz(file), file));
  int status = 0;
  for (const auto& [name, items] : calls) {
    auto want = levels[0]->run(items, nullptr);
    bool agree = true;
    for (int level = 1; level < 3; ++level) {
      auto got = levels[level]->run(items, nullptr);
      for (size_t k = 0; k < want.size(); ++k) {
        std::string why = want[k].is_sequence
                              ? (got[k].sequence.size() == want[k].sequence.size() ? "" : "another number of elements")
                              : difference(got[k].tensor, want[k].tensor);
        if (why.empty() && want[k].is_sequence)
          for (size_t j = 0; j < want[k].sequence.size() && why.empty(); ++j)
            why = difference(got[k].sequence[j], want[k].sequence[j]);
        if (why.empty()) continue;
        std::fprintf(stderr, "stax: %s: output '%s' on device %s differs from the reference: %s\n", name.c_str(),
                     levels[0]->outputs()[k].name.c_str(), names[level], why.c_str());
        agree = false;
      }
    }
    if (agree) {
      std::printf("%s: reference, loop and cpu agree\n", name.c_str());
      continue;
    }
    status = 70;
    const auto source = [&] { return session::load_graph(o.model, options.dims); };
    if (auto found = bisect::bisect(source, session::reference_items(items), {.threads = o.threads}))
      report_finding(name, *found);
    else
      std::fprintf(stderr,
                   "stax: %s: each kernel by itself is within its rounding; the difference adds up over the model\n",
                   name.c_str());
  }
  return status;
}

}  // namespace

void add_verify(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<VerifyOptions>();
  CLI::App* c = app.add_subcommand("verify", "Check that all levels of a model agree");
  c->footer(
      "Ends with 0 where they agree. Where not, with 70, the pass or kernel at fault, and a repro.\n"
      "  stax verify m.onnx                      random inputs; --seed N draws the same again\n"
      "  stax verify m.onnx --inputs a.npz b.npz");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("--inputs", o->inputs, ".npz files; without them random inputs are drawn and the seed is printed");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--seed", o->seed, "of the random inputs");
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  actions[c] = [o] { return verify(*o); };
}

}  // namespace stax::tool
