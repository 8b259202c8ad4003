// SPDX-License-Identifier: Apache-2.0
// Which extents of carried values change from trip to trip is not declared anywhere; it has to be found.
//
// The body is imported on the assumption that carried values keep their extents. Where its outputs' extents are not provably
// those of its inputs, the assumption was wrong: such an extent becomes a symbol that each trip binds anew, and the body
// is imported again, until nothing changes. Each round frees at least one extent, so this ends; a rank that changes makes the value
// one of run-time rank. Where a body cannot be imported on the assumption (an extent that starts at 0 may contradict an
// operator in it), all extents are freed at once, and those that the body then provably keeps are fixed again.
#include "frontend/loops.h"

#include <algorithm>

#include "support/error.h"

namespace stax::frontend {
namespace {

using symbolic::Truth;

/// What is assumed of a carried value at the start of a trip.
struct Carried {
  Value* initial = nullptr;
  std::vector<bool> varies;  // by axis
  bool run_time_rank = false;
  int element_rank = -1;        // of a sequence
  bool empty_at_first = false;  // a sequence to which nothing was added yet
};

class LoopBuilder {
 public:
  LoopBuilder(Node& n, Value* trips, Value* condition, const std::vector<Value*>& initial, const TripFn& trip)
      : n_(n), b_(n.b()), trips_(trips), condition_(condition), trip_(trip) {
    for (Value* v : initial) {
      Carried carried;
      carried.initial = v;
      carried.varies.assign(v->type.extents.size(), false);
      carried.run_time_rank = v->type.is_tensor() && !v->type.has_static_rank();
      carried.element_rank = v->type.element_rank;
      carried.empty_at_first = n.importer().empty_sequences.contains(v->id);
      carried_.push_back(std::move(carried));
    }
  }

  LoopResult build() {
    first_symbol_ = b_.exprs().symbol_count();
    import_optimistically();
    return finish();
  }

 private:
  void import_optimistically() {
    const Diagnostics before = n_.importer().diagnostics();
    try {
      while (import_trip() && free_what_changes()) {
      }
      return;
    } catch (const FaultReported&) {
      if (!free_everything()) throw;
    } catch (const UserError&) {
      if (!free_everything()) throw;
    }
    n_.importer().diagnostics() = before;
    while (import_trip() && free_what_changes()) {
    }
    if (fix_what_stays()) {
      const std::vector<Carried> freed = freed_;
      try {
        if (import_trip() && !free_what_changes()) return;
      } catch (const FaultReported&) {
      } catch (const UserError&) {
      }
      n_.importer().diagnostics() = before;
      carried_ = freed;
      import_trip();
    }
  }

  Expr varying(const std::string& name) {
    const Expr symbol = b_.new_symbol(name, {0, symbolic::kMaxExtent});
    body_defines_.push_back(symbol);
    return symbol;
  }

  tensor::Type input_type(const Carried& carried) {
    tensor::Type type = carried.initial->type;
    if (!type.is_tensor()) {
      type.element_rank = carried.element_rank;
      return type;
    }
    const std::string name = carried.initial->name;
    if (carried.run_time_rank) {
      type.extents.clear();
      for (int k = 0; k < tensor::kMaxRank; ++k)
        type.extents.push_back(varying(name + "[" + std::to_string(k - tensor::kMaxRank) + "]"));
      type.rank = b_.new_symbol(name + ".rank", {0, tensor::kMaxRank});
      body_defines_.push_back(type.rank);
      return type;
    }
    for (size_t k = 0; k < type.extents.size(); ++k) {
      if (carried.varies[k]) type.extents[k] = varying(name + "[" + std::to_string(k) + "]");
    }
    return type;
  }

  bool import_trip() {
    block_ = std::make_unique<tensor::Block>();
    block_->graph = &b_.graph();
    body_defines_.clear();
    Value* iteration = b_.graph().add_input(*block_, tensor::Type::tensor(DType::kI64, {}), "iteration");
    inputs_.clear();
    for (const Carried& carried : carried_) {
      inputs_.push_back(b_.graph().add_input(*block_, input_type(carried), ""));
      if (carried.empty_at_first) n_.importer().empty_sequences.insert(inputs_.back()->id);
    }
    Builder inner(b_.graph(), *block_);
    inner.source = b_.source;
    const symbolic::ConstraintSet outside = b_.graph().constraints;
    result_ = trip_(inner, iteration, inputs_);
    b_.graph().constraints = outside;
    STAX_ASSERT(result_.carried.size() == carried_.size());
    return true;
  }

  /// Frees what the last trip did not keep; false if nothing had to be freed.
  bool free_what_changes() {
    bool changed = false;
    for (size_t k = 0; k < carried_.size(); ++k) {
      Carried& carried = carried_[k];
      const tensor::Type& in = inputs_[k]->type;
      const tensor::Type& out = result_.carried[k]->type;
      if (in.dtype != out.dtype || in.kind != out.kind)
        n_.fault("its body makes another type of the carried value '" + carried.initial->name + "'");
      if (!in.is_tensor()) {
        const bool still_empty = n_.importer().empty_sequences.contains(result_.carried[k]->id);
        if (carried.empty_at_first && !still_empty) {
          carried.empty_at_first = false;
          carried.element_rank = out.element_rank;
          changed = true;
        } else if (!carried.empty_at_first && carried.element_rank != -1 && out.element_rank != carried.element_rank &&
                   !still_empty) {
          carried.element_rank = -1;
          changed = true;
        }
        continue;
      }
      if (carried.run_time_rank) continue;
      if (!out.has_static_rank() || out.static_rank() != in.static_rank()) {
        carried.run_time_rank = true;
        changed = true;
        continue;
      }
      for (size_t axis = 0; axis < in.extents.size(); ++axis) {
        if (carried.varies[axis] || result_.facts.equal(in.extents[axis], out.extents[axis]) == Truth::kYes) continue;
        carried.varies[axis] = true;
        changed = true;
      }
    }
    return changed;
  }

  bool free_everything() {
    bool changed = false;
    for (Carried& carried : carried_) {
      for (size_t axis = 0; axis < carried.varies.size(); ++axis) {
        changed |= !carried.varies[axis];
        carried.varies[axis] = true;
      }
    }
    return changed;
  }

  /// Extents that the last trip, which knows nothing of them, has kept; they are what they are at the start.
  bool fix_what_stays() {
    freed_ = carried_;
    bool changed = false;
    for (size_t k = 0; k < carried_.size(); ++k) {
      if (!inputs_[k]->type.is_tensor() || carried_[k].run_time_rank) continue;
      for (size_t axis = 0; axis < carried_[k].varies.size(); ++axis) {
        const Expr in = inputs_[k]->type.extents[axis], out = result_.carried[k]->type.extents[axis];
        if (!carried_[k].varies[axis] || result_.facts.equal(in, out) != Truth::kYes) continue;
        carried_[k].varies[axis] = false;
        changed = true;
      }
    }
    return changed;
  }

  Expr defined(const std::string& name, symbolic::Interval range) {
    const Expr symbol = b_.new_symbol(name, range);
    defines_.push_back(symbol);
    return symbol;
  }

  bool is_true(const Value* v) const {
    return !v || (v->contents && v->contents->size() == 1 && v->contents->front().is_constant() &&
                  !v->contents->front().is_constant(0));
  }

  LoopResult finish() {
    tensor::Loop loop;
    loop.has_trip_count = trips_ != nullptr;
    loop.has_condition = !is_true(condition_) || !is_true(result_.condition);
    loop.carried = static_cast<int>(carried_.size());
    if (!loop.has_trip_count && !loop.has_condition)
      n_.fault("it has neither a trip count nor a condition: it would never end");

    Builder inner(b_.graph(), *block_);
    inner.source = b_.source;
    std::vector<Value*> operands;
    if (trips_) operands.push_back(trips_);
    if (loop.has_condition) {
      operands.push_back(condition_ ? condition_ : b_.constant(DType::kBool, 1));
      block_->outputs.push_back(result_.condition ? result_.condition : inner.constant(DType::kBool, 1));
    }
    const std::string name = n_.output_name(0);
    std::vector<tensor::Type> types;
    for (size_t k = 0; k < carried_.size(); ++k) {
      const Carried& carried = carried_[k];
      tensor::Type type = carried.initial->type;
      Value* out = result_.carried[k];
      Value* initial = carried.initial;
      if (!type.is_tensor()) {
        type.element_rank = carried.element_rank;
      } else if (carried.run_time_rank) {
        out = as_run_time_rank(inner, out);
        initial = as_run_time_rank(b_, initial);
        type.extents.clear();
        for (int axis = 0; axis < tensor::kMaxRank; ++axis)
          type.extents.push_back(
              defined(name + "[" + std::to_string(axis - tensor::kMaxRank) + "]", {0, symbolic::kMaxExtent}));
        type.rank = defined(name + ".rank", {0, tensor::kMaxRank});
      } else {
        for (size_t axis = 0; axis < type.extents.size(); ++axis) {
          if (carried.varies[axis])
            type.extents[axis] = defined(name + "[" + std::to_string(axis) + "]", {0, symbolic::kMaxExtent});
        }
      }
      operands.push_back(initial);
      block_->outputs.push_back(out);
      types.push_back(std::move(type));
    }
    Expr trips_made;
    if (!result_.scanned.empty()) {
      const Expr bound = trips_ ? symbolic::max(b_.host_int(trips_), 0) : Expr();
      const int64_t most = bound ? std::max<int64_t>(b_.graph().constraints.range(bound).hi, 0) : symbolic::kMaxExtent;
      trips_made = loop.has_condition ? defined(name + ".trips", {0, most}) : bound;
    }
    for (Value* scanned : result_.scanned) {
      tensor::Type type = scanned->type;
      if (!type.is_tensor() || !type.has_static_rank())
        n_.unsupported("a stacked output whose rank is known only at run time");
      if (type.static_rank() + 1 > tensor::kMaxRank)
        n_.unsupported("a stacked output of rank " + std::to_string(type.static_rank() + 1));
      for (Expr& extent : type.extents) {
        if (!is_visible(extent, first_symbol_)) extent = defined(name + ".extent", {0, symbolic::kMaxExtent});
      }
      type.extents.insert(type.extents.begin(), trips_made);
      block_->outputs.push_back(scanned);
      types.push_back(std::move(type));
    }
    loop.body = std::move(block_);
    loop.body_defines = body_defines_;
    const size_t results = types.size();
    tensor::Op* op = b_.op(std::move(loop), std::move(operands), std::move(types), defines_);
    op->as<tensor::Loop>()->body->parent = op;
    LoopResult made;
    for (size_t k = 0; k < results; ++k)
      (k < carried_.size() ? made.carried : made.scanned).push_back(op->result(static_cast<int>(k)));
    return made;
  }

  Node& n_;
  Builder& b_;
  Value* trips_;
  Value* condition_;
  const TripFn& trip_;
  std::vector<Carried> carried_, freed_;
  size_t first_symbol_ = 0;
  // Of the last trip:
  std::unique_ptr<tensor::Block> block_;
  std::vector<Value*> inputs_;
  std::vector<Expr> body_defines_, defines_;
  BodyResult result_;
};

}  // namespace

LoopResult build_loop(Node& n, Value* trips, Value* condition, const std::vector<Value*>& initial, const TripFn& trip) {
  return LoopBuilder(n, trips, condition, initial, trip).build();
}

bool is_visible(Expr e, size_t first) {
  for (const Expr symbol : symbolic::free_symbols(e)) {
    if (symbol.symbol().kind != symbolic::SymbolKind::kDim && symbol.node()->value >= static_cast<int64_t>(first))
      return false;
  }
  return true;
}

Value* as_run_time_rank(Builder& b, Value* v) {
  if (!v->type.has_static_rank()) return v;
  tensor::Type type = v->type;
  type.rank = b.constant_expr(v->type.static_rank());
  type.extents.insert(type.extents.begin(), tensor::kMaxRank - v->type.static_rank(), b.constant_expr(1));
  return b.op(tensor::Reshape{}, {v}, {std::move(type)})->result();
}

}  // namespace stax::frontend
