// SPDX-License-Identifier: Apache-2.0
#include "program/steps.h"

#include "support/overloaded.h"

namespace stax::program {

void for_each_operand(const Step& step, const std::function<void(ValueRef)>& f) {
  auto maybe = [&](ValueRef v) {
    if (v != kNone) f(v);
  };
  std::visit(Overloaded{[&](const LaunchStep& s) {
                          for (ValueRef v : s.arguments) f(v);
                        },
                        [&](const CopyStep& s) { f(s.from); }, [&](const AliasStep& s) { f(s.from); },
                        [&](const ReshapeDynamicStep& s) { f(s.data), f(s.shape); },
                        [&](const BindStep& s) { f(s.value); }, [&](const CheckStep&) {},
                        [&](const ProcedureStep& s) {
                          for (ValueRef v : s.operands) f(v);
                        },
                        [&](const IfStep& s) { maybe(s.condition); },
                        [&](const LoopStep& s) {
                          maybe(s.trip_count), maybe(s.condition);
                          for (ValueRef v : s.initial) f(v);
                        },
                        [&](const SequenceStep& s) {
                          for (ValueRef v : s.operands) f(v);
                        }},
             step);
}

void for_each_result(const Step& step, const std::function<void(ValueRef)>& f) {
  std::visit(
      Overloaded{[&](const LaunchStep& s) {
                   for (ValueRef v : s.arguments) f(v);
                 },  // those not made yet are its results
                 [&](const CopyStep& s) { f(s.to); }, [&](const AliasStep& s) { f(s.to); },
                 [&](const ReshapeDynamicStep& s) { f(s.result); }, [&](const BindStep&) {}, [&](const CheckStep&) {},
                 [&](const ProcedureStep& s) {
                   for (ValueRef v : s.results) f(v);
                 },
                 [&](const IfStep& s) {
                   for (ValueRef v : s.results) f(v);
                 },
                 [&](const LoopStep& s) {
                   for (ValueRef v : s.results) f(v);
                 },
                 [&](const SequenceStep& s) { f(s.result); }},
      step);
}

void for_each_block(const Step& step, const std::function<void(uint32_t)>& f) {
  if (const auto* s = std::get_if<IfStep>(&step)) f(s->then_block), f(s->else_block);
  if (const auto* s = std::get_if<LoopStep>(&step)) f(s->body);
}

void for_each_expr(const Step& step, const std::function<void(ExprRef)>& f) {
  if (const auto* s = std::get_if<LaunchStep>(&step)) {
    for (ExprRef e : s->params) f(e);
    f(s->work), f(s->empty_if_zero);
    if (s->operations != kNone) f(s->operations);
    for (const LaunchVersion& v : s->versions) {
      f(v.iterations);
      if (v.scratch_bytes != kNone) f(v.scratch_bytes);
      for (ExprRef e : {v.guard, v.necessary, v.grid[0], v.grid[1], v.grid[2], v.block, v.shared_bytes})
        if (e != kNone) f(e);
      for (ExprRef e : v.divisors) f(e);
      for (ExprRef e : v.scratch) f(e);
    }
  } else if (const auto* c = std::get_if<CheckStep>(&step)) {
    f(c->condition);
    for (ExprRef e : c->arguments) f(e);
  } else if (const auto* branch = std::get_if<IfStep>(&step)) {
    if (branch->known != kNone) f(branch->known);
  }
}

std::string_view name_of(const Step& step) {
  constexpr std::string_view kNames[] = {"launch",    "copy", "alias", "reshape_dynamic", "bind", "check",
                                         "procedure", "if",   "loop",  "sequence"};
  return kNames[step.index()];
}

std::string_view source_of(const Step& step) {
  return std::visit(
      [](const auto& s) -> std::string_view {
        if constexpr (requires { s.source; })
          return s.source;
        else
          return {};
      },
      step);
}

}  // namespace stax::program
