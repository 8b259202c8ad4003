// SPDX-License-Identifier: Apache-2.0
// Square blocks of a transposed operand.
//
//   for i in n vector 16 { for a in 16 unrolled { out[.., a, .., i] = f(x[.., i, .., a]) } }
//
// reads x with a stride along the lanes, and element by element along the unrolled loop: an iteration of its own would gather one element from each of 16
// lines. Together the 16 iterations need 16 vectors of neighbours, one for each lane, with rows and columns exchanged, which takes four rounds of
// shuffles between pairs of registers.
#include <llvm/IR/Instructions.h>

#include "native/kernel.h"
#include "support/error.h"

namespace stax::native {

using ir::ScalarKind;
using llvm::Value;

namespace {

/// Loads that are made in every iteration: under no select, at indices that do not depend on data.
void collect_plain_loads(Scalar s, std::vector<Scalar>& loads) {
  if (s->kind == ScalarKind::kLoad) {
    for (Scalar i : s->args)
      if (!ir::as_expr(i)) return;
    if (std::find(loads.begin(), loads.end(), s) == loads.end()) loads.push_back(s);
    return;
  }
  if (s->kind == ScalarKind::kOp && s->op == ScalarOp::kSelect) return;
  for (Scalar each : s->args) collect_plain_loads(each, loads);
}

}  // namespace

// Rows and columns of a square exchanged, in place. A round exchanges the off-diagonal halves of all blocks of one size.
void KernelEmitter::transpose(std::vector<Value*>& rows) {
  const auto size = static_cast<int>(rows.size());
  for (int half = 1; half < size; half *= 2) {
    std::vector<int> upper, lower;
    for (int k = 0; k < size; ++k) {
      const bool right = (k & half) != 0;
      upper.push_back(right ? size + k - half : k);
      lower.push_back(right ? size + k : k + half);
    }
    for (int row = 0; row < size; ++row) {
      if ((row & half) != 0) continue;
      Value *a = rows[static_cast<size_t>(row)], *b = rows[static_cast<size_t>(row + half)];
      rows[static_cast<size_t>(row)] = b_.CreateShuffleVector(a, b, upper);
      rows[static_cast<size_t>(row + half)] = b_.CreateShuffleVector(a, b, lower);
    }
  }
}

// Fills `turned_` with what the iterations of `s` will load.
void KernelEmitter::load_turned(const loop::For& s, int64_t count) {
  const auto* store = s.body->as<loop::Store>();
  if (vector_ == nullptr || store == nullptr) return;
  const int width = vector_->range.width;
  if (count > width || count < width / 2 || !lanes_.machine().masked_access) return;
  std::vector<Scalar> loads;
  collect_plain_loads(store->value, loads);
  for (Scalar load : loads) {
    const Storage& storage = storage_[static_cast<size_t>(load->slot)];
    const DType t = kernel_.buffers[static_cast<size_t>(load->slot)].dtype;
    if (!storage.constant || storage.lanes != 0 || storage.slots != 0 || (count < width && !can_mask(t))) continue;
    std::vector<Place> places;
    for (int64_t k = 0; k < count; ++k) {
      index_.replace(s.var, kernel_.context->exprs.constant(k));
      places.push_back(place_of(load->slot, load->args));
      index_.restore(s.var);
    }
    const Place& first = places.front();
    if (first.offset != nullptr || pattern_of(first) != Pattern::kScattered) continue;
    const auto affine = symbolic::affine_in(first.linear, vector_->range.var);
    bool neighbours = affine.has_value();
    for (int64_t k = 1; neighbours && k < count; ++k)
      neighbours = places[static_cast<size_t>(k)].linear == first.linear + k;
    if (!neighbours) continue;

    llvm::Type* type = lanes_.memory_type(t, width);
    llvm::Type* element = lanes_.memory_type(t, 0);
    const llvm::Align align(ir::byte_size(t));
    Value* at = address_of(first);
    Value* step = index_.value(affine->coefficient);
    Value* part = count < width ? lane_mask(b_.getInt64(static_cast<uint64_t>(count)), width) : nullptr;
    std::vector<Value*> rows;
    for (int lane = 0; lane < width; ++lane) {
      if (lane > 0) at = b_.CreateGEP(element, at, step);
      Value* from = at;
      if (vector_->mask != nullptr)
        from = b_.CreateSelect(b_.CreateExtractElement(vector_->mask, static_cast<uint64_t>(lane)), at, zeros());
      Value* row = part == nullptr ? static_cast<Value*>(b_.CreateAlignedLoad(type, from, align))
                                   : b_.CreateMaskedLoad(type, from, align, part, llvm::Constant::getNullValue(type));
      rows.push_back(tag(row, load->slot));
    }
    transpose(rows);
    for (int64_t k = 0; k < count; ++k)
      turned_[{load->slot, places[static_cast<size_t>(k)].linear.node()}] =
          lanes_.from_memory(t, rows[static_cast<size_t>(k)]);
  }
}

}  // namespace stax::native
