// SPDX-License-Identifier: Apache-2.0
// Every scalar operation and cast on every type, in vectors and in scalar code, on ordinary and on special values.
#include <fmt/format.h>

#include "ir/math_table.h"
#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

using ir::DType;
using ir::ScalarOp;

const std::vector<ScalarOp>& all_ops() {
  static const std::vector<ScalarOp> ops = {
#define STAX_SCALAR_OP(Name, text, arity, rule) ScalarOp::k##Name,
#include "ir/scalar_op.def"
  };
  return ops;
}

bool takes_floats_only(ScalarOp op) {
  return (ir::is_math_function(op) && op != ScalarOp::kPow) || op == ScalarOp::kSqrt;
}

bool applies(ScalarOp op, DType t) {
  switch (op) {
    case ScalarOp::kSelect:
    case ScalarOp::kCheckedIndex:
    case ScalarOp::kHash: return false;
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor: return !ir::is_float(t);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return ir::is_integer(t);
    case ScalarOp::kEqual:
    case ScalarOp::kNotEqual:
    case ScalarOp::kMin:
    case ScalarOp::kMax: return true;
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return ir::is_float(t);
    default: break;
  }
  if (t == DType::kBool) return false;
  return !takes_floats_only(op) || ir::is_float(t);
}

std::string map_text(ScalarOp op, DType t, const std::string& kind) {
  const std::string type(ir::name_of(t));
  const bool to_bool = op == ScalarOp::kEqual || op == ScalarOp::kNotEqual || op == ScalarOp::kLess ||
                       op == ScalarOp::kLessEqual || op == ScalarOp::kIsNan || op == ScalarOp::kIsInf;
  const std::string call = fmt::format("{}(load0[i]{})", ir::name_of(op), ir::arity_of(op) == 2 ? ", load1[i]" : "");
  return fmt::format(
      "kernel @k map {{ param n 0 .. 1000 argument 0 @x {0} [n] argument 1 @y {0} [n] argument 2 @z {1} [n] written "
      "for i in n {2} {{ %2[i] = {3} }} }}",
      type, to_bool ? "bool" : type, kind, call);
}

class OpsTest : public ::testing::TestWithParam<DType> {};

TEST_P(OpsTest, AreThoseOfTheInterpreter) {
  const DType t = GetParam();
  for (ScalarOp op : all_ops()) {
    if (!applies(op, t)) continue;
    for (const char* kind : {"vector 16", "serial"}) {
      const std::string text = map_text(op, t, std::string(kind) == "serial" ? "" : kind);
      Comparison comparison(text);
      comparison.tame = false;
      if (ir::is_math_function(op) && ir::is_float(t)) comparison.tolerance = {t == DType::kF64 ? 1e-13 : 3e-7, 0};
      for (int64_t n : {0, 1, 15, 16, 17, 61, 257}) {
        comparison.check({n}, static_cast<uint64_t>(n) + 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(OpsTest, Casts) {
  const DType from = GetParam();
  for (int to = 0; to < ir::kDTypeCount; ++to) {
    for (const char* kind : {"vector 16", ""}) {
      const std::string name(ir::name_of(static_cast<DType>(to)));
      Comparison comparison(
          fmt::format("kernel @k map {{ param n 0 .. 1000 argument 0 @x {} [n] argument 1 @y {} [n] written for i in n "
                      "{} {{ %1[i] = cast<{}>(load0[i]) }} }}",
                      ir::name_of(from), name, kind, name));
      comparison.tame = false;
      for (int64_t n : {0, 1, 16, 33, 300}) {
        comparison.check({n}, static_cast<uint64_t>(n));
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// Quotients that are rounded to f32 from f64 are those of f32, bit for bit; sums and products are left as they are.
TEST(Ops, QuotientsRoundedTwice) {
  for (const char* op : {"div", "add", "mul"}) {
    for (const char* divisor : {"load1[i]", "load1[0]"}) {
      for (const char* kind : {"vector 16", ""}) {
        Comparison comparison(fmt::format(
            "kernel @k map {{ param n 0 .. 1000 argument 0 @x f32 [n] argument 1 @y f32 [n] argument 2 @z f32 [n] "
            "written for i in n {} {{ %2[i] = cast<f32>({}(cast<f64>(load0[i]), cast<f64>({}))) }} }}",
            kind, op, divisor));
        for (const bool tame : {false, true}) {
          comparison.tame = tame;
          for (int64_t n : {0, 1, 16, 33, 999}) {
            comparison.check({n}, static_cast<uint64_t>(n));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OpsTest,
                         ::testing::Values(DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                                           DType::kU16, DType::kU32, DType::kU64, DType::kF16, DType::kBF16,
                                           DType::kF32, DType::kF64),
                         [](const auto& info) { return std::string(ir::name_of(info.param)); });

}  // namespace
}  // namespace stax::emit
