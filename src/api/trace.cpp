// SPDX-License-Identifier: Apache-2.0
// The public face of tracing: Dims and Vars as handles, and each operation as one call of the tracer. Faults are
// reported at the line of the traced function.
#include "stax/trace.h"

#include <filesystem>
#include <map>

#include "api/session_engine.h"
#include "embed/boundary.h"
#include "embed/values.h"
#include "frontend/trace.h"
#include "support/error.h"

namespace stax {

namespace detail {

using symbolic::Expr;

/// One traced function, from its first input to the end of the function.
struct TraceState {
  frontend::Tracer tracer;
  bool open = true;
  std::map<const void*, std::vector<std::pair<Tensor, tensor::Value*>>> constants;  // by their memory
};

struct DimNode {
  enum class Kind : uint8_t { kConstant, kNamed, kAdd, kSubtract, kMultiply, kDivide, kModulo, kMin, kMax, kTraced };
  Kind kind = Kind::kConstant;
  int64_t constant = 0;
  std::string name;
  symbolic::Interval range;
  int64_t multiple = 1;
  std::shared_ptr<const DimNode> a, b;
  std::shared_ptr<TraceState> state;  // kTraced
  Expr expr;
};

struct VarNode {
  std::shared_ptr<TraceState> state;  // null: a constant
  tensor::Value* value = nullptr;
  Tensor constant;
};

}  // namespace detail

namespace {

using detail::DimNode;
using detail::TraceState;
using detail::VarNode;
using frontend::Tracer;
using ir::ScalarOp;
using symbolic::Expr;
using Kind = DimNode::Kind;
using State = std::shared_ptr<TraceState>;
using Accepts = Tracer::Accepts;

constexpr const char* kHow = "see the types and shapes of the operands: Var::dtype(), Var::shape()";

std::string place_of(const std::source_location& at) {
  return fmt::format("{}:{}", std::filesystem::path(at.file_name()).filename().string(), at.line());
}

[[noreturn]] void fault(const std::source_location& at, const std::string& problem, const std::string& how) {
  throw Error(ErrorKind::kUser, problem, place_of(at), how);
}

void need_open(const State& state, const std::source_location& at) {
  if (!state->open)
    fault(at, "a Var or an extent is used after its function was traced",
          "use them only inside of the function that trace() is given");
}

// ---- extents

std::shared_ptr<const DimNode> node_of(Kind kind, const Dim& a, const Dim& b) {
  auto node = std::make_shared<DimNode>();
  node->kind = kind;
  node->a = a.node();
  node->b = b.node();
  return node;
}

int64_t evaluate(Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Kind::kAdd: return symbolic::saturating_add(a, b);
    case Kind::kSubtract: return symbolic::saturating_add(a, -b);
    case Kind::kMultiply: return symbolic::saturating_mul(a, b);
    case Kind::kDivide: return symbolic::floor_div(a, b);
    case Kind::kModulo: return symbolic::floor_mod(a, b);
    case Kind::kMin: return std::min(a, b);
    case Kind::kMax: return std::max(a, b);
    case Kind::kConstant:
    case Kind::kNamed:
    case Kind::kTraced: break;
  }
  return 0;
}

Dim combine(Kind kind, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return Dim(evaluate(kind, a.node()->constant, b.node()->constant));
  return Dim(node_of(kind, a, b));
}

Expr resolve(const std::shared_ptr<const DimNode>& node, const State& state, const std::source_location& at) {
  auto both = [&](auto f) { return f(resolve(node->a, state, at), resolve(node->b, state, at)); };
  switch (node->kind) {
    case Kind::kConstant: return state->tracer.builder().constant_expr(node->constant);
    case Kind::kNamed: return state->tracer.dim(node->name, node->range, node->multiple);
    case Kind::kAdd: return both([](Expr a, Expr b) { return a + b; });
    case Kind::kSubtract: return both([](Expr a, Expr b) { return a - b; });
    case Kind::kMultiply: return both([](Expr a, Expr b) { return a * b; });
    case Kind::kDivide: return both([](Expr a, Expr b) { return symbolic::floordiv(a, b); });
    case Kind::kModulo: return both([](Expr a, Expr b) { return symbolic::mod(a, b); });
    case Kind::kMin: return both([](Expr a, Expr b) { return symbolic::min(a, b); });
    case Kind::kMax: return both([](Expr a, Expr b) { return symbolic::max(a, b); });
    case Kind::kTraced:
      if (node->state != state)
        fault(at, "an extent of another traced function is used", "use extents of this function's own Vars");
      return node->expr;
  }
  return {};
}

std::vector<Expr> resolve(const std::vector<Dim>& dims, const State& state, const std::source_location& at) {
  std::vector<Expr> result;
  result.reserve(dims.size());
  for (const Dim& d : dims) result.push_back(resolve(d.node(), state, at));
  return result;
}

Dim traced(const State& state, Expr e) {
  if (e.is_constant()) return Dim(e.constant());
  auto node = std::make_shared<DimNode>();
  node->kind = Kind::kTraced;
  node->state = state;
  node->expr = e;
  return Dim(std::move(node));
}

std::string text_of(const DimNode& node) {
  auto both = [&](const char* sign) { return "(" + text_of(*node.a) + sign + text_of(*node.b) + ")"; };
  switch (node.kind) {
    case Kind::kConstant: return std::to_string(node.constant);
    case Kind::kNamed: return node.name;
    case Kind::kAdd: return both(" + ");
    case Kind::kSubtract: return both(" - ");
    case Kind::kMultiply: return both(" * ");
    case Kind::kDivide: return both(" / ");
    case Kind::kModulo: return both(" % ");
    case Kind::kMin: return "min" + both(", ");
    case Kind::kMax: return "max" + both(", ");
    case Kind::kTraced: return node.state->open ? node.expr.str() : "an extent of a traced function";
  }
  return {};
}

// ---- operands

State state_of(std::span<const Operand* const> operands) {
  State state;
  for (const Operand* o : operands) {
    if (o->kind() != Operand::Kind::kVar || !o->var()->state) continue;
    need_open(o->var()->state, o->at());
    if (state && o->var()->state != state)
      fault(o->at(), "Vars of two traced functions meet", "use only the Vars that this function was given");
    state = o->var()->state;
  }
  if (!state)
    fault(operands[0]->at(), "no operand belongs to a traced function",
          "compute with constants outside of the model, or give one operand that is an input or made from one");
  return state;
}

tensor::Value* constant_of(const State& state, const Tensor& t) {
  auto& known = state->constants[t.data()];
  for (const auto& [tensor, value] : known)
    if (tensor.dtype() == t.dtype() && tensor.shape() == t.shape()) return value;
  // The tensor is kept alive by the literal, and lives on in the program.
  auto keep = std::make_shared<Tensor>(t);
  std::shared_ptr<void> data(keep, const_cast<void*>(t.data()));
  tensor::Value* value =
      state->tracer.builder().constant(ir::Literal::view(embed::internal(t.dtype()), t.shape(), std::move(data)));
  known.emplace_back(t, value);
  return value;
}

ir::DType dtype_of(const VarNode& node) {
  return node.state ? node.value->type.dtype : embed::internal(node.constant.dtype());
}

/// The type that numbers among these operands take.
ir::DType dtype_among(std::span<const Operand* const> operands) {
  for (const Operand* o : operands)
    if (o->kind() == Operand::Kind::kVar) return dtype_of(*o->var());
  return ir::DType::kF32;
}

tensor::Value* value_of(const State& state, const Operand& o, ir::DType number) {
  tensor::Builder& b = state->tracer.builder();
  switch (o.kind()) {
    case Operand::Kind::kVar: return o.var()->state ? o.var()->value : constant_of(state, o.var()->constant);
    case Operand::Kind::kReal:
      if (!ir::is_float(number))
        fault(o.at(), fmt::format("the number {} meets a tensor of {}", o.real(), ir::long_name_of(number)),
              "cast() the tensor to a float, or use an integer");
      return b.constant(number, o.real());
    case Operand::Kind::kInteger: {
      ir::Literal literal(number, {});
      if (ir::is_float(number))
        literal.set(0, {.f = static_cast<double>(o.integer())});
      else
        literal.set(0, {.i = o.integer()});
      if (!ir::is_float(number) && literal.at(0).i != o.integer())
        fault(o.at(), fmt::format("the number {} does not fit into {}", o.integer(), ir::long_name_of(number)),
              "cast() the tensor to a wider type");
      return b.constant(std::move(literal));
    }
    case Operand::Kind::kDim: {
      Expr e = resolve(o.dim(), state, o.at());
      state->tracer.need_bound(e);
      return b.cast(b.int_scalar(e), number);
    }
  }
  return nullptr;
}

Var var_of(const State& state, tensor::Value* value) {
  auto node = std::make_shared<VarNode>();
  node->state = state;
  node->value = value;
  return Var(std::move(node));
}

/// One operation: f gets the tracer and the operands' values and gives the result's.
template <class F>
Var operation(const char* name, std::span<const Operand* const> operands, F&& f) {
  State state = state_of(operands);
  std::string place = place_of(operands[0]->at());
  return embed::guarded(place, kHow, [&] {
    state->tracer.at(place + ": " + name);
    ir::DType number = dtype_among(operands);
    std::vector<tensor::Value*> values;
    for (const Operand* o : operands) values.push_back(value_of(state, *o, number));
    return var_of(state, f(state->tracer, std::span<tensor::Value* const>(values)));
  });
}

Var unary(const char* name, ScalarOp op, const Operand& x, Accepts accepts) {
  return operation(name, {{&x}}, [&](Tracer& t, auto v) { return t.unary(op, v[0], accepts); });
}

Var binary(const char* name, ScalarOp op, const Operand& a, const Operand& b, Accepts accepts) {
  return operation(name, {{&a, &b}}, [&](Tracer& t, auto v) { return t.binary(op, v[0], v[1], accepts); });
}

/// Operations that take extents as well.
template <class F>
Var shaped(const char* name, const Operand& x, const std::vector<Dim>& dims, F&& f) {
  return operation(name, {{&x}}, [&](Tracer& t, auto v) { return f(t, v[0], resolve(dims, x.var()->state, x.at())); });
}

}  // namespace

// ---- Dim, Var -------------------------------------------------------------------------------------------------------

Dim::Dim(int64_t constant) {
  auto node = std::make_shared<DimNode>();
  node->constant = constant;
  node_ = std::move(node);
}
bool Dim::is_constant() const { return node_->kind == Kind::kConstant; }
bool Dim::is_constant(int64_t value) const { return is_constant() && node_->constant == value; }
std::string Dim::str() const {
  std::string text = text_of(*node_);
  return text.starts_with('(') ? text.substr(1, text.size() - 2) : text;
}

Dim dim(std::string name, int64_t lo, int64_t hi, int64_t multiple) {
  if (name.empty() || lo < 0 || hi < lo || multiple < 1)
    throw Error(ErrorKind::kUser, fmt::format("dim '{}' has the range {}..{} in steps of {}", name, lo, hi, multiple),
                "stax::dim", "give a name, 0 <= lo <= hi, and a multiple of 1 or more");
  auto node = std::make_shared<DimNode>();
  node->kind = Kind::kNamed;
  node->name = std::move(name);
  node->range = {lo, hi};
  node->multiple = multiple;
  return Dim(std::move(node));
}

Dim operator+(const Dim& a, const Dim& b) { return combine(Kind::kAdd, a, b); }
Dim operator-(const Dim& a, const Dim& b) { return combine(Kind::kSubtract, a, b); }
Dim operator*(const Dim& a, const Dim& b) { return combine(Kind::kMultiply, a, b); }
Dim operator/(const Dim& a, const Dim& b) { return combine(Kind::kDivide, a, b); }
Dim operator%(const Dim& a, const Dim& b) { return combine(Kind::kModulo, a, b); }
Dim min(const Dim& a, const Dim& b) { return combine(Kind::kMin, a, b); }
Dim max(const Dim& a, const Dim& b) { return combine(Kind::kMax, a, b); }

Var::Var(const Tensor& constant) {
  auto node = std::make_shared<VarNode>();
  node->constant = constant;
  node_ = std::move(node);
}

DType Var::dtype() const { return embed::external(dtype_of(*node_)); }
int Var::rank() const { return static_cast<int>(shape().size()); }

std::vector<Dim> Var::shape() const {
  std::vector<Dim> result;
  if (!node_->state) {
    for (int64_t e : node_->constant.shape()) result.emplace_back(e);
    return result;
  }
  need_open(node_->state, std::source_location::current());
  for (Expr e : node_->value->type.extents) result.push_back(traced(node_->state, e));
  return result;
}

Dim Var::extent(int axis, std::source_location at) const {
  if (node_->state) need_open(node_->state, at);
  std::vector<Dim> all = shape();
  int rank = static_cast<int>(all.size());
  if (axis < -rank || axis >= rank)
    fault(at, fmt::format("there is no axis {} in a tensor of rank {}", axis, rank), "axes are -rank .. rank - 1");
  return all[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

// ---- operations -----------------------------------------------------------------------------------------------------

Var operator+(const Operand& a, const Operand& b) { return binary("+", ScalarOp::kAdd, a, b, Accepts::kNumbers); }
Var operator-(const Operand& a, const Operand& b) { return binary("-", ScalarOp::kSub, a, b, Accepts::kNumbers); }
Var operator*(const Operand& a, const Operand& b) { return binary("*", ScalarOp::kMul, a, b, Accepts::kNumbers); }
Var operator/(const Operand& a, const Operand& b) { return binary("/", ScalarOp::kDiv, a, b, Accepts::kNumbers); }
Var operator%(const Operand& a, const Operand& b) { return binary("%", ScalarOp::kModFloor, a, b, Accepts::kNumbers); }
Var operator-(const Operand& x) { return unary("-", ScalarOp::kNeg, x, Accepts::kNumbers); }
Var minimum(const Operand& a, const Operand& b) { return binary("minimum", ScalarOp::kMin, a, b, Accepts::kNumbers); }
Var maximum(const Operand& a, const Operand& b) { return binary("maximum", ScalarOp::kMax, a, b, Accepts::kNumbers); }
Var pow(const Operand& a, const Operand& b) { return binary("pow", ScalarOp::kPow, a, b, Accepts::kNumbers); }

Var operator<(const Operand& a, const Operand& b) { return binary("<", ScalarOp::kLess, a, b, Accepts::kNumbers); }
Var operator<=(const Operand& a, const Operand& b) {
  return binary("<=", ScalarOp::kLessEqual, a, b, Accepts::kNumbers);
}
Var operator>(const Operand& a, const Operand& b) {
  return operation(">", {{&a, &b}},
                   [](Tracer& t, auto v) { return t.binary(ScalarOp::kLess, v[1], v[0], Accepts::kNumbers); });
}
Var operator>=(const Operand& a, const Operand& b) {
  return operation(">=", {{&a, &b}},
                   [](Tracer& t, auto v) { return t.binary(ScalarOp::kLessEqual, v[1], v[0], Accepts::kNumbers); });
}
Var equal(const Operand& a, const Operand& b) { return binary("equal", ScalarOp::kEqual, a, b, Accepts::kAnything); }
Var not_equal(const Operand& a, const Operand& b) {
  return binary("not_equal", ScalarOp::kNotEqual, a, b, Accepts::kAnything);
}
Var logical_and(const Operand& a, const Operand& b) {
  return binary("logical_and", ScalarOp::kAnd, a, b, Accepts::kBools);
}
Var logical_or(const Operand& a, const Operand& b) {
  return binary("logical_or", ScalarOp::kOr, a, b, Accepts::kBools);
}
Var logical_not(const Operand& x) { return unary("logical_not", ScalarOp::kNot, x, Accepts::kBools); }

Var where(const Operand& condition, const Operand& a, const Operand& b) {
  const Operand* all[] = {&condition, &a, &b};
  State state = state_of(all);
  std::string place = place_of(condition.at());
  return embed::guarded(place, kHow, [&] {
    state->tracer.at(place + ": where");
    // A number takes the type of the other branch, not of the condition.
    const Operand* branches[] = {&a, &b};
    ir::DType number = dtype_among(branches);
    return var_of(state, state->tracer.where(value_of(state, condition, ir::DType::kBool), value_of(state, a, number),
                                             value_of(state, b, number)));
  });
}

Var abs(const Operand& x) { return unary("abs", ScalarOp::kAbs, x, Accepts::kNumbers); }
Var sign(const Operand& x) { return unary("sign", ScalarOp::kSign, x, Accepts::kNumbers); }
Var relu(const Operand& x) {
  return operation("relu", {{&x}}, [](Tracer& t, auto v) { return t.relu(v[0]); });
}
Var exp(const Operand& x) { return unary("exp", ScalarOp::kExp, x, Accepts::kFloats); }
Var log(const Operand& x) { return unary("log", ScalarOp::kLog, x, Accepts::kFloats); }
Var sqrt(const Operand& x) { return unary("sqrt", ScalarOp::kSqrt, x, Accepts::kFloats); }
Var sin(const Operand& x) { return unary("sin", ScalarOp::kSin, x, Accepts::kFloats); }
Var cos(const Operand& x) { return unary("cos", ScalarOp::kCos, x, Accepts::kFloats); }
Var tanh(const Operand& x) { return unary("tanh", ScalarOp::kTanh, x, Accepts::kFloats); }
Var sigmoid(const Operand& x) { return unary("sigmoid", ScalarOp::kSigmoid, x, Accepts::kFloats); }
Var erf(const Operand& x) { return unary("erf", ScalarOp::kErf, x, Accepts::kFloats); }
Var gelu(const Operand& x) {
  return operation("gelu", {{&x}}, [](Tracer& t, auto v) { return t.gelu(v[0]); });
}
Var floor(const Operand& x) { return unary("floor", ScalarOp::kFloor, x, Accepts::kFloats); }
Var ceil(const Operand& x) { return unary("ceil", ScalarOp::kCeil, x, Accepts::kFloats); }
Var round(const Operand& x) { return unary("round", ScalarOp::kRoundEven, x, Accepts::kFloats); }
Var cast(const Operand& x, DType to) {
  return operation("cast", {{&x}}, [&](Tracer& t, auto v) { return t.builder().cast(v[0], embed::internal(to)); });
}

Var matmul(const Operand& a, const Operand& b) {
  return operation("matmul", {{&a, &b}}, [](Tracer& t, auto v) { return t.matmul(v[0], v[1]); });
}
Var softmax(const Operand& x, int axis) {
  return operation("softmax", {{&x}}, [&](Tracer& t, auto v) { return t.softmax(v[0], axis); });
}
Var layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon) {
  return operation("layer_norm", {{&x, &scale, &bias}},
                   [&](Tracer& t, auto v) { return t.layer_norm(v[0], v[1], v[2], epsilon); });
}
Var sum(const Operand& x, const Axes& axes, bool keep_axes) {
  return operation("sum", {{&x}}, [&](Tracer& t, auto v) { return t.sum(v[0], axes, keep_axes); });
}
Var mean(const Operand& x, const Axes& axes, bool keep_axes) {
  return operation("mean", {{&x}}, [&](Tracer& t, auto v) { return t.mean(v[0], axes, keep_axes); });
}
Var max(const Operand& x, const Axes& axes, bool keep_axes) {
  return operation("max", {{&x}},
                   [&](Tracer& t, auto v) { return t.extreme(tensor::Combiner::kMax, v[0], axes, keep_axes); });
}
Var min(const Operand& x, const Axes& axes, bool keep_axes) {
  return operation("min", {{&x}},
                   [&](Tracer& t, auto v) { return t.extreme(tensor::Combiner::kMin, v[0], axes, keep_axes); });
}
Var argmax(const Operand& x, int axis) {
  return operation("argmax", {{&x}}, [&](Tracer& t, auto v) { return t.argmax(v[0], axis); });
}

Var reshape(const Operand& x, const std::vector<Dim>& shape) {
  return shaped("reshape", x, shape,
                [](Tracer& t, tensor::Value* v, std::vector<Expr> e) { return t.reshape(v, std::move(e)); });
}
Var transpose(const Operand& x, const std::vector<int>& permutation) {
  return operation("transpose", {{&x}}, [&](Tracer& t, auto v) { return t.transpose(v[0], permutation); });
}
Var broadcast_to(const Operand& x, const std::vector<Dim>& shape) {
  return shaped("broadcast_to", x, shape,
                [](Tracer& t, tensor::Value* v, const std::vector<Expr>& e) { return t.broadcast_to(v, e); });
}
Var concat(const std::vector<Operand>& parts, int axis) {
  std::vector<const Operand*> operands;
  operands.reserve(parts.size());
  for (const Operand& part : parts) operands.push_back(&part);
  if (operands.empty())
    throw Error(ErrorKind::kUser, "there is nothing to concatenate", "stax::concat", "give one tensor or more");
  return operation("concat", operands, [&](Tracer& t, auto v) { return t.concat({v.begin(), v.end()}, axis); });
}
Var slice(const Operand& x, int axis, const Dim& start, const Dim& stop, int64_t step) {
  return shaped("slice", x, {start, stop}, [&](Tracer& t, tensor::Value* v, const std::vector<Expr>& e) {
    return t.slice(v, axis, e[0], e[1], step);
  });
}
Var gather(const Operand& x, const Operand& indices, int axis) {
  return operation("gather", {{&x, &indices}}, [&](Tracer& t, auto v) { return t.gather(v[0], v[1], axis); });
}
Var iota(const Operand& like, int axis) {
  return operation("iota", {{&like}}, [&](Tracer& t, auto v) { return t.iota(v[0], axis); });
}

// ---- tracing --------------------------------------------------------------------------------------------------------

Model trace_function(const std::vector<TraceInput>& inputs, const TraceFunction& function, const TraceOptions& options,
                     std::source_location at) {
  std::string place = place_of(at);
  auto state = std::make_shared<TraceState>();
  // Whatever happens, Vars that outlive the function are of no use afterwards.
  struct Close {
    TraceState& state;
    ~Close() { state.open = false; }
  } close{*state};
  return embed::guarded(place, "see the inputs and outputs of the traced function", [&] {
    if (options.threads < 0)
      fault(at, fmt::format("threads is {}", options.threads), "give 1 or more, or 0 for all cores");
    state->tracer.at(place + ": trace");
    std::vector<Tracer::Input> declared;
    for (const TraceInput& input : inputs) {
      if (static_cast<int>(input.dtype) >= ir::kDTypeCount)
        fault(at, fmt::format("input '{}' has no element type", input.name), "use a value of stax::DType");
      declared.push_back({input.name, embed::internal(input.dtype), resolve(input.shape, state, at)});
    }
    std::vector<Var> vars;
    for (tensor::Value* value : state->tracer.inputs(declared)) vars.push_back(var_of(state, value));
    std::vector<TraceOutput> outputs;
    try {
      outputs = function(vars);
    } catch (...) {
      throw embed::CallerException{std::current_exception()};
    }
    state->tracer.at(place + ": trace");
    std::vector<std::pair<std::string, tensor::Value*>> results;
    for (size_t k = 0; k < outputs.size(); ++k) {
      std::string name = !outputs[k].name.empty() ? outputs[k].name
                         : outputs.size() == 1    ? "output"
                                                  : fmt::format("output{}", k);
      Operand operand(outputs[k].value, at);
      if (operand.var()->state) state_of({{&operand}});
      if (operand.var()->state && operand.var()->state != state)
        fault(at, "an output is a Var of another traced function", "return Vars of this function");
      results.emplace_back(std::move(name), value_of(state, operand, ir::DType::kF32));
    }
    std::unique_ptr<tensor::Graph> graph = state->tracer.finish(results);
    state->open = false;
    session::SessionOptions session_options;
    session_options.device = options.device;
    session_options.threads = options.threads;
    return embed::make_model(
        embed::engine_of(session::Session::of_graph(std::move(graph), session_options), "traced at " + place));
  });
}

}  // namespace stax
