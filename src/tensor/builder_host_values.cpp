// SPDX-License-Identifier: Apache-2.0
// Integers that the program decides on: known as expressions, or bound at run time.
#include <algorithm>
#include <functional>

#include "support/error.h"
#include "tensor/builder.h"

namespace stax::tensor {

using symbolic::Interval;

namespace {

// The most host integers that are bound to get the elements of one value.
constexpr int64_t kMaxBoundElements = 16;

Interval range_of_dtype(DType t) {
  if (t == DType::kBool) return {0, 1};
  const int bits = ir::bit_width(t);
  if (bits == 64) return ir::is_signed(t) ? Interval{} : Interval{0, symbolic::kPosInf};
  if (ir::is_signed(t)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

bool holds_integers(DType t) { return ir::is_integer(t) || t == DType::kBool; }

bool may_be_known(const Value* v) {
  return holds_integers(v->type.dtype) && constant_count(v->type).value_or(kMaxContents + 1) <= kMaxContents;
}

// The block in which `v` is made, where it can be found: a value of a block between `current` and the graph's body that
// is an input there cannot.
Block* block_of(Graph& graph, Block& current, const Value* v) {
  if (v->producer != nullptr) return v->producer->block;
  for (Block* block : {&current, &graph.body}) {
    for (const auto& input : block->inputs) {
      if (input.get() == v) return block;
    }
  }
  return nullptr;
}

// Values from which the elements of `v` follow by integer arithmetic and that are not known themselves, or false. Where
// the operands of an op cannot be followed (floats, tensors of many elements), its result is such a value itself.
struct Leaves {
  std::vector<Value*> order;  // what has been seen, operands before results
  std::vector<Value*> leaves;
  int64_t elements = 0;  // of the leaves

  bool collect(Graph& graph, Block& current, Value* v) {
    if (v->contents || std::find(order.begin(), order.end(), v) != order.end()) return true;
    if (!may_be_known(v)) return false;
    const bool computed = v->producer != nullptr && v->result == 0 &&
                          (v->producer->as<Compute>() != nullptr || v->producer->as<Reshape>() != nullptr) &&
                          !v->producer->operands.empty();
    if (computed) {
      const Leaves before = *this;
      if (std::all_of(v->producer->operands.begin(), v->producer->operands.end(),
                      [&](Value* operand) { return collect(graph, current, operand); })) {
        order.push_back(v);
        return true;
      }
      *this = before;
    }
    elements += *constant_count(v->type);
    if (elements > kMaxBoundElements || block_of(graph, current, v) == nullptr) return false;
    leaves.push_back(v);
    order.push_back(v);
    return true;
  }
};

// Adds the Bind that makes `symbols` the elements of `v`: directly behind its producer, so that every user of `v` may
// use them.
void bind_behind_producer(Graph& graph, Block& block, Value* v, std::vector<Expr> symbols, const std::string& source) {
  auto place = block.ops.begin();
  if (v->producer != nullptr) {
    while (place->get() != v->producer) ++place;
    ++place;
  }
  graph.add_op(block, Bind{}, {v}, {}, std::move(symbols), source, place == block.ops.end() ? nullptr : place->get());
}

using BindFn = std::function<std::vector<Expr>(Value* leaf, Interval range)>;

// Gives `v` contents that follow from bound leaves, where they do; changes nothing otherwise.
void infer_from_leaves(Graph& graph, Block& current, Value* v, const BindFn& bind, const std::string& source) {
  Leaves found;
  if (!found.collect(graph, current, v) || (found.leaves.size() == 1 && found.leaves[0] == v)) return;
  const std::vector<Value*>& order = found.order;
  const std::vector<Value*>& leaves = found.leaves;
  for (Value* leaf : leaves) leaf->contents = bind(leaf, {});
  std::vector<Value*> inferred;
  for (Value* each : order) {
    if (each->contents) continue;
    each->contents = infer_contents(graph, *each->producer);
    if (!each->contents) break;
    inferred.push_back(each);
  }
  if (v->contents) {
    for (Value* leaf : leaves)
      bind_behind_producer(graph, *block_of(graph, current, leaf), leaf, *leaf->contents, source);
    return;
  }
  for (Value* each : inferred) each->contents.reset();
  for (Value* each : leaves) each->contents.reset();
}

}  // namespace

// Elements that are not known are bound at run time, as early in the arithmetic as possible: of k + 1 it is k that is
// bound, so that extents made of k and of k + 1 stay related.
std::vector<Expr> Builder::host_ints(Value* v, Interval range) {
  STAX_ASSERT(constant_count(v->type) && holds_integers(v->type.dtype), "'{}' is no integer tensor of static extents",
              v->name);
  const std::string name = v->name.empty() ? "value" + std::to_string(v->id) : v->name;

  const auto bind = [&](Value* leaf, Interval leaf_range) {
    std::vector<Expr> symbols;
    const std::string leaf_name = leaf->name.empty() ? "value" + std::to_string(leaf->id) : leaf->name;
    const int64_t leaf_count = *constant_count(leaf->type);
    for (int64_t i = 0; i < leaf_count; ++i) {
      symbols.push_back(new_symbol(leaf_count == 1 ? leaf_name : leaf_name + "_" + std::to_string(i),
                                   intersect(leaf_range, range_of_dtype(leaf->type.dtype))));
    }
    return symbols;
  };

  if (!v->contents && may_be_known(v)) infer_from_leaves(*graph_, *block_, v, bind, source);
  std::vector<Expr> elements;
  if (v->contents) {
    elements = *v->contents;
  } else {
    // A branch that is not taken must not refuse a value: a range holds where it is asked for.
    Block* const home = block_of(*graph_, *block_, v);
    elements = bind(v, home == block_ || home == nullptr ? range : Interval{});
    if (home == nullptr) {
      graph_->add_op(*block_, Bind{}, {v}, {}, elements, source);
    } else {
      bind_behind_producer(*graph_, *home, v, elements, source);
      v->contents = elements;
    }
  }
  for (Expr element : elements) {
    const Interval known = graph_->constraints.range(element);
    if (known.lo >= range.lo && known.hi <= range.hi) continue;
    check(logical_and(less_equal(constant_expr(range.lo), element), less_equal(element, constant_expr(range.hi))),
          "'" + name + "' is {0}, which is outside " + std::to_string(range.lo) + " .. " + std::to_string(range.hi),
          {element});
  }
  return elements;
}

Expr Builder::host_int(Value* v, Interval range) {
  const std::vector<Expr> elements = host_ints(v, range);
  STAX_ASSERT(elements.size() == 1, "'{}' has {} elements, not one", v->name, elements.size());
  return elements[0];
}

}  // namespace stax::tensor
