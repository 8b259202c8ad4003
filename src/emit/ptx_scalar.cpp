// SPDX-License-Identifier: Apache-2.0
// Scalars in PTX.
#include <algorithm>
#include <cmath>
#include <limits>

#include "emit/ptx_kernel.h"
#include "support/error.h"

namespace stax::emit::ptx {

using ir::ScalarKind;

namespace {

// More than a few instructions, or a branch.
bool is_costly(ScalarOp op, DType t) {
  switch (op) {
    case ScalarOp::kDiv: return !ir::is_float(t) || t == DType::kF64;
    case ScalarOp::kPow:
    case ScalarOp::kModFloor:
    case ScalarOp::kModTrunc:
    case ScalarOp::kHash:
    case ScalarOp::kCheckedIndex: return true;
    default: return ir::is_math_function(op);
  }
}

struct Bounds {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

// Of the values that are not NaN.
Bounds bounds_of(Scalar s) {
  const auto of = [&](size_t i) { return bounds_of(s->args[i]); };
  if (s->kind == ScalarKind::kConstant && ir::is_float(s->dtype)) return {s->as_double(), s->as_double()};
  if (s->kind == ScalarKind::kCast) {
    const DType from = s->args[0]->dtype;
    if (ir::is_float(from)) return of(0);
    if (from == DType::kBool) return {0, 1};
    const int bits = ir::bit_width(from);
    if (ir::is_signed(from)) return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1)};
    return {0, std::ldexp(1.0, bits)};
  }
  if (s->kind != ScalarKind::kOp) return {};
  switch (s->op) {
    case ScalarOp::kMin: return {std::min(of(0).lo, of(1).lo), std::min(of(0).hi, of(1).hi)};
    case ScalarOp::kMax: return {std::max(of(0).lo, of(1).lo), std::max(of(0).hi, of(1).hi)};
    case ScalarOp::kAdd: return {of(0).lo + of(1).lo, of(0).hi + of(1).hi};
    case ScalarOp::kSelect: return {std::min(of(1).lo, of(2).lo), std::max(of(1).hi, of(2).hi)};
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: return {std::floor(of(0).lo), std::ceil(of(0).hi)};
    default: return {};
  }
}

}  // namespace

bool KernelEmitter::fits_i32(Scalar s) const {
  const Bounds bounds = bounds_of(s);
  return bounds.lo >= -0x1p31 && bounds.hi < 0x1p31;
}

// A predicate; comparisons of index expressions never become numbers.
Operand KernelEmitter::truth(Scalar s) {
  if (s->kind == ScalarKind::kCast && s->dtype == DType::kBool && s->args[0]->kind == ScalarKind::kIndex)
    return index_.condition(s->args[0]->index);
  return scalar(s);
}

Operand KernelEmitter::scalar(Scalar s) {
  for (size_t i = memo_.size(); i-- > 0;)
    if (const auto known = memo_[i].find(s.node()); known != memo_[i].end()) return known->second;
  const Operand result = compute(s);
  memo_.back().emplace(s.node(), result);
  return result;
}

// Registers that an expression needs while it is computed (Sethi and Ullman): the argument that needs most goes first.
int KernelEmitter::weight(Scalar s) {
  if (const auto known = weights_.find(s.node()); known != weights_.end()) return known->second;
  std::vector<int> needs;
  for (Scalar arg : s->args) needs.push_back(weight(arg));
  std::sort(needs.rbegin(), needs.rend());
  int need = s->kind == ScalarKind::kConstant ? 0 : 1;
  for (size_t i = 0; i < needs.size(); ++i) need = std::max(need, needs[i] + static_cast<int>(i));
  weights_.emplace(s.node(), need);
  return need;
}

Operand KernelEmitter::compute(Scalar s) {
  switch (s->kind) {
    case ScalarKind::kConstant: return ops_.constant(*s.node());
    case ScalarKind::kIndex: {
      const Operand x = index_.value64(s->index);
      return x;
    }
    case ScalarKind::kLoad:
      if (buffer(s->slot).space == thread::Space::kLocal && locals_[static_cast<size_t>(s->slot)].in_registers)
        return read_local(s->slot, ir::as_expr(s->args[0]).constant());
      return load(s->slot, place_of(s->slot, s->args[0]));
    case ScalarKind::kAccumulator: internal_error("an accumulator outside of an epilogue");
    case ScalarKind::kCast: {
      const Scalar from = s->args[0];
      if (s->dtype == DType::kBool && from->kind == ScalarKind::kIndex) return truth(s);
      if (from->kind == ScalarKind::kIndex && index_.is_narrow(from->index)) {
        const Operand x = index_.value(from->index);
        if (x.is_int()) return ops_.cast(s->dtype, DType::kI64, x);
        if (s->dtype != DType::kI64 && s->dtype != DType::kU64) return ops_.cast(s->dtype, DType::kI32, x);
      }
      return ops_.cast(s->dtype, from->dtype, scalar(from), ir::is_float(from->dtype) && fits_i32(from));
    }
    case ScalarKind::kOp: break;
  }
  if (s->op == ScalarOp::kSelect) return select(s);
  if (s->op == ScalarOp::kCheckedIndex) return checked_index(s);
  std::vector<size_t> order;
  for (size_t i = 0; i < s->args.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weight(s->args[a]) > weight(s->args[b]); });
  std::vector<Operand> args(s->args.size());
  for (size_t i : order) args[i] = s->args[i]->dtype == DType::kBool ? truth(s->args[i]) : scalar(s->args[i]);
  return ops_.op(s->op, s->args[0]->dtype, args);
}

bool KernelEmitter::is_guarded(Scalar s) {
  if (const auto known = guarded_.find(s.node()); known != guarded_.end()) return known->second;
  bool guarded = s->kind == ScalarKind::kLoad && buffer(s->slot).space != thread::Space::kLocal;
  guarded = guarded || (s->kind == ScalarKind::kLoad && !locals_[static_cast<size_t>(s->slot)].in_registers);
  guarded = guarded || (s->kind == ScalarKind::kOp && is_costly(s->op, s->args[0]->dtype));
  for (Scalar arg : s->args) guarded = guarded || is_guarded(arg);
  guarded_.emplace(s.node(), guarded);
  return guarded;
}

// An arm without loads is computed always. One with loads and little else is computed under the condition as its guard: the loads happen or
// not, what is made of them is chosen or not. Anything longer stands behind a branch.
Operand KernelEmitter::select(Scalar s) {
  const Operand p = truth(s->args[0]);
  if (p.is_int()) return scalar(s->args[p.value != 0 ? 1 : 2]);
  const auto is_light = [&](Scalar arm) {
    bool costly = false;
    size_t nodes = 0;
    ir::visit(arm, [&](Scalar x) {
      ++nodes;
      costly = costly || (x->kind == ScalarKind::kOp && is_costly(x->op, x->args[0]->dtype));
    });
    return !costly && nodes <= 24;
  };
  const Operand outer = b_.guard();
  if (is_light(s->args[1]) && is_light(s->args[2])) {
    Operand arms[2];
    for (size_t arm : {size_t{0}, size_t{1}}) {
      if (!is_guarded(s->args[arm + 1])) {
        arms[arm] = scalar(s->args[arm + 1]);
        continue;
      }
      b_.set_guard(b_.both(outer, arm == 0 ? p : b_.negation(p)));
      memo_.emplace_back();
      arms[arm] = scalar(s->args[arm + 1]);
      memo_.pop_back();
      b_.set_guard(outer);
    }
    return ops_.select(s->dtype, p, arms[0], arms[1]);
  }
  const Class cls = class_of(s->dtype);
  const Operand result = b_.fresh(cls);
  const int otherwise = b_.new_label(), either = b_.new_label();
  b_.set_guard({});
  b_.branch(otherwise, p, true);
  for (size_t arm : {size_t{0}, size_t{1}}) {
    b_.open(Builder::Kind::kBranch);
    memo_.emplace_back();
    b_.copy(result, ops_.in_register(cls, scalar(s->args[arm + 1])));
    memo_.pop_back();
    b_.append(close());
    if (arm == 0) b_.branch(either);
    b_.label(arm == 0 ? otherwise : either);
  }
  b_.set_guard(outer);
  return result;
}

// The lower 32 bits of an i64 that is part of an address.
Operand KernelEmitter::low32(Scalar s) {
  switch (s->kind) {
    case ScalarKind::kIndex: return index_.low32(s->index);
    case ScalarKind::kConstant: return integer(static_cast<int32_t>(s->as_int()));
    case ScalarKind::kCast:
      if (ir::is_integer(s->args[0]->dtype) && ir::bit_width(s->args[0]->dtype) <= 32) return scalar(s->args[0]);
      break;
    case ScalarKind::kOp: {
      const char* name = s->op == ScalarOp::kAdd   ? "add.s32"
                         : s->op == ScalarOp::kSub ? "sub.s32"
                         : s->op == ScalarOp::kMul ? "mul.lo.s32"
                                                   : nullptr;
      if (name == nullptr) break;
      const Operand x = low32(s->args[0]), y = low32(s->args[1]);
      return b_.pure(Class::kB32, name, {x, y});
    }
    default: break;
  }
  const Operand x = scalar(s);
  return x.is_int() ? integer(static_cast<int32_t>(x.value)) : b_.pure(Class::kB32, "cvt.u32.u64", {x});
}

// The rare case stands behind the kernel's end. The first thread that gets there writes what it has.
Operand KernelEmitter::checked_index(Scalar s) {
  const Operand given = ops_.in_register(Class::kB64, scalar(s->args[0]));
  const Operand extent = ops_.in_register(Class::kB64, scalar(s->args[1]));
  const Operand negative = b_.pure(Class::kPred, "setp.lt.s64", {given, integer(0)});
  const Operand from_end = b_.pure(Class::kB64, "add.s64", {given, extent});
  const Operand index = b_.pure(Class::kB64, "selp.b64", {from_end, given, negative});
  // A negative extent counts as 0: the signed and the unsigned comparison are both needed.
  const Operand below = b_.pure(Class::kPred, "setp.lt.u64", {index, extent});
  const Operand inside = b_.both(below, b_.pure(Class::kPred, "setp.gt.s64", {extent, integer(0)}));
  const Operand result = b_.pure(Class::kB64, "selp.b64", {index, integer(0), inside});
  if (kernel_.check_messages.empty()) return result;
  b_.cold(b_.both(b_.guard(), b_.negation(inside)), [&] {
    const Operand record = b_.pure(Class::kB64, "ld.param.u64", {b_.name("[" + kernel_.name + "_fault]")});
    const Operand global = b_.pure(Class::kB64, "cvta.to.global.u64", {record});
    Instruction claim;
    claim.op = "atom.global.cas.b64";
    claim.layout = Layout::kAtomic;
    claim.dst = {b_.fresh(Class::kB64)};
    claim.src = {global, integer(0), integer(1)};
    const Operand before = claim.dst[0];
    b_.effect(std::move(claim));
    const Operand first = b_.pure(Class::kPred, "setp.eq.s64", {before, integer(0)});
    b_.set_guard(first);
    const Operand message = ops_.in_register(Class::kB64, integer(0));
    int64_t offset = 8;
    for (Operand word : {given, extent, message}) {
      Instruction write;
      write.op = "st.global.b64";
      write.layout = Layout::kStore;
      write.src = {global, word};
      write.offset = offset;
      offset += 8;
      b_.effect(std::move(write));
    }
    b_.set_guard({});
  });
  return result;
}

// A product added to what is stored there is added with one rounding.
Operand KernelEmitter::stored_value(const thread::Store& s) {
  const DType t = s.value->dtype;
  if (s.value->kind != ScalarKind::kOp || s.value->op != ScalarOp::kAdd || !ir::is_float(t)) return scalar(s.value);
  const auto is_here = [&](Scalar x) {
    return x->kind == ScalarKind::kLoad && x->slot == s.slot && x->args[0] == s.index;
  };
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Scalar sum = s.value->args[i], product = s.value->args[1 - i];
    if (!is_here(sum) || product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul) continue;
    const bool second_first = weight(product->args[1]) > weight(product->args[0]);
    const Operand one = scalar(product->args[second_first ? 1 : 0]);
    const Operand other = scalar(product->args[second_first ? 0 : 1]);
    return ops_.multiply_add(t, second_first ? other : one, second_first ? one : other, scalar(sum));
  }
  return scalar(s.value);
}

}  // namespace stax::emit::ptx
