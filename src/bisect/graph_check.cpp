// SPDX-License-Identifier: Apache-2.0
#include "bisect/graph_check.h"

#include "support/error.h"

namespace stax::bisect {

using tensor::Item;
using tensor::Op;

std::unordered_set<uint32_t> results_of(const tensor::Graph& graph) {
  std::unordered_set<uint32_t> ids;
  tensor::for_each_op(graph.body, [&](const Op& op) {
    for (const auto& r : op.results) ids.insert(r->id);
  });
  return ids;
}

std::string describe(const tensor::Value& value) {
  std::string text = "%" + std::to_string(value.id);
  if (!value.name.empty()) text += " '" + value.name + "'";
  if (value.producer && !value.producer->source.empty()) text += " of " + value.producer->source;
  return text;
}

std::vector<Item> run_reference(const tensor::Graph& graph, const std::vector<Item>& inputs,
                                const std::unordered_set<uint32_t>* keep, Values& kept) {
  return tensor::interpret(graph, inputs, nullptr, [&](const Op& op, const auto&, auto&, std::vector<Item>& results) {
    for (size_t k = 0; k < results.size(); ++k)
      if (uint32_t id = op.results[k]->id; !keep || keep->contains(id)) kept.add(id, results[k]);
  });
}

namespace {

struct Found {
  GraphFault fault;
};

bool is_control(const Op& op) { return op.kind() == tensor::OpKind::kIf || op.kind() == tensor::OpKind::kLoop; }

class Checker {
 public:
  Checker(const tensor::Graph& graph, const Values& want, const std::vector<Item>& outputs, Values* kept)
      : want_(want), kept_(kept) {
    // An output is known even where a pass has made it a value of its own.
    for (size_t k = 0; k < outputs.size(); ++k)
      if (const tensor::Value* v = graph.outputs[k].value; v->producer && !want.find(v->id, 0))
        if (v->producer->block == &graph.body) outputs_[v->id] = &outputs[k];
  }

  void look(const Op& op, const std::vector<const Item*>& operands, tensor::Bindings& bindings,
            std::vector<Item>& results) {
    for (size_t k = 0; k < results.size(); ++k) {
      const tensor::Value& v = *op.results[k];
      const size_t occurrence = times_[v.id]++;
      const Item* want = want_.find(v.id, occurrence);
      if (auto it = outputs_.find(v.id); !want && it != outputs_.end()) want = it->second;
      // A pass may compute a value in another type, under the same id: then it is not the same value.
      const bool comparable = want && want->is_sequence == results[k].is_sequence &&
                              (want->is_sequence || want->tensor.dtype() == results[k].tensor.dtype());
      if (comparable) {
        Again again;
        if (!is_control(op))
          again = {[&](Draw draw) -> std::optional<Item> {
                     auto moved = this->moved({&op, items_of(operands), bindings}, draw, kLongestChain);
                     return moved ? std::optional(std::move((*moved)[k])) : std::nullopt;
                   },
                   true};
        if (auto d = compare(results[k], *want, again, rounding_of(op, bindings)))
          throw Found{{v.id, occurrence, describe(v), op.source, d->text()}};
        results[k] = *want;
      } else if (!is_control(op)) {
        made_[&v] = {&op, items_of(operands), bindings};
      }
      if (kept_) kept_->add(v.id, results[k]);
    }
  }

 private:
  // Ops in a row, none of whose results is known, that are run again to see what roundings do to the last one.
  static constexpr int kLongestChain = 6;
  struct Run {
    const Op* op = nullptr;
    std::vector<Item> operands;
    tensor::Bindings bindings;
  };
  static std::vector<Item> items_of(const std::vector<const Item*>& items) {
    std::vector<Item> copies;
    for (const Item* item : items) copies.push_back(*item);  // tensors share their data
    return copies;
  }
  std::optional<std::vector<Item>> moved(const Run& run, Draw draw, int chain) const {
    std::vector<Item> operands = run.operands;
    for (size_t k = 0; k < operands.size() && chain > 0; ++k) {
      const tensor::Value* v = run.op->operands[k];
      const auto made = made_.find(v);
      if (made == made_.end()) continue;
      auto results = moved(made->second, draw, chain - 1);
      if (!results) return std::nullopt;
      operands[k] = std::move((*results)[static_cast<size_t>(v->result)]);
    }
    std::vector<const Item*> pointers;
    for (const Item& item : operands) pointers.push_back(&item);
    return evaluate_moved(*run.op, pointers, run.bindings, draw);
  }

  const Values& want_;
  Values* kept_;
  std::unordered_map<const tensor::Value*, Run> made_;  // what nothing is known of
  std::unordered_map<uint32_t, const Item*> outputs_;
  std::unordered_map<uint32_t, size_t> times_;
};

}  // namespace

std::optional<GraphFault> check_graph(const tensor::Graph& graph, const std::vector<Item>& inputs, const Values& want,
                                      const std::vector<Item>& outputs, Values* kept) {
  Checker checker(graph, want, outputs, kept);
  const Op* running = nullptr;
  try {
    std::vector<Item> got = tensor::interpret(graph, inputs, nullptr,
                                              [&](const Op& op, const std::vector<const Item*>& operands,
                                                  tensor::Bindings& bindings, std::vector<Item>& results) {
                                                running = &op;
                                                checker.look(op, operands, bindings, results);
                                              });
    for (size_t k = 0; k < outputs.size(); ++k)
      if (auto d = compare(got[k], outputs[k]))
        return GraphFault{graph.outputs[k].value->id, 0, "output '" + graph.outputs[k].name + "'",
                          graph.outputs[k].value->producer ? graph.outputs[k].value->producer->source : "", d->text()};
  } catch (const Found& found) {
    return found.fault;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    GraphFault fault;
    fault.value = running ? "what follows " + (running->results.empty() ? "a check" : describe(*running->result()))
                          : std::string("its first op");
    fault.what = e.what();
    return fault;
  }
  return std::nullopt;
}

}  // namespace stax::bisect
