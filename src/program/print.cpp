// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "program/at_shape.h"
#include "program/steps.h"

namespace stax::program {
namespace {

class Printer {
 public:
  Printer(const Program& p, const AtShape* at) : p_(p), at_(at) {}

  std::string run() {
    name_long_expressions();
    line("program // {} kernels, {} blocks, {} values", p_.kernels.size(), p_.blocks.size(), p_.values.size());
    for (size_t s = 0; s < p_.symbols.size(); ++s)
      line("symbol {} = '{}' in {}..{}", s, p_.symbols[s].name, p_.symbols[s].lo, p_.symbols[s].hi);
    for (const InputSpec& i : p_.inputs) line("input '{}' = %{}", i.name, i.value);
    for (const OutputSpec& o : p_.outputs) line("output '{}' = %{}", o.name, o.value);
    block(0);
    return out_;
  }
  std::string expr(ExprRef r) {
    if (r == kNone) return "-";
    if (at_)
      if (const auto known = at_->value(r)) return std::to_string(*known);
    if (!names_.empty() && names_[r] != Naming::kSpelt) {
      if (std::exchange(names_[r], Naming::kDefined) == Naming::kToDefine) {
        const std::string definition = spelt(r);
        definitions_.push_back(fmt::format("e{} = {}", r, definition));
      }
      return fmt::format("e{}", r);
    }
    return spelt(r);
  }

 private:
  /// Long expressions are written once, in a line of their own in front of what needs them first, and have a name from then on: spelt out, what
  /// they share would fill the dump.
  void name_long_expressions() {
    constexpr size_t kLongest = 16;
    const auto& nodes = p_.exprs.nodes();
    std::vector<size_t> parts(nodes.size(), 1);
    names_.assign(nodes.size(), Naming::kSpelt);
    for (size_t e = 0; e < nodes.size(); ++e) {
      for (ExprRef a : nodes[e].args) parts[e] += names_[a] == Naming::kSpelt ? parts[a] : 1;
      if (parts[e] > kLongest) names_[e] = Naming::kToDefine;
    }
  }

  std::string spelt(ExprRef r) {
    const auto& n = p_.exprs.nodes()[r];
    auto join = [&](const char* sep) {
      std::string s = "(";
      for (size_t k = 0; k < n.args.size(); ++k) s += (k ? sep : "") + expr(n.args[k]);
      return s + ")";
    };
    switch (n.kind) {
      case symbolic::ExprKind::kConstant: return std::to_string(n.value);
      case symbolic::ExprKind::kSymbol: return p_.symbols[static_cast<size_t>(n.value)].name;
      case symbolic::ExprKind::kAdd: return join(" + ");
      case symbolic::ExprKind::kMul: return join("*");
      case symbolic::ExprKind::kFloorDiv: return "floordiv" + join(", ");
      case symbolic::ExprKind::kMod: return "mod" + join(", ");
      case symbolic::ExprKind::kMin: return "min" + join(", ");
      case symbolic::ExprKind::kMax: return "max" + join(", ");
      case symbolic::ExprKind::kLess: return join(" < ");
      case symbolic::ExprKind::kEqual: return join(" == ");
      case symbolic::ExprKind::kSelect: return "select" + join(", ");
    }
    return "?";
  }

  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    const std::string text = fmt::format(format, std::forward<A>(args)...);
    definitions_.push_back(text);
    for (const std::string& each : definitions_) {
      out_.append(static_cast<size_t>(indent_) * 2, ' ');
      out_ += each;
      out_ += '\n';
    }
    definitions_.clear();
  }

  std::string value(ValueRef v) {
    const ValueSpec& s = p_.values[v];
    std::string t = fmt::format("%{}: {}[", v, ir::name_of(s.dtype));
    for (size_t k = 0; k < s.extents.size(); ++k) t += (k ? ", " : "") + expr(s.extents[k]);
    t += "]";
    if (s.is_sequence) t = fmt::format("%{}: sequence<{}>", v, ir::name_of(s.dtype));
    switch (s.storage) {
      case Storage::kConstant: t += fmt::format(" constant {}", s.index); break;
      case Storage::kInput: t += " input"; break;
      case Storage::kAlias: t += fmt::format(" = %{}", s.index); break;
      case Storage::kArena:
        t += fmt::format(" arena {}", s.arena_segment);
        if (at_) t += fmt::format(" at {}, {} bytes", expr(s.offset), expr(s.bytes));
        break;
      case Storage::kOwned: t += " owned"; break;
    }
    return t;
  }

  void block(uint32_t number) {
    const BlockSpec& b = p_.blocks[number];
    line("block {} {{", number);
    ++indent_;
    for (ValueRef v : b.inputs) line("takes {}", value(v));
    uint32_t segment = 0;
    for (uint32_t s = 0; s < b.steps.size(); ++s) {
      while (segment < b.segments.size() && b.segments[segment].first_step == s) {
        const ExprRef arena = b.segments[segment].arena_bytes;
        line("// segment {}: {} expressions{}", segment, b.segments[segment].nodes.size(),
             at_ && arena != kNone ? ", arena of " + expr(arena) + " bytes" : "");
        ++segment;
      }
      step(b.steps[s]);
    }
    for (ValueRef v : b.outputs) line("gives %{}", v);
    --indent_;
    line("}}");
  }

  void step(const Step& s) {
    std::string text(name_of(s));
    if (const auto* l = std::get_if<LaunchStep>(&s)) {
      const std::optional<size_t> chosen = at_ ? at_->version(*l) : std::nullopt;
      if (at_ && !at_->launches(*l)) text = "launch nothing:";
      for (const LaunchVersion& v : l->versions) {
        if (chosen && &v != &l->versions[*chosen]) continue;
        text += " " + p_.kernels[v.kernel].name + " x " + expr(v.iterations);
        if (v.block != kNone)
          text += fmt::format(" grid({}, {}, {}) block({}) shared({})", expr(v.grid[0]), expr(v.grid[1]),
                              expr(v.grid[2]), expr(v.block), expr(v.shared_bytes));
        if (v.guard != kNone && !chosen) text += " if " + expr(v.guard) + " else";
      }
      text += " (";
      for (size_t k = 0; k < l->arguments.size(); ++k) text += fmt::format("{}%{}", k ? ", " : "", l->arguments[k]);
      text += ") params(";
      for (size_t k = 0; k < l->params.size(); ++k) text += (k ? ", " : "") + expr(l->params[k]);
      text += ")";
      for (size_t k = l->arguments.size() - std::min<size_t>(l->results, l->arguments.size()); k < l->arguments.size();
           ++k)
        text += " -> " + value(l->arguments[k]);
    } else if (const auto* c = std::get_if<CheckStep>(&s)) {
      text += " " + expr(c->condition) + " else \"" + c->message + "\"";
    } else {
      if (const auto* loop = std::get_if<LoopStep>(&s); loop && loop->beside_next) text += " beside the next";
      if (const auto* branch = std::get_if<IfStep>(&s); branch && branch->known != kNone)
        text += " " + expr(branch->known);
      for_each_operand(s, [&](ValueRef v) { text += fmt::format(" %{}", v); });
      for_each_result(s, [&](ValueRef v) { text += " -> " + value(v); });
    }
    if (!source_of(s).empty()) text += fmt::format("   // {}", source_of(s));
    line("{}", text);
    ++indent_;
    for_each_block(s, [&](uint32_t b) { block(b); });
    --indent_;
  }

  const Program& p_;
  const AtShape* at_;
  enum class Naming : uint8_t { kSpelt, kToDefine, kDefined };
  std::vector<Naming> names_;  // of each expression; empty: all are spelt out
  std::vector<std::string> definitions_;
  std::string out_;
  int indent_ = 0;
};

}  // namespace

std::string text_of(const Program& program, ExprRef e) { return Printer(program, nullptr).expr(e); }

std::string print(const Program& program) { return Printer(program, nullptr).run(); }
std::string print(const Program& program, const AtShape& at) { return Printer(program, &at).run(); }

}  // namespace stax::program
