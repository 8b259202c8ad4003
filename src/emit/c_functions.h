// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that C kernels call.
#include <string>
#include <string_view>
#include <vector>

#include "ir/scalar.h"

namespace stax::emit {

struct CFunction {
  std::string name, text;
};

/// The functions that `body` calls, and those that they call, as text. `machine` is Dialect::functions; `constant_table` the qualifier of a
/// table. Functions of the math table and of types are written as they are called.
std::string functions_for(std::string_view body, std::string_view machine, std::string_view constant_table);

/// "exp_f32": the function of the math table.
std::string math_name(ir::ScalarOp op, ir::DType t);
/// Its definition; `has_power`: for a machine with power_f32 and unit_fma_f32.
std::string math_text(ir::ScalarOp op, ir::DType t, bool has_power);

/// The C type of values and of elements in memory.
std::string_view value_type(ir::DType t);
std::string_view storage_type(ir::DType t);
std::string_view unsigned_type(int bits);
/// A literal.
std::string c_float(double value, bool is_double);
std::string c_int(ir::DType t, int64_t value);

}  // namespace stax::emit
