// SPDX-License-Identifier: Apache-2.0
// Fused sums of gradients: values, counts, when they begin, accumulation, and what is refused.
#include <doctest/doctest.h>

#include "partita/nn/gradient_sums.hpp"
#include "support/compare.hpp"
#include "support/two_layers.hpp"

namespace partita::test {
namespace {

const Matrix<double> x = random_matrix({11, 5}, 1);
const Matrix<double> target = random_matrix({11, 3}, 2);
const Matrix<double> more_x = random_matrix({9, 5}, 3);
const Matrix<double> more_target = random_matrix({9, 3}, 4);

template <class M>
void check_gradients(M& model, const SerialTwoLayers& serial) {
  std::size_t i = 0;
  model.for_each_parameter([&](auto& parameter) {
    CAPTURE(parameter.name());
    CHECK(relative_difference(whole_summed(parameter), serial.gradients[i++]) <= 1e-13);
  });
}

TEST_CASE("gradient sums: the serial gradients in buckets of any size, and the traffic of their steps") {
  for_strategies([](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    auto model = two_layers<double>(grid, strategy);
    SerialTwoLayers serial = serial_of(model);
    serial.add_gradients(x, target);
    auto& context = grid.context();
    const Place place = place_of(grid.ranks());
    const Extent2D extent{x.shape, {}};
    int buckets = 1000;
    for (const index_t bytes : {index_t{1}, index_t{200}, index_t{4} << 20}) {
      CAPTURE(bytes);
      GradientSums sums(model, {.bucket_bytes = bytes});
      CHECK(sums.bucket_count() <= buckets);
      buckets = sums.bucket_count();
      Count price = count_of(forward_schedule(model, place, extent));
      const auto add = [&price](const Step& step) { add_step(step, price); };
      model.backward_steps(place, extent, add);
      sums.steps(place, add);
      for (int round = 0; round < 2; ++round) {
        zero_gradients(model);
        const Traffic before = context.comm().traffic();
        pass<double>(model, grid, x, target);
        sums.finish();
        CHECK(uncounted(context, before, price) == "");
        check_gradients(model, serial);
      }
    }
    zero_gradients(model);
    pass<double>(model, grid, x, target);
    sum_gradients(model);
    check_gradients(model, serial);
  });
}

TEST_CASE("gradient sums: passes are accumulated, and parameters that none reaches are summed too") {
  for_strategies([](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    auto model = two_layers<double>(grid, strategy);
    SerialTwoLayers serial = serial_of(model);
    serial.add_gradients(x, target);
    serial.add_gradients(more_x, more_target);
    GradientSums sums(model, {.passes = 2});
    for (int round = 0; round < 2; ++round) {
      zero_gradients(model);
      pass<double>(model, grid, x, target);
      pass<double>(model, grid, more_x, more_target);
      sums.finish();
      check_gradients(model, serial);
    }
    // One pass of two: nothing has begun when finish() is called.
    serial.zero();
    serial.add_gradients(x, target);
    zero_gradients(model);
    pass<double>(model, grid, x, target);
    sums.finish();
    check_gradients(model, serial);
    // None.
    zero_gradients(model);
    sums.finish();
    serial.zero();
    check_gradients(model, serial);
  });
}

/// Tokens over both axes, so that there are two sets of axes: a weight's sum and a bias's.
using Deep = TwoAndAHalfDimensional<>;

TEST_CASE("gradient sums: begin during backward, one all_reduce for each bucket, in one order on all ranks") {
  on_test_ranks(8, [](TestContext& context) {
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    auto model = two_layers<double>(grid, Deep{});
    GradientSums sums(model);
    CHECK(sums.bucket_count() == 2);
    const auto sums_of = [](const RecordingSink& sink) {
      std::string text;
      for (const Event& e : sink.events) {
        if (std::string_view(e.operation) == "all_reduce") text += std::to_string(e.size) + " ";
      }
      return text;
    };
    for (int round = 0; round < 2; ++round) {
      RecordingSink backward;
      {
        const SinkScope scope(backward);
        pass<double>(model, grid, x, target);
      }
      RecordingSink rest;
      {
        const SinkScope scope(rest);
        sums.finish();
      }
      CHECK(sums_of(backward) == "2 4 ");  // weights along Depth; then the biases along Depth and Row
      CHECK(sums_of(rest) == "");
    }
  });
}

TEST_CASE("gradient sums: more buckets than communicators take at once") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using P = Parameter<double, Replicated<>, RowShard<>, TestContext>;
    std::vector<std::unique_ptr<P>> parameters;
    std::vector<ParameterRef<double, TestContext>> refs;
    for (int i = 0; i < 100; ++i) {
      parameters.push_back(std::make_unique<P>("p" + std::to_string(i), zeros<double, Replicated<>>(grid, {2, 3})));
      refs.push_back(parameters.back()->ref());
    }
    GradientSums sums(refs, {.bucket_bytes = 1});
    CHECK(sums.bucket_count() == 100);
    for (int i = 0; i < 100; ++i) {
      set_elements(context, refs[static_cast<std::size_t>(i)].gradient,
                   [&](index_t, index_t) { return i + context.rank(); });
      parameters[static_cast<std::size_t>(i)]->contribute();
    }
    sums.finish();
    for (int i = 0; i < 100; ++i) {
      CHECK(elements_of(context, refs[static_cast<std::size_t>(i)].gradient)(1, 2) == 2 * i + 1);
    }
  });
}

TEST_CASE("gradient sums: a parameter that layers share is summed once, when all have added to it") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    Parameter<double, Replicated<>, RowShard<>, TestContext> shared("shared",
                                                                    zeros<double, Replicated<>>(grid, {1, 1}));
    shared.share();
    GradientSums sums(std::vector{shared.ref()});
    for (int round = 0; round < 2; ++round) {
      shared.zero();
      set_elements(shared.gradient(), [](index_t, index_t) { return 1; });
      shared.contribute();
      set_elements(shared.gradient(), [](index_t, index_t) { return 11; });
      shared.contribute();
      sums.finish();
      CHECK(elements_of(shared.gradient())(0, 0) == 22);
    }
  });
}

TEST_CASE("gradient sums: what is refused, and what is left when they go early") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 4);
    auto model = two_layers<double>(grid, SequenceParallel<>{});
    using Sums = GradientSums<double, TestContext>;
    CHECK_THROWS_AS(Sums(model, {.bucket_bytes = 0}), ArgumentError);
    CHECK_THROWS_AS(Sums(model, {.passes = 0}), ArgumentError);
    {
      GradientSums sums(model);
      CHECK_THROWS_WITH_AS(Sums{model},
                           "ArgumentError: the gradient of first.weight is summed by another GradientSums; finish that "
                           "one, or destroy it first",
                           ArgumentError);
      pass<double>(model, grid, x, target);
      CHECK_THROWS_AS(pass<double>(model, grid, x, target), ArgumentError);
      model.forget();
      sums.finish();
    }
    pass<double>(model, grid, x, target);  // tells nobody
  });
  for (const bool all : {false, true}) {
    CHECK_THROWS_WITH(on_test_ranks(4,
                                    [all](TestContext& context) {
                                      const auto grid = make_grid<TpGrid<>>(context, 4);
                                      auto model = two_layers<double>(grid, SequenceParallel<>{});
                                      GradientSums sums(model);
                                      pass<double>(model, grid, x, target);
                                      if (all || context.rank() == 2) throw std::runtime_error("boom");
                                      sums.finish();
                                    }),
                      "boom");
  }
}

}  // namespace
}  // namespace partita::test
