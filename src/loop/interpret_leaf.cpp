// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_leaf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "loop/access.h"
#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::loop {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::ExprKind;

// ---- Integers outside of the box

int Machine::variable(Expr var) {
  const auto [found, is_new] = variables.try_emplace(var.node(), static_cast<int>(values.size()));
  if (is_new) values.push_back(0);
  return found->second;
}

int IntProgram::constant(int64_t value) {
  const auto [found, is_new] = constants_.try_emplace(value, static_cast<int>(values_.size()));
  if (is_new) {
    instructions_.push_back({});
    values_.push_back(value);
  }
  return found->second;
}

int IntProgram::variable(Expr var) {
  Instruction in{ExprKind::kSymbol, {machine_.variable(var), 0, 0}};
  varying_.push_back(static_cast<int>(values_.size()));
  instructions_.push_back(in);
  values_.push_back(0);
  return varying_.back();
}

int IntProgram::apply(ExprKind kind, const std::vector<int>& args) {
  if (std::all_of(args.begin(), args.end(), [&](int a) { return is_constant(a); })) {
    std::vector<int64_t> values;
    for (int a : args) values.push_back(values_[a]);
    return constant(symbolic::apply(kind, values));
  }
  if (kind == ExprKind::kMul && is_constant(args[1]) && values_[args[1]] == 1) return args[0];
  if (kind == ExprKind::kAdd && is_constant(args[1]) && values_[args[1]] == 0) return args[0];
  if (kind == ExprKind::kAdd && is_constant(args[0]) && values_[args[0]] == 0) return args[1];
  Instruction in{kind, {0, 0, 0}};
  std::copy(args.begin(), args.end(), in.args);
  varying_.push_back(static_cast<int>(values_.size()));
  instructions_.push_back(in);
  values_.push_back(0);
  return varying_.back();
}

int IntProgram::expr(Expr e) {
  if (const auto found = known_.find(e.node()); found != known_.end()) return found->second;
  int number = 0;
  if (e.is_constant()) {
    number = constant(e.constant());
  } else if (e.is_symbol()) {
    const auto param = machine_.params.find(e.node());
    number = param != machine_.params.end() ? constant(param->second) : variable(e);
  } else {
    std::vector<int> args;
    for (Expr arg : e.args()) args.push_back(expr(arg));
    const bool folds = e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul || e.kind() == ExprKind::kMin ||
                       e.kind() == ExprKind::kMax;
    if (folds) {
      number = args[0];
      for (size_t i = 1; i < args.size(); ++i) number = apply(e.kind(), {number, args[i]});
    } else {
      number = apply(e.kind(), args);
    }
  }
  known_.emplace(e.node(), number);
  return number;
}

void IntProgram::run() {
  for (int number : varying_) {
    const Instruction& in = instructions_[number];
    const auto arg = [&](int i) { return values_[in.args[i]]; };
    int64_t& out = values_[number];
    switch (in.kind) {
      case ExprKind::kConstant: break;
      case ExprKind::kSymbol: out = machine_.values[in.args[0]]; break;
      case ExprKind::kAdd: out = symbolic::saturating_add(arg(0), arg(1)); break;
      case ExprKind::kMul: out = symbolic::saturating_mul(arg(0), arg(1)); break;
      case ExprKind::kFloorDiv: out = symbolic::floor_div(arg(0), arg(1)); break;
      case ExprKind::kMod: out = symbolic::floor_mod(arg(0), arg(1)); break;
      case ExprKind::kMin: out = std::min(arg(0), arg(1)); break;
      case ExprKind::kMax: out = std::max(arg(0), arg(1)); break;
      case ExprKind::kLess: out = arg(0) < arg(1); break;
      case ExprKind::kEqual: out = arg(0) == arg(1); break;
      case ExprKind::kSelect: out = arg(0) != 0 ? arg(1) : arg(2); break;
    }
  }
}

// ---- Steps

namespace {

constexpr int64_t kBlock = 1024;
// Tables of offsets are kept for boxes of at most so many iterations, and made for each block of larger ones.
constexpr int64_t kTable = int64_t{1} << 15;

/// uniform + sum of coefficients[d] * variable d of the box.
struct Form {
  int uniform = 0;                     // number in the IntProgram
  std::vector<int64_t> coefficients;   // empty: none depends on the box
  int step = -1;                       // not affine: the step that computes it
  bool is_array() const { return step >= 0; }
};

/// The part of an affine form that varies over the box.
struct Offsets {
  std::vector<int64_t> coefficients;
  std::vector<int64_t> table;
  std::vector<int64_t> made_for;   // extents of the box
  int64_t first = 0;               // of the table, where it is of one block
};

/// Where a statement or a load touches its buffer.
struct Place {
  int slot = 0;
  std::vector<Form> index;
  // If no index is an array:
  bool affine = false;
  int base = 0;
  Offsets offsets;
  // Of the current entry:
  bool safe = false;               // within bounds over the whole box
  std::optional<int64_t> stride;   // where the offsets are k * stride
  std::vector<int64_t> addresses;  // where they are computed one by one
};

enum class StepKind : uint8_t { kInteger, kAffine, kIndex, kConstant, kLoad, kOp, kSelect, kCheckedIndex, kCast, kMask };

struct Step {
  StepKind kind = StepKind::kConstant;
  DType dtype = DType::kI64;
  DType from = DType::kI64;       // kOp, kCast: of the arguments
  ScalarOp op = ScalarOp::kAdd;
  ExprKind index = ExprKind::kAdd;
  bool uniform = true;            // the same over the box
  bool holds = true;              // kMask: the condition's value that it asks for
  int mask = -1;                  // needed only under this (a kMask step)
  std::vector<int> args = {};     // kMask: the condition
  int number = 0;                 // kInteger: in the IntProgram; kAffine: of the uniform part
  int place = -1;                 // kLoad
  Offsets offsets = {};           // kAffine
  Value64 constant = {};
  std::vector<Value64> values = {};
  // kMask, while running:
  enum class State : uint8_t { kNone, kSome, kAll } state = State::kAll;
  std::vector<uint8_t> bytes = {};
};

}  // namespace

// The box, the steps, and what runs them; Leaf and ScalarLeaf are what is done with the results.
struct Evaluator {
  Machine& machine;
  IntProgram ints;
  std::vector<Expr> variables;       // of the box
  std::vector<int> extent_numbers;
  std::vector<Step> steps;
  std::vector<std::unique_ptr<Place>> places;
  std::vector<const Value64*> args;  // scratch

  // Of the current entry:
  std::vector<int64_t> extents;
  int64_t total = 1;

  Evaluator(Machine& m, const std::vector<For>& box) : machine(m), ints(m) {
    for (const For& f : box) {
      variables.push_back(f.var);
      extent_numbers.push_back(ints.expr(f.extent));
    }
    extents.resize(box.size());
  }

  // -- Compilation

  std::unordered_map<const symbolic::ExprNode*, Form> forms;
  std::unordered_map<const symbolic::ExprNode*, int> arrays;   // of forms, where they are needed as values
  std::unordered_map<const ir::ScalarNode*, bool> effects;
  struct Version { int mask; int step; };
  std::unordered_map<const ir::ScalarNode*, std::vector<Version>> versions;

  int add(Step step) {
    for (int arg : step.args) step.uniform = step.uniform && steps[arg].uniform;
    if (step.mask >= 0) step.uniform = step.uniform && steps[step.mask].uniform;
    if (step.kind == StepKind::kMask) {
      step.bytes.resize(block());
    } else {
      step.values.resize(block());
    }
    if (step.kind == StepKind::kConstant) std::fill(step.values.begin(), step.values.end(), step.constant);
    steps.push_back(std::move(step));
    return static_cast<int>(steps.size()) - 1;
  }

  size_t block() const { return variables.empty() ? 1 : kBlock; }

  Form form(Expr e) {
    if (const auto found = forms.find(e.node()); found != forms.end()) return found->second;
    const Form result = make_form(e);
    forms.emplace(e.node(), result);
    return result;
  }

  Form make_form(Expr e) {
    const auto is_free = [&](Expr x) {
      return std::none_of(variables.begin(), variables.end(), [&](Expr v) { return symbolic::depends_on(x, v); });
    };
    if (is_free(e)) return {ints.expr(e), {}, -1};
    if (e.is_symbol()) {
      Form f{ints.constant(0), std::vector<int64_t>(variables.size(), 0), -1};
      const auto at = std::find(variables.begin(), variables.end(), e) - variables.begin();
      f.coefficients[static_cast<size_t>(at)] = 1;
      return f;
    }
    if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul || e.kind() == ExprKind::kMin ||
        e.kind() == ExprKind::kMax) {
      Form result = form(e.args()[0]);
      for (Expr arg : e.args().subspan(1)) result = combine(e.kind(), result, form(arg));
      return result;
    }
    Step step{.kind = StepKind::kIndex, .index = e.kind()};
    for (Expr arg : e.args()) step.args.push_back(step_of(arg));
    return {0, {}, add(std::move(step))};
  }

  Form combine(ExprKind kind, const Form& a, const Form& b) {
    const bool affine = !a.is_array() && !b.is_array();
    if (affine && kind == ExprKind::kAdd) {
      Form sum{ints.apply(kind, {a.uniform, b.uniform}), a.coefficients, -1};
      if (sum.coefficients.empty()) sum.coefficients.resize(b.coefficients.size());
      for (size_t d = 0; d < b.coefficients.size(); ++d) sum.coefficients[d] += b.coefficients[d];
      return sum;
    }
    if (affine && kind == ExprKind::kMul) {
      const Form *scale = &a, *scaled = &b;
      if (!scale->coefficients.empty()) std::swap(scale, scaled);
      const bool is_number = scale->coefficients.empty() && ints.is_constant(scale->uniform);
      constexpr int64_t kLargest = int64_t{1} << 40;   // beyond, sums of products could overflow
      if (is_number && std::abs(ints[scale->uniform]) < kLargest) {
        Form product{ints.apply(kind, {scaled->uniform, scale->uniform}), scaled->coefficients, -1};
        bool fits = true;
        for (int64_t& c : product.coefficients) {
          fits = fits && std::abs(c) < kLargest;
          if (fits) c *= ints[scale->uniform];
          fits = fits && std::abs(c) < kLargest;
        }
        if (fits) return product;
      }
    }
    if (a.coefficients.empty() && b.coefficients.empty() && affine) return {ints.apply(kind, {a.uniform, b.uniform}), {}, -1};
    Step step{.kind = StepKind::kIndex, .index = kind};
    step.args = {step_of(a), step_of(b)};
    return {0, {}, add(std::move(step))};
  }

  int step_of(Expr e) {
    if (const auto found = arrays.find(e.node()); found != arrays.end()) return found->second;
    const int step = step_of(form(e));
    arrays.emplace(e.node(), step);
    return step;
  }

  int step_of(const Form& f) {
    if (f.is_array()) return f.step;
    if (f.coefficients.empty()) return add({.kind = StepKind::kInteger, .number = f.uniform});
    Step step{.kind = StepKind::kAffine, .uniform = false, .number = f.uniform};
    step.offsets.coefficients = f.coefficients;
    return add(std::move(step));
  }

  bool has_effect(Scalar x) {
    if (const auto found = effects.find(x.node()); found != effects.end()) return found->second;
    bool result = x->kind == ScalarKind::kLoad || (x->kind == ScalarKind::kOp && x->op == ScalarOp::kCheckedIndex);
    for (Scalar arg : x->args) result = has_effect(arg) || result;
    return effects[x.node()] = result;
  }

  bool implies(int mask, int other) const {
    for (; mask >= 0; mask = steps[mask].mask) {
      if (mask == other) return true;
    }
    return other < 0;
  }

  int mask_of(int condition, bool holds, int outer) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      if (s.kind == StepKind::kMask && s.args[0] == condition && s.holds == holds && s.mask == outer) {
        return static_cast<int>(i);
      }
    }
    return add({.kind = StepKind::kMask, .holds = holds, .mask = outer, .args = {condition}});
  }

  int scalar(Scalar x, int mask) {
    if (!has_effect(x)) mask = -1;
    for (const Version& v : versions[x.node()]) {
      if (implies(mask, v.mask)) return v.step;
    }
    const int step = make_scalar(x, mask);
    versions[x.node()].push_back({mask, step});
    return step;
  }

  int make_scalar(Scalar x, int mask) {
    Step step{.dtype = x->dtype, .mask = mask};
    switch (x->kind) {
      case ScalarKind::kConstant:
        if (ir::is_float(x->dtype)) {
          step.constant.f = x->as_double();
        } else {
          step.constant.i = x->as_int();
        }
        return add(std::move(step));
      case ScalarKind::kIndex: return step_of(x->index);
      case ScalarKind::kLoad:
        step.kind = StepKind::kLoad;
        step.place = place(x->slot, x->args, mask);
        for (const Form& f : places[step.place]->index) {
          step.uniform = step.uniform && f.coefficients.empty() && (!f.is_array() || steps[f.step].uniform);
        }
        return add(std::move(step));
      case ScalarKind::kAccumulator: break;
      case ScalarKind::kOp:
        step.op = x->op;
        if (x->op == ScalarOp::kSelect) {
          step.kind = StepKind::kSelect;
          const int condition = scalar(x->args[0], mask);
          step.args = {condition, branch(x->args[1], condition, true, mask), branch(x->args[2], condition, false, mask)};
          return add(std::move(step));
        }
        step.kind = x->op == ScalarOp::kCheckedIndex ? StepKind::kCheckedIndex : StepKind::kOp;
        step.from = x->args[0]->dtype;
        for (Scalar arg : x->args) step.args.push_back(scalar(arg, mask));
        return add(std::move(step));
      case ScalarKind::kCast:
        step.kind = StepKind::kCast;
        step.from = x->args[0]->dtype;
        step.args = {scalar(x->args[0], mask)};
        return add(std::move(step));
    }
    STAX_UNREACHABLE();
  }

  int branch(Scalar x, int condition, bool holds, int mask) {
    return scalar(x, has_effect(x) ? mask_of(condition, holds, mask) : -1);
  }

  int place(int slot, const std::vector<Scalar>& index, int mask) {
    auto p = std::make_unique<Place>();
    p->slot = slot;
    p->affine = true;
    for (Scalar i : index) {
      if (const Expr e = ir::as_expr(i)) {
        p->index.push_back(form(e));
      } else {
        p->index.push_back({0, {}, scalar(i, mask)});
      }
      p->affine = p->affine && !p->index.back().is_array();
    }
    if (p->affine) {
      const std::vector<int64_t>& strides = machine.buffers[slot].strides;
      Form sum{ints.constant(0), std::vector<int64_t>(variables.size(), 0), -1};
      for (size_t k = 0; k < index.size() && p->affine; ++k) {
        const Form scaled = combine(ExprKind::kMul, p->index[k], {ints.constant(strides[k]), {}, -1});
        p->affine = !scaled.is_array();
        if (p->affine) sum = combine(ExprKind::kAdd, sum, scaled);
      }
      p->base = sum.uniform;
      p->offsets.coefficients = sum.coefficients;
    }
    places.push_back(std::move(p));
    return static_cast<int>(places.size()) - 1;
  }

  // -- Running

  /// Prepares an entry; false if the box is empty.
  bool enter() {
    ints.run();
    total = 1;
    for (size_t d = 0; d < extents.size(); ++d) {
      extents[d] = ints[extent_numbers[d]];
      if (extents[d] <= 0) return false;
      total = symbolic::saturating_mul(total, extents[d]);
    }
    for (const auto& p : places) enter(*p);
    const int64_t n = std::min<int64_t>(total, static_cast<int64_t>(block()));
    for (Step& s : steps) {
      if (!s.uniform || s.kind == StepKind::kConstant) continue;
      run(s, 0, 1);
      if (s.kind != StepKind::kMask) std::fill(s.values.begin() + 1, s.values.begin() + n, s.values[0]);
    }
    return true;
  }

  void enter(Place& p) {
    if (!p.affine) return;
    const BoundBuffer& b = machine.buffers[p.slot];
    p.safe = true;
    for (size_t k = 0; k < p.index.size(); ++k) {
      int64_t lo = ints[p.index[k].uniform], hi = lo;
      for (size_t d = 0; d < p.index[k].coefficients.size(); ++d) {
        const int64_t c = p.index[k].coefficients[d];
        int64_t& end = c > 0 ? hi : lo;
        end = symbolic::saturating_add(end, symbolic::saturating_mul(c, extents[d] - 1));
      }
      p.safe = p.safe && lo >= 0 && hi < b.extents[k];
    }
    // Row-major order over the box: one stride if each loop steps over the whole of the next.
    p.stride.reset();
    const std::vector<int64_t>& c = p.offsets.coefficients;
    int64_t stride = 0, span = 1;   // of the loops so far, from the inside
    bool one = true;
    for (size_t d = extents.size(); d-- > 0;) {
      if (extents[d] == 1) continue;
      if (span == 1) {
        stride = c[d];
      } else {
        one = one && c[d] == stride * span;
      }
      span *= extents[d];
    }
    if (one) p.stride = stride;
  }

  void run_block(int64_t start, int64_t n) {
    for (Step& s : steps) {
      if (!s.uniform) run(s, start, n);
    }
  }

  void fill(Offsets& o, int64_t start, int64_t n, int64_t* out) const {
    const size_t rank = extents.size();
    std::vector<int64_t> at(rank);
    int64_t rest = start, value = 0;
    for (size_t d = rank; d-- > 0;) {
      at[d] = rest % extents[d];
      rest /= extents[d];
      value += at[d] * o.coefficients[d];
    }
    const int64_t inner = o.coefficients[rank - 1];
    for (int64_t k = 0; k < n;) {
      const int64_t run = std::min(n - k, extents[rank - 1] - at[rank - 1]);
      for (int64_t r = 0; r < run; ++r) out[k + r] = value + r * inner;
      k += run;
      at[rank - 1] += run;
      value += run * inner;
      for (size_t d = rank - 1; d > 0 && at[d] == extents[d]; --d) {
        value += o.coefficients[d - 1] - extents[d] * o.coefficients[d];
        at[d] = 0;
        ++at[d - 1];
      }
    }
  }

  const int64_t* table(Offsets& o, int64_t start, int64_t n) const {
    const bool whole = total <= kTable;
    if (o.made_for != extents || (!whole && o.first != start)) {
      o.first = whole ? 0 : start;
      o.table.resize(static_cast<size_t>(whole ? total : kBlock));
      fill(o, o.first, whole ? total : n, o.table.data());
      o.made_for = extents;
      if (!whole) o.made_for.clear();   // of this block only
    }
    return o.table.data() + (start - o.first);
  }

  const uint8_t* bytes_of(int mask) const {
    return mask >= 0 && steps[mask].state == Step::State::kSome ? steps[mask].bytes.data() : nullptr;
  }
  bool is_off(int mask) const { return mask >= 0 && steps[mask].state == Step::State::kNone; }

  Address locate(Place& p, int64_t start, int64_t n, const uint8_t* mask, const char* what) {
    if (p.affine && p.safe) {
      const int64_t base = ints[p.base];
      if (p.stride) return {base + start * *p.stride, *p.stride, nullptr};
      return {base, 0, table(p.offsets, start, n)};
    }
    const BoundBuffer& b = machine.buffers[p.slot];
    p.addresses.assign(static_cast<size_t>(n), 0);
    std::vector<int64_t> index(static_cast<size_t>(n));
    for (size_t k = 0; k < p.index.size(); ++k) {
      index_values(p.index[k], start, n, index.data());
      const auto extent = static_cast<uint64_t>(b.extents[k]);
      for (int64_t i = 0; i < n; ++i) {
        if (mask != nullptr && mask[i] == 0) continue;
        if (static_cast<uint64_t>(index[i]) >= extent) out_of_bounds(p, start, i, what);
        p.addresses[i] += index[i] * b.strides[k];
      }
    }
    return {0, 0, p.addresses.data()};
  }

  void index_values(const Form& f, int64_t start, int64_t n, int64_t* out) const {
    if (f.is_array()) {
      for (int64_t i = 0; i < n; ++i) out[i] = steps[f.step].values[i].i;
      return;
    }
    if (f.coefficients.empty()) {
      std::fill_n(out, n, ints[f.uniform]);
      return;
    }
    Offsets o{f.coefficients, {}, {}, 0};
    fill(o, start, n, out);
    for (int64_t i = 0; i < n; ++i) out[i] = symbolic::saturating_add(out[i], ints[f.uniform]);
  }

  [[noreturn]] void out_of_bounds(const Place& p, int64_t start, int64_t i, const char* what) const {
    const BoundBuffer& b = machine.buffers[p.slot];
    std::vector<int64_t> at;
    for (const Form& f : p.index) {
      std::vector<int64_t> values(static_cast<size_t>(i + 1));
      index_values(f, start, i + 1, values.data());
      at.push_back(values.back());
    }
    internal_error("kernel {}: {} of buffer {} at [{}], out of its extents [{}]", machine.kernel.name, what, b.name,
                   fmt::join(at, ", "), fmt::join(b.extents, ", "));
  }

  [[noreturn]] void bad_index(int64_t index, int64_t extent) const {
    std::string message = machine.kernel.check_messages.empty() ? "kernel " + machine.kernel.name
                                                                : machine.kernel.check_messages.front();
    throw UserError(fmt::format("{}: index {} is out of range for an extent of {}", message, index, extent));
  }

  void run(Step& s, int64_t start, int64_t n) {
    if (s.kind == StepKind::kMask) return run_mask(s, n);
    if (is_off(s.mask)) return;
    Value64* out = s.values.data();
    args.clear();
    for (int arg : s.args) args.push_back(steps[arg].values.data());
    switch (s.kind) {
      case StepKind::kMask:
      case StepKind::kConstant: return;
      case StepKind::kInteger: out[0].i = ints[s.number]; return;
      case StepKind::kAffine: {
        const int64_t base = ints[s.number];
        const int64_t* offsets = table(s.offsets, start, n);
        for (int64_t k = 0; k < n; ++k) out[k].i = base + offsets[k];
        return;
      }
      case StepKind::kIndex: return index_block(s.index, args, s.args.size() == 2 && steps[s.args[1]].uniform, n, out);
      case StepKind::kLoad: {
        Place& p = *places[s.place];
        const uint8_t* mask = bytes_of(s.mask);
        const Address at = locate(p, start, n, mask, "load");
        const bool check = mask != nullptr && !(p.affine && p.safe);
        return load_block(s.dtype, machine.buffers[p.slot].data, at, n, check ? mask : nullptr, out);
      }
      case StepKind::kOp: return op_block(s.op, s.from, args, n, out);
      case StepKind::kSelect: return select_block(args[0], args[1], args[2], n, out);
      case StepKind::kCheckedIndex: {
        const uint8_t* mask = bytes_of(s.mask);
        for (int64_t k = 0; k < n; ++k) {
          const int64_t index = args[0][k].i, extent = args[1][k].i;
          const int64_t from_zero = index < 0 ? symbolic::saturating_add(index, extent) : index;
          const bool inside = 0 <= from_zero && from_zero < extent;
          if (!inside && (mask == nullptr || mask[k] != 0)) bad_index(index, extent);
          out[k].i = inside ? from_zero : 0;
        }
        return;
      }
      case StepKind::kCast: return cast_block(s.dtype, s.from, args[0], n, out);
    }
  }

  void run_mask(Step& s, int64_t n) {
    if (is_off(s.mask)) {
      s.state = Step::State::kNone;
      return;
    }
    const uint8_t* outer = bytes_of(s.mask);
    const Value64* condition = steps[s.args[0]].values.data();
    int64_t count = 0;
    for (int64_t k = 0; k < n; ++k) {
      const bool on = (condition[k].i != 0) == s.holds && (outer == nullptr || outer[k] != 0);
      s.bytes[k] = on;
      count += on;
    }
    s.state = count == 0 ? Step::State::kNone : count == n ? Step::State::kAll : Step::State::kSome;
  }
};

// ---- Statements

struct Leaf::Impl {
  Evaluator evaluator;
  int slot = 0;
  std::optional<Combiner> combiner;
  int place = 0;
  int value = 0;
  int mask = -1;
  int lanes = 0;   // of a vector loop that the updated location does not depend on

  Impl(Machine& machine, const std::vector<For>& box) : evaluator(machine, box) {}

  void run_block(int64_t start, int64_t n) {
    evaluator.run_block(start, n);
    if (evaluator.is_off(mask)) return;
    const uint8_t* bytes = evaluator.bytes_of(mask);
    const BoundBuffer& b = evaluator.machine.buffers[slot];
    Place& p = *evaluator.places[place];
    const Address at = evaluator.locate(p, start, n, bytes, combiner ? "update" : "store");
    const Value64* values = evaluator.steps[value].values.data();
    if (!combiner) return store_block(b.dtype, b.data, at, n, bytes, values);
    update_block(b.dtype, *combiner, b.data, at, n, bytes, values);
  }

  // Each lane has a sum of its own, in the buffer's dtype, that begins with its first value; the lanes are added to the location in
  // order.
  void run_lanes() {
    const BoundBuffer& b = evaluator.machine.buffers[slot];
    std::vector<double> partial(static_cast<size_t>(lanes));   // memory for any dtype
    std::vector<int64_t> lane(static_cast<size_t>(kBlock));
    std::vector<bool> is_used(static_cast<size_t>(lanes));
    int used = 0;
    std::optional<Address> target;
    const auto update = [&](int64_t from, int64_t n, const uint8_t* bytes, const Value64* values) {
      update_block(b.dtype, *combiner, partial.data(), {0, 0, lane.data() + from}, n, bytes, values + from);
    };
    for (int64_t start = 0; start < evaluator.total; start += kBlock) {
      const int64_t n = std::min(kBlock, evaluator.total - start);
      evaluator.run_block(start, n);
      if (evaluator.is_off(mask)) continue;
      const uint8_t* bytes = evaluator.bytes_of(mask);
      const Value64* values = evaluator.steps[value].values.data();
      const Address at = evaluator.locate(*evaluator.places[place], start, n, bytes, "update");
      target = Address{at[first_on(bytes, n)], 0, nullptr};
      for (int64_t k = 0; k < n; ++k) lane[k] = (start + k) % lanes;
      int64_t k = 0;
      for (; k < n && used < lanes; ++k) {
        if (bytes != nullptr && bytes[k] == 0) continue;
        if (is_used[lane[k]]) {
          update(k, 1, nullptr, values);
        } else {
          store_block(b.dtype, partial.data(), {lane[k], 0, nullptr}, 1, nullptr, values + k);
          is_used[lane[k]] = true;
          ++used;
        }
      }
      update(k, n - k, bytes != nullptr ? bytes + k : nullptr, values);
    }
    for (int l = 0; l < lanes; ++l) {
      if (!is_used[l]) continue;
      Value64 v;
      load_block(b.dtype, partial.data(), {l, 0, nullptr}, 1, nullptr, &v);
      update_block(b.dtype, *combiner, b.data, *target, 1, nullptr, &v);
    }
  }

  static int64_t first_on(const uint8_t* bytes, int64_t n) {
    if (bytes == nullptr) return 0;
    return std::find_if(bytes, bytes + n, [](uint8_t x) { return x != 0; }) - bytes;
  }
};

Leaf::Leaf(Machine& machine, std::vector<For> box, std::vector<Guard> guards, const Stmt& statement)
    : impl_(std::make_unique<Impl>(machine, box)) {
  Evaluator& e = impl_->evaluator;
  int mask = -1;
  for (const Guard& g : guards) mask = e.mask_of(e.scalar(g.condition, mask), g.holds, mask);
  impl_->mask = mask;
  const auto take = [&](const auto& s) {
    impl_->slot = s.slot;
    impl_->value = e.scalar(s.value, mask);
    impl_->place = e.place(s.slot, s.index, mask);
  };
  if (const Store* s = statement->as<Store>()) {
    take(*s);
    return;
  }
  const Update* u = statement->as<Update>();
  STAX_ASSERT(u != nullptr);
  take(*u);
  impl_->combiner = u->combiner;
  if (box.size() == 1 && box[0].kind == LoopKind::kVector && box[0].width > 1 &&
      std::none_of(u->index.begin(), u->index.end(), [&](Scalar i) { return depends_on(i, box[0].var); })) {
    impl_->lanes = box[0].width;
  }
}

Leaf::~Leaf() = default;

void Leaf::run() {
  Evaluator& e = impl_->evaluator;
  if (!e.enter()) return;
  if (impl_->lanes > 0) return impl_->run_lanes();
  for (int64_t start = 0; start < e.total; start += kBlock) impl_->run_block(start, std::min(kBlock, e.total - start));
}

struct ScalarLeaf::Impl {
  Evaluator evaluator;
  int step = 0;
};

ScalarLeaf::ScalarLeaf(Machine& machine, Scalar scalar) : impl_(new Impl{Evaluator(machine, {}), 0}) {
  impl_->step = impl_->evaluator.scalar(scalar, -1);
}

ScalarLeaf::~ScalarLeaf() = default;

Value64 ScalarLeaf::run() {
  impl_->evaluator.enter();
  return impl_->evaluator.steps[impl_->step].values[0];
}

}  // namespace stax::loop
