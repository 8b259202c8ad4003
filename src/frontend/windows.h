// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry that convolutions and poolings share: along each spatial axis a window of `kernel` taps, `dilation` apart,
// moves by `stride` over the input with `before` and `after` elements of padding. All of it may be symbolic but strides
// and dilations, which are attributes.
#include <functional>
#include <vector>

#include "frontend/spelling.h"

namespace stax::frontend {

struct Window {
  std::vector<Expr> kernel, before, after;
  std::vector<int64_t> stride, dilation;

  int rank() const { return static_cast<int>(kernel.size()); }
  /// From the first tap to the last, both included.
  Expr span(int k) const { return (kernel[k] - 1) * dilation[k] + 1; }
  bool padded() const;
  /// Position in the unpadded input of tap `tap` of window `at`.
  Expr position(int k, Expr at, Expr tap) const { return at * stride[k] + tap * dilation[k] - before[k]; }
};

/// `name` as a list of `rank` numbers of at least `least`; all `fallback` where it is absent.
std::vector<int64_t> per_axis(const Node& n, const char* name, int rank, int64_t fallback, int64_t least);
/// Attributes kernel_shape (or `kernel`, the extents of a weight), strides, dilations, pads, auto_pad.
/// `may_crop`: SAME padding may be negative, as it is for pools.
Window read_window(Node& n, std::vector<Expr> kernel, const std::vector<Expr>& input, bool may_crop = false);
std::vector<Expr> read_kernel(Node& n, int rank);
/// How many windows there are along each axis. With `ceil_mode` a last one may go over the end, if it begins before it.
std::vector<Expr> window_counts(Node& n, const Window& w, const std::vector<Expr>& input, bool ceil_mode);

/// What a convolution sums and what becomes of it. x [n, c, d..] is padded already, w is [m, c / group, k..].
struct Convolution {
  Value* x = nullptr;
  Value* w = nullptr;
  int64_t group = 1;
  Window window;
  std::vector<Expr> output;  // spatial extents
  DType accumulate = DType::kF32;
  std::function<Scalar(Body&, Scalar)> element_x = {};  // to `accumulate`; empty: a cast
  std::function<Scalar(Body&, Scalar, Expr channel)> element_w = {};
  std::function<Scalar(Body&, Scalar sum, Expr channel)> finish =
      {};  // of output channel `channel`; empty: as accumulated
};
/// [n, m, o..]. One reduction over input channels and taps of a product of two loads; groups are an axis of their own, so that
/// every index stays affine.
Value* convolve(Builder& b, const Convolution& c);
/// The relations between the extents of x and w that a convolution demands.
void check_convolution(Node& n, Value* x, Value* w, int64_t group);

}  // namespace stax::frontend
