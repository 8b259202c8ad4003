// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan, Identity, and optional values as far as the file decides whether they are there.
#include <algorithm>

#include "frontend/branches.h"
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

Branch import_branch(Node& n, const onnx::GraphProto& body, Expr condition) {
  return make_branch(n.b(), condition, [&](Branch& branch) {
    return n.importer().import_body(n.frame(), body, *branch.block, {}, &branch.facts);
  });
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
    const std::vector<Value*> outputs =
        n.import_body(truth == symbolic::Truth::kYes ? then_body : else_body, b.block(), {});
    for (size_t k = 0; k < outputs.size(); ++k) n.output(static_cast<int>(k), outputs[k]);
    return;
  }

  const size_t first_symbol = b.exprs().symbol_count();
  Branch taken = import_branch(n, then_body, known);
  Branch other = import_branch(n, else_body, known ? symbolic::logical_not(known) : Expr());
  const std::vector<Value*> results =
      build_if(n, b, condition, known, std::move(taken), std::move(other), first_symbol);
  for (size_t k = 0; k < results.size(); ++k) n.output(static_cast<int>(k), results[k]);
}

// ---- Loop -----------------------------------------------------------------------------------------------------------

/// An operand that has to be one number: as i64 of rank 0.
Value* one_integer(Node& n, Value* v) { return n.b().cast(n.b().reshape(v, {}), DType::kI64); }

void import_loop(Node& n) {
  Builder& b = n.b();
  const onnx::GraphProto& body = body_of(n, "body");
  const int carried = std::max(n.input_count() - 2, 0);
  const int scanned = body.output_size() - 1 - carried;
  if (scanned < 0)
    n.fault("its body has " + std::to_string(body.output_size()) + " outputs for " + std::to_string(carried) +
            " carried values");
  Value* trips = n.optional(0);
  if (trips) trips = one_integer(n, trips);
  Value* condition = n.optional(1);
  if (condition) condition = b.cast(b.reshape(condition, {}), DType::kBool);
  std::vector<Value*> initial;
  for (int k = 0; k < carried; ++k) initial.push_back(n.any_input(2 + k));

  const LoopResult loop =
      build_loop(n, trips, condition, initial, [&](Builder& inner, Value* iteration, std::span<Value* const> state) {
        BodyResult result;
        std::vector<Value*> inputs{iteration, inner.constant(DType::kBool, 1)};
        inputs.insert(inputs.end(), state.begin(), state.end());
        const std::vector<Value*> outputs =
            n.importer().import_body(n.frame(), body, inner.block(), inputs, &result.facts);
        if (!outputs[0]->type.is_tensor() || outputs[0]->type.dtype != DType::kBool)
          n.fault("the condition that its body makes is no bool");
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

int64_t entry(const std::optional<std::vector<int64_t>>& list, int k) {
  return list && k < static_cast<int>(list->size()) ? (*list)[k] : 0;
}

/// One scan over `scanned`, all along their axes: final states, then stacked outputs with the new axis in front.
LoopResult build_scan(Node& n, Builder& b, const onnx::GraphProto& body, const std::vector<Value*>& states,
                      const std::vector<Value*>& scanned, const std::vector<ScanAxis>& axes) {
  const Expr trips = scanned[0]->type.extents[axes[0].axis];
  for (size_t k = 1; k < scanned.size(); ++k)
    check_equal(b, scanned[k]->type.extents[axes[k].axis], trips,
                "lengths of '" + scanned[k]->name + "' and '" + scanned[0]->name + "'");
  return build_loop(n, b.int_scalar(trips), nullptr, states,
                    [&](Builder& inner, Value* iteration, std::span<Value* const> state) {
                      BodyResult result;
                      std::vector<Value*> inputs(state.begin(), state.end());
                      for (size_t k = 0; k < scanned.size(); ++k)
                        inputs.push_back(element_at(inner, scanned[k], axes[k], iteration));
                      const std::vector<Value*> outputs =
                          n.importer().import_body(n.frame(), body, inner.block(), inputs, &result.facts);
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
  if (scanned < 1 || states < 0 || body.output_size() < states)
    n.fault("its attribute 'num_scan_inputs' is " + std::to_string(scanned));
  ScanOperands operands;
  for (int k = first; k < n.input_count(); ++k) {
    if (n.rank(k) == 0 && k >= first + states)
      n.fault("its input '" + n.input(k)->name + "' is a scalar, which has no axis to scan");
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
    axes.push_back(
        {n.axis(entry(input_axes, at), operands.scanned[k]->type.static_rank()), entry(input_directions, at) != 0});
  }
  const LoopResult loop = build_scan(n, n.b(), body, operands.states, operands.scanned, axes);
  int next = 0;
  for (Value* state : loop.carried) n.output(next++, state);
  for (size_t k = 0; k < loop.scanned.size(); ++k) {
    const int at = static_cast<int>(k), rank = loop.scanned[k]->type.static_rank();
    n.output(next++, place_stacked(n.b(), loop.scanned[k],
                                   {n.axis(entry(output_axes, at), rank), entry(output_directions, at) != 0}));
  }
}

/// Opset 8: a scan over axis 1 for each item of a batch, axis 0.
void import_scan_8(Node& n) {
  Builder& b = n.b();
  const onnx::GraphProto& body = body_of(n, "body");
  if (n.has(0)) n.unsupported("lengths of its own for each item of the batch");
  const ScanOperands operands = scan_operands(n, body, 1);
  for (int k = 1; k < n.input_count(); ++k)
    need_rank(n, k, k - 1 < static_cast<int>(operands.states.size()) ? 1 : 2);  // the batch, and what is scanned
  const auto directions = n.integers("directions");
  const Expr batch = operands.scanned[0]->type.extents.at(0);
  std::vector<ScanAxis> axes;
  for (size_t k = 0; k < operands.scanned.size(); ++k) {
    if (operands.scanned[k]->type.static_rank() < 2)
      n.fault("its input '" + operands.scanned[k]->name + "' has no axes for batch and time");
    axes.push_back({0, entry(directions, static_cast<int>(k)) != 0});
  }
  const LoopResult items =
      build_loop(n, b.int_scalar(batch), nullptr, {}, [&](Builder& inner, Value* item, std::span<Value* const>) {
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
