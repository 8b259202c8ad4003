// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scalar expressions: what one element of a tensor is computed by. Shared by the bodies of tensor-IR ops and by the
// statements of loop IR. Hash-consed in a ScalarTable and immutable, like symbolic::Expr.
//
// Kinds
//   kConstant   a value of a dtype
//   kIndex      a symbolic integer expression over axis variables and shape symbols; dtype i64. Index arithmetic
//               without data dependence always takes this form: the builders below fold add/sub/mul/min/max/
//               comparisons/select of kIndex (and integer constant) arguments of dtype i64 into one Expr. (Comparison
//               of two kIndex gives kCast(bool) of a kIndex less/equal.)
//   kLoad       element of slot `slot` at `args` (i64 each). In tensor IR the slot is the operand's number, in loop
//               IR the buffer's number in the kernel.
//   kAccumulator  in an epilogue: the finished value of the reduction
//   kOp         scalar_op.def
//   kCast       to dtype: float -> integer truncates (saturating at int64, then wraps to the width; NaN -> the least
//               int64); integer -> narrower integer wraps; anything -> bool is != 0; float -> f16/bf16 rounds to even
//
// Evaluation is in the dtype of each node (f16 and bf16 arithmetic is done in f32 and rounded where a cast, a store
// or a load makes a value of that type; the reference interpreter uses double for all floats and rounds at the same
// places).
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/dtype.h"
#include "symbolic/expr.h"

namespace stax {
class Lexer;
}

namespace stax::ir {

enum class ScalarOp : uint8_t {
#define STAX_SCALAR_OP(Name, text, arity, rule) k##Name,
#include "ir/scalar_op.def"
};
std::string_view name_of(ScalarOp op);
std::optional<ScalarOp> parse_scalar_op(std::string_view name);
int arity_of(ScalarOp op);
DType result_dtype(ScalarOp op, std::span<const DType> args);  // throws InternalError on a type fault

enum class ScalarKind : uint8_t { kConstant, kIndex, kLoad, kAccumulator, kOp, kCast };

class ScalarTable;
struct ScalarNode;

class Scalar {
 public:
  Scalar() = default;
  explicit Scalar(const ScalarNode* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Scalar&) const = default;
  const ScalarNode* node() const { return node_; }
  const ScalarNode* operator->() const { return node_; }
  std::string str() const;  // one line, round-trips through parse_scalar
 private:
  const ScalarNode* node_ = nullptr;
};

struct ScalarNode {
  ScalarTable* table = nullptr;
  ScalarKind kind = ScalarKind::kConstant;
  DType dtype = DType::kF32;
  ScalarOp op = ScalarOp::kAdd;  // kOp
  uint64_t bits = 0;             // kConstant: integers and bool as int64; floats as the bits of a double
  symbolic::Expr index;          // kIndex
  int slot = -1;                 // kLoad
  std::vector<Scalar> args;
  uint32_t id = 0;
  double as_double() const;  // kConstant of a float dtype
  int64_t as_int() const;    // kConstant of an integer dtype or bool
};

class ScalarTable {
 public:
  explicit ScalarTable(symbolic::ExprTable& exprs);
  ~ScalarTable();
  ScalarTable(const ScalarTable&) = delete;
  ScalarTable& operator=(const ScalarTable&) = delete;
  symbolic::ExprTable& exprs();

  Scalar constant(DType t, double value);       // float dtypes: rounded to t first
  Scalar constant_int(DType t, int64_t value);  // any dtype; wraps to t, or converts to a float dtype
  Scalar index(symbolic::Expr e);               // i64
  Scalar load(int slot, DType t, std::vector<Scalar> indices);
  Scalar accumulator(DType t);
  Scalar op(ScalarOp op, std::vector<Scalar> args);  // folds constants with evaluate_scalar_op, keeps i64 index
  // arithmetic as kIndex, drops x+0, x*1, select(const, ..), cast to the same type
  Scalar cast(DType t, Scalar x);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The tables of one compilation.
struct Context {
  symbolic::ExprTable exprs;
  ScalarTable scalars{exprs};
};

// Spelling helpers; all arguments of one table. Mixed dtypes are an InternalError.
Scalar operator+(Scalar a, Scalar b);
Scalar operator-(Scalar a, Scalar b);
Scalar operator*(Scalar a, Scalar b);
Scalar operator/(Scalar a, Scalar b);
Scalar operator-(Scalar a);
Scalar unary(ScalarOp op, Scalar a);
Scalar binary(ScalarOp op, Scalar a, Scalar b);
Scalar select(Scalar condition, Scalar a, Scalar b);
Scalar less(Scalar a, Scalar b);
Scalar less_equal(Scalar a, Scalar b);
Scalar equal(Scalar a, Scalar b);
Scalar cast(DType t, Scalar x);

/// If x is known without data (kIndex or an integer constant of dtype i64): its Expr, else null.
symbolic::Expr as_expr(Scalar x);

/// Visits every distinct node, arguments first.
void visit(Scalar root, const std::function<void(Scalar)>& visit);
/// Rebuilds bottom-up: `rewrite` sees each node with its new arguments already in place and gives the replacement
/// (or the node itself). Index expressions are substituted by `indices` first. Unchanged trees keep their pointer.
Scalar rewrite(Scalar root, const symbolic::Substitution& indices, const std::function<Scalar(Scalar)>& rewrite);
Scalar substitute(Scalar root, const symbolic::Substitution& indices);
size_t node_count(Scalar root);       // distinct nodes
size_t operation_count(Scalar root);  // distinct nodes that compute: no loads, constants, casts, indices
bool has_load(Scalar root);

Scalar parse_scalar(Context& context, const std::string& text,
                    const std::function<symbolic::Expr(const std::string&)>& resolve,
                    const std::function<DType(int slot)>& slot_type);
/// The same from the middle of a longer text: takes one scalar and leaves what follows it.
Scalar parse_scalar(Context& context, Lexer& lexer, const std::function<symbolic::Expr(const std::string&)>& resolve,
                    const std::function<DType(int slot)>& slot_type);

/// One scalar operation on host values: the definition that interpreters and constant folding share. Floats are
/// doubles (not rounded to `t`), integers int64 already wrapped to `t` (u64 as its bits).
union Value64 {
  double f;
  int64_t i;
};
Value64 evaluate_scalar_op(ScalarOp op, DType argument_type, std::span<const Value64> args);  // not kCheckedIndex
Value64 evaluate_cast(DType to, DType from, Value64 x);  // rounds to f16 / bf16 / f32 where `to` is one
int64_t wrap_integer(DType t, int64_t value);
double round_to(DType t, double value);                 // to the nearest value of a float dtype
uint32_t random_bits(uint64_t seed, uint64_t counter);  // Philox4x32-10, first word

/// Reads or writes one element of raw memory.
Value64 load_element(DType t, const void* data, int64_t index);
void store_element(DType t, void* data, int64_t index, Value64 value);  // rounds / wraps to t

}  // namespace stax::ir
