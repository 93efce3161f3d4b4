// SPDX-License-Identifier: Apache-2.0
// Seeds of a composed layer's parts from its own.
#pragma once

#include "partita/tensor/random.hpp"

namespace partita {

/// The seed of part number `part` of a layer that was given `seed`. Sums would not do: the second part of the layer
/// with seed 0 would draw what the first part of the layer with seed 1 draws.
[[nodiscard]] constexpr std::uint64_t seed_of_part(std::uint64_t seed, index_t part) noexcept {
  return random_bits(seed, part, 0, 0xFFFFFFFFU);  // a lane that no draw of elements has
}

}  // namespace partita
