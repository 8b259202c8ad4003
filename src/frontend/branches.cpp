// SPDX-License-Identifier: Apache-2.0
#include "frontend/branches.h"

#include <algorithm>

#include "frontend/loops.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

using symbolic::Truth;

/// The types of the results from those of the branches' outputs.
class BranchMerge {
 public:
  BranchMerge(Node& n, Builder& b, Branch& taken, Branch& other, size_t first_symbol)
      : n_(n),
        b_(b),
        taken_(taken),
        other_(other),
        first_symbol_(first_symbol),
        taken_builder_(b.graph(), *taken.block),
        other_builder_(b.graph(), *other.block) {
    taken_builder_.source = other_builder_.source = b.source;
  }

  tensor::Type merge(size_t k) {
    Value*& a = taken_.outputs[k];
    Value*& c = other_.outputs[k];
    const std::string name = n_.output_name(static_cast<int>(k));
    if (a->type.kind != c->type.kind || a->type.dtype != c->type.dtype)
      n_.fault("its branches make different types of the output '" + name + "'");
    if (!a->type.is_tensor()) return tensor::Type::sequence(a->type.dtype, element_rank(a, c));
    const bool same_rank =
        a->type.has_static_rank() && c->type.has_static_rank() && a->type.static_rank() == c->type.static_rank();
    tensor::Type type = tensor::Type::tensor(a->type.dtype, {});
    if (!same_rank) {
      a = as_run_time_rank(taken_builder_, a);
      c = as_run_time_rank(other_builder_, c);
      type.rank = merge_extent(a->type.rank, c->type.rank, name + ".rank");
    }
    for (size_t axis = 0; axis < a->type.extents.size(); ++axis) {
      type.extents.push_back(
          merge_extent(a->type.extents[axis], c->type.extents[axis], name + "[" + std::to_string(axis) + "]"));
    }
    return type;
  }

  std::vector<Expr> defines;

 private:
  int element_rank(const Value* a, const Value* c) {
    const auto& empty = n_.importer().empty_sequences;
    if (empty.contains(a->id)) return c->type.element_rank;
    if (empty.contains(c->id)) return a->type.element_rank;
    return a->type.element_rank == c->type.element_rank ? a->type.element_rank : -1;
  }

  Expr merge_extent(Expr a, Expr c, const std::string& name) {
    for (const Expr candidate : {a, c}) {
      if (!is_visible(candidate, first_symbol_)) continue;
      if (taken_.facts.equal(a, candidate) == Truth::kYes && other_.facts.equal(c, candidate) == Truth::kYes)
        return candidate;
    }
    const symbolic::Interval x = taken_.facts.range(a), y = other_.facts.range(c);
    defines.push_back(b_.new_symbol(name, {std::max<int64_t>(std::min(x.lo, y.lo), 0), std::max(x.hi, y.hi)}));
    return defines.back();
  }

  Node& n_;
  Builder& b_;
  Branch& taken_;
  Branch& other_;
  size_t first_symbol_;
  Builder taken_builder_, other_builder_;
};

}  // namespace

Branch make_branch(Builder& b, Expr condition, const std::function<std::vector<Value*>(Branch&)>& fill) {
  Branch branch;
  branch.block->graph = &b.graph();
  symbolic::ConstraintSet& facts = b.graph().constraints;
  const symbolic::ConstraintSet outside = facts;
  if (condition) facts.assume_true(condition);
  branch.facts = facts;
  try {
    branch.outputs = fill(branch);
  } catch (...) {
    facts = outside;
    throw;
  }
  facts = outside;
  return branch;
}

std::vector<Value*> build_if(Node& n, Builder& b, Value* condition, Expr known, Branch taken, Branch other,
                             size_t first_symbol) {
  STAX_ASSERT(taken.outputs.size() == other.outputs.size());
  BranchMerge merge(n, b, taken, other, first_symbol);
  std::vector<tensor::Type> types;
  for (size_t k = 0; k < taken.outputs.size(); ++k) types.push_back(merge.merge(k));
  taken.block->outputs = taken.outputs;
  other.block->outputs = other.outputs;
  tensor::Op* op = b.op(tensor::If{std::move(taken.block), std::move(other.block)}, {condition}, types, merge.defines);
  op->as<tensor::If>()->then_block->parent = op;
  op->as<tensor::If>()->else_block->parent = op;

  std::vector<Value*> results;
  for (size_t k = 0; k < types.size(); ++k) {
    Value* result = op->result(static_cast<int>(k));
    results.push_back(result);
    const auto& x = taken.outputs[k]->contents;
    const auto& y = other.outputs[k]->contents;
    const auto visible = [&](const std::optional<std::vector<Expr>>& list) {
      return list && std::all_of(list->begin(), list->end(), [&](Expr e) { return is_visible(e, first_symbol); });
    };
    if (!known || !visible(x) || !visible(y) || x->size() != y->size()) continue;
    std::vector<Expr> elements;
    for (size_t i = 0; i < x->size(); ++i) elements.push_back(symbolic::select(known, (*x)[i], (*y)[i]));
    result->contents = std::move(elements);
  }
  return results;
}

}  // namespace stax::frontend
