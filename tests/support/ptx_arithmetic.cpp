// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "support/ptx_machine.h"

namespace stax::testing {

void PtxProgram::Impl::decode_arithmetic(const Operation& o, Step& s) {
  const int to = reg(o.operands[0]);
  std::vector<Value> args;
  for (size_t k = 1; k < o.operands.size(); ++k) args.push_back(value(o.operands[k]));
  const Type type = o.types.empty() ? Type{} : o.types.back();
  int bits = type.bits;
  Function f;
  if (o.parts[0] == "setp") {
    f = comparison(o, type);
    bits = 1;
  } else if (o.parts[0] == "testp") {
    f = [type](const uint64_t* a) -> uint64_t { return std::isinf(number_of(type, a[0])) ? 1 : 0; };
    bits = 1;
  } else if (type.kind == 'f') {
    f = real(o, type);
  } else {
    f = whole(o, type);
    if (o.has("wide")) bits *= 2;
  }
  if (!f) fail("instruction " + s.text);
  const size_t count = args.size();
  if (count > 4) fail("operands of " + s.text);
  s.run = [=](Thread& t) {
    uint64_t a[4] = {};
    for (size_t k = 0; k < count; ++k) a[k] = get(t, args[k]);
    set(t, to, f(a), bits);
  };
}

PtxProgram::Impl::Function PtxProgram::Impl::comparison(const Operation& o, Type type) {
  const std::string relation = o.parts[1];
  const bool ftz = o.has("ftz");
  if (type.kind == 'f')
    return [=](const uint64_t* a) -> uint64_t {
      double x = number_of(type, a[0]), y = number_of(type, a[1]);
      if (type.bits == 32) x = flushed(static_cast<float>(x), ftz), y = flushed(static_cast<float>(y), ftz);
      if (relation == "nan") return std::isnan(x) || std::isnan(y);
      if (relation == "neu") return !(x == y);
      if (relation == "eq") return x == y;
      if (relation == "lt") return x < y;
      if (relation == "le") return x <= y;
      if (relation == "gt") return x > y;
      if (relation == "ge") return x >= y;
      fail("setp." + relation);
    };
  return [=](const uint64_t* a) -> uint64_t {
    const uint64_t ux = a[0] & mask_of(type.bits), uy = a[1] & mask_of(type.bits);
    const int64_t x = extend(ux, type.bits), y = extend(uy, type.bits);
    const bool less = type.kind == 's' ? x < y : ux < uy;
    if (relation == "eq") return ux == uy;
    if (relation == "ne") return ux != uy;
    if (relation == "lt") return less;
    if (relation == "le") return less || ux == uy;
    if (relation == "gt") return !less && ux != uy;
    if (relation == "ge") return !less;
    fail("setp." + relation);
  };
}

template <class T>
PtxProgram::Impl::Function PtxProgram::Impl::in(const Operation& o, const std::function<T(T, T, T)>& f) {
  const bool ftz = o.has("ftz");
  return [=](const uint64_t* a) -> uint64_t {
    if constexpr (std::is_same_v<T, float>)
      return raw_of(
          flushed(f(flushed(f32_of(a[0]), ftz), flushed(f32_of(a[1]), ftz), flushed(f32_of(a[2]), ftz)), ftz));
    else
      return raw_of(f(f64_of(a[0]), f64_of(a[1]), f64_of(a[2])));
  };
}

PtxProgram::Impl::Function PtxProgram::Impl::real(const Operation& o, Type type) {
  return type.bits == 64 ? real_of<double>(o) : real_of<float>(o);
}

template <class T>
PtxProgram::Impl::Function PtxProgram::Impl::real_of(const Operation& o) {
  const std::string name = o.parts[0];
  const auto rounded = [&](Function f) { return o.has("rn") ? f : Function{}; };
  if (name == "mov") return [](const uint64_t* a) { return a[0]; };
  if (name == "selp") return [](const uint64_t* a) { return a[2] != 0 ? a[0] : a[1]; };
  if (name == "add") return rounded(in<T>(o, [](T x, T y, T) { return x + y; }));
  if (name == "sub") return rounded(in<T>(o, [](T x, T y, T) { return x - y; }));
  if (name == "mul") return rounded(in<T>(o, [](T x, T y, T) { return x * y; }));
  if (name == "div") return rounded(in<T>(o, [](T x, T y, T) { return x / y; }));
  if (name == "sqrt") return rounded(in<T>(o, [](T x, T, T) { return std::sqrt(x); }));
  if (name == "fma" && o.has("sat"))
    return rounded(in<T>(o, [](T x, T y, T z) { return std::fmin(std::fmax(std::fma(x, y, z), T{0}), T{1}); }));
  if (name == "fma") return rounded(in<T>(o, [](T x, T y, T z) { return std::fma(x, y, z); }));
  if (name == "neg") return in<T>(o, [](T x, T, T) { return -x; });
  if (name == "abs") return in<T>(o, [](T x, T, T) { return std::fabs(x); });
  if (name == "rcp" && o.has("approx")) return in<T>(o, [](T x, T, T) { return std::nextafter(T{1} / x, T{0}); });
  if (name == "ex2" && o.has("approx"))
    return in<T>(o, [](T x, T, T) { return static_cast<T>(std::exp2(static_cast<double>(x))); });
  if (name == "min" || name == "max") {
    const bool wins = o.has("NaN"), least = name == "min";
    return in<T>(o, [=](T x, T y, T) -> T {
      if (std::isnan(x) || std::isnan(y))
        return wins || (std::isnan(x) && std::isnan(y)) ? std::numeric_limits<T>::quiet_NaN() : std::isnan(x) ? y : x;
      if (x == y) return std::signbit(x) == least ? x : y;
      return (x < y) == least ? x : y;
    });
  }
  return {};
}

PtxProgram::Impl::Function PtxProgram::Impl::whole(const Operation& o, Type type) {
  const std::string name = o.parts[0];
  const int bits = type.bits;
  const bool is_signed = type.kind == 's', high = o.has("hi"), wide = o.has("wide");
  const auto number = [=](uint64_t raw) -> __int128 {
    return is_signed ? static_cast<__int128>(extend(raw, bits)) : static_cast<__int128>(raw & mask_of(bits));
  };
  using P = const uint64_t*;
  if (name == "mov" || name == "cvta") return [](P a) { return a[0]; };
  if (name == "selp") return [](P a) { return a[2] != 0 ? a[0] : a[1]; };
  if (name == "add") return [](P a) { return a[0] + a[1]; };
  if (name == "sub") return [](P a) { return a[0] - a[1]; };
  if (name == "neg") return [](P a) { return uint64_t{0} - a[0]; };
  if (name == "abs") return [=](P a) { return static_cast<uint64_t>(number(a[0]) < 0 ? -number(a[0]) : number(a[0])); };
  if (name == "not") return [](P a) { return ~a[0]; };
  if (name == "and") return [](P a) { return a[0] & a[1]; };
  if (name == "or") return [](P a) { return a[0] | a[1]; };
  if (name == "xor") return [](P a) { return a[0] ^ a[1]; };
  if (name == "mul" || name == "mad") {
    if (!high && !wide && !o.has("lo")) return {};
    return [=](P a) {
      const auto product = static_cast<unsigned __int128>(number(a[0])) * static_cast<unsigned __int128>(number(a[1]));
      const auto part = static_cast<uint64_t>(high ? product >> bits : product);
      return name == "mad" ? part + a[2] : part;
    };
  }
  if (name == "div" || name == "rem")
    return [=](P a) -> uint64_t {
      if (number(a[1]) == 0) fail("a division by zero");
      if (is_signed && number(a[1]) == -1 && number(a[0]) == -(static_cast<__int128>(1) << (bits - 1)))
        fail("a division that overflows");
      return static_cast<uint64_t>(name == "div" ? number(a[0]) / number(a[1]) : number(a[0]) % number(a[1]));
    };
  if (name == "min" || name == "max")
    return [=](P a) { return (number(a[0]) < number(a[1])) == (name == "min") ? a[0] : a[1]; };
  if (name == "shl")
    return [=](P a) -> uint64_t {
      return static_cast<uint32_t>(a[1]) >= static_cast<uint32_t>(bits) ? 0 : a[0] << static_cast<uint32_t>(a[1]);
    };
  if (name == "shr")
    return [=](P a) -> uint64_t {
      const auto by = std::min<uint32_t>(static_cast<uint32_t>(a[1]), static_cast<uint32_t>(bits));
      if (is_signed)
        return static_cast<uint64_t>(extend(a[0], bits) >> std::min<uint32_t>(by, static_cast<uint32_t>(bits) - 1));
      return by >= static_cast<uint32_t>(bits) ? 0 : (a[0] & mask_of(bits)) >> by;
    };
  if (name == "shf" && o.has("r") && o.has("clamp"))
    return [](P a) { return ((a[0] & mask_of(32)) | a[1] << 32) >> std::min<uint64_t>(a[2] & mask_of(32), 32); };
  if (name == "bfe")
    return [=](P a) -> uint64_t {
      const int pos = static_cast<int>(a[1] & 255), len = static_cast<int>(a[2] & 255);
      if (len == 0) return 0;
      const uint64_t x = is_signed ? static_cast<uint64_t>(extend(a[0], bits)) : a[0] & mask_of(bits);
      if (pos >= bits) return is_signed && extend(a[0], bits) < 0 ? ~uint64_t{0} : 0;
      const uint64_t field = (is_signed ? static_cast<uint64_t>(static_cast<int64_t>(x) >> pos) : x >> pos);
      return is_signed ? static_cast<uint64_t>(extend(field, std::min(len, 64))) : field & mask_of(len);
    };
  if (name == "bfi")
    return [=](P a) -> uint64_t {
      const int pos = static_cast<int>(a[2] & 255), len = static_cast<int>(a[3] & 255);
      const uint64_t field = pos >= bits ? 0 : mask_of(len) << pos;
      return (a[1] & ~field) | (a[0] << std::min(pos, 63) & field);
    };
  return {};
}

}  // namespace stax::testing
