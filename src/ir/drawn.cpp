// SPDX-License-Identifier: Apache-2.0
#include "ir/drawn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "support/error.h"
#include "support/hash.h"
#include "support/lexer.h"
#include "support/text_writer.h"

namespace stax::ir {
namespace {

constexpr size_t kMostChoices = 8;
constexpr double kMostExact = 0x1p53;

/// In [0, 1), with 53 bits.
double uniform(uint64_t& state) {
  state = mix_bits(state + 0x9E3779B97F4A7C15U);
  return static_cast<double>(state >> 11) * 0x1p-53;
}

/// Of mean 0 and deviation 1, by sums alone, which are the same everywhere.
double normal(uint64_t& state) {
  double sum = -6;
  for (int k = 0; k < 12; ++k) sum += uniform(state);
  return sum;
}

double number_of(DType t, Value64 v) { return is_float(t) ? v.f : static_cast<double>(v.i); }

void set_number(Literal& literal, int64_t k, double v) {
  if (is_float(literal.dtype()))
    literal.set(k, {.f = v});
  else
    literal.set(k, {.i = static_cast<int64_t>(v)});
}

}  // namespace

Literal draw(DType dtype, std::vector<int64_t> extents, const Drawn& how) {
  Literal literal(dtype, std::move(extents));
  const double span = how.high - how.low + 1;
  for (int64_t k = 0, count = literal.count(); k < count; ++k) {
    uint64_t state = mix_bits(combine_hashes(how.seed, static_cast<uint64_t>(k)));
    double v;
    if (!how.choices.empty())
      v = how.choices[static_cast<size_t>(uniform(state) * static_cast<double>(how.choices.size()))];
    else if (is_float(dtype))
      v = std::clamp(how.mean + how.deviation * normal(state), how.low, how.high);
    else
      v = std::min(how.high, how.low + std::floor(uniform(state) * span));
    set_number(literal, k, v);
  }
  return literal;
}

std::optional<Drawn> drawn_like(const Literal& literal, uint64_t seed) {
  const DType t = literal.dtype();
  const int64_t count = literal.count();
  if (count == 0) return std::nullopt;
  Drawn how{.seed = seed, .choices = {}};
  std::set<double> values;
  bool has_nan = false, is_finite = true;
  double sum = 0;
  how.low = how.high = number_of(t, literal.at(0));
  for (int64_t k = 0; k < count; ++k) {
    const double v = number_of(t, literal.at(k));
    has_nan = has_nan || std::isnan(v);
    is_finite = is_finite && std::isfinite(v) && (is_float(t) || std::fabs(v) < kMostExact);
    if (!std::isnan(v) && values.size() <= kMostChoices) values.insert(v);
    how.low = std::min(how.low, v), how.high = std::max(how.high, v);
    sum += v;
  }
  if (values.size() + (has_nan ? 1 : 0) <= kMostChoices && (is_float(t) || is_finite)) {
    how.choices.assign(values.begin(), values.end());
    if (has_nan) how.choices.push_back(std::nan(""));
    how.low = how.high = 0;
    return how;
  }
  if (!is_finite) return std::nullopt;
  if (!is_float(t)) return how;
  how.mean = sum / static_cast<double>(count);
  double squares = 0;
  for (int64_t k = 0; k < count; ++k) squares += std::pow(literal.at(k).f - how.mean, 2);
  how.deviation = std::sqrt(squares / static_cast<double>(count));
  if (!std::isfinite(how.mean) || !std::isfinite(how.deviation) || how.deviation == 0) return std::nullopt;
  return how;
}

std::string spell(const Drawn& how) {
  if (!how.choices.empty()) {
    std::string list;
    for (const double v : how.choices) list += (list.empty() ? "" : ", ") + spell_float(v);
    return fmt::format("drawn {} of {{{}}}", how.seed, list);
  }
  const std::string range = fmt::format(" from {} to {}", spell_float(how.low), spell_float(how.high));
  if (how.deviation == 0) return fmt::format("drawn {} integers", how.seed) + range;
  return fmt::format("drawn {} normal {} {}", how.seed, spell_float(how.mean), spell_float(how.deviation)) + range;
}

Drawn parse_drawn(Lexer& lexer) {
  Drawn how;
  how.seed = static_cast<uint64_t>(lexer.expect_integer());
  if (lexer.accept("of")) {
    lexer.expect("{");
    do how.choices.push_back(lexer.expect_float());
    while (lexer.accept(","));
    lexer.expect("}");
    return how;
  }
  if (lexer.accept("normal")) {
    how.mean = lexer.expect_float();
    how.deviation = lexer.expect_float();
  } else {
    lexer.expect("integers");
  }
  lexer.expect("from");
  how.low = lexer.expect_float();
  lexer.expect("to");
  how.high = lexer.expect_float();
  const double most = how.deviation == 0 ? kMostExact : std::numeric_limits<double>::max();
  if (!(how.low <= how.high) || !(how.low >= -most) || !(how.high <= most))
    lexer.error("nothing can be drawn from {} to {}", how.low, how.high);
  return how;
}

}  // namespace stax::ir
