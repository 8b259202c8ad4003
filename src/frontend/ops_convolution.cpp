// SPDX-License-Identifier: Apache-2.0
// Convolutions. The input is padded first, so that the sum itself has no guards: out[n, m, o..] is the sum over input
// channels and taps of x[n, c, o * stride + k * dilation] * w[m, c, k].
//
// A transposed convolution first multiplies: each input element with each tap, summed over channels, which is one product of matrices
// without padding or waste. Then each output gathers the taps that reach it. Zeros between the elements, or padding, would multiply
// weights that may be infinite.
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

/// A convolution whose elements, in the type of the sum, `finish` completes; it may be empty.
Value* plain_convolution(Node& n, const std::function<Scalar(Body&, Scalar)>& finish) {
  Builder& b = n.b();
  Value *w = n.input(1), *x = n.input_of_rank(0, need_rank(n, 1, 3)), *bias = n.optional(2);
  const DType t = n.dtype();
  Convolution c;
  c.group = n.integer("group", 1);
  check_convolution(n, x, w, c.group);
  check_bias(n, 2, b.extent(w, 0));
  c.window = read_window(n, extents_of(w, 2), extents_of(x, 2));
  c.output = window_counts(n, c.window, extents_of(x, 2), false);
  c.x = padded(b, x, c.window);
  c.w = w;
  c.accumulate = product_accumulator(t);
  c.finish = [&](Body& body, Scalar sum, Expr channel) {
    if (bias) sum = sum + ir::cast(sum->dtype, body.load(bias, {channel}));
    return ir::cast(t, finish ? finish(body, sum) : sum);
  };
  return convolve(b, c);
}

void import_conv(Node& n) { n.output(0, plain_convolution(n, {})); }

/// com.microsoft: with an activation, and a tensor Z that is added before it.
void import_fused_conv(Node& n) {
  const std::string name = n.text("activation", "");
  const std::vector<double> parameters = n.reals("activation_params").value_or(std::vector<double>{});
  const auto parameter = [&](size_t k) {
    return [&parameters, k] { return k < parameters.size() ? std::optional<double>(parameters[k]) : std::nullopt; };
  };
  Activation activation;
  if (name == "Clip") {
    if (parameters.size() != 2) n.fault("activation_params of Clip have to be two bounds");
    activation = [&](Body& body, Scalar v) {
      return clamp(v, body.number(v->dtype, parameters[0]), body.number(v->dtype, parameters[1]));
    };
  } else if (!name.empty()) {
    activation = activation_named(n, name, {parameter(0), parameter(1)});
  }
  if (!n.has(3)) {
    n.output(0, plain_convolution(n, activation));
    return;
  }
  n.same_dtype(0, 3);
  Value *y = plain_convolution(n, {}), *z = n.input_of_rank(3, n.input(1)->type.static_rank());
  for (int d = 0; d < y->type.static_rank(); ++d)
    check_equal(n.b(), n.b().extent(z, d), n.b().extent(y, d), "extents of Z and of the result");
  n.output(0, n.b().map(y->type.extents, [&](Body& body) {
    const Scalar sum = body.load(y, body.i) + body.load(z, body.i);
    return activation ? activation(body, sum) : sum;
  }));
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

/// What each element of the input contributes to each tap: [n, m, k.., d..], the sum over the channels of its group. A product of
/// matrices, as the taps and the positions are one axis each.
Value* contributions(Builder& b, Value* x, Value* w, int64_t group, DType accumulate) {
  const Expr batch = b.extent(x, 0), inputs = symbolic::floordiv(b.extent(w, 0), group), outputs = b.extent(w, 1);
  const std::vector<Expr> taps = extents_of(w, 2), positions = extents_of(x, 2);
  const Expr rows = outputs * b.product(taps), columns = b.product(positions), groups = b.constant_expr(group);
  const bool grouped = group > 1;
  Value* left = b.reshape(w, grouped ? std::vector<Expr>{groups, inputs, rows} : std::vector<Expr>{inputs, rows});
  Value* right = b.reshape(
      x, grouped ? std::vector<Expr>{batch, groups, inputs, columns} : std::vector<Expr>{batch, inputs, columns});
  const std::vector<Expr> axes =
      grouped ? std::vector<Expr>{batch, groups, rows, columns} : std::vector<Expr>{batch, rows, columns};
  Value* y = b.reduce(Combiner::kSum, accumulate, axes, {inputs}, [&](Body& body) {
    const Expr c = body.r[0], row = body.i[axes.size() - 2], column = body.i.back();
    const Scalar weight = body.load(left, grouped ? std::vector<Expr>{body.i[1], c, row} : std::vector<Expr>{c, row});
    const Scalar value = body.load(
        right, grouped ? std::vector<Expr>{body.i[0], body.i[1], c, column} : std::vector<Expr>{body.i[0], c, column});
    return ir::cast(accumulate, weight) * ir::cast(accumulate, value);
  });
  return b.reshape(y, joined({batch, outputs * group}, taps, positions));
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
  Window window = read_window(n, extents_of(w, 2), input);
  const int spatial = window.rank();
  if (2 + 2 * spatial > tensor::kMaxRank) n.unsupported("more than 3 spatial axes");
  std::vector<Expr> output;
  transposed_geometry(n, window, input, output);
  const DType t = n.dtype(), work = product_accumulator(t);
  Value* parts = contributions(b, x, w, group, work);
  // Taps that can meet in one output: every stride-th one, or, dilated, any.
  std::vector<Expr> meeting;
  for (int k = 0; k < spatial; ++k)
    meeting.push_back(window.dilation[k] == 1 ? symbolic::ceildiv(window.kernel[k], window.stride[k])
                                              : window.kernel[k]);
  n.output(0, b.reduce(
                  Combiner::kSum, work, joined({b.extent(x, 0), b.extent(w, 1) * group}, output), meeting,
                  [&](Body& body) {
                    std::vector<Expr> taps, positions;
                    Expr inside = one_of(b);
                    for (int k = 0; k < spatial; ++k) {
                      const Expr u = body.i[2 + k] + window.before[k], stride = b.constant_expr(window.stride[k]);
                      Expr tap = body.r[k], position;
                      if (window.dilation[k] == 1) {
                        tap = symbolic::mod(u, stride) + body.r[k] * stride;
                        position = symbolic::floordiv(u, stride) - body.r[k];
                        inside = symbolic::logical_and(inside, symbolic::less(tap, window.kernel[k]));
                      } else {
                        const Expr reach = u - tap * window.dilation[k];
                        position = symbolic::floordiv(reach, stride);
                        inside = symbolic::logical_and(inside, symbolic::equal(symbolic::mod(reach, stride), 0));
                      }
                      inside = symbolic::logical_and(inside, within(position, input[k]));
                      taps.push_back(tap);
                      positions.push_back(position);
                    }
                    const Scalar v = body.load(parts, joined(part(body.i, 0, 2), taps, positions));
                    return ir::select(holds(body, inside), v, body.number(work, 0));
                  },
                  [&](Body& body, Scalar sum) {
                    if (n.has(2)) sum = sum + ir::cast(work, body.load(n.input(2), {body.i[1]}));
                    return ir::cast(t, sum);
                  }));
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
  Value *x = n.input(0), *w = n.input(1), *offset = n.input_of_rank(2, rank);
  Value* mask = n.has(4) ? n.input_of_rank(4, rank) : nullptr;
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

/// How many spatial axes there are, if attributes or shapes say.
std::optional<int> image_rank(Node& n) {
  for (const char* name : {"strides", "dilations"})
    if (const auto values = n.integers(name); values && !values->empty()) return static_cast<int>(values->size());
  if (const auto pads = n.integers("pads"); pads && !pads->empty()) return static_cast<int>(pads->size() / 2);
  for (int k = 1; k <= 2; ++k)
    if (const Expr length = n.element_count(n.input(k)); length.is_constant())
      return static_cast<int>(length.constant());
  return std::nullopt;
}

/// Adds up columns [n, c * block.., windows] into images: each pixel sums the taps whose windows cover it. As a gather: tap k of a
/// pixel p belongs to window (p + pad - k * dilation) / stride, if that divides and exists.
void import_col2im(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 3, 3);
  Value* x = n.input(0);
  const DType t = n.dtype();
  // Where only the run tells, an image has three axes, of which the last ones may have one pixel.
  const std::optional<int> known = image_rank(n);
  const int spatial = known.value_or(3);
  const auto shape = [&](int k, int64_t least) {
    const symbolic::Interval range{least, symbolic::kMaxExtent};
    return known ? n.exact_ints(n.input(k), spatial, range) : n.padded_ints(n.input(k), spatial, 1, range);
  };
  const std::vector<Expr> image = shape(1, 0), block = shape(2, 1);
  check_equal(b, n.element_count(n.input(1)), n.element_count(n.input(2)), "lengths of image_shape and block_shape");
  const std::vector<int64_t> stride = per_axis(n, "strides", spatial, 1, 1),
                             dilation = per_axis(n, "dilations", spatial, 1, 1);
  std::vector<int64_t> pads = n.integers("pads").value_or(std::vector<int64_t>{});
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (static_cast<int>(pads.size()) != 2 * spatial) n.fault("pads needs two numbers for each spatial axis");
  std::vector<Expr> windows;
  for (int k = 0; k < spatial; ++k) {
    const Expr room = image[k] + pads[k] + pads[spatial + k] - (block[k] - 1) * dilation[k] - 1;
    windows.push_back(symbolic::max(symbolic::floordiv(room, stride[k]) + 1, 0));
  }
  const Expr taps = b.product(block), channels = symbolic::floordiv(n.extent(0, 1), taps);
  b.check(symbolic::equal(channels * taps, n.extent(0, 1)), "{0} rows do not make blocks of {1}",
          {n.extent(0, 1), taps});
  check_equal(b, n.extent(0, 2), b.product(windows), "number of columns and of windows");
  if (2 + 2 * spatial > tensor::kMaxRank) n.unsupported("more than 3 spatial axes");
  Value* view = b.reshape(x, joined({n.extent(0, 0), channels}, block, windows));
  const DType sum = sum_accumulator(t);
  const std::vector<Expr> extents = joined({n.extent(0, 0), channels}, image);
  Value* y = b.reduce(
      Combiner::kSum, sum, extents, block,
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
      [&](Body&, Scalar a) { return ir::cast(t, a); });
  n.output(0, known ? y : with_leading_extents(b, y, extents, n.element_count(n.input(1)) + 2));
}

constexpr OperatorRow kRows[] = {
    {"", "Conv", 1, import_conv},
    {"com.microsoft", "FusedConv", 1, import_fused_conv},
    {"", "ConvTranspose", 1, import_conv_transpose},
    {"", "CausalConvWithState", 27, import_causal_conv_with_state},
    {"", "DeformConv", 19, import_deform_conv},
    {"", "Col2Im", 18, import_col2im},
};

}  // namespace

Rows convolution_rows() { return kRows; }

}  // namespace stax::frontend
