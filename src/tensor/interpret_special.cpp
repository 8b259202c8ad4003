// SPDX-License-Identifier: Apache-2.0
// The ops that no comprehension can say, on concrete operands: scans, sequences, and what interpret_procedures.cpp has.
#include <algorithm>
#include <cstring>

#include "tensor/interpret_ops.h"

namespace stax::tensor::reference {

using ir::Value64;

namespace {

Item item_of(Literal literal) {
  Item item;
  item.tensor = std::move(literal);
  return item;
}

Item sequence_of(std::vector<Literal> elements) {
  Item item;
  item.is_sequence = true;
  item.sequence = std::move(elements);
  return item;
}

Literal evaluate_prefix_scan(const Call& call, const PrefixScan& scan) {
  const Literal data = call.tensor(0);
  Literal result = call.allocate(data.dtype(), data.extents());
  const AxisView view = view_along(data.extents(), scan.axis);
  const bool is_sum = scan.combiner == Combiner::kSum;
  const bool as_float = ir::is_float(data.dtype());
  for (int64_t row = 0; row < view.outer * view.inner && view.count > 0; ++row) {
    const int64_t base = row / view.inner * view.count * view.inner + row % view.inner;
    double f = is_sum ? 0 : 1;
    uint64_t u = is_sum ? 0 : 1;
    for (int64_t step = 0; step < view.count; ++step) {
      const int64_t at = base + (scan.reverse ? view.count - 1 - step : step) * view.inner;
      const Value64 x = data.at(at);
      Value64 out;
      const auto take = [&] {
        if (as_float) {
          out.f = f;
        } else {
          out.i = ir::wrap_integer(data.dtype(), static_cast<int64_t>(u));
        }
      };
      if (scan.exclusive) take();
      if (as_float) {
        f = is_sum ? f + x.f : f * x.f;
      } else {
        u = is_sum ? u + static_cast<uint64_t>(x.i) : u * static_cast<uint64_t>(x.i);
      }
      if (!scan.exclusive) take();
      result.set(at, out);
    }
  }
  return result;
}

// ---- sequences

/// A position counted from the front, in [0, most].
int64_t position_of(const Call& call, size_t operand, int64_t length, int64_t most) {
  const int64_t position = single_int(call, operand, "the position");
  const int64_t at = position < 0 ? position + length : position;
  if (at < 0 || at > most) call.fail(fmt::format("position {} is out of range for a sequence of {}", position, length));
  return at;
}

Item evaluate_sequence_insert(const Call& call) {
  std::vector<Literal> elements = call.items[0]->sequence;
  const auto length = static_cast<int64_t>(elements.size());
  const int64_t at = call.items.size() > 2 ? position_of(call, 2, length, length) : length;
  elements.insert(elements.begin() + at, call.items[1]->tensor);
  return sequence_of(std::move(elements));
}

Item evaluate_sequence_erase(const Call& call) {
  std::vector<Literal> elements = call.items[0]->sequence;
  const auto length = static_cast<int64_t>(elements.size());
  if (length == 0) call.fail("nothing can be erased from an empty sequence");
  const int64_t at = call.items.size() > 1 ? position_of(call, 1, length, length - 1) : length - 1;
  elements.erase(elements.begin() + at);
  return sequence_of(std::move(elements));
}

/// Copies [outer, count, inner] elements between tensors that differ along one axis.
void copy_slices(const Literal& from, const AxisView& from_view, int64_t from_start, Literal& to,
                 const AxisView& to_view, int64_t to_start, int64_t count) {
  const size_t size = byte_size(from.dtype());
  const size_t bytes = static_cast<size_t>(count * from_view.inner) * size;
  if (bytes == 0) return;
  for (int64_t o = 0; o < from_view.outer; ++o) {
    const char* source = static_cast<const char*>(from.data()) +
                         static_cast<size_t>((o * from_view.count + from_start) * from_view.inner) * size;
    char* target =
        static_cast<char*>(to.data()) + static_cast<size_t>((o * to_view.count + to_start) * to_view.inner) * size;
    std::memcpy(target, source, bytes);
  }
}

/// The lengths of the pieces of an axis.
std::vector<int64_t> split_lengths(const Call& call, int64_t extent) {
  if (call.items.size() < 2) return std::vector<int64_t>(static_cast<size_t>(extent), 1);
  const Literal& split = call.items[1]->tensor;
  std::vector<int64_t> lengths;
  if (split.rank() > 0) {
    int64_t sum = 0;
    for (int64_t k = 0; k < split.count(); ++k) {
      lengths.push_back(split.at(k).i);
      if (lengths.back() < 0) call.fail(fmt::format("a split of {} is negative", lengths.back()));
      sum = symbolic::saturating_add(sum, lengths.back());
    }
    if (sum != extent) call.fail(fmt::format("the splits add up to {}, the axis has {}", sum, extent));
    return lengths;
  }
  const int64_t length = split.at(0).i;
  if (length <= 0) call.fail(fmt::format("a split of {} is not positive", length));
  for (int64_t start = 0; start < extent; start += length) lengths.push_back(std::min(length, extent - start));
  return lengths;
}

Item evaluate_split(const Call& call, const SplitToSequence& s) {
  const Literal& data = call.items[0]->tensor;
  const int axis = s.axis < 0 ? s.axis + data.rank() : s.axis;
  if (axis < 0 || axis >= data.rank())
    call.fail(fmt::format("axis {} is out of range for rank {}", s.axis, data.rank()));
  const AxisView view = view_along(data.extents(), axis);
  std::vector<Literal> pieces;
  int64_t start = 0;
  for (int64_t length : split_lengths(call, view.count)) {
    std::vector<int64_t> extents = data.extents();
    extents[axis] = length;
    Literal piece = call.allocate(data.dtype(), extents);
    copy_slices(data, view, start, piece, {view.outer, length, view.inner}, 0, length);
    start += length;
    if (!s.keep_dims && call.items.size() < 2) {
      extents.erase(extents.begin() + axis);
      piece = piece.reshaped(extents);
    }
    pieces.push_back(std::move(piece));
  }
  return sequence_of(std::move(pieces));
}

Literal evaluate_concat(const Call& call, const ConcatFromSequence& c) {
  std::vector<Literal> parts = call.items[0]->sequence;
  if (parts.empty()) call.fail("an empty sequence cannot be joined");
  const int rank = parts[0].rank() + (c.new_axis ? 1 : 0);
  const int axis = c.axis < 0 ? c.axis + rank : c.axis;
  if (axis < 0 || axis >= rank) call.fail(fmt::format("axis {} is out of range for rank {}", c.axis, rank));
  std::vector<int64_t> extents;
  int64_t total = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    std::vector<int64_t> own = parts[k].extents();
    if (c.new_axis) {
      own.insert(own.begin() + std::min<size_t>(axis, own.size()), 1);
      parts[k] = parts[k].reshaped(own);
    }
    if (k == 0) extents = own;
    bool fits = own.size() == extents.size();
    for (size_t d = 0; fits && d < own.size(); ++d) fits = static_cast<int>(d) == axis || own[d] == extents[d];
    if (!fits) {
      call.fail(
          fmt::format("element {} of the sequence is [{}], which does not join with the first, [{}], along axis {}", k,
                      fmt::join(own, ", "), fmt::join(extents, ", "), axis));
    }
    total += own[axis];
  }
  extents[axis] = total;
  Literal result = call.allocate(call.op.result()->type.dtype, extents);
  const AxisView view = view_along(extents, axis);
  int64_t start = 0;
  for (const Literal& part : parts) {
    const AxisView own{view.outer, part.extents()[axis], view.inner};
    copy_slices(part, own, 0, result, view, start, own.count);
    start += own.count;
  }
  return result;
}

Item evaluate_construct(const Call& call) {
  std::vector<Literal> elements;
  elements.reserve(call.items.size());
  for (const Item* i : call.items) elements.push_back(i->tensor);
  return sequence_of(std::move(elements));
}

Literal evaluate_sequence_at(const Call& call) {
  const std::vector<Literal>& elements = call.items[0]->sequence;
  const auto length = static_cast<int64_t>(elements.size());
  return elements[position_of(call, 1, length, length - 1)];
}

Literal evaluate_length(const Call& call) {
  Literal length(DType::kI64, {});
  length.set(0, {.i = static_cast<int64_t>(call.items[0]->sequence.size())});
  return length;
}

}  // namespace

std::vector<Item> evaluate_special(const Call& call) {
  const auto one = [](Item item) {
    std::vector<Item> items;
    items.push_back(std::move(item));
    return items;
  };
  switch (call.op.kind()) {
    case OpKind::kPrefixScan: return one(item_of(evaluate_prefix_scan(call, *call.op.as<PrefixScan>())));
    case OpKind::kTopK: return evaluate_top_k(call, *call.op.as<TopK>());
    case OpKind::kNonZero: return one(item_of(evaluate_nonzero(call)));
    case OpKind::kUnique: return evaluate_unique(call, *call.op.as<Unique>());
    case OpKind::kNonMaxSuppression:
      return one(item_of(evaluate_non_max_suppression(call, *call.op.as<NonMaxSuppression>())));
    case OpKind::kDeterminant: return one(item_of(evaluate_determinant(call)));
    case OpKind::kSequenceConstruct: return one(evaluate_construct(call));
    case OpKind::kSequenceInsert: return one(evaluate_sequence_insert(call));
    case OpKind::kSequenceErase: return one(evaluate_sequence_erase(call));
    case OpKind::kSequenceAt: return one(item_of(evaluate_sequence_at(call)));
    case OpKind::kSequenceLength: return one(item_of(evaluate_length(call)));
    case OpKind::kSplitToSequence: return one(evaluate_split(call, *call.op.as<SplitToSequence>()));
    case OpKind::kConcatFromSequence: return one(item_of(evaluate_concat(call, *call.op.as<ConcatFromSequence>())));
    default: break;
  }
  internal_error("{} is no special op", call.where());
}

}  // namespace stax::tensor::reference
