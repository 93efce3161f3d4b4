// SPDX-License-Identifier: Apache-2.0
// The integer matrices of the cases, whose products are exact in every scalar type.
#pragma once

#include "partita/base/config.hpp"

namespace partita::test {

constexpr index_t fill_a(index_t i, index_t j) { return (3 * i + 5 * j) % 7 - 3; }
constexpr index_t fill_b(index_t i, index_t j) { return (2 * i + 7 * j) % 9 - 4; }
constexpr index_t fill_c(index_t i, index_t j) { return (i + 2 * j) % 5 - 2; }

/// The sum of all elements, and the sum of each times its 1-based position in row-major order.
struct Fingerprint {
  double sum = 0;
  double weighted = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

template <class M>
Fingerprint fingerprint(const M& matrix) {
  Fingerprint f;
  for (index_t i = 0; i < matrix.shape.rows; ++i) {
    for (index_t j = 0; j < matrix.shape.cols; ++j) {
      const auto x = static_cast<double>(matrix(i, j));
      f.sum += x;
      f.weighted += x * static_cast<double>(i * matrix.shape.cols + j + 1);
    }
  }
  return f;
}

}  // namespace partita::test
