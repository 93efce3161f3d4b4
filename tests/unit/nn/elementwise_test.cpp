// SPDX-License-Identifier: Apache-2.0
// Gelu, Relu, dropout and the residual connection, and the users' case L10.
#include <doctest/doctest.h>

#include "partita/nn/dropout.hpp"
#include "partita/nn/gelu.hpp"
#include "partita/nn/relu.hpp"
#include "partita/nn/residual.hpp"
#include "support/compare.hpp"
#include "support/serial_layers.hpp"

namespace partita::test {
namespace {

double tanh_gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("gelu and relu: values of the literature, tails and slopes") {
  CHECK(kernel::ExactGelu::value(1.0) == doctest::Approx(0.8413447460685429).epsilon(1e-15));
  CHECK(kernel::ExactGelu::value(-1.0) == doctest::Approx(-0.15865525393145707).epsilon(1e-15));
  CHECK(kernel::TanhGelu::value(1.0) == doctest::Approx(0.8411919906082768).epsilon(1e-15));
  CHECK(kernel::ExactGelu::value(-10.0F) < 0);  // where 1 + erf is zero
  CHECK(kernel::ExactGelu::value(30.0F) == 30);
  CHECK(kernel::TanhGelu::value(30.0F) == 30);
  CHECK(kernel::Relu::slope(0.0) == 0);
  CHECK(std::isnan(kernel::Relu::value(std::nan(""))));
}

/// A layer of one function on elements in (-4, 4), against the function and central differences of it.
template <class L, class Handle>
void check_function(const Handle& grid, Shape shape, double (*f)(double), double limit) {
  static_assert(Layer<L>);
  Matrix<double> x = random_matrix(shape, 3);
  for (double& element : x.elements) element *= 4;
  const Matrix<double> dy = random_matrix(shape, 4);
  Matrix<double> y(shape), dx(shape);
  for (std::size_t i = 0; i < x.elements.size(); ++i) {
    const double h = 1e-5;
    y.elements[i] = f(x.elements[i]);
    dx.elements[i] = dy.elements[i] * (f(x.elements[i] + h) - f(x.elements[i] - h)) / (2 * h);
  }
  L layer;
  const auto found = run_layer(layer, grid, x, dy, {shape.rows % 2 == 0 ? 2 : 1, 1});
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(relative_difference(found.y, y) <= limit);
  CHECK(relative_difference(found.dx, dx) <= std::max(limit, 1e-6));
  CHECK_THROWS_AS((void)layer.backward(distributed<typename L::value_type, typename L::output>(grid, y)),
                  ArgumentError);
}

constexpr Shape shapes[] = {{8, 4}, {13, 7}, {1, 1}, {3, 17}, {24, 12}, {5, 3}, {2, 2}, {0, 4}};

TEST_CASE("element-wise layers: values and gradients under every strategy and shape") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const Shape shape : shapes) {
      CAPTURE(to_string(shape));
      check_function<Gelu<double, typename S::Inner, TestContext>>(grid, shape, serial_gelu, 1e-13);
      check_function<Gelu<float, typename S::Inner, TestContext>>(grid, shape, serial_gelu, 1e-5);
      check_function<TanhGelu<double, typename S::Stream, TestContext>>(grid, shape, tanh_gelu, 1e-13);
      check_function<Relu<double, typename S::Stream, TestContext>>(
          grid, shape, [](double x) { return x > 0 ? x : 0; }, 1e-13);
    }
  });
}

TEST_CASE("residual: x + f(x) under every strategy and shape, and an f that does not fit") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    using P = typename S::Stream;
    using F = Gelu<double, P, TestContext>;
    static_assert(Layer<Residual<F>>);
    for (const Shape shape : shapes) {
      const Matrix<double> x = random_matrix(shape, 3), dy = random_matrix(shape, 4);
      F f;
      Residual<F> layer{F()};
      const auto inner = run_layer(f, grid, x, dy, {});
      const auto found = run_layer(layer, grid, x, dy, {});
      Matrix<double> y = inner.y, dx = inner.dx;
      for (std::size_t i = 0; i < y.elements.size(); ++i) {
        y.elements[i] += x.elements[i];
        dx.elements[i] += dy.elements[i];
      }
      CHECK(compare_exact(found.y, y) == "");
      CHECK(compare_exact(found.dx, dx) == "");
    }
  });
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using L = Linear<double, Replicated<>, Replicated<>, Replicated<>, TestContext>;
    Residual<L> narrower(L(grid, "narrower", 4, 3));
    CHECK_THROWS_AS((void)narrower.forward(zeros<double, Replicated<>>(grid, {2, 4})), ShapeError);
  });
}

/// The gathered mask of dropout at rate 1/2 on a matrix of ones.
template <class P, class Handle>
Matrix<double> mask_of(const Handle& grid, Shape shape, const DropoutOptions& options, const Pass& pass = {}) {
  Dropout<double, P, TestContext> layer(options);
  static_assert(Layer<Dropout<double, P, TestContext>>);
  Matrix<double> ones(shape);
  for (double& element : ones.elements) element = 1;
  const auto found = run_layer(layer, grid, ones, ones, {}, pass);
  CHECK(compare_exact(found.dx, found.y) == "");  // backward has the same mask
  return found.y;
}

TEST_CASE("L10: dropout draws one mask whatever the partition") {
  const DropoutOptions options{.rate = 0.5, .seed = 7};
  Matrix<double> serial;
  on_test_ranks(1, [&](TestContext& context) {
    serial = mask_of<Replicated<>>(make_grid<TpGrid<>>(context, 1), {8, 64}, options);
  });
  std::vector<Matrix<double>> replicas(4);
  on_test_ranks(4, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 4);
    Dropout<double, Replicated<>, TestContext> layer(options);
    const auto y =
        layer.forward(from_function<double, Replicated<>>(grid, {8, 64}, [](index_t, index_t) { return 1; }));
    Matrix<double>& mine = replicas[static_cast<std::size_t>(context.rank())];
    mine = elements_of(*y);
    CHECK(compare_exact(mask_of<ColumnShard<>>(grid, {8, 64}, options), serial) == "");
  });
  for (const Matrix<double>& mine : replicas) CHECK(compare_exact(mine, serial) == "");
  for_strategies([&](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CHECK(compare_exact(mask_of<typename S::Stream>(grid, {8, 64}, options), serial) == "");
    CHECK(compare_exact(mask_of<typename S::Inner>(grid, {8, 64}, options), serial) == "");
  });
  double kept = 0;
  for (const double m : serial.elements) {
    CHECK((m == 0 || m == 2));
    kept += m / 2;
  }
  CHECK(std::abs(kept / 512 - 0.5) <= 0.11);
  // Columns of different shards differ.
  for (index_t a = 0; a < 4; ++a) {
    for (index_t b = 0; b < a; ++b) {
      bool equal = true;
      for (index_t i = 0; i < 8; ++i) {
        for (index_t j = 0; j < 16; ++j) equal = equal && serial(i, 16 * a + j) == serial(i, 16 * b + j);
      }
      CHECK_FALSE(equal);
    }
  }
}

TEST_CASE("dropout: a mask for each seed and step, the identity where it does not train, and rates refused") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using P = RowShard<>;
    const Shape shape{9, 20};
    const auto draw = [&](std::uint64_t seed, std::uint64_t step) {
      return mask_of<P>(grid, shape, {.rate = 0.25, .seed = seed}, {.step = step}).elements;
    };
    CHECK(draw(1, 1) == draw(1, 1));
    CHECK(draw(1, 1) != draw(1, 2));
    CHECK(draw(1, 1) != draw(2, 1));
    CHECK(draw(1, 1) != draw(1, 1 + (std::uint64_t{1} << 32)));
    for (const double m : draw(1, 1)) CHECK((m == 0 || m == doctest::Approx(4.0 / 3)));
    double mean = 0;
    for (std::uint64_t step = 0; step < 20; ++step) {
      for (const double m : draw(5, step)) mean += m / (20 * 180);
    }
    CHECK(mean == doctest::Approx(1).epsilon(0.03));

    const Activation<double, P, TestContext> x = zeros<double, P>(grid, shape);
    Dropout<double, P, TestContext> layer({.rate = 0.25}), none({.rate = 0});
    CHECK(&*layer.forward(x, {.training = false}) == &*x);
    CHECK(&*layer.backward(x) == &*x);
    CHECK(&*none.forward(x) == &*x);
    CHECK_THROWS_AS((void)layer.backward(x), ArgumentError);
    // Infinite values are dropped, too.
    const auto y = layer.forward(from_function<double, P>(grid, shape, [](index_t, index_t) { return HUGE_VAL; }));
    for (const double element : whole(y).elements) CHECK((element == 0 || element == HUGE_VAL));
    for (const double rate : {-0.1, 1.0, 1.5, std::nan("")}) {
      CHECK_THROWS_AS((Dropout<double, P, TestContext>({.rate = rate})), ArgumentError);
    }
  });
}

}  // namespace
}  // namespace partita::test
