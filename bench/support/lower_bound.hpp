// SPDX-License-Identifier: Apache-2.0
// The least that a rank must move in a product, however much memory it has.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "partita/base/config.hpp"

namespace bench {

/// The memory-independent lower bound on the elements that some rank receives of A and B and sends of C, when each of
/// the three matrices is stored once, evenly over `ranks` ranks (Al Daas, Ballard, Grigori, Kumar and Rouse, "Tight
/// memory-independent parallel matrix multiplication communication lower bounds", SPAA 2022).
///
/// A rank that does 1/p of the mnk multiplications touches x, y and z elements of the three matrices, where
/// xyz >= (mnk/p)² (Loomis and Whitney), and no less than 1/p of each matrix. The least x + y + z under these
/// constraints, less the (mn + mk + nk)/p elements that it holds, must move. With the matrices' sizes s1 <= s2 <= s3:
/// as many of the three as possible take the same size; the largest ones are held at their least where that is more.
[[nodiscard]] inline double least_elements_moved(partita::index_t m, partita::index_t n, partita::index_t k,
                                                 int ranks) {
  const auto a = static_cast<double>(m) * static_cast<double>(k);
  const auto b = static_cast<double>(k) * static_cast<double>(n);
  const auto c = static_cast<double>(m) * static_cast<double>(n);
  std::array<double, 3> least{a / ranks, b / ranks, c / ranks};
  std::sort(least.begin(), least.end());
  // (mnk)² is the product of the three sizes.
  const double volume = a * b * c / (static_cast<double>(ranks) * ranks);
  const double held = least[0] + least[1] + least[2];

  const double cube = std::cbrt(volume);  // three dimensions are cut
  if (cube >= least[2]) return 3 * cube - held;
  const double square = std::sqrt(volume / least[2]);  // two dimensions: the largest matrix does not move
  if (square >= least[1]) return 2 * square + least[2] - held;
  return volume / (least[1] * least[2]) + least[1] + least[2] - held;  // one dimension: only the smallest moves
}

}  // namespace bench
