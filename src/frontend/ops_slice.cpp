// SPDX-License-Identifier: Apache-2.0
// Slice, Pad and CenterCropPad: windows on a tensor. Bounds, steps and axes may all arrive with the call.
#include <limits>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

/// The entries of an operator that are given for some axes, spread over all axes of a tensor.
class PerAxis {
 public:
  /// Null axes: the first ones, in order.
  PerAxis(Node& n, const Value* x, const std::optional<std::vector<Expr>>& axes, size_t count) : b_(n.b()) {
    const tensor::Type& type = x->type;
    for (size_t k = 0; k < count; ++k) {
      const std::vector<Expr> one{axes ? axes->at(k) : b_.constant_expr(static_cast<int64_t>(k))};
      masks_.push_back(axis_mask(b_, one, type));
    }
  }
  /// For axis `axis` of the tensor: its entry, or `fallback`.
  Expr at(int axis, const std::vector<Expr>& entries, Expr fallback) const {
    Expr found = fallback;
    for (size_t k = masks_.size(); k-- > 0;) found = symbolic::select(masks_[k][axis], entries[k], found);
    return found;
  }

 private:
  Builder& b_;
  std::vector<std::vector<Expr>> masks_;  // of each entry, by axis
};

/// The elements of an operand that may have any number of them up to the rank, or of an attribute.
struct Entries {
  std::vector<Expr> values;  // of an unknown number: as many as the rank, padded
  Expr count;
};

std::optional<Entries> entries_of(Node& n, const char* attribute, int k, int rank, int64_t fill) {
  if (const auto values = n.integers(attribute))
    return Entries{exprs_of(n.b(), *values), n.b().constant_expr(static_cast<int64_t>(values->size()))};
  Value* value = n.optional(k);
  if (!value) return std::nullopt;
  const Expr count = n.element_count(value);
  const int size = count.is_constant() && count.constant() <= rank ? static_cast<int>(count.constant()) : rank;
  return Entries{n.padded_ints(value, size, fill), count};
}

/// The same number of each: the one that is known, which the call compares with what is not.
size_t common_count(Node& n, std::initializer_list<std::optional<Entries>*> all) {
  const Entries* known = nullptr;
  for (const auto* one : all) {
    if (*one && (!known || (!known->count.is_constant() && (*one)->count.is_constant()))) known = &**one;
  }
  const size_t count = known->values.size();
  for (auto* one : all) {
    if (!*one || (*one)->count == known->count) continue;
    if ((*one)->count.is_constant() || (*one)->values.size() < count)
      n.fault("its starts, ends, axes and steps differ in number");
    n.b().check(symbolic::equal((*one)->count, known->count),
                "its starts, ends, axes and steps differ in number: {0}, {1}", {known->count, (*one)->count});
    (*one)->values.resize(count);
  }
  return count;
}

// ---- Slice ----------------------------------------------------------------------------------------------------------

struct Window {
  Expr start, count, step;
};

/// As ONNX says it: a negative bound counts from the end; bounds are clamped to what the sign of the step can reach.
Window window_of(Builder& b, Expr extent, Expr start, Expr end, Expr step) {
  const auto from_end = [&](Expr e) { return symbolic::select(symbolic::less(e, zero_of(b)), e + extent, e); };
  const auto clamped = [](Expr e, Expr lo, Expr hi) { return symbolic::min(symbolic::max(e, lo), hi); };
  const Expr zero = zero_of(b), minus = b.constant_expr(-1), last = extent - 1;
  start = from_end(start);
  end = from_end(end);
  const Expr backward = symbolic::less(step, zero);
  const Expr first = symbolic::select(backward, clamped(start, zero, last), clamped(start, zero, extent));
  const Expr stop = symbolic::select(backward, clamped(end, minus, last), clamped(end, zero, extent));
  const symbolic::ConstraintSet& facts = b.graph().constraints;
  return {facts.simplify(first), facts.simplify(symbolic::max(symbolic::ceildiv(stop - first, step), 0)), step};
}

void import_slice(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int rank = static_cast<int>(x->type.extents.size());
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  auto starts = entries_of(n, "starts", 1, rank, 0);
  auto ends = entries_of(n, "ends", 2, rank, kEnd);
  if (!starts || !ends) n.fault("it has no starts or no ends");
  auto steps = entries_of(n, "steps", 4, rank, 1);
  std::optional<Entries> axes;
  if (auto values = n.axes_from("axes", 3, rank_of(b, x))) {
    Value* given = n.optional(3);
    const Expr count = given ? n.element_count(given) : b.constant_expr(static_cast<int64_t>(values->size()));
    axes = Entries{std::move(*values), count};
  }
  const size_t count = common_count(n, {&starts, &ends, &axes, &steps});
  for (const Expr step : steps ? steps->values : std::vector<Expr>{})
    b.check(symbolic::logical_not(symbolic::equal(step, 0)), "a step of {0}", {step});

  const PerAxis entries(n, x, axes ? std::optional(axes->values) : std::nullopt, count);
  std::vector<Window> windows;
  std::vector<Expr> extents;
  bool whole = true;
  for (int axis = 0; axis < rank; ++axis) {
    const Expr own = x->type.extents[axis], one = one_of(b);
    windows.push_back(window_of(b, own, entries.at(axis, starts->values, zero_of(b)),
                                entries.at(axis, ends->values, b.constant_expr(kEnd)),
                                steps ? entries.at(axis, steps->values, one) : one));
    const Window& window = windows.back();
    whole &= window.count == own && is_zero(window.start) && is_one(window.step);
    extents.push_back(window.count);
  }
  if (whole) return n.output(0, x);
  Value* result = b.map(extents, [&](Body& body) {
    std::vector<Expr> at;
    for (int axis = 0; axis < rank; ++axis) at.push_back(windows[axis].start + body.i[axis] * windows[axis].step);
    return body.load(x, at);
  });
  n.output(0, keep_rank(result, x));
}

// ---- Pad ------------------------------------------------------------------------------------------------------------

struct Pads {
  std::vector<Expr> before, after;
};

/// begins and then ends of the axes in `axes` (of the first ones without).
Pads pads_of(Node& n, const Value* x) {
  Builder& b = n.b();
  const int rank = static_cast<int>(x->type.extents.size());
  const auto axes = n.axes_from("axes", 3, rank_of(b, x));
  std::vector<Expr> all;
  int count = axes ? static_cast<int>(axes->size()) : rank;
  if (const auto values = n.integers("pads")) {
    all = exprs_of(b, *values);
  } else {
    Value* operand = n.input(1);
    Value* axes_operand = n.optional(3);
    const Expr given = axes_operand ? n.element_count(axes_operand) : b.constant_expr(rank);
    if (x->type.rank && !axes_operand) n.unsupported("pads of a tensor whose rank is known only at run time");
    if (given.is_constant()) {
      all = n.exact_ints(operand, 2 * count);
    } else {
      // Begins and ends of `given` axes each, spread to `count`.
      const Expr have = n.element_count(operand);
      b.check(symbolic::equal(have, given * 2), "{0} pads for {1} axes", {have, given});
      Value* spread = b.map({b.constant_expr(2 * count)}, [&](Body& body) {
        const Expr side = symbolic::floordiv(body.i[0], count), at = symbolic::mod(body.i[0], count);
        const Scalar pad = ir::cast(DType::kI64, body.load(operand, std::vector<Expr>{at + side * given}));
        return ir::select(holds(body, symbolic::less(at, given)), pad, body.integer(DType::kI64, 0));
      });
      spread->name = operand->name;
      all = b.host_ints(spread);
    }
  }
  if (static_cast<int>(all.size()) != 2 * count)
    n.fault(std::to_string(all.size()) + " pads for " + std::to_string(count) + " axes");
  const PerAxis entries(n, x, axes, count);
  const std::vector<Expr> begins(all.begin(), all.begin() + count), ends(all.begin() + count, all.end());
  Pads pads;
  for (int axis = 0; axis < rank; ++axis) {
    pads.before.push_back(entries.at(axis, begins, zero_of(b)));
    pads.after.push_back(entries.at(axis, ends, zero_of(b)));
  }
  return pads;
}

enum class PadMode : uint8_t { kReflect, kEdge, kWrap };

/// Where the element at `i` of the padded axis comes from. Negative pads crop first: what is left are `size` elements from
/// `from` on; `i` counts from the first of these.
Expr padded_index(Builder& b, PadMode mode, Expr i, Expr size) {
  switch (mode) {
    case PadMode::kEdge: return symbolic::max(symbolic::min(i, size - 1), 0);
    case PadMode::kWrap: return symbolic::mod(i, size);
    case PadMode::kReflect: {
      const Expr period = (size - 1) * 2;
      const Expr at = symbolic::mod(i, period);
      return symbolic::min(at, period - at);
    }
  }
  STAX_UNREACHABLE();
  (void)b;
}

Value* pad_by_copies(Node& n, Value* x, const Pads& pads, PadMode mode) {
  Builder& b = n.b();
  const int rank = static_cast<int>(x->type.extents.size());
  const symbolic::ConstraintSet& facts = b.graph().constraints;
  std::vector<Expr> extents, from, size, shift;
  for (int axis = 0; axis < rank; ++axis) {
    const Expr own = x->type.extents[axis], before = pads.before[axis], after = pads.after[axis];
    from.push_back(symbolic::max(-before, 0));
    size.push_back(facts.simplify(own - from[axis] - symbolic::max(-after, 0)));
    shift.push_back(symbolic::max(before, 0));
    extents.push_back(facts.simplify(own + before + after));
    const Expr nothing_added =
        symbolic::logical_and(symbolic::less_equal(before, zero_of(b)), symbolic::less_equal(after, zero_of(b)));
    b.check(symbolic::logical_and(symbolic::less_equal(zero_of(b), size[axis]),
                                  symbolic::logical_or(symbolic::less(zero_of(b), size[axis]), nothing_added)),
            "pads {0} and {1} on axis " + std::to_string(axis) + ", whose extent is {2}", {before, after, own});
  }
  if (extents == x->type.extents && std::all_of(pads.before.begin(), pads.before.end(), is_zero)) return x;
  return keep_rank(
      b.map(extents,
            [&](Body& body) {
              std::vector<Expr> at;
              for (int axis = 0; axis < rank; ++axis) {
                const bool untouched = is_zero(pads.before[axis]) && is_zero(pads.after[axis]);
                at.push_back(untouched ? body.i[axis]
                                       : from[axis] + padded_index(b, mode, body.i[axis] - shift[axis], size[axis]));
              }
              return body.load(x, at);
            }),
      x);
}

void import_pad(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const std::string mode = n.text("mode", "constant");
  const Pads pads = pads_of(n, x);
  if (mode == "reflect") return n.output(0, pad_by_copies(n, x, pads, PadMode::kReflect));
  if (mode == "edge") return n.output(0, pad_by_copies(n, x, pads, PadMode::kEdge));
  if (mode == "wrap") return n.output(0, pad_by_copies(n, x, pads, PadMode::kWrap));
  if (mode != "constant") n.fault("its attribute 'mode' is '" + mode + "'");
  if (n.opset() < 11)
    return n.output(
        0, b.pad_constant(x, pads.before, pads.after, b.scalars().constant(x->type.dtype, n.real("value", 0))));
  if (!n.has(2)) return n.output(0, b.pad_constant(x, pads.before, pads.after, {}));
  n.same_dtype(0, 2);
  n.output(0, b.pad_with(x, pads.before, pads.after, b.reshape(n.input(2), {})));
}

// ---- CenterCropPad --------------------------------------------------------------------------------------------------

void import_center_crop_pad(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int rank = n.rank(0);
  std::vector<int> axes;
  if (const auto given = n.integers("axes")) {
    for (const int64_t axis : *given) axes.push_back(n.axis(axis, rank));
  } else {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  const std::vector<Expr> shape = n.exact_ints(n.input(1), static_cast<int>(axes.size()), kAnySize);
  std::vector<Expr> before(rank, zero_of(b)), after(rank, zero_of(b));
  for (size_t k = 0; k < axes.size(); ++k) {
    const Expr more = shape[k] - x->type.extents[axes[k]];
    // Rounded towards zero: an odd element is cropped at the end, and added at the end.
    before[axes[k]] =
        symbolic::select(symbolic::less(more, zero_of(b)), -symbolic::floordiv(-more, 2), symbolic::floordiv(more, 2));
    after[axes[k]] = more - before[axes[k]];
  }
  n.output(0, b.pad_constant(x, before, after, {}));
}

constexpr OperatorRow kOperators[] = {
    {"", "Slice", 1, import_slice},
    {"", "Pad", 2, import_pad},
    {"com.microsoft", "Pad", 1, import_pad},
    {"", "CenterCropPad", 18, import_center_crop_pad},
};

}  // namespace

std::span<const OperatorRow> slice_operators() { return kOperators; }

}  // namespace stax::frontend
