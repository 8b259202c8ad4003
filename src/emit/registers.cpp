// SPDX-License-Identifier: Apache-2.0
#include "emit/registers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "emit/ptx.h"
#include "support/error.h"

namespace stax::emit {
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

struct Block {
  size_t first = 0, last = 0;  // [first, last)
  std::vector<size_t> next;
  Bits in, out;
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
      if (i.op.starts_with("div.") || i.op.starts_with("rem.") || i.op.starts_with("sqrt.rn"))
        p.calls = 1;
      else if (i.op.starts_with("bar.sync"))
        p.meets = 1;
    p.addresses = static_cast<int>(std::count(code_.registers.begin(), code_.registers.end(), Class::kB64));
    for (const Instruction& i : code_.list) p.addresses -= i.op.starts_with("mul.wide");
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
  }

  // How far up each load of the block could go: to its address, to the last barrier, and past no write that it may see.
  std::vector<int> moved_up(const Block& block) const {
    std::vector<int> extra(block.last - block.first + 1);
    std::vector<size_t> made(code_.registers.size(), block.first);
    size_t meeting = block.first;
    for (size_t k = block.first; k < block.last; ++k) {
      const Instruction& i = code_.list[k];
      const bool memory = (i.layout == Layout::kLoad && !i.op.starts_with("ld.param")) || i.layout == Layout::kMatrix;
      if (memory) {
        size_t earliest = i.op.starts_with("ld.global.nc") ? block.first : meeting;
        if (i.src[0].is_reg()) earliest = std::max(earliest, made[static_cast<size_t>(i.src[0].reg())]);
        if (i.predicate.is_reg()) earliest = std::max(earliest, made[static_cast<size_t>(i.predicate.reg())]);
        int words = 0;
        for (const Operand& d : i.dst) words += words_of(d.cls);
        extra[earliest - block.first] += words;
        extra[k - block.first] -= words;
      } else if (i.effect && i.layout != Layout::kMma) {
        meeting = k + 1;
      }
      for (const Operand& d : i.dst) made[static_cast<size_t>(d.reg())] = k + 1;
    }
    for (size_t k = 1; k < extra.size(); ++k) extra[k] += extra[k - 1];
    return extra;
  }

  // ptxas writes out loops of one block: whole where the count is a constant, else four times; the loads of all iterations go first.
  int repeated(size_t b) const {
    const Block& block = blocks_[b];
    if (std::find(block.next.begin(), block.next.end(), b) == block.next.end()) return 0;
    int64_t count = 4;
    int words = 0;
    for (size_t k = block.first; k < block.last; ++k) {
      const Instruction& i = code_.list[k];
      if (i.op.starts_with(".pragma")) return 0;
      if (i.op.starts_with("setp.lt.s") && i.src[1].is_int()) count = i.src[1].value;
      if (i.layout == Layout::kLoad || i.layout == Layout::kMatrix)
        for (const Operand& d : i.dst) words += words_of(d.cls);
    }
    return static_cast<int>(std::min<int64_t>(count - 1, 256)) * words;
  }

  void scan(const Block& block, Pressure& p) const {
    const std::vector<int> extra = moved_up(block);
    Bits live = block.out;
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
    };
    see(block.last);
    for (size_t k = block.last; k-- > block.first;) {
      const Instruction& i = code_.list[k];
      if (!i.predicate)
        for (const Operand& d : i.dst)
          if (test(live, d.reg())) clear(live, d.reg()), count(d.reg(), -1);
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

}  // namespace

Pressure pressure_of(const Code& code) { return Analysis(code).pressure(); }

}  // namespace ptx

ptx::Pressure pressure_of(const thread::Kernel& kernel, const ir::Target& target) {
  static const ir::Target& other = ir::find_target("cuda:sm_80");
  return ptx::pressure_of(ptx::code_of(kernel, target.family == "cuda" ? target : other));
}

// Fitted over the kernels of docs/measured/registers.md, to how many blocks a multiprocessor holds first: not all that is live at once stays in a register
// (addresses are made again), not every load is moved as far up as it could, nothing is moved across a barrier, and some registers are the machine's own.
int predicted_registers(const thread::Kernel& kernel, const ir::Target& target) {
  const ptx::Pressure p = pressure_of(kernel, target);
  const int moved = std::max(p.early - p.live, 0), waiting = p.meets * std::min(p.live, 64);
  const double estimate = 5.50 + 0.97 * p.live - 0.15 * std::max(p.live - 32, 0) + 0.15 * std::max(p.live - 80, 0) -
                          0.96 * std::max(p.live - 132, 0) - 0.41 * waiting + 0.36 * std::min(p.uniform, 16) -
                          0.12 * std::min(moved, 16) + 0.61 * std::min(moved, 48) + 0.05 * std::min(moved, 160) -
                          0.83 * std::min(p.repeated, 8) + 0.33 * std::min(p.repeated, 24) +
                          1.01 * std::min(p.repeated, 64) + 2.17 * p.calls + 5.65 * p.meets +
                          (p.repeated > 0 ? 1.53 * p.meets : 0) + 0.27 * std::log2(1.0 + p.addresses);
  return std::clamp(static_cast<int>(std::lround(estimate)), 8, target.max_registers);
}

}  // namespace stax::emit
