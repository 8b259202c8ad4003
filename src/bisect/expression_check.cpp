// SPDX-License-Identifier: Apache-2.0
#include "bisect/expression_check.h"

#include <fmt/ranges.h>

#include "compile/pipeline.h"
#include "support/error.h"
#include "support/lexer.h"
#include "symbolic/audit.h"

namespace stax::bisect {

namespace {

const char* name_of(symbolic::ExprKind kind) {
  switch (kind) {
    case symbolic::ExprKind::kAdd: return "add";
    case symbolic::ExprKind::kMul: return "mul";
    case symbolic::ExprKind::kFloorDiv: return "floordiv";
    case symbolic::ExprKind::kMod: return "mod";
    case symbolic::ExprKind::kMin: return "min";
    case symbolic::ExprKind::kMax: return "max";
    case symbolic::ExprKind::kLess: return "less";
    case symbolic::ExprKind::kEqual: return "equal";
    case symbolic::ExprKind::kSelect: return "select";
    case symbolic::ExprKind::kConstant:
    case symbolic::ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

/// A graph that asks for the expression.
std::string model_of(const symbolic::Audit::Fault& fault) {
  const auto bound = [](int64_t v) {
    return v == symbolic::kNegInf ? "least" : v == symbolic::kPosInf ? "greatest" : std::to_string(v);
  };
  const std::string asked = "  %e: i64[] = compute [] { [" + fault.asked + "] } ()\n  return %e as \"e\"\n}\n";
  std::string text = "tensor_ir 1\n";
  for (const symbolic::SymbolInfo& s : fault.symbols) {
    text += fmt::format("symbol {}: value [{}, {}]", spell_name('\0', s.name), bound(s.range.lo), bound(s.range.hi));
    text += s.multiple > 1 ? fmt::format(" multiple {}\n", s.multiple) : "\n";
  }
  if (fault.symbols.empty()) return text + "graph() {\n" + asked;
  std::vector<std::string> names;
  for (const symbolic::SymbolInfo& s : fault.symbols) names.push_back(spell_name('\0', s.name));
  return text +
         fmt::format("graph(%values: i64[{}]) {{\n  bind (%values) defines [{}]\n", names.size(),
                     fmt::join(names, ", ")) +
         asked;
}

Finding finding_of(const symbolic::Audit::Fault& fault) {
  Finding f;
  f.level = "symbolic";
  f.pass = name_of(fault.kind);
  f.detail = fault.asked + " is made " + fault.made;
  f.what = fault.what;
  f.repro.kind = compile::Repro::Kind::kExpression;
  f.repro.name = f.pass;
  f.repro.fault = fmt::format("{}: {}", f.detail, f.what);
  f.repro.model = model_of(fault);
  return f;
}

}  // namespace

std::optional<Finding> check_expressions(const compile::GraphSource& source, const Machine& machine) {
  const symbolic::Audit audit;
  try {
    const std::unique_ptr<tensor::Graph> graph = source();
    compile::PassContext context;
    context.target = machine.target;
    if (!audit.fault()) compile::optimize(*graph, context);
    if (!audit.fault()) compile::build_program(*graph, machine.row());
  } catch (const UserError&) {
    if (!audit.fault()) throw;
  } catch (const InternalError&) {  // who fails is found out by those that follow
  }
  return audit.fault() ? std::optional(finding_of(*audit.fault())) : std::nullopt;
}

std::optional<Finding> replay_expression(const std::string& model) {
  const symbolic::Audit audit;
  tensor::parse_graph(model);
  return audit.fault() ? std::optional(finding_of(*audit.fault())) : std::nullopt;
}

}  // namespace stax::bisect
