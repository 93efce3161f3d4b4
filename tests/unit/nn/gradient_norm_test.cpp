// SPDX-License-Identifier: Apache-2.0
// The global norm of gradients and clipping, and the users' case L08.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "partita/nn/gradient_norm.hpp"
#include "support/two_layers.hpp"

namespace partita::test {
namespace {

TEST_CASE("L08: a replicated parameter counts once in the norm, a cut one with all its blocks") {
  for (const int ranks : {1, 2}) {
    on_test_ranks(ranks, [ranks](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      Parameter<double, ColumnShard<>, Replicated<>, TestContext> cut("cut",
                                                                      zeros<double, ColumnShard<>>(grid, {1, 2}));
      Parameter<double, Replicated<>, Replicated<>, TestContext> whole("whole",
                                                                       zeros<double, Replicated<>>(grid, {1, 1}));
      cut.gradient() = from_function<double, ColumnShard<>>(grid, {1, 2}, [](index_t, index_t j) { return 3 + j; });
      set_elements(whole.gradient(), [](index_t, index_t) { return 12; });
      const std::vector refs{cut.ref(), whole.ref()};
      CHECK(gradient_norm(refs) == 13);
      CHECK(clip_gradients(refs, 13) == 13);
      CHECK(elements_of(whole.gradient())(0, 0) == 12);
      CHECK(clip_gradients(refs, 6.5) == 13);
      CHECK(elements_of(whole.gradient())(0, 0) == 6);
      CHECK(clip_gradients(refs, 100) == 6.5);
      CHECK(gradient_norm(refs) == 6.5);
      for (const double bad : {0.0, -1.0, std::nan("")}) CHECK_THROWS_AS(clip_gradients(refs, bad), ArgumentError);
    });
  }
}

TEST_CASE("gradient norm: that of the global gradients, one message's worth, the same bits on all ranks") {
  for_strategies([](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    auto model = two_layers<float>(grid, strategy, {.tokens = 3, .in = 600, .hidden = 5, .out = 2});
    double squares = 0;
    std::uint64_t seed = 10;
    model.for_each_parameter([&](auto& parameter) {
      auto& gradient = parameter.gradient();
      const Block block = gradient.block();
      const auto element = [&seed](index_t i, index_t j) {
        return static_cast<float>(2 * random_unit(seed, i, j) - 1);
      };
      set_elements(gradient, [&](index_t i, index_t j) { return element(block.rows.begin + i, block.cols.begin + j); });
      for (index_t i = 0; i < gradient.shape().rows; ++i) {
        for (index_t j = 0; j < gradient.shape().cols; ++j)
          squares += static_cast<double>(element(i, j)) * element(i, j);
      }
      ++seed;
    });
    const auto refs = parameters_of(model);
    auto& context = grid.context();
    const Traffic before = context.comm().traffic();
    const double norm = gradient_norm(refs);
    Count price;
    gradient_norm_steps(place_of(grid.ranks()), grid.ranks().axes(), [&](const Step& step) { add_step(step, price); });
    CHECK(uncounted(context, before, price) == "");
    CHECK(norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-14));
    index_t bits = 0;
    std::memcpy(&bits, &norm, sizeof bits);
    CHECK(context.comm().agree(bits) == -context.comm().agree(-bits));
  });
}

TEST_CASE("gradient norm: where it is not finite, clipping leaves the gradients; without parameters it is 0") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    Parameter<float, ColumnShard<>, Replicated<>, TestContext> cut("cut", zeros<float, ColumnShard<>>(grid, {1, 2}));
    const std::vector refs{cut.ref()};
    const auto set = [&](float other) {
      set_elements(cut.gradient(), [&](index_t, index_t) { return context.rank() == 1 ? other : 5.0F; });
    };
    set(std::numeric_limits<float>::infinity());
    CHECK(std::isinf(clip_gradients(refs, 1)));
    CHECK(elements_of(cut.gradient())(0, 0) >= 5);
    set(std::nanf(""));
    CHECK(std::isnan(clip_gradients(refs, 1)));
    if (context.rank() == 0) CHECK(elements_of(cut.gradient())(0, 0) == 5);
  });
  CHECK(gradient_norm(std::vector<ParameterRef<float, TestContext>>{}) == 0);
}

}  // namespace
}  // namespace partita::test
