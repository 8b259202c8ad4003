// SPDX-License-Identifier: Apache-2.0
#include "bisect/fewer_ops.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_set>

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

std::vector<Expr> mentioned(const Op& op) {
  std::vector<Expr> symbols = tensor::used_symbols(op);
  for (const Value* v : op.operands)
    for (Expr e : v->type.extents)
      for (Expr s : symbolic::free_symbols(e)) symbols.push_back(s);
  return symbols;
}

std::vector<Op*> ops_of(const Graph& graph) {
  std::vector<Op*> ops;
  for (const auto& op : graph.body.ops) ops.push_back(op.get());
  return ops;
}

/// By their places in the outermost block.
using Numbers = std::vector<size_t>;

/// Those that no more than so many values lie between, over all that read a value and the op that makes it. Constants connect nothing.
Numbers around(const Graph& graph, uint32_t id, int distance) {
  const std::vector<Op*> ops = ops_of(graph);
  std::unordered_map<const Value*, std::vector<size_t>> touching;
  std::set<size_t> found, border;
  for (size_t k = 0; k < ops.size(); ++k) {
    if (ops[k]->kind() == tensor::OpKind::kConstant) continue;
    for_each_use(*ops[k], [&](Value* v) { touching[v].push_back(k); });
    for (const auto& r : ops[k]->results) {
      touching[r.get()].push_back(k);
      if (r->id == id) border.insert(k);
    }
  }
  for (; !border.empty() && distance >= 0; --distance) {
    std::set<size_t> next;
    const auto reach = [&](const Value* v) {
      for (const size_t k : touching[v])
        if (!found.contains(k) && !border.contains(k)) next.insert(k);
    };
    for (const size_t k : border) {
      for_each_use(*ops[k], reach);
      for (const auto& r : ops[k]->results) reach(r.get());
    }
    found.merge(border);
    border = std::move(next);
  }
  return {found.begin(), found.end()};
}

class Minimizer {
 public:
  Minimizer(const std::function<Part()>& whole, const Values& known, const std::function<bool(Part&)>& shows,
            int seconds)
      : whole_(whole), known_(known), shows_(shows), end_(Clock::now() + std::chrono::seconds(seconds)) {}

  std::optional<Part> run(uint32_t id) {
    const Part all = whole_();
    size_t before = 0;
    for (const int distance : {2, 4, 8}) {
      Numbers near = around(*all.graph, id, distance);
      if (near.empty() || near.size() == before) break;
      before = near.size();
      if (try_part(near)) return reduced(std::move(near));
    }
    Numbers every;
    size_t number = 0;
    for (const auto& op : all.graph->body.ops) {
      if (op->kind() != tensor::OpKind::kConstant) every.push_back(number);
      ++number;
    }
    return reduced(std::move(every));
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Whether these ops show it; then they are the best so far.
  bool try_part(const Numbers& numbers) {
    if (Clock::now() > end_) return false;
    try {
      Part part = whole_();
      std::vector<Op*> ops;
      const std::vector<Op*> all = ops_of(*part.graph);
      for (const size_t k : numbers) ops.push_back(all[k]);
      const std::unordered_set<const Op*> own(ops.begin(), ops.end());
      cut(part, ops, [&](const Value& v) { return own.contains(v.producer) ? nullptr : known_.find(v.id, 0); });
      if (!shows_(part)) return false;
      best_ = std::move(part);
      return true;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // what was cut is no model
      return false;
    }
  }

  /// Leaves out runs of ops, long ones first.
  std::optional<Part> reduced(Numbers numbers) {
    for (size_t run = (numbers.size() + 1) / 2; run > 0;) {
      bool fewer = false;
      for (size_t first = 0; first < numbers.size() && numbers.size() > 1;) {
        Numbers rest = numbers;
        const auto from = rest.begin() + static_cast<std::ptrdiff_t>(first);
        rest.erase(from, from + static_cast<std::ptrdiff_t>(std::min(run, rest.size() - first)));
        if (!rest.empty() && try_part(rest)) {
          numbers = std::move(rest);
          fewer = true;
        } else {
          first += run;
        }
      }
      if (Clock::now() > end_ || (run == 1 && !fewer)) break;
      if (!fewer || run > numbers.size()) run = std::min(run / 2, (numbers.size() + 1) / 2);
    }
    return std::move(best_);
  }

  const std::function<Part()>& whole_;
  const Values& known_;
  const std::function<bool(Part&)>& shows_;
  const Clock::time_point end_;
  std::optional<Part> best_;
};

}  // namespace

Op* outermost(Op* op) {
  while (op->block->parent) op = op->block->parent;
  return op;
}

void make_input(Part& part, Value* v, const Item& item) {
  const std::string name = "value" + std::to_string(v->id);
  Value* input = part.graph->add_input(part.graph->body, v->type, name);
  input->contents = v->contents;
  part.graph->inputs.push_back({name, input});
  part.inputs.push_back(item);
  tensor::replace_all_uses(*part.graph, v, input);
}

void cut(Part& part, const std::vector<Op*>& ops, const std::function<const Item*(const Value&)>& is_known) {
  Graph& graph = *part.graph;
  const std::vector<Value*> returned = graph.body.outputs;
  graph.outputs.clear();
  graph.body.outputs.clear();
  std::unordered_set<const Op*> needed(ops.begin(), ops.end());
  std::vector<Op*> open = ops;
  std::unordered_map<Value*, const Item*> inputs;
  auto need = [&](Op* op) {
    if (needed.insert(op).second) open.push_back(op);
  };
  while (!open.empty()) {
    Op* op = open.back();
    open.pop_back();
    for_each_use(*op, [&](Value* v) {
      if (!v->producer || v->producer->block != &graph.body || inputs.contains(v)) return;
      const Item* known = v->producer->kind() == tensor::OpKind::kConstant ? nullptr : is_known(*v);
      if (known && is_bare(v->type))
        inputs[v] = known;
      else
        need(v->producer);
    });
    // Whatever defines the symbols that it mentions has to run before it.
    for (Expr s : mentioned(*op))
      for (const auto& each : graph.body.ops)
        if (std::find(each->defines.begin(), each->defines.end(), s) != each->defines.end()) need(each.get());
  }
  // Extents may be equal by what a check says: those of symbols that the part mentions anyway stay.
  std::unordered_set<const symbolic::ExprNode*> symbols;
  for (const Op* op : needed)
    for (Expr s : mentioned(*op)) symbols.insert(s.node());
  for (const auto& op : graph.body.ops) {
    if (op->kind() != tensor::OpKind::kCheck) continue;
    const auto all = mentioned(*op);
    if (std::all_of(all.begin(), all.end(), [&](Expr s) { return symbols.contains(s.node()); }))
      needed.insert(op.get());
  }
  // What is read outside of the part, or nowhere.
  std::unordered_set<const Value*> inside, outside(returned.begin(), returned.end());
  for (const auto& op : graph.body.ops)
    for_each_use(*op, [&](Value* v) { (needed.contains(op.get()) ? inside : outside).insert(v); });
  for (Op* op : ops_of(graph)) {
    if (!needed.contains(op) || op->kind() == tensor::OpKind::kConstant) continue;
    for (const auto& r : op->results) {
      if (inside.contains(r.get()) && !outside.contains(r.get())) continue;
      graph.outputs.push_back(
          {"result" + (graph.outputs.empty() ? "" : std::to_string(graph.outputs.size())), r.get()});
      graph.body.outputs.push_back(r.get());
    }
  }
  std::vector<std::pair<Value*, const Item*>> in_order(inputs.begin(), inputs.end());
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) { return a.first->id < b.first->id; });
  for (auto& [v, item] : in_order) make_input(part, v, *item);
  std::vector<Op*> unneeded;
  for (const auto& op : graph.body.ops)
    if (!needed.contains(op.get())) unneeded.push_back(op.get());
  for (size_t k = unneeded.size(); k-- > 0;) tensor::erase_op(*unneeded[k]);
}

std::optional<Part> fewest_ops(const std::function<Part()>& whole, const Values& known, uint32_t id,
                               const std::function<bool(Part&)>& shows, int seconds) {
  return Minimizer(whole, known, shows, seconds).run(id);
}

}  // namespace stax::bisect
