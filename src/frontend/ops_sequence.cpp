// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors. Lists that the graph takes apart as it has put them together, and pieces of a tensor at known
// positions, never become sequences.
#include <algorithm>

#include "frontend/importer.h"
#include "frontend/loops.h"
#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "onnx/onnx-ml.pb.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

/// The rank of a sequence's elements after `v` joins them.
int joined_rank(Node& n, const Value* sequence, const Value* v) {
  const int rank = v->type.has_static_rank() ? v->type.static_rank() : -1;
  if (n.importer().empty_sequences.contains(sequence->id)) return rank;
  return sequence->type.element_rank == rank ? rank : -1;
}

Value* position_operand(Node& n, int k) {
  n.require(ir::is_integer(n.dtype(k)), k, "an integer");
  return n.b().cast(n.b().reshape(n.input(k), {}), DType::kI64);
}

/// The tensors of a sequence that one op has put together; null for any other.
const std::vector<Value*>* listed(const Value* sequence) {
  const tensor::Op* op = sequence->producer;
  return op && op->as<tensor::SequenceConstruct>() ? &op->operands : nullptr;
}

/// A tensor that an op takes out of a sequence: its extents are bound when the op has run.
Value* taken_out(Node& n, tensor::Payload payload, std::vector<Value*> operands, DType t, int rank) {
  Builder& b = n.b();
  const std::string name = n.output_name(0);
  std::vector<Expr> defines;
  const auto defined = [&](const std::string& what, int64_t hi) {
    defines.push_back(b.new_symbol(name + what, {0, hi}));
    return defines.back();
  };
  tensor::Type type = tensor::Type::tensor(t, {});
  const int count = rank < 0 ? tensor::kMaxRank : rank;
  for (int k = 0; k < count; ++k)
    type.extents.push_back(defined("[" + std::to_string(rank < 0 ? k - count : k) + "]", symbolic::kMaxExtent));
  if (rank < 0) type.rank = defined(".rank", tensor::kMaxRank);
  return b.op(std::move(payload), std::move(operands), {std::move(type)}, std::move(defines))->result();
}

Value* make_sequence(Node& n, tensor::Payload payload, std::vector<Value*> operands, DType t, int rank) {
  return n.b().op(std::move(payload), std::move(operands), {tensor::Type::sequence(t, rank)})->result();
}

void import_sequence_construct(Node& n) {
  std::vector<Value*> parts;
  int rank = -1;
  for (int k = 0; k < n.input_count(); ++k) {
    n.same_dtype(0, k);
    parts.push_back(n.input(k));
    const int own = parts[k]->type.has_static_rank() ? parts[k]->type.static_rank() : -1;
    rank = k == 0 || rank == own ? own : -1;
  }
  if (parts.empty()) n.fault("it has no inputs");
  n.output(0, make_sequence(n, tensor::SequenceConstruct{}, parts, n.dtype(), rank));
}

void import_sequence_empty(Node& n) {
  Value* empty = make_sequence(n, tensor::SequenceConstruct{}, {}, n.dtype_attribute("dtype", DType::kF32), -1);
  n.importer().empty_sequences.insert(empty->id);
  n.output(0, empty);
}

void import_sequence_length(Node& n) {
  Builder& b = n.b();
  Value* sequence = n.sequence(0);
  if (const auto* parts = listed(sequence))
    return n.output(0, b.int_scalar(b.constant_expr(static_cast<int64_t>(parts->size()))));
  n.output(0, b.op(tensor::SequenceLength{}, {sequence}, {tensor::Type::tensor(DType::kI64, {})})->result());
}

void import_sequence_insert(Node& n) {
  Value* sequence = n.sequence(0);
  Value* v = n.input(1);
  if (sequence->type.dtype != v->type.dtype) n.fault("its sequence and its tensor differ in type");
  std::vector<Value*> operands{sequence, v};
  if (n.has(2)) operands.push_back(position_operand(n, 2));
  const int rank = joined_rank(n, sequence, v);
  if (const auto* parts = listed(sequence); parts && !n.has(2)) {
    std::vector<Value*> all = *parts;
    all.push_back(v);
    return n.output(0, make_sequence(n, tensor::SequenceConstruct{}, std::move(all), v->type.dtype, rank));
  }
  n.output(0, make_sequence(n, tensor::SequenceInsert{}, std::move(operands), v->type.dtype, rank));
}

void import_sequence_erase(Node& n) {
  Value* sequence = n.sequence(0);
  std::vector<Value*> operands{sequence};
  if (n.has(1)) operands.push_back(position_operand(n, 1));
  n.output(0, make_sequence(n, tensor::SequenceErase{}, std::move(operands), sequence->type.dtype,
                            sequence->type.element_rank));
}

/// Piece number `at` of a tensor that SplitToSequence cuts, where start and size follow from its operands.
Value* piece_of_split(Node& n, const tensor::Op& op, int64_t at) {
  Builder& b = n.b();
  const auto* split = op.as<tensor::SplitToSequence>();
  if (!split || at < 0) return nullptr;
  Value* x = op.operands[0];
  const Expr extent = x->type.extents[split->axis];
  Expr start = b.constant_expr(at), size = one_of(b);
  if (op.operands.size() > 1) {
    Value* sizes = op.operands[1];
    if (!sizes->contents) return nullptr;
    if (sizes->type.static_rank() == 0) {
      start = sizes->contents->front() * at;
      size = symbolic::min(sizes->contents->front(), extent - start);
    } else {
      if (at >= static_cast<int64_t>(sizes->contents->size())) return nullptr;
      start = zero_of(b);
      for (int64_t k = 0; k < at; ++k) start = start + (*sizes->contents)[k];
      size = (*sizes->contents)[at];
    }
  }
  // An empty piece at the end is one only if its size was asked for.
  const bool listed_sizes = op.operands.size() > 1 && op.operands[1]->type.static_rank() == 1;
  b.check(symbolic::less_equal(start + (listed_sizes ? size : one_of(b)), extent),
          "piece " + std::to_string(at) + " of '" + x->name + "', whose axis has extent {0}", {extent});
  Value* piece = b.slice(x, split->axis, start, size, one_of(b));
  if (split->keep_dims) return piece;
  std::vector<Expr> extents = piece->type.extents;
  extents.erase(extents.begin() + split->axis);
  return b.reshape(piece, extents);
}

void import_sequence_at(Node& n) {
  Value* sequence = n.sequence(0);
  Value* position = position_operand(n, 1);
  if (position->contents && position->contents->front().is_constant() && sequence->producer) {
    int64_t at = position->contents->front().constant();
    if (const auto* parts = listed(sequence)) {
      const int64_t count = static_cast<int64_t>(parts->size());
      at = at < 0 ? at + count : at;
      if (at < 0 || at >= count)
        n.fault("position " + std::to_string(at) + " of a sequence of " + std::to_string(count));
      return n.output(0, (*parts)[at]);
    }
    if (Value* piece = piece_of_split(n, *sequence->producer, at)) return n.output(0, piece);
  }
  n.output(0,
           taken_out(n, tensor::SequenceAt{}, {sequence, position}, sequence->type.dtype, sequence->type.element_rank));
}

void import_split_to_sequence(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  tensor::SplitToSequence split;
  split.axis = n.axis(n.integer("axis", 0), n.rank(0));
  split.keep_dims = n.integer("keepdims", 1) != 0 || n.has(1);
  std::vector<Value*> operands{x};
  if (n.has(1)) {
    n.require_ints(n.input(1));
    operands.push_back(b.cast(n.input(1), DType::kI64));
  }
  const int rank = n.rank(0) - (split.keep_dims ? 0 : 1);
  n.output(0, make_sequence(n, split, std::move(operands), x->type.dtype, rank));
}

void import_concat_from_sequence(Node& n) {
  Builder& b = n.b();
  Value* sequence = n.sequence(0);
  const int rank = sequence->type.element_rank;
  const bool new_axis = n.integer("new_axis", 0) != 0;
  const std::optional<int64_t> attribute = n.integer("axis");
  if (!attribute) n.fault("its attribute 'axis' is missing");
  const int result_rank = rank < 0 ? -1 : rank + (new_axis ? 1 : 0);
  if (result_rank > tensor::kMaxRank) n.unsupported("a result of rank " + std::to_string(result_rank));
  const int axis = result_rank < 0 ? static_cast<int>(*attribute) : n.axis(*attribute, result_rank);
  const auto* parts = listed(sequence);
  if (parts && !parts->empty() && rank >= 0) {
    std::vector<Value*> values = *parts;
    for (Value*& v : values) {
      if (!new_axis) continue;
      std::vector<Expr> extents = v->type.extents;
      extents.insert(extents.begin() + axis, one_of(b));
      v = b.reshape(v, extents);
    }
    return n.output(0, b.concat(values, axis));
  }
  n.output(0, taken_out(n, tensor::ConcatFromSequence{axis, new_axis}, {sequence}, sequence->type.dtype, result_rank));
}

/// The body once for each element of the first sequence; other sequences go along, tensors stay.
void import_sequence_map(Node& n) {
  Builder& b = n.b();
  const onnx::GraphProto* body = n.graph("body");
  if (!body) n.fault("its attribute 'body' is missing");
  Value* first = n.sequence(0);
  Value* length = b.op(tensor::SequenceLength{}, {first}, {tensor::Type::tensor(DType::kI64, {})})->result();
  // Of the results only the body knows the types: they are found by a first import, which is thrown away.
  const auto map_one = [&](Builder& inner, Value* at, symbolic::ConstraintSet* facts) {
    std::vector<Value*> inputs;
    for (int k = 0; k < n.input_count(); ++k) {
      Value* v = n.any_input(k);
      if (v->type.is_tensor()) {
        inputs.push_back(v);
        continue;
      }
      std::vector<Expr> defines;
      tensor::Type type = tensor::Type::tensor(v->type.dtype, {});
      const int rank = v->type.element_rank;
      for (int axis = 0; axis < (rank < 0 ? tensor::kMaxRank : rank); ++axis) {
        defines.push_back(b.new_symbol(v->name + ".element[" + std::to_string(axis) + "]", {0, symbolic::kMaxExtent}));
        type.extents.push_back(defines.back());
      }
      if (rank < 0) {
        type.rank = b.new_symbol(v->name + ".element.rank", {0, tensor::kMaxRank});
        defines.push_back(type.rank);
      }
      inputs.push_back(inner.op(tensor::SequenceAt{}, {v, at}, {type}, defines)->result());
    }
    return n.importer().import_body(n.frame(), *body, inner.block(), inputs, facts);
  };
  std::vector<Value*> initial;
  {
    tensor::Block scratch;
    scratch.graph = &b.graph();
    Value* at = b.graph().add_input(scratch, tensor::Type::tensor(DType::kI64, {}), "iteration");
    Builder inner(b.graph(), scratch);
    inner.source = b.source;
    for (const Value* made : map_one(inner, at, nullptr)) {
      initial.push_back(make_sequence(n, tensor::SequenceConstruct{}, {}, made->type.dtype, -1));
      n.importer().empty_sequences.insert(initial.back()->id);
    }
  }
  const LoopResult loop =
      build_loop(n, length, nullptr, initial, [&](Builder& inner, Value* iteration, std::span<Value* const> state) {
        BodyResult result;
        const std::vector<Value*> made = map_one(inner, iteration, &result.facts);
        for (size_t k = 0; k < made.size(); ++k) {
          const tensor::Type type = tensor::Type::sequence(made[k]->type.dtype, joined_rank(n, state[k], made[k]));
          result.carried.push_back(inner.op(tensor::SequenceInsert{}, {state[k], made[k]}, {type})->result());
        }
        return result;
      });
  for (size_t k = 0; k < loop.carried.size(); ++k) n.output(static_cast<int>(k), loop.carried[k]);
}

constexpr OperatorRow kOperators[] = {
    {"", "SequenceConstruct", 11, import_sequence_construct},
    {"", "SequenceEmpty", 11, import_sequence_empty},
    {"", "SequenceLength", 11, import_sequence_length},
    {"", "SequenceInsert", 11, import_sequence_insert},
    {"", "SequenceErase", 11, import_sequence_erase},
    {"", "SequenceAt", 11, import_sequence_at},
    {"", "SequenceMap", 17, import_sequence_map},
    {"", "SplitToSequence", 11, import_split_to_sequence},
    {"", "ConcatFromSequence", 11, import_concat_from_sequence},
};

}  // namespace

std::span<const OperatorRow> sequence_operators() { return kOperators; }

}  // namespace stax::frontend
