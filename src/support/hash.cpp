// SPDX-License-Identifier: Apache-2.0
#include "support/hash.h"

#include <array>
#include <cstring>

namespace stax {
namespace {

// Four independent lanes keep a multiplier busy. Each step is a bijection of the lane for a fixed word and of the word
// for a fixed lane, so one changed word always changes its lane, and the final combination keeps that.
constexpr std::size_t kLanes = 4;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kWordFactor = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kLaneFactor = 0x9FB21C651E98DF25U;

std::uint64_t load_word(const std::byte* bytes, std::size_t count) {
  std::uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, bytes, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) word |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return word;
}

std::uint64_t absorb(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane ^ (word * kWordFactor), 29) * kLaneFactor;
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::array<std::uint64_t, kLanes> lanes;
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix_bits(seed + i + 1);

  const std::byte* cursor = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLanes * kWordBytes; left -= kLanes * kWordBytes, cursor += kLanes * kWordBytes) {
    for (std::size_t i = 0; i < kLanes; ++i)
      lanes[i] = absorb(lanes[i], load_word(cursor + i * kWordBytes, kWordBytes));
  }
  for (std::size_t i = 0; left > 0; ++i) {
    const std::size_t count = left < kWordBytes ? left : kWordBytes;
    lanes[i] = absorb(lanes[i], load_word(cursor, count));
    cursor += count;
    left -= count;
  }

  std::uint64_t hash = mix_bits(bytes.size());
  for (const std::uint64_t lane : lanes) hash = combine_hashes(hash, lane);
  return hash;
}

std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

}  // namespace stax
