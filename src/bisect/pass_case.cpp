// SPDX-License-Identifier: Apache-2.0
#include "bisect/pass_case.h"

#include <algorithm>

#include "bisect/fewer_ops.h"
#include "bisect/small_data.h"
#include "compile/pass.h"
#include "support/error.h"
#include "tensor/rewrite.h"

namespace stax::bisect {

using symbolic::Expr;
using tensor::Graph;
using tensor::Item;
using tensor::Op;
using tensor::Value;

namespace {

// A constant of more bytes becomes an input where the fault does not need it to be known.
constexpr size_t kLargeConstant = 4096;
// For a part of the graph that shows the fault, where one op does not.
constexpr int kSeconds = 15;

/// Large constants as inputs, too.
void free_constants(Part& part) {
  std::vector<std::pair<Value*, Item>> large;
  for (const auto& op : part.graph->body.ops)
    if (const auto* c = op->as<tensor::Constant>(); c && c->literal.bytes() > kLargeConstant) {
      Item item;
      item.tensor = c->literal;
      large.emplace_back(op->result(), item);
    }
  for (auto& [v, item] : large) {
    make_input(part, v, item);
    tensor::erase_op(*v->producer);
  }
}

/// Graph inputs that nothing reads, and whose dims nothing mentions.
void drop_unused_inputs(Graph& graph, std::vector<Item>& inputs) {
  const auto uses = tensor::count_uses(graph);
  std::unordered_set<const symbolic::ExprNode*> mentioned;
  tensor::for_each_op(graph.body, [&](const Op& op) {
    for (Expr s : tensor::used_symbols(op)) mentioned.insert(s.node());
    for (const Value* v : op.operands)
      for (Expr e : v->type.extents)
        for (Expr s : symbolic::free_symbols(e)) mentioned.insert(s.node());
  });
  for (size_t k = graph.inputs.size(); k-- > 0;) {
    const Value* v = graph.inputs[k].value;
    if (uses.contains(v) && uses.at(v) > 0) continue;
    bool needed = false;
    for (Expr e : v->type.extents) needed = needed || (e.is_symbol() && mentioned.contains(e.node()));
    if (needed) continue;
    graph.inputs.erase(graph.inputs.begin() + static_cast<std::ptrdiff_t>(k));
    graph.body.inputs.erase(graph.body.inputs.begin() + static_cast<std::ptrdiff_t>(k));
    inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(k));
  }
  for (size_t k = 0; k < graph.body.inputs.size(); ++k) graph.body.inputs[k]->result = static_cast<int>(k);
}

/// Smaller extents of the dims of the inputs, as long as the pass differs.
std::vector<Item> shrink_inputs(const Graph& graph, std::vector<Item> inputs, const std::string& model,
                                const Pass& pass) {
  std::vector<Expr> dims;
  for (const auto& input : graph.inputs)
    for (Expr e : input.value->type.extents)
      if (e.is_symbol() && std::find(dims.begin(), dims.end(), e) == dims.end()) dims.push_back(e);
  for (Expr dim : dims) {
    for (int64_t candidate : {1, 2, 3, 5, 9, 17}) {
      std::vector<Item> smaller = inputs;
      bool fits = candidate >= dim.range().lo;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const tensor::Type& type = graph.inputs[k].value->type;
        if (!type.is_tensor() || type.rank) continue;
        std::vector<int64_t> extents = inputs[k].tensor.extents();
        for (size_t d = 0; d < extents.size(); ++d)
          if (type.extents[d] == dim) fits = fits && candidate < extents[d], extents[d] = candidate;
        if (fits) smaller[k].tensor = leading_part(inputs[k].tensor, extents);
      }
      if (!fits) break;
      try {
        if (pass_differs(model, smaller, pass).empty()) continue;
      } catch (const UserError&) {
        continue;
      }
      inputs = std::move(smaller);
      break;
    }
  }
  return inputs;
}

}  // namespace

std::string pass_differs(const std::string& graph, const std::vector<Item>& inputs, const Pass& pass) {
  const std::unique_ptr<Graph> before = tensor::parse_graph(graph), after = tensor::parse_graph(graph);
  try {
    compile::run_named_pass(pass.name, *after, pass.target);
  } catch (const InternalError& e) {
    return e.what();
  }
  if (inputs.empty() && !before->inputs.empty()) return {};
  Values values;
  const std::vector<Item> outputs = run_reference(*before, inputs, nullptr, values);
  const auto fault = check_graph(*after, inputs, values, outputs, nullptr);
  return fault ? fault->value + ": " + fault->what : std::string();
}

PassCase with_small_data(PassCase whole, const Pass& pass) {
  const std::unique_ptr<Graph> graph = tensor::parse_graph(whole.model);
  std::vector<Item> inputs;
  if (!whole.inputs.empty()) inputs = parse_inputs(whole.inputs);
  std::vector<LargeTensor> large = large_tensors(*graph);
  for (const LargeTensor& t : large_tensors(inputs, "input")) large.push_back(t);
  if (large.empty()) return whole;
  const SmallData data = draw_large(std::move(large), [&](const tensor::DrawnConstants& drawn) {
    try {
      return !pass_differs(tensor::print_with_drawn(*graph, drawn), inputs, pass).empty();
    } catch (const UserError&) {  // an index out of range, and the like
      return false;
    }
  });
  return {tensor::print_with_drawn(*graph, data.drawn),
          whole.inputs.empty() ? std::string() : inputs_text(*graph, inputs, data.drawn), data.notes};
}

PassCase pass_case(const std::function<std::unique_ptr<Graph>()>& before, const std::vector<Item>& inputs, uint32_t id,
                   const Values& known, const std::unordered_set<uint32_t>& ids, const Pass& pass) {
  const auto whole = [&] { return Part{before(), inputs}; };
  const auto differs = [&](Part& part) {
    return !pass_differs(tensor::print(*part.graph, {.full = true}), part.inputs, pass).empty();
  };
  // Most passes go wrong op by op.
  Part part = whole();
  Op* root = nullptr;
  tensor::for_each_op(part.graph->body, [&](Op& op) {
    for (const auto& r : op.results)
      if (r->id == id) root = outermost(&op);
  });
  bool found = false;
  try {
    // A value that the pass keeps can be given: the fault is behind it.
    if (root) cut(part, {root}, [&](const Value& v) { return ids.contains(v.id) ? known.find(v.id, 0) : nullptr; });
    found = root && differs(part);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // what was cut is no model
  }
  if (!found) {
    std::optional<Part> fewer = fewest_ops(whole, known, id, differs, kSeconds);
    part = fewer ? std::move(*fewer) : whole();
  }
  PassCase best{tensor::print(*part.graph, {.full = true}), inputs_text(*part.graph, part.inputs), {}};
  try {
    for (const bool free : {false, true}) {
      if (free) free_constants(part);
      std::vector<Item> given = part.inputs;
      if (free) drop_unused_inputs(*part.graph, given);
      const std::string model = tensor::print(*part.graph, {.full = true});
      if (pass_differs(model, given, pass).empty()) continue;
      given = shrink_inputs(*part.graph, std::move(given), model, pass);
      best = {model, inputs_text(*part.graph, given), {}};
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // what was cut is no model any more: the last that was one is kept
  }
  return with_small_data(std::move(best), pass);
}

}  // namespace stax::bisect
