// SPDX-License-Identifier: Apache-2.0
// What is multiplied: the sizes of a product, and data on which every order of summation gives the same bits.
#pragma once

#include <cstdint>
#include <string>

#include "partita/base/shape.hpp"
#include "partita/base/view.hpp"

namespace bench {

using partita::Block;
using partita::index_t;
using partita::Shape;
using partita::View;

/// C[m,n] = op(A)·op(B), where A and B are stored as they are or transposed.
struct Problem {
  const char* name;
  index_t m, n, k;
  bool transpose_a = false;
  bool transpose_b = false;

  [[nodiscard]] constexpr double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  [[nodiscard]] constexpr Shape stored_a() const { return transpose_a ? Shape{k, m} : Shape{m, k}; }
  [[nodiscard]] constexpr Shape stored_b() const { return transpose_b ? Shape{n, k} : Shape{k, n}; }
};

inline constexpr std::uint32_t seed_of_a = 1;
inline constexpr std::uint32_t seed_of_b = 2;

/// Element (i, j) of a stored matrix: an integer from -3 to 3, mixed so that no two rows or columns are alike. Sums of
/// up to a million products of such numbers are exact in fp32, so that results of whatever algorithm must be equal.
[[nodiscard]] inline int element(std::uint32_t seed, index_t i, index_t j) {
  std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B1U ^ (static_cast<std::uint32_t>(j) + seed) * 0x85EBCA77U;
  x ^= x >> 15;
  x *= 0x2C1B3C6DU;
  x ^= x >> 13;
  return static_cast<int>(((x & 0xffffU) * 7U) >> 16) - 3;
}

/// Fills the view with the rectangle `block` of the matrix.
template <class T>
void fill(View<T> out, Block block, std::uint32_t seed) {
  for (index_t i = 0; i < out.rows; ++i) {
    for (index_t j = 0; j < out.cols; ++j) {
      out(i, j) = static_cast<T>(element(seed, block.rows.begin + i, block.cols.begin + j));
    }
  }
}

template <class T>
[[nodiscard]] constexpr const char* scalar_name() {
  return sizeof(T) == 4 ? "f32" : "f64";
}

}  // namespace bench
