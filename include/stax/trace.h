// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models written as C++ functions. [compiler]
//
//   stax::Dim batch = stax::dim("batch", 1, 64);
//   stax::Tensor weights = ..., bias = ...;                                  // constants of the model
//   stax::Model model = stax::trace({{"x", stax::DType::kF32, {batch, 784}}},
//                                   [&](stax::Var x) { return softmax(relu(matmul(x, weights) + bias), -1); });
//
// The function runs once, on Vars that stand for tensors; what it does to them becomes the model. Ordinary C++ (if,
// for, recursion) runs while tracing: a loop is unrolled, an `if` is decided once. Whatever depends on data is said
// with where() and the comparisons.
//
// Types are never converted silently: both operands of an arithmetic operation have one type, see cast(). Numbers (x *
// 2, 1 / x) take the type of the other operand. Extents follow numpy: operands are aligned at their last axes, and an
// extent of 1 repeats. Extents that cannot be compared while tracing are compared in each call. Negative axes count
// from the end. Integers wrap, integer division truncates, x / 0 is 0 for integers; a NaN wins in min and max.
//
// Every fault is a stax::Error whose `where` is the file and line of the operation in the traced function.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <stax/stax.h>

namespace stax {

namespace detail {
struct DimNode;
struct TraceState;
struct VarNode;
}  // namespace detail

// ---- extents --------------------------------------------------------------------------------------------------------

/// An extent: a number, a named dim, or integer arithmetic over them. Division rounds towards minus infinity.
class STAX_API Dim {
 public:
  Dim(int64_t constant);
  Dim(int constant) : Dim(static_cast<int64_t>(constant)) {}
  Dim(size_t constant) : Dim(static_cast<int64_t>(constant)) {}
  explicit Dim(std::shared_ptr<const detail::DimNode> node) : node_(std::move(node)) {}
  bool is_constant() const;
  bool is_constant(int64_t value) const;
  /// "batch", "(2 * length) + 1".
  std::string str() const;
  const std::shared_ptr<const detail::DimNode>& node() const { return node_; }

 private:
  std::shared_ptr<const detail::DimNode> node_;
};

/// A named dim with its range (inclusive) and, where all its values are multiples of one number, that number. The same
/// name always means the same dim within a model; giving it two ranges is an Error.
STAX_API Dim dim(std::string name, int64_t lo = 0, int64_t hi = 0x7fffffff, int64_t multiple = 1);

STAX_API Dim operator+(const Dim& a, const Dim& b);
STAX_API Dim operator-(const Dim& a, const Dim& b);
STAX_API Dim operator*(const Dim& a, const Dim& b);
STAX_API Dim operator/(const Dim& a, const Dim& b);
STAX_API Dim operator%(const Dim& a, const Dim& b);
STAX_API Dim min(const Dim& a, const Dim& b);
STAX_API Dim max(const Dim& a, const Dim& b);

// ---- values ---------------------------------------------------------------------------------------------------------

/// A tensor of the model that is being traced, or a constant. Of use only while the function runs that it was given to.
class STAX_API Var {
 public:
  /// A constant; its memory is shared, not copied.
  Var(const Tensor& constant);
  explicit Var(std::shared_ptr<const detail::VarNode> node) : node_(std::move(node)) {}
  DType dtype() const;
  int rank() const;
  std::vector<Dim> shape() const;
  Dim extent(int axis, std::source_location at = std::source_location::current()) const;
  const std::shared_ptr<const detail::VarNode>& node() const { return node_; }

 private:
  std::shared_ptr<const detail::VarNode> node_;
};

/// What operations take: a Var, a Tensor (a constant), a number or a Dim (of the other operand's type, rank 0), and the
/// line that it stands in.
class STAX_API Operand {
 public:
  Operand(const Var& v, std::source_location at = std::source_location::current()) : var_(v.node()), at_(at) {}
  Operand(const Tensor& t, std::source_location at = std::source_location::current()) : var_(Var(t).node()), at_(at) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number, std::source_location at = std::source_location::current())
      : kind_(std::is_floating_point_v<T> ? Kind::kReal : Kind::kInteger),
        real_(static_cast<double>(number)),
        integer_(static_cast<int64_t>(number)),
        at_(at) {}
  Operand(const Dim& d, std::source_location at = std::source_location::current())
      : kind_(Kind::kDim), dim_(d.node()), at_(at) {}

  enum class Kind : uint8_t { kVar, kReal, kInteger, kDim };
  Kind kind() const { return kind_; }
  const std::shared_ptr<const detail::VarNode>& var() const { return var_; }
  const std::shared_ptr<const detail::DimNode>& dim() const { return dim_; }
  double real() const { return real_; }
  int64_t integer() const { return integer_; }
  const std::source_location& at() const { return at_; }

 private:
  Kind kind_ = Kind::kVar;
  std::shared_ptr<const detail::VarNode> var_;
  std::shared_ptr<const detail::DimNode> dim_;
  double real_ = 0;
  int64_t integer_ = 0;
  std::source_location at_;
};

// ---- operations -----------------------------------------------------------------------------------------------------

// Numbers of one type, broadcast.
STAX_API Var operator+(const Operand& a, const Operand& b);
STAX_API Var operator-(const Operand& a, const Operand& b);
STAX_API Var operator*(const Operand& a, const Operand& b);
STAX_API Var operator/(const Operand& a, const Operand& b);
STAX_API Var operator%(const Operand& a, const Operand& b);  // the sign of the divisor
STAX_API Var operator-(const Operand& x);
STAX_API Var minimum(const Operand& a, const Operand& b);
STAX_API Var maximum(const Operand& a, const Operand& b);
STAX_API Var pow(const Operand& a, const Operand& b);

// To bool, broadcast. With a NaN all but not_equal are false.
STAX_API Var operator<(const Operand& a, const Operand& b);
STAX_API Var operator<=(const Operand& a, const Operand& b);
STAX_API Var operator>(const Operand& a, const Operand& b);
STAX_API Var operator>=(const Operand& a, const Operand& b);
STAX_API Var equal(const Operand& a, const Operand& b);
STAX_API Var not_equal(const Operand& a, const Operand& b);
STAX_API Var logical_and(const Operand& a, const Operand& b);
STAX_API Var logical_or(const Operand& a, const Operand& b);
STAX_API Var logical_not(const Operand& x);
/// a where the condition (bool) holds, else b.
STAX_API Var where(const Operand& condition, const Operand& a, const Operand& b);

// One element at a time; floats, and for abs, relu and sign any number.
STAX_API Var abs(const Operand& x);
STAX_API Var sign(const Operand& x);
STAX_API Var relu(const Operand& x);
STAX_API Var exp(const Operand& x);
STAX_API Var log(const Operand& x);
STAX_API Var sqrt(const Operand& x);
STAX_API Var sin(const Operand& x);
STAX_API Var cos(const Operand& x);
STAX_API Var tanh(const Operand& x);
STAX_API Var sigmoid(const Operand& x);
STAX_API Var erf(const Operand& x);
STAX_API Var gelu(const Operand& x);  // with erf
STAX_API Var floor(const Operand& x);
STAX_API Var ceil(const Operand& x);
STAX_API Var round(const Operand& x);  // ties to even
/// Float to integer truncates, anything to bool is != 0, float to a narrower float rounds to even.
STAX_API Var cast(const Operand& x, DType t);

/// numpy's matmul: [.., m, k] x [.., k, n] -> [.., m, n]; a vector counts as one row or one column. Batch extents
/// broadcast.
STAX_API Var matmul(const Operand& a, const Operand& b);
/// Floats. A row of -infinity gives NaN.
STAX_API Var softmax(const Operand& x, int axis = -1);
/// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axis; scale and bias broadcast to x.
STAX_API Var layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon = 1e-5);

using Axes = std::vector<int>;
/// Over the given axes; none given: over all. Those axes go, or keep an extent of 1. Of nothing: sum 0, mean NaN, max
/// and min the lowest and highest value of the type (-infinity, infinity).
STAX_API Var sum(const Operand& x, const Axes& axes = {}, bool keep_axes = false);
STAX_API Var mean(const Operand& x, const Axes& axes = {}, bool keep_axes = false);
STAX_API Var max(const Operand& x, const Axes& axes = {}, bool keep_axes = false);
STAX_API Var min(const Operand& x, const Axes& axes = {}, bool keep_axes = false);
/// Position (int64) of the first largest along an axis, which goes.
STAX_API Var argmax(const Operand& x, int axis = -1);

/// The same elements under other extents of the same count; one of them may be -1: what is left.
STAX_API Var reshape(const Operand& x, const std::vector<Dim>& shape);
/// Axis k of the result is axis permutation[k] of x.
STAX_API Var transpose(const Operand& x, const std::vector<int>& permutation);
STAX_API Var broadcast_to(const Operand& x, const std::vector<Dim>& shape);
/// Call it as stax::concat({a, b}, axis).
STAX_API Var concat(const std::vector<Operand>& parts, int axis);
/// Elements start, start + step, .. below stop along an axis; step >= 1. A negative constant counts from the end; both
/// are cut to the extent.
STAX_API Var slice(const Operand& x, int axis, const Dim& start, const Dim& stop, int64_t step = 1);
/// x at the given places of an axis: int32 or int64, negative ones count from the end; others than -n .. n - 1 are an
/// Error of the call. The axes of `indices` take the place of that axis.
STAX_API Var gather(const Operand& x, const Operand& indices, int axis = 0);
/// int64 of the shape of `like`: at each place its position along `axis`.
STAX_API Var iota(const Operand& like, int axis);

// ---- tracing --------------------------------------------------------------------------------------------------------

/// An input of the model. An extent that is an expression (2 * length) is compared in each call; its symbols must be
/// extents of inputs by themselves.
struct TraceInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Dim> shape;
};

/// An output with a name. Without one, outputs are called "output", or "output0", "output1", ...
struct TraceOutput {
  std::string name;
  Var value;
};

struct TraceOptions {
  int threads = 0;  // as in Options
  std::string device = "cpu";
};

using TraceFunction = std::function<std::vector<TraceOutput>(const std::vector<Var>& inputs)>;

/// The general form.
STAX_API Model trace_function(const std::vector<TraceInput>& inputs, const TraceFunction& function,
                              const TraceOptions& options = {},
                              std::source_location at = std::source_location::current());

namespace detail {

inline void add_outputs(std::vector<TraceOutput>& to, Var v) { to.push_back({"", std::move(v)}); }
inline void add_outputs(std::vector<TraceOutput>& to, TraceOutput o) { to.push_back(std::move(o)); }
inline void add_outputs(std::vector<TraceOutput>& to, std::vector<TraceOutput> many) {
  for (TraceOutput& o : many) to.push_back(std::move(o));
}
inline void add_outputs(std::vector<TraceOutput>& to, std::vector<Var> many) {
  for (Var& v : many) to.push_back({"", std::move(v)});
}
template <class... T>
void add_outputs(std::vector<TraceOutput>& to, std::tuple<T...> many) {
  std::apply([&](auto&&... each) { (add_outputs(to, std::forward<decltype(each)>(each)), ...); }, std::move(many));
}
template <class A, class B>
void add_outputs(std::vector<TraceOutput>& to, std::pair<A, B> both) {
  add_outputs(to, std::move(both.first));
  add_outputs(to, std::move(both.second));
}

}  // namespace detail

/// `function` takes as many Vars as there are inputs and returns a Var, a TraceOutput, or a tuple, pair or vector of
/// them.
template <size_t N, class F>
Model trace(const TraceInput (&inputs)[N], F&& function, const TraceOptions& options = {},
            std::source_location at = std::source_location::current()) {
  return trace_function(
      std::vector<TraceInput>(inputs, inputs + N),
      [&](const std::vector<Var>& vars) {
        std::vector<TraceOutput> outputs;
        [&]<size_t... I>(std::index_sequence<I...>) {
          detail::add_outputs(outputs, function(vars[I]...));
        }(std::make_index_sequence<N>());
        return outputs;
      },
      options, at);
}

}  // namespace stax
