// SPDX-License-Identifier: Apache-2.0
// Costly code over sums that are kept in registers.
//
//   for i in 12 unrolled { for j in 32 vector 16 { out[i, j] = f(acc[i, j]) } }
//
// is unrolled because `acc` is in registers, which have no addresses. Where f takes many instructions, as an erf does, twelve times its code is most of
// the kernel, and most of the time that compiling it takes. The sums are copied to memory, and the loop stays one: a store and a load for each vector.
#include "native/kernel.h"

namespace stax::native {

using ir::ScalarKind;

namespace {

constexpr int64_t kLeastCount = 4;
// Of one iteration; an elementary function counts as many.
constexpr int kLeastWeight = 20, kCostlyWeight = 20;

int weight_of(Scalar value) {
  int weight = 0;
  ir::visit(value, [&](Scalar each) {
    if (each->kind == ScalarKind::kOp) weight += is_costly(each->op) ? kCostlyWeight : 1;
  });
  return weight;
}

}  // namespace

/// Emits an unrolled loop as one that counts, where that pays; false: it does not.
bool KernelEmitter::emit_rolled(const loop::For& s, int64_t count) {
  if (vector_ != nullptr || count < kLeastCount) return false;
  bool is_plain = true, has_vectors = false;
  int weight = 0;
  std::vector<int> locals;
  loop::visit(s.body, [&](const Stmt& each) {
    if (const auto* store = each->as<loop::Store>()) {
      is_plain &= storage_[static_cast<size_t>(store->slot)].slots == 0;
    } else if (const auto* inner = each->as<loop::For>()) {
      has_vectors |= inner->kind == loop::LoopKind::kVector;
    } else if (each->as<loop::If>() == nullptr && each->as<loop::Block>() == nullptr) {
      is_plain = false;
    }
    loop::visit_scalars(*each, [&](Scalar value) {
      weight += weight_of(value);
      ir::visit(value, [&](Scalar x) {
        if (x->kind != ScalarKind::kLoad || storage_[static_cast<size_t>(x->slot)].slots == 0) return;
        is_plain &= storage_[static_cast<size_t>(x->slot)].lanes == 0;
        if (std::find(locals.begin(), locals.end(), x->slot) == locals.end()) locals.push_back(x->slot);
      });
    });
  });
  if (!is_plain || !has_vectors || locals.empty() || weight < kLeastWeight) return false;
  std::vector<llvm::Value*> registers;
  for (int slot : locals) {
    llvm::Value*& place = storage_[static_cast<size_t>(slot)].pointer;
    registers.push_back(place);
    const auto* sums = llvm::cast<llvm::AllocaInst>(place);
    llvm::AllocaInst* copy = stack_slot(sums->getAllocatedType(), "sums");
    const uint64_t bytes = module_.getDataLayout().getTypeAllocSize(sums->getAllocatedType());
    b_.CreateMemCpy(copy, copy->getAlign(), place, sums->getAlign(), bytes);
    place = copy;
  }
  emit_serial(s);
  for (size_t k = 0; k < locals.size(); ++k) storage_[static_cast<size_t>(locals[k])].pointer = registers[k];
  return true;
}

}  // namespace stax::native
