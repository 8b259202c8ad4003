// SPDX-License-Identifier: Apache-2.0
#include "frontend/node_context.h"

#include <algorithm>
#include <limits>

#include "frontend/importer.h"
#include "frontend/tensors.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

constexpr int kMaxNamedInputs = 6;

const char* kind_of(int type) {
  switch (type) {
    case onnx::AttributeProto::INT: return "an integer";
    case onnx::AttributeProto::INTS: return "integers";
    case onnx::AttributeProto::FLOAT: return "a float";
    case onnx::AttributeProto::FLOATS: return "floats";
    case onnx::AttributeProto::STRING: return "a text";
    case onnx::AttributeProto::STRINGS: return "texts";
    case onnx::AttributeProto::TENSOR: return "a tensor";
    case onnx::AttributeProto::SPARSE_TENSOR: return "a sparse tensor";
    case onnx::AttributeProto::GRAPH: return "a graph";
    default: return "something else";
  }
}

/// The kind of an attribute; files older than IR version 3 may leave it out.
int type_of(const onnx::AttributeProto& attribute) {
  if (attribute.type() != onnx::AttributeProto::UNDEFINED) return attribute.type();
  if (attribute.has_f()) return onnx::AttributeProto::FLOAT;
  if (attribute.has_i()) return onnx::AttributeProto::INT;
  if (attribute.has_s()) return onnx::AttributeProto::STRING;
  if (attribute.has_t()) return onnx::AttributeProto::TENSOR;
  if (attribute.has_g()) return onnx::AttributeProto::GRAPH;
  if (attribute.floats_size() > 0) return onnx::AttributeProto::FLOATS;
  if (attribute.ints_size() > 0) return onnx::AttributeProto::INTS;
  if (attribute.strings_size() > 0) return onnx::AttributeProto::STRINGS;
  return onnx::AttributeProto::UNDEFINED;
}

}  // namespace

std::string describe_node(const Frame& frame, const onnx::NodeProto& proto) {
  std::string text = operator_name(proto.domain(), proto.op_type()) + " node";
  if (!proto.name().empty()) text += " '" + proto.name() + "'";
  if (!frame.function.empty()) text += " of function " + frame.function;
  int named = 0;
  std::string inputs;
  for (const std::string& name : proto.input()) {
    if (name.empty()) continue;
    if (named++ == kMaxNamedInputs) {
      inputs += ", ...";
      break;
    }
    inputs += (inputs.empty() ? "" : ", ") + name;
  }
  if (named > 0) text += (named == 1 ? " (input " : " (inputs ") + inputs + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Node::Node(Importer& importer, Frame& frame, const onnx::NodeProto& proto, int opset, std::vector<Value*> inputs)
    : importer_(importer), frame_(frame), proto_(proto), opset_(opset), inputs_(std::move(inputs)) {}

Builder& Node::b() { return *frame_.builder; }

// ---- inputs and outputs -------------------------------------------------------------------------------------------

Value* Node::any_input(int k) const {
  Value* value = k < input_count() ? inputs_[k] : nullptr;
  if (!value) fault("its input number " + std::to_string(k + 1) + " is missing");
  return value;
}

Value* Node::input(int k) const {
  Value* value = any_input(k);
  if (!value->type.is_tensor()) fault("its input '" + value->name + "' is a sequence, not a tensor");
  return value;
}

Value* Node::sequence(int k) const {
  Value* value = any_input(k);
  if (value->type.is_tensor()) fault("its input '" + value->name + "' is a tensor, not a sequence");
  return value;
}

Value* Node::optional(int k) const { return k < input_count() && inputs_[k] ? input(k) : nullptr; }

int Node::rank(int k) const {
  const tensor::Type& type = input(k)->type;
  if (!type.has_static_rank()) unsupported("its input '" + input(k)->name + "', whose rank is known only at run time");
  return type.static_rank();
}

Expr Node::extent(int k, int axis) const {
  const int r = rank(k);
  return input(k)->type.extents[this->axis(axis, r)];
}

Value* Node::input_of_rank(int k, int rank) {
  Value* value = input(k);
  if (value->type.has_static_rank() && value->type.static_rank() != rank) {
    fault("its input '" + value->name + "' has rank " + std::to_string(value->type.static_rank()) + ", not " +
          std::to_string(rank));
  }
  return of_rank(b(), value, rank);
}

void Node::same_dtype(int first, int second) const {
  const DType a = dtype(first), other = dtype(second);
  if (a == other) return;
  fault("its inputs '" + input(first)->name + "' and '" + input(second)->name +
        "' differ in type: " + std::string(long_name_of(a)) + " and " + std::string(long_name_of(other)));
}

void Node::require(bool holds, int k, const char* what) const {
  if (!holds)
    fault("its input '" + input(k)->name + "' is of type " + std::string(long_name_of(dtype(k))) + ", not " + what);
}

int Node::output_count() const {
  int count = proto_.output_size();
  while (count > 0 && proto_.output(count - 1).empty()) --count;
  return count;
}

bool Node::wants(int k) const { return k < proto_.output_size() && !proto_.output(k).empty(); }

int Node::proto_output_count() const { return proto_.output_size(); }

std::string Node::output_name(int k) const { return wants(k) ? proto_.output(k) : proto_.op_type(); }

void Node::output(int k, Value* v) {
  if (static_cast<int>(outputs_.size()) <= k) outputs_.resize(k + 1, nullptr);
  outputs_[k] = v;
}

void Node::output_absent(int k) { absent_outputs_.insert(k); }

// ---- attributes ---------------------------------------------------------------------------------------------------

const onnx::AttributeProto* Node::attribute(const char* name, int type) const {
  const onnx::AttributeProto* found = find_attribute(frame_, proto_, name);
  if (!found) return nullptr;
  const int have = type_of(*found);
  // An empty list has no kind of its own where the kind is left out.
  if (have != type && have != onnx::AttributeProto::UNDEFINED)
    fault(std::string("its attribute '") + name + "' is " + kind_of(have) + ", not " + kind_of(type));
  return found;
}

bool Node::has_attribute(const char* name) const { return find_attribute(frame_, proto_, name) != nullptr; }

std::optional<int64_t> Node::integer(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::INT);
  return found ? std::optional<int64_t>(found->i()) : std::nullopt;
}

int64_t Node::integer(const char* name, int64_t fallback) const { return integer(name).value_or(fallback); }

double Node::real(const char* name, double fallback) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::FLOAT);
  return found ? static_cast<double>(found->f()) : fallback;
}

std::string Node::text(const char* name, const std::string& fallback) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::STRING);
  return found ? found->s() : fallback;
}

std::optional<std::vector<int64_t>> Node::integers(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::INTS);
  if (!found) return std::nullopt;
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<std::vector<double>> Node::reals(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::FLOATS);
  if (!found) return std::nullopt;
  return std::vector<double>(found->floats().begin(), found->floats().end());
}

std::optional<Literal> Node::tensor(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::TENSOR);
  if (!found) return std::nullopt;
  return literal_of(found->t(), importer_.external());
}

std::vector<std::string> Node::texts(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::STRINGS);
  if (!found) return {};
  return {found->strings().begin(), found->strings().end()};
}

const onnx::GraphProto* Node::graph(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::GRAPH);
  return found ? &found->g() : nullptr;
}

const onnx::SparseTensorProto* Node::sparse_tensor(const char* name) const {
  const onnx::AttributeProto* found = attribute(name, onnx::AttributeProto::SPARSE_TENSOR);
  return found ? &found->sparse_tensor() : nullptr;
}

DType Node::dtype_attribute(const char* name, DType fallback) const {
  const std::optional<int64_t> number = integer(name);
  if (!number) return fallback;
  const bool valid = *number > 0 && *number <= std::numeric_limits<int>::max();
  const std::optional<DType> dtype = valid ? dtype_of_onnx(static_cast<int>(*number)) : std::nullopt;
  if (!dtype)
    unsupported("elements of type " +
                (valid ? onnx_type_name(static_cast<int>(*number)) : "number " + std::to_string(*number)));
  return *dtype;
}

// ---- integers that are attributes or values -----------------------------------------------------------------------

std::optional<std::vector<Expr>> Node::ints_from(const char* attribute, int k) const {
  Builder& builder = *frame_.builder;
  if (const auto values = integers(attribute)) {
    std::vector<Expr> exprs;
    for (const int64_t value : *values) exprs.push_back(builder.constant_expr(value));
    return exprs;
  }
  Value* value = k >= 0 ? optional(k) : nullptr;
  if (!value) return std::nullopt;
  require_ints(value);
  for (const Expr extent : value->type.extents) {
    if (!extent.is_constant())
      unsupported("its input '" + value->name + "', of which not even the number of elements is known before run time");
  }
  return builder.host_ints(value);
}

void Node::require_ints(const Value* v) const {
  if (!v->type.is_tensor() || !v->type.has_static_rank() || v->type.static_rank() > 1)
    fault("its input '" + v->name + "' has to be a list of integers");
  if (v->type.dtype != DType::kI64 && v->type.dtype != DType::kI32)
    fault("its input '" + v->name + "' is of type " + std::string(long_name_of(v->type.dtype)) + ", not int64");
}

Expr Node::element_count(Value* v) {
  require_ints(v);
  return v->type.static_rank() == 0 ? b().constant_expr(1) : v->type.extents[0];
}

std::vector<Expr> Node::padded_ints(Value* v, int count, int64_t fill, symbolic::Interval range) {
  const Expr have = element_count(v);
  const Expr want = b().constant_expr(count);
  const std::string message =
      "its input '" + v->name + "' has {0} elements, at most " + std::to_string(count) + " make sense";
  b().check(symbolic::less_equal(have, want), message, {have});
  if (have.is_constant()) {
    std::vector<Expr> values = b().host_ints(v, range);
    values.resize(count, b().constant_expr(fill));
    return values;
  }
  Value* padded = b().map({want}, [&](tensor::Body& body) {
    const Scalar exists = ir::less(body.index(body.i[0]), body.index(have));
    return ir::select(exists, ir::cast(DType::kI64, body.load(v, std::vector<Expr>{body.i[0]})),
                      body.integer(DType::kI64, fill));
  });
  padded->name = v->name;
  return b().host_ints(padded, range);
}

std::vector<Expr> Node::exact_ints(Value* v, int count, symbolic::Interval range) {
  const Expr have = element_count(v);
  b().check(symbolic::equal(have, count), "its input '" + v->name + "' has {0} elements, not " + std::to_string(count),
            {have});
  if (have.is_constant()) return b().host_ints(v, range);
  Value* elements = b().map({b().constant_expr(count)}, [&](tensor::Body& body) {
    return ir::cast(DType::kI64, body.load(v, std::vector<Expr>{body.i[0]}));
  });
  elements->name = v->name;
  return b().host_ints(elements, range);
}

std::optional<std::vector<Expr>> Node::axes_from(const char* attribute, int k, Expr rank) {
  std::vector<Expr> axes;
  if (const auto values = integers(attribute)) {
    for (const int64_t value : *values) axes.push_back(b().constant_expr(value));
  } else if (Value* value = k >= 0 ? optional(k) : nullptr) {
    const Expr count = element_count(value);
    if (count.is_constant() && count.constant() > tensor::kMaxRank)
      fault("its input '" + value->name + "' has " + count.str() + " elements");
    axes = padded_ints(value, count.is_constant() ? static_cast<int>(count.constant()) : tensor::kMaxRank, kNoAxis);
  } else {
    return std::nullopt;
  }
  for (const Expr axis : axes) {
    const Expr inside = symbolic::logical_and(symbolic::less_equal(-rank, axis), symbolic::less(axis, rank));
    b().check(symbolic::logical_or(inside, symbolic::equal(axis, kNoAxis)), "axis {0} of a tensor of rank {1}",
              {axis, rank});
  }
  return axes;
}

int Node::axis(int64_t a, int rank) const {
  if (a < -rank || a >= rank) fault("axis " + std::to_string(a) + " of a tensor of rank " + std::to_string(rank));
  return static_cast<int>(a < 0 ? a + rank : a);
}

// ---- bodies, messages ---------------------------------------------------------------------------------------------

std::vector<Value*> Node::import_body(const onnx::GraphProto& body, tensor::Block& block,
                                      std::span<Value* const> inputs) {
  return importer_.import_body(frame_, body, block, inputs);
}

void Node::unsupported(const std::string& what) const { throw UnsupportedError(where() + ": " + what); }
void Node::fault(const std::string& what) const { throw UserError(where() + ": " + what); }
std::string Node::where() const { return describe_node(frame_, proto_); }
uint64_t Node::random_seed() { return importer_.next_random_seed(); }

}  // namespace stax::frontend
