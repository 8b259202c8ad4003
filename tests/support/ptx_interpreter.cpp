// SPDX-License-Identifier: Apache-2.0
#include "support/ptx_interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <stdexcept>

#include "support/float16.h"

namespace stax::testing {
namespace {

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error("PTX: " + message); }

std::vector<std::string> split(const std::string& text, char at) {
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

std::string trim(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t\n\r"), last = s.find_last_not_of(" \t\n\r");
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

// --- types ----------------------------------------------------------------------------------------------------------------

struct Type {
  char kind = 'b';  // s, u, f, b, p (predicate), B (bf16)
  int bits = 32;
};

bool parse_type(const std::string& s, Type& t) {
  if (s == "pred") return t = {'p', 1}, true;
  if (s == "bf16") return t = {'B', 16}, true;
  if (s.size() < 2 || std::string("sufb").find(s[0]) == std::string::npos) return false;
  if (!std::all_of(s.begin() + 1, s.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  t = {s[0], std::stoi(s.substr(1))};
  return t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64;
}

uint64_t mask_of(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
int64_t extend(uint64_t raw, int bits) {
  if (bits >= 64) return static_cast<int64_t>(raw);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>(((raw & mask_of(bits)) ^ sign) - sign);
}
float f32_of(uint64_t raw) { return std::bit_cast<float>(static_cast<uint32_t>(raw)); }
double f64_of(uint64_t raw) { return std::bit_cast<double>(raw); }
uint64_t raw_of(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t raw_of(double x) { return std::bit_cast<uint64_t>(x); }
float flushed(float x, bool ftz) { return ftz && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

double number_of(Type t, uint64_t raw) {
  if (t.kind == 'B') return bf16_to_float(static_cast<uint16_t>(raw));
  return t.bits == 64 ? f64_of(raw) : t.bits == 32 ? f32_of(raw) : f16_to_float(static_cast<uint16_t>(raw));
}
uint64_t to_raw(Type t, double x) {
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

uint64_t get(const Thread& t, const Value& v);

uint8_t* global_at(const Thread& t, uint64_t address, size_t bytes, bool write) {
  for (const PtxLaunch::Memory& m : t.block->launch->memory) {
    const auto first = reinterpret_cast<uint64_t>(m.data);
    if (address >= first && address + bytes <= first + m.bytes) {
      if (write && !m.writable) fail("a write to memory that is read-only");
      return reinterpret_cast<uint8_t*>(address);
    }
  }
  fail("an access outside of all memory");
}

uint8_t* memory_at(Thread& t, const std::string& space, const Address& a, size_t bytes, bool write) {
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

uint64_t get(const Thread& t, const Value& v) {
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

}  // namespace

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

  explicit Impl(const std::string& text) {
    std::string code = std::regex_replace(text, std::regex("//[^\n]*"), "");
    code = std::regex_replace(code, std::regex(R"(\.(version|target|address_size)[^\n]*)"), "");
    size_t at = 0;
    std::string word;
    while (at < code.size()) {
      const size_t end = code.find_first_of(";:{}", at);
      if (end == std::string::npos) break;
      std::string piece = trim(code.substr(at, end - at));
      if (code[end] == ':') {
        labels[piece] = static_cast<int>(steps.size());
        at = end + 1;
        continue;
      }
      if (code[end] == '{' && (piece.find(".entry") != std::string::npos)) {
        entry(piece);
        at = end + 1;
        continue;
      }
      if (code[end] == '}') {
        at = end + 1;
        continue;
      }
      const size_t stop = code.find(';', at);
      if (stop == std::string::npos) fail("no ; after " + piece.substr(0, 60));
      statement(trim(code.substr(at, stop - at)));
      at = stop + 1;
    }
    for (Step& s : steps)
      if (s.target == -2) {
        const auto found = labels.find(s.text.substr(s.text.rfind(' ') + 1));
        if (found == labels.end()) fail("no label for " + s.text);
        s.target = found->second;
      }
    if (!is_entry) fail("no entry");
  }

  // .version ... .visible .entry name(params) .reqntid n, 1, 1
  void entry(const std::string& piece) {
    is_entry = true;
    const size_t open = piece.find('('), close = piece.rfind(')');
    size_t number = 0;
    for (const std::string& p : split(piece.substr(open + 1, close - open - 1), ',')) {
      std::smatch m;
      const std::string text = trim(p);
      if (text.empty()) continue;
      if (!std::regex_match(text, m, std::regex(R"(\.param\s+\.([a-z]+)(\d+)\s+([\w$]+))"))) fail("parameter " + text);
      parameters[m[3]] = {number++, std::stoi(m[2])};
    }
    std::smatch m;
    const std::string rest = piece.substr(close + 1);
    if (std::regex_search(rest, m, std::regex(R"(\.reqntid\s+(\d+),\s*1,\s*1)"))) block = std::stoi(m[1]);
  }

  void statement(const std::string& text) {
    std::smatch m;
    static const std::regex reg(R"(\.reg\s+(\.\w+)\s+(%\w+)<(\d+)>)");
    static const std::regex array(
        R"((?:\.extern\s+)?\.(shared|local|const)\s+\.align\s+(\d+)\s+\.b(\d+)\s+([\w$]+)\[(\d*)\](?:\s*=\s*\{([^}]*)\})?)");
    if (std::regex_match(text, m, reg)) {
      for (int i = 0; i < std::stoi(m[3]); ++i)
        registers.emplace(std::string(m[2]) + std::to_string(i), registers.size());
      return;
    }
    if (std::regex_match(text, m, array)) {
      declare(m);
      return;
    }
    if (text.starts_with(".pragma")) return;
    if (!text.empty() && text[0] == '.') fail("directive " + text);
    instruction(text);
  }

  void declare(const std::smatch& m) {
    const std::string space = m[1], name = m[4], count = m[5];
    const size_t bytes = count.empty() ? 0 : std::stoul(count) * std::stoul(m[3]) / 8, align = std::stoul(m[2]);
    const auto place = [&](size_t& size, uint64_t base) {
      size = (size + align - 1) / align * align;
      symbols[name] = {Value::Kind::kSymbol, base + size};
      size += bytes;
    };
    if (space == "shared" && count.empty()) {
      symbols[name] = {Value::Kind::kDynamicShared, 0};
    } else if (space == "shared") {
      place(static_shared, kSharedBase);
    } else if (space == "local") {
      place(local, kLocalBase);
    } else {
      symbols[name] = {Value::Kind::kSymbol, kConstBase + constants.size()};
      for (const std::string& word : split(m[6], ',')) {
        const auto value = static_cast<uint32_t>(std::stoul(trim(word)));
        constants.insert(constants.end(), reinterpret_cast<const uint8_t*>(&value),
                         reinterpret_cast<const uint8_t*>(&value) + 4);
      }
    }
  }

  // --- operands

  int reg(const std::string& s) const {
    const auto found = registers.find(trim(s));
    if (found == registers.end()) fail("register " + s);
    return static_cast<int>(found->second);
  }

  Value value(const std::string& given) const {
    const std::string s = trim(given);
    if (s.empty()) fail("an empty operand");
    if (s[0] == '%') {
      static const std::map<std::string, uint64_t> special = {
          {"%tid.x", 0}, {"%ctaid.x", 1}, {"%ctaid.y", 2}, {"%ctaid.z", 3}, {"%laneid", 4}};
      if (const auto found = special.find(s); found != special.end()) return {Value::Kind::kSpecial, found->second};
      return {Value::Kind::kRegister, static_cast<uint64_t>(reg(s))};
    }
    if (s.starts_with("0f")) return {Value::Kind::kConstant, std::stoull(s.substr(2), nullptr, 16)};
    if (s.starts_with("0d")) return {Value::Kind::kConstant, std::stoull(s.substr(2), nullptr, 16)};
    if (const auto found = symbols.find(s); found != symbols.end()) {
      if (found->second.kind != Value::Kind::kDynamicShared) return found->second;
      // Behind the static; that is declared in front of all instructions.
      return {Value::Kind::kConstant, kSharedBase + (static_shared + 15) / 16 * 16};
    }
    size_t used = 0;
    const int64_t number = s[0] == '-' ? std::stoll(s, &used) : static_cast<int64_t>(std::stoull(s, &used));
    if (used != s.size()) fail("operand " + s);
    return {Value::Kind::kConstant, static_cast<uint64_t>(number)};
  }

  Address address(const std::string& given) const {
    const std::string s = trim(given);
    if (s.front() != '[' || s.back() != ']') fail("address " + s);
    const std::string inner = s.substr(1, s.size() - 2);
    // [a + b] in the form that ptxas takes: a negative offset is added, too.
    const size_t sign = inner.find('+');
    if (sign == std::string::npos) return {value(inner), 0};
    return {value(inner.substr(0, sign)), std::stoll(inner.substr(sign + 1))};
  }

  std::vector<std::string> group(const std::string& given) const {
    const std::string s = trim(given);
    if (s.front() != '{') return {s};
    return split(s.substr(1, s.size() - 2), ',');
  }

  // --- instructions

  void instruction(const std::string& text) {
    Step step;
    step.text = text;
    std::string rest = text;
    if (rest[0] == '@') {
      const size_t space = rest.find(' ');
      step.negated = rest[1] == '!';
      step.predicate = reg(rest.substr(step.negated ? 2 : 1, space - (step.negated ? 2 : 1)));
      rest = trim(rest.substr(space));
    }
    const size_t space = rest.find_first_of(" \t");
    Operation o;
    const std::string opcode = rest.substr(0, space);
    std::string piece;
    for (char c : opcode + ".") {
      if (c != '.') {
        piece += c;
        continue;
      }
      o.parts.push_back(piece);
      Type t;
      if (parse_type(piece, t)) o.types.push_back(t);
      piece.clear();
    }
    if (space != std::string::npos)
      for (const std::string& s : split(rest.substr(space), ',')) o.operands.push_back(trim(s));
    decode(o, step);
    steps.push_back(std::move(step));
  }

  static void set(Thread& t, int r, uint64_t raw, int bits) {
    t.registers[static_cast<size_t>(r)] = raw & mask_of(bits);
  }

  void decode(const Operation& o, Step& s) {
    const std::string& name = o.parts[0];
    if (name == "ret" || name == "exit")
      s.exit = true;
    else if (name == "bra")
      s.target = -2;
    else if (name == "bar")
      s.meet = Meet::kBlock;
    else if (name == "shfl" || name == "vote" || name == "mma" || name == "ldmatrix")
      decode_warp(o, s);
    else if (name == "ld")
      decode_load(o, s);
    else if (name == "st")
      decode_store(o, s);
    else if (name == "red" || name == "atom")
      decode_atomic(o, s);
    else if (name == "cp")
      decode_copy(o, s);
    else if (name == "cvt")
      decode_convert(o, s);
    else if (name == "mov" && o.operands[0][0] == '{')
      decode_split(o, s);
    else if (name == "mov" && o.operands[1][0] == '{')
      decode_join(o, s);
    else
      decode_arithmetic(o, s);
  }

  void decode_split(const Operation& o, Step& s) {
    const std::vector<std::string> to = group(o.operands[0]);
    const int low = reg(to[0]), high = reg(to[1]), bits = o.types[0].bits / 2;
    const Value from = value(o.operands[1]);
    s.run = [=](Thread& t) {
      const uint64_t x = get(t, from);
      set(t, low, x, bits);
      set(t, high, x >> bits, bits);
    };
  }

  void decode_join(const Operation& o, Step& s) {
    const std::vector<std::string> from = group(o.operands[1]);
    const Value low = value(from[0]), high = value(from[1]);
    const int to = reg(o.operands[0]), bits = o.types[0].bits / 2;
    s.run = [=](Thread& t) { set(t, to, (get(t, low) & mask_of(bits)) | get(t, high) << bits, 2 * bits); };
  }

  static std::string space_of(const Operation& o) {
    for (const char* space : {"global", "shared", "local", "const", "param"})
      if (o.has(space)) return space;
    fail("no space in an access");
  }

  void decode_load(const Operation& o, Step& s) {
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

  void decode_store(const Operation& o, Step& s) {
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

  void decode_atomic(const Operation& o, Step& s) {
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

  void decode_copy(const Operation& o, Step& s) {
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

  void decode_convert(const Operation& o, Step& s) {
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
        if (to.bits == 32)
          return set(t, r, raw_of(from.kind == 's' ? static_cast<float>(i) : static_cast<float>(u)), 32);
        return set(t, r, to_raw(to, from.kind == 's' ? static_cast<double>(i) : static_cast<double>(u)), to.bits);
      }
      // The result is extended to the register as its type is.
      const uint64_t wide = from.kind == 's' ? static_cast<uint64_t>(extend(raw, from.bits)) : raw & mask_of(from.bits);
      const uint64_t cut = to.kind == 's' ? static_cast<uint64_t>(extend(wide, to.bits)) : wide & mask_of(to.bits);
      set(t, r, cut, std::max(to.bits, 16));
    };
  }

  // --- arithmetic

  using Function = std::function<uint64_t(const uint64_t*)>;

  void decode_arithmetic(const Operation& o, Step& s) {
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

  static Function comparison(const Operation& o, Type type) {
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
  static Function in(const Operation& o, const std::function<T(T, T, T)>& f) {
    const bool ftz = o.has("ftz");
    return [=](const uint64_t* a) -> uint64_t {
      if constexpr (std::is_same_v<T, float>)
        return raw_of(
            flushed(f(flushed(f32_of(a[0]), ftz), flushed(f32_of(a[1]), ftz), flushed(f32_of(a[2]), ftz)), ftz));
      else
        return raw_of(f(f64_of(a[0]), f64_of(a[1]), f64_of(a[2])));
    };
  }

  static Function real(const Operation& o, Type type) {
    return type.bits == 64 ? real_of<double>(o) : real_of<float>(o);
  }

  template <class T>
  static Function real_of(const Operation& o) {
    const std::string name = o.parts[0];
    const auto rounded = [&](Function f) { return o.has("rn") ? f : Function{}; };
    if (name == "mov") return [](const uint64_t* a) { return a[0]; };
    if (name == "selp") return [](const uint64_t* a) { return a[2] != 0 ? a[0] : a[1]; };
    if (name == "add") return rounded(in<T>(o, [](T x, T y, T) { return x + y; }));
    if (name == "sub") return rounded(in<T>(o, [](T x, T y, T) { return x - y; }));
    if (name == "mul") return rounded(in<T>(o, [](T x, T y, T) { return x * y; }));
    if (name == "div") return rounded(in<T>(o, [](T x, T y, T) { return x / y; }));
    if (name == "sqrt") return rounded(in<T>(o, [](T x, T, T) { return std::sqrt(x); }));
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

  static Function whole(const Operation& o, Type type) {
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
    if (name == "abs")
      return [=](P a) { return static_cast<uint64_t>(number(a[0]) < 0 ? -number(a[0]) : number(a[0])); };
    if (name == "not") return [](P a) { return ~a[0]; };
    if (name == "and") return [](P a) { return a[0] & a[1]; };
    if (name == "or") return [](P a) { return a[0] | a[1]; };
    if (name == "xor") return [](P a) { return a[0] ^ a[1]; };
    if (name == "mul" || name == "mad") {
      if (!high && !wide && !o.has("lo")) return {};
      return [=](P a) {
        const auto product =
            static_cast<unsigned __int128>(number(a[0])) * static_cast<unsigned __int128>(number(a[1]));
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

  // --- warps

  void decode_warp(const Operation& o, Step& s) {
    s.meet = Meet::kWarp;
    if (o.parts[0] == "shfl") {
      const int to = reg(o.operands[0]);
      const Value from = value(o.operands[1]), lane = value(o.operands[2]), clamp = value(o.operands[3]),
                  mask = value(o.operands[4]);
      const bool by_xor = o.has("bfly");
      s.run_warp = [=](std::vector<Thread*>& lanes) {
        std::vector<uint64_t> values(lanes.size());
        uint32_t present = 0;
        for (size_t k = 0; k < lanes.size(); ++k)
          if (lanes[k] != nullptr) values[k] = get(*lanes[k], from), present |= uint32_t{1} << k;
        for (size_t k = 0; k < lanes.size(); ++k) {
          if (lanes[k] == nullptr) continue;
          if (get(*lanes[k], clamp) != 31) fail("a shuffle within part of a warp");
          if (static_cast<uint32_t>(get(*lanes[k], mask)) != present) fail("a shuffle whose mask is not the warp");
          const uint64_t other = by_xor ? k ^ get(*lanes[k], lane) : get(*lanes[k], lane) & 31;
          if (other >= lanes.size() || lanes[other] == nullptr) fail("a shuffle from a lane that does not exist");
          set(*lanes[k], to, values[other], 32);
        }
      };
    } else if (o.parts[0] == "vote") {
      const int to = reg(o.operands[0]);
      const Value from = value(o.operands[1]), mask = value(o.operands[2]);
      const bool any = o.has("any");
      s.run_warp = [=](std::vector<Thread*>& lanes) {
        bool result = !any;
        uint32_t present = 0;
        for (size_t k = 0; k < lanes.size(); ++k)
          if (lanes[k] != nullptr) {
            present |= uint32_t{1} << k;
            const bool p = get(*lanes[k], from) != 0;
            result = any ? result || p : result && p;
          }
        for (Thread* t : lanes) {
          if (t == nullptr) continue;
          if (static_cast<uint32_t>(get(*t, mask)) != present) fail("a vote whose mask is not the warp");
          set(*t, to, result ? 1 : 0, 1);
        }
      };
    } else if (o.parts[0] == "ldmatrix") {
      decode_load_matrix(o, s);
    } else {
      decode_mma(o, s);
    }
  }

  // Rows of 16 bytes at the addresses of lanes 0 .. 7, 8 .. 15, ..; a register of lane l has two elements of row l / 4 (.trans: of column).
  void decode_load_matrix(const Operation& o, Step& s) {
    std::vector<int> to;
    for (const std::string& r : group(o.operands[0])) to.push_back(reg(r));
    const Address at = address(o.operands[1]);
    const bool transposed = o.has("trans");
    if (!o.has("m8n8") || !o.has("shared") || !o.has("x" + std::to_string(to.size()))) fail("instruction " + s.text);
    s.run_warp = [=](std::vector<Thread*>& lanes) {
      uint32_t results[32][4];
      for (size_t q = 0; q < to.size(); ++q) {
        uint16_t matrix[8][8];
        for (size_t r = 0; r < 8; ++r) {
          Thread* t = lanes[8 * q + r];
          if (t == nullptr) fail("matrices are loaded in a warp that is not full");
          std::memcpy(matrix[r], memory_at(*t, "shared", at, 16, false), 16);
        }
        for (size_t lane = 0; lane < 32; ++lane) {
          if (lanes[lane] == nullptr) fail("matrices are loaded in a warp that is not full");
          const size_t line = lane / 4, first = lane % 4 * 2;
          const uint32_t low = transposed ? matrix[first][line] : matrix[line][first];
          const uint32_t high = transposed ? matrix[first + 1][line] : matrix[line][first + 1];
          results[lane][q] = low | high << 16;
        }
      }
      for (size_t lane = 0; lane < 32; ++lane)
        for (size_t q = 0; q < to.size(); ++q) set(*lanes[lane], to[q], results[lane][q], 32);
    };
  }

  // Where element i of the lane lies, as the description of the instructions says.
  struct At {
    int row, column;
  };
  static At a_at(int m, int k, int size, int lane, int i) {
    const int group = lane / 4, within = lane % 4, per = 4 / size;
    const int word = i / per, part = i % per;
    if (m == 8) return {group, within * per + i};
    return {group + (word % 2 == 1 ? 8 : 0), within * per + part + (word / 2) * 4 * per + 0 * k};
  }
  static At b_at(int size, int lane, int i) {
    const int per = 4 / size;
    return {(lane % 4) * per + i % per + (i / per) * 4 * per, lane / 4};
  }
  static At c_at(int m, int lane, int i) { return {lane / 4 + (m == 16 && i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2}; }

  void decode_mma(const Operation& o, Step& s) {
    std::smatch shape;
    int m = 0, n = 0, k = 0;
    for (const std::string& p : o.parts)
      if (std::regex_match(p, shape, std::regex(R"(m(\d+)n(\d+)k(\d+))")))
        m = std::stoi(shape[1]), n = std::stoi(shape[2]), k = std::stoi(shape[3]);
    const bool tf32 = o.has("tf32");
    if (!o.has("row") || !o.has("col") || n != 8 || !(tf32 || o.types.size() == 4)) fail("instruction " + s.text);
    const Type sum = o.types.front(), factor = tf32 ? Type{'f', 32} : o.types[1];
    const auto list = [&](const std::string& text) {
      std::vector<int> result;
      for (const std::string& r : group(text)) result.push_back(reg(r));
      return result;
    };
    const std::vector<int> d = list(o.operands[0]), a = list(o.operands[1]), b = list(o.operands[2]),
                           c = list(o.operands[3]);
    const int size = factor.bits / 8, sum_size = sum.bits / 8;
    const int a_items = m * k / 32, b_items = k * 8 / 32, c_items = m * 8 / 32;
    if (static_cast<int>(a.size()) != a_items * size / 4 || static_cast<int>(b.size()) != b_items * size / 4 ||
        static_cast<int>(c.size()) != c_items * sum_size / 4 || d.size() != c.size())
      fail("operands of " + s.text);
    s.run_warp = [=](std::vector<Thread*>& lanes) {
      const auto item = [&](Thread* t, const std::vector<int>& registers, Type type, int i) -> double {
        const int bytes = type.bits / 8, per = 4 / bytes;
        const uint64_t raw =
            t->registers[static_cast<size_t>(registers[static_cast<size_t>(i / per)])] >> (i % per * type.bits);
        if (type.kind == 's') return static_cast<double>(extend(raw, type.bits));
        if (type.kind == 'u') return static_cast<double>(raw & mask_of(type.bits));
        if (tf32 && type.bits == 32 && &registers != &c) return f32_of(raw & ~uint64_t{0x1FFF});
        return number_of(type, raw & mask_of(type.bits));
      };
      std::vector<double> left(static_cast<size_t>(m * k)), right(static_cast<size_t>(k * 8)),
          out(static_cast<size_t>(m * 8));
      for (int lane = 0; lane < 32; ++lane) {
        Thread* t = lanes[static_cast<size_t>(lane)];
        if (t == nullptr) fail("a matrix instruction in a warp that is not full");
        for (int i = 0; i < a_items; ++i)
          left[static_cast<size_t>(a_at(m, k, size, lane, i).row * k + a_at(m, k, size, lane, i).column)] =
              item(t, a, factor, i);
        for (int i = 0; i < b_items; ++i)
          right[static_cast<size_t>(b_at(size, lane, i).row * 8 + b_at(size, lane, i).column)] = item(t, b, factor, i);
        for (int i = 0; i < c_items; ++i)
          out[static_cast<size_t>(c_at(m, lane, i).row * 8 + c_at(m, lane, i).column)] = item(t, c, sum, i);
      }
      for (int row = 0; row < m; ++row)
        for (int column = 0; column < 8; ++column)
          for (int r = 0; r < k; ++r)
            out[static_cast<size_t>(row * 8 + column)] +=
                left[static_cast<size_t>(row * k + r)] * right[static_cast<size_t>(r * 8 + column)];
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < c_items; ++i) {
          const double x = out[static_cast<size_t>(c_at(m, lane, i).row * 8 + c_at(m, lane, i).column)];
          const uint64_t raw =
              sum.kind == 's' ? static_cast<uint64_t>(static_cast<int64_t>(x)) & mask_of(32) : to_raw(sum, x);
          uint64_t& to = lanes[static_cast<size_t>(lane)]
                             ->registers[static_cast<size_t>(d[static_cast<size_t>(i * sum_size / 4)])];
          if (sum_size == 4)
            to = raw;
          else
            to = i % 2 == 0 ? (to & ~mask_of(16)) | raw : (to & mask_of(16)) | raw << 16;
        }
    };
  }

  // --- running

  // Up to the next meeting or the end.
  void advance(Thread& t) const {
    int64_t budget = 200'000'000;
    while (t.at < steps.size()) {
      const Step& s = steps[t.at];
      const bool on = s.predicate < 0 || (t.registers[static_cast<size_t>(s.predicate)] & 1) != (s.negated ? 1U : 0U);
      if (--budget == 0) fail("no end of a loop");
      if (!on) {
        if (s.meet != Meet::kNone) fail("a thread passes by: " + s.text);
        ++t.at;
        continue;
      }
      if (s.exit) {
        t.done = true;
        return;
      }
      if (s.meet != Meet::kNone) {
        t.waits = s.meet;
        return;
      }
      if (s.target >= 0) {
        t.at = static_cast<size_t>(s.target);
        continue;
      }
      try {
        s.run(t);
      } catch (const std::runtime_error& e) {
        throw std::runtime_error(std::string(e.what()) + " in `" + s.text + "` of thread " + std::to_string(t.number));
      }
      ++t.at;
    }
    t.done = true;
  }

  void run_block(Block& block, std::mt19937_64& random) const {
    const int count = block.launch->block;
    std::vector<Thread> threads(static_cast<size_t>(count));
    for (int k = 0; k < count; ++k) {
      Thread& t = threads[static_cast<size_t>(k)];
      t.number = k;
      t.block = &block;
      t.registers.resize(registers.size());
      for (uint64_t& r : t.registers) r = random();
      t.local.resize(local);
      for (uint8_t& b : t.local) b = static_cast<uint8_t>(random());
    }
    std::vector<size_t> order(threads.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    for (;;) {
      std::shuffle(order.begin(), order.end(), random);
      for (size_t k : order)
        if (!threads[k].done && threads[k].waits == Meet::kNone) advance(threads[k]);
      bool moved = false;
      for (size_t first = 0; first < threads.size(); first += 32) moved = meet_warp(threads, first) || moved;
      if (moved) continue;
      const size_t done =
          static_cast<size_t>(std::count_if(threads.begin(), threads.end(), [](const Thread& t) { return t.done; }));
      if (done == threads.size()) return;
      for (const Thread& t : threads)
        if (t.done || t.waits != Meet::kBlock || t.at != threads[0].at)
          fail("not all threads come to " + steps[threads[0].done ? threads.back().at : threads[0].at].text);
      for (Thread& t : threads) t.waits = Meet::kNone, ++t.at;
    }
  }

  bool meet_warp(std::vector<Thread>& threads, size_t first) const {
    std::vector<Thread*> lanes(32, nullptr);
    size_t waiting = 0, present = 0;
    for (size_t k = 0; k < 32 && first + k < threads.size(); ++k) {
      lanes[k] = &threads[first + k];
      ++present;
      waiting += lanes[k]->waits == Meet::kWarp ? 1 : 0;
    }
    if (waiting == 0) return false;
    for (size_t k = 0; k < present; ++k)
      if (lanes[k]->done || lanes[k]->waits != Meet::kWarp || lanes[k]->at != lanes[0]->at)
        fail("a warp parts at " + steps[lanes[0]->at].text);
    steps[lanes[0]->at].run_warp(lanes);
    for (size_t k = 0; k < present; ++k) lanes[k]->waits = Meet::kNone, ++lanes[k]->at;
    return true;
  }
};

PtxProgram::PtxProgram(const std::string& text) : impl_(std::make_unique<Impl>(text)) {}
PtxProgram::~PtxProgram() = default;

void PtxProgram::run(const PtxLaunch& launch) const {
  if (impl_->block != 0 && impl_->block != launch.block) fail("launched with another number of threads");
  if (launch.arguments.size() != impl_->parameters.size()) fail("launched with another number of arguments");
  std::mt19937_64 random(launch.seed);
  const size_t fixed = (impl_->static_shared + 15) / 16 * 16;
  const Impl& impl = *impl_;
  for (int z = 0; z < launch.grid[2]; ++z)
    for (int y = 0; y < launch.grid[1]; ++y)
      for (int x = 0; x < launch.grid[0]; ++x) {
        Block block;
        block.index[0] = x, block.index[1] = y, block.index[2] = z;
        block.launch = &launch;
        block.constants = &impl.constants;
        block.random = &random;
        block.shared.resize(fixed + launch.dynamic_shared);
        for (uint8_t& b : block.shared) b = static_cast<uint8_t>(random());
        impl.run_block(block, random);
      }
}

// --- ptxas ----------------------------------------------------------------------------------------------------------------

std::string find_ptxas() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : split(path, ':')) folders.push_back(folder);
  const char* home = std::getenv("CUDA_HOME");
  folders.push_back(std::string(home != nullptr ? home : "/usr/local/cuda") + "/bin");
  for (const std::string& folder : folders)
    if (!folder.empty() && ::access((folder + "/ptxas").c_str(), X_OK) == 0) return folder + "/ptxas";
  return "";
}

Assembled assemble(const std::string& text, const std::string& architecture) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string stem = (folder / ("stax_ptx_" + std::to_string(::getpid()))).string();
  std::ofstream(stem + ".ptx") << text;
  const std::string command =
      find_ptxas() + " -arch=" + architecture + " -v " + stem + ".ptx -o " + stem + ".cubin 2>&1";
  std::string log;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) fail("ptxas does not start");
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) log += part.data();
  Assembled result;
  if (::pclose(pipe) != 0) result.log = log;
  std::filesystem::remove(stem + ".ptx");
  std::filesystem::remove(stem + ".cubin");
  const auto number = [&](const char* pattern) {
    std::smatch m;
    return std::regex_search(log, m, std::regex(pattern)) ? std::stoi(m[1]) : 0;
  };
  result.registers = number(R"(Used (\d+) registers)");
  result.spill_bytes = number(R"((\d+) bytes spill stores)") + number(R"((\d+) bytes spill loads)");
  result.stack_bytes = number(R"((\d+) bytes stack frame)");
  return result;
}

}  // namespace stax::testing
