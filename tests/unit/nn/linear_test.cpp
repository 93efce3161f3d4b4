// SPDX-License-Identifier: Apache-2.0
// The linear layer under every strategy, and the users' cases L01, L03, L06, L11, I01 and P01.
#include <doctest/doctest.h>

#include "partita/nn/linear.hpp"
#include "support/compare.hpp"
#include "support/fills.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

/// A linear layer in both directions of a strategy, checked against plain loops.
template <class T, class In, class Weight, class Out, class Handle>
void check_linear(const Handle& grid, Shape x_shape, index_t out_features, double forward_limit,
                  double gradient_limit) {
  const Matrix<double> x = random_matrix(x_shape, 1);
  const Matrix<double> dy = random_matrix({x_shape.rows, out_features}, 2);
  const Matrix<double> b = random_matrix({1, out_features}, 3);
  const Units units{x_shape.rows % 2 == 0 ? 2 : 1, 1};

  using L = Linear<T, In, Weight, Out, TestContext>;
  static_assert(Layer<L>);
  L layer(grid, "linear", x_shape.cols, out_features, {.seed = 7});
  layer.bias().value() = distributed<T, features_of_t<Out>>(grid, b);
  const Matrix<T> stored = whole(layer.weight().value());
  Matrix<double> w(stored.shape);
  for (std::size_t i = 0; i < w.elements.size(); ++i) w.elements[i] = static_cast<double>(stored.elements[i]);

  Matrix<double> y = product(x, w);
  Matrix<double> dx(x.shape), dw(w.shape), db(b.shape);
  for (index_t i = 0; i < y.shape.rows; ++i) {
    for (index_t j = 0; j < y.shape.cols; ++j) {
      y(i, j) += b(0, j);
      db(0, j) += dy(i, j);
      for (index_t k = 0; k < x.shape.cols; ++k) {
        dx(i, k) += dy(i, j) * w(k, j);
        dw(k, j) += x(i, k) * dy(i, j);
      }
    }
  }

  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{x.shape, units};
  auto input = distributed<T, In>(grid, x, units);
  auto output_gradient = distributed<T, Out>(grid, dy, units);
  Traffic before = context.comm().traffic();
  const auto found_y = layer.forward(std::move(input));
  CHECK(uncounted(context, before, count_of(forward_schedule(layer, place, extent))) == "");
  before = context.comm().traffic();
  const auto found_dx = layer.backward(std::move(output_gradient));
  CHECK(uncounted(context, before, count_of(backward_schedule(layer, place, extent))) == "");

  CHECK(relative_difference(whole(found_y), y) <= forward_limit);
  CHECK(relative_difference(whole(found_dx), dx) <= gradient_limit);
  CHECK(relative_difference(whole(layer.weight().gradient()), dw) <= gradient_limit);
  CHECK(relative_difference(whole(layer.bias().gradient()), db) <= gradient_limit);
  CHECK_THROWS_AS((void)layer.backward(found_y), ArgumentError);  // nothing is kept any more
}

TEST_CASE("linear: values, gradients and counts under every strategy and shape") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const auto& [x, n] :
         {std::pair{Shape{8, 4}, index_t{6}}, std::pair{Shape{13, 7}, index_t{5}}, std::pair{Shape{1, 1}, index_t{1}},
          std::pair{Shape{3, 17}, index_t{2}}, std::pair{Shape{24, 12}, index_t{24}},
          std::pair{Shape{5, 3}, index_t{9}}, std::pair{Shape{2, 2}, index_t{2}}, std::pair{Shape{0, 4}, index_t{3}}}) {
      CAPTURE(to_string(x));
      check_linear<double, typename S::Stream, typename S::Enter, typename S::Inner>(grid, x, n, 1e-13, 1e-13);
      check_linear<double, typename S::Inner, typename S::Leave, typename S::Stream>(grid, x, n, 1e-13, 1e-13);
      check_linear<float, typename S::Stream, typename S::Enter, typename S::Inner>(grid, x, n, 1e-5, 1e-5);
      check_linear<float, typename S::Inner, typename S::Leave, typename S::Stream>(grid, x, n, 1e-5, 1e-5);
    }
  });
}

TEST_CASE("linear: with results large enough that sums may be taken in parts") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using S = ColumnRow<>;  // rows are cut: Y forward; dX is summed whole
    check_linear<double, S::Inner, S::Leave, S::Stream>(grid, {2050, 2}, 3, 1e-13, 1e-13);
    check_linear<double, S::Stream, S::Enter, S::Inner>(grid, {2050, 2}, 3, 1e-13, 1e-13);
    using Q = SequenceParallel<>;  // columns, where rows are scattered
    check_linear<double, Q::Inner, Q::Leave, Q::Stream>(grid, {4, 2}, 1030, 1e-13, 1e-13);
    check_linear<double, Q::Stream, Q::Enter, Q::Inner>(grid, {4, 1030}, 2, 1e-13, 1e-13);
  });
}

/// A bias that is added in the pass of the product, where the backend has one and the product is local; 16-bit blocks
/// whose rows do not begin at 16 bytes are not for it. All sums are exact in 8 bits.
template <class T>
void check_bias_in_one_pass(index_t rows, index_t in, index_t out) {
  const auto small = [](index_t i, index_t j) { return static_cast<accumulate_t<T>>((3 * i + 5 * j) % 4 - 1); };
  for (const int ranks : {1, 2}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      Linear<T, Replicated<>, ColumnShard<>, ColumnShard<>, TestContext> layer(grid, "biased", in, out);
      layer.weight().value() = from_function<T, ColumnShard<>>(grid, {in, out}, small);
      layer.bias().value() = from_function<T, ColumnShard<>>(grid, {1, out}, small);
      const auto y = whole(layer.forward(from_function<T, Replicated<>>(grid, {rows, in}, small)));
      REQUIRE(y.shape == Shape{rows, out});
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < out; ++j) {
          accumulate_t<T> sum = small(0, j);
          for (index_t k = 0; k < in; ++k) sum += small(i, k) * small(k, j);
          REQUIRE(static_cast<accumulate_t<T>>(y(i, j)) == sum);
        }
      }
    });
  }
}

TEST_CASE_TEMPLATE("linear: a bias after a local product, whatever the shape", T, float, double, half, bfloat16) {
  check_bias_in_one_pass<T>(8, 16, 32);
  check_bias_in_one_pass<T>(5, 7, 6);
  check_bias_in_one_pass<T>(3, 0, 4);  // the bias alone
  check_bias_in_one_pass<T>(0, 3, 4);
  check_bias_in_one_pass<T>(2, 3, 1);  // where a rank may hold no column
}

/// The three-by-four example of the cases L01, L03: W(k, n) = k + n.
Matrix<double> small_weight() {
  Matrix<double> w({4, 3});
  for (index_t k = 0; k < 4; ++k) {
    for (index_t n = 0; n < 3; ++n) w(k, n) = static_cast<double>(k + n);
  }
  return w;
}
Matrix<double> small_input() {
  Matrix<double> x({2, 4});
  for (index_t i = 0; i < 8; ++i) x.elements[static_cast<std::size_t>(i)] = static_cast<double>(i + 1);
  return x;
}
template <class T>
Matrix<T> as(const Matrix<double>& m) {
  Matrix<T> out(m.shape);
  for (std::size_t i = 0; i < m.elements.size(); ++i) out.elements[i] = static_cast<T>(m.elements[i]);
  return out;
}

template <class T>
void check_bias_added_once(int ranks) {
  on_test_ranks(ranks, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, ranks);
    Linear<T, ColumnShard<>, RowShard<>, Replicated<>, TestContext> layer(grid, "row", 4, 3);
    assign(layer.weight().value(), as<T>(small_weight()));
    layer.bias().value() =
        from_function<T, Replicated<>>(grid, {1, 3}, [](index_t, index_t j) { return 100 * (j + 1); });
    const auto y = layer.forward(distributed<T, ColumnShard<>>(grid, small_input()));
    Matrix<T> wanted({2, 3});
    wanted.elements = {120, 230, 340, 144, 270, 396};
    CHECK(compare_exact(whole(y), wanted) == "");
  });
}

TEST_CASE("L01: a row-parallel layer adds its replicated bias once") {
  for (const int ranks : {1, 2, 3, 4}) {
    check_bias_added_once<float>(ranks);
    check_bias_added_once<double>(ranks);
  }
}

TEST_CASE("L03: a column-parallel layer's input gradient is summed over the ranks, by one reduction; dW by none") {
  for (const int ranks : {2, 3}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      Linear<double, Replicated<>, ColumnShard<>, ColumnShard<>, TestContext> layer(grid, "column", 4, 3,
                                                                                    {.bias = false});
      assign(layer.weight().value(), small_weight());
      (void)layer.forward(distributed<double, Replicated<>>(grid, small_input()));
      RecordingSink sink;
      const auto dx = [&] {
        auto dy = from_function<double, ColumnShard<>>(grid, {2, 3}, [](index_t, index_t) { return 1; });
        const SinkScope scope(sink);
        return layer.backward(std::move(dy));
      }();
      Matrix<double> wanted({2, 4});
      wanted.elements = {3, 6, 9, 12, 3, 6, 9, 12};
      CHECK(compare_exact(whole(dx), wanted) == "");
      std::erase_if(sink.events, [](const Event& e) { return std::string_view(e.operation) == "agree"; });
      CHECK(sequence(sink.events) == "all_reduce of " + std::to_string(ranks) + " root -1; ");
    });
  }
}

template <class In, class Weight, class Out>
void check_weight_order(int ranks) {
  on_test_ranks(ranks, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, ranks);
    Matrix<double> stored({4, 4}), turned({4, 4}), x({1, 4}), wanted({1, 4}), oblong({3, 4});
    for (index_t o = 0; o < 4; ++o) {
      for (index_t i = 0; i < 4; ++i) stored(o, i) = turned(i, o) = static_cast<double>(10 * o + i);
    }
    x.elements = {1, 2, 3, 4};
    wanted.elements = {20, 120, 220, 320};
    Linear<double, In, Weight, Out, TestContext> layer(grid, "order", 4, 4, {.bias = false});
    for (const WeightOrder order : {WeightOrder::out_in, WeightOrder::in_out}) {
      assign(layer.weight().value(), order == WeightOrder::out_in ? stored : turned, order);
      CHECK(compare_exact(whole(layer.forward(distributed<double, In>(grid, x))), wanted) == "");
    }
    Linear<double, In, Weight, Out, TestContext> narrow(grid, "narrow", 4, 3, {.bias = false});
    CHECK_NOTHROW(assign(narrow.weight().value(), oblong, WeightOrder::out_in));
    CHECK_THROWS_AS(assign(narrow.weight().value(), oblong, WeightOrder::in_out), ShapeError);
  });
}

TEST_CASE("L06: how a weight is stored is told, and a mismatch is a typed error") {
  for (const int ranks : {2, 4}) {
    check_weight_order<Replicated<>, ColumnShard<>, ColumnShard<>>(ranks);
    check_weight_order<ColumnShard<>, RowShard<>, Replicated<>>(ranks);
  }
}

TEST_CASE("L11: gradients are summed over the depth, whose layers see different tokens") {
  for (const auto& [q, d] : {std::pair{2, 2}, std::pair{1, 4}, std::pair{2, 1}}) {
    on_test_ranks(q * q * d, [&](TestContext& context) {
      const auto grid = make_grid<Grid25D<>>(context, d, q, q);
      Linear<double, Summa25D<>, Summa25DWeight<>, Summa25D<>, TestContext> layer(grid, "deep", 4, 6);
      layer.weight().value() = from_function<double, Summa25DWeight<>>(grid, {4, 6}, fill_b);
      const auto y = layer.forward(from_function<double, Summa25D<>>(grid, {8, 4}, fill_a));
      const auto dx = layer.backward(from_function<double, Summa25D<>>(grid, {8, 6}, fill_c));
      CHECK(fingerprint(whole(y)) == Fingerprint{-12, -324});
      Matrix<double> dw({4, 6});
      dw.elements = {12, 1, -10, -1, -2, 12, -10, 9, 13, -8, -4, -10, -4, -4, 1, 6, 1, -4, 9, -10, -4, -8, 13, 9};
      CHECK(compare_exact(whole(layer.weight().gradient()), dw) == "");
      CHECK(fingerprint(whole(dx)) == Fingerprint{2, -51});
      Matrix<double> db({1, 6});
      db.elements = {-3, 3, -1, 0, 1, -3};
      CHECK(compare_exact(whole(layer.bias().gradient()), db) == "");
    });
  }
}

/// The weight of a new layer, gathered.
template <class In, class Weight, class Out, class Handle>
Matrix<double> initial_weight(const Handle& grid, Shape shape) {
  Linear<double, In, Weight, Out, TestContext> layer(grid, "init", shape.rows, shape.cols, {.seed = 123});
  return whole(layer.weight().value());
}

TEST_CASE("I01: initial weights do not depend on the partition, and their spread is that of the global sizes") {
  for (const Shape shape : {Shape{6, 4}, Shape{4096, 32}}) {
    Matrix<double> serial;
    on_test_ranks(1, [&](TestContext& context) {
      serial = initial_weight<Replicated<>, ColumnShard<>, ColumnShard<>>(make_grid<TpGrid<>>(context, 1), shape);
    });
    for_strategies([&](const auto& grid, auto strategy) {
      using S = decltype(strategy);
      CHECK(compare_exact(initial_weight<typename S::Stream, typename S::Enter, typename S::Inner>(grid, shape),
                          serial) == "");
      CHECK(compare_exact(initial_weight<typename S::Inner, typename S::Leave, typename S::Stream>(grid, shape),
                          serial) == "");
    });
    if (shape.rows != 4096) continue;
    double squares = 0;
    for (const double w : serial.elements) squares += w * w;
    CHECK(std::sqrt(squares / static_cast<double>(shape.size())) == doctest::Approx(0.0220).epsilon(0.02));
  }
}

TEST_CASE("P01: partial sums of 16-bit data are added in fp32 and rounded once") {
  for (const int ranks : {1, 2, 4}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      Linear<bfloat16, ColumnShard<>, RowShard<>, Replicated<>, TestContext> layer(grid, "sum", 4, 1, {.bias = false});
      layer.weight().value() = from_function<bfloat16, RowShard<>>(
          grid, {4, 1}, [](index_t i, index_t) { return bfloat16(i == 0 ? 256.0F : 1.0F); });
      const auto y = layer.forward(
          from_function<bfloat16, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t) { return bfloat16(1.0F); }));
      CHECK(static_cast<float>(whole(y)(0, 0)) == 260);
      (void)layer.backward(
          from_function<bfloat16, Replicated<>>(grid, {1, 1}, [](index_t, index_t) { return bfloat16(1.0F); }));
      CHECK(whole(layer.weight().gradient())(3, 0) == 1);  // in fp32
    });
  }
}

}  // namespace
}  // namespace partita::test
