// SPDX-License-Identifier: Apache-2.0
// The cross entropy under every strategy, with whole and with cut classes, and the users' cases V01, V04 and V06.
#include "partita/nn/cross_entropy.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Examples {
  Matrix<double> logits;
  Matrix<std::int64_t> targets;
  CrossEntropyOptions options;

  /// The definition: the mean over kept rows of minus the log of probabilities, weighted by the target distribution.
  [[nodiscard]] double loss() const {
    double sum = 0, kept = 0;
    const index_t v = logits.shape.cols;
    for (index_t i = 0; i < logits.shape.rows; ++i) {
      if (targets(i, 0) == options.ignore_index) continue;
      double partition = 0;
      for (index_t j = 0; j < v; ++j) partition += std::exp(logits(i, j));
      for (index_t j = 0; j < v; ++j) {
        const double wanted =
            (j == targets(i, 0) ? 1 - options.label_smoothing : 0) + options.label_smoothing / static_cast<double>(v);
        if (wanted > 0) sum -= wanted * std::log(std::exp(logits(i, j)) / partition);
      }
      kept += 1;
    }
    return kept > 0 ? sum / kept : 0;
  }
};

Matrix<std::int64_t> column(std::initializer_list<std::int64_t> list) {
  Matrix<std::int64_t> m({static_cast<index_t>(list.size()), 1});
  m.elements = list;
  return m;
}

/// Targets of which about every fourth is ignored.
Matrix<std::int64_t> random_targets(Shape logits, std::int64_t ignored) {
  Matrix<std::int64_t> targets({logits.rows, 1});
  for (index_t i = 0; i < logits.rows; ++i) {
    const double draw = random_unit(21, i, 0);
    targets(i, 0) =
        random_unit(22, i, 0) < 0.25 ? ignored : static_cast<std::int64_t>(draw * static_cast<double>(logits.cols));
  }
  return targets;
}

struct Found {
  double loss = 0;
  index_t kept = 0;
  Matrix<double> gradient;
};

/// Loss and gradient of a batch whose logits are cut by P, and their counts against the schedule.
template <class T, class P, class Handle>
Found entropy_of(const Handle& grid, const Examples& batch, index_t unit = 1, double scale = 1) {
  CrossEntropy<T, P, TestContext> entropy(grid, batch.options);
  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{batch.logits.shape, {unit, 1}};
  auto logits = distributed<T, P>(grid, batch.logits, extent.units);
  auto targets = distributed<std::int64_t, tokens_of_t<P>>(grid, batch.targets, extent.units);
  Traffic before = context.comm().traffic();
  Found found;
  found.loss = entropy.forward(std::move(logits), std::move(targets));
  CHECK(uncounted(context, before, count_of(forward_schedule(entropy, place, extent))) == "");
  const auto bits = std::bit_cast<std::int64_t>(found.loss);
  CHECK(context.comm().agree(bits) == -context.comm().agree(-bits));  // the same on all ranks
  found.kept = entropy.kept();
  before = context.comm().traffic();
  const auto dx = entropy.backward(scale);
  CHECK(context.comm().traffic() == before);
  CHECK_THROWS_AS((void)entropy.backward(), ArgumentError);  // nothing is kept any more
  const auto all = whole(dx);
  found.gradient = Matrix<double>(all.shape);
  for (std::size_t i = 0; i < all.elements.size(); ++i) {
    found.gradient.elements[i] = static_cast<double>(static_cast<accumulate_t<T>>(all.elements[i]));
  }
  return found;
}

TEST_CASE("cross entropy: loss, gradient and counts under every strategy, classes whole and cut") {
  const std::pair<Shape, index_t> shapes[] = {{{8, 4}, 1}, {{13, 5}, 1}, {{1, 1}, 1}, {{3, 17}, 1}, {{12, 6}, 3},
                                              {{5, 2}, 1}, {{2, 3}, 1},  {{0, 4}, 1}, {{20, 3}, 5}};
  struct Wanted {
    Examples batch;
    index_t unit;
    double loss;
    Matrix<double> gradient;
  };
  std::vector<Wanted> all;
  for (const auto& [shape, unit] : shapes) {
    for (const double smoothing : {0.0, 0.1}) {
      Examples batch{random_matrix(shape, 1), random_targets(shape, -100), {-100, smoothing}};
      for (double& x : batch.logits.elements) x *= 4;
      const auto gradient = central_differences(batch.logits, [&] { return batch.loss(); });
      all.push_back({batch, unit, batch.loss(), gradient});
    }
  }
  for_strategies([&](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const Wanted& w : all) {
      CAPTURE(to_string(w.batch.logits.shape));
      const auto check = [&](const Found& found, double loss_limit, double gradient_limit) {
        CHECK(std::abs(found.loss - w.loss) <= loss_limit * std::max(1.0, w.loss));
        CHECK(relative_difference(found.gradient, w.gradient) <= gradient_limit);
      };
      check(entropy_of<double, tokens_of_t<typename S::Stream>>(grid, w.batch, w.unit), 1e-13, 1e-6);
      check(entropy_of<double, typename S::Inner>(grid, w.batch, w.unit), 1e-13, 1e-6);
      check(entropy_of<float, typename S::Inner>(grid, w.batch, w.unit), 1e-5, 1e-5);
    }
  });
}

TEST_CASE("cross entropy: 16-bit logits are computed in fp32, and the gradient is scaled") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    Examples batch{random_matrix({6, 5}, 1), random_targets({6, 5}, 2), {2, 0.0}};  // a class may be what is ignored
    for (double& x : batch.logits.elements)
      x = static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(x))));
    const Found narrow = entropy_of<bfloat16, Summa2D<>>(grid, batch, 1, 128);
    Matrix<double> wanted = central_differences(batch.logits, [&] { return 128 * batch.loss(); });
    CHECK(narrow.loss == doctest::Approx(batch.loss()).epsilon(1e-6));
    CHECK(relative_difference(narrow.gradient, wanted) <= 0.005);
    CHECK(entropy_of<double, Summa2D<>>(grid, batch, 1, 128).gradient.elements[0] == doctest::Approx(wanted(0, 0)));
  });
}

void check_close(const Matrix<double>& found, std::initializer_list<double> wanted, double limit) {
  REQUIRE(found.elements.size() == wanted.size());
  std::size_t i = 0;
  for (const double x : wanted) CHECK(std::abs(found.elements[i++] - x) <= limit);
}

/// A case over p ranks: classes cut, or rows.
template <class P>
void on_cut(std::initializer_list<int> all_ranks,
            const std::function<void(const std::function<Found(const Examples&)>&)>& body) {
  for (const int ranks : all_ranks) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      body([&](const Examples& batch) { return entropy_of<double, P>(grid, batch); });
    });
  }
}

TEST_CASE("V01: a vocabulary that the ranks do not divide; logits that are shifted give the same") {
  on_cut<ColumnShard<>>({1, 2, 3, 4}, [](const auto& entropy) {
    for (const double shift : {0.0, -100.0, 1e4, -1e4}) {
      Examples batch{Matrix<double>({1, 5}), column({4}), {}};
      for (index_t j = 0; j < 5; ++j) batch.logits(0, j) = static_cast<double>(j + 1) + shift;
      const Found found = entropy(batch);
      CHECK(std::abs(found.loss - 0.451914) <= 1e-6);
      check_close(found.gradient, {0.011656, 0.031685, 0.086129, 0.234122, -0.363591}, 1e-6);
      double sum = 0;
      for (const double g : found.gradient.elements) sum += g;
      CHECK(std::abs(sum) <= 1e-6);
    }
  });
}

TEST_CASE("V04: ignored rows add nothing, and the mean is over the kept rows of all ranks") {
  Examples batch{Matrix<double>({4, 4}), column({0, -100, 3, -100}), {}};
  batch.logits.elements = {0, 0, 0, 0, 5, 1, 1, 1, 0, 1, 2, 3, 9, 9, 9, 9};
  const auto body = [&](const auto& entropy) {
    const Found found = entropy(batch);
    CHECK(std::abs(found.loss - 0.913242) <= 1e-6);
    CHECK(found.kept == 2);
    check_close(found.gradient,
                {-0.375, 0.125, 0.125, 0.125, 0, 0, 0, 0, 0.016029, 0.043572, 0.118441, -0.178043, 0, 0, 0, 0}, 1e-6);
    Examples none = batch;
    for (auto& t : none.targets.elements) t = -100;
    const Found nothing = entropy(none);
    CHECK(nothing.loss == 0);
    CHECK(nothing.kept == 0);
    CHECK(compare_exact(nothing.gradient, Matrix<double>({4, 4})) == "");
  };
  on_cut<ColumnShard<>>({1, 2, 4}, body);
  on_cut<RowShard<>>({2, 4}, body);
}

TEST_CASE("V06: a shard of nothing but minus infinity") {
  on_cut<ColumnShard<>>({1, 2, 4}, [](const auto& entropy) {
    Examples batch{Matrix<double>({1, 4}), column({0}), {}};
    batch.logits.elements = {0, std::log(3.0), -infinity, -infinity};
    const Found found = entropy(batch);
    CHECK(found.loss == doctest::Approx(1.386294).epsilon(1e-6));
    check_close(found.gradient, {-0.75, 0.75, 0, 0}, 1e-12);
    batch.targets = column({2});
    const Found impossible = entropy(batch);
    CHECK(impossible.loss == infinity);
    check_close(impossible.gradient, {0.25, 0.75, -1, 0}, 1e-12);
    batch.logits.elements = {-infinity, -infinity, -infinity, -infinity};
    const Found nothing = entropy(batch);
    CHECK(nothing.loss == infinity);
    check_close(nothing.gradient, {0, 0, -1, 0}, 0);
    batch.logits.elements = {std::nan(""), 0, 0, 0};
    CHECK(std::isnan(entropy(batch).loss));
  });
}

TEST_CASE("cross entropy: targets that are no class, or do not go with the logits, are errors on all ranks") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    const auto loss = [&](std::initializer_list<std::int64_t> targets, index_t unit = 1) {
      CrossEntropy<double, Summa2D<>, TestContext> entropy(grid);
      return entropy.forward(zeros<double, Summa2D<>>(grid, {3, 4}),
                             distributed<std::int64_t, tokens_of_t<Summa2D<>>>(grid, column(targets), {unit, 1}));
    };
    CHECK_THROWS_WITH_AS((void)loss({0, 1, 4}),
                         "ArgumentError: cross entropy: row 2 asks for 4, there are 0 to 3, and -100 is ignored",
                         ArgumentError);
    CHECK_THROWS_AS((void)loss({-1, 1, 2}), ArgumentError);
    CHECK_THROWS_AS((void)loss({0, std::numeric_limits<std::int64_t>::min(), 2}), ArgumentError);
    CHECK_THROWS_AS((void)loss({0, 1}), ShapeError);
    CHECK_THROWS_AS((void)loss({0, 1, 2}, 3), UnitError);
    CHECK(loss({0, -100, 3}) == doctest::Approx(std::log(4.0)));
    using Entropy = CrossEntropy<double, Summa2D<>, TestContext>;
    CHECK_THROWS_AS((Entropy(grid, {.label_smoothing = 1})), ArgumentError);
    CHECK_THROWS_AS((Entropy(grid, {.label_smoothing = -0.1})), ArgumentError);
  });
}

}  // namespace
}  // namespace partita::test
