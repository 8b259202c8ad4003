// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::loop {

bool Evaluator::enter() {
  ints_.run();
  total_ = 1;
  for (size_t d = 0; d < extents_.size(); ++d) {
    extents_[d] = ints_[extent_numbers_[d]];
    if (extents_[d] <= 0) return false;
    total_ = symbolic::saturating_mul(total_, extents_[d]);
  }
  choose_blocks();
  for (const auto& p : places_) enter(*p);
  // What is the same over the box is computed once, and repeated for those that want an array.
  move_to(0);
  const int64_t longest = std::min<int64_t>(total_, static_cast<int64_t>(block()));
  count_ = 1;
  for (BlockStep& s : steps_) {
    if (!s.uniform || s.kind == BlockStep::Kind::kConstant) continue;
    run(s);
    if (s.kind != BlockStep::Kind::kMask) std::fill(s.values.begin() + 1, s.values.begin() + longest, s.values[0]);
  }
  count_ = 0;
  return true;
}

// Blocks of whole inner loops: an affine form then has the same pattern in each.
void Evaluator::choose_blocks() {
  inner_ = 1;
  split_ = extents_.empty() ? 0 : extents_.size() - 1;
  while (split_ > 0 && extents_[split_] <= kBlock / inner_) inner_ *= extents_[split_--];
}

void Evaluator::move_to(int64_t first) {
  first_ = first;
  at_.resize(extents_.size());
  for (size_t d = extents_.size(); d-- > 0;) {
    at_[d] = first % extents_[d];
    first /= extents_[d];
  }
}

bool Evaluator::next_block() {
  if (first_ + count_ >= total_) return false;
  move_to(first_ + count_);
  count_ = extents_.empty() ? 1 : std::min(kBlock / inner_, extents_[split_] - at_[split_]) * inner_;
  for (BlockStep& s : steps_) {
    if (!s.uniform) run(s);
  }
  return true;
}

void Evaluator::enter(Place& p) {
  const BoundBuffer& b = machine_.buffers[p.slot];
  p.safe = p.affine;
  for (size_t k = 0; k < p.index.size(); ++k) {
    const Form& f = p.index[k];
    if (f.is_array()) continue;
    int64_t lo = ints_[f.uniform], hi = lo;
    for (size_t d = 0; d < f.coefficients.size(); ++d) {
      const int64_t c = f.coefficients[d];
      int64_t& end = c > 0 ? hi : lo;
      end = symbolic::saturating_add(end, symbolic::saturating_mul(c, extents_[d] - 1));
    }
    p.within[k] = lo >= 0 && hi < b.extents[k];
    p.safe = p.safe && p.within[k];
  }
  if (!p.affine) return;
  // Row-major order over the box: one stride if each loop steps over the whole of the next.
  p.stride.reset();
  const std::vector<int64_t>& c = p.offsets.coefficients;
  int64_t stride = 0, span = 1;  // of the loops so far, from the inside
  bool one = true;
  for (size_t d = extents_.size(); d-- > 0;) {
    if (extents_[d] == 1) continue;
    if (span == 1) {
      stride = c[d];
    } else {
      one = one && c[d] == stride * span;
    }
    span *= extents_[d];
  }
  if (one) p.stride = stride;
}

int64_t Evaluator::first_value(const Offsets& o) const {
  int64_t value = 0;
  for (size_t d = 0; d < at_.size(); ++d) value += at_[d] * o.coefficients[d];
  return value;
}

const int64_t* Evaluator::pattern(Offsets& o) const {
  if (o.made_for == extents_) return o.pattern.data();
  o.made_for = extents_;
  o.pattern.assign(1, 0);
  // From the inside out: what is there so far, once for each iteration of the next loop.
  for (size_t d = extents_.size(); d-- > split_;) {
    const int64_t times = d == split_ ? std::min(kBlock / inner_, extents_[d]) : extents_[d];
    const size_t length = o.pattern.size();
    o.pattern.resize(length * static_cast<size_t>(times));
    for (size_t k = length; k < o.pattern.size(); ++k) o.pattern[k] = o.pattern[k - length] + o.coefficients[d];
  }
  return o.pattern.data();
}

const uint8_t* Evaluator::bytes_of(int mask) const {
  return mask >= 0 && steps_[mask].state == BlockStep::State::kSome ? steps_[mask].bytes.data() : nullptr;
}

Address Evaluator::locate(int place, const uint8_t* mask, const char* what) {
  Place& p = *places_[place];
  if (p.affine && p.safe) {
    const int64_t base = ints_[p.base];
    if (p.stride) return {base + first_ * *p.stride, *p.stride, nullptr};
    return {base + first_value(p.offsets), 0, pattern(p.offsets)};
  }
  // Index by index. An index under a mask that is off may be anything, so the sums wrap.
  const BoundBuffer& b = machine_.buffers[p.slot];
  p.addresses.assign(static_cast<size_t>(count_), 0);
  for (size_t k = 0; k < p.index.size(); ++k) {
    const Form& f = p.index[k];
    const auto extent = static_cast<uint64_t>(b.extents[k]), pitch = static_cast<uint64_t>(b.strides[k]);
    const bool check = !p.within[k] || f.is_array();
    bool fault = false;
    const auto take = [&](auto value) {
      for (int64_t i = 0; i < count_; ++i) {
        const auto at = static_cast<uint64_t>(value(i));
        fault |= at >= extent && (mask == nullptr || mask[i] != 0);
        p.addresses[i] = static_cast<int64_t>(static_cast<uint64_t>(p.addresses[i]) + at * pitch);
      }
    };
    const int64_t uniform = ints_[f.uniform];
    if (f.is_array()) {
      const Value64* values = steps_[f.step].values.data();
      take([&](int64_t i) { return values[i].i; });
    } else if (f.coefficients.empty()) {
      take([&](int64_t) { return uniform; });
    } else {
      const int64_t first = uniform + first_value(p.by_index[k]);
      const int64_t* offsets = pattern(p.by_index[k]);
      take([&](int64_t i) { return first + offsets[i]; });
    }
    if (!fault || !check) continue;
    for (int64_t i = 0; i < count_; ++i) {
      const bool on = mask == nullptr || mask[i] != 0;
      if (on && static_cast<uint64_t>(index_value(f, i)) >= extent) out_of_bounds(p, i, what);
    }
  }
  return {0, 0, p.addresses.data()};
}

int64_t Evaluator::index_value(const Form& f, int64_t i) const {
  if (f.is_array()) return steps_[f.step].values[i].i;
  int64_t value = ints_[f.uniform], rest = first_ + i;
  for (size_t d = f.coefficients.size(); d-- > 0;) {
    value = symbolic::saturating_add(value, symbolic::saturating_mul(f.coefficients[d], rest % extents_[d]));
    rest /= extents_[d];
  }
  return value;
}

void Evaluator::out_of_bounds(const Place& p, int64_t i, const char* what) const {
  const BoundBuffer& b = machine_.buffers[p.slot];
  std::vector<int64_t> at;
  for (const Form& f : p.index) at.push_back(index_value(f, i));
  internal_error("kernel {}: {} of buffer {} at [{}], out of its extents [{}]", machine_.kernel.name, what, b.name,
                 fmt::join(at, ", "), fmt::join(b.extents, ", "));
}

void Evaluator::bad_index(int64_t index, int64_t extent) const {
  std::string message = machine_.kernel.check_messages.empty() ? "kernel " + machine_.kernel.name
                                                               : machine_.kernel.check_messages.front();
  throw UserError(fmt::format("{}: index {} is out of range for an extent of {}", message, index, extent));
}

void Evaluator::run(BlockStep& s) {
  if (s.kind == BlockStep::Kind::kMask) return run_mask(s);
  if (is_off(s.mask)) return;
  const int64_t n = count_;
  Value64* out = s.values.data();
  args_.clear();
  for (int arg : s.args) args_.push_back(steps_[arg].values.data());
  switch (s.kind) {
    case BlockStep::Kind::kMask:
    case BlockStep::Kind::kConstant: return;
    case BlockStep::Kind::kInteger: out[0].i = ints_[s.number]; return;
    case BlockStep::Kind::kAffine: {
      const int64_t base = ints_[s.number] + first_value(s.offsets);
      const int64_t* offsets = pattern(s.offsets);
      for (int64_t k = 0; k < n; ++k) out[k].i = base + offsets[k];
      return;
    }
    case BlockStep::Kind::kIndex:
      return index_block(s.index, args_, s.args.size() == 2 && steps_[s.args[1]].uniform, n, out);
    case BlockStep::Kind::kLoad: {
      const Place& p = *places_[s.place];
      const uint8_t* mask = bytes_of(s.mask);
      const Address at = locate(s.place, mask, "load");
      const bool check = mask != nullptr && !(p.affine && p.safe);
      return load_block(s.dtype, machine_.buffers[p.slot].data, at, n, check ? mask : nullptr, out);
    }
    case BlockStep::Kind::kOp: return op_block(s.op, s.from, args_, n, out);
    case BlockStep::Kind::kSelect: return select_block(args_[0], args_[1], args_[2], n, out);
    case BlockStep::Kind::kCheckedIndex: {
      const uint8_t* mask = bytes_of(s.mask);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t index = args_[0][k].i, extent = args_[1][k].i;
        const int64_t from_zero = index < 0 ? symbolic::saturating_add(index, extent) : index;
        const bool inside = 0 <= from_zero && from_zero < extent;
        if (!inside && (mask == nullptr || mask[k] != 0)) bad_index(index, extent);
        out[k].i = inside ? from_zero : 0;
      }
      return;
    }
    case BlockStep::Kind::kCast: return cast_block(s.dtype, s.from, args_[0], n, out);
  }
}

void Evaluator::run_mask(BlockStep& s) {
  const int64_t n = count_;
  if (is_off(s.mask)) {
    s.state = BlockStep::State::kNone;
    return;
  }
  const uint8_t* outer = bytes_of(s.mask);
  const Value64* condition = steps_[s.args[0]].values.data();
  int64_t count = 0;
  for (int64_t k = 0; k < n; ++k) {
    const bool on = (condition[k].i != 0) == s.holds && (outer == nullptr || outer[k] != 0);
    s.bytes[k] = on;
    count += on;
  }
  s.state = count == 0 ? BlockStep::State::kNone : count == n ? BlockStep::State::kAll : BlockStep::State::kSome;
}

}  // namespace stax::loop
