// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stax report` knows of a model, and the page that shows it.
#include <string>
#include <vector>

#include "measure.h"
#include "shapes.h"

namespace stax::tool {

struct ReportPoint {
  std::string name;   // what was asked for: swept dims, or an input file
  int64_t calls = 1;  // that were recorded
  Extents extents;    // of all dims
  Cost cost;
};

struct Report {
  std::string model, device;  // the file, and the instruction set
  int threads = 1;
  Roof roof;
  std::vector<session::Port> inputs, outputs;
  std::vector<std::string> warnings;
  int64_t imported_ops = 0;  // bodies included
  std::string graph_text;    // tensor IR after all passes
  const program::Program* program = nullptr;
  std::vector<ReportPoint> points;
};

/// One self-contained page: no script, nothing from elsewhere.
std::string report_page(const Report& report);

/// Bytes of intermediate values and outputs that live while each step of the model runs, bodies of branches and loops left out. What only data decides
/// counts as nothing.
std::vector<double> live_bytes(const program::Program& program, const Extents& dims);

}  // namespace stax::tool
