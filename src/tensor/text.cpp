// SPDX-License-Identifier: Apache-2.0
// The text form of tensor IR, one op a line:
//
//   tensor_ir 1
//   symbol n: dim [0, 2147483647] multiple 4
//   graph(%x: f32[n, 4], %w: f32[4, 64]) {
//     %5: f32[n, 64] = compute [i0: n, i1_64: 64] sum<f32> [r0_4: 4] { mul(load0[i0, r0_4], load1[r0_4, i1_64]) } (%x,
//     %w) from "MatMul node 'm'" %6: i64[2] contents {n, 64} = compute [i0_2: 2] { select(less(i0_2, 1), n, 64) } ()
//     return %5 as "y"
//   }
//
//   symbol     name: dim | value | param | axis, [least, greatest], a multiple other than 1. Axis variables whose names
//   say the rest
//              (i<position>_<bound>, r<position>_<bound>; no bound: 2147483647) are not listed.
//   value      %name where the name is one value's alone, else %id, with the name in quotes behind it
//   type       dtype[extents], then `rank e` where the rank is known at run time only; sequence<dtype> or
//   sequence<dtype, rank> contents   the elements, where they are known op         its kind, what its payload holds,
//   operands, `defines [symbols]`, `from "source"` block      { ops, then `yield values` }; a loop's body has inputs,
//   and `binds [symbols]` of each iteration constant   {elements}, or base64 "bytes", or how it is drawn (ir/drawn.h), or, where
//   the text is for reading only, checksum 0x...
//
// What the constraint set knows beyond symbols and checks is not part of the text.
#include <map>
#include <set>
#include <unordered_set>

#include "support/error.h"
#include "support/hash.h"
#include "support/lexer.h"
#include "support/text_writer.h"
#include "tensor/graph.h"
#include "tensor/text.h"

namespace stax::tensor {

namespace {

constexpr int64_t kMaxInlineElements = 16;

std::string encode_base64(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? std::to_integer<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) result += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return result;
}

// The parser makes an axis variable of this name and range from the name alone.
bool name_says_all(Expr axis_var) {
  const symbolic::SymbolInfo& info = axis_var.symbol();
  const std::string& name = info.name;
  size_t at = 1;
  if (name.empty() || (name[0] != 'i' && name[0] != 'r')) return false;
  while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at]))) ++at;
  if (at == 1 || info.multiple != 1 || info.range.lo != 0) return false;
  const std::string bound = name.substr(at);
  const int64_t last = info.range.hi;
  if (bound.empty()) return last == symbolic::kMaxExtent - 1;
  if (bound == "_inf") return last == symbolic::kPosInf;
  return last != symbolic::kPosInf && (bound == "_" + std::to_string(last + 1) || (bound == "_0" && last == 0));
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options, const DrawnConstants* drawn = nullptr)
      : options_(options), drawn_(drawn) {}

  std::string print_graph(const Graph& graph) {
    name_values(graph.body);
    for_each_op(graph.body, [&](const Op& op) { name_op(op); });
    out_.line("tensor_ir 1");
    print_symbols(graph);
    std::string inputs;
    for (size_t k = 0; k < graph.inputs.size(); ++k) {
      if (k > 0) inputs += ", ";
      inputs += definition(*graph.inputs[k].value);
      if (graph.inputs[k].name != graph.inputs[k].value->name) inputs += " as " + spell_string(graph.inputs[k].name);
    }
    out_.line("graph({}) {{", inputs);
    {
      auto body = out_.indent();
      print_ops(graph.body);
      std::string outputs;
      for (const GraphOutput& output : graph.outputs) {
        if (!outputs.empty()) outputs += ", ";
        outputs += reference(*output.value) + " as " + spell_string(output.name);
      }
      out_.line("return{}{}", outputs.empty() ? "" : " ", outputs);
    }
    out_.line("}}");
    return std::move(out_).text();
  }

  std::string print_one(const Op& op) {
    name_op(op);
    for (const Value* operand : op.operands) add_name(*operand);
    print_op(op);
    return std::move(out_).text();
  }

 private:
  // ---- names
  void add_name(const Value& v) {
    if (named_.insert(&v).second && !v.name.empty()) ++name_counts_[v.name];
  }
  void name_values(const Block& block) {
    for (const auto& input : block.inputs) add_name(*input);
  }
  void name_op(const Op& op) {
    for (const auto& result : op.results) add_name(*result);
    if (const auto* loop = op.as<Loop>()) name_values(*loop->body);
    if (const auto* group = op.as<RowGroup>()) name_values(*group->body);
  }
  bool prints_name(const Value& v) const {
    if (v.name.empty() || v.name.find_first_not_of("0123456789") == std::string::npos) return false;
    const auto found = name_counts_.find(v.name);
    return found != name_counts_.end() && found->second == 1;
  }
  std::string reference(const Value& v) const {
    return prints_name(v) ? spell_name('%', v.name) : "%" + std::to_string(v.id);
  }

  std::string definition(const Value& v) const {
    std::string text = reference(v);
    if (!prints_name(v) && !v.name.empty()) text += " " + spell_string(v.name);
    text += ": " + spell(v.type);
    const bool is_constant = v.producer != nullptr && v.producer->kind() == OpKind::kConstant;
    if (v.contents && !is_constant) text += " contents {" + list(*v.contents) + "}";
    return text;
  }

  std::string definitions(const std::vector<std::unique_ptr<Value>>& values) const {
    std::string text;
    for (const auto& v : values) text += (text.empty() ? "" : ", ") + definition(*v);
    return text;
  }

  // ---- parts
  static std::string list(std::span<const Expr> exprs) {
    std::string text;
    for (size_t k = 0; k < exprs.size(); ++k) text += (k > 0 ? ", " : "") + exprs[k].str();
    return text;
  }

  static std::string spell(const Type& type) {
    const std::string dtype(ir::name_of(type.dtype));
    if (!type.is_tensor()) {
      return "sequence<" + dtype + (type.element_rank >= 0 ? ", " + std::to_string(type.element_rank) : "") + ">";
    }
    return dtype + "[" + list(type.extents) + "]" + (type.rank ? " rank " + type.rank.str() : "");
  }

  static std::string spell(const std::vector<Axis>& axes) {
    std::string text = "[";
    for (size_t k = 0; k < axes.size(); ++k)
      text += (k > 0 ? ", " : "") + axes[k].var.str() + ": " + axes[k].extent.str();
    return text + "]";
  }

  static std::string spell(Scalar s) { return "{ " + s.str() + " }"; }

  std::string references(const std::vector<Value*>& values) const {
    std::string text;
    for (size_t k = 0; k < values.size(); ++k) text += (k > 0 ? ", " : "") + reference(*values[k]);
    return text;
  }

  std::string spell(const Literal& literal) const {
    const DType t = literal.dtype();
    const int64_t count = literal.count();
    if (count <= kMaxInlineElements) {
      std::string text = "{";
      for (int64_t i = 0; i < count; ++i) {
        if (i > 0) text += ", ";
        const ir::Value64 element = literal.at(i);
        if (!ir::is_float(t)) {
          text += std::to_string(element.i);
        } else {
          text += t == DType::kF64 ? spell_float(element.f) : spell_float(static_cast<float>(element.f));
        }
      }
      return text + "}";
    }
    if (drawn_)
      if (const auto how = drawn_->find(literal.data()); how != drawn_->end()) return ir::spell(how->second);
    const std::span bytes(static_cast<const std::byte*>(literal.data()), literal.bytes());
    if (options_.full) return "base64 \"" + encode_base64(bytes) + "\"";
    return fmt::format("checksum {:#x}", hash_bytes(bytes));
  }

  // ---- payloads: what stands between the op's name and its operands
  std::string payload(const Constant& constant) const { return " " + spell(constant.literal); }
  std::string payload(const Compute& compute) const {
    std::string text = " " + spell(compute.axes);
    if (compute.combiner != Combiner::kNone) {
      text += fmt::format(" {}<{}> {}", name_of(compute.combiner), ir::name_of(compute.accumulate),
                          spell(compute.reductions));
    }
    text += " " + spell(compute.body);
    if (compute.epilogue) text += " epilogue " + spell(compute.epilogue);
    return text;
  }
  std::string payload(const Reshape&) const { return {}; }
  std::string payload(const ReshapeDynamic& reshape) const { return reshape.allow_zero ? " allow_zero" : ""; }
  std::string payload(const Bind&) const { return {}; }
  std::string payload(const Check& check) const {
    return " { " + check.condition.str() + " } " + spell_string(check.message) + " [" + list(check.arguments) + "]";
  }
  std::string payload(const Scatter& scatter) const {
    std::string text = fmt::format(" {} {}", spell(scatter.axes), name_of(scatter.mode));
    for (Scalar index : scatter.index) text += " " + spell(index);
    text += " value " + spell(scatter.value);
    if (scatter.guard) text += " guard " + spell(scatter.guard);
    return text;
  }
  std::string payload(const PrefixScan& scan) const {
    return fmt::format(" axis {} {}{}{}", scan.axis, name_of(scan.combiner), scan.exclusive ? " exclusive" : "",
                       scan.reverse ? " reverse" : "");
  }
  std::string payload(const TopK& top) const {
    return fmt::format(" axis {} {}", top.axis, top.largest ? "largest" : "smallest");
  }
  std::string payload(const NonZero&) const { return {}; }
  std::string payload(const Unique& unique) const {
    return (unique.axis ? " axis " + std::to_string(*unique.axis) : std::string()) + (unique.sorted ? " sorted" : "");
  }
  std::string payload(const NonMaxSuppression& suppression) const {
    return suppression.center_point_box ? " center_point_box" : "";
  }
  std::string payload(const Determinant&) const { return {}; }
  std::string payload(const If&) const { return {}; }
  std::string payload(const Loop& loop) const {
    return fmt::format("{}{} carried {}", loop.has_trip_count ? " trip_count" : "",
                       loop.has_condition ? " condition" : "", loop.carried);
  }
  std::string payload(const RowGroup& group) const { return " " + spell(group.rows); }
  std::string payload(const SequenceConstruct&) const { return {}; }
  std::string payload(const SequenceInsert&) const { return {}; }
  std::string payload(const SequenceErase&) const { return {}; }
  std::string payload(const SequenceAt&) const { return {}; }
  std::string payload(const SequenceLength&) const { return {}; }
  std::string payload(const SplitToSequence& split) const {
    return fmt::format(" axis {}{}", split.axis, split.keep_dims ? " keep_dims" : "");
  }
  std::string payload(const ConcatFromSequence& concat) const {
    return fmt::format(" axis {}{}", concat.axis, concat.new_axis ? " new_axis" : "");
  }

  // ---- lines
  void print_ops(const Block& block) {
    for (const auto& op : block.ops) print_op(*op);
  }

  void print_block(const Block& block) {
    auto indented = out_.indent();
    print_ops(block);
    out_.line("yield{}{}", block.outputs.empty() ? "" : " ", references(block.outputs));
  }

  void print_op(const Op& op) {
    std::string head;
    for (const auto& result : op.results) head += (head.empty() ? "" : ", ") + definition(*result);
    if (!head.empty()) head += " = ";
    head += name_of(op.kind());
    head += std::visit([&](const auto& each) { return payload(each); }, op.payload);
    const bool has_list = op.kind() != OpKind::kConstant && op.kind() != OpKind::kCheck;
    if (has_list) head += " (" + references(op.operands) + ")";
    out_.write("{}", head);
    if (const auto* branch = op.as<If>()) {
      out_.write(" {{");
      out_.end_line();
      print_block(*branch->then_block);
      out_.line("}} else {{");
      print_block(*branch->else_block);
      out_.write("}}");
    } else if (const auto* group = op.as<RowGroup>()) {
      out_.write(" body({}) {{", definitions(group->body->inputs));
      out_.end_line();
      print_block(*group->body);
      out_.write("}}");
    } else if (const auto* loop = op.as<Loop>()) {
      out_.write(" body({})", definitions(loop->body->inputs));
      if (!loop->body_defines.empty()) out_.write(" binds [{}]", list(loop->body_defines));
      out_.write(" {{");
      out_.end_line();
      print_block(*loop->body);
      out_.write("}}");
    }
    if (!op.defines.empty()) out_.write(" defines [{}]", list(op.defines));
    if (!op.source.empty()) out_.write(" from {}", spell_string(op.source));
    out_.end_line();
  }

  void print_symbols(const Graph& graph) {
    std::map<uint32_t, Expr> symbols;
    const auto add = [&](Expr e) {
      if (!e) return;
      for (Expr symbol : symbolic::free_symbols(e)) {
        if (symbol.symbol().kind != symbolic::SymbolKind::kLoop) symbols.insert({symbol.id(), symbol});
      }
    };
    const auto add_axes = [&](const std::vector<Axis>& axes) {
      for (const Axis& axis : axes) {
        if (!name_says_all(axis.var)) symbols.insert({axis.var.id(), axis.var});
      }
    };
    const auto add_value = [&](const Value& v) {
      for (Expr extent : v.type.extents) add(extent);
      add(v.type.rank);
      if (v.contents) {
        for (Expr e : *v.contents) add(e);
      }
    };
    for (const GraphInput& input : graph.inputs) add_value(*input.value);
    for_each_op(graph.body, [&](const Op& op) {
      for (Expr symbol : used_symbols(op)) add(symbol);
      for (Expr symbol : op.defines) add(symbol);
      for (const auto& result : op.results) add_value(*result);
      if (const auto* compute = op.as<Compute>()) {
        add_axes(compute->axes);
        add_axes(compute->reductions);
      } else if (const auto* scatter = op.as<Scatter>()) {
        add_axes(scatter->axes);
      } else if (const auto* loop = op.as<Loop>()) {
        for (Expr symbol : loop->body_defines) add(symbol);
        for (const auto& input : loop->body->inputs) add_value(*input);
      } else if (const auto* group = op.as<RowGroup>()) {
        add_axes(group->rows);
        for (const auto& input : group->body->inputs) add_value(*input);
      }
    });
    for (const auto& [id, symbol] : symbols) {
      const symbolic::SymbolInfo& info = symbol.symbol();
      static constexpr const char* kKinds[] = {"dim", "value", "axis", "param"};
      const auto bound = [](int64_t v) {
        return v == symbolic::kNegInf ? std::string("least") : v == symbolic::kPosInf ? "greatest" : std::to_string(v);
      };
      out_.write("symbol {}: {} [{}, {}]", spell_name('\0', info.name), kKinds[static_cast<int>(info.kind)],
                 bound(info.range.lo), bound(info.range.hi));
      if (info.multiple != 1) out_.write(" multiple {}", info.multiple);
      out_.end_line();
    }
  }

  PrintOptions options_;
  const DrawnConstants* drawn_;
  TextWriter out_;
  std::unordered_set<const Value*> named_;
  std::map<std::string, int> name_counts_;
};

}  // namespace

std::string_view name_of(Combiner c) {
  switch (c) {
    case Combiner::kNone: return "none";
    case Combiner::kSum: return "sum";
    case Combiner::kProd: return "prod";
    case Combiner::kMin: return "min";
    case Combiner::kMax: return "max";
    case Combiner::kAnd: return "and";
    case Combiner::kOr: return "or";
    case Combiner::kArgMaxFirst: return "arg_max_first";
    case Combiner::kArgMaxLast: return "arg_max_last";
    case Combiner::kArgMinFirst: return "arg_min_first";
    case Combiner::kArgMinLast: return "arg_min_last";
  }
  STAX_UNREACHABLE();
}

std::string print(const Graph& graph) { return print(graph, PrintOptions{}); }
std::string print(const Graph& graph, const PrintOptions& options) { return Printer(options).print_graph(graph); }
std::string print_with_drawn(const Graph& graph, const DrawnConstants& drawn) {
  return Printer({.full = true}, &drawn).print_graph(graph);
}
std::string print(const Op& op) { return Printer(PrintOptions{}).print_one(op); }

}  // namespace stax::tensor
