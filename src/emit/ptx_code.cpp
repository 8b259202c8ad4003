// SPDX-License-Identifier: Apache-2.0
#include "emit/ptx_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "support/error.h"
#include "support/text_writer.h"

namespace stax::emit::ptx {

Operand integer(int64_t value) { return {Operand::Kind::kInt, Class::kB32, value}; }
Operand real32(float value) { return {Operand::Kind::kF32, Class::kF32, std::bit_cast<int32_t>(value)}; }
Operand real64(double value) { return {Operand::Kind::kF64, Class::kF64, std::bit_cast<int64_t>(value)}; }

Operand Code::fresh(Class cls) {
  registers.push_back(cls);
  return {Operand::Kind::kReg, cls, static_cast<int64_t>(registers.size()) - 1};
}

Operand Code::name(const std::string& text) {
  const int64_t number = std::find(names.begin(), names.end(), text) - names.begin();
  if (number == static_cast<int64_t>(names.size())) names.push_back(text);
  return {Operand::Kind::kName, Class::kB64, number};
}

namespace {

template <class F>
void for_each_read(Instruction& i, const F& f) {
  for (Operand& s : i.src)
    if (s.is_reg()) f(s);
  if (i.predicate.is_reg()) f(i.predicate);
}

// --- dead instructions ----------------------------------------------------------------------------------------------------

// By need: what effects read, what that is made of, and so on. A cycle that only feeds itself (a value carried around a loop that nobody
// wants) is never needed.
void remove_dead(Code& code) {
  std::vector<std::vector<size_t>> writers(code.registers.size());
  std::vector<bool> needed(code.list.size());
  std::vector<size_t> work;
  for (size_t i = 0; i < code.list.size(); ++i) {
    Instruction& x = code.list[i];
    for (const Operand& d : x.dst) writers[static_cast<size_t>(d.reg())].push_back(i);
    if (x.effect || x.layout == Layout::kLabel || x.layout == Layout::kBranch) {
      needed[i] = true;
      work.push_back(i);
    }
  }
  std::vector<bool> wanted(code.registers.size());
  while (!work.empty()) {
    const size_t at = work.back();
    work.pop_back();
    for_each_read(code.list[at], [&](Operand& s) {
      const auto r = static_cast<size_t>(s.reg());
      if (wanted[r]) return;
      wanted[r] = true;
      for (size_t w : writers[r]) {
        if (needed[w]) continue;
        needed[w] = true;
        work.push_back(w);
      }
    });
  }
  size_t kept = 0;
  for (size_t i = 0; i < code.list.size(); ++i)
    if (needed[i]) {
      if (kept != i) code.list[kept] = std::move(code.list[i]);
      ++kept;
    }
  code.list.resize(kept);
}

// --- copies ---------------------------------------------------------------------------------------------------------------

bool is_copy(const Instruction& i) {
  return i.layout == Layout::kPlain && i.op.starts_with("mov.") && i.dst.size() == 1 && i.src.size() == 1 &&
         i.src[0].is_reg() && !i.predicate && !i.effect;
}

struct Occurrences {
  std::vector<size_t> reads, writes;
};

// `mov home, v` at the end of a block, where v is written once, in the same block, and home is neither read nor written in between: v is written
// into home at once. All reads of v must come after its write in that block, or see the same value in home, which holds as long as home isn't written
// between: reads of v end before the next write of home.
void join_copies(Code& code) {
  std::vector<Occurrences> at(code.registers.size());
  std::vector<int> block(code.list.size());
  int number = 0;
  for (size_t i = 0; i < code.list.size(); ++i) {
    Instruction& x = code.list[i];
    if (x.layout == Layout::kLabel) ++number;
    block[i] = number;
    if (x.layout == Layout::kBranch) ++number;
    for_each_read(x, [&](Operand& s) { at[static_cast<size_t>(s.reg())].reads.push_back(i); });
    for (const Operand& d : x.dst) at[static_cast<size_t>(d.reg())].writes.push_back(i);
  }
  std::vector<bool> dropped(code.list.size());
  for (size_t i = 0; i < code.list.size(); ++i) {
    if (!is_copy(code.list[i])) continue;
    const Operand home = code.list[i].dst[0], value = code.list[i].src[0];
    if (home.cls != value.cls || home == value) continue;
    Occurrences& v = at[static_cast<size_t>(value.reg())];
    Occurrences& h = at[static_cast<size_t>(home.reg())];
    if (v.writes.size() != 1) continue;
    const size_t made = v.writes[0];
    if (made > i || block[made] != block[i] || code.list[made].predicate) continue;
    const auto between = [&](const std::vector<size_t>& list, size_t first, size_t last) {
      return std::any_of(list.begin(), list.end(), [&](size_t k) { return first <= k && k <= last; });
    };
    // An instruction that makes the value may still read home.
    if (between(h.reads, made + 1, i) || between(h.writes, made, i - 1)) continue;
    // Behind the copy the value lives on in home only within the block, and until home is written again.
    bool safe = true;
    for (size_t r : v.reads) {
      if (r <= i) continue;
      safe = safe && block[r] == block[i] && !between(h.writes, i + 1, r - 1);
    }
    if (!safe) continue;
    for (Operand& d : code.list[made].dst)
      if (d == value) d = home;
    for (size_t r : v.reads)
      for_each_read(code.list[r], [&](Operand& s) {
        if (s == value) s = home;
      });
    dropped[i] = true;
    h.reads.insert(h.reads.end(), v.reads.begin(), v.reads.end());
    std::replace(h.writes.begin(), h.writes.end(), i, made);
    v = {};
  }
  size_t kept = 0;
  for (size_t i = 0; i < code.list.size(); ++i)
    if (!dropped[i]) {
      if (kept != i) code.list[kept] = std::move(code.list[i]);
      ++kept;
    }
  code.list.resize(kept);
}

// Labels that no branch names; branches to the next instruction.
void remove_idle_labels(Code& code) {
  std::map<int, int> uses;
  for (const Instruction& i : code.list)
    if (i.layout == Layout::kBranch) ++uses[i.label];
  std::erase_if(code.list, [&](const Instruction& i) { return i.layout == Layout::kLabel && uses[i.label] == 0; });
  std::map<int, int> numbers;
  for (const Instruction& i : code.list)
    if (i.layout == Layout::kLabel) numbers.emplace(i.label, static_cast<int>(numbers.size()));
  for (Instruction& i : code.list)
    if (i.label >= 0) i.label = numbers.at(i.label);
}

void renumber(Code& code) {
  std::vector<int> number(code.registers.size(), -1);
  std::vector<Class> classes;
  const auto see = [&](Operand& x) {
    int& n = number[static_cast<size_t>(x.reg())];
    if (n < 0) {
      n = static_cast<int>(classes.size());
      classes.push_back(x.cls);
    }
    x.value = n;
  };
  for (Instruction& i : code.list) {
    for_each_read(i, see);
    for (Operand& d : i.dst) see(d);
  }
  code.registers = std::move(classes);
}

// --- text -----------------------------------------------------------------------------------------------------------------

constexpr std::string_view kPrefix[kClassCount] = {"%p", "%h", "%r", "%f", "%rd", "%fd"};
constexpr std::string_view kType[kClassCount] = {".pred", ".b16", ".b32", ".b32", ".b64", ".b64"};

class Printer {
 public:
  explicit Printer(const Code& code) : code_(code) {
    for (Class c : code.registers) numbers_.push_back(counts_[static_cast<size_t>(c)]++);
  }

  std::string text() {
    for (size_t c = 0; c < kClassCount; ++c)
      if (counts_[c] > 0) out_ += fmt::format("  .reg {} {}<{}>;\n", kType[c], kPrefix[c], counts_[c]);
    for (const Instruction& i : code_.list) line(i);
    return std::move(out_);
  }

 private:
  std::string operand(const Operand& x) const {
    switch (x.kind) {
      case Operand::Kind::kReg:
        return fmt::format("{}{}", kPrefix[static_cast<size_t>(x.cls)], numbers_[static_cast<size_t>(x.reg())]);
      case Operand::Kind::kInt: return fmt::format("{}", x.value);
      case Operand::Kind::kF32: return fmt::format("0f{:08X}", static_cast<uint32_t>(x.value));
      case Operand::Kind::kF64: return fmt::format("0d{:016X}", static_cast<uint64_t>(x.value));
      case Operand::Kind::kName: return code_.names[static_cast<size_t>(x.value)];
      case Operand::Kind::kNone: break;
    }
    STAX_UNREACHABLE();
  }
  std::string list(const std::vector<Operand>& xs, size_t first, size_t count, bool braces) const {
    std::string text = braces ? "{" : "";
    for (size_t k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + operand(xs[first + k]);
    return text + (braces ? "}" : "");
  }
  std::string address(const Operand& base, int64_t offset) const {
    if (offset == 0) return "[" + operand(base) + "]";
    return fmt::format("[{}+{}]", operand(base), offset);
  }

  void line(const Instruction& i) {
    if (i.layout == Layout::kLabel) {
      out_ += fmt::format("$L{}:\n", i.label);
      return;
    }
    std::string text = "  ";
    if (i.predicate) text += fmt::format("@{}{} ", i.negated ? "!" : "", operand(i.predicate));
    text += i.op;
    std::vector<std::string> parts;
    const size_t n = i.src.size();
    switch (i.layout) {
      case Layout::kPlain:
        for (const Operand& d : i.dst) parts.push_back(operand(d));
        for (const Operand& s : i.src) parts.push_back(operand(s));
        break;
      case Layout::kLoad: parts = {list(i.dst, 0, i.dst.size(), i.dst.size() > 1), address(i.src[0], i.offset)}; break;
      case Layout::kMatrix: parts = {list(i.dst, 0, i.dst.size(), true), address(i.src[0], i.offset)}; break;
      case Layout::kStore: parts = {address(i.src[0], i.offset), list(i.src, 1, n - 1, n > 2)}; break;
      case Layout::kAtomic:
        if (!i.dst.empty()) parts.push_back(operand(i.dst[0]));
        parts.push_back(address(i.src[0], i.offset));
        for (size_t k = 1; k < n; ++k) parts.push_back(operand(i.src[k]));
        break;
      case Layout::kSplit: parts = {list(i.dst, 0, 2, true), operand(i.src[0])}; break;
      case Layout::kJoin: parts = {operand(i.dst[0]), list(i.src, 0, 2, true)}; break;
      case Layout::kCopy:
        parts = {address(i.src[0], i.offset), address(i.src[1], i.other_offset)};
        for (size_t k = 2; k < n; ++k) parts.push_back(operand(i.src[k]));
        break;
      case Layout::kMma: {
        parts.push_back(list(i.dst, 0, i.dst.size(), true));
        size_t first = 0;
        for (int group : i.groups) {
          parts.push_back(list(i.src, first, static_cast<size_t>(group), true));
          first += static_cast<size_t>(group);
        }
        break;
      }
      case Layout::kBranch: parts = {fmt::format("$L{}", i.label)}; break;
      case Layout::kLabel: break;
    }
    out_ += text;
    for (size_t k = 0; k < parts.size(); ++k) out_ += (k == 0 ? " " : ", ") + parts[k];
    out_ += ";\n";
  }

  const Code& code_;
  std::array<int, kClassCount> counts_{};
  std::vector<int> numbers_;
  std::string out_;
};

}  // namespace

void clean_up(Code& code) {
  remove_dead(code);
  join_copies(code);
  remove_idle_labels(code);
  renumber(code);
}

std::string print(const Code& code) { return Printer(code).text(); }

}  // namespace stax::emit::ptx
