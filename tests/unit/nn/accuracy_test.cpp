// SPDX-License-Identifier: Apache-2.0
// The largest class and the accuracy under every strategy, with ties, and the arg-max of the users' case V01.
#include "partita/nn/accuracy.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

Matrix<std::int64_t> serial_arg_max(const Matrix<double>& logits) {
  Matrix<std::int64_t> classes({logits.shape.rows, 1});
  for (index_t i = 0; i < logits.shape.rows; ++i) {
    for (index_t j = 0; j < logits.shape.cols; ++j) {
      if (logits(i, j) > logits(i, classes(i, 0))) classes(i, 0) = j;
    }
  }
  return classes;
}

template <class T, class P, class Handle>
void check_accuracy(const Handle& grid, const Matrix<double>& logits, index_t unit) {
  CAPTURE(to_string(logits.shape));
  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{logits.shape, {unit, 1}};
  const Matrix<std::int64_t> classes = serial_arg_max(logits);
  const auto tensor = distributed<T, P>(grid, logits, extent.units);
  Traffic before = context.comm().traffic();
  const auto found = arg_max(tensor);
  const auto arg_max_price = count_of(detail::GeneratedSchedule{[&](auto&& f) { arg_max_steps<P>(place, extent, f); }});
  CHECK(uncounted(context, before, arg_max_price) == "");
  CHECK(compare_exact(whole(found), classes) == "");

  Hits wanted;
  Matrix<std::int64_t> targets = classes;
  for (index_t i = 0; i < logits.shape.rows; ++i) {
    if (i % 3 == 1) targets(i, 0) = logits.shape.cols - 1 - classes(i, 0);
    if (i % 5 == 4) targets(i, 0) = -7;
    wanted.kept += targets(i, 0) != -7 ? 1 : 0;
    wanted.correct += targets(i, 0) == classes(i, 0) ? 1 : 0;
  }
  const auto given = distributed<std::int64_t, tokens_of_t<P>>(grid, targets, extent.units);
  before = context.comm().traffic();
  const Hits hits = accuracy(tensor, given, -7);
  const auto price = count_of(detail::GeneratedSchedule{[&](auto&& f) { accuracy_steps<P>(place, extent, f); }});
  CHECK(uncounted(context, before, price) == "");
  CHECK(hits.correct == wanted.correct);
  CHECK(hits.kept == wanted.kept);
}

TEST_CASE("accuracy: the largest of all classes, the lowest of equal ones, and counts, under every strategy") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const auto& [shape, unit] :
         {std::pair{Shape{8, 4}, index_t{1}}, std::pair{Shape{13, 5}, index_t{1}}, std::pair{Shape{1, 1}, index_t{1}},
          std::pair{Shape{3, 17}, index_t{1}}, std::pair{Shape{12, 6}, index_t{3}}, std::pair{Shape{5, 2}, index_t{1}},
          std::pair{Shape{0, 4}, index_t{1}}, std::pair{Shape{30, 3}, index_t{5}}}) {
      Matrix<double> logits = random_matrix(shape, 11);
      check_accuracy<float, typename S::Inner>(grid, logits, unit);
      for (double& x : logits.elements) x = std::floor(2 * x);  // many ties, in one block and across blocks
      check_accuracy<double, typename S::Inner>(grid, logits, unit);
      check_accuracy<double, tokens_of_t<typename S::Stream>>(grid, logits, unit);
    }
  });
}

TEST_CASE("V01: the arg-max of a vocabulary that the ranks do not divide, also of negative logits") {
  for (const int ranks : {1, 2, 3, 4, 6}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      for (const double shift : {0.0, -100.0}) {
        const auto logits = from_function<double, ColumnShard<>>(
            grid, {1, 5}, [&](index_t, index_t j) { return static_cast<double>(j + 1) + shift; });
        CHECK(whole(arg_max(logits))(0, 0) == 4);
      }
    });
  }
}

TEST_CASE("arg-max: minus infinity, NaN, and no classes") {
  for (const int ranks : {1, 2, 4}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      const double infinity = std::numeric_limits<double>::infinity();
      const double rows[4][4] = {{-infinity, -infinity, -infinity, -infinity},
                                 {-infinity, -infinity, -infinity, -1e300},
                                 {std::nan(""), 2, std::nan(""), 2},
                                 {0, 1, infinity, infinity}};
      const auto logits =
          from_function<double, ColumnShard<>>(grid, {4, 4}, [&](index_t i, index_t j) { return rows[i][j]; });
      Matrix<std::int64_t> wanted({4, 1});
      wanted.elements = {0, 3, 1, 2};
      CHECK(compare_exact(whole(arg_max(logits)), wanted) == "");
      CHECK(whole(arg_max(zeros<double, ColumnShard<>>(grid, {1, 0})))(0, 0) == -1);
    });
  }
}

TEST_CASE("accuracy: targets that do not go with the logits are errors on all ranks; no kept row has a rate of zero") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    const auto logits = zeros<double, Summa2D<>>(grid, {3, 4});
    const auto targets = [&](index_t rows, std::int64_t value) {
      return from_function<std::int64_t, tokens_of_t<Summa2D<>>>(grid, {rows, 1},
                                                                 [&](index_t, index_t) { return value; });
    };
    CHECK_THROWS_AS((void)accuracy(logits, targets(3, 4)), ArgumentError);
    CHECK_THROWS_AS((void)accuracy(logits, targets(2, 0)), ShapeError);
    CHECK(accuracy(logits, targets(3, 0)).rate() == 1);
    CHECK(accuracy(logits, targets(3, -100)).rate() == 0);
  });
}

}  // namespace
}  // namespace partita::test
