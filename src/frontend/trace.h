// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spells a traced C++ function as tensor IR. Every operation checks its operands: a fault is a UserError "place:
// problem; how", where the place is what the caller set with at(), such as "main.cpp:42: matmul".
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/builder.h"

namespace stax::frontend {

using ir::DType;
using ir::ScalarOp;
using symbolic::Expr;
using tensor::Value;

class Tracer {
 public:
  Tracer();

  /// Where operations come from, from here on.
  void at(std::string place) { builder_.source = std::move(place); }
  tensor::Builder& builder() { return builder_; }

  // ---- dims and inputs
  /// The same name is the same dim; a second range for it is a fault.
  Expr dim(const std::string& name, symbolic::Interval range, int64_t multiple);
  /// All inputs at once, before any operation. An extent that is no constant or symbol is compared in each call; what
  /// it is made of must be extents of inputs by themselves.
  struct Input {
    std::string name;
    DType dtype;
    std::vector<Expr> extents;
  };
  std::vector<Value*> inputs(const std::vector<Input>& inputs);
  /// A fault if `e` has a symbol that no input binds.
  void need_bound(Expr e) const;
  std::unique_ptr<tensor::Graph> finish(const std::vector<std::pair<std::string, Value*>>& outputs);

  // ---- operations
  enum class Accepts { kNumbers, kFloats, kBools, kAnything };
  Value* unary(ScalarOp op, Value* x, Accepts accepts);
  /// Broadcasts; both of one type.
  Value* binary(ScalarOp op, Value* a, Value* b, Accepts accepts);
  Value* relu(Value* x);
  Value* gelu(Value* x);
  Value* where(Value* condition, Value* a, Value* b);
  Value* matmul(Value* a, Value* b);
  Value* softmax(Value* x, int axis);
  Value* layer_norm(Value* x, Value* scale, Value* bias, double epsilon);
  Value* sum(Value* x, const std::vector<int>& axes, bool keep_axes);
  Value* mean(Value* x, const std::vector<int>& axes, bool keep_axes);
  Value* extreme(tensor::Combiner combiner, Value* x, const std::vector<int>& axes, bool keep_axes);  // kMin, kMax
  Value* argmax(Value* x, int axis);
  /// One extent may be -1: what is left.
  Value* reshape(Value* x, std::vector<Expr> extents);
  Value* transpose(Value* x, const std::vector<int>& permutation);
  Value* broadcast_to(Value* x, const std::vector<Expr>& extents);
  Value* concat(const std::vector<Value*>& parts, int axis);
  /// From `start` to below `stop`; negative constants count from the end, both are cut to the extent.
  Value* slice(Value* x, int axis, Expr start, Expr stop, int64_t step);
  Value* gather(Value* x, Value* indices, int axis);
  Value* iota(Value* like, int axis);

 private:
  [[noreturn]] void fault(const std::string& problem, const std::string& how) const;
  void need(Accepts accepts, const Value* x) const;
  void need_same_dtype(const Value* a, const Value* b) const;
  void need_extents(const std::vector<Expr>& extents);
  int axis_of(int axis, const Value* x) const;
  std::vector<int> axes_of(const std::vector<int>& axes, const Value* x) const;

  std::unique_ptr<tensor::Graph> graph_;
  tensor::Builder builder_;
  std::map<std::string, Expr> dims_;
  std::vector<Expr> bound_;
};

/// "float32[batch, 784]".
std::string describe(const Value* x);

}  // namespace stax::frontend
