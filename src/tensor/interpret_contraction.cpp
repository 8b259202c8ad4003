// SPDX-License-Identifier: Apache-2.0
// Sums of products for the reference interpreter.
//
// Evaluated point by point, a convolution costs a few nanoseconds a product and a small network minutes. Instead, each
// factor is evaluated beforehand and kept as an array of doubles, with the axis along which results are computed side
// by side last. Then the sums are rows of multiply-adds over contiguous doubles:
//
//   sums[outer, v] += narrow[outer, r] * wide[outer, r, v]      for all r, four at a time
//
// A factor that reads one tensor at affine indices is evaluated once for each element of the tensor; any other once for
// each point of the axes that it depends on. Both arrays are addressed by a base for the outer point plus an offset for
// the reduction point, so that one loop serves matrix products in all layouts, convolutions, and batches of them.
// Integers go the same way where no sum can leave the 53 bits of a double, which is exact.
#include "tensor/interpret_contraction.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#if defined(__x86_64__)
#define STAX_WIDE_VECTORS __attribute__((target("avx2")))
#else
#define STAX_WIDE_VECTORS
#endif

namespace stax::tensor::reference {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::ExprNode;
using symbolic::saturating_mul;

namespace {

constexpr int64_t kLeastWork = 1 << 12;  // products; below, setting up costs more than it saves
constexpr int64_t kMostElements = int64_t{1} << 28;
constexpr int64_t kMostReductions = 1 << 22;
constexpr int64_t kRowChunk = 512;  // doubles of a row worked on at a time: stays in the nearest cache

/// A factor and its values: over the elements of the tensor that it reads, or over the axes that it depends on.
struct Factor {
  Scalar body;
  std::vector<size_t> axes;  // it depends on
  bool over_elements = false;
  Scalar main;                    // over elements: the load whose indices address them
  std::vector<AffineForm> index;  // of main, over axes and reductions
  std::vector<double> values;
  std::vector<int64_t> coefficients;  // of the address in `values`, by axis
  int64_t base = 0;

  bool depends_on(size_t axis) const { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }
  /// The dim of the tensor that alone moves with `axis`, one element a step; -1 if there is none.
  int unit_dim(size_t axis) const {
    int found = -1;
    for (size_t k = 0; k < index.size(); ++k) {
      if (index[k].coefficients[axis] == 0) continue;
      if (found >= 0 || index[k].coefficients[axis] != 1) return -1;
      found = static_cast<int>(k);
    }
    return found;
  }
  bool can_be_contiguous(size_t axis) const { return !over_elements || unit_dim(axis) >= 0; }
};

bool only_reads(symbolic::Expr e, const std::unordered_set<const ExprNode*>& given,
                const std::unordered_set<const ExprNode*>& axes) {
  if (given.contains(e.node())) return true;
  if (e.is_constant()) return true;
  if (e.is_symbol()) return !axes.contains(e.node());
  return std::all_of(e.args().begin(), e.args().end(), [&](symbolic::Expr a) { return only_reads(a, given, axes); });
}

/// Whether the factor is a function of one tensor's elements at affine indices; finds the load that addresses them.
bool find_main_load(Factor& f, IndexForms& box, const std::unordered_set<const ExprNode*>& axes,
                    std::span<const Source> sources) {
  bool legal = true;
  ir::visit(f.body, [&](Scalar x) {
    if (x->kind == ScalarKind::kOp && x->op == ScalarOp::kCheckedIndex) legal = false;
    if (x->kind != ScalarKind::kLoad) return;
    for (Scalar a : x->args) legal = legal && ir::as_expr(a);
    if (!f.main || x->args.size() > f.main->args.size()) f.main = x;
  });
  if (!legal || !f.main) return false;
  std::unordered_set<const ExprNode*> given;
  for (size_t k = 0; k < f.main->args.size(); ++k) {
    const symbolic::Expr e = ir::as_expr(f.main->args[k]);
    const std::optional<AffineForm>& form = box.of(e).affine;
    if (!form || form->range.lo < 0 || form->range.hi >= sources[f.main->slot].extents[k]) return false;
    f.index.push_back(*form);
    if (form->is_constant()) {
      if (!only_reads(e, {}, axes)) return false;
    } else if (!given.insert(e.node()).second) {
      return false;  // a diagonal
    }
  }
  ir::visit(f.body, [&](Scalar x) {
    if (x->kind == ScalarKind::kIndex) legal = legal && only_reads(x->index, given, axes);
  });
  return legal;
}

/// Decides how the factor is evaluated; false if that would cost too much for `work` products.
bool analyze(Factor& f, IndexForms& box, const std::vector<symbolic::Expr>& vars, const std::vector<int64_t>& extents,
             std::span<const Source> sources, int64_t work) {
  std::unordered_set<const ExprNode*> symbols, axes;
  bool legal = true;
  ir::visit(f.body, [&](Scalar x) {
    if (x->kind == ScalarKind::kAccumulator) legal = false;
    if (x->kind != ScalarKind::kIndex) return;
    for (symbolic::Expr s : symbolic::free_symbols(x->index)) symbols.insert(s.node());
  });
  if (!legal) return false;
  int64_t points = 1;
  for (size_t d = 0; d < vars.size(); ++d) {
    axes.insert(vars[d].node());
    if (!symbols.contains(vars[d].node())) continue;
    f.axes.push_back(d);
    points = saturating_mul(points, extents[d]);
  }
  if (find_main_load(f, box, axes, sources)) {
    int64_t elements = 1;
    for (size_t k = 0; k < f.index.size(); ++k) {
      if (!f.index[k].is_constant()) elements = saturating_mul(elements, sources[f.main->slot].extents[k]);
    }
    f.over_elements = elements <= kMostElements && elements / 4 <= work;
  }
  return f.over_elements || (points <= kMostElements && points <= work / 4);
}

/// Evaluates the factor over `vars` x `extents`. False if some point is faulty.
bool evaluate_factor(Factor& f, const std::vector<symbolic::Expr>& vars, const std::vector<int64_t>& extents,
                     std::span<const Source> sources, const Bindings& bindings, symbolic::Interval* range) {
  BlockProgram program(vars, extents, sources, bindings);
  program.add_root(f.body);
  *range = program.range(0);
  program.finish();
  f.values.resize(program.count());
  const bool is_float = ir::is_float(f.body->dtype);
  for (int64_t start = 0; start < program.count();) {
    const int64_t n = program.run(start, program.count() - start);
    if (program.faults(0) != nullptr) return false;
    if (is_float) {
      std::copy_n(program.floats(0), n, f.values.begin() + start);
    } else {
      std::copy_n(program.ints(0), n, f.values.begin() + start);
    }
    start += n;
  }
  return true;
}

/// Row-major strides of dims that lie in the order given.
std::vector<int64_t> strides_in_order(const std::vector<size_t>& order, const std::vector<int64_t>& extents,
                                      size_t count) {
  std::vector<int64_t> strides(count, 0);
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= extents[k];
  }
  return strides;
}

bool materialize_elements(Factor& f, int last, size_t axis_count, std::span<const Source> sources,
                          const Bindings& bindings, symbolic::Interval* range) {
  std::vector<size_t> order;
  for (size_t k = 0; k < f.index.size(); ++k) {
    if (static_cast<int>(k) != last) order.push_back(k);
  }
  if (last >= 0) order.push_back(static_cast<size_t>(last));
  std::vector<symbolic::Expr> vars;
  std::vector<int64_t> extents;
  for (size_t k : order) {
    // A constant index stays what it is: the axis then has one point only.
    const bool constant = f.index[k].is_constant();
    vars.push_back(constant ? symbolic::Expr() : ir::as_expr(f.main->args[k]));
    extents.push_back(constant ? 1 : sources[f.main->slot].extents[k]);
  }
  if (!evaluate_factor(f, vars, extents, sources, bindings, range)) return false;
  const std::vector<int64_t> strides = strides_in_order(order, extents, f.index.size());
  f.coefficients.assign(axis_count, 0);
  for (size_t k = 0; k < f.index.size(); ++k) {
    if (f.index[k].is_constant()) continue;
    f.base += f.index[k].base * strides[k];
    for (size_t d = 0; d < axis_count; ++d) f.coefficients[d] += f.index[k].coefficients[d] * strides[k];
  }
  return true;
}

bool materialize_points(Factor& f, int row_axis, const std::vector<symbolic::Expr>& all_vars,
                        const std::vector<int64_t>& all_extents, std::span<const Source> sources,
                        const Bindings& bindings, symbolic::Interval* range) {
  std::vector<size_t> order = f.axes;
  std::stable_partition(order.begin(), order.end(), [&](size_t d) { return static_cast<int>(d) != row_axis; });
  std::vector<symbolic::Expr> vars;
  std::vector<int64_t> extents;
  for (size_t d : order) {
    vars.push_back(all_vars[d]);
    extents.push_back(all_extents[d]);
  }
  f.coefficients = strides_in_order(order, extents, all_vars.size());
  return evaluate_factor(f, vars, extents, sources, bindings, range);
}

/// rows[m][j] += narrow[m][narrow_offsets[r]] * wide[wide_offsets[r] + j * step] for j < n and all r.
template <int M>
STAX_WIDE_VECTORS void multiply_rows(double* const* rows, const double* const* narrow, const int64_t* narrow_offsets,
                                     const double* wide, const int64_t* wide_offsets, int64_t reductions, int64_t n,
                                     int64_t step) {
  int64_t r = 0;
  for (; step == 1 && r + 4 <= reductions; r += 4) {
    const double* __restrict w0 = wide + wide_offsets[r];
    const double* __restrict w1 = wide + wide_offsets[r + 1];
    const double* __restrict w2 = wide + wide_offsets[r + 2];
    const double* __restrict w3 = wide + wide_offsets[r + 3];
    for (int m = 0; m < M; ++m) {
      double* __restrict row = rows[m];
      const double a0 = narrow[m][narrow_offsets[r]], a1 = narrow[m][narrow_offsets[r + 1]];
      const double a2 = narrow[m][narrow_offsets[r + 2]], a3 = narrow[m][narrow_offsets[r + 3]];
      for (int64_t j = 0; j < n; ++j) row[j] += (a0 * w0[j] + a1 * w1[j]) + (a2 * w2[j] + a3 * w3[j]);
    }
  }
  for (; r < reductions; ++r) {
    const double* __restrict w = wide + wide_offsets[r];
    for (int m = 0; m < M; ++m) {
      double* __restrict row = rows[m];
      const double a = narrow[m][narrow_offsets[r]];
      if (step == 1) {
        for (int64_t j = 0; j < n; ++j) row[j] += a * w[j];
      } else {
        for (int64_t j = 0; j < n; ++j) row[j] += a * w[j * step];
      }
    }
  }
}

/// Addresses of all points of a box, row-major, for one coefficient vector.
std::vector<int64_t> addresses(const std::vector<size_t>& axes, const std::vector<int64_t>& extents,
                               const std::vector<int64_t>& coefficients) {
  std::vector<int64_t> out{0};
  for (size_t d : axes) {
    std::vector<int64_t> next;
    next.reserve(out.size() * extents[d]);
    for (int64_t o : out) {
      for (int64_t i = 0; i < extents[d]; ++i) next.push_back(o + i * coefficients[d]);
    }
    out = std::move(next);
  }
  return out;
}

/// The axis along which results are computed side by side: one that moves only one factor, if possible by unit steps.
/// Returns -1 if there is none.
int choose_row_axis(const Factor& p, const Factor& q, const std::vector<int64_t>& extents, size_t axis_count,
                    bool* in_q) {
  int best = -1;
  int64_t best_score = 1;
  for (size_t d = 0; d < axis_count; ++d) {
    const bool by_p = p.depends_on(d), by_q = q.depends_on(d);
    if (by_p == by_q) continue;
    const Factor& f = by_p ? p : q;
    const int64_t score = std::min<int64_t>(extents[d], 64) * (f.can_be_contiguous(d) ? 4 : 1);
    if (score < best_score) continue;
    best = static_cast<int>(d);
    best_score = score;
    *in_q = by_q;
  }
  return best;
}

void sum_products(const Factor& wide, const Factor& narrow, int row_axis, const std::vector<int64_t>& extents,
                  size_t axis_count, std::vector<double>& sums) {
  std::vector<int64_t> output_strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t d = axis_count; d-- > 0;) {
    output_strides[d] = stride;
    stride *= extents[d];
  }
  sums.assign(stride, 0.0);
  std::vector<size_t> outer, shared, reductions;  // shared: axes that the wide factor does not depend on
  for (size_t d = 0; d < axis_count; ++d) {
    if (static_cast<int>(d) == row_axis) continue;
    (wide.coefficients[d] == 0 ? shared : outer).push_back(d);
  }
  for (size_t d = axis_count; d < extents.size(); ++d) reductions.push_back(d);
  const auto wide_offsets = addresses(reductions, extents, wide.coefficients);
  const auto narrow_offsets = addresses(reductions, extents, narrow.coefficients);
  const auto wide_outer = addresses(outer, extents, wide.coefficients);
  const auto narrow_outer = addresses(outer, extents, narrow.coefficients);
  const auto output_outer = addresses(outer, extents, output_strides);
  const auto narrow_shared = addresses(shared, extents, narrow.coefficients);
  const auto output_shared = addresses(shared, extents, output_strides);
  const int64_t row = row_axis < 0 ? 1 : extents[row_axis];
  const int64_t step = row_axis < 0 ? 1 : wide.coefficients[row_axis];
  const int64_t output_step = row_axis < 0 ? 1 : output_strides[row_axis];
  const auto length = static_cast<int64_t>(wide_offsets.size());
  constexpr int kRows = 4;
  std::vector<double> buffer(kRows * kRowChunk);
  for (size_t o = 0; o < wide_outer.size(); ++o) {
    for (int64_t j = 0; j < row; j += kRowChunk) {
      const int64_t n = std::min(kRowChunk, row - j);
      const double* w = wide.values.data() + wide.base + wide_outer[o] + j * step;
      for (size_t s = 0; s < narrow_shared.size();) {
        const int count = narrow_shared.size() - s >= kRows ? kRows : 1;
        double* rows[kRows];
        const double* factors[kRows];
        for (int m = 0; m < count; ++m) {
          rows[m] = buffer.data() + m * kRowChunk;
          std::fill_n(rows[m], n, 0.0);
          factors[m] = narrow.values.data() + narrow.base + narrow_outer[o] + narrow_shared[s + m];
        }
        if (count == kRows) {
          multiply_rows<kRows>(rows, factors, narrow_offsets.data(), w, wide_offsets.data(), length, n, step);
        } else {
          multiply_rows<1>(rows, factors, narrow_offsets.data(), w, wide_offsets.data(), length, n, step);
        }
        for (int m = 0; m < count; ++m) {
          double* out = sums.data() + output_outer[o] + output_shared[s + m] + j * output_step;
          for (int64_t i = 0; i < n; ++i) out[i * output_step] = rows[m][i];
        }
        s += count;
      }
    }
  }
}

/// Casts that change no value, on the way from the product to the sum.
Scalar strip_widening(Scalar x) {
  while (x->kind == ScalarKind::kCast && ir::is_float(x->dtype) && ir::is_float(x->args[0]->dtype) &&
         ir::bit_width(x->dtype) > ir::bit_width(x->args[0]->dtype)) {
    x = x->args[0];
  }
  return x;
}

}  // namespace

bool contract(const Call& call, const Compute& c, std::span<const Source> sources, const std::vector<Expr>& vars,
              const std::vector<int64_t>& extents, size_t axis_count, std::vector<double>& sums) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) return false;
#endif
  if (c.combiner != Combiner::kSum) return false;
  int64_t work = 1, reductions = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    work = saturating_mul(work, extents[d]);
    if (d >= axis_count) reductions = saturating_mul(reductions, extents[d]);
  }
  if (work < kLeastWork || reductions > kMostReductions || work / reductions > kMostElements) return false;
  const Scalar product = strip_widening(c.body);
  const bool is_float = ir::is_float(c.accumulate);
  if (product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul || ir::is_float(product->dtype) != is_float)
    return false;
  if (!is_float && product->dtype != c.accumulate) return false;
  IndexForms box(vars, extents, call.bindings);
  Factor p, q;
  p.body = product->args[0];
  q.body = product->args[1];
  if (!analyze(p, box, vars, extents, sources, work) || !analyze(q, box, vars, extents, sources, work)) return false;
  bool in_q = true;
  const int row_axis = choose_row_axis(p, q, extents, axis_count, &in_q);
  Factor& wide = in_q ? q : p;
  Factor& narrow = in_q ? p : q;
  const auto materialize = [&](Factor& f, int row, symbolic::Interval* range) {
    if (!f.over_elements) return materialize_points(f, row, vars, extents, sources, call.bindings, range);
    return materialize_elements(f, row < 0 ? -1 : f.unit_dim(row), vars.size(), sources, call.bindings, range);
  };
  symbolic::Interval wide_range, narrow_range;
  if (!materialize(wide, row_axis, &wide_range) || !materialize(narrow, -1, &narrow_range)) return false;
  if (!is_float) {
    const auto greatest = [](symbolic::Interval i) {
      return std::max(std::abs(static_cast<double>(i.lo)), std::abs(static_cast<double>(i.hi)));
    };
    const double bound = greatest(wide_range) * greatest(narrow_range);
    const double most = std::ldexp(1.0, std::min(ir::bit_width(c.accumulate) - 1, 53));
    if (bound >= most || bound * static_cast<double>(reductions) >= std::ldexp(1.0, 53)) return false;
  }
  sum_products(wide, narrow, row_axis, extents, axis_count, sums);
  if (!is_float) {
    for (double& s : sums) {
      ir::Value64 v;
      v.i = ir::wrap_integer(c.accumulate, static_cast<int64_t>(s));
      s = v.f;
    }
  }
  return true;
}

}  // namespace stax::tensor::reference
