// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace stax {

// A bijection of 64-bit words in which each input bit moves about half of the output bits.
constexpr std::uint64_t mix_bits(std::uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93U;
  word ^= word >> 29;
  word *= 0xA0761D6478BD642FU;
  word ^= word >> 32;
  return word;
}

// Adds a hash to a running one; the order of additions counts.
constexpr std::uint64_t combine_hashes(std::uint64_t seed, std::uint64_t hash) {
  // The added constant keeps zeros from vanishing into a zero seed.
  return mix_bits(std::rotl(seed, 23) * 0x9E3779B97F4A7C15U + hash + 0x2545F4914F6CDD1DU);
}

// `seed = hash_combine(seed, a, b, c)` for anything that std::hash knows. Within one process only: std::hash has no
// fixed value. For keys that go to disk use `hash_bytes`.
template <typename... Values>
std::uint64_t hash_combine(std::uint64_t seed, const Values&... values) {
  ((seed = combine_hashes(seed, static_cast<std::uint64_t>(std::hash<Values>{}(values)))), ...);
  return seed;
}

// 64-bit hash of bytes: the same on every machine and in every version of Stax, for cache keys and file checksums. It
// is no defence against an adversary. A change within one aligned 8-byte word is always noticed, any other with
// probability 1 - 2^-64.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0);

}  // namespace stax
