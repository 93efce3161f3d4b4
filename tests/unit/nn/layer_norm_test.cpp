// SPDX-License-Identifier: Apache-2.0
// The layer norm under every strategy, and the users' cases N01 and N03.
#include <doctest/doctest.h>

#include "partita/nn/layer_norm.hpp"
#include "support/compare.hpp"
#include "support/serial_layers.hpp"

namespace partita::test {
namespace {

struct NormCase {
  Matrix<double> x, dy, gain, shift;
  SerialRun serial;

  NormCase(Shape shape, std::uint64_t seed)
      : x(random_matrix(shape, seed)),
        dy(random_matrix(shape, seed + 1)),
        gain(random_matrix({1, shape.cols}, seed + 2)),
        shift(random_matrix({1, shape.cols}, seed + 3)),
        serial(serial_run(x, dy, {&gain, &shift}, [this] { return serial_norm(x, gain, shift); })) {}
};

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> cases;
  std::uint64_t seed = 0;
  for (const Shape shape : {Shape{8, 4}, Shape{13, 7}, Shape{1, 2}, Shape{3, 17}, Shape{24, 12}, Shape{5, 3},
                            Shape{2, 2}, Shape{0, 4}, Shape{4, 1}}) {
    cases.emplace_back(shape, seed += 10);
  }
  return cases;
}

template <class T, class P, class Handle>
void check_norm(const Handle& grid, const NormCase& c, double forward_limit, double gradient_limit) {
  using L = LayerNorm<T, P, TestContext>;
  static_assert(Layer<L>);
  L layer(grid, "norm", c.x.shape.cols);
  assign_parameters(layer, {c.gain, c.shift});
  const auto found = run_layer(layer, grid, c.x, c.dy, {c.x.shape.rows % 2 == 0 ? 2 : 1, 1});
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(relative_difference(found.y, c.serial.y) <= forward_limit);
  CHECK(relative_difference(found.dx, c.serial.dx) <= gradient_limit);
  CHECK(gradient_difference(layer, c.serial.gradients) <= gradient_limit);
}

TEST_CASE("layer norm: values, gradients and counts under every strategy and shape") {
  const std::vector<NormCase> cases = norm_cases();
  for_strategies([&](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const NormCase& c : cases) {
      CAPTURE(to_string(c.x.shape));
      check_norm<double, typename S::Stream>(grid, c, 1e-12, 1e-6);
      check_norm<double, typename S::Inner>(grid, c, 1e-12, 1e-6);
      // Two features leave a gradient of the order of eps, by cancellation.
      check_norm<float, typename S::Stream>(grid, c, 1e-5, 1e-3);
      check_norm<float, typename S::Inner>(grid, c, 1e-5, 1e-3);
    }
  });
}

TEST_CASE("N01: a large mean does not spoil the variance") {
  for (const int ranks : {1, 2, 4}) {
    std::vector<Matrix<float>> found(static_cast<std::size_t>(ranks));
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      LayerNorm<float, ColumnShard<>, TestContext> layer(grid, "norm", 4);
      const auto y = layer.forward(
          from_function<float, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t j) { return 40000 + j; }));
      found[static_cast<std::size_t>(context.rank())] = whole(y);
    });
    Matrix<double> wanted({1, 4});
    wanted.elements = {-1.341635, -0.447212, 0.447212, 1.341635};
    for (const Matrix<float>& y : found) {
      for (std::size_t j = 0; j < 4; ++j) CHECK(std::abs(y.elements[j] - wanted.elements[j]) <= 1e-5);
      CHECK(compare_exact(y, found[0]) == "");
    }
  }
}

TEST_CASE("N03: gradients of gain and shift are summed over the ranks that share the rows, and replicas stay equal") {
  Matrix<double> x({4, 2}), dy({4, 2});
  x.elements = {1, 3, 2, 4, 0, 2, 5, 7};
  dy.elements = {1, 1, 2, 2, 3, 3, 4, 4};
  for (const int ranks : {2, 4}) {
    std::vector<std::vector<double>> values(static_cast<std::size_t>(ranks));
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      LayerNorm<double, RowShard<>, TestContext> layer(grid, "norm", 2);
      for (int step = 0; step < 3; ++step) {
        zero_gradients(layer);
        (void)layer.forward(distributed<double, RowShard<>>(grid, x));
        (void)layer.backward(distributed<double, RowShard<>>(grid, dy));
        const auto dgain = all_reduce(layer.gain().gradient());
        const auto dshift = all_reduce(layer.shift().gradient());
        if (step == 0) {
          CHECK(whole(dshift).elements == std::vector<double>{10, 10});
          CHECK(std::abs(whole(dgain)(0, 0) + 10 * 0.999995) <= 1e-5);
          CHECK(std::abs(whole(dgain)(0, 1) - 10 * 0.999995) <= 1e-5);
        }
        const auto descend = [](auto& value, const auto& gradient) {
          const auto w = elements_of(value), g = elements_of(gradient);
          set_elements(value, [&](index_t i, index_t j) { return w(i, j) - 0.1 * g(i, j); });
        };
        descend(layer.gain().value(), dgain);
        descend(layer.shift().value(), dshift);
      }
      for (const auto& parameter : parameters_of(layer)) {
        for (const double value : elements_of(context, parameter.value).elements) {
          values[static_cast<std::size_t>(context.rank())].push_back(value);
        }
      }
    });
    for (const auto& replica : values) CHECK(replica == values[0]);
    CHECK(values[0][0] != 1);
  }
}

TEST_CASE("layer norm: features that may be cut at a unit only, and what does not fit") {
  for (const int ranks : {1, 3}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      const NormCase c({5, 8}, 7);
      using P = ColumnShard<>;
      LayerNorm<double, P, TestContext> layer(grid, "norm", 8, {.unit = 4});
      assign_parameters(layer, {c.gain, c.shift});
      const auto found = run_layer(layer, grid, c.x, c.dy, {1, 4});
      CHECK(relative_difference(found.y, c.serial.y) <= 1e-12);
      CHECK(relative_difference(found.dx, c.serial.dx) <= 1e-6);

      CHECK_THROWS_AS((void)layer.forward(zeros<double, P>(grid, {5, 8})), UnitError);
      CHECK_THROWS_AS((void)layer.forward(zeros<double, P>(grid, {5, 4}, {1, 4})), ShapeError);
      CHECK_THROWS_AS((void)layer.backward(zeros<double, P>(grid, {5, 8}, {1, 4})), ArgumentError);
      (void)layer.forward(zeros<double, P>(grid, {5, 8}, {1, 4}));
      CHECK_THROWS_AS((void)layer.backward(zeros<double, P>(grid, {4, 8}, {1, 4})), ShapeError);
      CHECK_THROWS_AS((void)layer.backward(zeros<double, P>(grid, {5, 8})), UnitError);
      layer.forget();
      CHECK_THROWS_AS((void)layer.backward(zeros<double, P>(grid, {5, 8}, {1, 4})), ArgumentError);
    });
  }
}

}  // namespace
}  // namespace partita::test
