// SPDX-License-Identifier: Apache-2.0
#include "report_page.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "html.h"
#include "program/steps.h"

namespace stax::tool {
namespace {

using program::kNone;
using program::LaunchStep;

constexpr const char* kStyle = R"(
:root { --ink: #1c2733; --soft: #667788; --line: #d8dee6; --paper: #fff; --panel: #f6f8fa; --bar: #9ec5e8; --part: #2b6cb0;
  --c0: #2b6cb0; --c1: #dd8a2b; --c2: #2f9e6e; --c3: #c0504d; --c4: #7e62b5; --c5: #8c6d4f; --c6: #cc77aa; --c7: #7f8c8d; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe6ee; --soft: #93a3b3; --line: #33404d; --paper: #151b21;
  --panel: #1d252d; --bar: #34567a; --part: #6aa9e9; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 1180px; padding: 24px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 8px; border-bottom: 1px solid var(--line); }
p.note, .soft { color: var(--soft); } table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th { text-align: left; color: var(--soft); font-weight: 500; } th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } td.name { overflow-wrap: anywhere; min-width: 120px; }
pre { background: var(--panel); padding: 10px; overflow-x: auto; font-size: 12px; } code { font-size: 12px; }
summary { cursor: pointer; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .bar { fill: var(--bar); } svg .part { fill: var(--part); } svg.area path { fill: var(--bar); stroke: var(--part); }
svg.spark polyline { fill: none; stroke: var(--part); stroke-width: 1.5; } svg.spark circle { fill: var(--part); }
svg .none { fill: var(--line); } svg .edge { fill: none; stroke: var(--soft); opacity: 0.6; } svg .node { fill: var(--part); }
.c0 { fill: var(--c0); color: var(--c0); } .c1 { fill: var(--c1); color: var(--c1); } .c2 { fill: var(--c2); color: var(--c2); }
.c3 { fill: var(--c3); color: var(--c3); } .c4 { fill: var(--c4); color: var(--c4); } .c5 { fill: var(--c5); color: var(--c5); }
.c6 { fill: var(--c6); color: var(--c6); } .c7 { fill: var(--c7); color: var(--c7); }
)";

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string type_text(const session::Port& p) {
  if (p.is_sequence) return "sequence";
  std::string name(ir::long_name_of(p.dtype));
  if (p.rank < 0) return name + " of any rank";
  if (p.dims.empty()) return p.rank == 0 ? name : fmt::format("{} of rank {}", name, p.rank);
  std::vector<std::string> dims;
  for (const std::string& d : p.dims) dims.push_back(d.empty() ? "\u00b7" : d);
  return fmt::format("{} [{}]", name, fmt::join(dims, ", "));
}

/// A kernel: its versions in program.kernels, and where it is launched.
struct Family {
  std::string name;
  std::vector<uint32_t> versions;
  std::vector<const LaunchStep*> launches;
};

class Page {
 public:
  explicit Page(const Report& r) : r_(r), p_(*r.program) {
    std::map<std::string, size_t> numbers;
    for (uint32_t k = 0; k < p_.kernels.size(); ++k) {
      const auto [it, fresh] = numbers.emplace(p_.kernels[k].family, families_.size());
      if (fresh) families_.push_back({p_.kernels[k].family, {}, {}});
      families_[it->second].versions.push_back(k);
    }
    for (const program::BlockSpec& block : p_.blocks)
      for (const program::Step& step : block.steps)
        if (const auto* launch = std::get_if<LaunchStep>(&step))
          families_[numbers.at(p_.kernels[launch->versions[0].kernel].family)].launches.push_back(launch);
  }

  std::string text() {
    out_ =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width\">\n";
    add("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", html_text(r_.model), kStyle);
    summary();
    shapes();
    kernels();
    graph();
    memory();
    add("</body>\n</html>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
  }

  void summary() {
    size_t launches = 0, constants = 0;
    for (const Family& f : families_) launches += f.launches.size();
    for (const ir::Literal& c : p_.constants) constants += c.bytes();
    add("<h1>{}</h1>\n<p class=\"soft\">{} operators, as they are imported, became {} kernels with {} versions, "
        "launched at {} "
        "places. "
        "Weights: {}. Measured on a CPU ({}) with {} thread{}; the roof is {:.0f} Gop/s of f32 and",
        html_text(r_.model), r_.imported_ops, families_.size(), p_.kernels.size(), launches,
        bytes_text(static_cast<double>(constants)), html_text(r_.device), r_.threads, r_.threads == 1 ? "" : "s",
        r_.roof.operations_per_ns);
    for (size_t k = 0; k < r_.roof.bytes_per_ns.size(); ++k)
      add("{} {:.0f} GB/s from {}", k ? "," : "", r_.roof.bytes_per_ns[k].second,
          bytes_text(static_cast<double>(r_.roof.bytes_per_ns[k].first)));
    add(".</p>\n<table>\n<tr><th></th><th>name</th><th>type</th></tr>\n");
    for (const auto& p : r_.inputs) port("input", p);
    for (const auto& p : r_.outputs) port("output", p);
    add("</table>\n");
    for (const std::string& w : r_.warnings) add("<p>Warning: {}</p>\n", html_text(w));
  }
  void port(const char* what, const session::Port& p) {
    add("<tr><td class=\"soft\">{}</td><td class=\"name\"><code>{}</code></td><td>{}</td></tr>\n", what,
        html_text(p.name), html_text(type_text(p)));
  }

  static std::string title_of(const ReportPoint& point) {
    std::string name;
    for (const auto& [dim, extent] : point.extents)
      name += fmt::format("{}{}={}", name.empty() ? "" : ", ", dim, extent);
    return name.empty() ? "the only shape" : name;
  }
  static std::string label_of(const ReportPoint& point) {
    std::string label = point.name;
    if (label.size() <= 36) return label;
    label.replace(34, std::string::npos, "..");
    return label;
  }

  void shapes() {
    add("<h2>Time by shape</h2>\n<p class=\"note\">A call's time; the dark part is what its kernels would take at the "
        "roof "
        "(all arithmetic and all bytes at this machine's speed).</p>\n");
    std::vector<Bar> bars;
    for (const ReportPoint& p : r_.points)
      bars.push_back({label_of(p), time_text(p.cost.call_us) + ", " + percent(p.cost.share_of_roof()), title_of(p),
                      p.cost.call_us, p.cost.roof_us});
    out_ += bar_chart(bars);
    const bool recorded = std::any_of(r_.points.begin(), r_.points.end(), [](const auto& p) { return p.calls > 1; });
    add("<div class=\"wide\"><table>\n<tr><th>shape</th>{}<th class=\"n\">call</th>"
        "<th class=\"n\">kernels</th><th class=\"n\">at the roof</th><th class=\"n\">share of roof</th>"
        "<th class=\"n\">launches</th><th class=\"n\">bytes</th><th class=\"n\">operations</th>"
        "<th class=\"n\">memory</th></tr>\n",
        recorded ? "<th class=\"n\">calls recorded</th>" : "");
    for (const ReportPoint& p : r_.points) {
      int64_t launches = 0;
      double bytes = 0, operations = 0;
      for (const KernelCost& k : p.cost.kernels) {
        launches += k.launches;
        bytes += static_cast<double>(k.bytes), operations += static_cast<double>(k.operations);
      }
      const std::vector<double> live = live_bytes(p_, p.extents);
      add("<tr><td class=\"name\">{}</td>{}<td class=\"n\">{}</td><td class=\"n\">{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
          html_text(title_of(p)), recorded ? fmt::format("<td class=\"n\">{}</td>", p.calls) : "",
          time_text(p.cost.call_us), time_text(p.cost.kernels_us), time_text(p.cost.roof_us),
          percent(p.cost.share_of_roof()), launches, bytes_text(bytes), count_text(operations),
          bytes_text(live.empty() ? 0 : *std::max_element(live.begin(), live.end())));
    }
    add("</table></div>\n");
  }

  /// What all versions of the family took at a point, and which of them it was (-1: none).
  std::pair<const KernelCost*, int> at(const Family& f, const ReportPoint& point) const {
    for (const KernelCost& k : point.cost.kernels)
      for (size_t v = 0; v < f.versions.size(); ++v)
        if (f.versions[v] == k.kernel) return {&k, static_cast<int>(v)};
    return {nullptr, -1};
  }
  double most_time(const Family& f) const {
    double most = 0;
    for (const ReportPoint& point : r_.points)
      if (const KernelCost* k = at(f, point).first)
        most = std::max(most, k->ns / 1e3 / std::max(point.cost.kernels_us, 1e-9));
    return most;
  }

  void kernels() {
    std::vector<const Family*> order;
    for (const Family& f : families_) order.push_back(&f);
    std::stable_sort(order.begin(), order.end(),
                     [&](const Family* a, const Family* b) { return most_time(*a) > most_time(*b); });
    add("<h2>Kernels</h2>\n<p class=\"note\">The dearest first. Share: of the kernels' time, where it is largest. "
        "Roof: the same "
        "shape's share of what the machine can do. Versions: one cell a shape, in the order above, colored by the "
        "version that "
        "ran");
    size_t most = 1;
    for (const Family& f : families_) most = std::max(most, f.versions.size());
    for (size_t v = 0; v < std::min<size_t>(most, 8); ++v)
      add("{} <span class=\"{}\">\u25a0</span> {}", v ? "," : ":", color_class(static_cast<int>(v)), v);
    add(". Time: the dearest version's, over the shapes.</p>\n<div "
        "class=\"wide\"><table>\n<tr><th>kernel</th><th>class</th>"
        "<th>first operator</th><th class=\"n\">places</th><th class=\"n\">share</th><th class=\"n\">roof</th>"
        "<th>time</th><th>versions</th></tr>\n");
    for (const Family* f : order) kernel(*f);
    add("</table></div>\n");
  }

  void kernel(const Family& f) {
    const program::KernelSpec& first = p_.kernels[f.versions[0]];
    std::vector<double> times;
    std::vector<Cell> cells;
    double share = 0, roof = 0;
    for (const ReportPoint& point : r_.points) {
      const auto [cost, version] = at(f, point);
      times.push_back(cost ? cost->ns / 1e3 : 0);
      cells.push_back(
          {version,
           title_of(point) + (cost ? fmt::format(": version {}, {}, {} of the roof", p_.kernels[cost->kernel].version,
                                                 time_text(cost->ns / 1e3), percent(cost->share_of_roof()))
                                   : ": not launched")});
      if (cost && cost->ns / 1e3 / std::max(point.cost.kernels_us, 1e-9) > share)
        share = cost->ns / 1e3 / point.cost.kernels_us, roof = cost->share_of_roof();
    }
    add("<tr id=\"{}\"><td class=\"name\">{}</td><td>{}</td><td class=\"name\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>\n",
        html_text(f.name), html_text(f.name), html_text(first.kernel_class), html_text(first.source), f.launches.size(),
        percent(share), share > 0 ? percent(roof) : "", sparkline(times, "time over the shapes"), color_strip(cells));
    add("<tr><td colspan=\"8\"><details><summary class=\"soft\">{} version{}: where they run, and their loops"
        "</summary>{}</details></td></tr>\n",
        f.versions.size(), f.versions.size() == 1 ? "" : "s", versions_text(f));
  }

  std::string versions_text(const Family& f) const {
    std::string text;
    for (const uint32_t k : f.versions) {
      std::set<std::string> guards;
      for (const LaunchStep* step : f.launches)
        for (const program::LaunchVersion& v : step->versions)
          if (v.kernel == k) guards.insert(v.guard == kNone ? "any shape" : program::text_of(p_, v.guard));
      std::vector<std::string> shown(guards.begin(), guards.end());
      if (shown.size() > 4) shown.resize(4), shown.emplace_back("..");
      text += fmt::format("<p>Version {}, where {}</p><pre>{}</pre>", p_.kernels[k].version,
                          html_text(fmt::format("{}", fmt::join(shown, " or "))), html_text(p_.kernels[k].loop_text));
    }
    return text;
  }

  // The model's steps from top to bottom, with an arc from where a value is made to where it is read.
  void graph() {
    constexpr int kRow = 18, kArcs = 160;
    const auto& steps = p_.blocks[0].steps;
    std::vector<size_t> made(p_.values.size(), SIZE_MAX);
    std::string arcs, rows;
    for (size_t s = 0; s < steps.size(); ++s) {
      const int y = static_cast<int>(s) * kRow + 9;
      std::set<size_t> from;
      program::for_each_operand(steps[s], [&](program::ValueRef v) {
        if (made[v] != SIZE_MAX && made[v] != s) from.insert(made[v]);
      });
      for (const size_t f : from) {
        const int y0 = static_cast<int>(f) * kRow + 9;
        const double bend = s == f + 1 ? 0 : std::min<double>(kArcs - 12, 10 + 6 * static_cast<double>(s - f));
        arcs += fmt::format(
            "<path class=\"edge\" fill=\"none\" stroke=\"#667788\" d=\"M{0},{1} C{2:.0f},{1} {2:.0f},{3} {0},{3}\"/>",
            kArcs, y0, kArcs - bend, y);
      }
      program::for_each_result(steps[s], [&](program::ValueRef v) { made[v] = s; });
      const auto* launch = std::get_if<LaunchStep>(&steps[s]);
      std::string name =
          launch ? p_.kernels[launch->versions[0].kernel].family : std::string(program::name_of(steps[s]));
      std::string label = html_text(name + "   " + std::string(program::source_of(steps[s])));
      if (launch) label = fmt::format("<a href=\"#{}\">{}</a>", html_text(name), label);
      rows += fmt::format(
          "<circle class=\"{}\" fill=\"#2b6cb0\" cx=\"{}\" cy=\"{}\" r=\"4\"/><text font-size=\"12\" x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          launch ? "node" : "none", kArcs, y, kArcs + 12, y + 4, label);
    }
    add("<h2>Graph</h2>\n<p class=\"note\">The steps of a call. An arc leads from where a value is made to where it is "
        "read; blue "
        "steps launch kernels.</p>\n<div class=\"wide\"><svg width=\"1100\" height=\"{}\" "
        "role=\"img\">\n{}\n{}</svg></div>\n",
        static_cast<int>(steps.size()) * kRow + 4, arcs, rows);
    add("<details><summary>Tensor IR after all passes</summary><pre>{}</pre></details>\n", html_text(r_.graph_text));
  }

  void memory() {
    if (r_.points.empty()) return;
    const auto size = [&](const ReportPoint& p) {
      const std::vector<double> live = live_bytes(p_, p.extents);
      return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    };
    const ReportPoint& largest = *std::max_element(r_.points.begin(), r_.points.end(),
                                                   [&](const auto& a, const auto& b) { return size(a) < size(b); });
    add("<h2>Memory over time</h2>\n<p class=\"note\">Intermediate values and results that live while each step runs, "
        "at {}: at most "
        "{}. What only data decides, and bodies of branches and loops, are not counted.</p>\n",
        html_text(title_of(largest)), bytes_text(size(largest)));
    out_ += area_chart(live_bytes(p_, largest.extents), "bytes over the steps of a call");
  }

  const Report& r_;
  const program::Program& p_;
  std::vector<Family> families_;
  std::string out_;
};

}  // namespace

std::string report_page(const Report& report) { return Page(report).text(); }

}  // namespace stax::tool
