// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes that a command goes over: sweeps, and histograms of what ran.
//
// A histogram is a JSON file:
//   {"stax_shapes": 1, "dims": ["batch", "x[1]"], "shapes": [{"dims": {"batch": 4, "x[1]": 128}, "calls": 17}, ..]}
// with the dims of the model's inputs by the names that --dim takes, each tuple of extents once, the most frequent first.
#include <map>
#include <string>
#include <vector>

#include "session/session.h"

namespace stax::tool {

using Extents = std::map<std::string, int64_t>;  // by dim

struct Shape {
  Extents dims;
  int64_t calls = 1;
};

/// All combinations of the sweeps' extents, the last sweep's moving fastest: "seq=1..512:log" is powers of two between the ends, "seq=1..512" equal
/// steps; both ends belong to it. Without sweeps one shape without dims. UserError for what is no sweep, and for more than 256 shapes.
std::vector<Shape> shapes_of_sweeps(const std::vector<std::string>& sweeps);
/// UserError where the file is no histogram.
std::vector<Shape> read_shapes(const std::string& path);
/// UserError that lists the model's dims where a shape has another one, or an extent outside of its range.
void check_shapes(const tensor::Graph& graph, const std::vector<Shape>& shapes, const std::string& origin);
/// "batch=4,seq=128"; "random inputs" where there are none.
std::string name_of(const Extents& dims);

/// The dims of a call in the order of the inputs, each once.
std::vector<std::pair<std::string, int64_t>> extents_of(const std::vector<session::Port>& ports,
                                                        const std::vector<runtime::Item>& inputs);

/// Counts calls by the extents of their inputs.
class ShapeHistogram {
 public:
  void add(const std::vector<session::Port>& ports, const std::vector<runtime::Item>& inputs);
  std::string text() const;

 private:
  std::vector<std::string> dims_;  // in the order of the inputs
  std::map<std::vector<int64_t>, int64_t> calls_;
};

}  // namespace stax::tool
