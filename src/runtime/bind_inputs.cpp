// SPDX-License-Identifier: Apache-2.0
// A call's inputs against their declarations: dtype, rank, fixed extents, ranges, and dims that several inputs share.
#include "runtime/executor.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

namespace {

std::string shape_text(const InputSpec& spec, const Program& p) {
  std::vector<std::string> parts;
  for (const DimSpec& d : spec.dims)
    parts.push_back(d.symbol == kNone ? std::to_string(d.constant) : p.symbols[d.symbol].name);
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

void Context::bind_inputs(std::span<const Item> inputs) {
  if (inputs.size() != program_.inputs.size())
    user_error("the model has {} inputs and {} were given", program_.inputs.size(), inputs.size());
  first_uses_.assign(symbols_.size(), {});
  for (size_t k = 0; k < inputs.size(); ++k) {
    const InputSpec& spec = program_.inputs[k];
    const ValueSpec& v = program_.values[spec.value];
    if (inputs[k].is_sequence != v.is_sequence)
      user_error("input '{}' must be a {}", spec.name, v.is_sequence ? "sequence of tensors" : "tensor");
    if (v.is_sequence) {
      for (const Tensor& t : inputs[k].sequence)
        if (t.dtype != v.dtype)
          user_error("input '{}' has elements of type {}, expected {}", spec.name, ir::long_name_of(t.dtype),
                     ir::long_name_of(v.dtype));
      sequences_[spec.value] = std::make_shared<const Sequence>(inputs[k].sequence);
      continue;
    }
    const Tensor& t = inputs[k].tensor;
    if (t.dtype != v.dtype)
      user_error("input '{}' has type {}, expected {}; convert it before the call", spec.name,
                 ir::long_name_of(t.dtype), ir::long_name_of(v.dtype));
    size_t missing = 0;  // leading axes of a run-time rank that the tensor does not have
    if (spec.rank_symbol != kNone) {
      if (t.extents.size() > spec.dims.size())
        user_error("input '{}' has rank {}, at most {} is possible", spec.name, t.extents.size(), spec.dims.size());
      symbols_[spec.rank_symbol] = static_cast<int64_t>(t.extents.size());
      missing = spec.dims.size() - t.extents.size();
    } else if (t.extents.size() != spec.dims.size()) {
      user_error("input '{}' has rank {} with shape [{}], expected rank {}: {}", spec.name, t.extents.size(),
                 fmt::join(t.extents, ", "), spec.dims.size(), shape_text(spec, program_));
    }
    for (size_t d = 0; d < spec.dims.size(); ++d) {
      const DimSpec& dim = spec.dims[d];
      int64_t e = d < missing ? 1 : t.extents[d - missing];
      if (dim.symbol == kNone) {
        if (e != dim.constant)
          user_error("input '{}' has extent {} at axis {}, expected {}: its shape is {}", spec.name, e, d, dim.constant,
                     shape_text(spec, program_));
        continue;
      }
      const SymbolSpec& symbol = program_.symbols[dim.symbol];
      FirstUse& first = first_uses_[dim.symbol];
      if (first.input) {
        if (symbols_[dim.symbol] != e)
          user_error("dim '{}' is {} in input '{}' (axis {}) but {} in input '{}' (axis {}); they must be equal",
                     symbol.name, symbols_[dim.symbol], first.input->name, first.axis, e, spec.name, d);
        continue;
      }
      if (e < symbol.lo || e > symbol.hi)
        user_error("dim '{}' is {} in input '{}', outside of its range {}..{}; compile with --dim {}=.. that covers it",
                   symbol.name, e, spec.name, symbol.lo, symbol.hi, symbol.name);
      if (symbol.multiple > 1 && e % symbol.multiple != 0)
        user_error("dim '{}' is {} in input '{}', but must be a multiple of {}", symbol.name, e, spec.name,
                   symbol.multiple);
      first = {&spec, d};
      symbols_[dim.symbol] = e;
    }
    data_[spec.value] = const_cast<void*>(t.data);
  }
}

}  // namespace stax::runtime
