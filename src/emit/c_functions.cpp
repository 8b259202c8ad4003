// SPDX-License-Identifier: Apache-2.0
#include "emit/c_functions.h"

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "ir/math_table.h"
#include "support/error.h"

namespace stax::emit {

using ir::DType;
using ir::MathNode;
using ir::MathOp;
using ir::MathProgram;
using ir::MathType;
using ir::ScalarOp;

namespace {

// What is the same on all machines. Integers and conversions are those of ir/scalar.h, index arithmetic that of symbolic/expr.h.
constexpr std::string_view kCommon = R"(DEVICE float bf16_to_f32(u16 x) { return bits_float((u32)x << 16); }

DEVICE u16 f32_to_bf16(float x) {
  const u32 bits = float_bits(x);
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (u16)(x != x ? (bits >> 16) | 0x40u : rounded);
}

// Rounded such that one more rounding, to f16 or bf16, is as one of x.
DEVICE float f64_to_f32_odd(double x) {
  const double nearest = (double)(float)x;
  u32 bits = float_bits((float)x);
  if (abs_f64(nearest) > abs_f64(x)) bits -= 1u;
  if (nearest < x || nearest > x) bits |= 1u;
  return bits_float(bits);
}

DEVICE i64 f32_to_i64(float x) {
  if (x != x || x <= -9223372036854775808.0f) return (i64)0x8000000000000000;
  return x >= 9223372036854775808.0f ? (i64)0x7fffffffffffffff : (i64)x;
}

DEVICE i64 f64_to_i64(double x) {
  if (x != x || x <= -9223372036854775808.0) return (i64)0x8000000000000000;
  return x >= 9223372036854775808.0 ? (i64)0x7fffffffffffffff : (i64)x;
}

// For values of 32 bits and NaN, which is 0.
DEVICE int f32_to_i32(float x) { return x != x ? 0 : (int)x; }

DEVICE int f64_to_i32(double x) { return x != x ? 0 : (int)x; }

DEVICE float copysign_f32(float x, float sign) {
  return bits_float((float_bits(x) & 0x7fffffffu) | (float_bits(sign) & 0x80000000u));
}

DEVICE double copysign_f64(double x, double sign) {
  return bits_double((double_bits(x) & 0x7fffffffffffffff) | (double_bits(sign) & 0x8000000000000000));
}

DEVICE float power_of_two_f32(float k) { return bits_float(float_bits(k + 8388735.0f) << 23); }

DEVICE float scale_f32(float x, float n) {
  const float half_n = floor_f32(mul_f32(n, 0.5f));
  return x * power_of_two_f32(half_n) * power_of_two_f32(n - half_n);
}

DEVICE double power_of_two_f64(double k) { return bits_double(double_bits(k + 4503599627371519.0) << 52); }

DEVICE double scale_f64(double x, double n) {
  const double half_n = floor_f64(mul_f64(n, 0.5));
  return x * power_of_two_f64(half_n) * power_of_two_f64(n - half_n);
}

// The exact remainder: each step takes off a multiple whose factor fits a double; what remains is a multiple of the same unit.
DEVICE double fmod_f64(double x, double y) {
  const double infinity = bits_double(0x7ff0000000000000);
  const double divisor = abs_f64(y);
  double rest = abs_f64(x);
  if (!(rest < infinity) || !(divisor > 0.0)) return bits_double(0x7ff8000000000000);
  while (rest >= divisor) {
    double scaled = divisor;
    double quotient = rest / scaled;
    while (quotient == infinity) {
      scaled *= 3.599131035634557e162;
      quotient = rest / scaled;
    }
    const double below = trunc_f64(bits_double(double_bits(quotient) - 1u));
    const double least = fma_f64(-trunc_f64(quotient), scaled, rest);
    rest = least < 0.0 ? fma_f64(-below, scaled, rest) : least;
  }
  return copysign_f64(rest, x);
}

DEVICE float fmod_f32(float x, float y) { return (float)fmod_f64((double)x, (double)y); }

DEVICE double mod_floor_f64(double x, double y) {
  const double rest = fmod_f64(x, y);
  if (rest == 0.0) return copysign_f64(0.0, y);
  return rest != rest || (rest < 0.0) == (y < 0.0) ? rest : rest + y;
}

DEVICE float mod_floor_f32(float x, float y) {
  const float rest = fmod_f32(x, y);
  if (rest == 0.0f) return copysign_f32(0.0f, y);
  return rest != rest || (rest < 0.0f) == (y < 0.0f) ? rest : rest + y;
}

// -0 gives 0, minus infinity infinity.
DEVICE float pow_half_f32(float x) { return x == bits_float(0xff800000u) ? -x : sqrt_f32(x + 0.0f); }

DEVICE double pow_half_f64(double x) { return x == bits_double(0xfff0000000000000) ? -x : sqrt_f64(x + 0.0); }

DEVICE float sign_f32(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x != x ? x : 0.0f; }

DEVICE double sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x != x ? x : 0.0; }

// Philox4x32-10 with the counter in the lower two words of its four; the first word.
DEVICE u32 random_bits(i64 seed, i64 counter) {
  u32 x0 = (u32)counter, x1 = (u32)((u64)counter >> 32), x2 = 0u, x3 = 0u;
  u32 k0 = (u32)seed, k1 = (u32)((u64)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u32 p = mulhi_u32(0xd2511f53u, x0), q = mulhi_u32(0xcd9e8d57u, x2);
    const u32 y1 = 0xcd9e8d57u * x2, y3 = 0xd2511f53u * x0;
    x0 = q ^ x1 ^ k0;
    x2 = p ^ x3 ^ k1;
    x1 = y1;
    x3 = y3;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return x0;
}

// a / b by a multiplication, of 0 <= a.
DEVICE int divide_by(int a, int multiplier, int shift) {
  return (int)((mulhi_u32((u32)a, (u32)multiplier) + (u32)a) >> shift);
}
)";

// Index arithmetic; T is int or i64, U the unsigned type of its size.
constexpr std::string_view kIndexFunctions = R"(// Of what is not negative.
DEVICE T quotient_N(T a, T b) { return b == 0 ? 0 : (T)((U)a / (U)b); }

DEVICE T floor_divide_N(T a, T b) {
  if (b == 0) return 0;
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
)";

// Arithmetic of an integer type T of W bits; U is an unsigned type at least as wide, in which nothing overflows undefined.
constexpr std::string_view kSigned =
    R"(DEVICE T divide_N(T a, T b) { return (T)(b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b); }

DEVICE T mod_trunc_N(T a, T b) { return (T)(b == 0 || b == -1 ? 0 : a % b); }

DEVICE T mod_floor_N(T a, T b) {
  const T rest = mod_trunc_N(a, b);
  return (T)(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

DEVICE T pow_N(T base, T exponent) {
  if (exponent < 0) {
    // As the power in double, whose whole numbers are even from 2^53 on.
    if (base == 1 || base == -1) return (T)((exponent & 1) != 0 && (i64)exponent > -9007199254740992 ? base : 1);
    return (T)(base == 0 ? INFINITE : 0);
  }
  U result = 1, square = (U)base;
  for (U rest = (U)exponent; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= square;
    square *= square;
  }
  return (T)result;
}

DEVICE T abs_N(T a) { return (T)(a < 0 ? 0 - (U)a : (U)a); }
)";
constexpr std::string_view kUnsigned = R"(DEVICE T divide_N(T a, T b) { return (T)(b == 0 ? 0 : a / b); }

DEVICE T mod_trunc_N(T a, T b) { return (T)(b == 0 ? 0 : a % b); }

DEVICE T pow_N(T base, T exponent) {
  U result = 1, square = (U)base;
  for (U rest = (U)exponent; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= square;
    square *= square;
  }
  return (T)result;
}
)";
constexpr std::string_view kShifts = R"(DEVICE T shl_N(T a, T by) { return (T)((U)by < W ? (U)a << by : 0); }

DEVICE T shr_N(T a, T by) { return (T)((U)by < W ? a >> by : 0); }
)";

constexpr DType kIntegers[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                               DType::kU8, DType::kU16, DType::kU32, DType::kU64};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> identifiers(std::string_view text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    words.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

// Words of a template by others.
std::string replace_words(std::string_view text, const std::map<std::string, std::string>& by) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      out += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word(text.substr(i, end - i));
    const auto found = by.find(word);
    // "divide_N" is a name of its own for each type.
    if (found == by.end() && word.size() > 2 && word.ends_with("_N"))
      out += word.substr(0, word.size() - 1) + by.at("N");
    else
      out += found == by.end() ? word : found->second;
    i = end;
  }
  return out;
}

// Paragraphs; each defines what stands in front of its first parenthesis, a comment aside.
void add_paragraphs(std::vector<CFunction>& functions, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find("\n\n", at);
    if (end == std::string_view::npos) end = text.size();
    std::string paragraph(text.substr(at, end - at));
    while (!paragraph.empty() && paragraph.back() == '\n') paragraph.pop_back();
    size_t code = 0;
    while (paragraph.compare(code, 2, "//") == 0 || paragraph.compare(code, 1, "#") == 0)
      code = paragraph.find('\n', code) + 1;
    const std::vector<std::string> head =
        identifiers(std::string_view(paragraph).substr(code, paragraph.find('(', code) - code));
    STAX_ASSERT(!head.empty(), "a paragraph without a name: {}", paragraph);
    functions.push_back({head.back(), std::move(paragraph)});
    at = end + 2;
  }
}

std::string table_text(std::string_view qualifier) {
  std::string text = fmt::format("{} u32 two_over_pi[] = {{", qualifier);
  for (size_t i = 0; i < ir::two_over_pi().size(); ++i)
    text += fmt::format("{}0x{:08x}u", i == 0 ? "" : ", ", ir::two_over_pi()[i]);
  return text + "};";
}

std::vector<CFunction> all_functions(std::string_view machine, std::string_view constant_table) {
  std::vector<CFunction> functions;
  add_paragraphs(functions, machine);
  add_paragraphs(functions, kCommon);
  for (const auto& [type, name, wide] : {std::array{"int", "i32", "u32"}, std::array{"i64", "i64", "u64"}})
    add_paragraphs(functions, replace_words(kIndexFunctions, {{"T", type}, {"N", name}, {"U", wide}}));
  for (DType t : kIntegers) {
    const int bits = ir::bit_width(t);
    const std::map<std::string, std::string> by{{"T", std::string(value_type(t))},
                                                {"N", std::string(ir::name_of(t))},
                                                {"U", bits == 64 ? "u64" : "u32"},
                                                {"W", fmt::format("{}u", bits)},
                                                {"INFINITE", bits == 64 ? "0x7fffffffffffffff" : "-1"}};
    add_paragraphs(functions, replace_words(ir::is_signed(t) ? kSigned : kUnsigned, by));
    add_paragraphs(functions, replace_words(kShifts, by));
  }
  functions.push_back({"two_over_pi", table_text(constant_table)});
#define STAX_SCALAR_OP(Name, text, arity, rule)                                                            \
  if (ir::is_math_function(ScalarOp::k##Name)) {                                                           \
    for (DType t : {DType::kF32, DType::kF64}) functions.push_back({math_name(ScalarOp::k##Name, t), {}}); \
  }
#include "ir/scalar_op.def"
  return functions;
}

}  // namespace

std::string functions_for(std::string_view body, std::string_view machine, std::string_view constant_table) {
  std::vector<CFunction> functions = all_functions(machine, constant_table);
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < functions.size(); ++i) known.emplace(functions[i].name, i);
#define STAX_SCALAR_OP(Name, text_, arity, rule)                                                       \
  if (ir::is_math_function(ScalarOp::k##Name)) {                                                       \
    for (DType t : {DType::kF32, DType::kF64}) {                                                       \
      const std::string name = math_name(ScalarOp::k##Name, t);                                        \
      if (body.find(name) != std::string_view::npos)                                                   \
        functions[known.at(name)].text = math_text(ScalarOp::k##Name, t, known.contains("power_f32")); \
    }                                                                                                  \
  }
#include "ir/scalar_op.def"
  std::set<size_t> used;
  std::vector<std::string> open = identifiers(body);
  while (!open.empty()) {
    const auto found = known.find(open.back());
    open.pop_back();
    if (found == known.end() || !used.insert(found->second).second) continue;
    for (std::string& word : identifiers(functions[found->second].text)) open.push_back(std::move(word));
  }
  std::string text;
  for (size_t i : used) text += functions[i].text + "\n\n";
  return text;
}

// --- the math table -------------------------------------------------------------------------------------------------------

namespace {

std::string_view c_type(MathType t) {
  switch (t) {
    case MathType::kBool: return "bool";
    case MathType::kI32: return "int";
    case MathType::kI64: return "i64";
    case MathType::kF32: return "float";
    case MathType::kF64: return "double";
  }
  STAX_UNREACHABLE();
}

// One program as lines of `text`; the name of its result.
class ProgramText {
 public:
  ProgramText(const MathProgram& program, std::string prefix, std::string& text)
      : program_(program), prefix_(std::move(prefix)), text_(text) {}

  std::string write() {
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const MathNode& n = program_.nodes[i];
      if (n.op == MathOp::kInput || n.op == MathOp::kConstant) continue;
      text_ += fmt::format("  const {} {}{} = {};\n", c_type(n.type), prefix_, i, expression(n));
    }
    return name(static_cast<int32_t>(program_.nodes.size()) - 1);
  }

 private:
  std::string name(int32_t i) const {
    const MathNode& n = program_.nodes[static_cast<size_t>(i)];
    if (n.op == MathOp::kInput) return n.bits == 0 ? "x" : "y";
    if (n.op != MathOp::kConstant) return fmt::format("{}{}", prefix_, i);
    switch (n.type) {
      case MathType::kF32: return c_float(std::bit_cast<double>(n.bits), false);
      case MathType::kF64: return c_float(std::bit_cast<double>(n.bits), true);
      case MathType::kI32: return c_int(DType::kI32, static_cast<int32_t>(n.bits));
      case MathType::kI64: return c_int(DType::kI64, static_cast<int64_t>(n.bits));
      case MathType::kBool: return n.bits != 0 ? "true" : "false";
    }
    STAX_UNREACHABLE();
  }

  std::string expression(const MathNode& n) const {
    const auto arg = [&](size_t i) { return n.args[i] < 0 ? std::string() : name(n.args[i]); };
    const std::string a = arg(0), b = arg(1), c = arg(2);
    const MathType from = n.args[0] < 0 ? n.type : program_.nodes[static_cast<size_t>(n.args[0])].type;
    const bool real = n.type == MathType::kF32 || n.type == MathType::kF64;
    const bool is_bool = n.type == MathType::kBool;
    const std::string_view suffix = n.type == MathType::kF64 ? "f64" : "f32";
    const std::string_view type = c_type(n.type), wide = n.type == MathType::kI64 ? "u64" : "u32";
    const auto wrapped = [&](char op) { return fmt::format("({})(({}){} {} ({}){})", type, wide, a, op, wide, b); };
    switch (n.op) {
      case MathOp::kInput:
      case MathOp::kConstant: break;
      case MathOp::kAdd: return real ? fmt::format("{} + {}", a, b) : wrapped('+');
      case MathOp::kSub: return real ? fmt::format("{} - {}", a, b) : wrapped('-');
      case MathOp::kMul: return real ? fmt::format("mul_{}({}, {})", suffix, a, b) : wrapped('*');
      case MathOp::kDiv: return fmt::format("{} / {}", a, b);
      case MathOp::kRatio: return fmt::format("ratio_{}({}, {})", suffix, a, b);
      case MathOp::kMulAdd:
      case MathOp::kFusedMulAdd: return fmt::format("fma_{}({}, {}, {})", suffix, a, b, c);
      case MathOp::kNeg: return fmt::format("-({})", a);
      case MathOp::kAbs: return fmt::format("abs_{}({})", suffix, a);
      case MathOp::kSqrt: return fmt::format("sqrt_{}({})", suffix, a);
      case MathOp::kLessOf: return fmt::format("{} < {} ? {} : {}", a, b, a, b);
      case MathOp::kGreaterOf: return fmt::format("{} > {} ? {} : {}", a, b, a, b);
      case MathOp::kScale: return fmt::format("scale_{}({}, {})", suffix, a, b);
      case MathOp::kShiftLeft: return fmt::format("({})(({}){} << {})", type, wide, a, n.bits);
      case MathOp::kShiftRight: return fmt::format("({})(({}){} >> {})", type, wide, a, n.bits);
      case MathOp::kShiftRightSigned: return fmt::format("{} >> {}", a, n.bits);
      case MathOp::kShiftLeftBy: return fmt::format("({})(({}){} << {})", type, wide, a, b);
      case MathOp::kAnd: return fmt::format("{} {} {}", a, is_bool ? "&&" : "&", b);
      case MathOp::kOr: return fmt::format("{} {} {}", a, is_bool ? "||" : "|", b);
      case MathOp::kXor: return fmt::format("{} {} {}", a, is_bool ? "!=" : "^", b);
      case MathOp::kNot: return fmt::format("{}{}", is_bool ? "!" : "~", a);
      case MathOp::kLess: return fmt::format("{} < {}", a, b);
      case MathOp::kEqual: return fmt::format("{} == {}", a, b);
      case MathOp::kIsNan: return fmt::format("{} != {}", a, a);
      case MathOp::kSelect: return fmt::format("{} ? {} : {}", a, b, c);
      case MathOp::kConvert: return fmt::format("({}){}", type, a);
      case MathOp::kBits:
        switch (n.type) {
          case MathType::kF32: return fmt::format("bits_float((u32){})", a);
          case MathType::kF64: return fmt::format("bits_double((u64){})", a);
          default: return fmt::format("({}){}_bits({})", type, from == MathType::kF64 ? "double" : "float", a);
        }
      case MathOp::kPower: return fmt::format("power_{}({})", suffix, a);
      case MathOp::kUnitMulAdd: return fmt::format("unit_fma_{}({}, {}, {})", suffix, a, b, c);
      case MathOp::kEntry:
      case MathOp::kScaleFloor: break;  // no program here has it
      case MathOp::kLookup: return fmt::format("(int)two_over_pi[{}]", a);
    }
    STAX_UNREACHABLE();
  }

  const MathProgram& program_;
  std::string prefix_;
  std::string& text_;
};

}  // namespace

std::string math_name(ScalarOp op, DType t) {
  return fmt::format("{}_{}", ir::name_of(op), ir::name_of(ir::compute_type(t)));
}

std::string math_text(ScalarOp op, DType t, bool has_power) {
  const ir::MathFunction& f = ir::math_function(op, t);
  const std::string_view type = value_type(t);
  std::string text = fmt::format("DEVICE {0} {1}({0} x{2}) {{\n", type, math_name(op, t),
                                 ir::arity_of(op) == 2 ? fmt::format(", {} y", type) : "");
  if (!f.slow.nodes.empty()) {
    text += fmt::format("  if ({}) {{\n", ProgramText(f.is_slow, "c", text).write());
    std::string slow;
    const std::string result = ProgramText(f.slow, "s", slow).write();
    text += slow + fmt::format("    return {};\n  }}\n", result);
  }
  const bool by_powers = has_power && !f.powers.nodes.empty();
  const std::string result = ProgramText(by_powers ? f.powers : f.fast, "v", text).write();
  return text + fmt::format("  return {};\n}}", result);
}

// --- types and literals ---------------------------------------------------------------------------------------------------

std::string_view value_type(DType t) {
  switch (t) {
    case DType::kBool: return "bool";
    case DType::kI8: return "i8";
    case DType::kI16: return "i16";
    case DType::kI32: return "int";
    case DType::kI64: return "i64";
    case DType::kU8: return "u8";
    case DType::kU16: return "u16";
    case DType::kU32: return "u32";
    case DType::kU64: return "u64";
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: return "float";
    case DType::kF64: return "double";
  }
  STAX_UNREACHABLE();
}

std::string_view storage_type(DType t) {
  if (t == DType::kBool) return "u8";
  if (t == DType::kF16 || t == DType::kBF16) return "u16";
  return value_type(t);
}

std::string_view unsigned_type(int bits) { return bits == 64 ? "u64" : bits == 32 ? "u32" : bits == 16 ? "u16" : "u8"; }

std::string c_float(double value, bool is_double) {
  if (!std::isfinite(value)) {
    return is_double ? fmt::format("bits_double(0x{:016x})", std::bit_cast<uint64_t>(value))
                     : fmt::format("bits_float(0x{:08x}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return text.front() == '-' ? "(" + text + ")" : text;
}

std::string c_int(DType t, int64_t value) {
  const std::string_view type = value_type(t);
  switch (t) {
    case DType::kBool: return value != 0 ? "true" : "false";
    case DType::kI32:
      if (value == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
      return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
    case DType::kU32: return fmt::format("{}u", static_cast<uint32_t>(value));
    case DType::kI64:
    case DType::kU64:
      // A hexadecimal literal has the first type that it fits.
      if (value != static_cast<int32_t>(value)) return fmt::format("(({})0x{:x})", type, static_cast<uint64_t>(value));
      return fmt::format("(({}){})", type, value);
    default: return fmt::format("(({}){})", type, value);
  }
}

}  // namespace stax::emit
