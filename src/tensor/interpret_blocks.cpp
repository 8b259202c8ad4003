// SPDX-License-Identifier: Apache-2.0
#include "tensor/interpret_blocks.h"

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/interpret_block_ops.h"

namespace stax::tensor::reference {

using ir::ScalarKind;
using ir::ScalarNode;
using ir::ScalarOp;
using symbolic::ExprKind;
using symbolic::ExprNode;
using symbolic::Interval;
using symbolic::kNegInf;
using symbolic::kPosInf;
using symbolic::saturating_add;
using symbolic::saturating_mul;

namespace {

// A row at least this long is worth a block of its own; shorter ones share blocks.
constexpr int64_t kLongRow = 32;

enum class StepKind : uint8_t { kConstant, kAffine, kExpr, kLoad, kAccumulator, kOp, kCast };

struct Step {
  StepKind kind = StepKind::kConstant;
  DType type = DType::kI64;       // of the result
  DType from = DType::kI64;       // of the arguments of an op or cast
  ScalarOp op = ScalarOp::kAdd;
  ExprKind expr = ExprKind::kAdd;
  std::vector<int> args;
  ir::Value64 constant{};
  AffineForm affine;              // kAffine; kLoad with affine_load: the offset
  int slot = -1;
  bool affine_load = false;
  bool safe = false;              // a load that cannot be out of bounds
  bool may_fault = false;
  Interval range;                 // of an integer result
  // While running:
  int buffer = -1;
  std::unique_ptr<uint16_t[]> marks;
  bool marked = false;            // some point of this block is faulty
};

/// An index expression over the box: affine, or the step that computes it.
struct Form {
  std::optional<AffineForm> affine;
  ExprKind kind = ExprKind::kConstant;
  std::vector<Expr> args;  // where it is not affine
  Interval range;
  int step = -1;
};

Interval dtype_range(DType t) {
  switch (t) {
    case DType::kBool: return {0, 1};
    case DType::kI8: return {-128, 127};
    case DType::kU8: return {0, 255};
    case DType::kI16: return {-32768, 32767};
    case DType::kU16: return {0, 65535};
    case DType::kI32: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::kU32: return {0, std::numeric_limits<uint32_t>::max()};
    default: return {};
  }
}

Interval add(Interval a, Interval b) { return {saturating_add(a.lo, b.lo), saturating_add(a.hi, b.hi)}; }
Interval negate(Interval a) { return {saturating_mul(a.hi, -1), saturating_mul(a.lo, -1)}; }
Interval multiply(Interval a, Interval b) {
  const int64_t p[] = {saturating_mul(a.lo, b.lo), saturating_mul(a.lo, b.hi), saturating_mul(a.hi, b.lo),
                       saturating_mul(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
bool is_within(Interval inner, Interval outer) { return outer.lo <= inner.lo && inner.hi <= outer.hi; }
Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

/// Bounds of a non-affine expression from those of its arguments.
Interval expr_range(ExprKind kind, const std::vector<Interval>& x) {
  switch (kind) {
    case ExprKind::kAdd: {
      Interval sum{0, 0};
      for (Interval each : x) sum = add(sum, each);
      return sum;
    }
    case ExprKind::kMul: {
      Interval product{1, 1};
      for (Interval each : x) product = multiply(product, each);
      return product;
    }
    case ExprKind::kMin: {
      Interval r = x[0];
      for (Interval each : x) r = {std::min(r.lo, each.lo), std::min(r.hi, each.hi)};
      return r;
    }
    case ExprKind::kMax: {
      Interval r = x[0];
      for (Interval each : x) r = {std::max(r.lo, each.lo), std::max(r.hi, each.hi)};
      return r;
    }
    case ExprKind::kFloorDiv:
      if (x[1].is_constant() && x[1].lo > 0 && x[0].lo != kNegInf && x[0].hi != kPosInf) {
        return {symbolic::floor_div(x[0].lo, x[1].lo), symbolic::floor_div(x[0].hi, x[1].lo)};
      }
      return {};
    case ExprKind::kMod:
      if (x[1].is_constant() && x[1].lo > 0) {
        if (x[0].lo >= 0 && x[0].hi < x[1].lo) return x[0];
        return {0, x[1].lo - 1};
      }
      return {};
    case ExprKind::kLess:
      if (x[0].hi < x[1].lo) return {1, 1};
      if (x[0].lo >= x[1].hi) return {0, 0};
      return {0, 1};
    case ExprKind::kEqual:
      if (x[0].hi < x[1].lo || x[1].hi < x[0].lo) return {0, 0};
      return {0, 1};
    case ExprKind::kSelect:
      if (x[0] == Interval{0, 0}) return x[2];
      if (x[0].lo > 0) return x[1];
      return hull(x[1], x[2]);
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

void evaluate_expr_block(ExprKind kind, const std::vector<const int64_t*>& x, int64_t* out, int64_t n) {
  switch (kind) {
    case ExprKind::kAdd:
      for (int64_t i = 0; i < n; ++i) {
        int64_t sum = x[0][i];
        for (size_t k = 1; k < x.size(); ++k) sum = saturating_add(sum, x[k][i]);
        out[i] = sum;
      }
      return;
    case ExprKind::kMul:
      for (int64_t i = 0; i < n; ++i) {
        int64_t product = x[0][i];
        for (size_t k = 1; k < x.size(); ++k) product = saturating_mul(product, x[k][i]);
        out[i] = product;
      }
      return;
    case ExprKind::kFloorDiv:
      for (int64_t i = 0; i < n; ++i) out[i] = symbolic::floor_div(x[0][i], x[1][i]);
      return;
    case ExprKind::kMod:
      for (int64_t i = 0; i < n; ++i) out[i] = symbolic::floor_mod(x[0][i], x[1][i]);
      return;
    case ExprKind::kMin:
      for (int64_t i = 0; i < n; ++i) {
        out[i] = x[0][i];
        for (size_t k = 1; k < x.size(); ++k) out[i] = std::min(out[i], x[k][i]);
      }
      return;
    case ExprKind::kMax:
      for (int64_t i = 0; i < n; ++i) {
        out[i] = x[0][i];
        for (size_t k = 1; k < x.size(); ++k) out[i] = std::max(out[i], x[k][i]);
      }
      return;
    case ExprKind::kLess:
      for (int64_t i = 0; i < n; ++i) out[i] = x[0][i] < x[1][i];
      return;
    case ExprKind::kEqual:
      for (int64_t i = 0; i < n; ++i) out[i] = x[0][i] == x[1][i];
      return;
    case ExprKind::kSelect:
      for (int64_t i = 0; i < n; ++i) out[i] = x[0][i] != 0 ? x[1][i] : x[2][i];
      return;
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

}  // namespace

Source Source::of(const Literal& literal) {
  Source s{literal.dtype(), literal.data(), literal.extents(), std::vector<int64_t>(literal.extents().size(), 1)};
  for (int d = literal.rank() - 2; d >= 0; --d) s.strides[d] = saturating_mul(s.strides[d + 1], s.extents[d + 1]);
  return s;
}

bool AffineForm::is_constant() const {
  return std::all_of(coefficients.begin(), coefficients.end(), [](int64_t c) { return c == 0; });
}

struct BlockProgram::Impl {
  std::span<const Source> sources;
  const Bindings& bindings;
  std::vector<int64_t> extents;
  std::unordered_map<const ExprNode*, int> axis_of;
  std::unordered_map<const ExprNode*, Form> forms;
  std::unordered_map<const ScalarNode*, int> step_of;
  std::vector<Step> steps;
  std::vector<int> roots;
  bool finished = false;

  // While running:
  std::unique_ptr<double[]> storage;
  std::vector<int64_t> position;               // axis values of the block's first point
  std::vector<int64_t> axis_values;            // kBlockPoints for each axis, where rows are short
  bool long_rows = false;
  const void* accumulators = nullptr;
  int64_t accumulator_origin = 0;
  int64_t block_start = 0;
  std::vector<int64_t> offsets;

  Impl(std::span<const Source> s, const Bindings& b) : sources(s), bindings(b) {}

  template <class T>
  T* buffer(const Step& s) {
    return reinterpret_cast<T*>(storage.get() + static_cast<size_t>(s.buffer) * kBlockPoints);
  }

  // ---- index expressions

  AffineForm constant_form(int64_t v) const { return {v, std::vector<int64_t>(extents.size(), 0), {v, v}}; }

  void set_range(AffineForm& f) const {
    f.range = {f.base, f.base};
    for (size_t d = 0; d < extents.size(); ++d) {
      if (f.coefficients[d] != 0) f.range = add(f.range, multiply({f.coefficients[d], f.coefficients[d]}, {0, extents[d] - 1}));
    }
  }

  Form& form(Expr e) {
    if (const auto found = forms.find(e.node()); found != forms.end()) return found->second;
    Form f = make_form(e);
    if (f.affine) f.range = f.affine->range;
    return forms.emplace(e.node(), std::move(f)).first->second;
  }

  Form make_form(Expr e) {
    Form f;
    if (const auto axis = axis_of.find(e.node()); axis != axis_of.end()) {
      f.affine = constant_form(0);
      f.affine->coefficients[axis->second] = 1;
      set_range(*f.affine);
      return f;
    }
    if (e.is_constant()) {
      f.affine = constant_form(e.constant());
      return f;
    }
    if (e.is_symbol()) {
      f.affine = constant_form(symbolic::evaluate(e, bindings));
      return f;
    }
    std::vector<const Form*> args;
    std::vector<Interval> ranges;
    bool all_affine = true, all_constant = true;
    for (Expr a : e.args()) {
      args.push_back(&form(a));
      ranges.push_back(args.back()->range);
      all_affine = all_affine && args.back()->affine;
      all_constant = all_constant && args.back()->affine && args.back()->affine->is_constant();
    }
    if (all_constant) {
      std::vector<int64_t> values;
      for (const Form* a : args) values.push_back(a->affine->base);
      f.affine = constant_form(symbolic::apply(e.kind(), values));
      return f;
    }
    if (all_affine) f.affine = combine(e.kind(), args, ranges);
    if (!f.affine && e.kind() == ExprKind::kSelect && ranges[0].is_constant()) {
      return *args[ranges[0].lo != 0 ? 1 : 2];
    }
    if (f.affine) return f;
    f.range = expr_range(e.kind(), ranges);
    if (f.range.is_constant()) {
      f.affine = constant_form(f.range.lo);
      return f;
    }
    f.kind = e.kind();
    f.args.assign(e.args().begin(), e.args().end());
    return f;
  }

  /// The affine form of an operation on affine forms, or nullopt. A form whose bounds reach the ends of int64 is computed
  /// point by point, as saturation is not affine.
  std::optional<AffineForm> combine(ExprKind kind, const std::vector<const Form*>& args, const std::vector<Interval>& x) const {
    AffineForm r = constant_form(0);
    switch (kind) {
      case ExprKind::kAdd:
        for (const Form* a : args) {
          r.base = saturating_add(r.base, a->affine->base);
          for (size_t d = 0; d < extents.size(); ++d) {
            r.coefficients[d] = saturating_add(r.coefficients[d], a->affine->coefficients[d]);
          }
        }
        break;
      case ExprKind::kMul: {
        int64_t factor = 1;
        const AffineForm* varying = nullptr;
        for (const Form* a : args) {
          if (a->affine->is_constant()) {
            factor = saturating_mul(factor, a->affine->base);
          } else if (varying == nullptr) {
            varying = &*a->affine;
          } else {
            return std::nullopt;
          }
        }
        r.base = saturating_mul(varying->base, factor);
        for (size_t d = 0; d < extents.size(); ++d) r.coefficients[d] = saturating_mul(varying->coefficients[d], factor);
        break;
      }
      case ExprKind::kMod:
        if (x[1].is_constant() && x[0].lo >= 0 && x[0].hi < x[1].lo) return args[0]->affine;
        return std::nullopt;
      case ExprKind::kFloorDiv:
        if (x[1].is_constant() && x[1].lo == 1) return args[0]->affine;
        return std::nullopt;
      case ExprKind::kMin:
      case ExprKind::kMax:
        for (size_t k = 0; k < args.size(); ++k) {
          bool wins = true;
          for (size_t j = 0; j < args.size(); ++j) {
            wins = wins && (j == k || (kind == ExprKind::kMin ? x[k].hi <= x[j].lo : x[k].lo >= x[j].hi));
          }
          if (wins) return args[k]->affine;
        }
        return std::nullopt;
      case ExprKind::kSelect:
        if (x[0].is_constant()) return args[x[0].lo != 0 ? 1 : 2]->affine;
        return std::nullopt;
      default: return std::nullopt;
    }
    set_range(r);
    if (r.range.lo == kNegInf || r.range.hi == kPosInf) return std::nullopt;
    return r;
  }

  int add_step(Step s) {
    for (int a : s.args) s.may_fault = s.may_fault || steps[a].may_fault;
    if (s.may_fault) s.marks = std::make_unique<uint16_t[]>(kBlockPoints);
    steps.push_back(std::move(s));
    return static_cast<int>(steps.size()) - 1;
  }

  int step_of_index(Expr e) {
    if (form(e).step >= 0) return form(e).step;
    Step s;
    s.range = form(e).range;
    if (form(e).affine) {
      s.kind = StepKind::kAffine;
      s.affine = *form(e).affine;
    } else {
      s.kind = StepKind::kExpr;
      s.expr = form(e).kind;
      const std::vector<Expr> args = form(e).args;
      for (Expr a : args) s.args.push_back(step_of_index(a));
    }
    const int step = add_step(std::move(s));
    form(e).step = step;
    return step;
  }

  // ---- scalars

  int compile(Scalar x) {
    if (const auto found = step_of.find(x.node()); found != step_of.end()) return found->second;
    const int step = compile_new(x);
    step_of.emplace(x.node(), step);
    return step;
  }

  int compile_new(Scalar x) {
    Step s;
    s.type = x->dtype;
    s.range = dtype_range(x->dtype);
    switch (x->kind) {
      case ScalarKind::kConstant:
        if (is_float(x->dtype)) {
          s.constant.f = x->as_double();
        } else {
          s.constant.i = x->as_int();
          s.range = {s.constant.i, s.constant.i};
        }
        return add_step(std::move(s));
      case ScalarKind::kIndex: return step_of_index(x->index);
      case ScalarKind::kLoad: return compile_load(x);
      case ScalarKind::kAccumulator: s.kind = StepKind::kAccumulator; return add_step(std::move(s));
      case ScalarKind::kOp:
        s.kind = StepKind::kOp;
        s.op = x->op;
        for (Scalar a : x->args) s.args.push_back(compile(a));
        s.from = x->args.back()->dtype;
        if (is_integer(x->dtype)) s.range = op_range(s);
        if (x->op == ScalarOp::kCheckedIndex) s.may_fault = true;
        return add_step(std::move(s));
      case ScalarKind::kCast:
        s.kind = StepKind::kCast;
        s.args = {compile(x->args[0])};
        s.from = x->args[0]->dtype;
        if (!is_float(s.from) && is_within(steps[s.args[0]].range, s.range)) s.range = steps[s.args[0]].range;
        return add_step(std::move(s));
    }
    STAX_UNREACHABLE();
  }

  Interval op_range(const Step& s) const {
    const Interval all = dtype_range(s.type);
    const auto arg = [&](int k) { return steps[s.args[k]].range; };
    Interval r = all;
    switch (s.op) {
      case ScalarOp::kAdd: r = add(arg(0), arg(1)); break;
      case ScalarOp::kSub: r = add(arg(0), negate(arg(1))); break;
      case ScalarOp::kMul: r = multiply(arg(0), arg(1)); break;
      case ScalarOp::kMin: r = {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)}; break;
      case ScalarOp::kMax: r = {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)}; break;
      case ScalarOp::kSelect: r = hull(arg(1), arg(2)); break;
      case ScalarOp::kCheckedIndex: return {0, std::max<int64_t>(arg(1).hi == kPosInf ? kPosInf : arg(1).hi - 1, 0)};
      default: break;
    }
    // Past the ends it wraps; 64-bit arithmetic here saturates instead, so its ends are no bounds.
    const bool sound = s.type == DType::kU64 ? false : is_within(r, all) && r.lo != kNegInf && r.hi != kPosInf;
    return sound ? r : all;
  }

  int compile_load(Scalar x) {
    Step s;
    s.kind = StepKind::kLoad;
    s.type = x->dtype;
    s.range = dtype_range(x->dtype);
    s.slot = x->slot;
    STAX_ASSERT(x->slot >= 0 && static_cast<size_t>(x->slot) < sources.size(), "load from operand {} of {}", x->slot, sources.size());
    const Source& source = sources[x->slot];
    STAX_ASSERT(source.extents.size() == x->args.size(), "a load from operand {} has {} indices, its rank is {}", x->slot,
                x->args.size(), source.extents.size());
    bool all_affine = true, safe = true;
    AffineForm offset = constant_form(0);
    for (size_t k = 0; k < x->args.size(); ++k) {
      Interval range;
      const Expr e = ir::as_expr(x->args[k]);
      if (e) {
        Form& f = form(e);
        range = f.range;
        if (f.affine) {
          offset.base = saturating_add(offset.base, saturating_mul(f.affine->base, source.strides[k]));
          for (size_t d = 0; d < extents.size(); ++d) {
            offset.coefficients[d] = saturating_add(offset.coefficients[d], saturating_mul(f.affine->coefficients[d], source.strides[k]));
          }
        } else {
          all_affine = false;
        }
      } else {
        all_affine = false;
        range = steps[compile(x->args[k])].range;
      }
      safe = safe && is_within(range, {0, source.extents[k] - 1});
    }
    s.safe = safe;
    s.affine_load = safe && all_affine;
    if (s.affine_load) {
      s.affine = offset;
    } else {
      for (Scalar a : x->args) s.args.push_back(compile(a));
      s.may_fault = !safe;
    }
    return add_step(std::move(s));
  }

  // ---- layout of the box and of the buffers

  /// Merges neighbouring axes which all affine forms walk through as if they were one.
  void merge_axes() {
    for (size_t d = 0; d + 1 < extents.size();) {
      bool mergeable = true;
      for (const Step& s : steps) {
        if (s.kind != StepKind::kAffine && !s.affine_load) continue;
        const std::vector<int64_t>& c = s.affine.coefficients;
        // An axis of extent 1 has no steps to speak of.
        mergeable = mergeable && (extents[d] == 1 || extents[d + 1] == 1 || c[d] == saturating_mul(c[d + 1], extents[d + 1]));
      }
      if (!mergeable) {
        ++d;
        continue;
      }
      const size_t gone = extents[d + 1] == 1 ? d + 1 : d;
      extents[gone == d ? d + 1 : d] = extents[d] * extents[d + 1];
      extents.erase(extents.begin() + gone);
      for (Step& s : steps) {
        if (s.kind == StepKind::kAffine || s.affine_load) s.affine.coefficients.erase(s.affine.coefficients.begin() + gone);
      }
      if (d > 0) --d;
    }
  }

  void assign_buffers(bool reuse) {
    std::vector<int> last_use(steps.size(), -1);
    for (size_t k = 0; k < steps.size(); ++k) {
      last_use[k] = std::max(last_use[k], static_cast<int>(k));
      for (int a : steps[k].args) last_use[a] = static_cast<int>(k);
    }
    for (int r : roots) last_use[r] = static_cast<int>(steps.size());
    std::vector<int> free;
    int used = 0;
    const auto is_fixed = [](const Step& s) {
      return s.kind == StepKind::kConstant || (s.kind == StepKind::kAffine && s.affine.is_constant());
    };
    std::vector<std::vector<int>> ends(steps.size() + 1);
    for (size_t k = 0; k < steps.size(); ++k) {
      Step& s = steps[k];
      if (!free.empty() && !is_fixed(s)) {
        s.buffer = free.back();
        free.pop_back();
      } else {
        s.buffer = used++;
      }
      if (reuse && !is_fixed(s)) ends[last_use[k]].push_back(s.buffer);
      for (int b : ends[k]) free.push_back(b);
    }
    storage = std::make_unique<double[]>(static_cast<size_t>(std::max(used, 1)) * kBlockPoints);
    for (Step& s : steps) {
      if (s.kind == StepKind::kConstant && is_float(s.type)) {
        std::fill_n(buffer<double>(s), kBlockPoints, s.constant.f);
      } else if (s.kind == StepKind::kConstant) {
        std::fill_n(buffer<int64_t>(s), kBlockPoints, s.constant.i);
      } else if (is_fixed(s)) {
        std::fill_n(buffer<int64_t>(s), kBlockPoints, s.affine.base);
      }
    }
  }

  // ---- running

  int64_t place(int64_t start, int64_t limit) {
    block_start = start;
    int64_t rest = start;
    for (size_t d = extents.size(); d-- > 0;) {
      position[d] = rest % extents[d];
      rest /= extents[d];
    }
    int64_t n = std::min(limit, kBlockPoints);
    if (extents.empty()) return 1;
    if (long_rows) return std::min(n, extents.back() - position.back());
    std::vector<int64_t> p = position;
    for (int64_t i = 0; i < n; ++i) {
      for (size_t d = 0; d < p.size(); ++d) axis_values[d * kBlockPoints + i] = p[d];
      for (size_t d = p.size(); d-- > 0;) {
        if (++p[d] < extents[d]) break;
        p[d] = 0;
      }
    }
    return n;
  }

  /// Value at the block's first point and step from point to point, where rows are long.
  std::pair<int64_t, int64_t> along_row(const AffineForm& f) const {
    int64_t first = f.base;
    for (size_t d = 0; d < extents.size(); ++d) first += f.coefficients[d] * position[d];
    return {first, extents.empty() ? 0 : f.coefficients.back()};
  }

  void evaluate_affine(const AffineForm& f, int64_t* out, int64_t n) const {
    if (long_rows || extents.empty()) {
      const auto [first, step] = along_row(f);
      for (int64_t i = 0; i < n; ++i) out[i] = first + step * i;
      return;
    }
    std::fill_n(out, n, f.base);
    for (size_t d = 0; d < extents.size(); ++d) {
      const int64_t c = f.coefficients[d];
      if (c == 0) continue;
      const int64_t* __restrict values = axis_values.data() + d * kBlockPoints;
      for (int64_t i = 0; i < n; ++i) out[i] += c * values[i];
    }
  }

  void run_steps(int64_t n) {
    for (size_t k = 0; k < steps.size(); ++k) run_step(steps[k], static_cast<uint16_t>(k + 1), n);
  }

  void run_step(Step& s, uint16_t mark, int64_t n) {
    s.marked = false;
    if (s.may_fault) inherit_marks(s, n);
    switch (s.kind) {
      case StepKind::kConstant: return;
      case StepKind::kAffine:
        if (!s.affine.is_constant()) evaluate_affine(s.affine, buffer<int64_t>(s), n);
        return;
      case StepKind::kExpr: {
        std::vector<const int64_t*> x;
        for (int a : s.args) x.push_back(buffer<int64_t>(steps[a]));
        evaluate_expr_block(s.expr, x, buffer<int64_t>(s), n);
        return;
      }
      case StepKind::kLoad: return run_load(s, mark, n);
      case StepKind::kAccumulator:
        std::copy_n(static_cast<const uint64_t*>(accumulators) + (block_start - accumulator_origin), n, buffer<uint64_t>(s));
        return;
      case StepKind::kOp: {
        if (s.op == ScalarOp::kCheckedIndex) return run_checked_index(s, mark, n);
        const void* x[3] = {};
        for (size_t k = 0; k < s.args.size(); ++k) x[k] = buffer<void*>(steps[s.args[k]]);
        apply_op_block(s.op, s.from, x, buffer<double>(s), n);
        return;
      }
      case StepKind::kCast:
        apply_cast_block(s.type, s.from, buffer<double>(steps[s.args[0]]), buffer<double>(s), n);
        return;
    }
  }

  void run_load(Step& s, uint16_t mark, int64_t n) {
    const Source& source = sources[s.slot];
    if (s.affine_load && (long_rows || extents.empty())) {
      const auto [first, step] = along_row(s.affine);
      load_strided_block(s.type, source.data, first, step, buffer<double>(s), n);
      return;
    }
    if (s.affine_load) {
      evaluate_affine(s.affine, offsets.data(), n);
    } else {
      std::fill_n(offsets.data(), n, 0);
      for (size_t k = 0; k < s.args.size(); ++k) {
        const int64_t* __restrict index = buffer<int64_t>(steps[s.args[k]]);
        const int64_t stride = source.strides[k];
        if (s.safe) {
          for (int64_t i = 0; i < n; ++i) offsets[i] += index[i] * stride;
          continue;
        }
        const auto extent = static_cast<uint64_t>(source.extents[k]);
        for (int64_t i = 0; i < n; ++i) {
          if (static_cast<uint64_t>(index[i]) < extent) {
            offsets[i] += index[i] * stride;
          } else {
            set_mark(s, i, mark, n);
          }
        }
      }
      // Of a tensor without elements nothing can be read; every point is marked.
      if (!s.safe && std::find(source.extents.begin(), source.extents.end(), 0) != source.extents.end()) {
        std::fill_n(buffer<int64_t>(s), n, 0);
        return;
      }
    }
    load_gathered_block(s.type, source.data, offsets.data(), buffer<double>(s), n);
  }

  void run_checked_index(Step& s, uint16_t mark, int64_t n) {
    const int64_t* index = buffer<int64_t>(steps[s.args[0]]);
    const int64_t* extent = buffer<int64_t>(steps[s.args[1]]);
    int64_t* out = buffer<int64_t>(s);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = index[i] < 0 ? index[i] + extent[i] : index[i];
      const bool inside = v >= 0 && v < extent[i];
      out[i] = inside ? v : 0;
      if (!inside) set_mark(s, i, mark, n);
    }
  }

  void set_mark(Step& s, int64_t i, uint16_t mark, int64_t n) {
    if (!s.marked) {
      s.marked = true;
      std::fill_n(s.marks.get(), n, 0);
    }
    if (s.marks[i] == 0) s.marks[i] = mark;
  }

  void inherit_marks(Step& s, int64_t n) {
    const bool is_select = s.kind == StepKind::kOp && s.op == ScalarOp::kSelect;
    for (size_t k = 0; k < s.args.size(); ++k) {
      const Step& a = steps[s.args[k]];
      if (!a.marked) continue;
      const int64_t* condition = is_select ? buffer<int64_t>(steps[s.args[0]]) : nullptr;
      for (int64_t i = 0; i < n; ++i) {
        if (a.marks[i] == 0) continue;
        if (is_select && k > 0 && (condition[i] != 0) != (k == 1)) continue;
        set_mark(s, i, a.marks[i], n);
      }
    }
  }
};

BlockProgram::BlockProgram(std::vector<Expr> vars, std::vector<int64_t> extents, std::span<const Source> sources, const Bindings& bindings)
    : impl_(std::make_unique<Impl>(sources, bindings)) {
  impl_->extents = std::move(extents);
  for (size_t d = 0; d < vars.size(); ++d) {
    if (vars[d]) impl_->axis_of.emplace(vars[d].node(), static_cast<int>(d));
  }
  for (int64_t e : impl_->extents) count_ = saturating_mul(count_, e);
}

BlockProgram::~BlockProgram() = default;

int BlockProgram::add_root(Scalar root) {
  impl_->roots.push_back(impl_->compile(root));
  return static_cast<int>(impl_->roots.size()) - 1;
}

std::optional<AffineForm> BlockProgram::affine(Expr e) { return impl_->form(e).affine; }
bool BlockProgram::may_fault(int root) const { return impl_->steps[impl_->roots[root]].may_fault; }
Interval BlockProgram::range(int root) const { return impl_->steps[impl_->roots[root]].range; }

void BlockProgram::finish() {
  Impl& p = *impl_;
  STAX_ASSERT(p.steps.size() < 0xFFFF, "a body of {} nodes", p.steps.size());
  p.merge_axes();
  p.long_rows = !p.extents.empty() && (p.extents.size() == 1 || p.extents.back() >= kLongRow);
  p.position.assign(p.extents.size(), 0);
  if (!p.long_rows) p.axis_values.resize(p.extents.size() * kBlockPoints);
  p.offsets.resize(kBlockPoints);
  p.assign_buffers(true);
  p.finished = true;
}

void BlockProgram::set_accumulators(const void* values, int64_t origin) {
  impl_->accumulators = values;
  impl_->accumulator_origin = origin;
}

int64_t BlockProgram::run(int64_t start, int64_t limit) {
  const int64_t n = impl_->place(start, limit);
  impl_->run_steps(n);
  return n;
}

const double* BlockProgram::floats(int root) const { return impl_->buffer<double>(impl_->steps[impl_->roots[root]]); }
const int64_t* BlockProgram::ints(int root) const { return impl_->buffer<int64_t>(impl_->steps[impl_->roots[root]]); }

const uint16_t* BlockProgram::faults(int root) const {
  const Step& s = impl_->steps[impl_->roots[root]];
  return s.marked ? s.marks.get() : nullptr;
}

Fault BlockProgram::describe_fault(int root, int64_t linear) {
  // Once more, for this point alone and with a buffer for each step, so that the culprit's arguments are still there.
  impl_->assign_buffers(false);
  run(linear, 1);
  const uint16_t* marks = faults(root);
  STAX_ASSERT(marks != nullptr && marks[0] != 0);
  const Step& s = impl_->steps[marks[0] - 1];
  Fault fault;
  if (s.kind == StepKind::kOp) {
    fault.checked_index = true;
    fault.index = impl_->buffer<int64_t>(impl_->steps[s.args[0]])[0];
    fault.extent = impl_->buffer<int64_t>(impl_->steps[s.args[1]])[0];
    return fault;
  }
  fault.slot = s.slot;
  for (size_t k = 0; k < s.args.size(); ++k) {
    fault.index = impl_->buffer<int64_t>(impl_->steps[s.args[k]])[0];
    fault.extent = impl_->sources[s.slot].extents[k];
    fault.axis = static_cast<int>(k);
    if (fault.index < 0 || fault.index >= fault.extent) break;
  }
  return fault;
}

}  // namespace stax::tensor::reference
