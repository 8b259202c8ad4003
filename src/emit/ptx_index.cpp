// SPDX-License-Identifier: Apache-2.0
#include "emit/ptx_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "emit/quotient_sum.h"
#include "support/error.h"

namespace stax::emit::ptx {

using symbolic::Expr;
using symbolic::ExprKind;
using symbolic::Interval;

namespace {

constexpr int64_t kLeast32 = std::numeric_limits<int32_t>::min(), kGreatest32 = std::numeric_limits<int32_t>::max();
// What an address of the hardware can have added, in bytes; what is further away gets a register of its own.
constexpr int64_t kMostOffset = int64_t{1} << 22;

bool fits(Interval r) { return r.lo >= kLeast32 && r.hi <= kGreatest32; }

bool is_power_of_two(int64_t v) { return v > 0 && std::has_single_bit(static_cast<uint64_t>(v)); }
int log2(int64_t v) { return std::countr_zero(static_cast<uint64_t>(v)); }

bool is_truth(Expr e) {
  const Interval r = e.range();
  return r.lo >= 0 && r.hi <= 1;
}

// 1 - x of a truth x: gives x.
Expr negated(Expr e) {
  if (e.kind() != ExprKind::kAdd) return {};
  Expr other = 1 - e;
  return other.kind() != ExprKind::kAdd && is_truth(other) ? other : Expr{};
}

int64_t constant_factor(Expr e) {
  if (e.is_constant()) return e.constant();
  if (e.kind() != ExprKind::kMul || !e.args().back().is_constant()) return 1;
  return e.args().back().constant();
}

// A sum of multiples of `factor`, divided by it; nothing if its terms have none in common.
Expr without_common_factor(Expr sum, int64_t& factor) {
  if (sum.kind() != ExprKind::kAdd) return {};
  factor = 0;
  for (Expr term : sum.args()) factor = std::gcd(factor, constant_factor(term));
  if (factor <= 1) return {};
  Expr result = sum.table().constant(0);
  for (Expr term : sum.args()) {
    Expr quotient = sum.table().constant(constant_factor(term) / factor);
    if (!term.is_constant())
      for (size_t i = 0; i + 1 < term.args().size(); ++i) quotient = quotient * term.args()[i];
    result = result + quotient;
  }
  return result;
}

}  // namespace

IndexEmitter::IndexEmitter(Builder& b, const thread::Kernel& kernel) : b_(b), kernel_(kernel) {}

void IndexEmitter::bind(Expr symbol, Operand value) { symbols_[symbol.node()] = value; }

void IndexEmitter::close(int depth) {
  if (values_.size() > static_cast<size_t>(depth)) values_.resize(static_cast<size_t>(depth));
  if (pointers_.size() > static_cast<size_t>(depth)) pointers_.resize(static_cast<size_t>(depth));
}

bool IndexEmitter::is_narrow(Expr e) const {
  if (e.is_constant()) return fits({e.constant(), e.constant()});
  return kernel_.index_bits == 32 || fits(e.range());
}

int IndexEmitter::level(Expr e) const {
  int deepest = 0;
  for (Expr s : symbolic::free_symbols(e)) {
    const auto found = symbols_.find(s.node());
    STAX_ASSERT(found != symbols_.end(), "{} has no value here", s.str());
    deepest = std::max(deepest, b_.depth_of(found->second));
  }
  return deepest;
}

// Outer parts first, so that each loop adds its own to what the loops around it have made.
std::vector<Expr> IndexEmitter::by_level(std::span<const Expr> args) const {
  std::vector<std::pair<int, Expr>> levels;
  for (Expr arg : args) levels.emplace_back(arg.is_constant() ? std::numeric_limits<int>::max() : level(arg), arg);
  std::stable_sort(levels.begin(), levels.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Expr> sorted;
  for (const auto& [_, arg] : levels) sorted.push_back(arg);
  return sorted;
}

const Operand* IndexEmitter::find(Expr e) const {
  for (size_t d = values_.size(); d-- > 0;)
    if (const auto known = values_[d].find(e.node()); known != values_[d].end()) return &known->second;
  return nullptr;
}

Operand IndexEmitter::value(Expr e) {
  if (e.is_constant()) return integer(e.constant());
  if (e.is_symbol()) {
    const auto found = symbols_.find(e.node());
    STAX_ASSERT(found != symbols_.end(), "{} has no value here", e.str());
    return found->second;
  }
  if (const Operand* known = find(e)) return *known;
  Operand result = compute(e);
  // A quotient of wide numbers may be a narrow one.
  if (is_narrow(e) && result.is_reg() && result.cls == Class::kB64)
    result = b_.pure(Class::kB32, "cvt.u32.u64", {result});
  const auto depth = static_cast<size_t>(b_.depth_of(result));
  if (values_.size() <= depth) values_.resize(depth + 1);
  values_[depth].emplace(e.node(), result);
  return result;
}

Operand IndexEmitter::value64(Expr e) {
  if (!is_narrow(e) && (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul)) return value(e);
  const Operand x = value(e);
  if (!x.is_reg() || x.cls == Class::kB64) return x;
  return b_.pure(Class::kB64, "cvt.s64.s32", {x});
}

Operand IndexEmitter::low32(Expr e) {
  if (e.is_constant()) return integer(static_cast<int32_t>(e.constant()));
  if (!is_narrow(e)) {
    if (e.kind() == ExprKind::kAdd) return sum(e, false);
    if (e.kind() == ExprKind::kMul) return product(e, false);
  }
  const Operand x = value(e);
  return x.is_reg() && x.cls == Class::kB64 ? b_.pure(Class::kB32, "cvt.u32.u64", {x}) : x;
}

Operand IndexEmitter::compute(Expr e) {
  switch (e.kind()) {
    case ExprKind::kAdd: return sum(e, !is_narrow(e));
    case ExprKind::kMul: return product(e, !is_narrow(e));
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: return division(e);
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const bool wide = !std::all_of(e.args().begin(), e.args().end(), [&](Expr x) { return is_narrow(x); });
      const std::string op = fmt::format("{}.{}", e.kind() == ExprKind::kMin ? "min" : "max", wide ? "s64" : "s32");
      Operand result;
      for (Expr arg : by_level(e.args())) {
        const Operand x = wide ? value64(arg) : value(arg);
        result = result ? b_.pure(wide ? Class::kB64 : Class::kB32, op, {result, x}) : x;
      }
      return result;
    }
    case ExprKind::kLess:
    case ExprKind::kEqual: {
      const Operand p = condition(e);
      return p.is_int() ? p : b_.pure(Class::kB32, "selp.b32", {integer(1), integer(0), p});
    }
    case ExprKind::kSelect: {
      const Operand p = condition(e.args()[0]);
      if (p.is_int()) return value(e.args()[p.value != 0 ? 1 : 2]);
      const bool wide = !is_narrow(e.args()[1]) || !is_narrow(e.args()[2]);
      const Operand x = wide ? value64(e.args()[1]) : value(e.args()[1]);
      const Operand y = wide ? value64(e.args()[2]) : value(e.args()[2]);
      return b_.pure(wide ? Class::kB64 : Class::kB32, wide ? "selp.b64" : "selp.b32", {x, y, p});
    }
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

// --- sums and products ----------------------------------------------------------------------------------------------------

Operand IndexEmitter::times(Operand x, int64_t factor, bool wide) {
  if (x.is_int()) return integer(wide ? x.value * factor : static_cast<int32_t>(x.value * factor));
  if (factor == 1) return x;
  const Class cls = wide ? Class::kB64 : Class::kB32;
  if (factor == -1) return b_.pure(cls, wide ? "neg.s64" : "neg.s32", {x});
  if (is_power_of_two(factor)) return b_.pure(cls, wide ? "shl.b64" : "shl.b32", {x, integer(log2(factor))});
  return b_.pure(cls, wide ? "mul.lo.s64" : "mul.lo.s32", {x, integer(factor)});
}

Operand IndexEmitter::product(Expr e, bool wide) {
  Operand result;
  int64_t factor = 1;
  for (Expr arg : by_level(e.args())) {
    if (arg.is_constant()) {
      factor = arg.constant();
      continue;
    }
    const Operand x = ring(arg, wide);
    result = result ? b_.pure(wide ? Class::kB64 : Class::kB32, wide ? "mul.lo.s64" : "mul.lo.s32", {result, x}) : x;
  }
  return times(result, factor, wide);
}

// sum + term; a term that is a product of two is added with the multiplication.
Operand IndexEmitter::plus_product(Operand sum, Expr term, bool wide) {
  const Class cls = wide ? Class::kB64 : Class::kB32;
  if (term.kind() == ExprKind::kMul && sum.is_reg()) {
    std::vector<Expr> factors = by_level(term.args());
    const Expr last = factors.back();
    const bool shift = last.is_constant() && factors.size() > 1;
    if (shift && last.constant() == -1 && factors.size() == 2)
      return b_.pure(cls, wide ? "sub.s64" : "sub.s32", {sum, ring(factors[0], wide)});
    Expr rest = factors[0];
    for (size_t i = 1; i + 1 < factors.size(); ++i) rest = rest * factors[i];
    // A product that lies further out than the sum is made there, once.
    if (b_.place_of(level(term)) >= b_.place_of(b_.depth_of(sum)) || shift) {
      const Operand x = ring(rest, wide), y = ring(last, wide);
      if (x.is_reg()) return b_.pure(cls, wide ? "mad.lo.s64" : "mad.lo.s32", {x, y, sum});
    }
  }
  return b_.pure(cls, wide ? "add.s64" : "add.s32", {sum, ring(term, wide)});
}

Operand IndexEmitter::sum(Expr e, bool wide) {
  if (!wide && is_narrow(e)) {
    Operand result;
    for (const QuotientTerm& t : by_quotients(kernel_, e)) {
      const Operand x = low32(t.value), c = low32(t.coefficient);
      if (!result)
        result = c.is_int(1) ? x : b_.pure(Class::kB32, "mul.lo.s32", {x, c});
      else
        result = c.is_int(1) ? b_.pure(Class::kB32, "add.s32", {result, x})
                             : b_.pure(Class::kB32, "mad.lo.s32", {x, c, result});
    }
    if (result) return result;
  }
  std::vector<Expr> terms = by_level(e.args());
  // A sum begins with something that is not to be subtracted, if there is such a term on its level.
  const auto is_negative = [](Expr t) {
    return t.kind() == ExprKind::kMul &&
           std::any_of(t.args().begin(), t.args().end(), [](Expr f) { return f.is_constant() && f.constant() < 0; });
  };
  for (size_t i = 0; i < terms.size() && !terms[i].is_constant() && level(terms[i]) == level(terms[0]); ++i)
    if (!is_negative(terms[i])) {
      std::swap(terms[0], terms[i]);
      break;
    }
  Operand result = ring(terms[0], wide);
  for (size_t i = 1; i < terms.size(); ++i) result = plus_product(result, terms[i], wide);
  return result;
}

// --- divisions ------------------------------------------------------------------------------------------------------------

Operand IndexEmitter::with_sign(Expr a, bool wide, const std::function<Operand(Operand)>& f) {
  const Operand x = wide ? value64(a) : value(a);
  if (a.range().lo >= 0) return f(x);
  const Class cls = wide ? Class::kB64 : Class::kB32;
  const Operand sign = b_.pure(cls, wide ? "shr.s64" : "shr.s32", {x, integer(wide ? 63 : 31)});
  const std::string op = wide ? "xor.b64" : "xor.b32";
  return b_.pure(cls, op, {f(b_.pure(cls, op, {x, sign})), sign});
}

// For 0 <= x < 2^(n-1) in n bits: floor(x / d) = high(x * m) >> (s - 1) with s = ceil(log2 d), m = ceil(2^(n - 1 + s) / d), which has n bits:
// m d exceeds 2^(n - 1 + s) by less than d <= 2^s, so the quotient by less than x 2^s / 2^(n - 1 + s) < 1 / d.
Operand IndexEmitter::divide_by_constant(Expr a, int64_t d, bool wide) {
  const Class cls = wide ? Class::kB64 : Class::kB32;
  if (is_power_of_two(d)) {
    const Operand x = wide ? value64(a) : value(a);
    const bool positive = a.range().lo >= 0;
    return b_.pure(cls, fmt::format("shr.{}{}", positive ? 'u' : 's', wide ? 64 : 32), {x, integer(log2(d))});
  }
  const int bits = wide ? 64 : 32, s = 64 - std::countl_zero(static_cast<uint64_t>(d));
  const auto power = static_cast<unsigned __int128>(1) << (bits - 1 + s);
  const auto divisor = static_cast<unsigned __int128>(d);
  const auto multiplier = static_cast<uint64_t>((power + divisor - 1) / divisor);
  const Operand m = integer(wide ? static_cast<int64_t>(multiplier) : static_cast<int32_t>(multiplier));
  return with_sign(a, wide, [&](Operand x) {
    const Operand high = b_.pure(cls, wide ? "mul.hi.u64" : "mul.hi.u32", {x, m});
    return b_.pure(cls, wide ? "shr.u64" : "shr.u32", {high, integer(s - 1)});
  });
}

// The same choice as thread::find_divisor.
const thread::Divisor* IndexEmitter::divisor(Expr a, Expr b) const {
  if (a.range().lo < 0) return nullptr;
  const auto found = std::find_if(kernel_.divisors.begin(), kernel_.divisors.end(),
                                  [&](const thread::Divisor& d) { return d.value == b; });
  return found == kernel_.divisors.end() ? nullptr : &*found;
}

Operand IndexEmitter::divide_by_parts(Expr a, const thread::Divisor& d) {
  const Operand x = value(a);
  const Operand high = b_.pure(Class::kB32, "mul.hi.u32", {x, low32(d.multiplier)});
  const Operand sum = b_.pure(Class::kB32, "add.s32", {high, x});
  return b_.pure(Class::kB32, "shr.u32", {sum, low32(d.shift)});
}

// By an instruction: only where neither a constant nor a multiplier of the host is there.
Operand IndexEmitter::divide_slowly(Expr a, Expr b, bool wide) {
  const Class cls = wide ? Class::kB64 : Class::kB32;
  const char* type = wide ? "s64" : "s32";
  Operand y = wide ? value64(b) : value(b);
  if (b.range().contains(0)) {
    const Operand zero = b_.pure(Class::kPred, fmt::format("setp.eq.{}", type), {y, integer(0)});
    y = b_.pure(cls, wide ? "selp.b64" : "selp.b32", {integer(1), y, zero});
  }
  if (b.range().lo >= 0)
    return with_sign(a, wide, [&](Operand x) { return b_.pure(cls, wide ? "div.u64" : "div.u32", {x, y}); });
  const Operand x = wide ? value64(a) : value(a);
  const Operand quotient = b_.pure(cls, fmt::format("div.{}", type), {x, y});
  const Operand back = b_.pure(cls, fmt::format("mul.lo.{}", type), {quotient, y});
  const Operand rest = b_.pure(cls, fmt::format("sub.{}", type), {x, back});
  const Operand signs = b_.pure(cls, wide ? "xor.b64" : "xor.b32", {rest, y});
  const Operand inexact = b_.pure(Class::kPred, fmt::format("setp.ne.{}", type), {rest, integer(0)});
  const Operand differ = b_.pure(Class::kPred, fmt::format("setp.lt.{}", type), {signs, integer(0)});
  const Operand less = b_.pure(cls, fmt::format("sub.{}", type), {quotient, integer(1)});
  return b_.pure(cls, wide ? "selp.b64" : "selp.b32", {less, quotient, b_.both(inexact, differ)});
}

Operand IndexEmitter::divide(Expr a, Expr b, bool wide) {
  if (b.is_constant() && b.constant() > 0) return divide_by_constant(a, b.constant(), wide);
  if (const thread::Divisor* known = divisor(a, b); known != nullptr && !wide) return divide_by_parts(a, *known);
  return divide_slowly(a, b, wide);
}

Operand IndexEmitter::division(Expr e) {
  const Expr a = e.args()[0], b = e.args()[1];
  const bool wide = !is_narrow(a) || !is_narrow(b);
  const Class cls = wide ? Class::kB64 : Class::kB32;
  Operand result;
  if (e.kind() == ExprKind::kMod && b.is_constant() && is_power_of_two(b.constant())) {
    return b_.pure(cls, wide ? "and.b64" : "and.b32", {wide ? value64(a) : value(a), integer(b.constant() - 1)});
  }
  if (e.kind() == ExprKind::kFloorDiv) {
    result = divide(a, b, wide);
  } else {
    // The quotient may be wanted, too.
    const Operand quotient = b.is_constant() && b.constant() > 0 ? divide(a, b, wide) : value(symbolic::floordiv(a, b));
    Operand q = quotient;
    if (wide && q.is_reg() && q.cls == Class::kB32) q = b_.pure(Class::kB64, "cvt.s64.s32", {q});
    if (!wide && q.is_reg() && q.cls == Class::kB64) q = b_.pure(Class::kB32, "cvt.u32.u64", {q});
    const Operand x = wide ? value64(a) : value(a);
    if (b.is_constant()) {
      result = b_.pure(cls, wide ? "mad.lo.s64" : "mad.lo.s32", {q, integer(-b.constant()), x});
    } else {
      const Operand back = b_.pure(cls, wide ? "mul.lo.s64" : "mul.lo.s32", {q, wide ? value64(b) : value(b)});
      result = b_.pure(cls, wide ? "sub.s64" : "sub.s32", {x, back});
    }
  }
  if (b.range().contains(0) && (wide || divisor(a, b) == nullptr)) {
    const Operand zero =
        b_.pure(Class::kPred, wide ? "setp.eq.s64" : "setp.eq.s32", {wide ? value64(b) : value(b), integer(0)});
    result = b_.pure(cls, wide ? "selp.b64" : "selp.b32", {integer(0), result, zero});
  }
  return result;
}

// --- conditions -----------------------------------------------------------------------------------------------------------

Operand IndexEmitter::comparison(const char* relation, Expr a, Expr b) {
  const bool wide = !is_narrow(a) || !is_narrow(b);
  const Operand x = wide ? value64(a) : value(a), y = wide ? value64(b) : value(b);
  if (x.is_int() && y.is_int()) {
    const std::string_view r = relation;
    const bool holds = r == "lt"   ? x.value < y.value
                       : r == "ge" ? x.value >= y.value
                       : r == "eq" ? x.value == y.value
                                   : x.value != y.value;
    return integer(holds ? 1 : 0);
  }
  return b_.pure(Class::kPred, fmt::format("setp.{}.{}", relation, wide ? "s64" : "s32"), {x, y});
}

Operand IndexEmitter::condition(Expr e, bool expect) {
  if (e.is_constant()) return integer((e.constant() != 0) == expect ? 1 : 0);
  if (Expr other = negated(e)) return condition(other, !expect);
  switch (e.kind()) {
    case ExprKind::kLess: return comparison(expect ? "lt" : "ge", e.args()[0], e.args()[1]);
    case ExprKind::kEqual: return comparison(expect ? "eq" : "ne", e.args()[0], e.args()[1]);
    case ExprKind::kMin:
    case ExprKind::kMax: {
      if (!std::all_of(e.args().begin(), e.args().end(), is_truth)) break;
      const bool all = (e.kind() == ExprKind::kMin) == expect;
      Operand result;
      for (Expr arg : by_level(e.args())) {
        const Operand p = condition(arg, expect);
        if (p.is_int(all ? 0 : 1)) return p;
        if (p.is_int()) continue;
        result = result ? b_.pure(Class::kPred, all ? "and.pred" : "or.pred", {result, p}) : p;
      }
      return result ? result : integer(all ? 1 : 0);
    }
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kSelect: break;
  }
  return comparison(expect ? "ne" : "eq", e, e.table().constant(0));
}

// --- addresses ------------------------------------------------------------------------------------------------------------

Place IndexEmitter::place(int slot, Operand base, int size, Expr index) {
  Expr moving = index;
  int64_t bytes = 0;
  if (index.is_constant()) {
    bytes = index.constant() * size;
    moving = index.table().constant(0);
  } else if (index.kind() == ExprKind::kAdd) {
    for (Expr arg : index.args())
      if (arg.is_constant() && arg.constant() > -kMostOffset / size && arg.constant() < kMostOffset / size) {
        bytes = arg.constant() * size;
        moving = index - arg;
      }
  }
  if (bytes >= kMostOffset || bytes <= -kMostOffset) return {pointer(slot, base, size, index), 0};
  return {pointer(slot, base, size, moving), bytes};
}

// One multiplication with addition from a register that advances alike, which takes an instruction and a register less than to advance another.
// The distance does not change in the loop.
Operand IndexEmitter::beside(const Loop& loop, int slot, int size, Expr coefficient, Expr rest) {
  for (const Loop::Moving& m : loop.moving) {
    if (m.slot != slot || m.coefficient != coefficient) continue;
    Expr distance = rest - m.rest;
    if (!is_narrow(distance) || distance.is_constant()) continue;
    int64_t factor = size;
    if (distance.kind() == ExprKind::kMul && distance.args().back().is_constant()) {
      const int64_t constant = distance.args().back().constant();
      Expr others = distance.args().front();
      for (size_t k = 1; k + 1 < distance.args().size(); ++k) others = others * distance.args()[k];
      if (is_narrow(others) && fits({constant * size, constant * size})) distance = others, factor *= constant;
    }
    const Operand x = value(distance);
    // ptxas makes one instruction of these two, but two of mad.wide by a power of two.
    if (x.is_reg())
      return b_.pure(Class::kB64, "add.s64", {m.pointer, b_.pure(Class::kB64, "mul.wide.s32", {x, integer(factor)})});
  }
  return {};
}

Operand IndexEmitter::pointer(int slot, Operand base, int size, Expr index) {
  if (index.is_constant(0)) return base;
  for (size_t d = pointers_.size(); d-- > 0;)
    if (const auto known = pointers_[d].find(index.node()); known != pointers_[d].end())
      for (const auto& [of, p] : known->second)
        if (of == slot) return p;

  const bool wide = base.cls == Class::kB64;
  const Class cls = wide ? Class::kB64 : Class::kB32;
  const int own = level(index);
  Operand result;
  // The innermost loop whose variable is in it: a register that advances.
  for (size_t l = loops.size(); l-- > 0 && !result;) {
    Loop& loop = loops[l];
    if (loop.depth != own || !symbolic::depends_on(index, loop.var)) continue;
    const auto affine = symbolic::affine_in(index, loop.var);
    if (!affine || level(affine->rest) >= loop.depth || level(affine->coefficient) >= loop.depth) break;
    if (wide && (result = beside(loop, slot, size, affine->coefficient, affine->rest))) break;
    const Operand start = pointer(slot, base, size, affine->rest);
    const Expr step = affine->coefficient * size;
    result = b_.fresh(cls);
    b_.set_depth(result, loop.depth);
    loop.starts.emplace_back(result, start);
    loop.steps.emplace_back(result, wide ? value64(step) : low32(step));
    loop.moving.push_back({slot, affine->coefficient, affine->rest, result});
  }
  if (!result) {
    Expr outer, inner;
    if (index.kind() == ExprKind::kAdd) {
      for (Expr arg : index.args()) {
        Expr& part = !arg.is_constant() && level(arg) < own ? outer : inner;
        part = part ? part + arg : arg;
      }
    } else {
      inner = index;
    }
    if (outer) base = pointer(slot, base, size, outer);
    if (!wide) {
      const Operand x = low32(inner);
      if (base.is_int(0))
        result = times(x, size, false);
      else if (x.is_reg())
        result = b_.pure(cls, "mad.lo.s32", {x, integer(size), base});
      else
        result = b_.pure(cls, "add.s32", {base, integer(x.value * size)});
    } else if (is_narrow(inner) && !inner.is_constant()) {
      int64_t scale = 1;
      if (Expr part = without_common_factor(inner, scale); part && find(part) != nullptr && find(inner) == nullptr)
        inner = part;
      else
        scale = 1;
      // As in `beside`.
      result = b_.pure(cls, "add.s64", {base, b_.pure(cls, "mul.wide.s32", {value(inner), integer(size * scale)})});
    } else {
      const Operand x = value64(inner);
      result = b_.pure(cls, "add.s64", {base, times(x, size, true)});
    }
  }
  const auto depth = static_cast<size_t>(b_.depth_of(result));
  if (pointers_.size() <= depth) pointers_.resize(depth + 1);
  pointers_[depth][index.node()].emplace_back(slot, result);
  return result;
}

}  // namespace stax::emit::ptx
