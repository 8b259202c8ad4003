// SPDX-License-Identifier: Apache-2.0
#include "bisect/pass_case.h"

#include "bisect/small_data.h"

#include <algorithm>

#include "compile/pass.h"
#include "support/error.h"
#include "tensor/rewrite.h"

namespace stax::bisect {

using symbolic::Expr;
using tensor::Block;
using tensor::Graph;
using tensor::Item;
using tensor::Op;
using tensor::Value;

namespace {

// A constant of more bytes becomes an input where the fault does not need it to be known.
constexpr size_t kLargeConstant = 4096;

/// The op of the outermost block that holds `op`.
Op* outermost(Op* op) {
  while (op->block->parent) op = op->block->parent;
  return op;
}

void for_each_use(const Op& op, const std::function<void(Value*)>& f) {
  for (Value* v : op.operands) f(v);
  auto block = [&](const Block& b) {
    for (const auto& inner : b.ops) for_each_use(*inner, f);
    for (Value* v : b.outputs) f(v);
  };
  if (const auto* branch = op.as<tensor::If>()) block(*branch->then_block), block(*branch->else_block);
  if (const auto* loop = op.as<tensor::Loop>()) block(*loop->body);
}

bool is_bare(const tensor::Type& type) {
  return type.is_tensor() && !type.rank &&
         std::all_of(type.extents.begin(), type.extents.end(), [](Expr e) { return e.is_constant() || e.is_symbol(); });
}

/// Cuts a graph down to what one op needs.
class Cut {
 public:
  Cut(Graph& graph, std::vector<Item> inputs) : graph_(graph), inputs_(std::move(inputs)) {}

  /// Keeps `root`, an op of the outermost block; values that `is_known` says become inputs.
  void keep(Op* root, const std::function<const Item*(const Value&)>& is_known) {
    graph_.outputs.clear();
    graph_.body.outputs.clear();
    for (const auto& r : root->results) {
      graph_.outputs.push_back({"result" + std::to_string(r->result), r.get()});
      graph_.body.outputs.push_back(r.get());
    }
    std::unordered_set<const Op*> needed;
    std::vector<Op*> open{root};
    std::vector<Expr> symbols;
    auto need = [&](Op* op) {
      if (needed.insert(op).second) open.push_back(op);
    };
    needed.insert(root);
    while (!open.empty()) {
      Op* op = open.back();
      open.pop_back();
      for_each_use(*op, [&](Value* v) {
        if (!v->producer || v->producer->block != &graph_.body || inputs_of_.contains(v)) return;
        const Item* known = v->producer->kind() == tensor::OpKind::kConstant ? nullptr : is_known(*v);
        if (known && is_bare(v->type))
          inputs_of_[v] = known;
        else
          need(v->producer);
      });
      // Whatever defines the symbols that it mentions has to run before it.
      for (Expr s : mentioned(*op))
        for (const auto& each : graph_.body.ops)
          if (std::find(each->defines.begin(), each->defines.end(), s) != each->defines.end()) need(each.get());
    }
    for (auto& [v, item] : inputs_of_) make_input(v, *item);
    std::vector<Op*> unneeded;
    for (const auto& op : graph_.body.ops)
      if (!needed.contains(op.get())) unneeded.push_back(op.get());
    for (size_t k = unneeded.size(); k-- > 0;) tensor::erase_op(*unneeded[k]);
  }

  /// Large constants as inputs, too.
  void free_constants() {
    std::vector<std::pair<Value*, Item>> large;
    for (const auto& op : graph_.body.ops)
      if (const auto* c = op->as<tensor::Constant>(); c && c->literal.bytes() > kLargeConstant) {
        Item item;
        item.tensor = c->literal;
        large.emplace_back(op->result(), item);
      }
    for (auto& [v, item] : large) {
      make_input(v, item);
      tensor::erase_op(*v->producer);
    }
  }

  std::vector<Item> inputs() const { return inputs_; }

 private:
  static std::vector<Expr> mentioned(const Op& op) {
    std::vector<Expr> symbols = tensor::used_symbols(op);
    for (const Value* v : op.operands)
      for (Expr e : v->type.extents)
        for (Expr s : symbolic::free_symbols(e)) symbols.push_back(s);
    return symbols;
  }
  void make_input(Value* v, const Item& item) {
    const std::string name = "value" + std::to_string(v->id);
    Value* input = graph_.add_input(graph_.body, v->type, name);
    input->contents = v->contents;
    graph_.inputs.push_back({name, input});
    inputs_.push_back(item);
    tensor::replace_all_uses(graph_, v, input);
  }

  Graph& graph_;
  std::vector<Item> inputs_;
  std::unordered_map<Value*, const Item*> inputs_of_;
};

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
                                const std::string& pass) {
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

std::string pass_differs(const std::string& graph, const std::vector<Item>& inputs, const std::string& pass) {
  const std::unique_ptr<Graph> before = tensor::parse_graph(graph), after = tensor::parse_graph(graph);
  try {
    compile::run_named_pass(pass, *after);
  } catch (const InternalError& e) {
    return e.what();
  }
  if (inputs.empty() && !before->inputs.empty()) return {};
  Values values;
  const std::vector<Item> outputs = run_reference(*before, inputs, nullptr, values);
  const auto fault = check_graph(*after, inputs, values, outputs, nullptr);
  return fault ? fault->value + ": " + fault->what : std::string();
}

PassCase with_small_data(PassCase whole, const std::string& pass) {
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

PassCase pass_case(std::unique_ptr<Graph> graph, const std::vector<Item>& inputs, uint32_t id, const Values& known,
                   const std::unordered_set<uint32_t>& ids, const std::string& pass) {
  const PassCase whole{tensor::print(*graph, {.full = true}), inputs_text(*graph, inputs), {}};
  Op* root = nullptr;
  tensor::for_each_op(graph->body, [&](Op& op) {
    for (const auto& r : op.results)
      if (r->id == id) root = outermost(&op);
  });
  if (!root) return with_small_data(whole, pass);
  Cut cut(*graph, inputs);
  // A value that the pass keeps can be given: the fault is behind it.
  cut.keep(root, [&](const Value& v) { return ids.contains(v.id) ? known.find(v.id, 0) : nullptr; });
  PassCase best = whole;
  try {
    for (const bool free : {false, true}) {
      if (free) cut.free_constants();
      std::vector<Item> given = cut.inputs();
      if (free) drop_unused_inputs(*graph, given);
      const std::string model = tensor::print(*graph, {.full = true});
      if (pass_differs(model, given, pass).empty()) continue;
      given = shrink_inputs(*graph, std::move(given), model, pass);
      best = {model, inputs_text(*graph, given), {}};
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // what was cut is no model any more: the last that was one is kept
  }
  return with_small_data(std::move(best), pass);
}

}  // namespace stax::bisect
