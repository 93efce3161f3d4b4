// SPDX-License-Identifier: Apache-2.0
// Products at the edges of their sizes and values, as they went wrong for users: what must hold for each pair of the
// table, on ranks of any kind.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double inf = std::numeric_limits<double>::infinity();

/// The product of the integer fills, C0 being `c0` everywhere.
inline Matrix<double> fill_product(const TableProduct& product, index_t m, index_t n, index_t k, double c0 = 0) {
  return product.multiply(m, n, k, fill_a, fill_b, [c0](index_t, index_t) { return c0; }, 1.0, 0.0);
}

/// G01: K = 0 gives beta times C.
inline void check_no_inner_dimension(const TableProduct& product) {
  for (const double beta : {0.0, 1.0, -2.5}) {
    const auto c0 = [beta](index_t i, index_t j) { return beta == 0 ? nan : static_cast<double>(fill_c(i, j)); };
    const auto c = product.multiply(7, 11, 0, fill_a, fill_b, c0, 1.0, beta);
    bool right = c.shape == Shape{7, 11};
    for (index_t i = 0; i < 7; ++i) {
      for (index_t j = 0; j < 11; ++j) {
        const double wanted = beta == 0 ? 0.0 : beta * static_cast<double>(fill_c(i, j));
        right = right && c(i, j) == wanted && (beta != 0 || !std::signbit(c(i, j)));
      }
    }
    CHECK(right);
    if (beta == 1) CHECK(fingerprint(c).sum == -3);
  }
}

/// G02: beta = 0 lets no NaN and no infinity of the old C through.
inline void check_old_result_unread(const TableProduct& product) {
  for (const double old : {nan, inf, -inf}) {
    const auto c = fill_product(product, 6, 6, 6, old);
    CHECK(fingerprint(c) == Fingerprint{-21, -849});
    CHECK(c(0, 0) == 13);
    CHECK(c(5, 5) == -36);
  }
}

/// G04: an inner dimension smaller than the grid.
inline void check_small_inner_dimension(const TableProduct& product) {
  const auto c = fill_product(product, 6, 6, 2);
  CHECK(fingerprint(c) == Fingerprint{-6, -246});
  const double first[] = {8, -17, 3, 5, 7, -18};
  for (index_t j = 0; j < 6; ++j) CHECK(c(0, j) == first[j]);
}

/// G06: a 1x1 product on many ranks.
inline void check_one_element(const TableProduct& product) {
  const auto six = [](index_t, index_t) { return 6.0; };
  const auto seven = [](index_t, index_t) { return 7.0; };
  const auto c = product.multiply(1, 1, 1, six, seven, [](index_t, index_t) { return 0.0; }, 1.0, 0.0);
  CHECK(c.shape == Shape{1, 1});
  CHECK(c(0, 0) == 42);
  // Who owns nothing says so: one rank along each axis that cuts holds the element.
  bool first = true;
  for (const AxisList& axes : {product.a.rows, product.a.cols}) {
    for (const int axis : axes) first = first && product.coordinates[static_cast<std::size_t>(axis)] == 0;
  }
  CHECK(product.a_local.size() == (first ? 1 : 0));
}

/// A NaN or infinity in one element of A reaches its row of C, one in B its column, and no other element; alpha = 0
/// reads neither operand, beta = 0 not the old result.
inline void check_bad_elements(const TableProduct& product) {
  for (const double bad : {nan, inf}) {
    const index_t m = 9, n = 8, k = 7;
    const auto ones = [](index_t, index_t) { return 1.0; };
    const auto row = product.multiply(
        m, n, k, [bad](index_t i, index_t j) { return i == 4 && j == 5 ? bad : 1.0; }, ones, ones, 2.0, 1.0);
    const auto col = product.multiply(
        m, n, k, ones, [bad](index_t i, index_t j) { return i == 6 && j == 3 ? bad : 1.0; }, ones, 2.0, 1.0);
    const auto old =
        product.multiply(m, n, k, ones, ones, [](index_t i, index_t j) { return i == j ? nan : 1.0; }, 2.0, 1.0);
    bool right = true;
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) {
        right =
            right && (i == 4 ? !std::isfinite(row(i, j)) && std::isnan(row(i, j)) == std::isnan(bad) : row(i, j) == 15);
        right =
            right && (j == 3 ? !std::isfinite(col(i, j)) && std::isnan(col(i, j)) == std::isnan(bad) : col(i, j) == 15);
        right = right && (i == j ? std::isnan(old(i, j)) : old(i, j) == 15);
      }
    }
    CHECK(right);
    const auto bads = [bad](index_t, index_t) { return bad; };
    const auto kept = product.multiply(m, n, k, bads, bads, fill_c, 0.0, 3.0);
    const auto zero = product.multiply(m, n, k, bads, bads, bads, 0.0, 0.0);
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) {
        right = right && kept(i, j) == 3 * static_cast<double>(fill_c(i, j)) && zero(i, j) == 0;
      }
    }
    CHECK(right);
  }
}

}  // namespace partita::test
