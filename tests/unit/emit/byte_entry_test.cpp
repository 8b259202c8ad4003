// SPDX-License-Identifier: Apache-2.0
// Elements of tables of 256 bytes, which vectors look up in registers, against the interpreter's loads.
#include "unit/emit/compare.h"

namespace stax::emit {
namespace {

std::string look_up(const char* type, int lanes, const char* table = "256", const char* index = "load0[i]") {
  return fmt::format(R"(kernel @look_up map {{
    param n 0 .. 4096
    argument 0 @q u8 [n]
    argument 1 @table {0} [{2}]
    argument 2 @out {0} [n] written
    for i in n vector {1} {{
      %2[i] = load1[{{cast<i64>({3})}}]
    }}
  }})",
                     type, lanes, table, index);
}

// Every byte once, and what is left over by each width.
ir::Value64 every_byte(int slot, int64_t i) {
  return {.i = slot == 0 ? (i * 7 + 3) % 256 : (i * 91 + 17) % 256 - (i % 3 == 0 ? 128 : 0)};
}

TEST(ByteEntry, IsTheElementOfTheTable) {
  for (const char* type : {"u8", "i8"}) {
    for (const int lanes : {4, 8, 16, 32, 64}) {
      Comparison comparison(look_up(type, lanes));
      comparison.fill = every_byte;
      for (const int64_t n : {0, 1, 3, 15, 16, 17, 63, 100, 256, 259}) comparison.check({n});
    }
  }
}

TEST(ByteEntry, OfWhatWasComputedAndUnderAMask) {
  Comparison comparison(R"(kernel @look_up map {
    param n 0 .. 4096
    argument 0 @x f32 [n]
    argument 1 @table i8 [256]
    argument 2 @out f32 [n] written
    for i in n vector 16 {
      if lt(load0[i], 2.0:f32) {
        %2[i] = mul(0.5:f32, cast<f32>(load1[{cast<i64>(cast<u8>(mul(30.0:f32, load0[i])))}]))
      } else {
        %2[i] = load0[i]
      }
    }
  })");
  for (const int64_t n : {0, 1, 5, 16, 31, 200}) comparison.check({n}, static_cast<uint64_t>(n));
}

TEST(ByteEntry, ReadsNoMemoryWhereTheMachineCan) {
  const std::string text = emit_asm_text(loop::parse_kernel(look_up("u8", 16)), Isa::kAvx512);
  EXPECT_NE(text.find("vpermi2d"), std::string::npos) << text;
  // Other extents are loads.
  const std::string other = emit_asm_text(loop::parse_kernel(look_up("u8", 16, "300")), Isa::kAvx512);
  EXPECT_EQ(other.find("vpermi2d"), std::string::npos) << other;
}

}  // namespace
}  // namespace stax::emit
