// SPDX-License-Identifier: Apache-2.0
// Convolutions. The input is padded first, so that the sum itself has no guards: out[n, m, o..] is the sum over input
// channels and taps of x[n, c, o * stride + k * dilation] * w[m, c, k].
//
// A transposed convolution is a plain one, too, with the kernel turned around in space and its channels exchanged. With strides, outputs
// of one phase (o + pad) mod stride use every stride-th tap: phases are output channels of a convolution of stride 1, and are
// interleaved at the end. Along an axis there are at most two numbers of taps that a phase can have, so that 2^rank convolutions do
// exactly the multiplications that are needed. Kernels are weights and arranged once, at compile time. Where the kernel's
// extents are unknown or dilated, the input gets stride - 1 zeros between its elements instead.
#include "frontend/decompositions.h"
#include "frontend/tables.h"
#include "frontend/windows.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

Value* padded(Builder& b, Value* x, const Window& w) {
  if (!w.padded()) return x;
  const std::vector<Expr> none(2, zero_of(b));
  return b.pad_constant(x, joined(none, w.before), joined(none, w.after), {});
}

/// Rounds to the element type after the bias (may be null) is added.
std::function<Scalar(Body&, Scalar, Expr)> with_bias(Value* bias, DType t) {
  return [=](Body& body, Scalar sum, Expr channel) {
    if (bias) sum = sum + ir::cast(sum->dtype, body.load(bias, {channel}));
    return ir::cast(t, sum);
  };
}

void check_bias(Node& n, int k, Expr channels) {
  if (!n.has(k)) return;
  need_rank(n, k, 1, 1);
  check_equal(n.b(), n.extent(k, 0), channels, "length of the bias and number of output channels");
}

void import_conv(Node& n) {
  Builder& b = n.b();
  Value *w = n.input(1), *x = n.input_of_rank(0, need_rank(n, 1, 3));
  const int64_t group = n.integer("group", 1);
  check_convolution(n, x, w, group);
  check_bias(n, 2, b.extent(w, 0));
  Convolution c;
  c.window = read_window(n, extents_of(w, 2), extents_of(x, 2));
  c.output = window_counts(n, c.window, extents_of(x, 2), false);
  c.x = padded(b, x, c.window);
  c.w = w;
  c.group = group;
  c.accumulate = product_accumulator(n.dtype());
  c.finish = with_bias(n.optional(2), n.dtype());
  n.output(0, convolve(b, c));
}

/// x spread by `stride` and padded (negative pads crop) to the extents `size`.
Value* spread(Builder& b, Value* x, const std::vector<int64_t>& stride, const std::vector<Expr>& before,
              const std::vector<Expr>& size) {
  const int spatial = static_cast<int>(stride.size());
  return b.map(joined(extents_of(x, 0, 2), size), [&](Body& body) {
    std::vector<Expr> at = part(body.i, 0, 2);
    Expr inside = one_of(b);
    for (int k = 0; k < spatial; ++k) {
      const Expr position = body.i[2 + k] - before[k], from = symbolic::floordiv(position, stride[k]);
      inside = symbolic::logical_and(inside, within(from, b.extent(x, 2 + k)));
      inside = symbolic::logical_and(inside, symbolic::equal(symbolic::mod(position, stride[k]), 0));
      at.push_back(from);
    }
    return ir::select(holds(body, inside), body.load(x, at), body.integer(x->type.dtype, 0));
  });
}

/// w [group * c, m, k..] as [group * m, c, k..], turned around in space.
Value* turned(Builder& b, Value* w, int64_t group) {
  const Expr inputs = symbolic::floordiv(b.extent(w, 0), group), outputs = b.extent(w, 1);
  Value* view = b.reshape(w, joined({b.constant_expr(group), inputs}, extents_of(w, 1)));
  const int spatial = w->type.static_rank() - 2;
  Value* kernel = b.map(joined({b.constant_expr(group), outputs, inputs}, extents_of(w, 2)), [&](Body& body) {
    std::vector<Expr> at = {body.i[0], body.i[2], body.i[1]};
    for (int k = 0; k < spatial; ++k) at.push_back(b.extent(w, 2 + k) - 1 - body.i[3 + k]);
    return body.load(view, at);
  });
  return b.reshape(kernel, joined({outputs * group, inputs}, extents_of(w, 2)));
}

/// Pads and output extents of a transposed convolution.
void transposed_geometry(Node& n, Window& w, const std::vector<Expr>& input, std::vector<Expr>& output) {
  Builder& b = n.b();
  const int rank = w.rank();
  const std::vector<int64_t> extra = per_axis(n, "output_padding", rank, 0, 0);
  const std::string mode = n.text("auto_pad", "NOTSET");
  std::vector<int64_t> shape = n.integers("output_shape").value_or(std::vector<int64_t>{});
  // Some exporters write batch and channels too.
  if (static_cast<int>(shape.size()) == rank + 2) shape.erase(shape.begin(), shape.begin() + 2);
  if (!shape.empty() && static_cast<int>(shape.size()) != rank) n.fault("output_shape has to name the spatial extents");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  output.clear();
  for (int k = 0; k < rank; ++k) {
    const Expr full = (input[k] - 1) * w.stride[k] + extra[k] + w.span(k);
    if (shape.empty() && !same) {
      output.push_back(symbolic::max(full - w.before[k] - w.after[k], 0));
      continue;
    }
    output.push_back(shape.empty() ? input[k] * w.stride[k] : b.constant_expr(shape[k]));
    const Expr total = symbolic::max(full - output[k], 0), less = symbolic::floordiv(total, 2);
    w.before[k] = mode == "SAME_UPPER" ? less : total - less;
    w.after[k] = total - w.before[k];
  }
}

/// Along one axis: phases `first` .. `first + count - 1` have `taps` taps each.
struct Phases {
  int64_t first, count, taps;
};

std::vector<Phases> phases_of(int64_t kernel, int64_t stride) {
  const int64_t rest = kernel % stride;
  if (rest == 0) return {{0, stride, kernel / stride}};
  return {{0, rest, kernel / stride + 1}, {rest, stride - rest, kernel / stride}};
}

/// w [group * c, m, k..] as [group * m * phases.., c, taps..]: what the given phases use of it, turned around.
Value* kernel_of_phases(Builder& b, Value* w, int64_t group, const std::vector<Phases>& phases, const std::vector<int64_t>& stride) {
  const int spatial = static_cast<int>(phases.size());
  const Expr inputs = symbolic::floordiv(b.extent(w, 0), group), outputs = b.extent(w, 1);
  std::vector<Expr> counts, taps;
  for (const Phases& p : phases) {
    counts.push_back(b.constant_expr(p.count));
    taps.push_back(b.constant_expr(p.taps));
  }
  const Expr phase_count = b.product(counts);
  // Group and output channel are one axis, and so are the phases: the rank stays within bounds.
  Value* kernel = b.map(joined({outputs * group, phase_count, inputs}, taps), [&](Body& body) {
    const Expr g = symbolic::floordiv(body.i[0], outputs);
    std::vector<Expr> at = {g * inputs + body.i[2], symbolic::mod(body.i[0], outputs)};
    std::vector<Expr> tap(spatial);
    Expr rest = body.i[1];
    for (int k = spatial - 1; k >= 0; --k) {
      const Expr phase = symbolic::mod(rest, phases[k].count) + phases[k].first;
      rest = symbolic::floordiv(rest, phases[k].count);
      tap[k] = phase + (phases[k].taps - 1 - body.i[3 + k]) * stride[k];
    }
    return body.load(w, joined(at, tap));
  });
  return b.reshape(kernel, joined({outputs * group * phase_count, inputs}, taps));
}

/// The transposed convolution by phases; `c` has the geometry, with the original stride.
Value* convolve_by_phases(Builder& b, Value* x, Value* w, const Convolution& c, Value* bias, DType result) {
  const int spatial = c.window.rank();
  const Window& window = c.window;
  const Expr batch = b.extent(x, 0), channels = b.extent(w, 1) * c.group;
  std::vector<std::vector<Phases>> along;
  // With u = o + before = stride * a + phase: a runs over `count` values from `start` on.
  std::vector<Expr> start, count, before, after;
  std::vector<int64_t> most;
  for (int k = 0; k < spatial; ++k) {
    along.push_back(phases_of(window.kernel[k].constant(), window.stride[k]));
    most.push_back(along[k][0].taps);
    start.push_back(symbolic::floordiv(window.before[k], window.stride[k]));
    count.push_back(symbolic::max(symbolic::floordiv(c.output[k] - 1 + window.before[k], window.stride[k]) - start[k] + 1, 0));
    before.push_back(most[k] - 1 - start[k]);
    after.push_back(count[k] + most[k] - 1 - before[k] - b.extent(x, 2 + k));
  }
  const std::vector<Expr> none(2, zero_of(b));
  Convolution part_of = c;
  part_of.x = b.pad_constant(x, joined(none, before), joined(none, after), {});
  part_of.output = count;
  part_of.window.stride.assign(spatial, 1);
  part_of.finish = {};
  // One convolution for each choice of phases along the axes, as [n, m, phases.., a..]; null where there are no taps.
  std::vector<Value*> parts;
  int choices = 1;
  for (const auto& phases : along) choices *= static_cast<int>(phases.size());
  const auto chosen = [&](int choice) {
    std::vector<Phases> phases;
    for (int k = 0; k < spatial; ++k) {
      const int options = static_cast<int>(along[k].size());
      phases.push_back(along[k][choice % options]);
      choice /= options;
    }
    return phases;
  };
  for (int choice = 0; choice < choices; ++choice) {
    const std::vector<Phases> phases = chosen(choice);
    std::vector<Expr> counts;
    part_of.window.kernel.clear();
    part_of.shift.clear();
    bool empty = false;
    for (int k = 0; k < spatial; ++k) {
      counts.push_back(b.constant_expr(phases[k].count));
      part_of.window.kernel.push_back(b.constant_expr(phases[k].taps));
      part_of.shift.push_back(most[k] - phases[k].taps);
      empty = empty || phases[k].taps == 0;
    }
    if (empty) {
      parts.push_back(nullptr);
      continue;
    }
    part_of.w = kernel_of_phases(b, w, c.group, phases, window.stride);
    parts.push_back(b.reshape(convolve(b, part_of), joined({batch, channels}, counts, count)));
  }
  return b.map(joined({batch, channels}, c.output), [&](Body& body) {
    std::vector<Expr> phase, at;
    for (int k = 0; k < spatial; ++k) {
      const Expr u = body.i[2 + k] + window.before[k];
      phase.push_back(symbolic::mod(u, window.stride[k]));
      at.push_back(symbolic::floordiv(u, window.stride[k]) - start[k]);
    }
    Scalar value = body.number(c.accumulate, 0);
    for (int choice = choices; choice-- > 0;) {
      const std::vector<Phases> phases = chosen(choice);
      std::vector<Expr> own;
      Expr here = one_of(b);
      for (int k = 0; k < spatial; ++k) {
        own.push_back(phase[k] - phases[k].first);
        if (along[k].size() > 1) here = symbolic::logical_and(here, within(own[k], b.constant_expr(phases[k].count)));
      }
      const Scalar v = parts[choice] ? body.load(parts[choice], joined(part(body.i, 0, 2), own, at)) : body.number(c.accumulate, 0);
      value = ir::select(holds(body, here), v, value);
    }
    if (bias) value = value + ir::cast(c.accumulate, body.load(bias, {body.i[1]}));
    return ir::cast(result, value);
  });
}

void import_conv_transpose(Node& n) {
  Builder& b = n.b();
  Value *w = n.input(1), *x = n.input_of_rank(0, need_rank(n, 1, 3));
  const int64_t group = n.integer("group", 1);
  if (group < 1) n.fault("group has to be 1 or more");
  check_equal(b, b.extent(x, 1), b.extent(w, 0), "channels of input and weight");
  if (group > 1)
    b.check(symbolic::equal(symbolic::mod(b.extent(w, 0), group), 0), "{0} input channels do not make {1} groups",
            {b.extent(w, 0), b.constant_expr(group)});
  check_bias(n, 2, b.extent(w, 1) * group);
  const std::vector<Expr> input = extents_of(x, 2);
  Convolution c;
  c.window = read_window(n, extents_of(w, 2), input);
  transposed_geometry(n, c.window, input, c.output);
  c.group = group;
  c.accumulate = product_accumulator(n.dtype());
  bool plain = true, by_phases = true;
  for (int k = 0; k < c.window.rank(); ++k) {
    plain = plain && c.window.stride[k] == 1;
    by_phases = by_phases && c.window.dilation[k] == 1 && c.window.kernel[k].is_constant();
  }
  if (!plain && by_phases && c.window.rank() <= 3) {
    n.output(0, convolve_by_phases(b, x, w, c, n.optional(2), n.dtype()));
    return;
  }
  std::vector<Expr> before, size;
  for (int k = 0; k < c.window.rank(); ++k) {
    before.push_back(c.window.span(k) - 1 - c.window.before[k]);
    size.push_back(c.output[k] + c.window.span(k) - 1);
  }
  if (plain) {
    // No zeros between the elements: padding is all.
    std::vector<Expr> after;
    for (int k = 0; k < c.window.rank(); ++k) after.push_back(size[k] - before[k] - input[k]);
    const std::vector<Expr> none(2, zero_of(b));
    c.x = b.pad_constant(x, joined(none, before), joined(none, after), {});
  } else {
    c.x = spread(b, x, c.window.stride, before, size);
  }
  c.window.stride.assign(c.window.stride.size(), 1);
  c.w = turned(b, w, group);
  c.finish = with_bias(n.optional(2), n.dtype());
  n.output(0, convolve(b, c));
}

/// A depthwise convolution over time that looks back only, and hands on the last k - 1 inputs.
void import_causal_conv_with_state(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 3, 3);
  need_rank(n, 1, 3, 3);
  Value *x = n.input(0), *w = n.input(1), *past = n.optional(3);
  const DType t = n.dtype(), work = product_accumulator(t);
  const Expr batch = n.extent(0, 0), channels = n.extent(0, 1), length = n.extent(0, 2), taps = n.extent(1, 2);
  const Expr carried = taps - 1;
  check_equal(b, n.extent(1, 0), channels, "channels of input and weight");
  check_equal(b, n.extent(1, 1), one_of(b), "middle extent of the weight and 1");
  check_bias(n, 2, channels);
  Value* line = nullptr;
  if (past) {
    check_equal(b, b.extent(past, 2), carried, "length of past_state and of the kernel less 1");
    line = b.concat({past, x}, 2);
  } else {
    line = b.pad_constant(x, {zero_of(b), zero_of(b), carried}, {zero_of(b), zero_of(b), zero_of(b)}, {});
  }
  const std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    n.fault("activation has to be none, silu or swish, not " + activation);
  n.output(0, b.reduce(
                  Combiner::kSum, work, {batch, channels, length}, {taps},
                  [&](Body& body) {
                    const std::vector<Expr> at = {body.i[0], body.i[1], body.i[2] + body.r[0]};
                    return ir::cast(work, body.load(line, at)) *
                           ir::cast(work, body.load(w, {body.i[1], zero_of(b), body.r[0]}));
                  },
                  [&](Body& body, Scalar sum) {
                    if (n.has(2)) sum = sum + ir::cast(work, body.load(n.input(2), {body.i[1]}));
                    if (activation != "none") sum = sum * ir::unary(ScalarOp::kSigmoid, sum);
                    return ir::cast(t, sum);
                  }));
  if (n.wants(1)) n.output(1, b.slice(line, 2, length, carried, one_of(b)));
}

/// Samples x between its elements: offset [n, g * taps * rank, o..] moves each tap, mask [n, g * taps, o..] weighs it. The samples
/// [n, c, k.., o..] are a tensor of their own, and what follows is a product of matrices.
void import_deform_conv(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 3), spatial = rank - 2;
  Value *x = n.input(0), *w = n.input(1), *offset = n.input(2), *mask = n.optional(4);
  const DType t = n.dtype(), work = product_accumulator(t);
  const int64_t group = n.integer("group", 1), offset_group = n.integer("offset_group", 1);
  check_convolution(n, x, w, group);
  check_bias(n, 3, b.extent(w, 0));
  if (2 + 2 * spatial > tensor::kMaxRank) n.unsupported("more than 3 spatial axes");
  const std::vector<Expr> input = extents_of(x, 2);
  Convolution c;
  c.window = read_window(n, extents_of(w, 2), input);
  c.output = window_counts(n, c.window, input, false);
  const std::vector<Expr>& kernel = c.window.kernel;
  const Expr batch = b.extent(x, 0), channels = b.extent(x, 1), taps = b.product(kernel);
  for (int k = 0; k < spatial; ++k)
    check_equal(b, b.extent(offset, 2 + k), c.output[k], "extents of offset and of the output");
  b.check(symbolic::equal(symbolic::mod(channels, offset_group), 0), "{0} channels do not make {1} offset groups",
          {channels, b.constant_expr(offset_group)});
  const Expr per_group = symbolic::floordiv(channels, offset_group);
  const Expr groups = b.constant_expr(offset_group), dims = b.constant_expr(spatial);
  Value* moves = b.reshape(offset, joined({batch, groups, taps, dims}, c.output));
  if (mask) mask = b.reshape(mask, joined({batch, groups, taps}, c.output));
  // [n, c, taps, o..]
  Value* samples = b.map(joined({batch, channels, taps}, c.output), [&](Body& body) {
    const Expr g = symbolic::floordiv(body.i[1], per_group);
    const std::vector<Expr> at_output = part(body.i, 3);
    // Where the sample is: along each axis a lower neighbour and how far it is from it.
    std::vector<Scalar> low, weight;
    Expr rest = body.i[2];
    std::vector<Expr> tap(spatial);
    for (int k = spatial - 1; k >= 0; --k) {
      tap[k] = symbolic::mod(rest, kernel[k]);
      rest = symbolic::floordiv(rest, kernel[k]);
    }
    for (int k = 0; k < spatial; ++k) {
      const Expr start = at_output[k] * c.window.stride[k] - c.window.before[k] + tap[k] * c.window.dilation[k];
      const Scalar move = body.load(moves, joined({body.i[0], g, body.i[2], b.constant_expr(k)}, at_output));
      const Scalar p = number_of(body, work, start) + ir::cast(work, move);
      const Scalar floor = ir::unary(ScalarOp::kFloor, p);
      low.push_back(ir::cast(DType::kI64, floor));
      weight.push_back(p - floor);
    }
    Scalar sum = body.number(work, 0);
    for (int corner = 0; corner < 1 << spatial; ++corner) {
      Scalar factor = body.number(work, 1), inside = holds(body, one_of(b));
      std::vector<Scalar> at = {body.index(body.i[0]), body.index(body.i[1])};
      for (int k = 0; k < spatial; ++k) {
        const bool high = (corner >> k & 1) != 0;
        const Scalar i = high ? low[k] + body.integer(DType::kI64, 1) : low[k];
        factor = factor * (high ? weight[k] : body.number(work, 1) - weight[k]);
        inside = logical_and(inside, ir::less_equal(body.integer(DType::kI64, 0), i));
        inside = logical_and(inside, ir::less(i, body.index(input[k])));
        at.push_back(i);
      }
      sum = sum + ir::select(inside, factor * ir::cast(work, body.load(x, at)), body.number(work, 0));
    }
    if (mask) sum = sum * ir::cast(work, body.load(mask, joined({body.i[0], g, body.i[2]}, at_output)));
    return ir::cast(t, sum);
  });
  // A convolution with one window of all taps along one axis: x [n, c, taps, o..], w [m, c / group, taps, 1..].
  c.w = b.reshape(w, joined({b.extent(w, 0), b.extent(w, 1), taps}, std::vector<Expr>(spatial, one_of(b))));
  Window flat;
  flat.kernel = joined({taps}, std::vector<Expr>(spatial, one_of(b)));
  flat.before.assign(spatial + 1, zero_of(b));
  flat.after = flat.before;
  flat.stride.assign(spatial + 1, 1);
  flat.dilation = flat.stride;
  const std::vector<Expr> output = c.output;
  c.window = flat;
  c.output = joined({one_of(b)}, output);
  c.x = samples;
  c.group = group;
  c.accumulate = work;
  c.finish = with_bias(n.optional(3), t);
  n.output(0, b.reshape(convolve(b, c), joined({batch, b.extent(w, 0)}, output)));
}

/// How many spatial axes there are: what attributes or shapes say, else 2.
int image_rank(Node& n) {
  for (const char* name : {"strides", "dilations"})
    if (const auto values = n.integers(name); values && !values->empty()) return static_cast<int>(values->size());
  if (const auto pads = n.integers("pads"); pads && !pads->empty()) return static_cast<int>(pads->size() / 2);
  for (int k = 1; k <= 2; ++k)
    if (const Expr length = n.element_count(n.input(k)); length.is_constant()) return static_cast<int>(length.constant());
  return 2;
}

/// Adds up columns [n, c * block.., windows] into images: each pixel sums the taps whose windows cover it. As a gather: tap k of a
/// pixel p belongs to window (p + pad - k * dilation) / stride, if that divides and exists.
void import_col2im(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 3, 3);
  Value* x = n.input(0);
  const DType t = n.dtype();
  const int spatial = image_rank(n);
  const std::vector<Expr> image = n.exact_ints(n.input(1), spatial, {0, symbolic::kMaxExtent});
  const std::vector<Expr> block = n.exact_ints(n.input(2), spatial, {1, symbolic::kMaxExtent});
  const std::vector<int64_t> stride = per_axis(n, "strides", spatial, 1, 1), dilation = per_axis(n, "dilations", spatial, 1, 1);
  std::vector<int64_t> pads = n.integers("pads").value_or(std::vector<int64_t>{});
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (static_cast<int>(pads.size()) != 2 * spatial) n.fault("pads needs two numbers for each spatial axis");
  std::vector<Expr> windows;
  for (int k = 0; k < spatial; ++k) {
    const Expr room = image[k] + pads[k] + pads[spatial + k] - (block[k] - 1) * dilation[k] - 1;
    windows.push_back(symbolic::max(symbolic::floordiv(room, stride[k]) + 1, 0));
  }
  const Expr taps = b.product(block), channels = symbolic::floordiv(n.extent(0, 1), taps);
  b.check(symbolic::equal(channels * taps, n.extent(0, 1)), "{0} rows do not make blocks of {1}", {n.extent(0, 1), taps});
  check_equal(b, n.extent(0, 2), b.product(windows), "number of columns and of windows");
  if (2 + 2 * spatial > tensor::kMaxRank) n.unsupported("more than 3 spatial axes");
  Value* view = b.reshape(x, joined({n.extent(0, 0), channels}, block, windows));
  const DType sum = sum_accumulator(t);
  n.output(0, b.reduce(
                  Combiner::kSum, sum, joined({n.extent(0, 0), channels}, image), block,
                  [&](Body& body) {
                    std::vector<Expr> window;
                    Expr inside = one_of(b);
                    for (int k = 0; k < spatial; ++k) {
                      const Expr position = body.i[2 + k] + pads[k] - body.r[k] * dilation[k];
                      window.push_back(symbolic::floordiv(position, stride[k]));
                      inside = symbolic::logical_and(inside, symbolic::equal(symbolic::mod(position, stride[k]), 0));
                      inside = symbolic::logical_and(inside, within(window[k], windows[k]));
                    }
                    const Scalar value = body.load(view, joined(part(body.i, 0, 2), body.r, window));
                    return ir::select(holds(body, inside), ir::cast(sum, value), body.integer(sum, 0));
                  },
                  [&](Body&, Scalar a) { return ir::cast(t, a); }));
}

constexpr OperatorRow kRows[] = {
    {"", "Conv", 1, import_conv},
    {"", "ConvTranspose", 1, import_conv_transpose},
    {"", "CausalConvWithState", 27, import_causal_conv_with_state},
    {"", "DeformConv", 19, import_deform_conv},
    {"", "Col2Im", 18, import_col2im},
};

}  // namespace

Rows convolution_rows() { return kRows; }

}  // namespace stax::frontend
