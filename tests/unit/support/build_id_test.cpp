// SPDX-License-Identifier: Apache-2.0
#include "support/build_id.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace stax {
namespace {

TEST(BuildId, IsThatOfThisProgram) {
  EXPECT_FALSE(build_id().empty());
  EXPECT_EQ(own_file().filename(), "test_support");
  EXPECT_EQ(build_id(), build_id_of(own_file())) << "read from memory and from the file";
}

TEST(BuildId, FilesWithoutANoteDifferByTheirTime) {
  const auto file = std::filesystem::path(testing::TempDir()) / "build_id_test.bytes";
  EXPECT_EQ(build_id_of(file), "");
  std::ofstream(file) << "x";
  const std::string first = build_id_of(file);
  EXPECT_FALSE(first.empty());
  std::ofstream(file) << std::string(200, 'y');
  EXPECT_NE(build_id_of(file), first);
  std::filesystem::remove(file);
}

// A damaged header is nothing to trust: the notes that it points to may lie anywhere.
TEST(BuildId, DamagedFilesHaveATimeToo) {
  const auto file = std::filesystem::path(testing::TempDir()) / "build_id_test.elf";
  std::ifstream in(own_file(), std::ios::binary);
  std::string head(4096, 0);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  for (size_t k = 32; k < 64; ++k) {  // where the program headers are, and how many
    std::string damaged = head;
    damaged[k] = static_cast<char>(0xFF);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_FALSE(build_id_of(file).empty()) << k;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace stax
