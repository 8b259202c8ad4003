// SPDX-License-Identifier: Apache-2.0
// What holds of every graph, after every pass. A violation is a fault of the pass before it, so the message names the
// op and the rule.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/format.h"
#include "support/error.h"
#include "tensor/graph.h"

namespace stax::tensor {

using ir::ScalarKind;
using symbolic::SymbolKind;
using symbolic::Truth;

namespace {

using Visible = std::unordered_set<const void*>;

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    const Block& body = graph_.body;
    rule(body.parent == nullptr, "the body of a graph has no parent");
    rule(graph_.inputs.size() == body.inputs.size(), "the graph's inputs are those of its body");
    rule(graph_.outputs.size() == body.outputs.size(), "the graph's outputs are those of its body");
    for (size_t k = 0; k < graph_.inputs.size(); ++k) {
      const Value* input = body.inputs[k].get();
      rule(graph_.inputs[k].value == input, "the graph's inputs are those of its body");
      for (Expr extent : input->type.extents) {
        rule(extent && (extent.is_constant() || extent.is_symbol()),
             "extents of an input are constants or bare symbols");
        if (extent.is_symbol()) symbols_.insert(extent.node());
      }
      if (input->type.rank) {
        rule(input->type.rank.is_symbol(), "the rank of an input is a bare symbol");
        symbols_.insert(input->type.rank.node());
      }
    }
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      rule(graph_.outputs[k].value == body.outputs[k], "the graph's outputs are those of its body");
    }
    verify_block(body);
  }

 private:
  template <class... Arguments>
  void rule(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (holds) return;
    const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
    if (op_ == nullptr) throw InternalError("tensor IR: " + text);
    std::string where(name_of(op_->kind()));
    if (!op_->results.empty()) where += fmt::format(" %{}", op_->results[0]->id);
    if (!op_->source.empty()) where += " from " + op_->source;
    throw InternalError(fmt::format("tensor IR, {}: {}", where, text));
  }

  // Values and symbols of a block are visible to the end of the block and in the blocks of its ops.
  void verify_block(const Block& block) {
    const Op* const outer_op = op_;
    rule(block.graph == &graph_, "a block points at its graph");
    std::vector<const void*> values, defined;
    const auto make_visible = [&](const Value& v) {
      rule(values_.insert(&v).second, "value %{} appears once", v.id);
      rule(ids_.insert(v.id).second, "value %{} has an id of its own", v.id);
      values.push_back(&v);
    };
    const auto define = [&](Expr symbol) {
      rule(symbol && symbol.is_symbol(), "what is defined is a symbol");
      rule(symbol.symbol().kind == SymbolKind::kValue, "{} is defined, so it is a value symbol", symbol);
      rule(symbols_.insert(symbol.node()).second && ever_defined_.insert(symbol.node()).second, "{} is defined once",
           symbol);
      defined.push_back(symbol.node());
    };
    if (const auto* loop = outer_op == nullptr ? nullptr : outer_op->as<Loop>()) {
      for (Expr symbol : loop->body_defines) define(symbol);
    }
    for (size_t k = 0; k < block.inputs.size(); ++k) {
      const Value& input = *block.inputs[k];
      rule(input.producer == nullptr && input.result == static_cast<int>(k), "block input {} knows its place", k);
      verify_type(input);
      make_visible(input);
    }
    for (const auto& owned : block.ops) {
      op_ = owned.get();
      rule(op_->block == &block, "an op points at its block");
      for (const Value* operand : op_->operands) {
        rule(operand != nullptr, "no operand is null");
        rule(values_.contains(operand), "operand %{} '{}' is visible", operand->id, operand->name);
      }
      verify_nested(*op_);
      for (Expr symbol : op_->defines) define(symbol);
      for (size_t k = 0; k < op_->results.size(); ++k) {
        const Value& result = *op_->results[k];
        rule(result.producer == op_ && result.result == static_cast<int>(k), "result {} knows its place", k);
        verify_type(result);
      }
      verify_op(*op_);
      for (const auto& result : op_->results) make_visible(*result);
    }
    op_ = outer_op;
    for (const Value* output : block.outputs)
      rule(output != nullptr && values_.contains(output), "outputs of a block are visible in it");
    for (const void* v : values) values_.erase(v);
    for (const void* symbol : defined) symbols_.erase(symbol);
  }

  void verify_nested(const Op& op) {
    const auto verify = [&](const std::unique_ptr<Block>& block) {
      rule(block != nullptr, "no block is missing");
      rule(block->parent == &op, "a block points at its op");
      verify_block(*block);
    };
    if (const auto* branch = op.as<If>()) {
      verify(branch->then_block);
      verify(branch->else_block);
    } else if (const auto* loop = op.as<Loop>()) {
      verify(loop->body);
    } else if (const auto* group = op.as<RowGroup>()) {
      // Closed: what it reads is among its operands.
      const auto visible = std::exchange(values_, {});
      verify(group->body);
      values_ = visible;
    }
  }

  void verify_symbols(Expr e, const char* what, const std::vector<Axis>* axes = nullptr,
                      const std::vector<Axis>* reductions = nullptr) {
    rule(static_cast<bool>(e), "{} is there", what);
    for (Expr symbol : symbolic::free_symbols(e)) {
      if (symbol.symbol().kind != SymbolKind::kLoop) {
        rule(symbols_.contains(symbol.node()), "{} uses {}, which is not bound there", what, symbol);
        continue;
      }
      const auto has = [&](const std::vector<Axis>* list) {
        return list != nullptr &&
               std::any_of(list->begin(), list->end(), [&](const Axis& axis) { return axis.var == symbol; });
      };
      rule(has(axes) || has(reductions), "{} uses {}, which is no axis of the op", what, symbol);
    }
  }

  void verify_type(const Value& v) {
    const Type& type = v.type;
    if (!type.is_tensor()) {
      rule(type.extents.empty() && !type.rank, "a sequence has no extents");
      return;
    }
    for (Expr extent : type.extents) verify_symbols(extent, "an extent");
    if (type.rank) {
      verify_symbols(type.rank, "a rank");
      rule(type.static_rank() == kMaxRank, "a value of run-time rank has {} extents", kMaxRank);
    }
    if (v.contents) {
      int64_t count = 1;
      for (Expr extent : type.extents) {
        rule(extent.is_constant(), "a value with contents has constant extents");
        count *= extent.constant();
      }
      rule(static_cast<int64_t>(v.contents->size()) == count, "contents of {} elements for {}", v.contents->size(),
           count);
      rule(!ir::is_float(type.dtype), "contents are integers");
      for (Expr e : *v.contents) rule(static_cast<bool>(e), "no element of contents is null");
    }
  }

  void verify_axes(const std::vector<Axis>& axes, std::unordered_set<const void*>& seen) {
    for (const Axis& axis : axes) {
      verify_symbols(axis.extent, "the extent of an axis");
      rule(axis.var && axis.var.is_symbol() && axis.var.symbol().kind == SymbolKind::kLoop,
           "an axis has a loop symbol");
      rule(seen.insert(axis.var.node()).second, "axis {} appears once", axis.var);
    }
  }

  void verify_scalar(const Op& op, Scalar root, const char* what, const std::vector<Axis>* axes,
                     const std::vector<Axis>* reductions, std::optional<DType> accumulator = std::nullopt) {
    rule(static_cast<bool>(root), "{} is there", what);
    visit(root, [&](Scalar node) {
      switch (node->kind) {
        case ScalarKind::kConstant: return;
        case ScalarKind::kIndex:
          rule(node->dtype == DType::kI64, "an index is i64");
          verify_symbols(node->index, what, axes, reductions);
          return;
        case ScalarKind::kLoad: {
          rule(node->slot >= 0 && node->slot < static_cast<int>(op.operands.size()), "load{} in {} has an operand",
               node->slot, what);
          const Type& type = op.operands[node->slot]->type;
          rule(type.is_tensor(), "load{} is of a tensor", node->slot);
          rule(type.dtype == node->dtype, "load{} of {} has the operand's dtype {}", node->slot,
               ir::name_of(node->dtype), ir::name_of(type.dtype));
          rule(type.static_rank() == static_cast<int>(node->args.size()), "load{} has {} indices for rank {}",
               node->slot, node->args.size(), type.static_rank());
          for (Scalar index : node->args) rule(index->dtype == DType::kI64, "an index of load{} is i64", node->slot);
          return;
        }
        case ScalarKind::kAccumulator:
          rule(accumulator.has_value(), "there is no accumulator in {}", what);
          rule(node->dtype == *accumulator, "the accumulator is {}", ir::name_of(*accumulator));
          return;
        case ScalarKind::kCast: rule(node->args.size() == 1, "a cast has one argument"); return;
        case ScalarKind::kOp: {
          std::vector<DType> types;
          for (Scalar argument : node->args) types.push_back(argument->dtype);
          rule(static_cast<int>(types.size()) == ir::arity_of(node->op), "{} has {} arguments", ir::name_of(node->op),
               types.size());
          rule(ir::result_dtype(node->op, types) == node->dtype, "the dtype of {}", ir::name_of(node->op));
          return;
        }
      }
    });
  }

  void operands(const Op& op, size_t least, size_t most) const {
    rule(op.operands.size() >= least && op.operands.size() <= most, "it has {} operands", op.operands.size());
  }
  void results(const Op& op, size_t count) const {
    rule(op.results.size() == count, "it has {} results, not {}", op.results.size(), count);
  }
  void tensors(const Op& op) const {
    for (const Value* operand : op.operands) rule(operand->type.is_tensor(), "operand %{} is a tensor", operand->id);
  }
  void same_dtype(const Value& a, const Value& b) const {
    rule(a.type.dtype == b.type.dtype, "%{} is {} and %{} is {}", a.id, ir::name_of(a.type.dtype), b.id,
         ir::name_of(b.type.dtype));
  }
  void i64(const Value& v) const { rule(v.type.is_tensor() && v.type.dtype == DType::kI64, "%{} is i64", v.id); }
  void sequence(const Value& v) const { rule(!v.type.is_tensor(), "%{} is a sequence", v.id); }
  void tensor(const Value& v) const { rule(v.type.is_tensor(), "%{} is a tensor", v.id); }
  bool may_be_equal(Expr a, Expr b) const { return a == b || graph_.constraints.equal(a, b) != Truth::kNo; }
  bool are_equal(Expr a, Expr b) const { return a == b || graph_.constraints.equal(a, b) == Truth::kYes; }
  void same_rank(const Value& a, const Value& b) const {
    rule(a.type.static_rank() == b.type.static_rank(), "%{} and %{} have one rank", a.id, b.id);
  }

  void verify_op(const Op& op) {
    std::visit([&](const auto& payload) { check(op, payload); }, op.payload);
  }

  void check(const Op& op, const Constant& constant) {
    operands(op, 0, 0);
    results(op, 1);
    const Type& type = op.result()->type;
    rule(type.is_tensor() && type.dtype == constant.literal.dtype(), "a constant has its literal's dtype");
    rule(type.static_rank() == constant.literal.rank(), "a constant has its literal's rank");
    for (int k = 0; k < type.static_rank(); ++k) {
      rule(type.extents[k].is_constant(constant.literal.extents()[k]), "a constant has its literal's extents");
    }
  }

  void check(const Op& op, const Compute& compute) {
    results(op, 1);
    tensors(op);
    const Type& type = op.result()->type;
    std::unordered_set<const void*> seen;
    verify_axes(compute.axes, seen);
    verify_axes(compute.reductions, seen);
    rule(compute.axes.size() == type.extents.size(), "there are {} axes for rank {}", compute.axes.size(),
         type.extents.size());
    for (size_t k = 0; k < compute.axes.size(); ++k) {
      rule(are_equal(compute.axes[k].extent, type.extents[k]), "axis {} has extent {}, the result {}", k,
           compute.axes[k].extent, type.extents[k]);
    }
    verify_scalar(op, compute.body, "the body", &compute.axes, &compute.reductions);
    rule((compute.combiner == Combiner::kNone) == compute.reductions.empty(),
         "there are reductions if and only if there is a combiner");
    if (compute.reductions.empty()) {
      rule(!compute.epilogue, "an epilogue belongs to a reduction");
      rule(type.dtype == compute.body->dtype, "the result is {}, the body {}", ir::name_of(type.dtype),
           ir::name_of(compute.body->dtype));
      return;
    }
    const DType total = is_arg(compute.combiner) ? DType::kI64 : compute.accumulate;
    if (compute.epilogue) {
      verify_scalar(op, compute.epilogue, "the epilogue", &compute.axes, nullptr, total);
      rule(type.dtype == compute.epilogue->dtype, "the result is {}, the epilogue {}", ir::name_of(type.dtype),
           ir::name_of(compute.epilogue->dtype));
    }
    if (compute.combiner == Combiner::kAnd || compute.combiner == Combiner::kOr) {
      rule(!ir::is_float(compute.accumulate), "and, or of integers or bools");
    }
  }

  void check(const Op& op, const Reshape&) {
    operands(op, 1, 1);
    results(op, 1);
    tensors(op);
    same_dtype(*op.operands[0], *op.result());
    Expr before = graph_.context->exprs.constant(1), after = before;
    for (Expr extent : op.operands[0]->type.extents) before = before * extent;
    for (Expr extent : op.result()->type.extents) after = after * extent;
    rule(may_be_equal(before, after), "{} elements cannot be {}", before, after);
  }

  void check(const Op& op, const ReshapeDynamic&) {
    operands(op, 2, 2);
    results(op, 1);
    tensors(op);
    i64(*op.operands[1]);
    rule(op.operands[1]->type.static_rank() == 1, "the shape has rank 1");
    same_dtype(*op.operands[0], *op.result());
    rule(static_cast<bool>(op.result()->type.rank), "the result has run-time rank");
  }

  void check(const Op& op, const Bind&) {
    operands(op, 1, 1);
    results(op, 0);
    tensors(op);
    rule(!ir::is_float(op.operands[0]->type.dtype), "only integers are bound");
    int64_t count = 1;
    for (Expr extent : op.operands[0]->type.extents) {
      rule(extent.is_constant(), "what is bound has constant extents");
      count *= extent.constant();
    }
    rule(static_cast<int64_t>(op.defines.size()) == count, "{} symbols for {} elements", op.defines.size(), count);
  }

  void check(const Op& op, const Check& check) {
    operands(op, 0, 0);
    results(op, 0);
    rule(op.defines.empty(), "a check defines nothing");
    verify_symbols(check.condition, "the condition");
    for (Expr argument : check.arguments) verify_symbols(argument, "an argument");
  }

  void check(const Op& op, const Scatter& scatter) {
    rule(!op.operands.empty(), "it has an operand");
    results(op, 1);
    tensors(op);
    const Value& data = *op.operands[0];
    same_dtype(data, *op.result());
    same_rank(data, *op.result());
    std::unordered_set<const void*> seen;
    verify_axes(scatter.axes, seen);
    rule(scatter.index.size() == data.type.extents.size(), "there are {} indices for rank {}", scatter.index.size(),
         data.type.extents.size());
    for (Scalar index : scatter.index) {
      verify_scalar(op, index, "an index", &scatter.axes, nullptr);
      rule(index->dtype == DType::kI64, "an index is i64");
    }
    verify_scalar(op, scatter.value, "the value", &scatter.axes, nullptr);
    rule(scatter.value->dtype == data.type.dtype, "the value has the data's dtype");
    if (scatter.guard) {
      verify_scalar(op, scatter.guard, "the guard", &scatter.axes, nullptr);
      rule(scatter.guard->dtype == DType::kBool, "the guard is bool");
    }
    rule(scatter.mode == Combiner::kNone || scatter.mode == Combiner::kSum || scatter.mode == Combiner::kProd ||
             scatter.mode == Combiner::kMin || scatter.mode == Combiner::kMax,
         "it overwrites, adds, multiplies, or takes the least or greatest");
  }

  void check(const Op& op, const PrefixScan& scan) {
    operands(op, 1, 1);
    results(op, 1);
    tensors(op);
    axis_of(*op.operands[0], scan.axis);
    same_dtype(*op.operands[0], *op.result());
    same_rank(*op.operands[0], *op.result());
    rule(scan.combiner == Combiner::kSum || scan.combiner == Combiner::kProd, "it is a running sum or product");
  }

  void axis_of(const Value& v, int axis) const {
    rule(axis >= 0 && axis < v.type.static_rank(), "axis {} of rank {}", axis, v.type.static_rank());
  }

  void check(const Op& op, const TopK& top) {
    operands(op, 1, 2);
    results(op, 2);
    tensors(op);
    axis_of(*op.operands[0], top.axis);
    same_dtype(*op.operands[0], *op.result());
    i64(*op.result(1));
    same_rank(*op.operands[0], *op.result());
    same_rank(*op.operands[0], *op.result(1));
  }

  void check(const Op& op, const NonZero&) {
    operands(op, 1, 1);
    results(op, 1);
    tensors(op);
    i64(*op.result());
    rule(op.result()->type.static_rank() == 2, "the result has rank 2");
    rule(op.defines.size() == 1, "it defines the number of items");
  }

  void check(const Op& op, const Unique& unique) {
    operands(op, 1, 1);
    results(op, 4);
    tensors(op);
    if (unique.axis) axis_of(*op.operands[0], *unique.axis);
    same_dtype(*op.operands[0], *op.result());
    for (int k = 1; k < 4; ++k) {
      i64(*op.result(k));
      rule(op.result(k)->type.static_rank() == 1, "result {} has rank 1", k);
    }
    rule(op.defines.size() == 1, "it defines the number of items");
  }

  void check(const Op& op, const NonMaxSuppression&) {
    operands(op, 5, 5);
    results(op, 1);
    tensors(op);
    i64(*op.operands[2]);
    i64(*op.result());
    rule(op.result()->type.static_rank() == 2, "the result has rank 2");
    rule(op.defines.size() == 1, "it defines the number of boxes");
  }

  void check(const Op& op, const Determinant&) {
    operands(op, 1, 1);
    results(op, 1);
    tensors(op);
    same_dtype(*op.operands[0], *op.result());
    rule(op.operands[0]->type.static_rank() == op.result()->type.static_rank() + 2, "the result has two axes less");
  }

  void check(const Op& op, const If& branch) {
    operands(op, 1, 1);
    tensors(op);
    rule(op.operands[0]->type.dtype == DType::kBool, "the condition is bool");
    for (const Block* block : {branch.then_block.get(), branch.else_block.get()}) {
      rule(block->inputs.empty(), "branches have no inputs");
      rule(block->outputs.size() == op.results.size(), "a branch has {} outputs for {} results", block->outputs.size(),
           op.results.size());
      for (size_t k = 0; k < op.results.size(); ++k) same_kind(*block->outputs[k], *op.result(static_cast<int>(k)));
    }
  }

  void same_kind(const Value& a, const Value& b) const {
    rule(a.type.kind == b.type.kind, "%{} and %{} are both tensors or both sequences", a.id, b.id);
    same_dtype(a, b);
    if (a.type.is_tensor() && a.type.has_static_rank() && b.type.has_static_rank()) same_rank(a, b);
  }

  void check(const Op& op, const Loop& loop) {
    const size_t first = (loop.has_trip_count ? 1 : 0) + (loop.has_condition ? 1 : 0);
    const size_t carried = static_cast<size_t>(loop.carried);
    const Block& body = *loop.body;
    rule(loop.carried >= 0 && op.operands.size() == first + carried, "it has {} operands", op.operands.size());
    if (loop.has_trip_count) i64(*op.operands[0]);
    if (loop.has_condition) {
      const Value& condition = *op.operands[loop.has_trip_count ? 1 : 0];
      rule(condition.type.is_tensor() && condition.type.dtype == DType::kBool, "the condition is bool");
    }
    rule(body.inputs.size() == 1 + carried, "the body has the iteration and {} carried values as inputs", carried);
    i64(*body.inputs[0]);
    rule(op.results.size() >= carried, "every carried value is a result");
    const size_t conditions = loop.has_condition ? 1 : 0;
    rule(body.outputs.size() == conditions + op.results.size(), "the body has {} outputs for {} results",
         body.outputs.size(), op.results.size());
    if (loop.has_condition) rule(body.outputs[0]->type.dtype == DType::kBool, "the condition is bool");
    for (size_t k = 0; k < op.results.size(); ++k) {
      const Value& output = *body.outputs[conditions + k];
      const Value& result = *op.result(static_cast<int>(k));
      if (k < carried) {
        same_kind(*op.operands[first + k], *body.inputs[1 + k]);
        same_kind(output, *body.inputs[1 + k]);
        same_kind(output, result);
      } else {
        tensor(output);
        tensor(result);
        same_dtype(output, result);
        if (output.type.has_static_rank() && result.type.has_static_rank()) {
          rule(output.type.static_rank() + 1 == result.type.static_rank(), "what is scanned is stacked on a new axis");
        }
      }
    }
  }

  void check(const Op& op, const RowGroup& group) {
    const Block& body = *group.body;
    tensors(op);
    std::unordered_set<const void*> seen;
    verify_axes(group.rows, seen);
    rule(body.inputs.size() == op.operands.size(), "the body has {} inputs for {} operands", body.inputs.size(),
         op.operands.size());
    for (size_t k = 0; k < op.operands.size(); ++k) same_kind(*op.operands[k], *body.inputs[k]);
    rule(!body.outputs.empty() && body.outputs.size() == op.results.size(), "the body has {} outputs for {} results",
         body.outputs.size(), op.results.size());
    std::unordered_set<const Value*> results;
    for (size_t k = 0; k < op.results.size(); ++k) {
      same_kind(*body.outputs[k], *op.result(static_cast<int>(k)));
      rule(body.outputs[k]->producer != nullptr && results.insert(body.outputs[k]).second,
           "an output of the body is the result of one of its ops, and is so once");
    }
    for (const auto& member : body.ops) {
      const auto* compute = member->as<Compute>();
      rule(compute != nullptr && !is_arg(compute->combiner), "the body has Computes without arg combiners only");
      for (const Axis& row : group.rows) {
        rule(std::count(compute->axes.begin(), compute->axes.end(), row) == 1,
             "row {} is an axis of every op of the body", row.var);
      }
      verify_rows(group, *member, compute->body);
      if (compute->epilogue) verify_rows(group, *member, compute->epilogue);
    }
  }

  /// Loads of values of the body stay within the row.
  void verify_rows(const RowGroup& group, const Op& member, Scalar root) {
    visit(root, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad) return;
      const Op* producer = member.operands[x->slot]->producer;
      if (producer == nullptr) return;
      const auto& axes = producer->as<Compute>()->axes;
      for (size_t k = 0; k < axes.size(); ++k) {
        if (std::find(group.rows.begin(), group.rows.end(), axes[k]) == group.rows.end()) continue;
        rule(ir::as_expr(x->args[k]) == axes[k].var, "load{} stays within its row at index {}", x->slot, k);
      }
    });
  }

  void check(const Op& op, const SequenceConstruct&) {
    results(op, 1);
    sequence(*op.result());
    tensors(op);
    for (const Value* operand : op.operands) same_dtype(*operand, *op.result());
  }

  void check(const Op& op, const SequenceInsert&) {
    operands(op, 2, 3);
    results(op, 1);
    sequence(*op.operands[0]);
    tensor(*op.operands[1]);
    same_dtype(*op.operands[0], *op.operands[1]);
    if (op.operands.size() > 2) i64(*op.operands[2]);
    sequence(*op.result());
    same_dtype(*op.operands[0], *op.result());
  }

  void check(const Op& op, const SequenceErase&) {
    operands(op, 1, 2);
    results(op, 1);
    sequence(*op.operands[0]);
    if (op.operands.size() > 1) i64(*op.operands[1]);
    sequence(*op.result());
    same_dtype(*op.operands[0], *op.result());
  }

  void check(const Op& op, const SequenceAt&) {
    operands(op, 2, 2);
    results(op, 1);
    sequence(*op.operands[0]);
    i64(*op.operands[1]);
    tensor(*op.result());
    same_dtype(*op.operands[0], *op.result());
  }

  void check(const Op& op, const SequenceLength&) {
    operands(op, 1, 1);
    results(op, 1);
    sequence(*op.operands[0]);
    i64(*op.result());
    rule(op.result()->type.static_rank() == 0, "a length has rank 0");
  }

  void check(const Op& op, const SplitToSequence& split) {
    operands(op, 1, 2);
    results(op, 1);
    tensors(op);
    axis_of(*op.operands[0], split.axis);
    if (op.operands.size() > 1) i64(*op.operands[1]);
    sequence(*op.result());
    same_dtype(*op.operands[0], *op.result());
  }

  void check(const Op& op, const ConcatFromSequence& concat) {
    operands(op, 1, 1);
    results(op, 1);
    sequence(*op.operands[0]);
    tensor(*op.result());
    same_dtype(*op.operands[0], *op.result());
    if (op.result()->type.has_static_rank()) axis_of(*op.result(), concat.axis);
  }

  const Graph& graph_;
  const Op* op_ = nullptr;
  Visible values_, symbols_, ever_defined_;
  std::set<uint32_t> ids_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace stax::tensor
