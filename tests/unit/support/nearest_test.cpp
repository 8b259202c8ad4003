// SPDX-License-Identifier: Apache-2.0
#include "support/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace stax {
namespace {

TEST(Nearest, TakesTheWordThatDiffersLeast) {
  const std::vector<std::string> known{"run", "compile", "dump", "verify"};
  EXPECT_EQ(nearest("rnu", known), "run");         // two letters replaced
  EXPECT_EQ(nearest("dumpp", known), "dump");      // one put in
  EXPECT_EQ(nearest("comple", known), "compile");  // one taken out
  EXPECT_EQ(nearest("verify", known), "verify");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest("bench", known), "");
  EXPECT_EQ(nearest("", std::vector<std::string>{"ab"}), "ab");
}

TEST(Nearest, OfEqualsTheFirst) { EXPECT_EQ(nearest("c", std::vector<std::string>{"ab", "a", "b"}), "a"); }

}  // namespace
}  // namespace stax
