// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan, Identity, and optional values as far as the file decides whether they are there.
#include <algorithm>

#include "frontend/importer.h"
#include "frontend/loops.h"
#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "onnx/onnx-ml.pb.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

const onnx::GraphProto& body_of(Node& n, const char* name) {
  const onnx::GraphProto* body = n.graph(name);
  if (!body) n.fault(std::string("its attribute '") + name + "' is missing");
  return *body;
}

void import_identity(Node& n) { n.output(0, n.any_input(0)); }

// ---- If -------------------------------------------------------------------------------------------------------------

/// What is known of a condition before run time; null if nothing is.
Expr known_condition(Node& n, const Value* condition) {
  if (!condition->contents || condition->contents->size() != 1) return {};
  return n.b().graph().constraints.simplify(condition->contents->front());
}

/// The results of an If from those of its branches.
class BranchMerge {
 public:
  BranchMerge(Node& n, size_t first_symbol, const symbolic::ConstraintSet& then_facts, const symbolic::ConstraintSet& else_facts)
      : n_(n), b_(n.b()), first_symbol_(first_symbol), then_facts_(then_facts), else_facts_(else_facts) {}

  tensor::Type merge(int k, Builder& then_builder, Builder& else_builder, Value*& a, Value*& c) {
    const std::string name = n_.output_name(k);
    if (a->type.kind != c->type.kind || a->type.dtype != c->type.dtype)
      n_.fault("its branches make different types of the output '" + name + "'");
    if (!a->type.is_tensor()) {
      const bool a_is_empty = n_.importer().empty_sequences.contains(a->id), c_is_empty = n_.importer().empty_sequences.contains(c->id);
      const int rank = a_is_empty ? c->type.element_rank : c_is_empty || a->type.element_rank == c->type.element_rank ? a->type.element_rank : -1;
      return tensor::Type::sequence(a->type.dtype, rank);
    }
    const bool same_rank = a->type.has_static_rank() && c->type.has_static_rank() && a->type.static_rank() == c->type.static_rank();
    tensor::Type type = tensor::Type::tensor(a->type.dtype, {});
    if (!same_rank) {
      a = as_run_time_rank(then_builder, a);
      c = as_run_time_rank(else_builder, c);
      type.rank = defined(name + ".rank", {0, tensor::kMaxRank});
    }
    for (size_t axis = 0; axis < a->type.extents.size(); ++axis) {
      type.extents.push_back(merge_extent(a->type.extents[axis], c->type.extents[axis], name + "[" + std::to_string(axis) + "]"));
    }
    return type;
  }

  std::vector<Expr> defines;

 private:
  Expr defined(const std::string& name, symbolic::Interval range) {
    defines.push_back(b_.new_symbol(name, range));
    return defines.back();
  }

  Expr merge_extent(Expr a, Expr c, const std::string& name) {
    for (const Expr candidate : {a, c}) {
      if (!is_visible(candidate, first_symbol_)) continue;
      if (then_facts_.equal(a, candidate) == symbolic::Truth::kYes && else_facts_.equal(c, candidate) == symbolic::Truth::kYes) return candidate;
    }
    const symbolic::Interval x = then_facts_.range(a), y = else_facts_.range(c);
    return defined(name, {std::max<int64_t>(std::min(x.lo, y.lo), 0), std::max(x.hi, y.hi)});
  }

  Node& n_;
  Builder& b_;
  size_t first_symbol_;
  const symbolic::ConstraintSet& then_facts_;
  const symbolic::ConstraintSet& else_facts_;
};

/// One branch, imported on the assumption that its condition holds.
struct Branch {
  std::unique_ptr<tensor::Block> block = std::make_unique<tensor::Block>();
  std::vector<Value*> outputs;
  symbolic::ConstraintSet facts;
};

Branch import_branch(Node& n, const onnx::GraphProto& body, Expr condition) {
  Branch branch;
  branch.block->graph = &n.b().graph();
  symbolic::ConstraintSet& facts = n.b().graph().constraints;
  const symbolic::ConstraintSet outside = facts;
  if (condition) facts.assume_true(condition);
  try {
    branch.outputs = n.importer().import_body(n.frame(), body, *branch.block, {}, &branch.facts);
  } catch (...) {
    facts = outside;
    throw;
  }
  facts = outside;
  return branch;
}

void import_if(Node& n) {
  Builder& b = n.b();
  Value* condition = n.input(0);
  n.require(condition->type.dtype == DType::kBool, 0, "bool");
  const onnx::GraphProto& then_body = body_of(n, "then_branch");
  const onnx::GraphProto& else_body = body_of(n, "else_branch");
  if (then_body.output_size() != else_body.output_size()) n.fault("its branches have different numbers of outputs");

  const Expr known = known_condition(n, condition);
  const symbolic::Truth truth = known ? b.graph().constraints.truth(known) : symbolic::Truth::kUnknown;
  if (truth != symbolic::Truth::kUnknown) {
    const std::vector<Value*> outputs = n.import_body(truth == symbolic::Truth::kYes ? then_body : else_body, b.block(), {});
    for (size_t k = 0; k < outputs.size(); ++k) n.output(static_cast<int>(k), outputs[k]);
    return;
  }

  const size_t first_symbol = b.exprs().symbol_count();
  Branch taken = import_branch(n, then_body, known);
  Branch other = import_branch(n, else_body, known ? symbolic::logical_not(known) : Expr());
  Builder then_builder(b.graph(), *taken.block), else_builder(b.graph(), *other.block);
  then_builder.source = else_builder.source = b.source;
  BranchMerge merge(n, first_symbol, taken.facts, other.facts);
  std::vector<tensor::Type> types;
  for (size_t k = 0; k < taken.outputs.size(); ++k) {
    types.push_back(merge.merge(static_cast<int>(k), then_builder, else_builder, taken.outputs[k], other.outputs[k]));
  }
  taken.block->outputs = taken.outputs;
  other.block->outputs = other.outputs;

  tensor::Op* op = b.op(tensor::If{std::move(taken.block), std::move(other.block)}, {condition}, types, merge.defines);
  op->as<tensor::If>()->then_block->parent = op;
  op->as<tensor::If>()->else_block->parent = op;
  for (size_t k = 0; k < types.size(); ++k) {
    Value* result = op->result(static_cast<int>(k));
    const auto& x = taken.outputs[k]->contents;
    const auto& y = other.outputs[k]->contents;
    const auto visible = [&](const std::optional<std::vector<Expr>>& list) {
      return list && std::all_of(list->begin(), list->end(), [&](Expr e) { return is_visible(e, first_symbol); });
    };
    if (known && visible(x) && visible(y) && x->size() == y->size()) {
      std::vector<Expr> elements;
      for (size_t i = 0; i < x->size(); ++i) elements.push_back(symbolic::select(known, (*x)[i], (*y)[i]));
      result->contents = std::move(elements);
    }
    n.output(static_cast<int>(k), result);
  }
}

// ---- Loop -----------------------------------------------------------------------------------------------------------

/// An operand that has to be one number: as i64 of rank 0.
Value* one_integer(Node& n, Value* v) { return n.b().cast(n.b().reshape(v, {}), DType::kI64); }

void import_loop(Node& n) {
  Builder& b = n.b();
  const onnx::GraphProto& body = body_of(n, "body");
  const int carried = std::max(n.input_count() - 2, 0);
  const int scanned = body.output_size() - 1 - carried;
  if (scanned < 0) n.fault("its body has " + std::to_string(body.output_size()) + " outputs for " + std::to_string(carried) + " carried values");
  Value* trips = n.optional(0);
  if (trips) trips = one_integer(n, trips);
  Value* condition = n.optional(1);
  if (condition) condition = b.cast(b.reshape(condition, {}), DType::kBool);
  std::vector<Value*> initial;
  for (int k = 0; k < carried; ++k) initial.push_back(n.any_input(2 + k));

  const LoopResult loop = build_loop(n, trips, condition, initial, [&](Builder& inner, Value* iteration, std::span<Value* const> state) {
    BodyResult result;
    std::vector<Value*> inputs{iteration, inner.constant(DType::kBool, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const std::vector<Value*> outputs = n.importer().import_body(n.frame(), body, inner.block(), inputs, &result.facts);
    if (!outputs[0]->type.is_tensor() || outputs[0]->type.dtype != DType::kBool) n.fault("the condition that its body makes is no bool");
    result.condition = inner.reshape(outputs[0], {});
    result.carried.assign(outputs.begin() + 1, outputs.begin() + 1 + carried);
    result.scanned.assign(outputs.begin() + 1 + carried, outputs.end());
    return result;
  });
  for (int k = 0; k < carried; ++k) n.output(k, loop.carried[k]);
  for (int k = 0; k < scanned; ++k) n.output(carried + k, loop.scanned[k]);
}

// ---- Scan -----------------------------------------------------------------------------------------------------------

struct ScanAxis {
  int axis = 0;
  bool backward = false;
};

/// Element `at` (an i64 of rank 0) along `axis`, which vanishes.
Value* element_at(Builder& b, Value* v, ScanAxis scan, Value* at) {
  std::vector<Expr> extents = v->type.extents;
  const Expr extent = extents[scan.axis];
  extents.erase(extents.begin() + scan.axis);
  return b.map(extents, [&](Body& body) {
    std::vector<Scalar> indices;
    for (const Expr i : body.i) indices.push_back(body.index(i));
    const Scalar forward = body.load(at);
    indices.insert(indices.begin() + scan.axis, scan.backward ? body.index(extent - 1) - forward : forward);
    return body.load(v, std::move(indices));
  });
}

/// The stacked axis 0 moved to `scan.axis`, turned round if it runs backward.
Value* place_stacked(Builder& b, Value* v, ScanAxis scan) {
  if (scan.axis == 0 && !scan.backward) return v;
  std::vector<Expr> extents(v->type.extents.begin() + 1, v->type.extents.end());
  const Expr trips = v->type.extents[0];
  extents.insert(extents.begin() + scan.axis, trips);
  return b.map(extents, [&](Body& body) {
    std::vector<Expr> indices = body.i;
    const Expr at = indices[scan.axis];
    indices.erase(indices.begin() + scan.axis);
    indices.insert(indices.begin(), scan.backward ? trips - 1 - at : at);
    return body.load(v, indices);
  });
}

int64_t entry(const std::optional<std::vector<int64_t>>& list, int k) { return list && k < static_cast<int>(list->size()) ? (*list)[k] : 0; }

/// One scan over `scanned`, all along their axes: final states, then stacked outputs with the new axis in front.
LoopResult build_scan(Node& n, Builder& b, const onnx::GraphProto& body, const std::vector<Value*>& states, const std::vector<Value*>& scanned,
                      const std::vector<ScanAxis>& axes) {
  const Expr trips = scanned[0]->type.extents[axes[0].axis];
  for (size_t k = 1; k < scanned.size(); ++k)
    check_equal(b, scanned[k]->type.extents[axes[k].axis], trips, "lengths of '" + scanned[k]->name + "' and '" + scanned[0]->name + "'");
  return build_loop(n, b.int_scalar(trips), nullptr, states, [&](Builder& inner, Value* iteration, std::span<Value* const> state) {
    BodyResult result;
    std::vector<Value*> inputs(state.begin(), state.end());
    for (size_t k = 0; k < scanned.size(); ++k) inputs.push_back(element_at(inner, scanned[k], axes[k], iteration));
    const std::vector<Value*> outputs = n.importer().import_body(n.frame(), body, inner.block(), inputs, &result.facts);
    result.carried.assign(outputs.begin(), outputs.begin() + static_cast<int64_t>(states.size()));
    result.scanned.assign(outputs.begin() + static_cast<int64_t>(states.size()), outputs.end());
    return result;
  });
}

struct ScanOperands {
  std::vector<Value*> states, scanned;
};

ScanOperands scan_operands(Node& n, const onnx::GraphProto& body, int first) {
  const int64_t scanned = n.integer("num_scan_inputs", 0);
  const int64_t states = n.input_count() - first - scanned;
  if (scanned < 1 || states < 0 || body.output_size() < states) n.fault("its attribute 'num_scan_inputs' is " + std::to_string(scanned));
  ScanOperands operands;
  for (int k = first; k < n.input_count(); ++k) {
    n.rank(k);
    (k < first + states ? operands.states : operands.scanned).push_back(n.input(k));
  }
  return operands;
}

void import_scan(Node& n) {
  const onnx::GraphProto& body = body_of(n, "body");
  const ScanOperands operands = scan_operands(n, body, 0);
  const auto input_axes = n.integers("scan_input_axes"), input_directions = n.integers("scan_input_directions");
  const auto output_axes = n.integers("scan_output_axes"), output_directions = n.integers("scan_output_directions");
  std::vector<ScanAxis> axes;
  for (size_t k = 0; k < operands.scanned.size(); ++k) {
    const int at = static_cast<int>(k);
    axes.push_back({n.axis(entry(input_axes, at), operands.scanned[k]->type.static_rank()), entry(input_directions, at) != 0});
  }
  const LoopResult loop = build_scan(n, n.b(), body, operands.states, operands.scanned, axes);
  int next = 0;
  for (Value* state : loop.carried) n.output(next++, state);
  for (size_t k = 0; k < loop.scanned.size(); ++k) {
    const int at = static_cast<int>(k), rank = loop.scanned[k]->type.static_rank();
    n.output(next++, place_stacked(n.b(), loop.scanned[k], {n.axis(entry(output_axes, at), rank), entry(output_directions, at) != 0}));
  }
}

/// Opset 8: a scan over axis 1 for each item of a batch, axis 0.
void import_scan_8(Node& n) {
  Builder& b = n.b();
  const onnx::GraphProto& body = body_of(n, "body");
  if (n.has(0)) n.unsupported("lengths of its own for each item of the batch");
  const ScanOperands operands = scan_operands(n, body, 1);
  const auto directions = n.integers("directions");
  const Expr batch = operands.scanned[0]->type.extents.at(0);
  std::vector<ScanAxis> axes;
  for (size_t k = 0; k < operands.scanned.size(); ++k) {
    if (operands.scanned[k]->type.static_rank() < 2) n.fault("its input '" + operands.scanned[k]->name + "' has no axes for batch and time");
    axes.push_back({0, entry(directions, static_cast<int>(k)) != 0});
  }
  const LoopResult items = build_loop(n, b.int_scalar(batch), nullptr, {}, [&](Builder& inner, Value* item, std::span<Value* const>) {
    std::vector<Value*> states, scanned;
    for (Value* v : operands.states) states.push_back(element_at(inner, v, {}, item));
    for (Value* v : operands.scanned) scanned.push_back(element_at(inner, v, {}, item));
    Frame frame;
    frame.outer = &n.frame();
    frame.builder = &inner;
    frame.opsets = n.frame().opsets;
    frame.attributes = n.frame().attributes;
    frame.function = n.frame().function;
    frame.depth = n.frame().depth;
    Node inside(n.importer(), frame, n.proto(), n.opset(), {});
    const LoopResult scan = build_scan(inside, inner, body, states, scanned, axes);
    BodyResult result;
    result.scanned = scan.carried;
    result.scanned.insert(result.scanned.end(), scan.scanned.begin(), scan.scanned.end());
    result.facts = inner.graph().constraints;
    return result;
  });
  for (size_t k = 0; k < items.scanned.size(); ++k) n.output(static_cast<int>(k), items.scanned[k]);
}

// ---- optional values ------------------------------------------------------------------------------------------------
// Whether one is there is decided by the file, so that it is either the value itself or nothing.

bool is_given(const Node& n) { return n.input_count() > 0 && n.has_any(0); }

void import_optional(Node& n) {
  if (is_given(n)) return n.output(0, n.any_input(0));
  n.output_absent(0);
}

void import_optional_has_element(Node& n) { n.output(0, n.b().constant(DType::kBool, is_given(n) ? 1 : 0)); }

void import_optional_get_element(Node& n) { n.output(0, n.any_input(0)); }

constexpr OperatorRow kOperators[] = {
    {"", "Identity", 1, import_identity},
    {"", "If", 1, import_if},
    {"", "Loop", 1, import_loop},
    {"", "Scan", 8, import_scan_8},
    {"", "Scan", 9, import_scan},
    {"", "Optional", 15, import_optional},
    {"", "OptionalHasElement", 15, import_optional_has_element},
    {"", "OptionalGetElement", 15, import_optional_get_element},
};

}  // namespace

std::span<const OperatorRow> control_operators() { return kOperators; }

}  // namespace stax::frontend
