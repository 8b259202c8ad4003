// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics, asynchronous copies and conversions.
#include <limits>

#include "support/ptx_machine.h"

namespace stax::testing {

void PtxProgram::Impl::decode_split(const Operation& o, Step& s) {
  const std::vector<std::string> to = group(o.operands[0]);
  const int low = reg(to[0]), high = reg(to[1]), bits = o.types[0].bits / 2;
  const Value from = value(o.operands[1]);
  s.run = [=](Thread& t) {
    const uint64_t x = get(t, from);
    set(t, low, x, bits);
    set(t, high, x >> bits, bits);
  };
}

void PtxProgram::Impl::decode_join(const Operation& o, Step& s) {
  const std::vector<std::string> from = group(o.operands[1]);
  const Value low = value(from[0]), high = value(from[1]);
  const int to = reg(o.operands[0]), bits = o.types[0].bits / 2;
  s.run = [=](Thread& t) { set(t, to, (get(t, low) & mask_of(bits)) | get(t, high) << bits, 2 * bits); };
}

std::string PtxProgram::Impl::space_of(const Operation& o) {
  for (const char* space : {"global", "shared", "local", "const", "param"})
    if (o.has(space)) return space;
  fail("no space in an access");
}

void PtxProgram::Impl::decode_load(const Operation& o, Step& s) {
  const std::string space = space_of(o);
  const Type type = o.types.back();
  const int bytes = type.bits / 8;
  if (space == "param") {
    const std::string at = trim(o.operands[1]);
    const auto found = parameters.find(at.substr(1, at.size() - 2));
    if (found == parameters.end()) fail("parameter " + at);
    if (found->second.second < type.bits) fail("a parameter is read as something larger");
    const size_t number = found->second.first;
    const int to = reg(o.operands[0]);
    s.run = [=](Thread& t) {
      if (number >= t.block->launch->arguments.size()) fail("too few arguments");
      set(t, to, t.block->launch->arguments[number], type.bits);
    };
    return;
  }
  const std::vector<std::string> to = group(o.operands[0]);
  for (const char* v : {"v2", "v4"})
    if (o.has(v) && to.size() != static_cast<size_t>(v[1] - '0')) fail("a vector of another length");
  const bool uncached = o.has("nc");
  std::vector<int> registers_to;
  for (const std::string& r : to) registers_to.push_back(reg(r));
  const Address at = address(o.operands[1]);
  s.run = [=](Thread& t) {
    const uint8_t* data = memory_at(t, space, at, static_cast<size_t>(bytes) * registers_to.size(), false);
    if (uncached && t.block->launch->know_read_only)
      for (const PtxLaunch::Memory& m : t.block->launch->memory)
        if (m.writable && data >= m.data && data < static_cast<uint8_t*>(m.data) + m.bytes)
          fail("ld.global.nc of memory that is written");
    for (size_t k = 0; k < registers_to.size(); ++k) {
      uint64_t raw = 0;
      std::memcpy(&raw, data + k * static_cast<size_t>(bytes), static_cast<size_t>(bytes));
      t.registers[static_cast<size_t>(registers_to[k])] =
          type.kind == 's' ? static_cast<uint64_t>(extend(raw, type.bits)) & mask_of(type.bits < 32 ? 32 : type.bits)
                           : raw;
    }
  };
}

void PtxProgram::Impl::decode_store(const Operation& o, Step& s) {
  const std::string space = space_of(o);
  const int bytes = o.types.back().bits / 8;
  std::vector<Value> from;
  for (const std::string& v : group(o.operands[1]))
    from.push_back({Value::Kind::kRegister, static_cast<uint64_t>(reg(v))});
  const Address at = address(o.operands[0]);
  s.run = [=](Thread& t) {
    uint8_t* data = memory_at(t, space, at, static_cast<size_t>(bytes) * from.size(), true);
    for (size_t k = 0; k < from.size(); ++k) {
      const uint64_t raw = get(t, from[k]);
      std::memcpy(data + k * static_cast<size_t>(bytes), &raw, static_cast<size_t>(bytes));
    }
  };
}

void PtxProgram::Impl::decode_atomic(const Operation& o, Step& s) {
  const std::string space = space_of(o);
  const bool has_result = o.parts[0] == "atom";
  const int to = has_result ? reg(o.operands[0]) : -1;
  const Address at = address(o.operands[has_result ? 1 : 0]);
  const Type type = o.types.back();
  std::vector<Value> args;
  for (size_t k = has_result ? 2 : 1; k < o.operands.size(); ++k) args.push_back(value(o.operands[k]));
  std::string what;
  for (const char* op : {"add", "min", "max", "and", "or", "cas", "exch"})
    if (o.has(op)) what = op;
  s.run = [=](Thread& t) {
    uint8_t* data = memory_at(t, space, at, static_cast<size_t>(type.bits / 8), true);
    uint64_t old = 0;
    std::memcpy(&old, data, static_cast<size_t>(type.bits / 8));
    const uint64_t x = get(t, args[0]) & mask_of(type.bits);
    uint64_t next = 0;
    if (what == "cas")
      next = old == x ? get(t, args[1]) : old;
    else if (what == "add" && (type.kind == 'f' || type.kind == 'B'))
      next = to_raw(type, number_of(type, old) + number_of(type, x));
    else if (what == "add")
      next = old + x;
    else if (what == "and")
      next = old & x;
    else if (what == "or")
      next = old | x;
    else {
      const bool less = type.kind == 's' ? extend(x, type.bits) < extend(old, type.bits) : x < old;
      next = less == (what == "min") ? x : old;
    }
    std::memcpy(data, &next, static_cast<size_t>(type.bits / 8));
    if (to >= 0) set(t, to, old, type.bits);
  };
}

void PtxProgram::Impl::decode_copy(const Operation& o, Step& s) {
  if (o.has("commit_group")) {
    s.run = [](Thread& t) {
      t.groups.push_back(std::move(t.open));
      t.open.clear();
    };
    return;
  }
  if (o.has("wait_group")) {
    const auto pending = static_cast<size_t>(std::stoul(o.operands[0]));
    s.run = [=](Thread& t) {
      while (t.groups.size() > pending) {
        for (const Thread::Copy& c : t.groups.front()) {
          std::memset(t.block->shared.data() + c.to, 0, static_cast<size_t>(c.bytes));
          if (c.read > 0) std::memcpy(t.block->shared.data() + c.to, c.from, static_cast<size_t>(c.read));
        }
        t.groups.erase(t.groups.begin());
      }
    };
    return;
  }
  const Address to = address(o.operands[0]), from = address(o.operands[1]);
  const int bytes = std::stoi(o.operands[2]);
  if (o.has("cg") && bytes != 16) fail("cp.async.cg copies 16 bytes");
  const bool has_size = o.operands.size() > 3;
  const Value size = has_size ? value(o.operands[3]) : Value{};
  s.run = [=](Thread& t) {
    Thread::Copy c;
    c.bytes = bytes;
    c.read = has_size ? static_cast<int>(get(t, size)) : bytes;
    uint8_t* target = memory_at(t, "shared", to, static_cast<size_t>(bytes), true);
    c.to = static_cast<size_t>(target - t.block->shared.data());
    if (c.read > 0) c.from = memory_at(t, "global", from, static_cast<size_t>(bytes), false);
    for (int k = 0; k < bytes; ++k) target[k] = static_cast<uint8_t>((*t.block->random)());
    t.open.push_back(c);
  };
}

void PtxProgram::Impl::decode_convert(const Operation& o, Step& s) {
  const Type to = o.types[0], from = o.types[1];
  const int r = reg(o.operands[0]);
  const Value x = value(o.operands[1]);
  const bool to_float = to.kind == 'f' || to.kind == 'B', from_float = from.kind == 'f' || from.kind == 'B';
  std::string mode;
  for (const char* m : {"rn", "rz", "rmi", "rpi", "rzi", "rni"})
    if (o.has(m)) mode = m;
  const bool ftz = o.has("ftz");
  const auto whole = [](const std::string& m, double v) {
    return m == "rmi"   ? std::floor(v)
           : m == "rpi" ? std::ceil(v)
           : m == "rzi" ? std::trunc(v)
           : m == "rni" ? std::nearbyint(v)
                        : v;
  };
  if (to_float && from_float && mode.empty() && to.bits < from.bits) fail("a conversion without rounding: " + s.text);
  if (to_float && !from_float && mode.empty()) fail("a conversion without rounding: " + s.text);
  if (!to_float && from_float && mode.size() != 3) fail("a conversion without rounding: " + s.text);
  s.run = [=](Thread& t) {
    const uint64_t raw = get(t, x);
    if (from_float) {
      double v = number_of(from, raw);
      if (from.bits == 32) v = flushed(static_cast<float>(v), ftz);
      v = whole(mode, v);
      if (to_float) {
        if (mode == "rz" && to.bits == 32) {
          auto f = static_cast<float>(v);
          if (std::isinf(f) && !std::isinf(v))
            f = std::copysign(std::numeric_limits<float>::max(), static_cast<float>(v));
          else if (std::fabs(static_cast<double>(f)) > std::fabs(v))
            f = std::nextafter(f, 0.0F);
          return set(t, r, raw_of(f), 32);
        }
        uint64_t result = to_raw(to, v);
        if (to.bits == 32) result = raw_of(flushed(f32_of(result), ftz));
        return set(t, r, result, to.bits);
      }
      // Of a NaN nothing is relied on.
      if (std::isnan(v)) return set(t, r, 0x5A5A5A5A5A5A5A5A, to.bits);
      const double most = std::ldexp(1.0, to.bits - (to.kind == 's' ? 1 : 0)), least = to.kind == 's' ? -most : 0.0;
      if (v >= most) return set(t, r, to.kind == 's' ? mask_of(to.bits - 1) : mask_of(to.bits), to.bits);
      if (v <= least) return set(t, r, to.kind == 's' ? uint64_t{1} << (to.bits - 1) : 0, to.bits);
      return set(t, r, to.kind == 's' ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v),
                 to.bits);
    }
    if (to_float) {
      const int64_t i = extend(raw, from.bits);
      const uint64_t u = raw & mask_of(from.bits);
      if (to.bits == 32) return set(t, r, raw_of(from.kind == 's' ? static_cast<float>(i) : static_cast<float>(u)), 32);
      return set(t, r, to_raw(to, from.kind == 's' ? static_cast<double>(i) : static_cast<double>(u)), to.bits);
    }
    // The result is extended to the register as its type is.
    const uint64_t wide = from.kind == 's' ? static_cast<uint64_t>(extend(raw, from.bits)) : raw & mask_of(from.bits);
    const uint64_t cut = to.kind == 's' ? static_cast<uint64_t>(extend(wide, to.bits)) : wide & mask_of(to.bits);
    set(t, r, cut, std::max(to.bits, 16));
  };
}

}  // namespace stax::testing
