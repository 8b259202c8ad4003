// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lower/thread_lowering.h"
#include "lower/vector_access.h"
#include "support/error.h"

namespace stax::lower {

using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;

thread::Stmt ThreadLowering::warp_loop(const loop::For& f) {
  STAX_ASSERT(level_ == Level::kBlock, "warp loop {} is inside a thread loop", f.var.str());
  STAX_ASSERT(f.extent.is_constant(to_.block / to_.warp), "kernel {}: warp loop {} of {} in a block of {} warps",
              from_.name, f.var.str(), f.extent.str(), to_.block / to_.warp);
  level_ = Level::kThread;
  bind(f.var, symbolic::floordiv(to_.thread, to_.warp));
  thread_var_ = f.var;
  iteration_ = context_.exprs.constant(0);
  thread::Stmt body = lower(f.body);
  level_ = Level::kBlock;
  return thread::make(thread::Block{{std::move(body)}, true});
}

thread::Stmt ThreadLowering::matrix_loops(const loop::For& f) {
  const MatrixNest nest = matrix_nest(f);
  if (nest.part == MatrixPart::kProduct) return product(nest);
  const FragmentShape shape = fragment_shape(*mma_, nest.part);
  for (const loop::For* each : nest.loops) {
    const int tile = each->kind == shape.row_loop ? shape.rows : shape.columns;
    STAX_ASSERT(each->extent.constant() % tile == 0, "kernel {}: matrix loop {} of {} is no multiple of {}", from_.name,
                each->var.str(), each->extent.str(), tile);
  }
  if (thread::Stmt loads = load_matrices(nest, shape)) return loads;
  thread::Block out;
  elements(f, shape, 0, out);
  return thread::make(std::move(out));
}

void ThreadLowering::elements(const loop::For& f, const FragmentShape& shape, int item, thread::Block& out) {
  const bool is_row = f.kind == shape.row_loop;
  const std::vector<int>& by_lane = is_row ? shape.map->lane_row : shape.map->lane_column;
  const std::vector<int>& by_item = is_row ? shape.map->item_row : shape.map->item_column;
  const Expr lane = lane_offset(to_.thread, by_lane);
  bool innermost = true;
  loop::visit(f.body, [&](const loop::Stmt& s) {
    const auto* inner = s->as<loop::For>();
    innermost &= inner == nullptr || !loop::is_matrix(inner->kind);
  });
  // Elements that are neighbours in the lane and in the matrix are lanes of a vector.
  size_t vector_bits = 0;
  while (innermost && vector_bits < by_item.size() && by_item[vector_bits] == 1 << vector_bits) ++vector_bits;
  std::vector<size_t> bits;
  for (size_t b = vector_bits; b < by_item.size(); ++b)
    if (by_item[b] != 0) bits.push_back(b);
  const int tile = is_row ? shape.rows : shape.columns;
  auto& exprs = context_.exprs;
  for (int64_t first = 0; first < f.extent.constant(); first += tile) {
    for (int choice = 0; choice < 1 << bits.size(); ++choice) {
      int64_t at = first;
      int chosen = item;
      for (size_t k = 0; k < bits.size(); ++k)
        if ((choice >> k & 1) != 0) at += by_item[bits[k]], chosen |= 1 << bits[k];
      tiles_[f.var.node()] = exprs.constant(first);
      Expr v = lane + at;
      item_ = exprs.constant(chosen);
      const int width = 1 << vector_bits;
      Expr neighbour;
      if (width > 1) {
        neighbour = loop::loop_var(context_, "item", exprs.constant(width));
        v = v + neighbour;
        item_ = item_ + neighbour;
      }
      bind(f.var, v);
      if (const auto* inner = innermost ? nullptr : f.body->as<loop::For>(); inner != nullptr) {
        elements(*inner, shape, chosen, out);
      } else if (!innermost) {
        // Conditions stand between the loops.
        const auto* i = f.body->as<loop::If>();
        thread::Block inside;
        elements(*i->then_body->as<loop::For>(), shape, chosen, inside);
        const Scalar condition = scalar(i->condition);
        if (const Expr known = loop::condition_expr(condition); known && known.is_constant()) {
          if (known.constant() != 0) out.statements.push_back(thread::make(std::move(inside)));
        } else {
          out.statements.push_back(thread::make(thread::If{condition, thread::make(std::move(inside)), nullptr}));
        }
      } else {
        const thread::Stmt each = lower(f.body);
        out.statements.push_back(width > 1 ? vectorize_lanes(to_, target_, neighbour, width, each) : each);
      }
    }
  }
}

thread::Stmt ThreadLowering::product(const MatrixNest& nest) {
  const auto* sum = nest.leaf->as<loop::Update>();
  Scalar factors[2];
  for (size_t k = 0; k < 2; ++k) {
    factors[k] = sum->value->args[k];
    while (factors[k]->kind == ScalarKind::kCast) factors[k] = factors[k]->args[0];
  }
  if (places_[factors[0]->slot].part != MatrixPart::kLeft) std::swap(factors[0], factors[1]);
  for (Scalar x : factors)
    STAX_ASSERT(places_[x->slot].place == Place::kFragment, "kernel {}: the factor {} is not in registers of a warp",
                from_.name, x.str());
  int64_t count[3] = {};
  Expr vars[3];
  const int size[3] = {mma_->m, mma_->n, mma_->k};
  for (const loop::For* f : nest.loops) {
    const int role = static_cast<int>(f->kind) - static_cast<int>(loop::LoopKind::kRows);
    vars[role] = f->var;
    count[role] = f->extent.constant() / size[role];
  }
  item_ = context_.exprs.constant(0);
  thread::Block out;
  for (int64_t k = 0; k < count[2]; ++k) {
    for (int64_t m = 0; m < count[0]; ++m) {
      for (int64_t n = 0; n < count[1]; ++n) {
        const int64_t at[3] = {m, n, k};
        for (int r = 0; r < 3; ++r) tiles_[vars[r].node()] = context_.exprs.constant(at[r] * size[r]);
        const auto fragment = [&](int slot, const std::vector<Scalar>& i) {
          return thread::Fragment{slots_[slot], fragment_item(slot, i)};
        };
        const thread::Fragment c = fragment(sum->slot, sum->index);
        out.statements.push_back(thread::make(thread::Mma{instruction_, c, fragment(factors[0]->slot, factors[0]->args),
                                                          fragment(factors[1]->slot, factors[1]->args), c}));
      }
    }
  }
  return thread::make(std::move(out));
}

thread::Stmt ThreadLowering::load_matrices(const MatrixNest& nest, const FragmentShape& shape) {
  const auto* w = nest.leaf->as<loop::Store>();
  if (!target_.load_matrix || nest.part == MatrixPart::kSum || nest.has_condition || w == nullptr) return nullptr;
  const Scalar load = w->value;
  if (load->kind != ScalarKind::kLoad || load->slot < from_.arguments || ir::byte_size(load->dtype) != 2)
    return nullptr;
  if (places_[load->slot].place != Place::kShared || to_.warp != 32) return nullptr;
  // The lane's first two elements are neighbours along the depth; what eight lanes have lies across.
  const bool left = nest.part == MatrixPart::kLeft;
  const thread::FragmentMap& map = *shape.map;
  const std::vector<int>&along_lane = left ? map.lane_column : map.lane_row,
        &across_lane = left ? map.lane_row : map.lane_column, &along_item = left ? map.item_column : map.item_row,
        &across_item = left ? map.item_row : map.item_column;
  if (along_lane != std::vector{2, 4, 0, 0, 0} || across_lane != std::vector{0, 0, 1, 2, 4} || along_item[0] != 1)
    return nullptr;
  const auto loop_of = [&](loop::LoopKind kind) {
    return *std::find_if(nest.loops.begin(), nest.loops.end(), [&](const loop::For* f) { return f->kind == kind; });
  };
  const loop::For *row = loop_of(shape.row_loop), *column = loop_of(shape.column_loop);
  const loop::For *along = left ? column : row, *across = left ? row : column;
  for (const loop::For* f : nest.loops) variables_.erase(f->var.node());
  const Expr address = ir::as_expr(linear(load->slot, load->args));
  if (!address) return nullptr;
  const auto by_along = symbolic::affine_in(address, along->var), by_across = symbolic::affine_in(address, across->var);
  if (!by_along || !by_across) return nullptr;
  const bool straight = by_along->coefficient.is_constant(1), turned = by_across->coefficient.is_constant(1);
  if (straight == turned) return nullptr;
  constexpr int kSide = 8;
  const Expr pitch = straight ? by_across->coefficient : by_along->coefficient;
  const Expr origin = symbolic::substitute(
      address, {{along->var.node(), context_.exprs.constant(0)}, {across->var.node(), context_.exprs.constant(0)}});
  if (pitch.multiple() % kSide != 0 || !is_multiple(to_, origin, kSide)) return nullptr;

  // The matrices in the order of the registers: where they begin.
  struct Corner {
    int64_t along, across;
  };
  std::vector<Corner> corners;
  for (int64_t r = 0; r < row->extent.constant(); r += shape.rows) {
    for (int64_t c = 0; c < column->extent.constant(); c += shape.columns) {
      for (int item = 0; item < map.items; item += 2) {
        Corner at{left ? c : r, left ? r : c};
        for (size_t b = 1; b < along_item.size(); ++b)
          if ((item >> b & 1) != 0) at.along += along_item[b], at.across += across_item[b];
        corners.push_back(at);
      }
    }
  }
  tiles_[row->var.node()] = tiles_[column->var.node()] = item_ = context_.exprs.constant(0);
  const Expr first = fragment_item(w->slot, w->index);
  const Expr line = symbolic::mod(to_.thread, kSide), bit0 = symbolic::mod(symbolic::floordiv(to_.thread, 8), 2),
             bit1 = symbolic::mod(symbolic::floordiv(to_.thread, 16), 2);
  thread::Block out;
  for (size_t k = 0; k < corners.size();) {
    const Corner* c = &corners[k];
    int count = 1;
    const auto is_grid = [&] {
      return c[3].along - c[2].along == c[1].along - c[0].along &&
             c[3].across - c[2].across == c[1].across - c[0].across;
    };
    if (k + 4 <= corners.size() && is_grid()) {
      count = 4;
    } else if (k + 2 <= corners.size()) {
      count = 2;
    }
    Expr at_along = context_.exprs.constant(c[0].along), at_across = context_.exprs.constant(c[0].across);
    if (count > 1) {
      at_along = at_along + bit0 * (c[1].along - c[0].along);
      at_across = at_across + bit0 * (c[1].across - c[0].across);
    }
    if (count > 2) {
      at_along = at_along + bit1 * (c[2].along - c[0].along);
      at_across = at_across + bit1 * (c[2].across - c[0].across);
    }
    (straight ? at_across : at_along) = (straight ? at_across : at_along) + line;
    const Expr at = origin + (straight ? at_along + at_across * pitch : at_across + at_along * pitch);
    out.statements.push_back(thread::make(thread::LoadMatrix{slots_[w->slot], first + static_cast<int64_t>(2 * k),
                                                             slots_[load->slot], index(at), count, turned}));
    k += static_cast<size_t>(count);
  }
  return thread::make(std::move(out));
}

}  // namespace stax::lower
