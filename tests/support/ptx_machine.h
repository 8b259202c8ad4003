// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program of support/ptx_interpreter.h is once it is read: steps that act on threads, and the memory that they see.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/float16.h"
#include "support/ptx_interpreter.h"

namespace stax::testing {
namespace ptx {

[[noreturn]] inline void fail(const std::string& message) { throw std::runtime_error("PTX: " + message); }

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == at && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

inline std::string trim(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t\n\r"), last = s.find_last_not_of(" \t\n\r");
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

// --- types ----------------------------------------------------------------------------------------------------------------

struct Type {
  char kind = 'b';  // s, u, f, b, p (predicate), B (bf16)
  int bits = 32;
};

inline bool parse_type(const std::string& s, Type& t) {
  if (s == "pred") return t = {'p', 1}, true;
  if (s == "bf16") return t = {'B', 16}, true;
  if (s.size() < 2 || std::string("sufb").find(s[0]) == std::string::npos) return false;
  if (!std::all_of(s.begin() + 1, s.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  t = {s[0], std::stoi(s.substr(1))};
  return t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64;
}

inline uint64_t mask_of(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
inline int64_t extend(uint64_t raw, int bits) {
  if (bits >= 64) return static_cast<int64_t>(raw);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>(((raw & mask_of(bits)) ^ sign) - sign);
}
inline float f32_of(uint64_t raw) { return std::bit_cast<float>(static_cast<uint32_t>(raw)); }
inline double f64_of(uint64_t raw) { return std::bit_cast<double>(raw); }
inline uint64_t raw_of(float x) { return std::bit_cast<uint32_t>(x); }
inline uint64_t raw_of(double x) { return std::bit_cast<uint64_t>(x); }
inline float flushed(float x, bool ftz) {
  return ftz && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}

inline double number_of(Type t, uint64_t raw) {
  if (t.kind == 'B') return bf16_to_float(static_cast<uint16_t>(raw));
  return t.bits == 64 ? f64_of(raw) : t.bits == 32 ? f32_of(raw) : f16_to_float(static_cast<uint16_t>(raw));
}
inline uint64_t to_raw(Type t, double x) {
  if (t.kind == 'B') return double_to_bf16(x);
  return t.bits == 64 ? raw_of(x) : t.bits == 32 ? raw_of(static_cast<float>(x)) : double_to_f16(x);
}

// --- a program ------------------------------------------------------------------------------------------------------------

struct Thread;

struct Value {
  enum class Kind : uint8_t { kRegister, kConstant, kSpecial, kSymbol, kDynamicShared } kind = Kind::kConstant;
  uint64_t value = 0;  // number of the register, bits, number of the special register, address
};

struct Address {
  Value base;
  int64_t offset = 0;
};

enum class Meet : uint8_t { kNone, kBlock, kWarp };

struct Step {
  std::string text;
  int predicate = -1;
  bool negated = false;
  Meet meet = Meet::kNone;
  int target = -1;    // of a branch
  bool exit = false;  // ret
  std::function<void(Thread&)> run;
  std::function<void(std::vector<Thread*>&)> run_warp;  // all lanes, by number; null where a lane does not exist
};

struct Block;

struct Thread {
  std::vector<uint64_t> registers;
  std::vector<uint8_t> local;
  int number = 0;
  size_t at = 0;
  Meet waits = Meet::kNone;
  bool done = false;
  Block* block = nullptr;
  struct Copy {
    size_t to = 0;
    const uint8_t* from = nullptr;
    int bytes = 0, read = 0;
  };
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};

constexpr uint64_t kSharedBase = 0x400, kLocalBase = 0x100, kConstBase = 0x7000'0000'0000;

struct Block {
  std::vector<uint8_t> shared;
  int index[3] = {0, 0, 0};
  const PtxLaunch* launch = nullptr;
  const std::vector<uint8_t>* constants = nullptr;
  std::mt19937_64* random = nullptr;
};

inline uint64_t get(const Thread& t, const Value& v);

inline uint8_t* global_at(const Thread& t, uint64_t address, size_t bytes, bool write) {
  for (const PtxLaunch::Memory& m : t.block->launch->memory) {
    const auto first = reinterpret_cast<uint64_t>(m.data);
    if (address >= first && address + bytes <= first + m.bytes) {
      if (write && !m.writable) fail("a write to memory that is read-only");
      return reinterpret_cast<uint8_t*>(address);
    }
  }
  fail("an access outside of all memory");
}

inline uint8_t* memory_at(Thread& t, const std::string& space, const Address& a, size_t bytes, bool write) {
  uint64_t address = get(t, a.base);
  if (space == "shared")
    address = static_cast<uint32_t>(address) + static_cast<uint64_t>(a.offset);
  else
    address += static_cast<uint64_t>(a.offset);
  if (address % bytes != 0) fail("an unaligned access");
  if (space == "global") return global_at(t, address, bytes, write);
  const auto inside = [&](std::vector<uint8_t>& memory, uint64_t base) {
    if (address < base || address + bytes > base + memory.size()) fail("an access outside of " + space + " memory");
    return memory.data() + (address - base);
  };
  if (space == "shared") return inside(t.block->shared, kSharedBase);
  if (space == "local") return inside(t.local, kLocalBase);
  if (space == "const") return inside(const_cast<std::vector<uint8_t>&>(*t.block->constants), kConstBase);
  fail("memory " + space);
}

inline uint64_t get(const Thread& t, const Value& v) {
  switch (v.kind) {
    case Value::Kind::kRegister: return t.registers[v.value];
    case Value::Kind::kConstant:
    case Value::Kind::kSymbol:
    case Value::Kind::kDynamicShared: return v.value;
    case Value::Kind::kSpecial:
      switch (v.value) {
        case 0: return static_cast<uint64_t>(t.number);
        case 1:
        case 2:
        case 3: return static_cast<uint64_t>(t.block->index[v.value - 1]);
        default: return static_cast<uint64_t>(t.number % 32);
      }
  }
  fail("operand");
}

struct Operation {
  std::vector<std::string> parts;  // of the opcode
  std::vector<std::string> operands;
  std::vector<Type> types;
  bool has(const std::string& s) const { return std::find(parts.begin(), parts.end(), s) != parts.end(); }
};

}  // namespace ptx

using namespace ptx;  // NOLINT(google-build-using-namespace): the header of the sources of one class

struct PtxProgram::Impl {
  std::vector<Step> steps;
  std::map<std::string, uint64_t> registers;
  std::map<std::string, Value> symbols;
  std::map<std::string, std::pair<size_t, int>> parameters;  // number, bits
  std::map<std::string, int> labels;
  size_t static_shared = 0, local = 0;
  std::vector<uint8_t> constants;
  std::vector<std::string> types;
  int block = 0;
  bool is_entry = false;

  explicit Impl(const std::string& text);
  // .version ... .visible .entry name(params) .reqntid n, 1, 1
  void entry(const std::string& piece);
  void statement(const std::string& text);
  void declare(const std::smatch& m);
  // --- operands

  int reg(const std::string& s) const;
  Value value(const std::string& given) const;
  Address address(const std::string& given) const;
  std::vector<std::string> group(const std::string& given) const;
  // --- instructions

  void instruction(const std::string& text);
  static void set(Thread& t, int r, uint64_t raw, int bits);
  void decode(const Operation& o, Step& s);
  void decode_split(const Operation& o, Step& s);
  void decode_join(const Operation& o, Step& s);
  static std::string space_of(const Operation& o);
  void decode_load(const Operation& o, Step& s);
  void decode_store(const Operation& o, Step& s);
  void decode_atomic(const Operation& o, Step& s);
  void decode_copy(const Operation& o, Step& s);
  void decode_convert(const Operation& o, Step& s);
  // --- arithmetic

  using Function = std::function<uint64_t(const uint64_t*)>;

  void decode_arithmetic(const Operation& o, Step& s);
  static Function comparison(const Operation& o, Type type);
  template <class T>
  static Function in(const Operation& o, const std::function<T(T, T, T)>& f);
  static Function real(const Operation& o, Type type);
  template <class T>
  static Function real_of(const Operation& o);
  static Function whole(const Operation& o, Type type);
  // --- warps

  void decode_warp(const Operation& o, Step& s);
  // Rows of 16 bytes at the addresses of lanes 0 .. 7, 8 .. 15, ..; a register of lane l has two elements of row l / 4 (.trans: of column).
  void decode_load_matrix(const Operation& o, Step& s);
  // Where element i of the lane lies, as the description of the instructions says.
  struct At {
    int row, column;
  };
  static At a_at(int m, int k, int size, int lane, int i);
  static At b_at(int size, int lane, int i);
  static At c_at(int m, int lane, int i) { return {lane / 4 + (m == 16 && i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2}; }

  void decode_mma(const Operation& o, Step& s);
  // --- running

  // Up to the next meeting or the end.
  void advance(Thread& t) const;
  void run_block(Block& block, std::mt19937_64& random) const;
  bool meet_warp(std::vector<Thread>& threads, size_t first) const;
};

}  // namespace stax::testing
