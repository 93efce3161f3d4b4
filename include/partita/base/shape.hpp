// SPDX-License-Identifier: Apache-2.0
// Half-open ranges, matrix shapes and rectangular blocks of a matrix.
#pragma once

#include <string>

#include "partita/base/config.hpp"
#include "partita/base/error.hpp"

namespace partita {

/// The half-open interval [begin, end) of one dimension.
struct Range {
  index_t begin = 0;
  index_t end = 0;

  [[nodiscard]] constexpr index_t size() const noexcept { return end - begin; }
  [[nodiscard]] constexpr bool empty() const noexcept { return end <= begin; }
  [[nodiscard]] constexpr bool contains(index_t i) const noexcept { return begin <= i && i < end; }
  /// The same interval counted from `origin`.
  [[nodiscard]] constexpr Range relative_to(index_t origin) const noexcept { return {begin - origin, end - origin}; }

  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// Rows and columns of a matrix, global or local.
struct Shape {
  index_t rows = 0;
  index_t cols = 0;

  [[nodiscard]] constexpr index_t size() const noexcept { return rows * cols; }
  [[nodiscard]] constexpr Shape transposed() const noexcept { return {cols, rows}; }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// A rectangle of a matrix: rows × cols.
struct Block {
  Range rows;
  Range cols;

  [[nodiscard]] constexpr Shape shape() const noexcept { return {rows.size(), cols.size()}; }
  [[nodiscard]] constexpr index_t size() const noexcept { return rows.size() * cols.size(); }
  [[nodiscard]] constexpr Block transposed() const noexcept { return {cols, rows}; }

  friend constexpr bool operator==(const Block&, const Block&) = default;
};

[[nodiscard]] inline std::string to_string(Shape s) { return std::to_string(s.rows) + "x" + std::to_string(s.cols); }

/// a·b for sizes that come from a user. Throws CapacityError where the product leaves 64 bits or a factor is negative.
[[nodiscard]] constexpr index_t checked_product(index_t a, index_t b) {
  index_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    throw CapacityError("CapacityError: " + std::to_string(a) + " * " + std::to_string(b) +
                        " elements asked for; sizes must be at least 0 and their product below 2^63");
  }
  return product;
}

}  // namespace partita
