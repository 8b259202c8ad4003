// SPDX-License-Identifier: Apache-2.0
#include "emit/registers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "emit/ptx.h"
#include "support/error.h"

namespace stax::emit {
namespace {

// The machine whose PTX stands for the target's.
const ir::Target& described(const ir::Target& target) {
  static const ir::Target& other = ir::find_target("cuda:sm_80");
  return target.family == "cuda" ? target : other;
}

}  // namespace

namespace ptx {
namespace {

using Bits = std::vector<uint64_t>;

bool test(const Bits& bits, int k) { return (bits[static_cast<size_t>(k) / 64] >> (k % 64) & 1) != 0; }
void set(Bits& bits, int k) { bits[static_cast<size_t>(k) / 64] |= uint64_t{1} << (k % 64); }
void clear(Bits& bits, int k) { bits[static_cast<size_t>(k) / 64] &= ~(uint64_t{1} << (k % 64)); }

int words_of(Class cls) {
  switch (cls) {
    case Class::kPred: return 0;  // registers of their own
    case Class::kB16:
    case Class::kB32:
    case Class::kF32: return 1;
    case Class::kB64:
    case Class::kF64: return 2;
  }
  STAX_UNREACHABLE();
}

// What a routine needs for itself: divisions and roots rounded to the nearest, and divisions of integers of 64 bits, are calls in machine code.
// Found with kernels that keep some number of values across one call.
int words_of_routine(const Instruction& i) {
  const bool division = i.op.starts_with("div.") || i.op.starts_with("rem.");
  if (i.op.starts_with("div.rn")) return i.op.ends_with("f64") ? 23 : 12;
  if (i.op.starts_with("sqrt.rn")) return i.op.ends_with("f64") ? 19 : 12;
  return division && i.op.ends_with("64") ? 18 : 0;
}

// Instructions of the longest loop that is written out in part, and of the longest straight code that a loop becomes as a whole.
constexpr int64_t kLong = 48, kLongest = 2048;

// Parameters are no loads: they are operands in constant memory.
bool is_load(const Instruction& i) {
  return (i.layout == Layout::kLoad && !i.op.starts_with("ld.param")) || i.layout == Layout::kMatrix;
}

struct Block {
  size_t first = 0, last = 0;  // [first, last)
  std::vector<size_t> next;
  Bits in, out;
  Bits made;  // what may have been written when the block begins
};

class Analysis {
 public:
  explicit Analysis(const Code& code) : code_(code), size_((code.registers.size() + 63) / 64) {
    classify();
    find_blocks();
    flow();
  }

  Pressure pressure() {
    Pressure p;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      scan(blocks_[b], p);
      p.repeated = std::max(p.repeated, repeated(b));
    }
    for (const Instruction& i : code_.list)
      if (i.op.starts_with("bar.sync")) p.meets = 1;
    return p;
  }

 private:
  // Parameters are operands in constant memory; what is made of them and of the block's number alone goes to the uniform registers.
  void classify() {
    kind_.assign(code_.registers.size(), Kind::kOwn);
    std::vector<int> writes(code_.registers.size());
    for (const Instruction& i : code_.list)
      for (const Operand& d : i.dst) ++writes[static_cast<size_t>(d.reg())];
    for (const Instruction& i : code_.list) {
      if (i.dst.size() != 1 || writes[static_cast<size_t>(i.dst[0].reg())] != 1) continue;
      Kind& kind = kind_[static_cast<size_t>(i.dst[0].reg())];
      if (i.op.starts_with("ld.param")) kind = Kind::kConstant;
      if (i.layout != Layout::kPlain || i.effect || i.predicate) continue;
      const auto is_free = [&](const Operand& s) {
        if (s.kind == Operand::Kind::kName) return !code_.names[static_cast<size_t>(s.value)].starts_with("%tid");
        return !s.is_reg() || kind_[static_cast<size_t>(s.reg())] != Kind::kOwn;
      };
      if (!std::all_of(i.src.begin(), i.src.end(), is_free)) continue;
      const bool floating = i.op.find(".f32") != std::string::npos || i.op.find(".f64") != std::string::npos;
      if (i.op.starts_with("cvta."))
        kind = Kind::kConstant;
      else if (!floating && (i.op.find("wide") == std::string::npos || i.op.starts_with("mul.wide")))
        kind = Kind::kUniform;  // a distance between addresses is multiplied again where it is added
    }
  }

  void find_blocks() {
    std::map<int, size_t> labels;
    const auto begin = [&](size_t at) {
      if (!blocks_.empty()) blocks_.back().last = at;
      Block b;
      b.first = at;
      blocks_.push_back(std::move(b));
    };
    for (size_t k = 0; k < code_.list.size(); ++k) {
      const Instruction& i = code_.list[k];
      const bool after_jump = k > 0 && (code_.list[k - 1].layout == Layout::kBranch || code_.list[k - 1].op == "ret");
      if (k == 0 || i.layout == Layout::kLabel || after_jump) begin(k);
      if (i.layout == Layout::kLabel) labels[i.label] = blocks_.size() - 1;
    }
    if (!blocks_.empty()) blocks_.back().last = code_.list.size();
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const Instruction& end = code_.list[blocks_[b].last - 1];
      const bool jumps = end.layout == Layout::kBranch;
      if (jumps) blocks_[b].next.push_back(labels.at(end.label));
      const bool falls = end.op != "ret" && (!jumps || end.predicate);
      if (falls && b + 1 < blocks_.size()) blocks_[b].next.push_back(b + 1);
    }
  }

  void step_back(const Instruction& i, Bits& live) const {
    if (!i.predicate)
      for (const Operand& d : i.dst) clear(live, d.reg());
    for (const Operand& s : i.src)
      if (s.is_reg()) set(live, s.reg());
    if (i.predicate.is_reg()) set(live, i.predicate.reg());
  }

  void flow() {
    for (Block& b : blocks_) b.in.assign(size_, 0), b.out.assign(size_, 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        Block& block = blocks_[b];
        for (size_t n : block.next)
          for (size_t w = 0; w < size_; ++w) block.out[w] |= blocks_[n].in[w];
        Bits live = block.out;
        for (size_t k = block.last; k-- > block.first;) step_back(code_.list[k], live);
        if (live != block.in) {
          block.in = std::move(live);
          changed = true;
        }
      }
    }
    // A load with a predicate writes a register that may hold nothing yet: before it, there is nothing to keep.
    for (Block& b : blocks_) b.made.assign(size_, 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (Block& block : blocks_) {
        Bits made = block.made;
        for (size_t k = block.first; k < block.last; ++k)
          for (const Operand& d : code_.list[k].dst) set(made, d.reg());
        for (size_t n : block.next)
          for (size_t w = 0; w < size_; ++w) {
            const uint64_t before = blocks_[n].made[w];
            blocks_[n].made[w] |= made[w];
            changed |= blocks_[n].made[w] != before;
          }
      }
    }
  }

  // How far up each load of the block could go: with what its address is made of to the last load that this needs, to the last barrier, and past no
  // write that it may see.
  std::vector<int> moved_up(const Block& block, bool with_shared) const {
    std::vector<int> extra(block.last - block.first + 1);
    std::vector<size_t> made(code_.registers.size(), block.first);
    size_t meeting = block.first;
    for (size_t k = block.first; k < block.last; ++k) {
      const Instruction& i = code_.list[k];
      size_t ready = block.first;  // when all that it reads is there
      for (const Operand& s : i.src)
        if (s.is_reg()) ready = std::max(ready, made[static_cast<size_t>(s.reg())]);
      if (i.predicate.is_reg()) ready = std::max(ready, made[static_cast<size_t>(i.predicate.reg())]);
      if (is_load(i)) {
        const size_t earliest = i.op.starts_with("ld.global.nc") ? ready : std::max(ready, meeting);
        int words = 0;
        for (const Operand& d : i.dst) words += words_of(d.cls);
        if (with_shared || i.op.starts_with("ld.global")) {
          extra[earliest - block.first] += words;
          extra[k - block.first] -= words;
        }
        ready = k + 1;
      } else if (i.effect && i.layout != Layout::kMma) {
        meeting = k + 1;
      }
      for (const Operand& d : i.dst) made[static_cast<size_t>(d.reg())] = ready;
    }
    for (size_t k = 1; k < extra.size(); ++k) extra[k] += extra[k - 1];
    return extra;
  }

  // ptxas writes out loops of one block: whole where the count is a constant and it is not too long, else four times. The loads of all iterations go
  // first; one whose address stays is made once.
  int repeated(size_t b) const {
    const Block& block = blocks_[b];
    if (std::find(block.next.begin(), block.next.end(), b) == block.next.end()) return 0;
    const Instruction& end = code_.list[block.last - 1];
    Bits made(size_, 0);
    for (size_t k = block.first; k < block.last; ++k)
      for (const Operand& d : code_.list[k].dst) set(made, d.reg());
    const auto length = static_cast<int64_t>(block.last - block.first);
    int64_t count = 0;
    int words = 0, distant = 0;
    for (size_t k = block.first; k < block.last; ++k) {
      const Instruction& i = code_.list[k];
      if (i.op.starts_with(".pragma") || words_of_routine(i) > 0) return 0;
      const bool bound =
          end.predicate.is_reg() && !i.dst.empty() && i.dst[0] == end.predicate && i.op.starts_with("setp.lt");
      if (bound && i.src[1].is_int()) count = i.src[1].value;
      if (!is_load(i) || !i.src[0].is_reg() || !test(made, i.src[0].reg())) continue;
      for (const Operand& d : i.dst) {
        words += words_of(d.cls);
        if (i.op.starts_with("ld.global")) distant += words_of(d.cls);
      }
    }
    if (count > 0 && count * length <= kLongest) return static_cast<int>(std::min<int64_t>(count - 1, 256)) * words;
    return length <= kLong ? 3 * distant : 0;
  }

  void scan(const Block& block, Pressure& p) const {
    const std::vector<int> extra = moved_up(block, true), distant = moved_up(block, false);
    std::vector<bool> first(block.last - block.first);  // the first write of a register
    Bits made = block.made;
    for (size_t k = block.first; k < block.last; ++k)
      for (const Operand& d : code_.list[k].dst)
        if (!test(made, d.reg())) set(made, d.reg()), first[k - block.first] = true;
    Bits live = block.out;
    for (size_t w = 0; w < size_; ++w) live[w] &= made[w];
    int own = 0, uniform = 0;
    const auto count = [&](int r, int sign) {
      const int words = words_of(code_.registers[static_cast<size_t>(r)]);
      switch (kind_[static_cast<size_t>(r)]) {
        case Kind::kOwn: own += sign * words; break;
        case Kind::kUniform: uniform += sign * words; break;
        case Kind::kConstant: break;
      }
    };
    for (size_t r = 0; r < code_.registers.size(); ++r)
      if (test(live, static_cast<int>(r))) count(static_cast<int>(r), 1);
    const auto see = [&](size_t at) {
      if (own + uniform > p.live + p.uniform) p.live = own, p.uniform = uniform;
      p.early = std::max(p.early, own + std::max(0, extra[at - block.first]));
      p.distant = std::max(p.distant, own + std::max(0, distant[at - block.first]));
    };
    see(block.last);
    for (size_t k = block.last; k-- > block.first;) {
      const Instruction& i = code_.list[k];
      if (!i.predicate || first[k - block.first])
        for (const Operand& d : i.dst)
          if (test(live, d.reg())) clear(live, d.reg()), count(d.reg(), -1);
      if (const int words = words_of_routine(i)) p.across = std::max(p.across, own + words);
      const auto read = [&](const Operand& s) {
        if (!s.is_reg() || test(live, s.reg())) return;
        set(live, s.reg());
        count(s.reg(), 1);
      };
      for (const Operand& s : i.src) read(s);
      read(i.predicate);
      see(k);
    }
  }

  enum class Kind : uint8_t { kOwn, kUniform, kConstant };
  const Code& code_;
  size_t size_;
  std::vector<Kind> kind_;
  std::vector<Block> blocks_;
};

int distant(const Pressure& p) { return std::max(p.distant - p.live, 0); }
int near(const Pressure& p) { return std::max(p.early - std::max(p.distant, p.live), 0); }

}  // namespace

Pressure pressure_of(const Code& code) { return Analysis(code).pressure(); }

// Fitted over the kernels of docs/measured/registers.md, to how many blocks a multiprocessor holds first: not all that is live at once stays in a register
// (addresses are made again), not every load is moved as far up as it could (those of shared memory less than those of global memory), little is moved
// across a barrier, and some registers are the machine's own.
int expected_registers(const Code& code, const ir::Target& target) {
  const Pressure p = pressure_of(code);
  double estimate = 4.4 + 1.11 * p.live - 0.21 * std::max(p.live - 64, 0) + 0.54 * std::min(p.uniform, 16) +
                    0.55 * std::min(distant(p), 80) + 1.17 * std::min(near(p), 8) +
                    0.45 * std::clamp(near(p) - 40, 0, 40) + 1.06 * std::min(p.repeated, 72) +
                    p.meets * (4.8 - 0.35 * std::min(p.live, 64));
  if (!target.async_copy) estimate += 7.7 * p.meets;  // the next tile waits in registers
  if (sm_of(target) > 80) estimate += 0.81 * std::max(p.live - 110, 0);
  const double least = p.across > 0 ? p.across + 2 : 0;
  return std::clamp(static_cast<int>(std::lround(std::max(estimate, least))), 8, target.max_registers);
}

}  // namespace ptx

ptx::Pressure pressure_of(const thread::Kernel& kernel, const ir::Target& target) {
  return ptx::pressure_of(ptx::code_of(kernel, described(target)));
}

int predicted_registers(const thread::Kernel& kernel, const ir::Target& target) {
  const int expected = ptx::expected_registers(ptx::code_of(kernel, described(target)), described(target));
  return std::min(expected, target.max_registers);
}

}  // namespace stax::emit
