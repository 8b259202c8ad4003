// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>

#include "lower/kernel_scope.h"
#include "lower/lower.h"
#include "lower/nest.h"
#include "support/error.h"
#include "tensor/classify.h"

namespace stax::lower {
namespace {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using ir::ScalarOp;
using loop::Stmt;
using symbolic::Expr;
using tensor::Axis;
using tensor::Combiner;

std::vector<Scalar> indices_of(loop::Kernel& kernel, const Loops& loops) {
  std::vector<Scalar> result;
  for (const auto& l : loops.loops) result.push_back(kernel.context->scalars.index(l.var));
  return result;
}

int add_local(loop::Kernel& kernel, const std::string& name, DType dtype) {
  loop::Buffer b;
  b.name = name;
  b.dtype = dtype;
  b.scope = loop::Scope::kLocal;
  b.written = true;
  kernel.buffers.push_back(std::move(b));
  return static_cast<int>(kernel.buffers.size()) - 1;
}

Scalar lowest(ir::ScalarTable& t, DType d) {
  if (ir::is_float(d)) return t.constant(d, -std::numeric_limits<double>::infinity());
  if (d == DType::kBool || !ir::is_signed(d)) return t.constant_int(d, 0);
  return t.constant_int(d, static_cast<int64_t>(uint64_t{1} << (ir::bit_width(d) - 1)) * (d == DType::kI64 ? 1 : -1));
}

Scalar highest(ir::ScalarTable& t, DType d) {
  if (ir::is_float(d)) return t.constant(d, std::numeric_limits<double>::infinity());
  if (d == DType::kBool) return t.constant_int(d, 1);
  if (!ir::is_signed(d)) return t.constant_int(d, -1);
  return t.constant_int(d, static_cast<int64_t>((uint64_t{1} << (ir::bit_width(d) - 1)) - 1));
}

Scalar neutral(ir::ScalarTable& t, Combiner c, DType d) {
  switch (c) {
    case Combiner::kSum: return t.constant_int(d, 0);
    case Combiner::kProd: return t.constant_int(d, 1);
    case Combiner::kAnd: return t.constant_int(d, 1);
    case Combiner::kOr: return t.constant_int(d, 0);
    case Combiner::kMax:
    case Combiner::kArgMaxFirst:
    case Combiner::kArgMaxLast: return lowest(t, d);
    case Combiner::kMin:
    case Combiner::kArgMinFirst:
    case Combiner::kArgMinLast: return highest(t, d);
    case Combiner::kNone: break;
  }
  STAX_UNREACHABLE();
}

// Whether a body is a product of two loads under casts and offsets: what a contraction or convolution sums.
bool is_product(Scalar body) {
  while (body->kind == ScalarKind::kCast) body = body->args[0];
  if (body->kind != ScalarKind::kOp || body->op != ScalarOp::kMul) return false;
  for (Scalar side : body->args) {
    int loads = 0;
    ir::visit(side, [&](Scalar s) { loads += s->kind == ScalarKind::kLoad; });
    if (loads < 1 || loads > 2) return false;
  }
  return true;
}

struct LocalLeaf {
  loop::Kernel& kernel;
  int accumulator = -1;
  Scalar operator()(Scalar original, std::vector<Scalar> args) const {
    auto& t = kernel.context->scalars;
    if (original->kind == ScalarKind::kLoad) return t.load(original->slot, original->dtype, std::move(args));
    STAX_ASSERT(accumulator >= 0, "an accumulator outside of an epilogue");
    return t.load(accumulator, original->dtype, std::vector<Scalar>{});
  }
};

// value and position, kept where `better` says so. NaN is better than any number, and nothing is better than NaN.
Stmt arg_update(loop::Kernel& kernel, Combiner c, DType d, int best, int place, int seen, Scalar value,
                Scalar position) {
  auto& t = kernel.context->scalars;
  Scalar old = t.load(best, d, std::vector<Scalar>{});
  bool want_max = c == Combiner::kArgMaxFirst || c == Combiner::kArgMaxLast;
  bool last = c == Combiner::kArgMaxLast || c == Combiner::kArgMinLast;
  Scalar low = want_max ? old : value, high = want_max ? value : old;
  Scalar better = last ? ir::less_equal(low, high) : ir::less(low, high);
  if (ir::is_float(d)) {
    Scalar value_nan = ir::unary(ScalarOp::kIsNan, value), old_nan = ir::unary(ScalarOp::kIsNan, old);
    Scalar nan_wins = last ? value_nan : ir::binary(ScalarOp::kAnd, value_nan, ir::unary(ScalarOp::kNot, old_nan));
    better = ir::binary(ScalarOp::kOr, better, nan_wins);
  }
  // The first element is taken whatever it is.
  Scalar first = ir::unary(ScalarOp::kNot, t.load(seen, DType::kBool, std::vector<Scalar>{}));
  better = ir::binary(ScalarOp::kOr, better, first);
  loop::Block then;
  then.statements.push_back(loop::make(loop::Store{place, {}, position}));
  then.statements.push_back(loop::make(loop::Store{best, {}, value}));
  then.statements.push_back(loop::make(loop::Store{seen, {}, t.constant_int(DType::kBool, 1)}));
  return loop::make(loop::If{better, loop::make(std::move(then)), {}});
}

LoweredKernel begin(const tensor::Op& op, const std::vector<std::vector<Expr>>& operand_extents,
                    std::unique_ptr<KernelScope>& scope, LoweredKernel& out) {
  scope = std::make_unique<KernelScope>(out.kernel);
  for (size_t k = 0; k < op.operands.size(); ++k) {
    // Extents of operands become parameters only where they are needed for addresses: all but the first.
    const std::vector<Expr>& extents = operand_extents[k];
    add_buffer(out.kernel, *scope, "in" + std::to_string(k), op.operands[k]->type.dtype, extents, false);
    out.arguments.push_back(static_cast<int>(k));
  }
  return {};
}

bool is_finite(const ir::Literal& values) {
  if (!ir::is_float(values.dtype())) return true;
  if (values.dtype() == DType::kF32) {
    const std::span all(static_cast<const float*>(values.data()), static_cast<size_t>(values.count()));
    return std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); });
  }
  for (int64_t k = 0; k < values.count(); ++k)
    if (!std::isfinite(values.at(k).f)) return false;
  return true;
}

/// What is multiplied by padding: constants that are no infinity and no NaN need not be.
void find_finite_factors(const tensor::Op& op, const tensor::Compute& c, loop::Kernel& kernel) {
  const tensor::Classification found = tensor::classify(c);
  bool is_padded = false;
  ir::visit(c.body, [&](Scalar x) { is_padded = is_padded || tensor::padded_load(x); });
  if (found.kind != tensor::ComputeClass::kContraction || !is_padded) return;
  for (int slot : {found.contraction.left_slot, found.contraction.right_slot}) {
    const tensor::Value* v = op.operands[static_cast<size_t>(slot)];
    while (v->producer != nullptr && v->producer->kind() == tensor::OpKind::kReshape) v = v->producer->operands[0];
    const auto* constant = v->producer == nullptr ? nullptr : v->producer->as<tensor::Constant>();
    kernel.buffers[static_cast<size_t>(slot)].finite = constant != nullptr && is_finite(constant->literal);
  }
}

}  // namespace

LoweredKernel lower_compute(const tensor::Op& op, Axes axes) {
  tensor::Graph& graph = *op.block->graph;
  CollapsedCompute collapsed = collapse_axes(op, axes);
  const tensor::Compute& c = collapsed.compute;
  LoweredKernel out;
  loop::Kernel& kernel = out.kernel;
  std::unique_ptr<KernelScope> scope;
  begin(op, collapsed.operand_extents, scope, out);
  std::vector<Expr> result_extents;
  for (const Axis& a : c.axes) result_extents.push_back(a.extent);
  DType result_type = op.result()->type.dtype;
  int result = add_buffer(kernel, *scope, "out", result_type, result_extents, true);
  out.arguments.push_back(~0);
  kernel.arguments = static_cast<int>(kernel.buffers.size());

  find_finite_factors(op, c, kernel);
  auto& t = kernel.context->scalars;
  LocalLeaf leaf{kernel, -1};
  scope->leaf = leaf;
  Loops outer = make_loops(*scope, kernel, c.axes, "i");
  std::vector<Scalar> at = indices_of(kernel, outer);
  size_t cost = ir::node_count(c.body);
  if (c.combiner == Combiner::kNone) {
    kernel.kernel_class = "map";
    Scalar value = t.cast(result_type, scope->scalar(c.body));
    kernel.body = outer.around(loop::make(loop::Store{result, at, value}));
  } else {
    Loops inner = make_loops(*scope, kernel, c.reductions, "r");
    bool arg = tensor::is_arg(c.combiner);
    kernel.kernel_class = c.combiner == Combiner::kSum && is_product(c.body) ? "contraction" : "reduction";
    Scalar body = scope->scalar(c.body);
    loop::Block steps;
    Stmt nest;
    if (arg) {
      DType d = body->dtype;
      int best = add_local(kernel, "best", d), place = add_local(kernel, "place", DType::kI64),
          seen = add_local(kernel, "seen", DType::kBool);
      Expr linear = scope->constant(0);
      for (const auto& l : inner.loops) linear = linear * l.extent + l.var;
      steps.statements.push_back(loop::make(loop::Store{best, {}, neutral(t, c.combiner, d)}));
      steps.statements.push_back(loop::make(loop::Store{place, {}, t.constant_int(DType::kI64, 0)}));
      steps.statements.push_back(loop::make(loop::Store{seen, {}, t.constant_int(DType::kBool, 0)}));
      steps.statements.push_back(
          inner.around(arg_update(kernel, c.combiner, d, best, place, seen, body, t.index(linear))));
      leaf.accumulator = place;
      scope->leaf = leaf;
      Scalar value = c.epilogue ? scope->scalar(c.epilogue) : t.load(place, DType::kI64, std::vector<Scalar>{});
      steps.statements.push_back(loop::make(loop::Store{result, at, t.cast(result_type, value)}));
      nest = loop::make(std::move(steps));
      for (int slot : {seen, place, best}) nest = loop::make(loop::Allocate{slot, nest});
    } else {
      int acc = add_local(kernel, "acc", c.accumulate);
      steps.statements.push_back(loop::make(loop::Store{acc, {}, neutral(t, c.combiner, c.accumulate)}));
      steps.statements.push_back(inner.around(
          loop::make(loop::Update{acc, {}, tensor::plain_combiner(c.combiner), t.cast(c.accumulate, body)})));
      leaf.accumulator = acc;
      scope->leaf = leaf;
      Scalar value = c.epilogue ? scope->scalar(c.epilogue) : t.load(acc, c.accumulate, std::vector<Scalar>{});
      steps.statements.push_back(loop::make(loop::Store{result, at, t.cast(result_type, value)}));
      nest = loop::make(loop::Allocate{acc, loop::make(std::move(steps))});
    }
    kernel.body = outer.around(nest);
  }
  out.param_values = scope->param_values();
  out.written = count_of(graph, c.axes);
  out.work = out.written * count_of(graph, c.reductions) * static_cast<int64_t>(cost);
  out.operations = operations_of(graph, c);
  return out;
}

LoweredKernel lower_scatter(const tensor::Op& op) {
  tensor::Graph& graph = *op.block->graph;
  const auto& s = *op.as<tensor::Scatter>();
  LoweredKernel out;
  loop::Kernel& kernel = out.kernel;
  kernel.kernel_class = "scatter";
  std::unique_ptr<KernelScope> scope;
  std::vector<std::vector<Expr>> extents;
  for (tensor::Value* v : op.operands) extents.push_back(v->type.extents);
  begin(op, extents, scope, out);
  int result = add_buffer(kernel, *scope, "out", op.result()->type.dtype, op.result()->type.extents, true);
  out.arguments.push_back(~0);
  kernel.arguments = static_cast<int>(kernel.buffers.size());
  LocalLeaf leaf{kernel, -1};
  scope->leaf = leaf;
  Loops loops = make_loops(*scope, kernel, s.axes, "i");
  std::vector<Scalar> index;
  for (Scalar x : s.index) index.push_back(scope->scalar(x));
  Scalar value = kernel.context->scalars.cast(op.result()->type.dtype, scope->scalar(s.value));
  Stmt write = s.mode == Combiner::kNone
                   ? loop::make(loop::Store{result, index, value})
                   : loop::make(loop::Update{result, index, tensor::plain_combiner(s.mode), value});
  if (s.guard) write = loop::make(loop::If{scope->scalar(s.guard), write, {}});
  kernel.body = loops.around(write);
  out.param_values = scope->param_values();
  out.written = count_of(graph, s.axes);
  out.work = out.written * static_cast<int64_t>(ir::node_count(s.value) + 4);
  out.operations =
      out.written * static_cast<int64_t>(ir::operation_count(s.value) + (s.mode == Combiner::kNone ? 0 : 1));
  return out;
}

LoweredKernel lower_prefix_scan(const tensor::Op& op) {
  tensor::Graph& graph = *op.block->graph;
  const auto& s = *op.as<tensor::PrefixScan>();
  const tensor::Type& type = op.operands[0]->type;
  LoweredKernel out;
  loop::Kernel& kernel = out.kernel;
  kernel.kernel_class = "scan";
  std::unique_ptr<KernelScope> scope;
  begin(op, {type.extents}, scope, out);
  int result = add_buffer(kernel, *scope, "out", type.dtype, type.extents, true);
  out.arguments.push_back(~0);
  kernel.arguments = static_cast<int>(kernel.buffers.size());
  auto& t = kernel.context->scalars;
  std::vector<Expr> vars;
  Loops outer, inner;
  for (size_t d = 0; d < type.extents.size(); ++d) {
    bool scanned = static_cast<int>(d) == s.axis;
    Expr extent = scope->extent(type.extents[d]);
    Expr var = loop::loop_var(*kernel.context, scanned ? "s" : "i" + std::to_string(d), extent);
    (scanned ? inner : outer).loops.push_back({var, extent, loop::LoopKind::kSerial, 0, {}});
    vars.push_back(scanned && s.reverse ? extent - 1 - var : var);
  }
  std::vector<Scalar> at;
  for (Expr v : vars) at.push_back(t.index(v));
  DType accumulate =
      type.dtype == DType::kF32 || type.dtype == DType::kF16 || type.dtype == DType::kBF16 ? DType::kF64 : type.dtype;
  int acc = add_local(kernel, "acc", accumulate);
  Stmt update = loop::make(
      loop::Update{acc, {}, tensor::plain_combiner(s.combiner), t.cast(accumulate, t.load(0, type.dtype, at))});
  Stmt store = loop::make(loop::Store{result, at, t.cast(type.dtype, t.load(acc, accumulate, std::vector<Scalar>{}))});
  loop::Block step;
  if (s.exclusive)
    step.statements = {store, update};
  else
    step.statements = {update, store};
  loop::Block all;
  all.statements = {loop::make(loop::Store{acc, {}, neutral(t, s.combiner, accumulate)}),
                    inner.around(loop::make(std::move(step)))};
  kernel.body = outer.around(loop::make(loop::Allocate{acc, loop::make(std::move(all))}));
  out.param_values = scope->param_values();
  Expr n = graph.exprs().constant(1);
  for (Expr e : type.extents) n = n * e;
  out.written = n;
  out.work = n * 3;
  out.operations = n;
  return out;
}

}  // namespace stax::lower
