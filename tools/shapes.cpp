// SPDX-License-Identifier: Apache-2.0
#include "shapes.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

constexpr size_t kMostShapes = 256;
constexpr int64_t kSteps = 8;  // of a sweep that is not logarithmic

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

std::vector<Shape> parse_shapes(const std::string& text) {
  const json file = json::parse(text);
  if (file.at("stax_shapes") != 1) throw std::invalid_argument("its version is not 1");
  std::vector<Shape> shapes;
  for (const json& entry : file.at("shapes")) {
    Shape shape{entry.at("dims").get<Extents>(), entry.at("calls").get<int64_t>()};
    if (shape.calls < 1) throw std::invalid_argument("a shape has no calls");
    for (const auto& [dim, extent] : shape.dims)
      if (extent < 0) throw std::invalid_argument("the extent of '" + dim + "' is negative");
    shapes.push_back(std::move(shape));
  }
  if (shapes.empty()) throw std::invalid_argument("it has no shapes");
  return shapes;
}

}  // namespace

std::vector<Shape> shapes_of_sweeps(const std::vector<std::string>& sweeps) {
  std::vector<Shape> shapes(1);
  for (const std::string& text : sweeps) {
    const auto [name, extents] = parse_sweep(text);
    std::vector<Shape> more;
    for (const Shape& shape : shapes)
      for (int64_t e : extents) {
        more.push_back(shape);
        if (!more.back().dims.emplace(name, e).second) user_error("--sweep: dim '{}' is swept twice", name);
      }
    shapes = std::move(more);
    if (shapes.size() > kMostShapes)
      user_error("--sweep: {} shapes are more than {}; narrow the ranges or use :log", shapes.size(), kMostShapes);
  }
  return shapes;
}

std::vector<Shape> read_shapes(const std::string& path) {
  const std::vector<uint8_t> bytes = session::read_file(path);
  try {
    return parse_shapes(std::string(bytes.begin(), bytes.end()));
  } catch (const std::exception& e) {
    user_error("--shapes '{}' is no histogram of shapes: {}; `stax run --record FILE` writes them", path, e.what());
  }
}

void check_shapes(const tensor::Graph& graph, const std::vector<Shape>& shapes, const std::string& origin) {
  std::vector<std::string> names;
  std::map<std::string, symbolic::Interval> ranges;
  for (const auto& input : graph.inputs)
    for (symbolic::Expr e : input.value->type.extents)
      if (e.is_symbol() && ranges.emplace(e.symbol().name, e.range()).second) names.push_back(e.symbol().name);
  for (const Shape& shape : shapes) {
    for (const auto& [dim, extent] : shape.dims) {
      const auto it = ranges.find(dim);
      if (it == ranges.end())
        user_error("{}: the model has no dim '{}'; its dims are {}", origin, dim, fmt::join(names, ", "));
      if (extent < it->second.lo || extent > it->second.hi)
        user_error("{}: {}={} is outside of its range {}..{}", origin, dim, extent, it->second.lo, it->second.hi);
    }
  }
}

std::string name_of(const Extents& dims) {
  std::string name;
  for (const auto& [dim, extent] : dims) name += fmt::format("{}{}={}", name.empty() ? "" : ",", dim, extent);
  return name.empty() ? "random inputs" : name;
}

std::vector<std::pair<std::string, int64_t>> extents_of(const std::vector<session::Port>& ports,
                                                        const std::vector<runtime::Item>& inputs) {
  std::vector<std::pair<std::string, int64_t>> extents;
  std::set<std::string> seen;
  for (size_t k = 0; k < ports.size(); ++k)
    for (size_t axis = 0; axis < ports[k].dims.size(); ++axis)
      if (const std::string& dim = ports[k].dims[axis]; !dim.empty() && seen.insert(dim).second)
        extents.emplace_back(dim, inputs[k].tensor.extents.at(axis));
  return extents;
}

void ShapeHistogram::add(const std::vector<session::Port>& ports, const std::vector<runtime::Item>& inputs) {
  std::vector<int64_t> key;
  dims_.clear();
  for (const auto& [dim, extent] : extents_of(ports, inputs)) {
    dims_.push_back(dim);
    key.push_back(extent);
  }
  ++calls_[key];
}

std::string ShapeHistogram::text() const {
  std::vector<std::pair<std::vector<int64_t>, int64_t>> all(calls_.begin(), calls_.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  json shapes = json::array();
  for (const auto& [key, calls] : all) {
    json dims = json::object();
    for (size_t k = 0; k < key.size(); ++k) dims[dims_[k]] = key[k];
    shapes.push_back({{"dims", dims}, {"calls", calls}});
  }
  const json file = {{"stax_shapes", 1}, {"dims", dims_}, {"shapes", shapes}};
  return file.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace stax::tool
