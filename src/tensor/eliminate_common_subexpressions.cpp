// SPDX-License-Identifier: Apache-2.0
// Ops that say the same are one: an op is looked up by what it says, operands by identity, among the ops that dominate
// it. Bodies are hash-consed and axis variables shared, so that equal bodies are equal pointers.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "support/hash.h"
#include "tensor/passes.h"

namespace stax::tensor {

namespace {

bool same_type(const Type& a, const Type& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.extents == b.extents && a.rank == b.rank &&
         a.element_rank == b.element_rank;
}

// ---- payloads: hash and equality; kinds without one are never merged

struct PayloadHash {
  uint64_t operator()(const Constant& c) const {
    const auto* bytes = static_cast<const std::byte*>(c.literal.data());
    return hash_bytes(std::span(bytes, c.literal.bytes()), static_cast<uint64_t>(c.literal.dtype()));
  }
  uint64_t operator()(const Compute& c) const {
    uint64_t h = hash_combine(0, c.body.node(), c.epilogue.node(), static_cast<int>(c.combiner));
    for (const Axis& a : c.axes) h = hash_combine(h, a.extent);
    return h;
  }
  uint64_t operator()(const Scatter& s) const { return hash_combine(0, s.value.node(), s.guard.node()); }
  uint64_t operator()(const Check& c) const { return hash_combine(0, c.condition); }
  template <class T>
  uint64_t operator()(const T&) const {
    return 0;
  }
};

bool same(const Constant& a, const Constant& b) {
  return a.literal.dtype() == b.literal.dtype() && a.literal.extents() == b.literal.extents() &&
         (a.literal.data() == b.literal.data() ||
          std::memcmp(a.literal.data(), b.literal.data(), a.literal.bytes()) == 0);
}
bool same(const Compute& a, const Compute& b) {
  return a.axes == b.axes && a.reductions == b.reductions && a.combiner == b.combiner && a.accumulate == b.accumulate &&
         a.body == b.body && a.epilogue == b.epilogue;
}
bool same(const Scatter& a, const Scatter& b) {
  return a.axes == b.axes && a.index == b.index && a.value == b.value && a.guard == b.guard && a.mode == b.mode;
}
bool same(const Check& a, const Check& b) {
  return a.condition == b.condition && a.message == b.message && a.arguments == b.arguments;
}
bool same(const Reshape&, const Reshape&) { return true; }
bool same(const PrefixScan& a, const PrefixScan& b) {
  return a.axis == b.axis && a.combiner == b.combiner && a.exclusive == b.exclusive && a.reverse == b.reverse;
}
bool same(const TopK& a, const TopK& b) { return a.axis == b.axis && a.largest == b.largest; }
bool same(const Determinant&, const Determinant&) { return true; }
bool same(const SequenceConstruct&, const SequenceConstruct&) { return true; }
bool same(const SequenceInsert&, const SequenceInsert&) { return true; }
bool same(const SequenceErase&, const SequenceErase&) { return true; }
bool same(const SequenceLength&, const SequenceLength&) { return true; }
bool same(const SplitToSequence& a, const SplitToSequence& b) { return a.axis == b.axis && a.keep_dims == b.keep_dims; }
template <class T>
bool same(const T&, const T&) {
  return false;
}

uint64_t hash_of(const Op& op) {
  uint64_t h = hash_combine(std::visit(PayloadHash(), op.payload), op.payload.index());
  for (const Value* v : op.operands) h = hash_combine(h, v->id);
  return h;
}

bool same_op(const Op& a, const Op& b) {
  if (a.payload.index() != b.payload.index() || a.operands != b.operands || a.results.size() != b.results.size())
    return false;
  // A symbol is defined by one op alone.
  if (!a.defines.empty() || !b.defines.empty()) return false;
  for (size_t k = 0; k < a.results.size(); ++k) {
    if (!same_type(a.result(static_cast<int>(k))->type, b.result(static_cast<int>(k))->type)) return false;
  }
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        return same(x, std::get<T>(b.payload));
      },
      a.payload);
}

class Eliminator {
 public:
  explicit Eliminator(Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    std::vector<std::pair<uint64_t, Op*>> own;
    for (auto at = block.ops.begin(); at != block.ops.end();) {
      Op& op = **at;
      if (If* branch = op.as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
      } else if (Loop* loop = op.as<Loop>()) {
        changed |= run(*loop->body);
      }
      const uint64_t hash = hash_of(op);
      Op* const earlier = find(hash, op);
      if (earlier == nullptr) {
        known_.emplace(hash, &op);
        own.emplace_back(hash, &op);
        ++at;
        continue;
      }
      for (size_t k = 0; k < op.results.size(); ++k) {
        replace_all_uses(graph_, op.result(static_cast<int>(k)), earlier->result(static_cast<int>(k)));
      }
      at = block.ops.erase(at);
      changed = true;
    }
    // What a block computes is not visible outside.
    for (const auto& [hash, op] : own) {
      const auto range = known_.equal_range(hash);
      for (auto it = range.first; it != range.second; ++it) {
        if (it->second == op) {
          known_.erase(it);
          break;
        }
      }
    }
    return changed;
  }

 private:
  Op* find(uint64_t hash, const Op& op) const {
    const auto range = known_.equal_range(hash);
    for (auto it = range.first; it != range.second; ++it) {
      if (same_op(*it->second, op) && !both_are_outputs(*it->second, op)) return it->second;
    }
    return nullptr;
  }

  /// Two outputs of a block stay two values: the caller has a buffer for each.
  static bool both_are_outputs(const Op& a, const Op& b) {
    const auto is_output = [](const Op& op) {
      return std::any_of(op.results.begin(), op.results.end(), [&](const auto& r) {
        return std::find(op.block->outputs.begin(), op.block->outputs.end(), r.get()) != op.block->outputs.end();
      });
    };
    return is_output(a) && is_output(b);
  }

  Graph& graph_;
  std::unordered_multimap<uint64_t, Op*> known_;
};

}  // namespace

bool eliminate_common_subexpressions(Graph& graph) { return Eliminator(graph).run(graph.body); }

}  // namespace stax::tensor
