// SPDX-License-Identifier: Apache-2.0
#include "support/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace stax {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() : folder(fs::temp_directory_path() / ("disk_cache_test_" + std::to_string(::getpid()))) {
    fs::remove_all(folder);
  }
  ~DiskCacheTest() override { fs::remove_all(folder); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (fs::exists(folder))
      for (const auto& e : fs::directory_iterator(folder)) found.push_back(e.path());
    return found;
  }
  int64_t kept_bytes() const {
    int64_t sum = 0;
    for (const fs::path& p : files()) sum += static_cast<int64_t>(fs::file_size(p));
    return sum;
  }
  fs::path folder;
};

std::vector<uint8_t> bytes_of(size_t n, uint8_t first) {
  std::vector<uint8_t> bytes(n);
  for (size_t k = 0; k < n; ++k) bytes[k] = static_cast<uint8_t>(first + k * 7);
  return bytes;
}

std::optional<std::vector<uint8_t>> bytes_kept(const DiskCache& cache, std::string_view key) {
  const std::optional<MappedBytes> kept = cache.find(key);
  if (!kept) return std::nullopt;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(kept->data.get()) % 64, 0u);
  return std::vector<uint8_t>(kept->bytes().begin(), kept->bytes().end());
}

TEST_F(DiskCacheTest, GivesWhatWasKeptToTheNextProcess) {
  const DiskCache cache(folder / "deep" / "er", 1 << 20);
  EXPECT_FALSE(bytes_kept(cache, "a"));
  cache.insert("a", bytes_of(100, 1));
  cache.insert("b", bytes_of(0, 1));
  EXPECT_EQ(bytes_kept(DiskCache(folder / "deep" / "er", 1 << 20), "a"), bytes_of(100, 1));
  EXPECT_EQ(bytes_kept(cache, "b"), bytes_of(0, 1));
  EXPECT_FALSE(bytes_kept(cache, "a ")) << "another key";
  cache.insert("a", bytes_of(50, 9));
  EXPECT_EQ(bytes_kept(cache, "a"), bytes_of(50, 9)) << "the last one counts";
  struct stat status{};
  ASSERT_EQ(::stat((folder / "deep" / "er").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u) << "for its owner alone";
}

TEST_F(DiskCacheTest, DamagedEntriesAreMadeAgain) {
  const DiskCache cache(folder, 1 << 20);
  const std::vector<uint8_t> bytes = bytes_of(1000, 3);
  cache.insert("key", bytes);
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  const auto size = fs::file_size(file);
  // Every byte at the beginning, and some of the others; every length.
  for (size_t at = 0; at < size; at += at < 64 ? 1 : 97) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<long>(at)).put('\x5a');
    const auto found = bytes_kept(cache, "key");
    EXPECT_TRUE(!found || *found == bytes) << "byte " << at;
    cache.insert("key", bytes);
    ASSERT_EQ(bytes_kept(cache, "key"), bytes);
  }
  for (size_t length = 0; length < size; length += length < 64 ? 1 : 97) {
    fs::resize_file(file, length);
    EXPECT_FALSE(bytes_kept(cache, "key")) << "length " << length;
    EXPECT_TRUE(files().empty()) << "a damaged entry is removed";
    cache.insert("key", bytes);
    ASSERT_EQ(bytes_kept(cache, "key"), bytes);
  }
}

TEST_F(DiskCacheTest, IsBoundedAndDropsWhatWasNotUsedForLongest) {
  constexpr int64_t kMost = 100'000;
  const DiskCache cache(folder, kMost);
  const auto key = [](int k) { return "key " + std::to_string(k); };
  // Times of files may be coarse: entries are made older by hand.
  const auto age = [&](std::chrono::seconds by) {
    for (const fs::path& p : files()) fs::last_write_time(p, fs::last_write_time(p) - by);
  };
  for (int k = 0; k < 40; ++k) {
    cache.insert(key(k), bytes_of(5000, static_cast<uint8_t>(k)));
    age(std::chrono::seconds(10));
    EXPECT_TRUE(bytes_kept(cache, key(0))) << "used all the time, after " << k;
    EXPECT_LE(kept_bytes(), kMost);
  }
  EXPECT_FALSE(bytes_kept(cache, key(1)));
  EXPECT_EQ(bytes_kept(cache, key(39)), bytes_of(5000, 39));
  cache.insert("large", bytes_of(kMost / 2, 0));
  EXPECT_FALSE(bytes_kept(cache, "large"));
  EXPECT_TRUE(bytes_kept(cache, key(39))) << "an entry that would drive out all others is not kept";
}

TEST_F(DiskCacheTest, ProcessesSideBySideSeeWholeEntries) {
  const DiskCache cache(folder, 200'000);
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      for (int k = 0; k < 300; ++k) {
        const int entry = (k * 7 + p) % 12;
        const std::vector<uint8_t> bytes = bytes_of(20'000, static_cast<uint8_t>(entry));
        const auto found = bytes_kept(cache, "entry " + std::to_string(entry));
        if (found && *found != bytes) ++wrong;
        if (!found || k % 5 == 0) cache.insert("entry " + std::to_string(entry), bytes);
      }
      ::_exit(wrong == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_LE(kept_bytes(), 200'000 + kProcesses * 20'100);
  for (const fs::path& p : files()) EXPECT_EQ(p.extension(), ".kept") << "nothing unfinished is left";
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteToIsNotUsed) {
  const DiskCache cache(folder, 1 << 20);
  cache.insert("a", bytes_of(10, 1));
  ::chmod(folder.c_str(), 0777);
  EXPECT_FALSE(bytes_kept(cache, "a"));
  cache.insert("b", bytes_of(10, 1));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskCacheTest, AFolderThatCannotBeIsNoError) {
  const DiskCache cache("/proc/no/such/place", 1 << 20);
  cache.insert("a", bytes_of(10, 1));
  EXPECT_FALSE(bytes_kept(cache, "a"));
}

TEST_F(DiskCacheTest, TheEnvironmentSaysWhere) {
  const auto with = [](const char* cache, const char* xdg, const char* home) {
    const auto set = [](const char* name, const char* value) {
      if (value != nullptr) {
        ::setenv(name, value, 1);
      } else {
        ::unsetenv(name);
      }
    };
    set("STAX_CACHE", cache), set("XDG_CACHE_HOME", xdg), set("HOME", home);
    const auto made = user_cache();
    return made ? made->folder() : std::string();
  };
  const std::string home = ::getenv("HOME") != nullptr ? ::getenv("HOME") : "";
  EXPECT_EQ(with("/x/y", "/xdg", "/home/u"), "/x/y");
  EXPECT_EQ(with("off", "/xdg", "/home/u"), "");
  EXPECT_EQ(with(nullptr, "/xdg", "/home/u"), "/xdg/stax");
  EXPECT_EQ(with("", nullptr, "/home/u"), "/home/u/.cache/stax");
  EXPECT_EQ(with(nullptr, nullptr, nullptr), "");
  with("off", nullptr, home.c_str());
}

}  // namespace
}  // namespace stax
