// SPDX-License-Identifier: Apache-2.0
// Compute and Scatter on concrete operands, by the block engine.
#include <algorithm>
#include <cmath>

#include "tensor/interpret_blocks.h"
#include "tensor/interpret_contraction.h"
#include "tensor/interpret_ops.h"

namespace stax::tensor::reference {

using ir::Value64;
using symbolic::saturating_mul;

namespace {

struct Operands {
  std::vector<Literal> literals;
  std::vector<Source> sources;
  explicit Operands(const Call& call) {
    for (size_t k = 0; k < call.items.size(); ++k) literals.push_back(call.tensor(k));
    for (const Literal& l : literals) sources.push_back(Source::of(l));
  }
};

void add_axes(const Call& call, const std::vector<Axis>& axes, std::vector<Expr>& vars, std::vector<int64_t>& extents) {
  for (const Axis& a : axes) {
    vars.push_back(a.var);
    extents.push_back(call.value(a.extent));
  }
}

[[noreturn]] void raise(const Call& call, const Fault& fault) {
  if (fault.checked_index) {
    call.fail(fmt::format("index {} is out of range for an extent of {}", fault.index, fault.extent));
  }
  const Value* operand = call.op.operands[fault.slot];
  internal_error("{}: operand {} ({}) is read at index {} of axis {}, whose extent is {}", call.where(), fault.slot,
                 operand->name, fault.index, fault.axis, fault.extent);
}

/// Runs a program over [0, count) and hands each block on: f(start, n).
template <class F>
void for_each_block(const Call& call, BlockProgram& program, int root, int64_t begin, int64_t end, F&& f) {
  for (int64_t start = begin; start < end;) {
    const int64_t n = program.run(start, end - start);
    if (const uint16_t* marks = program.faults(root)) {
      for (int64_t i = 0; i < n; ++i) {
        if (marks[i] != 0) raise(call, program.describe_fault(root, start + i));
      }
    }
    f(start, n);
    start += n;
  }
}

/// Combines values into one accumulator after the other. `T` is double or int64.
template <class T>
class Accumulator {
 public:
  Accumulator(Combiner combiner, DType type) : combiner_(combiner), type_(type) { reset(); }

  void reset() {
    value_ = neutral();
    position_ = 0;
    next_ = 0;
  }

  void add(const T* x, int64_t n) {
    switch (combiner_) {
      case Combiner::kSum: add_sum(x, n); break;
      case Combiner::kProd:
        for (int64_t i = 0; i < n; ++i) {
          if constexpr (std::is_same_v<T, double>) {
            value_ *= x[i];
          } else {
            value_ = static_cast<T>(static_cast<uint64_t>(value_) * static_cast<uint64_t>(x[i]));
          }
        }
        break;
      case Combiner::kMax:
        for (int64_t i = 0; i < n; ++i) value_ = replaces<true>(x[i], value_) ? x[i] : value_;
        break;
      case Combiner::kMin:
        for (int64_t i = 0; i < n; ++i) value_ = replaces<false>(x[i], value_) ? x[i] : value_;
        break;
      case Combiner::kAnd:
        for (int64_t i = 0; i < n; ++i) value_ = combine_bits(value_, x[i], true);
        break;
      case Combiner::kOr:
        for (int64_t i = 0; i < n; ++i) value_ = combine_bits(value_, x[i], false);
        break;
      case Combiner::kArgMaxFirst: add_arg<true, false>(x, n); break;
      case Combiner::kArgMaxLast: add_arg<true, true>(x, n); break;
      case Combiner::kArgMinFirst: add_arg<false, false>(x, n); break;
      case Combiner::kArgMinLast: add_arg<false, true>(x, n); break;
      case Combiner::kNone: STAX_UNREACHABLE();
    }
  }

  T value() const {
    if constexpr (std::is_same_v<T, int64_t>) return ir::wrap_integer(type_, value_);
    return value_;
  }
  int64_t position() const { return position_; }

 private:
  T neutral() const {
    switch (combiner_) {
      case Combiner::kProd:
      case Combiner::kAnd: return T{1};
      case Combiner::kMax: return extreme(false);
      case Combiner::kMin: return extreme(true);
      default: return T{0};
    }
  }

  T extreme(bool greatest) const {
    if constexpr (std::is_same_v<T, double>) {
      return greatest ? HUGE_VAL : -HUGE_VAL;
    } else {
      if (type_ == DType::kBool) return greatest;
      const int width = ir::bit_width(type_);
      if (!ir::is_signed(type_)) return greatest ? static_cast<T>(~uint64_t{0} >> (64 - width)) : T{0};
      const T top = static_cast<T>(~uint64_t{0} >> (65 - width));
      return greatest ? top : -top - 1;
    }
  }

  /// Does x replace the best so far? Equal values do not.
  template <bool kGreater>
  bool beats(T x, T best) const {
    if constexpr (std::is_same_v<T, double>) {
      if (best != best) return false;
      return x != x || (kGreater ? x > best : x < best);
    } else {
      if (type_ == DType::kU64) {
        return kGreater ? static_cast<uint64_t>(x) > static_cast<uint64_t>(best)
                        : static_cast<uint64_t>(x) < static_cast<uint64_t>(best);
      }
      return kGreater ? x > best : x < best;
    }
  }

  /// As the scalar max and min: +0 is greater than -0.
  template <bool kGreater>
  bool replaces(T x, T best) const {
    if constexpr (std::is_same_v<T, double>) {
      if (x == best) return std::signbit(best) == kGreater;
    }
    return beats<kGreater>(x, best);
  }

  template <bool kGreater, bool kLast>
  void add_arg(const T* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i, ++next_) {
      const bool same = x[i] == value_ || (x[i] != x[i] && value_ != value_);
      if (next_ == 0 || beats<kGreater>(x[i], value_) || (kLast && same)) {
        value_ = x[i];
        position_ = next_;
      }
    }
  }

  void add_sum(const T* x, int64_t n) {
    if constexpr (std::is_same_v<T, double>) {
      double s[4] = {};
      int64_t i = 0;
      for (; i + 4 <= n; i += 4) {
        for (int k = 0; k < 4; ++k) s[k] += x[i + k];
      }
      for (; i < n; ++i) s[0] += x[i];
      value_ += (s[0] + s[1]) + (s[2] + s[3]);
    } else {
      uint64_t sum = static_cast<uint64_t>(value_);
      for (int64_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(x[i]);
      value_ = static_cast<T>(sum);
    }
  }

  T combine_bits(T a, T b, bool is_and) const {
    if constexpr (std::is_same_v<T, double>) {
      STAX_UNREACHABLE();
    } else {
      return is_and ? a & b : a | b;
    }
  }

  Combiner combiner_;
  DType type_;
  T value_{};
  int64_t position_ = 0;
  int64_t next_ = 0;
};

/// Reduces the points of `program` in runs of `length` into accumulators[0 ..].
template <class T>
void reduce_runs(const Call& call, BlockProgram& program, int root, const Compute& c, int64_t length, int64_t begin,
                 int64_t end, Value64* out) {
  Accumulator<T> accumulator(c.combiner, c.accumulate);
  int64_t done = 0;
  int64_t position = 0;  // within the run
  for_each_block(call, program, root, begin, end, [&](int64_t, int64_t n) {
    const T* x;
    if constexpr (std::is_same_v<T, double>) {
      x = program.floats(root);
    } else {
      x = program.ints(root);
    }
    for (int64_t i = 0; i < n;) {
      const int64_t part = std::min(n - i, length - position);
      accumulator.add(x + i, part);
      i += part;
      position += part;
      if (position < length) continue;
      Value64& r = out[done++];
      if (is_arg(c.combiner)) {
        r.i = accumulator.position();
      } else if constexpr (std::is_same_v<T, double>) {
        r.f = accumulator.value();
      } else {
        r.i = accumulator.value();
      }
      accumulator.reset();
      position = 0;
    }
  });
}

const void* values_of(const BlockProgram& program, int root, DType t) {
  return ir::is_float(t) ? static_cast<const void*>(program.floats(root)) : program.ints(root);
}

struct Reducer {
  const Call& call;
  const Compute& c;
  const Operands& operands;
  std::vector<Expr> vars;  // axes, then reductions
  std::vector<int64_t> extents;
  size_t axis_count;
  int64_t outputs;
  int64_t length;  // points reduced into one
  std::unique_ptr<BlockProgram> epilogue;
  DType result_type;
  Literal& result;

  void reduce_all() {
    std::vector<Value64> chunk;
    std::unique_ptr<BlockProgram> body;
    if (length > 0) {
      std::vector<double> sums;
      if (contract(call, c, operands.sources, vars, extents, axis_count, sums)) {
        finish_outputs(sums.data(), 0, outputs);
        return;
      }
      body = std::make_unique<BlockProgram>(vars, extents, operands.sources, call.bindings);
      body->add_root(c.body->table->cast(c.accumulate, c.body));
      body->finish();
    }
    // As many outputs at a time as fill a few blocks.
    const int64_t step =
        std::max<int64_t>(1, std::min<int64_t>(outputs, kBlockPoints * 16 / std::max<int64_t>(length, 1)));
    chunk.resize(std::max<int64_t>(step, 1));
    for (int64_t first = 0; first < outputs; first += step) {
      const int64_t n = std::min(step, outputs - first);
      if (length == 0) {
        fill_neutral(chunk.data(), n);
      } else if (ir::is_float(c.accumulate)) {
        reduce_runs<double>(call, *body, 0, c, length, first * length, (first + n) * length, chunk.data());
      } else {
        reduce_runs<int64_t>(call, *body, 0, c, length, first * length, (first + n) * length, chunk.data());
      }
      finish_outputs(chunk.data(), first, n);
    }
  }

  void fill_neutral(Value64* out, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      if (is_arg(c.combiner)) {
        out[i].i = 0;
      } else if (ir::is_float(c.accumulate)) {
        out[i].f = Accumulator<double>(c.combiner, c.accumulate).value();
      } else {
        out[i].i = Accumulator<int64_t>(c.combiner, c.accumulate).value();
      }
    }
  }

  void finish_outputs(const void* accumulators, int64_t first, int64_t n) {
    epilogue->set_accumulators(accumulators, first);
    for_each_block(call, *epilogue, 0, first, first + n, [&](int64_t start, int64_t count) {
      store_block(result_type, result.data(), start, values_of(*epilogue, 0, result_type), count);
    });
  }
};

}  // namespace

Literal evaluate_compute(const Call& call, const Compute& c) {
  const Operands operands(call);
  std::vector<Expr> vars;
  std::vector<int64_t> extents;
  add_axes(call, c.axes, vars, extents);
  const DType type = call.op.result()->type.dtype;
  Literal result = call.allocate(type, extents);
  if (count_of(extents) == 0) return result;
  if (c.combiner == Combiner::kNone) {
    BlockProgram program(vars, extents, operands.sources, call.bindings);
    program.add_root(c.body->table->cast(type, c.body));
    program.finish();
    for_each_block(call, program, 0, 0, program.count(), [&](int64_t start, int64_t n) {
      store_block(type, result.data(), start, values_of(program, 0, type), n);
    });
    return result;
  }
  const DType accumulator_type = is_arg(c.combiner) ? DType::kI64 : c.accumulate;
  ir::ScalarTable& table = *c.body->table;
  const Scalar finish =
      c.epilogue ? table.cast(type, c.epilogue) : table.cast(type, table.accumulator(accumulator_type));
  auto epilogue = std::make_unique<BlockProgram>(vars, extents, operands.sources, call.bindings);
  epilogue->add_root(finish);
  epilogue->finish();
  const size_t axis_count = vars.size();
  int64_t outputs = count_of(extents);
  int64_t length = 1;
  for (const Axis& r : c.reductions) {
    const int64_t extent = call.value(r.extent);
    if (extent < 0) call.fail(fmt::format("an extent is {}", extent));
    length = saturating_mul(length, extent);
  }
  add_axes(call, c.reductions, vars, extents);
  Reducer{call, c,     operands, std::move(vars), std::move(extents), axis_count, outputs, length, std::move(epilogue),
          type, result}
      .reduce_all();
  return result;
}

namespace {

Value64 combine(Combiner mode, DType t, Value64 old, Value64 value) {
  const Value64 both[] = {old, value};
  switch (mode) {
    case Combiner::kNone: return value;
    case Combiner::kSum: return ir::evaluate_scalar_op(ir::ScalarOp::kAdd, t, both);
    case Combiner::kProd: return ir::evaluate_scalar_op(ir::ScalarOp::kMul, t, both);
    case Combiner::kMin: return ir::evaluate_scalar_op(ir::ScalarOp::kMin, t, both);
    case Combiner::kMax: return ir::evaluate_scalar_op(ir::ScalarOp::kMax, t, both);
    default: break;
  }
  STAX_UNREACHABLE();
}

/// The values of a root at a block's points.
Value64 value_at(const BlockProgram& p, int root, DType t, int64_t i) {
  Value64 v;
  if (ir::is_float(t)) {
    v.f = p.floats(root)[i];
  } else {
    v.i = p.ints(root)[i];
  }
  return v;
}

}  // namespace

Literal evaluate_scatter(const Call& call, const Scatter& s) {
  const Operands operands(call);
  const Literal& data = operands.literals[0];
  const Source& source = operands.sources[0];
  const DType type = call.op.result()->type.dtype;
  Literal result = call.allocate(type, data.extents());
  std::vector<Expr> vars;
  std::vector<int64_t> extents;
  add_axes(call, s.axes, vars, extents);
  for (int64_t e : extents) {
    if (e < 0) call.fail(fmt::format("an extent is {}", e));
  }
  // Sums and products of narrow floats stay in double until the end.
  const int64_t count = data.count();
  std::vector<Value64> wide(count);
  for (int64_t i = 0; i < count; ++i) wide[i] = data.at(i);
  if (count_of(extents) > 0) {
    BlockProgram program(vars, extents, operands.sources, call.bindings);
    std::vector<int> index;
    index.reserve(s.index.size());
    for (Scalar i : s.index) index.push_back(program.add_root(i));
    const int value = program.add_root(s.value->table->cast(type, s.value));
    const int guard = s.guard ? program.add_root(s.guard) : -1;
    program.finish();
    const auto check = [&](int root, int64_t start, int64_t i) {
      const uint16_t* marks = program.faults(root);
      if (marks != nullptr && marks[i] != 0) raise(call, program.describe_fault(root, start + i));
    };
    for (int64_t start = 0; start < program.count();) {
      const int64_t n = program.run(start, program.count() - start);
      for (int64_t i = 0; i < n; ++i) {
        if (guard >= 0) {
          check(guard, start, i);
          if (program.ints(guard)[i] == 0) continue;
        }
        int64_t offset = 0;
        for (size_t k = 0; k < index.size(); ++k) {
          check(index[k], start, i);
          const int64_t at = program.ints(index[k])[i];
          if (at < 0 || at >= source.extents[k]) {
            internal_error("{}: writes at index {} of axis {}, whose extent is {}", call.where(), at, k,
                           source.extents[k]);
          }
          offset += at * source.strides[k];
        }
        check(value, start, i);
        wide[offset] = combine(s.mode, type, wide[offset], value_at(program, value, type, i));
      }
      start += n;
    }
  }
  for (int64_t i = 0; i < count; ++i) result.set(i, wide[i]);
  return result;
}

}  // namespace stax::tensor::reference
