// SPDX-License-Identifier: Apache-2.0
#include "frontend/windows.h"

#include <algorithm>

namespace stax::frontend {

bool Window::padded() const {
  const auto none = [](Expr e) { return e.is_constant(0); };
  return !std::all_of(before.begin(), before.end(), none) || !std::all_of(after.begin(), after.end(), none);
}

std::vector<int64_t> per_axis(const Node& n, const char* name, int rank, int64_t fallback, int64_t least) {
  std::vector<int64_t> values = n.integers(name).value_or(std::vector<int64_t>(static_cast<size_t>(rank), fallback));
  if (values.empty()) values.assign(static_cast<size_t>(rank), fallback);
  if (static_cast<int>(values.size()) != rank)
    n.fault(std::string(name) + " has " + std::to_string(values.size()) + " numbers for " + std::to_string(rank) +
            " spatial axes");
  for (int64_t v : values)
    if (v < least) n.fault(std::string(name) + " holds " + std::to_string(v) + ", less than " + std::to_string(least));
  return values;
}

std::vector<Expr> read_kernel(Node& n, int rank) {
  if (!n.integers("kernel_shape")) n.fault("kernel_shape is missing");
  return exprs_of(n.b(), per_axis(n, "kernel_shape", rank, 1, 1));
}

Window read_window(Node& n, std::vector<Expr> kernel, const std::vector<Expr>& input, bool may_crop) {
  Builder& b = n.b();
  const int rank = static_cast<int>(input.size());
  Window w;
  w.kernel = std::move(kernel);
  if (const auto named = n.integers("kernel_shape"); named && !named->empty()) {
    const std::vector<int64_t> shape = per_axis(n, "kernel_shape", rank, 1, 1);
    for (int k = 0; k < rank; ++k)
      check_equal(b, w.kernel[k], b.constant_expr(shape[k]), "extent of the weight and of kernel_shape");
    w.kernel = exprs_of(b, shape);
  }
  w.stride = per_axis(n, "strides", rank, 1, 1);
  w.dilation = per_axis(n, "dilations", rank, 1, 1);
  w.before.assign(rank, zero_of(b));
  w.after = w.before;
  const std::string mode = n.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    // As many windows as strides begun; what they need beyond the input is halved between the two ends. Windows shorter than a stride may need less
    // than there is: convolutions begin at the first element then, pools leave half of the rest out at each end, rounded towards 0.
    for (int k = 0; k < rank; ++k) {
      const Expr windows = symbolic::ceildiv(input[k], w.stride[k]);
      const Expr need = (windows - 1) * w.stride[k] + w.span(k) - input[k];
      const bool crops = may_crop && w.span(k).range().lo < w.stride[k];
      const Expr total = crops ? need : symbolic::max(need, 0);
      const Expr rest = mode == "SAME_UPPER" ? total : total + 1;
      const Expr half = symbolic::floordiv(rest, 2);
      w.before[k] =
          crops ? symbolic::select(symbolic::less(rest, b.constant_expr(0)), -symbolic::floordiv(-rest, 2), half)
                : half;
      w.after[k] = total - w.before[k];
    }
  } else if (mode == "NOTSET" || mode.empty()) {
    if (const auto pads = n.integers("pads"); pads && !pads->empty()) {
      if (static_cast<int>(pads->size()) != 2 * rank)
        n.fault("pads has " + std::to_string(pads->size()) + " numbers for " + std::to_string(rank) + " spatial axes");
      for (int k = 0; k < rank; ++k) {
        w.before[k] = b.constant_expr((*pads)[k]);
        w.after[k] = b.constant_expr((*pads)[rank + k]);
      }
    }
  } else if (mode != "VALID") {
    n.fault("auto_pad has to be NOTSET, SAME_UPPER, SAME_LOWER or VALID, not " + mode);
  }
  return w;
}

std::vector<Expr> window_counts(Node& n, const Window& w, const std::vector<Expr>& input, bool ceil_mode) {
  const std::string mode = n.text("auto_pad", "NOTSET");
  std::vector<Expr> out;
  for (int k = 0; k < w.rank(); ++k) {
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      out.push_back(symbolic::ceildiv(input[k], w.stride[k]));
      continue;
    }
    const Expr room = input[k] + w.before[k] + w.after[k] - w.span(k);
    if (!ceil_mode || mode == "VALID" || w.stride[k] == 1) {
      out.push_back(symbolic::max(symbolic::floordiv(room, w.stride[k]) + 1, 0));
      continue;
    }
    const Expr windows = symbolic::ceildiv(room, w.stride[k]) + 1;
    const Expr late = symbolic::less_equal(input[k] + w.before[k], (windows - 1) * w.stride[k]);
    out.push_back(symbolic::max(windows - late, 0));
  }
  return out;
}

void check_convolution(Node& n, Value* x, Value* w, int64_t group) {
  Builder& b = n.b();
  if (group < 1) n.fault("group has to be 1 or more");
  const int rank = x->type.static_rank();
  if (w->type.static_rank() != rank)
    n.fault("the weight has rank " + std::to_string(w->type.static_rank()) + ", the input " + std::to_string(rank));
  b.check(symbolic::equal(b.extent(x, 1), b.extent(w, 1) * group),
          "the input has {0} channels, the weight asks for {1}", {b.extent(x, 1), b.extent(w, 1) * group});
  if (group > 1)
    b.check(symbolic::equal(symbolic::mod(b.extent(w, 0), group), 0), "{0} output channels do not make {1} groups",
            {b.extent(w, 0), b.constant_expr(group)});
}

Value* convolve(Builder& b, const Convolution& c) {
  const int spatial = c.window.rank();
  const Expr batch = b.extent(c.x, 0), outputs = b.extent(c.w, 0), inputs = b.extent(c.w, 1);
  const bool grouped = c.group > 1;
  const Expr group = b.constant_expr(c.group);
  const Expr outputs_of_group = symbolic::floordiv(outputs, c.group);
  // Where a group has one input channel, x already is [n, group, d..]; where it has one output channel, the result is.
  const bool one_in = is_one(inputs), one_out = is_one(outputs_of_group);
  Value* x = c.x;
  if (grouped && !one_in) x = b.reshape(x, joined({batch, group, inputs}, extents_of(x, 2)));
  Value* w = c.w;
  if (grouped && !one_out) w = b.reshape(w, joined({group, outputs_of_group, inputs}, extents_of(w, 2)));
  std::vector<Expr> axes = {batch};
  if (!grouped) axes.push_back(outputs);
  if (grouped) axes.push_back(group);
  if (grouped && !one_out) axes.push_back(outputs_of_group);
  const int first = static_cast<int>(axes.size());
  axes = joined(axes, c.output);
  std::vector<Expr> reductions;
  if (!one_in) reductions.push_back(inputs);
  const int first_tap = static_cast<int>(reductions.size());
  reductions = joined(reductions, c.window.kernel);
  const auto channel = [&](const std::vector<Expr>& i) {
    if (!grouped || one_out) return i[1];
    return i[1] * outputs_of_group + i[2];
  };
  const auto body = [&](Body& body) {
    const Expr input = one_in ? zero_of(b) : body.r[0];
    std::vector<Expr> at_x = {body.i[0]}, at_w = {body.i[1]};
    if (grouped) at_x.push_back(body.i[1]);
    if (!grouped || !one_in) at_x.push_back(input);
    if (grouped && !one_out) at_w.push_back(body.i[2]);
    at_w.push_back(input);
    for (int k = 0; k < spatial; ++k) {
      const Expr tap = body.r[first_tap + k];
      at_x.push_back(body.i[first + k] * c.window.stride[k] + tap * c.window.dilation[k]);
      at_w.push_back(tap);
    }
    const Scalar value = body.load(x, at_x), weight = body.load(w, at_w);
    return (c.element_x ? c.element_x(body, value) : ir::cast(c.accumulate, value)) *
           (c.element_w ? c.element_w(body, weight, channel(body.i)) : ir::cast(c.accumulate, weight));
  };
  Value* y = !c.finish ? b.reduce(Combiner::kSum, c.accumulate, axes, reductions, body)
                       : b.reduce(Combiner::kSum, c.accumulate, axes, reductions, body,
                                  [&](Body& body, Scalar sum) { return c.finish(body, sum, channel(body.i)); });
  return grouped && !one_out ? b.reshape(y, joined({batch, outputs}, c.output)) : y;
}

}  // namespace stax::frontend
