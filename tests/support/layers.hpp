// SPDX-License-Identifier: Apache-2.0
// Layers under every strategy: the grids to run them on, a strategy that only the tests define, whole values and
// gradients, and central differences.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/nn/activation.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/parameter.hpp"
#include "partita/nn/strategy.hpp"
#include "support/test_ranks.hpp"

namespace partita::test {

/// Axes of the tests' own: data and model parallelism together, under no name that the library knows.
struct Batch {
  static constexpr std::string_view name = "Batch";
};
struct Lane {
  static constexpr std::string_view name = "Lane";
};
using OwnGrid = Grid<Axis<Lane, dynamic>, Axis<Batch, dynamic>>;
using OwnStrategy = Strategy<Partition<OwnGrid, RowsOver<Batch>>, Partition<OwnGrid, RowsOver<Batch>, ColsOver<Lane>>,
                             Partition<OwnGrid, RowsOver<>, ColsOver<Lane>>, Partition<OwnGrid, RowsOver<Lane>>>;

/// Calls body(grid, Strategy{}) on every rank of each grid of each strategy: four named ones, and the tests' own. The
/// extents are dynamic, so that a body is compiled five times. On devices three strategies, on one grid each.
template <class Body>
void for_strategies(Body body) {
  const auto sequence_parallel = [&](int p) {
    on_test_ranks(p, [&](TestContext& context) { body(make_grid<TpGrid<>>(context, p), SequenceParallel<>{}); });
  };
  const auto two_dimensional = [&](int r, int c) {
    on_test_ranks(r * c, [&](TestContext& context) { body(make_grid<Grid2D<>>(context, r, c), TwoDimensional<>{}); });
  };
  const auto two_and_a_half_dimensional = [&](int q, int d) {
    on_test_ranks(q * q * d, [&](TestContext& context) {
      body(make_grid<Grid25D<>>(context, d, q, q), TwoAndAHalfDimensional<>{});
    });
  };
  sequence_parallel(2);
  two_dimensional(2, 2);
  two_and_a_half_dimensional(2, 2);
#ifndef PARTITA_TEST_RANKS
  sequence_parallel(4);
  for (const auto& [r, c] : {std::pair{2, 3}, std::pair{3, 1}}) two_dimensional(r, c);
  for (const auto& [q, d] : {std::pair{1, 4}, std::pair{2, 1}}) two_and_a_half_dimensional(q, d);
  for (const int p : {1, 2, 3, 4}) {
    on_test_ranks(p, [&](TestContext& context) { body(make_grid<TpGrid<>>(context, p), ColumnRow<>{}); });
  }
  for (const auto& [l, b] : {std::pair{2, 2}, std::pair{3, 2}}) {
    on_test_ranks(l * b, [&](TestContext& context) { body(make_grid<OwnGrid>(context, l, b), OwnStrategy{}); });
  }
#endif
}

/// "{rows over Batch} on Grid<Lane 2, Batch 2>": what a failing check says of the strategy.
template <class S, class GridHandle>
std::string strategy_text(const GridHandle& grid, S) {
  const auto names = std::span<const std::string_view>(S::grid_type::names);
  return "stream " + layout_text(S::Stream::layout, names) + ", inner " + layout_text(S::Inner::layout, names) +
         " on " + detail::grid_text(names, grid.ranks().extents());
}

/// The whole of a tensor on every rank, a pending sum finished first.
template <class T, class P, class Ctx>
Matrix<T> whole(const DistTensor<T, P, Ctx>& tensor) {
  if constexpr (P::layout.partial.empty()) {
    return gather(to_host(tensor));
  } else {
    return gather(to_host(all_reduce(tensor)));
  }
}
template <class T, class P, class Ctx>
Matrix<T> whole(const Activation<T, P, Ctx>& activation) {
  return whole(*activation);
}

/// The largest difference of two matrices over the largest element of `wanted` (at least 1e-3); infinite where a shape
/// differs or an element is not a number.
template <class X, class Y>
double relative_difference(const Matrix<X>& found, const Matrix<Y>& wanted) {
  if (found.shape != wanted.shape) return HUGE_VAL;
  double difference = 0;
  double largest = 1e-3;
  for (std::size_t i = 0; i < wanted.elements.size(); ++i) {
    const auto x = static_cast<double>(found.elements[i]);
    const auto y = static_cast<double>(wanted.elements[i]);
    if (!(std::abs(x - y) < HUGE_VAL)) return HUGE_VAL;
    difference = std::max(difference, std::abs(x - y));
    largest = std::max(largest, std::abs(y));
  }
  return difference / largest;
}

/// The gradient of `loss` at x by central differences; `loss` reads x.
inline Matrix<double> central_differences(Matrix<double>& x, const std::function<double()>& loss, double h = 1e-5) {
  Matrix<double> gradient(x.shape);
  for (std::size_t i = 0; i < x.elements.size(); ++i) {
    const double kept = x.elements[i];
    x.elements[i] = kept + h;
    const double above = loss();
    x.elements[i] = kept - h;
    const double below = loss();
    x.elements[i] = kept;
    gradient.elements[i] = (above - below) / (2 * h);
  }
  return gradient;
}

/// Uniform in (-1, 1), the same on all ranks.
inline Matrix<double> random_matrix(Shape shape, std::uint64_t seed) {
  Matrix<double> matrix(shape);
  for (index_t i = 0; i < shape.rows; ++i) {
    for (index_t j = 0; j < shape.cols; ++j) matrix(i, j) = 2 * random_unit(seed, i, j) - 1;
  }
  return matrix;
}

/// This rank's block of `whole`, in the type T.
template <class T, class P, class GridHandle, class U>
auto distributed(const GridHandle& grid, const Matrix<U>& whole, Units units = {}) {
  return from_function<T, P>(
      grid, whole.shape,
      [&](index_t i, index_t j) {
        if constexpr (is_storage_only_v<T>) {
          return static_cast<T>(static_cast<float>(whole(i, j)));
        } else {
          return static_cast<T>(whole(i, j));
        }
      },
      units);
}

inline Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> c({a.shape.rows, b.shape.cols});
  for (index_t i = 0; i < c.shape.rows; ++i) {
    for (index_t k = 0; k < a.shape.cols; ++k) {
      for (index_t j = 0; j < c.shape.cols; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

/// Σ weights·y: a loss whose gradient with respect to y is `weights`.
inline double weighted_sum(const Matrix<double>& y, const Matrix<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.elements.size(); ++i) sum += y.elements[i] * weights.elements[i];
  return sum;
}

/// The difference between what the communicator counted since `before` and the price of a schedule; empty where none.
template <class Ctx>
std::string uncounted(Ctx& context, const Traffic& before, const Count& price) {
  const Traffic moved = context.comm().traffic() - before;
  if (moved.elements == price.elements && moved.messages == price.messages) return {};
  return "counted " + std::to_string(moved.elements) + " elements in " + std::to_string(moved.messages) +
         " messages, the schedule says " + std::to_string(price.elements) + " in " + std::to_string(price.messages);
}

}  // namespace partita::test
