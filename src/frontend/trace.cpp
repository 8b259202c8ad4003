// SPDX-License-Identifier: Apache-2.0
#include "frontend/trace.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>
#include <numeric>
#include <set>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "support/error.h"

namespace stax::frontend {

std::string describe(const Value* x) {
  std::vector<std::string> extents;
  extents.reserve(x->type.extents.size());
  for (Expr e : x->type.extents) extents.push_back(e.str());
  return fmt::format("{}[{}]", ir::long_name_of(x->type.dtype), fmt::join(extents, ", "));
}

Tracer::Tracer()
    : graph_(std::make_unique<tensor::Graph>(std::make_shared<ir::Context>())), builder_(*graph_, graph_->body) {
  graph_->body.graph = graph_.get();
}

void Tracer::fault(const std::string& problem, const std::string& how) const {
  user_error("{}: {}; {}", builder_.source, problem, how);
}

void Tracer::need(Accepts accepts, const Value* x) const {
  const DType t = x->type.dtype;
  switch (accepts) {
    case Accepts::kNumbers:
      if (t == DType::kBool)
        fault("takes numbers, not bool", "cast() it first, or use logical_and(), logical_or(), logical_not()");
      return;
    case Accepts::kFloats:
      if (!ir::is_float(t))
        fault(fmt::format("takes floats, not {}", ir::long_name_of(t)), "cast() it to a float first");
      return;
    case Accepts::kBools:
      if (t != DType::kBool)
        fault(fmt::format("takes bool, not {}", ir::long_name_of(t)), "compare it first, or cast() it to bool");
      return;
    case Accepts::kAnything: return;
  }
}

void Tracer::need_same_dtype(const Value* a, const Value* b) const {
  if (a->type.dtype != b->type.dtype)
    fault(fmt::format("its operands are {} and {}, of different types", describe(a), describe(b)),
          "cast() one of them to the type of the other");
}

void Tracer::need_extents(const std::vector<Expr>& extents) {
  if (extents.size() > tensor::kMaxRank)
    fault(fmt::format("makes a tensor of rank {}", extents.size()),
          fmt::format("ranks up to {} are possible", tensor::kMaxRank));
  for (Expr e : extents) {
    need_bound(e);
    builder_.check(symbolic::less_equal(builder_.constant_expr(0), e), "an extent is {0}, below 0", {e});
  }
}

int Tracer::axis_of(int axis, const Value* x) const {
  const int rank = x->type.static_rank();
  if (axis < -rank || axis >= rank)
    fault(fmt::format("there is no axis {} in {}", axis, describe(x)),
          fmt::format("axes of rank {} are {} .. {}", rank, -rank, rank - 1));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int> Tracer::axes_of(const std::vector<int>& axes, const Value* x) const {
  std::vector<int> result;
  result.reserve(axes.size());
  for (int axis : axes) result.push_back(axis_of(axis, x));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fault("an axis is named twice", "name each axis once");
  if (axes.empty())
    for (int axis = 0; axis < x->type.static_rank(); ++axis) result.push_back(axis);
  return result;
}

// ---- dims, inputs, outputs ------------------------------------------------------------------------------------------

Expr Tracer::dim(const std::string& name, symbolic::Interval range, int64_t multiple) {
  if (range.lo < 0 || range.hi < range.lo || multiple < 1)
    fault(fmt::format("dim '{}' has the range {}..{} in steps of {}", name, range.lo, range.hi, multiple),
          "give 0 <= lo <= hi and a multiple of 1 or more");
  auto [it, fresh] = dims_.try_emplace(name);
  if (fresh) {
    it->second = builder_.exprs().new_symbol(
        {.name = name, .kind = symbolic::SymbolKind::kDim, .range = range, .multiple = multiple});
  } else if (const symbolic::SymbolInfo& known = it->second.symbol();
             known.range != range || known.multiple != multiple) {
    fault(fmt::format("dim '{}' has the range {}..{} here and {}..{} before", name, range.lo, range.hi, known.range.lo,
                      known.range.hi),
          "make the dim once and use it in all places");
  }
  return it->second;
}

void Tracer::need_bound(Expr e) const {
  for (Expr s : symbolic::free_symbols(e))
    if (std::find(bound_.begin(), bound_.end(), s) == bound_.end())
      fault(fmt::format("dim '{}' is the extent of no input, so that a call cannot tell it", s.symbol().name),
            "make it an extent of an input by itself");
}

std::vector<Value*> Tracer::inputs(const std::vector<Input>& inputs) {
  struct Relation {
    const Input* input;
    size_t axis;
    Expr symbol, extent;
  };
  std::vector<Relation> relations;
  std::vector<Value*> values;
  std::set<std::string> names;
  for (const Input& input : inputs) {
    if (input.name.empty() || !names.insert(input.name).second)
      fault(fmt::format("two inputs have the name '{}', or one has none", input.name),
            "give each input a name of its own");
    if (input.extents.size() > tensor::kMaxRank)
      fault(fmt::format("input '{}' has rank {}", input.name, input.extents.size()),
            fmt::format("ranks up to {} are possible", tensor::kMaxRank));
    std::vector<Expr> extents;
    for (size_t axis = 0; axis < input.extents.size(); ++axis) {
      Expr e = input.extents[axis];
      if (e.is_constant() && e.constant() < 0)
        fault(fmt::format("input '{}' has the extent {}", input.name, e.constant()),
              "give extents of 0 or more, or a dim()");
      if (!e.is_constant() && !e.is_symbol()) {
        const symbolic::Interval range = e.range();
        const std::string name = fmt::format("{}[{}]", input.name, axis);
        Expr symbol = builder_.exprs().new_symbol(
            {.name = name,
             .kind = symbolic::SymbolKind::kDim,
             .range = {std::max<int64_t>(0, range.lo), std::max<int64_t>(0, std::min(range.hi, symbolic::kMaxExtent))},
             .multiple = 1});
        relations.push_back({&input, axis, symbol, e});
        e = symbol;
      }
      if (e.is_symbol()) bound_.push_back(e);
      extents.push_back(e);
    }
    Value* value = graph_->add_input(graph_->body, tensor::Type::tensor(input.dtype, std::move(extents)), input.name);
    graph_->inputs.push_back({input.name, value});
    values.push_back(value);
  }
  // From here on: every symbol that an input binds is known.
  for (const Relation& r : relations) {
    need_bound(r.extent);
    builder_.source.clear();
    builder_.check(symbolic::equal(r.symbol, r.extent),
                   fmt::format("input '{}' has extent {{0}} at axis {}, which must be {} = {{1}}", r.input->name,
                               r.axis, r.extent.str()),
                   {r.symbol, r.extent});
  }
  return values;
}

std::unique_ptr<tensor::Graph> Tracer::finish(const std::vector<std::pair<std::string, Value*>>& outputs) {
  if (outputs.empty()) fault("the function returns no outputs", "return a Var, a TraceOutput, or several");
  std::set<std::string> names;
  for (const auto& [name, value] : outputs) {
    if (!names.insert(name).second)
      fault(fmt::format("two outputs have the name '{}'", name), "give each output a name of its own");
    graph_->outputs.push_back({name, value});
    graph_->body.outputs.push_back(value);
  }
  return std::move(graph_);
}

// ---- one element at a time ------------------------------------------------------------------------------------------

Value* Tracer::unary(ScalarOp op, Value* x, Accepts accepts) {
  need(accepts, x);
  return builder_.unary(op, x);
}

Value* Tracer::binary(ScalarOp op, Value* a, Value* b, Accepts accepts) {
  need(accepts, a);
  need_same_dtype(a, b);
  return builder_.binary(op, a, b);
}

Value* Tracer::relu(Value* x) {
  need(Accepts::kNumbers, x);
  return builder_.pointwise({x},
                            [](std::span<const Scalar> v) { return ir::binary(ScalarOp::kMax, v[0], like(v[0], 0)); });
}

Value* Tracer::gelu(Value* x) {
  need(Accepts::kFloats, x);
  const DType t = x->type.dtype;
  return builder_.pointwise({x}, [&](std::span<const Scalar> args) {
    const Scalar v = ir::cast(ir::compute_type(t), args[0]);
    return ir::cast(t,
                    like(v, 0.5) * v * (like(v, 1) + ir::unary(ScalarOp::kErf, v * like(v, std::numbers::sqrt2 / 2))));
  });
}

Value* Tracer::where(Value* condition, Value* a, Value* b) {
  need(Accepts::kBools, condition);
  need_same_dtype(a, b);
  return builder_.pointwise({condition, a, b}, [](std::span<const Scalar> v) { return ir::select(v[0], v[1], v[2]); });
}

// ---- products, rows, reductions -------------------------------------------------------------------------------------

Value* Tracer::matmul(Value* a, Value* b) {
  need(Accepts::kNumbers, a);
  need_same_dtype(a, b);
  if (a->type.static_rank() < 1 || b->type.static_rank() < 1)
    fault(fmt::format("multiplies {} and {}", describe(a), describe(b)), "give tensors of rank 1 or more, or use *");
  return builder_.matmul(a, b);
}

Value* Tracer::softmax(Value* x, int axis) {
  need(Accepts::kFloats, x);
  return builder_.softmax(x, axis_of(axis, x));
}

Value* Tracer::layer_norm(Value* x, Value* scale, Value* bias, double epsilon) {
  need(Accepts::kFloats, x);
  need_same_dtype(x, scale);
  need_same_dtype(x, bias);
  axis_of(-1, x);
  for (const Value* parameter : {scale, bias})
    if (parameter->type.static_rank() > x->type.static_rank())
      fault(fmt::format("scale or bias is {}, the input {}", describe(parameter), describe(x)),
            "give parameters of the last axis");
  return builder_.layer_norm(x, -1, epsilon, scale, bias);
}

Value* Tracer::sum(Value* x, const std::vector<int>& axes, bool keep_axes) {
  need(Accepts::kNumbers, x);
  const DType t = x->type.dtype, inner = ir::is_float(t) ? sum_accumulator(t) : t;
  return builder_.reduce_axes(tensor::Combiner::kSum, x, axes_of(axes, x), keep_axes, inner,
                              [&](Body&, Scalar total) { return ir::cast(t, total); });
}

Value* Tracer::mean(Value* x, const std::vector<int>& axes, bool keep_axes) {
  need(Accepts::kFloats, x);
  return builder_.mean(x, axes_of(axes, x), keep_axes);
}

Value* Tracer::extreme(tensor::Combiner combiner, Value* x, const std::vector<int>& axes, bool keep_axes) {
  need(Accepts::kNumbers, x);
  return builder_.reduce_axes(combiner, x, axes_of(axes, x), keep_axes, x->type.dtype);
}

Value* Tracer::argmax(Value* x, int axis) {
  need(Accepts::kNumbers, x);
  return builder_.reduce_axes(tensor::Combiner::kArgMaxFirst, x, {axis_of(axis, x)}, false, x->type.dtype);
}

// ---- views ----------------------------------------------------------------------------------------------------------

Value* Tracer::reshape(Value* x, std::vector<Expr> extents) {
  const auto open = std::find_if(extents.begin(), extents.end(), [](Expr e) { return e.is_constant(-1); });
  if (open != extents.end()) {
    if (std::find_if(open + 1, extents.end(), [](Expr e) { return e.is_constant(-1); }) != extents.end())
      fault("two extents are -1", "leave one extent open at most");
    *open = builder_.constant_expr(1);
    *open = symbolic::floordiv(builder_.product(x->type.extents), builder_.product(extents));
  }
  need_extents(extents);
  return builder_.reshape(x, std::move(extents));
}

Value* Tracer::transpose(Value* x, const std::vector<int>& permutation) {
  std::vector<int> axes, all(x->type.extents.size());
  for (int axis : permutation) axes.push_back(axis_of(axis, x));
  std::iota(all.begin(), all.end(), 0);
  if (!std::is_permutation(axes.begin(), axes.end(), all.begin(), all.end()))
    fault(fmt::format("[{}] is no permutation of the {} axes of {}", fmt::join(permutation, ", "), all.size(),
                      describe(x)),
          "name each axis once");
  return builder_.transpose(x, axes);
}

Value* Tracer::broadcast_to(Value* x, const std::vector<Expr>& extents) {
  need_extents(extents);
  if (extents.size() < x->type.extents.size())
    fault(fmt::format("cannot broadcast {} to rank {}", describe(x), extents.size()),
          "give at least as many extents as it has");
  return builder_.broadcast_to(x, extents);
}

Value* Tracer::concat(const std::vector<Value*>& parts, int axis) {
  if (parts.empty()) fault("there is nothing to concatenate", "give one tensor or more");
  const int position = axis_of(axis, parts[0]);
  for (const Value* part : parts) {
    need_same_dtype(parts[0], part);
    if (part->type.static_rank() != parts[0]->type.static_rank())
      fault(fmt::format("cannot concatenate {} and {}", describe(parts[0]), describe(part)),
            "reshape() them to one rank");
  }
  return builder_.concat(parts, position);
}

Value* Tracer::slice(Value* x, int axis, Expr start, Expr stop, int64_t step) {
  if (step < 1) fault(fmt::format("the step is {}", step), "give 1 or more");
  axis = axis_of(axis, x);
  need_bound(start);
  need_bound(stop);
  const Expr extent = x->type.extents[axis], zero = builder_.constant_expr(0);
  const auto inside = [&](Expr e) {
    if (e.is_constant() && e.constant() < 0) e = e + extent;
    // What is proved needs no cut.
    if (graph_->constraints.less_equal(e, extent) != symbolic::Truth::kYes) e = symbolic::min(e, extent);
    if (graph_->constraints.less_equal(zero, e) != symbolic::Truth::kYes) e = symbolic::max(e, zero);
    return e;
  };
  start = inside(start);
  Expr count = symbolic::ceildiv(inside(stop) - start, step);
  if (graph_->constraints.less_equal(zero, count) != symbolic::Truth::kYes) count = symbolic::max(count, zero);
  return builder_.slice(x, axis, start, count, builder_.constant_expr(step));
}

Value* Tracer::gather(Value* x, Value* indices, int axis) {
  if (indices->type.dtype != DType::kI32 && indices->type.dtype != DType::kI64)
    fault(fmt::format("its indices are {}", describe(indices)), "cast() them to int32 or int64");
  axis = axis_of(axis, x);
  const size_t rank = x->type.extents.size() + indices->type.extents.size() - 1;
  if (rank > tensor::kMaxRank)
    fault(fmt::format("makes a tensor of rank {}", rank), fmt::format("ranks up to {} are possible", tensor::kMaxRank));
  return builder_.gather(x, indices, axis);
}

Value* Tracer::iota(Value* like, int axis) {
  axis = axis_of(axis, like);
  return builder_.map(like->type.extents, [&](Body& body) { return body.index(body.i[axis]); });
}

}  // namespace stax::frontend
