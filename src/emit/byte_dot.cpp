// SPDX-License-Identifier: Apache-2.0
#include "emit/byte_dot.h"

#include <algorithm>

#include "loop/access.h"

namespace stax::emit {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using ir::ScalarOp;

namespace {

/// The load under casts from bytes to 32 bits; null: of another form.
Scalar byte_load(Scalar s) {
  if (s->kind != ScalarKind::kCast || (s->dtype != DType::kI32 && s->dtype != DType::kU32)) return {};
  Scalar load = s->args[0];
  if (load->kind != ScalarKind::kLoad || (load->dtype != DType::kI8 && load->dtype != DType::kU8)) return {};
  for (Scalar index : load->args)
    if (!ir::as_expr(index)) return {};
  return load;
}

}  // namespace

bool has_byte_dot(Isa isa) { return isa == Isa::kAvx512Vnni || isa == Isa::kAvxVnni; }

ByteDotFactors byte_dot_factors(const loop::Kernel& kernel, const loop::For& s) {
  const auto* update = s.body->as<loop::Update>();
  if (s.kind != loop::LoopKind::kUnrolled || update == nullptr || update->combiner != loop::Combiner::kSum) return {};
  const DType t = kernel.buffers[static_cast<size_t>(update->slot)].dtype;
  const Scalar product = update->value;
  if ((t != DType::kI32 && t != DType::kU32) || product->kind != ScalarKind::kOp || product->op != ScalarOp::kMul)
    return {};
  ByteDotFactors f{byte_load(product->args[0]), byte_load(product->args[1])};
  if (!f.rows || !f.columns) return {};
  if (f.rows->dtype == DType::kI8) std::swap(f.rows, f.columns);
  return f.rows->dtype == DType::kU8 && f.columns->dtype == DType::kI8 ? f : ByteDotFactors{};
}

std::vector<Isa> distinct_isas(std::span<const Isa> isas, std::span<const loop::Kernel> kernels) {
  bool dots = false;
  for (const loop::Kernel& kernel : kernels)
    loop::visit(kernel.body, [&](const loop::Stmt& s) {
      const auto* each = s->as<loop::For>();
      dots = dots || (each != nullptr && byte_dot_factors(kernel, *each).rows);
    });
  std::vector<Isa> result;
  for (Isa isa : isas) {
    const bool has_plain = std::any_of(isas.begin(), isas.end(), [&](Isa other) {
      return has_byte_dot(isa) && !has_byte_dot(other) && vector_bytes(other) == vector_bytes(isa);
    });
    if (dots || !has_plain) result.push_back(isa);
  }
  return result;
}

}  // namespace stax::emit
