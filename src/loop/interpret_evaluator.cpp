// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::loop {

namespace {

// Tables of offsets are kept for boxes of at most so many iterations, and made for each block of larger ones.
constexpr int64_t kTable = int64_t{1} << 15;

}  // namespace

bool Evaluator::enter() {
  ints_.run();
  total_ = 1;
  for (size_t d = 0; d < extents_.size(); ++d) {
    extents_[d] = ints_[extent_numbers_[d]];
    if (extents_[d] <= 0) return false;
    total_ = symbolic::saturating_mul(total_, extents_[d]);
  }
  for (const auto& p : places_) enter(*p);
  const int64_t n = std::min<int64_t>(total_, static_cast<int64_t>(block()));
  for (Step& s : steps_) {
    if (!s.uniform || s.kind == Step::Kind::kConstant) continue;
    run(s, 0, 1);
    if (s.kind != Step::Kind::kMask) std::fill(s.values.begin() + 1, s.values.begin() + n, s.values[0]);
  }
  return true;
}

void Evaluator::enter(Place& p) {
  if (!p.affine) return;
  const BoundBuffer& b = machine_.buffers[p.slot];
  p.safe = true;
  for (size_t k = 0; k < p.index.size(); ++k) {
    int64_t lo = ints_[p.index[k].uniform], hi = lo;
    for (size_t d = 0; d < p.index[k].coefficients.size(); ++d) {
      const int64_t c = p.index[k].coefficients[d];
      int64_t& end = c > 0 ? hi : lo;
      end = symbolic::saturating_add(end, symbolic::saturating_mul(c, extents_[d] - 1));
    }
    p.safe = p.safe && lo >= 0 && hi < b.extents[k];
  }
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

void Evaluator::run_block(int64_t start, int64_t n) {
  for (Step& s : steps_) {
    if (!s.uniform) run(s, start, n);
  }
}

void Evaluator::fill(const Offsets& o, int64_t start, int64_t n, int64_t* out) const {
  const size_t rank = extents_.size();
  std::vector<int64_t> at(rank);
  int64_t rest = start, value = 0;
  for (size_t d = rank; d-- > 0;) {
    at[d] = rest % extents_[d];
    rest /= extents_[d];
    value += at[d] * o.coefficients[d];
  }
  const int64_t inner = o.coefficients[rank - 1];
  for (int64_t k = 0; k < n;) {
    const int64_t run = std::min(n - k, extents_[rank - 1] - at[rank - 1]);
    for (int64_t r = 0; r < run; ++r) out[k + r] = value + r * inner;
    k += run;
    at[rank - 1] += run;
    value += run * inner;
    for (size_t d = rank - 1; d > 0 && at[d] == extents_[d]; --d) {
      value += o.coefficients[d - 1] - extents_[d] * o.coefficients[d];
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

const int64_t* Evaluator::table(Offsets& o, int64_t start, int64_t n) const {
  const bool whole = total_ <= kTable;
  if (o.made_for != extents_ || (!whole && o.first != start)) {
    o.first = whole ? 0 : start;
    o.table.resize(static_cast<size_t>(whole ? total_ : kBlock));
    fill(o, o.first, whole ? total_ : n, o.table.data());
    o.made_for = extents_;
    if (!whole) o.made_for.clear();  // of this block only
  }
  return o.table.data() + (start - o.first);
}

const uint8_t* Evaluator::bytes_of(int mask) const {
  return mask >= 0 && steps_[mask].state == Step::State::kSome ? steps_[mask].bytes.data() : nullptr;
}

Address Evaluator::locate(int place, int64_t start, int64_t n, const uint8_t* mask, const char* what) {
  Place& p = *places_[place];
  if (p.affine && p.safe) {
    const int64_t base = ints_[p.base];
    if (p.stride) return {base + start * *p.stride, *p.stride, nullptr};
    return {base, 0, table(p.offsets, start, n)};
  }
  const BoundBuffer& b = machine_.buffers[p.slot];
  p.addresses.assign(static_cast<size_t>(n), 0);
  index_.resize(static_cast<size_t>(n));
  for (size_t k = 0; k < p.index.size(); ++k) {
    index_values(p.index[k], start, n, index_.data());
    const auto extent = static_cast<uint64_t>(b.extents[k]);
    for (int64_t i = 0; i < n; ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      if (static_cast<uint64_t>(index_[i]) >= extent) out_of_bounds(p, start, i, what);
      p.addresses[i] += index_[i] * b.strides[k];
    }
  }
  return {0, 0, p.addresses.data()};
}

void Evaluator::index_values(const Form& f, int64_t start, int64_t n, int64_t* out) const {
  if (f.is_array()) {
    for (int64_t i = 0; i < n; ++i) out[i] = steps_[f.step].values[i].i;
    return;
  }
  if (f.coefficients.empty()) {
    std::fill_n(out, n, ints_[f.uniform]);
    return;
  }
  Offsets o{f.coefficients, {}, {}, 0};
  fill(o, start, n, out);
  for (int64_t i = 0; i < n; ++i) out[i] = symbolic::saturating_add(out[i], ints_[f.uniform]);
}

void Evaluator::out_of_bounds(const Place& p, int64_t start, int64_t i, const char* what) const {
  const BoundBuffer& b = machine_.buffers[p.slot];
  std::vector<int64_t> at;
  for (const Form& f : p.index) {
    std::vector<int64_t> values(static_cast<size_t>(i + 1));
    index_values(f, start, i + 1, values.data());
    at.push_back(values.back());
  }
  internal_error("kernel {}: {} of buffer {} at [{}], out of its extents [{}]", machine_.kernel.name, what, b.name,
                 fmt::join(at, ", "), fmt::join(b.extents, ", "));
}

void Evaluator::bad_index(int64_t index, int64_t extent) const {
  std::string message = machine_.kernel.check_messages.empty() ? "kernel " + machine_.kernel.name
                                                               : machine_.kernel.check_messages.front();
  throw UserError(fmt::format("{}: index {} is out of range for an extent of {}", message, index, extent));
}

void Evaluator::run(Step& s, int64_t start, int64_t n) {
  if (s.kind == Step::Kind::kMask) return run_mask(s, n);
  if (is_off(s.mask)) return;
  Value64* out = s.values.data();
  args_.clear();
  for (int arg : s.args) args_.push_back(steps_[arg].values.data());
  switch (s.kind) {
    case Step::Kind::kMask:
    case Step::Kind::kConstant: return;
    case Step::Kind::kInteger: out[0].i = ints_[s.number]; return;
    case Step::Kind::kAffine: {
      const int64_t base = ints_[s.number];
      const int64_t* offsets = table(s.offsets, start, n);
      for (int64_t k = 0; k < n; ++k) out[k].i = base + offsets[k];
      return;
    }
    case Step::Kind::kIndex:
      return index_block(s.index, args_, s.args.size() == 2 && steps_[s.args[1]].uniform, n, out);
    case Step::Kind::kLoad: {
      const Place& p = *places_[s.place];
      const uint8_t* mask = bytes_of(s.mask);
      const Address at = locate(s.place, start, n, mask, "load");
      const bool check = mask != nullptr && !(p.affine && p.safe);
      return load_block(s.dtype, machine_.buffers[p.slot].data, at, n, check ? mask : nullptr, out);
    }
    case Step::Kind::kOp: return op_block(s.op, s.from, args_, n, out);
    case Step::Kind::kSelect: return select_block(args_[0], args_[1], args_[2], n, out);
    case Step::Kind::kCheckedIndex: {
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
    case Step::Kind::kCast: return cast_block(s.dtype, s.from, args_[0], n, out);
  }
}

void Evaluator::run_mask(Step& s, int64_t n) {
  if (is_off(s.mask)) {
    s.state = Step::State::kNone;
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
  s.state = count == 0 ? Step::State::kNone : count == n ? Step::State::kAll : Step::State::kSome;
}

}  // namespace stax::loop
