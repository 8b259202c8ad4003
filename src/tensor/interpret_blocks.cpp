// SPDX-License-Identifier: Apache-2.0
#include "tensor/interpret_blocks.h"

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "symbolic/interval.h"
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
  DType type = DType::kI64;  // of the result
  DType from = DType::kI64;  // of the arguments of an op or cast
  ScalarOp op = ScalarOp::kAdd;
  ExprKind expr = ExprKind::kAdd;
  std::vector<int> args;
  ir::Value64 constant{};
  AffineForm affine;  // kAffine; kLoad with affine_load: the offset
  int slot = -1;
  bool affine_load = false;
  bool safe = false;  // a load that cannot be out of bounds
  bool may_fault = false;
  Interval range;  // of an integer result
  // While running:
  int buffer = -1;
  std::unique_ptr<uint16_t[]> marks;
  bool marked = false;  // some point of this block is faulty
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

Interval negate(Interval a) { return symbolic::multiply(a, {-1, -1}); }
bool is_within(Interval inner, Interval outer) { return outer.lo <= inner.lo && inner.hi <= outer.hi; }

}  // namespace

Source Source::of(const Literal& literal) {
  Source s{literal.dtype(), literal.data(), literal.extents(), std::vector<int64_t>(literal.extents().size(), 1)};
  for (int d = literal.rank() - 2; d >= 0; --d) s.strides[d] = saturating_mul(s.strides[d + 1], s.extents[d + 1]);
  return s;
}

struct BlockProgram::Impl {
  std::span<const Source> sources;
  IndexForms forms;
  std::vector<int64_t> extents;  // of the box; merged by `finish`
  std::unordered_map<const ExprNode*, int> step_of_expr;
  std::unordered_map<const ScalarNode*, int> step_of;
  std::vector<Step> steps;
  std::vector<int> roots;
  bool finished = false;

  // While running:
  std::unique_ptr<double[]> storage;
  std::vector<int64_t> position;     // axis values of the block's first point
  std::vector<int64_t> axis_values;  // `capacity` for each axis, where rows are short
  int64_t capacity = kBlockPoints;   // points of a block: fewer where the box has fewer
  bool long_rows = false;
  const void* accumulators = nullptr;
  int64_t accumulator_origin = 0;
  int64_t block_start = 0;
  std::vector<int64_t> offsets;

  Impl(std::span<const Source> s, IndexForms f, std::vector<int64_t> e)
      : sources(s), forms(std::move(f)), extents(std::move(e)) {}

  template <class T>
  T* buffer(const Step& s) {
    return reinterpret_cast<T*>(storage.get() + static_cast<size_t>(s.buffer * capacity));
  }

  int add_step(Step s) {
    for (int a : s.args) s.may_fault = s.may_fault || steps[a].may_fault;
    steps.push_back(std::move(s));
    return static_cast<int>(steps.size()) - 1;
  }

  int step_of_index(Expr e) {
    if (const auto found = step_of_expr.find(e.node()); found != step_of_expr.end()) return found->second;
    const IndexForm& form = forms.of(e);
    Step s;
    s.range = form.range;
    if (form.affine) {
      s.kind = StepKind::kAffine;
      s.affine = *form.affine;
    } else {
      s.kind = StepKind::kExpr;
      s.expr = form.kind;
      for (Expr a : form.args) s.args.push_back(step_of_index(a));
    }
    const int step = add_step(std::move(s));
    step_of_expr.emplace(e.node(), step);
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
      case ScalarOp::kAdd: r = symbolic::add(arg(0), arg(1)); break;
      case ScalarOp::kSub: r = symbolic::add(arg(0), negate(arg(1))); break;
      case ScalarOp::kMul: r = symbolic::multiply(arg(0), arg(1)); break;
      case ScalarOp::kMin: r = {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)}; break;
      case ScalarOp::kMax: r = {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)}; break;
      case ScalarOp::kSelect: r = symbolic::hull(arg(1), arg(2)); break;
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
    STAX_ASSERT(x->slot >= 0 && static_cast<size_t>(x->slot) < sources.size(), "load from operand {} of {}", x->slot,
                sources.size());
    const Source& source = sources[x->slot];
    STAX_ASSERT(source.extents.size() == x->args.size(), "a load from operand {} has {} indices, its rank is {}",
                x->slot, x->args.size(), source.extents.size());
    bool all_affine = true, safe = true;
    AffineForm offset = forms.constant(0);
    for (size_t k = 0; k < x->args.size(); ++k) {
      Interval range;
      const Expr e = ir::as_expr(x->args[k]);
      if (e) {
        const IndexForm& f = forms.of(e);
        range = f.range;
        if (f.affine) {
          offset.base = saturating_add(offset.base, saturating_mul(f.affine->base, source.strides[k]));
          for (size_t d = 0; d < extents.size(); ++d) {
            offset.coefficients[d] =
                saturating_add(offset.coefficients[d], saturating_mul(f.affine->coefficients[d], source.strides[k]));
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
        mergeable =
            mergeable && (extents[d] == 1 || extents[d + 1] == 1 || c[d] == saturating_mul(c[d + 1], extents[d + 1]));
      }
      if (!mergeable) {
        ++d;
        continue;
      }
      const size_t gone = extents[d + 1] == 1 ? d + 1 : d;
      extents[gone == d ? d + 1 : d] = extents[d] * extents[d + 1];
      extents.erase(extents.begin() + gone);
      for (Step& s : steps) {
        if (s.kind == StepKind::kAffine || s.affine_load)
          s.affine.coefficients.erase(s.affine.coefficients.begin() + gone);
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
    storage = std::make_unique_for_overwrite<double[]>(static_cast<size_t>(std::max(used, 1) * capacity));
    for (Step& s : steps) {
      if (s.may_fault) s.marks = std::make_unique<uint16_t[]>(static_cast<size_t>(capacity));
      if (s.kind == StepKind::kConstant && is_float(s.type)) {
        std::fill_n(buffer<double>(s), capacity, s.constant.f);
      } else if (s.kind == StepKind::kConstant) {
        std::fill_n(buffer<int64_t>(s), capacity, s.constant.i);
      } else if (is_fixed(s)) {
        std::fill_n(buffer<int64_t>(s), capacity, s.affine.base);
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
    const int64_t n = std::min(limit, capacity);
    if (extents.empty()) return 1;
    if (long_rows) return std::min(n, extents.back() - position.back());
    std::vector<int64_t> p = position;
    for (int64_t i = 0; i < n; ++i) {
      for (size_t d = 0; d < p.size(); ++d) axis_values[d * capacity + i] = p[d];
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
      const int64_t* __restrict values = axis_values.data() + d * capacity;
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
        x.reserve(s.args.size());
        for (int a : s.args) x.push_back(buffer<int64_t>(steps[a]));
        evaluate_expr_block(s.expr, x, buffer<int64_t>(s), n);
        return;
      }
      case StepKind::kLoad: return run_load(s, mark, n);
      case StepKind::kAccumulator:
        std::copy_n(static_cast<const uint64_t*>(accumulators) + (block_start - accumulator_origin), n,
                    buffer<uint64_t>(s));
        return;
      case StepKind::kOp: {
        if (s.op == ScalarOp::kCheckedIndex) return run_checked_index(s, mark, n);
        const void* x[3] = {};
        for (size_t k = 0; k < s.args.size(); ++k) x[k] = buffer<double>(steps[s.args[k]]);
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

BlockProgram::BlockProgram(const std::vector<Expr>& vars, const std::vector<int64_t>& extents,
                           std::span<const Source> sources, const Bindings& bindings)
    : impl_(std::make_unique<Impl>(sources, IndexForms(vars, extents, bindings), extents)) {
  for (int64_t e : impl_->extents) count_ = saturating_mul(count_, e);
}

BlockProgram::~BlockProgram() = default;

int BlockProgram::add_root(Scalar root) {
  impl_->roots.push_back(impl_->compile(root));
  return static_cast<int>(impl_->roots.size()) - 1;
}

std::optional<AffineForm> BlockProgram::affine(Expr e) { return impl_->forms.of(e).affine; }
bool BlockProgram::may_fault(int root) const { return impl_->steps[impl_->roots[root]].may_fault; }
Interval BlockProgram::range(int root) const { return impl_->steps[impl_->roots[root]].range; }

void BlockProgram::finish() {
  Impl& p = *impl_;
  STAX_ASSERT(p.steps.size() < 0xFFFF, "a body of {} nodes", p.steps.size());
  p.merge_axes();
  p.long_rows = !p.extents.empty() && (p.extents.size() == 1 || p.extents.back() >= kLongRow);
  p.position.assign(p.extents.size(), 0);
  p.capacity = std::clamp<int64_t>(count_, 1, kBlockPoints);
  if (!p.long_rows) p.axis_values.resize(p.extents.size() * p.capacity);
  p.offsets.resize(p.capacity);
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
