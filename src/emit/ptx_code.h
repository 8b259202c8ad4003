// SPDX-License-Identifier: Apache-2.0
#pragma once
// PTX as data: a linear list of instructions over virtual registers. The emitter builds it, clean_up() tidies it, liveness reads it, print() writes it.
//
// A register is written by one instruction, except: those that carry a value around a loop or out of a branch (written by each of the ways in), and
// those of predicated loads (written before with what the value is otherwise).
#include <cstdint>
#include <string>
#include <vector>

namespace stax::emit::ptx {

/// f32 and b32 registers are of one type in the text (.b32), so that bits change their meaning without an instruction; so are f64 and b64.
enum class Class : uint8_t { kPred, kB16, kB32, kF32, kB64, kF64 };
inline constexpr int kClassCount = 6;

struct Operand {
  enum class Kind : uint8_t { kNone, kReg, kInt, kF32, kF64, kName };
  Kind kind = Kind::kNone;
  Class cls = Class::kB32;  // of a register
  int64_t value = 0;        // number of the register; the integer; the bits of the float; number of the name
  bool operator==(const Operand&) const = default;
  explicit operator bool() const { return kind != Kind::kNone; }
  bool is_reg() const { return kind == Kind::kReg; }
  bool is_int() const { return kind == Kind::kInt; }
  bool is_int(int64_t v) const { return kind == Kind::kInt && value == v; }
  int reg() const { return static_cast<int>(value); }
};
Operand integer(int64_t value);
Operand real32(float value);
Operand real64(double value);

/// How an instruction is written.
enum class Layout : uint8_t {
  kPlain,   // op d, s0, s1, ...
  kLoad,    // op {d...}, [s0 + offset]; braces with .v
  kMatrix,  // as kLoad, with braces always
  kStore,   // op [s0 + offset], {s1...}; likewise
  kAtomic,  // op d, [s0 + offset], s1, ...; without d where there is none
  kSplit,   // op {d0, d1}, s0
  kJoin,    // op d, {s0, s1}
  kCopy,    // op [s0 + offset], [s1 + other_offset], s2, ...
  kMma,     // op {d...}, {a...}, {b...}, {c...}; the sizes are in `groups`
  kLabel,   // the label
  kBranch,  // op label
};

struct Instruction {
  std::string op;
  Layout layout = Layout::kPlain;
  std::vector<Operand> dst, src;
  int64_t offset = 0, other_offset = 0;
  int groups[3] = {0, 0, 0};  // kMma: registers of a, b, c
  int label = -1;
  Operand predicate;  // executed where it is true (or, negated, false)
  bool negated = false;
  bool effect = false;  // does more than to write its registers
};

struct Code {
  std::vector<Instruction> list;
  std::vector<Class> registers;
  std::vector<std::string> names;  // what kName operands stand for

  Operand fresh(Class cls);
  Operand name(const std::string& text);
};

/// Removes instructions whose results nobody reads and copies that a rename saves, and numbers registers by first use.
void clean_up(Code& code);

/// The text of the list and, in front, the declarations of its registers.
std::string print(const Code& code);

}  // namespace stax::emit::ptx
