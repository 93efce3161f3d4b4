// SPDX-License-Identifier: Apache-2.0
// Loss scaling: overflow on one rank is everybody's, and the scale adapts.
#include <doctest/doctest.h>

#include <limits>

#include "partita/nn/loss_scaler.hpp"
#include "partita/nn/sgd.hpp"
#include "support/test_ranks.hpp"

namespace partita::test {
namespace {

TEST_CASE("loss scaler: an overflow on one rank leaves out the step on all, and halves the scale") {
  on_test_ranks(3, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 3);
    Parameter<half, ColumnShard<>, Replicated<>, TestContext> cut(
        "cut", from_function<half, ColumnShard<>>(grid, {2, 3}, [](index_t, index_t) { return half(1.0F); }));
    const std::vector refs{cut.ref()};
    Optimizer optimizer(refs, Sgd{.learning_rate = 0.5});
    LossScaler scaler({.initial = 8, .growth_interval = 3, .smallest = 2});
    const auto train = [&](bool overflows) {
      cut.zero();
      const bool here = overflows && context.rank() == 1;
      set_elements(cut.gradient(), [&](index_t i, index_t) {
        return here && i == 1 ? std::numeric_limits<float>::infinity()
                              : static_cast<float>(scaler.scale());  // 1, scaled
      });
      const bool finite = scaler.unscale(refs);
      if (finite) optimizer.step();
      return finite;
    };
    CHECK(train(false));
    CHECK(elements_of(cut.gradient())(0, 0) == 1);
    CHECK(static_cast<float>(elements_of(cut.value())(0, 0)) == 0.5F);
    CHECK(train(false));
    CHECK_FALSE(train(true));
    CHECK(static_cast<float>(elements_of(cut.value())(0, 0)) == 0);
    CHECK(optimizer.steps() == 2);
    CHECK(scaler.scale() == 4);
    CHECK_FALSE(train(true));
    CHECK_FALSE(train(true));
    CHECK(scaler.scale() == 2);                                  // not below the smallest
    for (const double scale : {2.0, 2.0, 4.0, 4.0, 4.0, 8.0}) {  // grows after three good steps in a row
      CHECK(train(false));
      CHECK(scaler.scale() == scale);
    }
  });
}

TEST_CASE("loss scaler: what fp16 flushes to zero survives at the scale, and NaN is found") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    const LossScaler scaler;
    const auto scaled =
        scaler.scaled(from_function<float, ColumnShard<>>(grid, {1, 2}, [](index_t, index_t) { return 1e-8; }));
    CHECK(static_cast<float>(half(1e-8F)) == 0);
    CHECK(static_cast<float>(half(elements_of(scaled)(0, 0))) / scaler.scale() == doctest::Approx(1e-8).epsilon(1e-3));

    Parameter<float, ColumnShard<>, Replicated<>, TestContext> cut("cut", zeros<float, ColumnShard<>>(grid, {1, 2}));
    LossScaler finder;
    set_elements(cut.gradient(), [&](index_t, index_t) { return context.rank() == 0 ? std::nanf("") : 1.0F; });
    CHECK_FALSE(finder.unscale(std::vector{cut.ref()}));
  });
}

TEST_CASE("loss scaler: numbers outside their domain") {
  CHECK_THROWS_AS(LossScaler({.initial = 0.5}), ArgumentError);
  CHECK_THROWS_AS(LossScaler({.growth = 0.5}), ArgumentError);
  CHECK_THROWS_AS(LossScaler({.growth_interval = 0}), ArgumentError);
  CHECK_THROWS_AS(LossScaler({.backoff = 0}), ArgumentError);
  CHECK_THROWS_AS(LossScaler({.smallest = 0}), ArgumentError);
}

}  // namespace
}  // namespace partita::test
