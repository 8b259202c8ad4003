// SPDX-License-Identifier: Apache-2.0
// Steps over sequences: lists of tensors in host memory of their own, shared where they can be.
#include <algorithm>
#include <cstring>

#include "runtime/executor.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

namespace {

int64_t position_in(int64_t p, int64_t size, int64_t last, const std::string& source) {
  if (p < -size || p > last) user_error("{}: position {} is outside of a sequence of {}", source, p, size);
  return p < 0 ? p + size : p;
}

// Copies [outer, from .. from + count, inner] of a tensor along an axis.
Tensor cut(const Tensor& t, size_t axis, int64_t from, int64_t count, MemoryPool& memory, const std::string& source) {
  int64_t outer = 1, inner = static_cast<int64_t>(ir::byte_size(t.dtype));
  for (size_t d = 0; d < axis; ++d) outer *= t.extents[d];
  for (size_t d = axis + 1; d < t.extents.size(); ++d) inner *= t.extents[d];
  Tensor r;
  r.dtype = t.dtype;
  r.extents = t.extents;
  r.extents[axis] = count;
  r.owner = memory.allocate(outer * count * inner, source);
  r.data = r.owner.get();
  auto* to = static_cast<char*>(r.owner.get());
  const auto* start = static_cast<const char*>(t.data);
  if (count * inner > 0)
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(to + o * count * inner, start + (o * t.extents[axis] + from) * inner,
                  static_cast<size_t>(count * inner));
  return r;
}

}  // namespace

void Context::run_step(const SequenceStep& s) {
  auto sequence = [&](size_t k) -> const Sequence& { return *sequences_[s.operands[k]]; };
  auto give = [&](Sequence r) { sequences_[s.result] = std::make_shared<const Sequence>(std::move(r)); };
  auto give_tensor = [&](const Tensor& t) {
    set_tensor(s.result, t, s.source);
    std::vector<int64_t> extents = t.extents;
    size_t wanted = program_.values[s.result].extents.size();
    if (extents.size() > wanted || (program_.values[s.result].rank == kNone && extents.size() != wanted))
      user_error("{}: the element has rank {}, and a rank of {} is needed", s.source, extents.size(), wanted);
    extents.insert(extents.begin(), wanted - extents.size(), 1);
    bind(s.bindings, 0, extents, s.source);
    for (const ExtentBinding& b : s.bindings)
      if (b.axis == kNone) define(b.symbol, static_cast<int64_t>(t.extents.size()), s.source);
  };
  switch (s.op) {
    case SequenceOp::kConstruct: {
      Sequence r;
      for (ValueRef v : s.operands) r.push_back(tensor_of(v));
      return give(std::move(r));
    }
    case SequenceOp::kInsert: {
      Sequence r = sequence(0);
      int64_t n = static_cast<int64_t>(r.size());
      int64_t at = s.operands.size() > 2 ? position_in(read_int(s.operands[2]), n, n, s.source) : n;
      r.insert(r.begin() + at, tensor_of(s.operands[1]));
      return give(std::move(r));
    }
    case SequenceOp::kErase: {
      Sequence r = sequence(0);
      int64_t n = static_cast<int64_t>(r.size());
      int64_t at = s.operands.size() > 1 ? position_in(read_int(s.operands[1]), n, n - 1, s.source) : n - 1;
      if (n == 0) user_error("{}: nothing can be erased from an empty sequence", s.source);
      r.erase(r.begin() + at);
      return give(std::move(r));
    }
    case SequenceOp::kAt: {
      const Sequence& from = sequence(0);
      int64_t n = static_cast<int64_t>(from.size());
      return give_tensor(from[static_cast<size_t>(position_in(read_int(s.operands[1]), n, n - 1, s.source))]);
    }
    case SequenceOp::kLength: {
      auto* out = static_cast<int64_t*>(allocate_host_result(s.result, 8, s.source));
      *out = static_cast<int64_t>(sequence(0).size());
      return;
    }
    case SequenceOp::kSplit: {
      Tensor t;
      t.dtype = program_.values[s.operands[0]].dtype;
      t.extents = extents_of(s.operands[0]);
      t.data = host_data(s.operands[0]);
      size_t axis = static_cast<size_t>(s.axis < 0 ? s.axis + static_cast<int64_t>(t.extents.size()) : s.axis);
      int64_t n = t.extents[axis];
      std::vector<int64_t> parts;
      bool squeeze = false;
      if (s.operands.size() < 2) {
        parts.assign(static_cast<size_t>(n), 1);
        squeeze = !s.flag;
      } else if (program_.values[s.operands[1]].extents.empty()) {
        int64_t size = read_int(s.operands[1]);
        if (size <= 0) user_error("{}: a split size of {}; it must be at least 1", s.source, size);
        for (int64_t at = 0; at < n; at += size) parts.push_back(std::min(size, n - at));
      } else {
        int64_t sum = 0;
        const void* sizes = host_data(s.operands[1]);
        for (int64_t k = 0; k < count_of(s.operands[1]); ++k) {
          parts.push_back(ir::load_element(program_.values[s.operands[1]].dtype, sizes, k).i);
          if (parts.back() < 0) user_error("{}: a split size of {}", s.source, parts.back());
          sum += parts.back();
        }
        if (sum != n) user_error("{}: split sizes add up to {}, but the axis has {}", s.source, sum, n);
      }
      Sequence r;
      int64_t at = 0;
      for (int64_t part : parts) {
        r.push_back(cut(t, axis, at, part, *shared_.host_memory, s.source));
        if (squeeze) r.back().extents.erase(r.back().extents.begin() + static_cast<long>(axis));
        at += part;
      }
      return give(std::move(r));
    }
    case SequenceOp::kConcat: {
      const Sequence& from = sequence(0);
      if (from.empty()) user_error("{}: an empty sequence cannot be concatenated", s.source);
      int64_t rank = static_cast<int64_t>(from[0].extents.size()) + (s.flag ? 1 : 0);
      if (s.axis < -rank || s.axis >= rank) user_error("{}: axis {} is outside of rank {}", s.source, s.axis, rank);
      size_t axis = static_cast<size_t>(s.axis < 0 ? s.axis + rank : s.axis);
      Tensor r;
      r.dtype = from[0].dtype;
      r.extents = from[0].extents;
      if (s.flag) r.extents.insert(r.extents.begin() + static_cast<long>(axis), 1);
      r.extents[axis] = 0;
      for (const Tensor& t : from) {
        std::vector<int64_t> e = t.extents;
        if (s.flag) e.insert(e.begin() + static_cast<long>(axis), 1);
        bool fits = e.size() == r.extents.size();
        for (size_t d = 0; fits && d < e.size(); ++d) fits = d == axis || e[d] == r.extents[d];
        if (!fits)
          user_error("{}: elements [{}] and [{}] cannot be concatenated along axis {}", s.source,
                     fmt::join(from[0].extents, ", "), fmt::join(t.extents, ", "), axis);
        r.extents[axis] += e[axis];
      }
      int64_t outer = 1, inner = static_cast<int64_t>(ir::byte_size(r.dtype));
      for (size_t d = 0; d < axis; ++d) outer *= r.extents[d];
      for (size_t d = axis + 1; d < r.extents.size(); ++d) inner *= r.extents[d];
      r.owner = shared_.host_memory->allocate(outer * r.extents[axis] * inner, s.source);
      r.data = r.owner.get();
      int64_t at = 0;
      for (const Tensor& t : from) {
        int64_t n = s.flag ? 1 : t.extents[axis];
        if (n * inner > 0)
          for (int64_t o = 0; o < outer; ++o)
            std::memcpy(static_cast<char*>(r.owner.get()) + (o * r.extents[axis] + at) * inner,
                        static_cast<const char*>(t.data) + o * n * inner, static_cast<size_t>(n * inner));
        at += n;
      }
      return give_tensor(r);
    }
  }
}

}  // namespace stax::runtime
