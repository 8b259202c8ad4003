// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <stdexcept>

#include "problem.h"
#include "stax/stax.h"

namespace stax::bench {
namespace {

DType type_of(const std::string& name) {
  for (const DType t : {DType::kF32, DType::kU8, DType::kI8, DType::kI32, DType::kI64})
    if (name == name_of(t)) return t;
  throw std::logic_error("no element type " + name);
}

}  // namespace

Solver solve_with_stax(const Problem& problem, int threads) {
  const Model model = Model::load(problem.model, {.threads = threads});
  std::vector<Input> inputs;
  for (const Array& a : problem.inputs) inputs.emplace_back(TensorView{type_of(a.type), a.shape, a.bytes.data()});
  auto output = std::make_shared<std::vector<std::byte>>(problem.output.bytes.size());
  const std::vector<MutableTensorView> outputs = {{type_of(problem.output.type), problem.output.shape, output->data()}};
  return {[model, inputs, outputs] { model.run(inputs, outputs); }, output};
}

}  // namespace stax::bench
