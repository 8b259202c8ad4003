// SPDX-License-Identifier: Apache-2.0
// What a group of rows may take in: values before and after the pass, on graphs whose products cover a part of a row only.
#include <cmath>
#include <random>

#include "tensor/passes.h"
#include "unit/tensor/graph_fixture.h"

namespace stax::tensor {
namespace {

class GroupRowsTest : public GraphFixture {
 protected:
  /// Parses a graph, runs the pass, and compares what the graph says before and after; returns its text after.
  std::string check(const std::string& text, const std::vector<std::vector<int64_t>>& extents) {
    const std::unique_ptr<Graph> parsed = parse_graph(text);
    verify(*parsed);
    const uint64_t seed = std::random_device()();
    std::mt19937_64 random(seed);
    std::vector<Item> inputs;
    for (const std::vector<int64_t>& e : extents) {
      int64_t count = 1;
      for (const int64_t n : e) count *= n;
      std::vector<double> values(static_cast<size_t>(count));
      for (double& v : values) v = std::uniform_real_distribution<double>(-2, 2)(random);
      inputs.push_back(item(DType::kF32, e, values));
    }
    const auto before = values_of(interpret(*parsed, inputs).at(0).tensor);
    EXPECT_TRUE(group_rows(*parsed));
    verify(*parsed);
    const auto after = values_of(interpret(*parsed, inputs).at(0).tensor);
    EXPECT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size() && i < after.size(); ++i)
      EXPECT_NEAR(before[i], after[i], 1e-5 * std::max(1.0, std::abs(before[i])))
          << "element " << i << ", seed " << seed;
    return print(*parsed);
  }
};

const char* const kSoftmax = R"(
  %max: f32[s, 1] = compute [i0: s, i1_1: 1] max<f32> [r0_12: 12] { SCORE(r0_12) } (%a, %b)
  %sum: f32[s, 1] = compute [i0: s, i1_1: 1] sum<f32> [r0_12: 12] { exp(sub(SCORE(r0_12), load2[i0, 0])) } (%a, %b, %max)
  %p: f32[s, 12] = compute [i0: s, i1_12: 12] { div(exp(sub(SCORE(i1_12), load2[i0, 0])), load3[i0, 0]) } (%a, %b, %max, %sum)
)";

/// The softmax of a row whose element at `i` is `score`, with `$` for the index.
std::string softmax_of(const std::string& score) {
  std::string text = kSoftmax;
  for (size_t at; (at = text.find("SCORE(")) != std::string::npos;) {
    const size_t end = text.find(')', at);
    const std::string index = text.substr(at + 6, end - at - 6);
    std::string element = score;
    for (size_t k; (k = element.find('$')) != std::string::npos;) element.replace(k, 1, index);
    text.replace(at, end + 1 - at, element);
  }
  return text;
}

TEST_F(GroupRowsTest, AProductThatIsThePartOfARowStaysOutside) {
  // The row is a concatenation: its first four elements come from one product, the others from a second.
  const std::string text =
      "tensor_ir 1\nsymbol s: dim [0, 2147483647]\n"
      "graph(%q: f32[s, 8], %k: f32[4, 8], %b: f32[s, 8], %v: f32[12, 6]) {\n"
      "  %a: f32[s, 4] = compute [i0: s, i1_4: 4] sum<f32> [r0_8: 8] { mul(load0[i0, r0_8], "
      "load1[i1_4, r0_8]) } (%q, %k)\n" +
      softmax_of("select(cast<bool>([less($, 4)]), load0[i0, $], load1[i0, $ - 4])") +
      "  %y: f32[s, 6] = compute [i0: s, i1_6: 6] sum<f32> [r0_12: 12] { mul(load0[i0, r0_12], "
      "load1[r0_12, i1_6]) } (%p, %v)\n"
      "  return %y as \"y\"\n}\n";
  check(text, {{5, 8}, {4, 8}, {5, 8}, {12, 6}});
}

TEST_F(GroupRowsTest, AProductThatReadsThePartOfARowStaysOutside) {
  const std::string text =
      "tensor_ir 1\nsymbol s: dim [0, 2147483647]\n"
      "graph(%q: f32[s, 8], %k: f32[12, 8], %b: f32[12], %v: f32[4, 6]) {\n"
      "  %a: f32[s, 12] = compute [i0: s, i1_12: 12] sum<f32> [r0_8: 8] { mul(load0[i0, r0_8], "
      "load1[i1_12, r0_8]) } (%q, %k)\n" +
      softmax_of("add(load0[i0, $], load1[$])") +
      "  %y: f32[s, 6] = compute [i0: s, i1_6: 6] sum<f32> [r0_4: 4] { mul(load0[i0, r0_4], "
      "load1[r0_4, i1_6]) } (%p, %v)\n"
      "  return %y as \"y\"\n}\n";
  check(text, {{5, 8}, {12, 8}, {12}, {4, 6}});
}

TEST_F(GroupRowsTest, ProductsOverWholeRowsAreTakenIn) {
  const std::string text =
      "tensor_ir 1\nsymbol s: dim [0, 2147483647]\n"
      "graph(%q: f32[s, 8], %k: f32[12, 8], %b: f32[12], %v: f32[12, 6]) {\n"
      "  %a: f32[s, 12] = compute [i0: s, i1_12: 12] sum<f32> [r0_8: 8] { mul(load0[i0, r0_8], "
      "load1[i1_12, r0_8]) } (%q, %k)\n" +
      softmax_of("add(load0[i0, $], load1[$])") +
      "  %y: f32[s, 6] = compute [i0: s, i1_6: 6] sum<f32> [r0_12: 12] { mul(load0[i0, r0_12], "
      "load1[r0_12, i1_6]) } (%p, %v)\n"
      "  return %y as \"y\"\n}\n";
  const std::string after = check(text, {{5, 8}, {12, 8}, {12}, {12, 6}});
  EXPECT_NE(after.find("row_group"), std::string::npos) << after;
  EXPECT_NE(after.find("%q, ", after.find("row_group")), std::string::npos) << after;
}

}  // namespace
}  // namespace stax::tensor
