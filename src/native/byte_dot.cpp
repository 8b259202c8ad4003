// SPDX-License-Identifier: Apache-2.0
// Four products of bytes in one lane of 32 bits.
//
//   for c in 32 vector 16 { for k in 4 unrolled { acc[c] sum= mul(cast<i32>(rows[.. k]), cast<i32>(columns[.., c, k])) } }
//
// with rows of u8, alike in all lanes, and columns of i8, four to a lane, is what dot-product instructions compute: one load of
// four bytes that is spread over the lanes, one load of a vector, one instruction. Sums are in 32 bits and wrap, as the loops
// say. Machines without the instruction widen to 16 bits: a product of u8 and i8 and the sum of two of them fit into
// 32, so that the pairwise multiply-add of 16-bit numbers is exact, too.
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "emit/byte_dot.h"
#include "native/kernel.h"
#include "support/error.h"

namespace stax::native {

using llvm::Value;

constexpr int64_t kGroup = 4;

// old + the four products in each 32-bit lane of `rows` (u8) and `columns` (i8).
Value* Lanes::byte_dot(Value* old, Value* rows, Value* columns) {
  const int lanes = lanes_of(old), natural = vector_bytes(machine_.isa) / 4;
  STAX_ASSERT(machine_.x86 && lanes >= natural && lanes % natural == 0);
  const auto part = [&](Value* v, int first) {
    if (lanes == natural) return v;
    std::vector<int> order;
    for (int lane = 0; lane < natural; ++lane) order.push_back(first + lane);
    return b.CreateShuffleVector(v, order);
  };
  const auto call = [&](llvm::Intrinsic::ID id, std::vector<Value*> args) {
    llvm::Function* f = llvm::Intrinsic::getOrInsertDeclaration(&module_, id);
    for (unsigned i = 0; i < args.size(); ++i)
      args[i] = b.CreateBitCast(args[i], f->getFunctionType()->getParamType(i));
    return b.CreateCall(f, args);
  };
  llvm::Intrinsic::ID dot = llvm::Intrinsic::x86_avx512_vpdpbusd_512, pairs = llvm::Intrinsic::x86_avx512_pmaddw_d_512;
  if (natural == 8) dot = llvm::Intrinsic::x86_avx512_vpdpbusd_256, pairs = llvm::Intrinsic::x86_avx2_pmadd_wd;
  if (natural == 4) dot = llvm::Intrinsic::x86_avx512_vpdpbusd_128, pairs = llvm::Intrinsic::x86_sse2_pmadd_wd;
  Value* result = nullptr;
  for (int first = 0; first < lanes; first += natural) {
    Value *x = part(rows, first), *y = part(columns, first), *sum = part(old, first);
    if (machine_.byte_dot) {
      sum = call(dot, {sum, x, y});
    } else {
      llvm::Type* words = with_lanes(b.getInt16Ty(), natural * 2);
      x = b.CreateBitCast(x, words);
      y = b.CreateBitCast(y, words);
      Value* even = call(pairs, {b.CreateAnd(x, integer(words, 0xFF)), b.CreateAShr(b.CreateShl(y, 8), 8)});
      Value* odd = call(pairs, {b.CreateLShr(x, 8), b.CreateAShr(y, 8)});
      sum = b.CreateAdd(sum, b.CreateAdd(even, odd));
    }
    if (result == nullptr) {
      result = sum;
      continue;
    }
    std::vector<int> both;
    const int before = lanes_of(result);
    if (before != natural) {  // as wide as what is there already
      std::vector<int> wider;
      for (int lane = 0; lane < before; ++lane) wider.push_back(lane < natural ? lane : llvm::PoisonMaskElem);
      sum = b.CreateShuffleVector(sum, wider);
    }
    for (int lane = 0; lane < before + natural; ++lane) both.push_back(lane);
    result = b.CreateShuffleVector(result, sum, both);
  }
  return result;
}

/// Emits an unrolled loop inside of a vector loop as dot products of four bytes; false where it is of another form.
bool KernelEmitter::emit_byte_dot(const loop::For& s) {
  if (vector_ == nullptr || !lanes_.machine().x86 || !index_.resolve(s.extent).is_constant(kGroup)) return false;
  if (vector_->range.width < vector_bytes(lanes_.machine().isa) / 4) return false;
  const auto [rows, columns] = emit::byte_dot_factors(kernel_, s);
  if (!rows) return false;
  const auto* update = s.body->as<loop::Update>();
  for (Scalar index : update->index)
    if (loop::depends_on(index, s.var)) return false;

  // At the first of the four.
  const auto first_of = [&](Scalar load, int64_t pitch) -> std::optional<Place> {
    Place place = place_of(load->slot, load->args);
    const auto step = symbolic::affine_in(place.linear, s.var);
    if (!step || !step->coefficient.is_constant(1)) return std::nullopt;
    place.linear = symbolic::substitute(place.linear, {{s.var.node(), kernel_.context->exprs.constant(0)}});
    const auto lane = symbolic::affine_in(place.linear, vector_->range.var);
    if (!lane || !lane->coefficient.is_constant(pitch)) return std::nullopt;
    return place;
  };
  const auto row = first_of(rows, 0), column = first_of(columns, kGroup);
  const Place sum = place_of(update->slot, update->index);
  if (!row || !column || pattern_of(sum) != Pattern::kContiguous) return false;

  memo_.assign(1, {});
  const int width = vector_->range.width;
  llvm::Type *lane = b_.getInt32Ty(), *vector = lanes_.with_lanes(lane, width);
  const llvm::Align byte(1);
  Value* from = address_of(*row);
  if (!vector_->safe_loads) from = b_.CreateSelect(lanes_.any(vector_->mask), from, zeros());
  Value* four = tag(b_.CreateAlignedLoad(lane, from, byte), row->slot);
  Value* at = address_of(*column);
  Value* many = vector_->mask == nullptr
                    ? tag(b_.CreateAlignedLoad(vector, at, byte), column->slot)
                    : tag(b_.CreateMaskedLoad(vector, at, byte, vector_->mask, llvm::Constant::getNullValue(vector)),
                          column->slot);
  store(sum, lanes_.byte_dot(load(sum), lanes_.splat(four, width), many));
  return true;
}

}  // namespace stax::native
