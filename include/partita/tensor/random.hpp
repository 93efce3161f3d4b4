// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a pure function of seed and global index, so the same matrix whatever the partition.
#pragma once

#include <array>
#include <cstdint>

#include "partita/base/config.hpp"

namespace partita {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten rounds that
/// turn a counter of 128 bits and a key of 64 bits into 128 random bits.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                                std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// 64 random bits for element (i, j) of the stream `seed`; `lane` gives independent further values.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, index_t i, index_t j,
                                                  std::uint32_t lane = 0) noexcept {
  const auto row = static_cast<std::uint64_t>(i);
  const auto col = static_cast<std::uint64_t>(j);
  // Rows and columns below 2^48, lanes below 2^32.
  const auto words = philox4x32({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(col),
                                 static_cast<std::uint32_t>((row >> 32) << 16 | (col >> 32)), lane},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return std::uint64_t{words[0]} << 32 | words[1];
}

/// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] constexpr double random_unit(std::uint64_t seed, index_t i, index_t j, std::uint32_t lane = 0) noexcept {
  return static_cast<double>(random_bits(seed, i, j, lane) >> 11) * 0x1p-53;
}

}  // namespace partita
