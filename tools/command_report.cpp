// SPDX-License-Identifier: Apache-2.0
// stax report: a model's kernels, versions, times and memory as one page.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "commands.h"
#include "random_inputs.h"
#include "report_page.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

struct ReportOptions {
  std::string model, page, shapes;
  std::vector<std::string> sweeps, dims, inputs;
  int threads = 0, repeat = 10, warmup = 2;
  uint64_t seed = 1;
};

int report(const ReportOptions& o) {
  if (o.repeat < 1 || o.warmup < 0) user_error("--repeat must be at least 1 and --warmup at least 0");
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  if (int{!o.sweeps.empty()} + int{!o.inputs.empty()} + int{!o.shapes.empty()} > 1)
    user_error("--sweep, --shapes and --inputs say each what to call; give one of them");
  refuse_to_overwrite(o.page, o.model, o.inputs);
  session::SessionOptions options;
  options.dims = parse_dims(o.dims);
  options.threads = o.threads;
  const std::vector<Shape> shapes = o.shapes.empty() ? shapes_of_sweeps(o.sweeps) : read_shapes(o.shapes);
  std::unique_ptr<tensor::Graph> graph = session::load_graph(o.model, options.dims);
  check_shapes(*graph, shapes, o.shapes.empty() ? "--sweep" : "--shapes '" + o.shapes + "'");
  auto session = session::Session::load(o.model, options);

  Report r;
  r.model = o.model;
  r.device = session->statistics().device_name;
  r.threads = o.threads > 0 ? o.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  r.roof = measure_roof(r.threads);
  r.inputs = session->inputs();
  r.outputs = session->outputs();
  r.warnings = session->warnings();
  r.program = session->program();
  tensor::for_each_op(graph->body, [&](const tensor::Op&) { ++r.imported_ops; });
  const auto add = [&](const std::string& name, int64_t calls, const std::vector<runtime::Item>& inputs) {
    const auto extents = extents_of(session->inputs(), inputs);
    r.points.push_back(
        {name, calls, {extents.begin(), extents.end()}, measure(*session, inputs, o.warmup, o.repeat, r.roof)});
    const size_t all = o.inputs.empty() ? shapes.size() : o.inputs.size(), done = r.points.size();
    if (isatty(2)) std::fprintf(stderr, "\r%zu of %zu shapes%s", done, all, done == all ? "\n" : "");
  };
  for (const std::string& file : o.inputs)
    add(std::filesystem::path(file).filename().string(), 1,
        session::feed(session->inputs(), session::read_npz(file), file));
  if (o.inputs.empty())
    for (const Shape& shape : shapes) {
      std::mt19937_64 rng(o.seed);  // so that the dims that are drawn are the same at all shapes
      add(name_of(shape.dims), shape.calls, legal_inputs(*graph, *session, rng, shape.dims));
    }
  compile::optimize(*graph, {});
  r.graph_text = tensor::print(*graph);
  const std::string page = report_page(r);
  session::write_file_atomically(o.page, {reinterpret_cast<const uint8_t*>(page.data()), page.size()});
  return 0;
}

}  // namespace

void add_report(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<ReportOptions>();
  CLI::App* c =
      app.add_subcommand("report", "Write a page about a model: kernels, versions, times and memory by shape");
  c->footer(
      "One HTML file that needs no network and no script. Times are measured on this machine's CPU, on random inputs "
      "or those given.\n"
      "  stax report m.onnx -o m.html --sweep seq=1..512:log\n"
      "  stax report m.onnx -o m.html --shapes h.json            the shapes that stax run --record h.json counted");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("-o,--output", o->page, "the page")->required();
  c->add_option("--sweep", o->sweeps, "NAME=LOW..HIGH in equal steps, NAME=LOW..HIGH:log in powers of two, NAME=N");
  c->add_option("--shapes", o->shapes, "the shapes that stax run --record wrote");
  c->add_option("--inputs", o->inputs, ".npz files, one array per graph input by name");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  c->add_option("--repeat", o->repeat, "timed calls for each shape")->capture_default_str();
  c->add_option("--warmup", o->warmup, "calls before the timed ones")->capture_default_str();
  c->add_option("--seed", o->seed, "of the random inputs")->capture_default_str();
  actions[c] = [o] { return report(*o); };
}

}  // namespace stax::tool
