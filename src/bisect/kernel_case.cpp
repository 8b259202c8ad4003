// SPDX-License-Identifier: Apache-2.0
#include "bisect/kernel_case.h"

#include <unordered_map>

#include <algorithm>
#include <cstring>

#include "bisect/copy_op.h"
#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/rewrite.h"

namespace stax::bisect {

using symbolic::Expr;
using tensor::Item;
using tensor::Literal;
using tensor::Op;
using tensor::Type;

namespace {

// What an op sees of an operand of run-time rank: kMaxRank axes.
Literal padded(const Literal& l, const Type& type) {
  std::vector<int64_t> extents = l.extents();
  if (extents.size() >= type.extents.size()) return l;
  extents.insert(extents.begin(), type.extents.size() - extents.size(), 1);
  return l.reshaped(extents);
}

std::vector<Expr> symbols_of(const Op& op) {
  std::vector<Expr> symbols = tensor::used_symbols(op);
  auto add = [&](Expr e) {
    for (Expr s : symbolic::free_symbols(e))
      if (std::find(symbols.begin(), symbols.end(), s) == symbols.end()) symbols.push_back(s);
  };
  for (const tensor::Value* v : op.operands)
    for (Expr e : v->type.extents) add(e);
  std::erase_if(symbols, [](Expr s) { return s.symbol().kind == symbolic::SymbolKind::kLoop; });
  return symbols;
}

// The call at other values of its symbols, or none where its operands do not hold that much.
std::optional<KernelCall> resized(const KernelCall& call, const tensor::Bindings& bindings) {
  KernelCall smaller{call.op, {}, bindings};
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const Type& type = call.op->operands[k]->type;
    const Literal from = padded(call.operands[k].tensor, type);
    std::vector<int64_t> extents;
    for (size_t d = 0; d < type.extents.size(); ++d) {
      const int64_t e = symbolic::evaluate(type.extents[d], bindings);
      if (e < 0 || e > from.extents()[d]) return std::nullopt;
      extents.push_back(e);
    }
    Item item;
    item.tensor = leading_part(from, extents);
    smaller.operands.push_back(std::move(item));
  }
  return smaller;
}

}  // namespace

Literal leading_part(const Literal& from, const std::vector<int64_t>& extents) {
  if (from.extents() == extents) return from;
  Literal to(from.dtype(), extents);
  const size_t item = ir::byte_size(from.dtype());
  const int64_t row = extents.empty() ? 1 : extents.back();
  std::vector<int64_t> index(extents.size(), 0);
  for (int64_t at = 0; at < to.count(); at += row) {
    int64_t source = 0;
    for (size_t d = 0; d < extents.size(); ++d) source = source * from.extents()[d] + index[d];
    std::memcpy(static_cast<char*>(to.data()) + static_cast<size_t>(at) * item,
                static_cast<const char*>(from.data()) + static_cast<size_t>(source) * item,
                static_cast<size_t>(row) * item);
    for (size_t d = extents.size() - 1; d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
  return to;
}

KernelCall shrink(KernelCall call, const std::function<bool(const KernelCall&)>& differs) {
  const std::vector<Expr> symbols = symbols_of(*call.op);
  for (bool changed = true; changed;) {
    changed = false;
    for (Expr s : symbols) {
      auto bound = call.bindings.find(s.node());
      if (bound == call.bindings.end()) continue;
      const int64_t now = bound->second;
      for (int64_t candidate :
           {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{9}, int64_t{17}, int64_t{33}, now / 2, now - 1}) {
        if (candidate >= now || candidate < std::max<int64_t>(1, s.range().lo)) continue;
        tensor::Bindings bindings = call.bindings;
        bindings[s.node()] = candidate;
        std::optional<KernelCall> smaller = resized(call, bindings);
        if (!smaller || !differs(*smaller)) continue;
        // Smaller by one only once for each symbol: a last touch, not a walk.
        changed = changed || candidate != now - 1;
        call = std::move(*smaller);
        break;
      }
    }
  }
  return call;
}

Case case_of(const KernelCall& call) {
  const Op& op = *call.op;
  Case made;
  // Symbols and axis variables stay those of the op.
  made.graph = std::make_unique<tensor::Graph>(op.block->graph->context);
  tensor::Graph& graph = *made.graph;
  const std::vector<Expr> symbols = symbols_of(op);
  bool direct = true;
  for (Expr s : symbols)
    direct = direct && std::any_of(op.operands.begin(), op.operands.end(), [&](const tensor::Value* v) {
               const auto& e = v->type.extents;
               return std::find(e.begin(), e.end(), s) != e.end();
             });
  for (const tensor::Value* v : op.operands)
    for (Expr e : v->type.extents) direct = direct && (e.is_constant() || e.is_symbol());
  auto input = [&](const std::string& name, Type type, Literal data) {
    tensor::Value* v = graph.add_input(graph.body, std::move(type), name);
    graph.inputs.push_back({name, v});
    Item item;
    item.tensor = std::move(data);
    made.inputs.push_back(std::move(item));
    return v;
  };
  tensor::Op* bind = nullptr;
  if (!direct && !symbols.empty()) {
    std::vector<int64_t> values;
    for (Expr s : symbols) values.push_back(call.bindings.at(s.node()));
    const int64_t count = static_cast<int64_t>(values.size());
    tensor::Value* v =
        input("symbols", Type::tensor(ir::DType::kI64, {graph.exprs().constant(count)}), Literal::ints(values));
    bind = graph.add_op(graph.body, tensor::Bind{}, {v}, {}, symbols, "symbols of the kernel");
  }
  std::vector<tensor::Value*> operands;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Type& type = op.operands[k]->type;
    const std::string name = "operand" + std::to_string(k);
    const Literal data = padded(call.operands[k].tensor, type);
    const Type plain = Type::tensor(type.dtype, type.extents);
    if (direct) {
      operands.push_back(input(name, plain, data));
      continue;
    }
    Expr count = graph.exprs().new_symbol({.name = "count" + std::to_string(k), .range = {0, symbolic::kMaxExtent}});
    tensor::Value* flat = input(name, Type::tensor(type.dtype, {count}), data.reshaped({data.count()}));
    operands.push_back(graph.add_op(graph.body, tensor::Reshape{}, {flat}, {plain})->result());
  }
  std::vector<Type> types;
  for (const auto& r : op.results) types.push_back(Type::tensor(r->type.dtype, r->type.extents));
  tensor::Op* copy = graph.add_op(graph.body, payload_of(op, graph), operands, types, {}, op.source);
  if (tensor::RowGroup* group = copy->as<tensor::RowGroup>()) group->body->parent = copy;
  for (const auto& r : copy->results) {
    graph.outputs.push_back({types.size() == 1 ? "result" : "result" + std::to_string(r->result), r.get()});
    graph.body.outputs.push_back(r.get());
  }
  // What an input's dims define is a dim, what a Bind defines a value.
  const auto kind = direct ? symbolic::SymbolKind::kDim : symbolic::SymbolKind::kValue;
  symbolic::Substitution map;
  for (Expr s : symbols) {
    if (s.symbol().kind == kind) continue;
    symbolic::SymbolInfo info = s.symbol();
    info.kind = kind;
    map[s.node()] = graph.exprs().new_symbol(std::move(info));
  }
  tensor::substitute_symbols(graph, map);
  if (bind)
    for (Expr& e : bind->defines) e = symbolic::substitute(e, map);
  return made;
}

std::string inputs_text(const tensor::Graph& graph, const std::vector<Item>& inputs,
                        const tensor::DrawnConstants& drawn) {
  tensor::Graph constants(std::make_shared<ir::Context>());
  auto constant = [&](const Literal& l) {
    std::vector<Expr> extents;
    for (int64_t e : l.extents()) extents.push_back(constants.exprs().constant(e));
    return constants.add_op(constants.body, tensor::Constant{l}, {}, {Type::tensor(l.dtype(), extents)})->result();
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    tensor::Value* v = nullptr;
    if (inputs[k].is_sequence) {
      std::vector<tensor::Value*> elements;
      for (const Literal& l : inputs[k].sequence) elements.push_back(constant(l));
      const Type& type = graph.inputs[k].value->type;
      v = constants
              .add_op(constants.body, tensor::SequenceConstruct{}, elements,
                      {Type::sequence(type.dtype, type.element_rank)})
              ->result();
    } else {
      v = constant(inputs[k].tensor);
    }
    constants.outputs.push_back({graph.inputs[k].name, v});
    constants.body.outputs.push_back(v);
  }
  return tensor::print_with_drawn(constants, drawn);
}

std::vector<Item> parse_inputs(const std::string& text) { return tensor::interpret(*tensor::parse_graph(text), {}); }

}  // namespace stax::bisect
