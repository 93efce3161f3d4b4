// SPDX-License-Identifier: Apache-2.0
// One row for each sequence, its first token or the mean, under every strategy.
#include "partita/nn/class_token.hpp"

#include <doctest/doctest.h>

#include <array>

#include "support/layers.hpp"

namespace partita::test {
namespace {

TEST_CASE("class token and mean of tokens: one row for each sequence, and back, without communication") {
  for_strategies([](const auto& grid, auto strategy) {
    using P = typename decltype(strategy)::Stream;
    CAPTURE(strategy_text(grid, strategy));
    for (const auto& [count, length, features] : {std::array<index_t, 3>{3, 5, 2},
                                                  {1, 1, 1},
                                                  {5, 2, 7},
                                                  {4, 3, 4},
                                                  {0, 3, 2},
                                                  {7, 4, 1},
                                                  {2, 6, 3},
                                                  {6, 1, 5}}) {
      const Matrix<double> x = random_matrix({count * length, features}, 1);
      const Matrix<double> dy = random_matrix({count, features}, 2);
      Matrix<double> firsts(dy.shape), means(dy.shape), first_dx(x.shape), mean_dx(x.shape);
      for (index_t s = 0; s < count; ++s) {
        for (index_t j = 0; j < features; ++j) {
          firsts(s, j) = x(s * length, j);
          first_dx(s * length, j) = dy(s, j);
          for (index_t t = 0; t < length; ++t) {
            means(s, j) += x(s * length + t, j) / static_cast<double>(length);
            mean_dx(s * length + t, j) = dy(s, j) / static_cast<double>(length);
          }
        }
      }
      const Units units{length, 1};
      const auto check = [&](auto layer, const Matrix<double>& y, const Matrix<double>& dx) {
        static_assert(Layer<decltype(layer)>);
        const auto input = distributed<double, P>(grid, x, units);
        const Traffic before = grid.context().comm().traffic();
        const auto found = layer.forward(input.clone());
        const auto back = layer.backward(distributed<double, P>(grid, dy));
        CHECK(grid.context().comm().traffic() == before);
        CHECK(found->units() == Units{});
        CHECK(back->units() == units);
        CHECK(relative_difference(whole(found), y) <= 1e-15);
        CHECK(relative_difference(whole(back), dx) <= 1e-15);
      };
      check(ClassToken<double, P, TestContext>(), firsts, first_dx);
      check(MeanToken<double, P, TestContext>(), means, mean_dx);
      ClassToken<double, P, TestContext> layer;
      CHECK_THROWS_AS((void)layer.forward(distributed<double, P>(grid, random_matrix({5, 2}, 1), {2, 1})), ShapeError);
      CHECK_THROWS_AS((void)layer.backward(distributed<double, P>(grid, dy)), ArgumentError);
    }
  });
}

}  // namespace
}  // namespace partita::test
