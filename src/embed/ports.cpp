// SPDX-License-Identifier: Apache-2.0
// What a program takes and gives, for its user.
#include "embed/engine.h"
#include "embed/values.h"

namespace stax::embed {
namespace {

/// Expressions of the program as text that people read: those that outputs need, rebuilt in a table of their own.
class Reader {
 public:
  explicit Reader(const program::Program& program) : program_(program), known_(program.exprs.nodes().size()) {
    for (const program::SymbolSpec& s : program.symbols)
      symbols_.push_back(table_.new_symbol(
          {.name = s.name, .kind = symbolic::SymbolKind::kDim, .range = {s.lo, s.hi}, .multiple = s.multiple}));
  }

  Extent read(program::ExprRef e) {
    symbolic::Expr expr = rebuild(e);
    symbolic::Interval range = expr.range();
    return {expr.is_constant(), std::max<int64_t>(0, range.lo), range.hi, std::max<int64_t>(1, expr.multiple()),
            expr.str()};
  }

 private:
  symbolic::Expr rebuild(program::ExprRef e) {
    if (known_[e]) return known_[e];
    const symbolic::FlatNode& node = program_.exprs.nodes()[e];
    if (node.kind == symbolic::ExprKind::kConstant) return known_[e] = table_.constant(node.value);
    if (node.kind == symbolic::ExprKind::kSymbol) return known_[e] = symbols_.at(static_cast<size_t>(node.value));
    std::vector<symbolic::Expr> args;
    args.reserve(node.args.size());
    for (uint32_t a : node.args) args.push_back(rebuild(a));
    return known_[e] = table_.make(node.kind, std::move(args));
  }

  const program::Program& program_;
  symbolic::ExprTable table_;
  std::vector<symbolic::Expr> symbols_, known_;
};

Port port_of(const program::Program& program, const std::string& name, program::ValueRef value) {
  const program::ValueSpec& spec = program.values[value];
  Port port;
  port.name = name;
  port.dtype = external(spec.dtype);
  port.is_sequence = spec.is_sequence;
  port.rank_is_known = !spec.is_sequence && spec.rank == program::kNone;
  return port;
}

}  // namespace

std::vector<Port> ports_of(const program::Program& program, bool inputs) {
  std::vector<Port> ports;
  if (inputs) {
    for (const program::InputSpec& input : program.inputs) {
      Port& port = ports.emplace_back(port_of(program, input.name, input.value));
      for (const program::DimSpec& d : input.dims) {
        if (d.symbol == program::kNone) {
          port.extents.push_back(
              {true, d.constant, d.constant, std::max<int64_t>(1, d.constant), std::to_string(d.constant)});
        } else {
          const program::SymbolSpec& s = program.symbols[d.symbol];
          port.extents.push_back({false, s.lo, s.hi, s.multiple, s.name});
        }
      }
    }
    return ports;
  }
  Reader reader(program);
  for (const program::OutputSpec& output : program.outputs) {
    Port& port = ports.emplace_back(port_of(program, output.name, output.value));
    if (port.rank_is_known)
      for (program::ExprRef e : program.values[output.value].extents) port.extents.push_back(reader.read(e));
  }
  return ports;
}

}  // namespace stax::embed
