// SPDX-License-Identifier: Apache-2.0
#include "support/debug.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stax {
namespace {

TEST(DebugOptions, NothingSet) {
  const DebugOptions options = parse_debug_options([](const char*) -> const char* { return nullptr; });
  EXPECT_TRUE(options.dump.empty());
  EXPECT_TRUE(options.disable.empty());
  EXPECT_FALSE(options.time);
  EXPECT_EQ(options.repro_dir, ".");
  EXPECT_FALSE(options.dumps("fuse_ops"));
}

TEST(DebugOptions, ListsAndFlags) {
  const DebugOptions options = parse_debug_options([](const char* name) -> const char* {
    if (std::strcmp(name, "STAX_DUMP") == 0) return "fuse_ops, llvm,,";
    if (std::strcmp(name, "STAX_DISABLE") == 0) return "hoist_loop_invariants";
    if (std::strcmp(name, "STAX_TIME") == 0) return "1";
    if (std::strcmp(name, "STAX_VERIFY") == 0) return "0";
    if (std::strcmp(name, "STAX_REPRO_DIR") == 0) return "/tmp/repros";
    return nullptr;
  });
  EXPECT_EQ(options.dump, (std::set<std::string>{"fuse_ops", "llvm"}));
  EXPECT_TRUE(options.dumps("llvm"));
  EXPECT_FALSE(options.dumps("loop"));
  EXPECT_TRUE(options.disables("hoist_loop_invariants"));
  EXPECT_TRUE(options.time);
  EXPECT_FALSE(options.verify);
  EXPECT_EQ(options.repro_dir, "/tmp/repros");
}

TEST(DebugOptions, AllDumpsEverything) {
  const DebugOptions options = parse_debug_options(
      [](const char* name) -> const char* { return std::strcmp(name, "STAX_DUMP") == 0 ? "all" : nullptr; });
  EXPECT_TRUE(options.dumps("anything"));
}

}  // namespace
}  // namespace stax
