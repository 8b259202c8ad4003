// SPDX-License-Identifier: Apache-2.0
#include "lower/place_buffers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "loop/access.h"
#include "support/error.h"

namespace stax::lower {

namespace {

using loop::Stmt;
using symbolic::Expr;

// Registers that a thread can spare for one buffer.
constexpr int64_t kMostRegisters = 128;
// Of a buffer that is spread over threads: what is looked at, one by one.
constexpr int64_t kMostElements = int64_t{1} << 18;

struct Use {
  bool write = false, update = false;
  std::vector<ir::Scalar> index;
  const loop::For* thread = nullptr;     // the thread loop, or warp loop, around it
  std::vector<const loop::For*> matrix;  // the matrix loops around it, outer first
};

// How parts of indices along one axis step through memory.
class Steps {
 public:
  void add(Expr inner) {
    most_ = std::max(most_, inner.range().hi);
    common_ = std::gcd(common_, inner.multiple());
    if (inner.is_constant(0)) return;
    const bool is_sum = inner.kind() == symbolic::ExprKind::kAdd;
    const std::vector<Expr> terms =
        is_sum ? std::vector<Expr>(inner.args().begin(), inner.args().end()) : std::vector{inner};
    for (Expr term : terms) {
      const std::vector<Expr> symbols = symbolic::free_symbols(term);
      const auto affine = symbols.size() == 1 ? symbolic::affine_in(term, symbols[0]) : std::nullopt;
      is_regular_ &= affine && affine->rest.is_constant(0) && affine->coefficient.is_constant() &&
                     affine->coefficient.constant() > 0 && symbols[0].range().lo == 0;
      if (!is_regular_) return;
      int64_t& count = counts_[affine->coefficient.constant()];
      count = std::max(count, symbols[0].range().hi + 1);
    }
  }
  /// Strides with counts, from the largest. Where they are no digits of a number: the one by which all are divisible.
  std::vector<std::pair<int64_t, int64_t>> finish() const {
    std::vector<std::pair<int64_t, int64_t>> result(counts_.rbegin(), counts_.rend());
    bool are_digits = is_regular_;
    for (size_t k = 0; k + 1 < result.size(); ++k)
      are_digits &=
          result[k].first % result[k + 1].first == 0 && result[k + 1].first * result[k + 1].second <= result[k].first;
    if (are_digits) return result;
    const int64_t stride = std::max<int64_t>(common_, 1);
    return {{stride, most_ / stride + 1}};
  }

 private:
  std::map<int64_t, int64_t> counts_;  // by stride
  int64_t most_ = 0, common_ = 0;
  bool is_regular_ = true;
};

class Placer {
 public:
  Placer(const loop::Kernel& kernel, int block)
      : kernel_(kernel), block_(block), uses_(kernel.buffers.size()), in_thread_(kernel.buffers.size()) {}

  std::vector<Placement> run() {
    walk(kernel_.body, nullptr);
    std::vector<Placement> result(kernel_.buffers.size());
    for (size_t slot = kernel_.arguments; slot < result.size(); ++slot) result[slot] = place(static_cast<int>(slot));
    return result;
  }

 private:
  void scalar(ir::Scalar root, const loop::For* thread) {
    ir::visit(root, [&](ir::Scalar x) {
      if (x->kind == ir::ScalarKind::kLoad) uses_[x->slot].push_back({false, false, x->args, thread, matrix_});
    });
  }
  void walk(const Stmt& s, const loop::For* thread) {
    loop::visit_scalars(*s, [&](ir::Scalar x) { scalar(x, thread); });
    if (const auto* f = s->as<loop::For>()) {
      const bool is_thread = f->kind == loop::LoopKind::kThread || f->kind == loop::LoopKind::kWarp;
      if (loop::is_matrix(f->kind)) matrix_.push_back(f);
      walk(f->body, is_thread ? f : thread);
      if (loop::is_matrix(f->kind)) matrix_.pop_back();
    } else if (const auto* b = s->as<loop::Block>()) {
      for (const Stmt& each : b->statements) walk(each, thread);
    } else if (const auto* i = s->as<loop::If>()) {
      walk(i->then_body, thread);
      if (i->else_body) walk(i->else_body, thread);
    } else if (const auto* a = s->as<loop::Allocate>()) {
      in_thread_[a->slot] = thread != nullptr;
      walk(a->body, thread);
    } else if (const auto* w = s->as<loop::Store>()) {
      uses_[w->slot].push_back({true, false, w->index, thread, matrix_});
    } else if (const auto* u = s->as<loop::Update>()) {
      uses_[u->slot].push_back({true, true, u->index, thread, matrix_});
    }
  }

  static std::optional<int64_t> constant_count(const loop::Buffer& b) {
    int64_t n = 1;
    for (Expr e : b.extents) {
      if (!e.is_constant()) return std::nullopt;
      n *= e.constant();
    }
    return n;
  }

  Placement place(int slot) const {
    const loop::Buffer& buffer = kernel_.buffers[slot];
    if (is_shared_by_lanes(slot)) return fragments(slot);
    if (in_thread_[slot]) return {Place::kThread};
    if (const auto n = constant_count(buffer); n && *n <= kMostRegisters && is_uniform(slot))
      return {Place::kReplicated};
    if (auto spread = spread_over_threads(slot)) return *spread;
    return {Place::kShared};
  }

  // All that touches it is done by warps.
  bool is_shared_by_lanes(int slot) const {
    const std::vector<Use>& uses = uses_[slot];
    return !uses.empty() && std::all_of(uses.begin(), uses.end(), [](const Use& use) {
      return use.thread != nullptr && use.thread->kind == loop::LoopKind::kWarp;
    });
  }

  Placement fragments(int slot) const {
    const loop::Buffer& buffer = kernel_.buffers[slot];
    const auto fail = [&](const char* reason) {
      internal_error("kernel {}: the matrix {} cannot be spread over lanes: {}", kernel_.name, buffer.name, reason);
    };
    if (buffer.extents.size() != 2) fail("it has other than two axes");
    Placement result{Place::kFragment, {1, 1}, {1, 1}, {}, 1};
    std::vector<Expr> corner(2);
    Expr var;
    int64_t iterations = 1;
    bool first = true;
    for (const Use& use : uses_[slot]) {
      if (use.matrix.empty()) fail("it is used outside of matrix loops");
      int axis_of[3] = {-1, -1, -1};
      for (const loop::For* f : use.matrix)
        for (int d = 0; d < 2; ++d)
          if (loop::depends_on(use.index[static_cast<size_t>(d)], f->var))
            axis_of[static_cast<int>(f->kind) - static_cast<int>(loop::LoopKind::kRows)] = d;
      const auto [rows, columns, depth] = axis_of;
      MatrixPart part = MatrixPart::kSum;
      int row_axis = rows;
      if (rows >= 0 && depth >= 0 && columns < 0) {
        part = MatrixPart::kLeft;
      } else if (depth >= 0 && columns >= 0 && rows < 0) {
        part = MatrixPart::kRight, row_axis = depth;
      } else if (rows < 0 || columns < 0 || depth >= 0) {
        fail("an index is not one of two matrix loops");
      }
      if (first) result.part = part, result.row_axis = row_axis, var = use.thread->var;
      if (result.part != part || result.row_axis != row_axis) fail("it is used as two kinds of matrices");
      first = false;
      iterations = use.thread->extent.constant();
      for (size_t d = 0; d < 2; ++d) {
        const Expr e = ir::as_expr(use.index[d]);
        const Expr inner = e ? without_thread(e, use.thread->var) : Expr();
        if (!inner || inner.range().lo < 0 || inner.range().hi >= kMostElements) fail("an index has no bounds");
        const Expr outer = symbolic::substitute(e - inner, {{use.thread->var.node(), var}});
        if (!corner[d]) corner[d] = outer;
        if (corner[d] != outer) fail("warps use it at several places");
        result.box[d] = std::max(result.box[d], inner.range().hi + 1);
      }
    }
    if (!in_thread_[slot] && !boxes_are_disjoint(buffer, corner, result, var, iterations)) fail("warps meet in it");
    return result;
  }

  // No iteration of a thread loop writes its own value to it: updates of one location by all iterations are reductions.
  bool is_uniform(int slot) const {
    for (const Use& use : uses_[slot]) {
      if (use.thread == nullptr || !use.write) continue;
      if (!use.update) return false;
      for (ir::Scalar i : use.index)
        if (loop::depends_on(i, use.thread->var)) return false;
    }
    return true;
  }

  std::optional<Placement> spread_over_threads(int slot) const {
    const loop::Buffer& buffer = kernel_.buffers[slot];
    const size_t rank = buffer.extents.size();
    const auto count = constant_count(buffer);
    if (!count || *count > kMostElements || uses_[slot].empty() || rank == 0) return std::nullopt;
    Expr var, extent;
    std::vector<Expr> corner(rank);
    std::vector<Steps> steps(rank);
    for (const Use& use : uses_[slot]) {
      if (use.thread == nullptr || use.thread->kind == loop::LoopKind::kWarp || !use.thread->extent.is_constant())
        return std::nullopt;
      if (!var) var = use.thread->var, extent = use.thread->extent;
      if (use.thread->extent != extent) return std::nullopt;
      for (size_t d = 0; d < rank; ++d) {
        const Expr e = ir::as_expr(use.index[d]);
        const Expr inner = e ? without_thread(e, use.thread->var) : Expr();
        if (!inner || inner.range().lo < 0 || inner.range().hi >= kMostElements) return std::nullopt;
        const Expr outer = symbolic::substitute(e - inner, {{use.thread->var.node(), var}});
        if (!corner[d]) corner[d] = outer;
        if (corner[d] != outer) return std::nullopt;
        steps[d].add(inner);
      }
    }
    Placement result{Place::kSpread, {}, {}, {}, 1};
    for (size_t d = 0; d < rank; ++d) {
      for (const auto& [stride, count] : steps[d].finish()) {
        result.stride.push_back(stride);
        result.box.push_back(count);
        result.axis.push_back(d);
      }
    }
    int64_t registers = 1;
    for (int64_t n : result.box) registers *= n;
    result.per_thread = (extent.constant() + block_ - 1) / block_;
    if (registers * result.per_thread > kMostRegisters) return std::nullopt;
    if (!boxes_are_disjoint(buffer, corner, result, var, extent.constant())) return std::nullopt;
    return result;
  }

  static bool boxes_are_disjoint(const loop::Buffer& buffer, const std::vector<Expr>& corner, const Placement& each,
                                 Expr var, int64_t iterations) {
    const std::vector<int64_t>& box = each.box;
    int64_t count = 1;
    for (Expr e : buffer.extents) count *= e.constant();
    std::vector<bool> taken(count);
    auto& table = var.table();
    for (int64_t v = 0; v < iterations; ++v) {
      std::vector<int64_t> at;
      for (Expr c : corner) {
        const Expr number = symbolic::substitute(c, {{var.node(), table.constant(v)}});
        if (!number.is_constant()) return false;
        at.push_back(number.constant());
      }
      std::vector<int64_t> in(box.size(), 0);
      for (bool more = true; more;) {
        int64_t linear = 0;
        std::vector<int64_t> index = at;
        for (size_t k = 0; k < box.size(); ++k) index[each.axis.empty() ? k : each.axis[k]] += in[k] * each.stride[k];
        for (size_t d = 0; d < index.size(); ++d) {
          if (index[d] < 0 || index[d] >= buffer.extents[d].constant()) return false;
          linear = linear * buffer.extents[d].constant() + index[d];
        }
        if (taken[linear]) return false;
        taken[linear] = true;
        more = false;
        for (size_t d = box.size(); d-- > 0 && !more;) {
          more = ++in[d] < box[d];
          if (!more) in[d] = 0;
        }
      }
    }
    return true;
  }

  const loop::Kernel& kernel_;
  int block_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> in_thread_;
  std::vector<const loop::For*> matrix_;  // on the way down
};

}  // namespace

Expr without_thread(Expr index, Expr var) {
  if (!symbolic::depends_on(index, var)) return index;
  if (index == var || symbolic::free_symbols(index).size() == 1) return var.table().constant(0);
  if (index.kind() != symbolic::ExprKind::kAdd) return {};
  Expr rest = var.table().constant(0);
  for (Expr term : index.args()) {
    if (!symbolic::depends_on(term, var)) {
      rest = rest + term;
    } else if (symbolic::free_symbols(term).size() != 1) {
      return {};
    }
  }
  return rest;
}

Expr digit(const Placement& spread, size_t step, Expr inner) {
  const bool is_first = step == 0 || spread.axis[step - 1] != spread.axis[step];
  if (!is_first) inner = symbolic::mod(inner, spread.stride[step - 1]);
  return symbolic::floordiv(inner, spread.stride[step]);
}

std::vector<Placement> place_buffers(const loop::Kernel& kernel, int block) { return Placer(kernel, block).run(); }

}  // namespace stax::lower
