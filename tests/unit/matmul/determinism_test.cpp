// SPDX-License-Identifier: Apache-2.0
// The same product gives the same bits: on every run, whatever the timing of its ranks, and on every replica.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/threads.hpp"

namespace partita::test {
namespace {

template <class T, class P, class Grid>
auto random_of(const Grid& grid, Shape shape, std::uint64_t seed) {
  return random_uniform<T, P>(grid, shape, seed);
}

TEST_CASE("D01: products over delayed ranks have the bits of rank order, on every rank and in every run") {
  // Four contributions that only rank order sums to 1.
  const int repeats = sanitized ? 10 : 60;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    on_ranks(4, [repeat](ThreadContext& context) {
      DelayingSink sink(static_cast<std::uint32_t>(repeat * 4 + context.rank()), repeat % 10 == 0 ? 5000 : 300);
      const SinkScope scope(sink);
      const auto grid = make_grid<TpGrid<>>(context, 4);
      const float values[] = {1e8F, 1, -1e8F, 1};
      const auto x = from_function<float, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t) { return 1.0F; });
      const auto w = from_function<float, RowShard<>>(grid, {4, 1}, [&](index_t i, index_t) { return values[i]; });
      const auto y = matmul(x, w);
      CHECK(y.local()(0, 0) == 1.0F);
    });
  }
}

/// The results of one run, one after the other: each product of the table's kinds, on real data.
template <class Grid, class... Products>
std::vector<float> bits_of(const Grid&, const Products&... products) {
  std::vector<float> all;
  const auto add = [&](const auto& tensor) {
    const auto whole = gather(tensor);
    all.insert(all.end(), whole.elements.begin(), whole.elements.end());
  };
  (add(products), ...);
  return all;
}

std::vector<std::vector<float>> one_run(int ranks, std::uint32_t seed) {
  std::vector<std::vector<float>> found(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](ThreadContext& context) {
    DelayingSink sink(seed * 64 + static_cast<std::uint32_t>(context.rank()), seed == 0 ? 1 : 400);
    const SinkScope scope(sink);
    auto& mine = found[static_cast<std::size_t>(context.rank())];
    const MatmulOptions narrow{.panel_width = 7};
    const auto grid = make_grid<TpGrid<>>(context, ranks);
    const auto x = random_of<float, ColumnShard<>>(grid, {10, 1000}, 1);
    const auto w = random_of<float, RowShard<>>(grid, {1000, 10}, 2);
    const auto y = matmul(x, w);
    mine = bits_of(grid, y, matmul(transposed(w), w));
    // A replica is not gathered: each rank shows its own copy.
    for (index_t i = 0; i < 10; ++i) mine.insert(mine.end(), y.local().row(i), y.local().row(i) + 10);
    if (ranks == 4) {
      const auto square = make_grid<Grid2D<>>(context, 2, 2);
      const auto a = random_of<float, Summa2D<>>(square, {33, 29}, 3);
      const auto b = random_of<float, Summa2D<>>(square, {29, 31}, 4);
      const auto c = matmul(a, b, narrow);
      const auto more = bits_of(square, c, matmul(c, transposed(b), narrow), matmul(transposed(a), c, narrow));
      mine.insert(mine.end(), more.begin(), more.end());
    }
    if (ranks == 8) {
      const auto cube = make_grid<Grid25D<>>(context, 2, 2, 2);
      const auto a = random_of<float, Summa25D<>>(cube, {33, 29}, 3);
      const auto b = random_of<float, SplitKRight<>>(cube, {29, 31}, 4);
      const auto l = random_of<float, SplitKLeft<>>(cube, {33, 29}, 3);
      const auto gradient = matmul(transposed(a), a, narrow);  // summed over Depth
      const auto more = bits_of(cube, gradient, matmul(l, b, narrow));
      mine.insert(mine.end(), more.begin(), more.end());
      // Copies along Depth: all-reduce the difference to the first layer's copy.
      const index_t n = gradient.local().size();
      std::vector<float> first(static_cast<std::size_t>(n));
      for (index_t i = 0; i < gradient.local().rows; ++i) {
        for (index_t j = 0; j < gradient.local().cols; ++j) {
          first[static_cast<std::size_t>(i * gradient.local().cols + j)] = gradient.local()(i, j);
        }
      }
      const std::vector<float> own = first;
      cube.ranks().comm(AxisList{0}).broadcast(row_view(first.data(), n), 0).wait();
      CHECK(own == first);
    }
  });
  return found;
}

TEST_CASE("D01: real products are bitwise equal on all ranks and from run to run") {
  for (const int ranks : {3, 4, 8}) {
    const auto reference = one_run(ranks, 0);
    CHECK(reference.front().size() >= 300);
    for (const auto& of_rank : reference) CHECK(of_rank == reference.front());
    const int repeats = sanitized ? 3 : 20;
    for (int repeat = 1; repeat <= repeats; ++repeat) {
      const auto again = one_run(ranks, static_cast<std::uint32_t>(repeat));
      CAPTURE(ranks);
      CAPTURE(repeat);
      CHECK(again == reference);
    }
  }
}

}  // namespace
}  // namespace partita::test
