// SPDX-License-Identifier: Apache-2.0
#include "support/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/diagnostic.h"

namespace stax {
namespace {

template <typename Error, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing of the expected type was thrown";
  return {};
}

TEST(Error, UserErrorFormats) {
  EXPECT_EQ(message_of<UserError>([] { user_error("input '{}' has rank {}", "x", 3); }), "input 'x' has rank 3");
}

TEST(Error, UnsupportedHasOnePrefix) {
  EXPECT_EQ(message_of<UnsupportedError>([] { unsupported("op {}", "Whirl"); }), "unsupported: op Whirl");
  EXPECT_EQ(message_of<UserError>([] { throw UnsupportedError("unsupported: op"); }), "unsupported: op");
}

TEST(Error, AssertionNamesPlaceAndCondition) {
  const int rank = 3;
  EXPECT_NO_THROW(STAX_ASSERT(rank == 3));
  const std::string text = message_of<InternalError>([&] { STAX_ASSERT(rank == 2, "matmul of rank {}", rank); });
  EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("rank == 2: matmul of rank 3"), std::string::npos) << text;
}

TEST(Error, AssertionMessageIsLazy) {
  int evaluated = 0;
  STAX_ASSERT(true, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST(Error, UnreachableThrows) { EXPECT_THROW(STAX_UNREACHABLE(), InternalError); }

TEST(Diagnostics, EmptyCheckpointReturns) {
  Diagnostics diagnostics;
  EXPECT_TRUE(diagnostics.empty());
  EXPECT_NO_THROW(diagnostics.checkpoint());
}

TEST(Diagnostics, OneFaultIsOneLine) {
  Diagnostics diagnostics;
  diagnostics.add("extent 9 is outside 1..8", "input 'x', dim 'batch'", "widen --dim batch");
  EXPECT_EQ(message_of<UserError>([&] { diagnostics.checkpoint(); }),
            "input 'x', dim 'batch': extent 9 is outside 1..8 (widen --dim batch)");
}

TEST(Diagnostics, AllFaultsTogetherAndOnce) {
  Diagnostics diagnostics;
  diagnostics.add_unsupported("op Frobnicate", "node 'a'");
  diagnostics.add_unsupported("op Whirl", "node 'b'");
  diagnostics.add({"unsupported: op Whirl", "node 'b'", ""});
  EXPECT_EQ(message_of<UnsupportedError>([&] { diagnostics.checkpoint(); }),
            "unsupported: 2 faults:\n  node 'a': op Frobnicate\n  node 'b': op Whirl");
}

TEST(Diagnostics, MixedFaultsAreTheUsers) {
  Diagnostics diagnostics;
  diagnostics.add_unsupported("op Whirl");
  diagnostics.add("no input 'x'");
  EXPECT_EQ(message_of<UserError>([&] { diagnostics.checkpoint(); }),
            "2 faults:\n  unsupported: op Whirl\n  no input 'x'");
}

TEST(Diagnostics, AtMostThirtyLines) {
  for (int count : {28, 29, 30, 31, 1000}) {
    Diagnostics diagnostics;
    for (int i = 0; i < count; ++i) diagnostics.add(fmt::format("fault {}\nof two lines", i));
    const std::string text = message_of<UserError>([&] { diagnostics.checkpoint(); });
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    EXPECT_LE(lines, 30);
    EXPECT_EQ(text.find("more") != std::string::npos, count > 29) << count;
  }
}

}  // namespace
}  // namespace stax
