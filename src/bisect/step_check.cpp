// SPDX-License-Identifier: Apache-2.0
#include "bisect/step_check.h"

#include "bisect/compare.h"
#include "bisect/graph_check.h"
#include "program/steps.h"
#include "support/error.h"

namespace stax::bisect {

using namespace program;
using tensor::Value;

namespace {

class StepCheck {
 public:
  StepCheck(const compile::Compiled& compiled, const Step& step, const tensor::Op& op)
      : c_(compiled), step_(step), op_(op) {}

  std::string run() {
    std::vector<const Value*> operands(op_.operands.begin(), op_.operands.end());
    const auto* branch = std::get_if<IfStep>(&step_);
    if (branch && branch->condition == kNone) operands.clear();  // the shape decides
    if (std::holds_alternative<CopyStep>(step_)) operands.resize(1);
    std::vector<const Value*> results;
    for (const auto& r : op_.results) results.push_back(r.get());
    std::vector<ValueRef> read, made;
    for_each_operand(step_, [&](ValueRef v) { read.push_back(v); });
    for_each_result(step_, [&](ValueRef v) { made.push_back(v); });
    same("operand", read, operands);
    if (!made.empty()) same("result", made, results);
    if (const auto* p = op_.as<tensor::If>(); p && branch) {
      body(branch->then_block, *p->then_block);
      body(branch->else_block, *p->else_block);
    }
    if (const auto* p = op_.as<tensor::Loop>()) for_each_block(step_, [&](uint32_t number) { body(number, *p->body); });
    return wrong_;
  }

 private:
  void body(uint32_t number, const tensor::Block& want) {
    same("input of a body", c_.program->blocks[number].inputs, pointers(want.inputs));
    same("output of a body", c_.program->blocks[number].outputs, pointers(want.outputs));
  }
  template <class Values>
  static std::vector<const Value*> pointers(const Values& values) {
    std::vector<const Value*> list;
    for (const auto& v : values) list.push_back(&*v);
    return list;
  }
  void same(const char* what, const std::vector<ValueRef>& got, const std::vector<const Value*>& want) {
    if (!wrong_.empty()) return;
    if (got.size() != want.size())
      wrong_ = fmt::format("there are {} of {}s instead of {}", got.size(), what, want.size());
    for (size_t k = 0; k < want.size() && wrong_.empty(); ++k)
      if (c_.origin.values[got[k]] != want[k])
        wrong_ = fmt::format("{} {} of the {} is {} instead of {}", what, k, name_of(step_),
                             describe(*c_.origin.values[got[k]]), describe(*want[k]));
  }

  const compile::Compiled& c_;
  const Step& step_;
  const tensor::Op& op_;
  std::string wrong_;
};

}  // namespace

std::string step_fault(const compile::Compiled& compiled, uint32_t block, uint32_t step) {
  return StepCheck(compiled, compiled.program->blocks[block].steps[step], *compiled.origin.ops[block][step]).run();
}

std::string constant_fault(const compile::Compiled& compiled, ValueRef v) {
  const Value& value = *compiled.origin.values[v];
  const auto* want = value.producer ? value.producer->as<tensor::Constant>() : nullptr;
  if (want == nullptr) return {};
  const ValueSpec& spec = compiled.program->values[v];
  if (spec.storage != Storage::kConstant) return fmt::format("{} is no constant of the program", describe(value));
  tensor::Item got, same;
  got.tensor = compiled.program->constants[spec.index], same.tensor = want->literal;
  if (got.tensor.data() == same.tensor.data()) return {};
  const auto d = compare(got, same);
  return d ? fmt::format("the program's {}: {}", describe(value), d->text()) : std::string();
}

}  // namespace stax::bisect
