// SPDX-License-Identifier: Apache-2.0
// Splitting, gathering, reduce-scattering and reducing a batch, under every strategy.
#include "partita/nn/batch.hpp"

#include <doctest/doctest.h>

#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

template <class P>
using WholeBatch = features_of_t<P>;  // rows uncut, columns as P's

/// The pending sum over the axes of P's rows of what each rank holds of the whole batch.
template <class P>
struct PendingLayout {
  static constexpr Layout value{{}, P::layout.cols, P::layout.rows.sorted()};
};
template <class P>
using PendingBatch = typename detail::PartitionOf<typename P::grid_type, PendingLayout<P>>::type;

const std::vector<std::pair<Shape, index_t>> batches{{{8, 4}, 1}, {{13, 5}, 1}, {{12, 3}, 3},
                                                     {{1, 1}, 1}, {{3, 7}, 1},  {{10, 2}, 5},
                                                     {{0, 4}, 1}, {{7, 1}, 2},  {{31, 70}, 1}};

/// Σ over all ranks of Σ x·y of their blocks.
template <class X, class Y, class Ctx>
double inner_product(Ctx& context, const X& x, const Y& y) {
  const auto a = elements_of(x), b = elements_of(y);
  double sum = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i) sum += a.elements[i] * b.elements[i];
  View<double> view(&sum, 1, 1, 1);
  host_of(context).comm().all_reduce(View<const double>(view), view, ReduceOp::sum).wait();
  return sum;
}

TEST_CASE(
    "batch: what is split and gathered is the batch, each rank's rows those of its place, at no or the priced cost") {
  for_strategies([](const auto& grid, auto strategy) {
    using P = typename decltype(strategy)::Stream;
    using Whole = WholeBatch<P>;
    CAPTURE(strategy_text(grid, strategy));
    auto& context = grid.context();
    const Place place = place_of(grid.ranks());
    for (const auto& [shape, unit] : batches) {
      const Extent2D extent{shape, {unit, 1}};
      const Matrix<double> values = random_matrix(shape, 3);
      const auto replicated = distributed<double, Whole>(grid, values, extent.units);
      Traffic before = context.comm().traffic();
      const auto split = split_batch<P>(replicated);
      CHECK(context.comm().traffic() == before);
      CHECK(compare_exact(whole(split), values) == "");

      before = context.comm().traffic();
      const auto gathered = gather_batch<Whole>(split);
      const auto gather_price =
          count_of(detail::GeneratedSchedule{[&](auto&& f) { gather_batch_steps<P, Whole>(place, extent, f); }});
      CHECK(uncounted(context, before, gather_price) == "");
      const Block mine = gathered.block();
      const auto rows = elements_of(gathered);
      for (index_t i = 0; i < mine.rows.size(); ++i) {
        for (index_t j = 0; j < mine.cols.size(); ++j) {
          REQUIRE(rows(i, j) == values(i, mine.cols.begin + j));
        }
      }
      const auto back = split_batch_backward<Whole>(split);
      CHECK(compare_exact(whole(back), values) == "");
    }
  });
}

TEST_CASE("batch: a reduce-scatter sums every rank's rows; gather and reduce-scatter are each other's transpose") {
  for_strategies([](const auto& grid, auto strategy) {
    using P = typename decltype(strategy)::Stream;
    using Whole = WholeBatch<P>;
    using Pending = PendingBatch<P>;
    CAPTURE(strategy_text(grid, strategy));
    auto& context = grid.context();
    const Place place = place_of(grid.ranks());
    const int terms = group_size(P::layout.rows, place.extents);
    const int own = index_along(P::layout.rows, place.extents, place.coordinates);
    for (const auto& [shape, unit] : batches) {
      const Extent2D extent{shape, {unit, 1}};
      const auto term = [](int k, index_t i, index_t j) {
        return static_cast<double>((k + 1) * ((7 * i + 3 * j) % 11 - 5 + k));
      };
      const auto pending = from_function<double, Pending>(
          grid, shape, [&](index_t i, index_t j) { return term(own, i, j); }, extent.units);
      Traffic before = context.comm().traffic();
      const auto scattered = reduce_scatter_batch<P>(pending);
      const auto price = count_of(
          detail::GeneratedSchedule{[&](auto&& f) { reduce_scatter_batch_steps<Pending, P>(place, extent, f); }});
      CHECK(uncounted(context, before, price) == "");
      Matrix<double> wanted(shape);
      for (int k = 0; k < terms; ++k) {
        for (index_t i = 0; i < shape.rows; ++i) {
          for (index_t j = 0; j < shape.cols; ++j) wanted(i, j) += term(k, i, j);
        }
      }
      CHECK(compare_exact(whole(scattered), wanted) == "");
      CHECK(compare_exact(whole(gather_batch_backward<P>(pending)), whole(scattered)) == "");

      // <scatter(p), y> = <p, gather(y)>, summed over the ranks.
      const auto y = distributed<double, P>(grid, random_matrix(shape, 7), extent.units);
      const auto gathered = reduce_scatter_batch_backward<Pending>(y);
      static_assert(std::is_same_v<typename decltype(gathered)::partition, Whole>);
      CHECK(inner_product(context, scattered, y) == doctest::Approx(inner_product(context, pending, gathered)));
    }
  });
}

TEST_CASE("batch: sum and mean over the rows of all ranks; the mean divides by the true count") {
  for_strategies([](const auto& grid, auto strategy) {
    using P = typename decltype(strategy)::Inner;
    CAPTURE(strategy_text(grid, strategy));
    auto& context = grid.context();
    const Place place = place_of(grid.ranks());
    for (const auto& [shape, unit] : batches) {
      const Extent2D extent{shape, {unit, 1}};
      const Matrix<double> x = random_matrix(shape, 3);
      const Matrix<double> dy = random_matrix({1, shape.cols}, 4);
      for (const auto reduction : {BatchReduction::sum, BatchReduction::mean}) {
        const bool mean = reduction == BatchReduction::mean && shape.rows > 0;
        const double factor = mean ? 1.0 / static_cast<double>(shape.rows) : 1.0;
        Matrix<double> wanted({1, shape.cols}), wanted_dx(shape);
        for (index_t i = 0; i < shape.rows; ++i) {
          for (index_t j = 0; j < shape.cols; ++j) {
            wanted(0, j) += factor * x(i, j);
            wanted_dx(i, j) = factor * dy(0, j);
          }
        }
        const auto tensor = distributed<double, P>(grid, x, extent.units);
        const Traffic before = context.comm().traffic();
        const auto reduced = reduce_batch(tensor, reduction);
        const auto price =
            count_of(detail::GeneratedSchedule{[&](auto&& f) { reduce_batch_steps<P>(place, extent, f); }});
        CHECK(uncounted(context, before, price) == "");
        CHECK(relative_difference(whole(reduced), wanted) <= 1e-14);
        const auto dx =
            reduce_batch_backward<P, double>(distributed<double, features_of_t<P>>(grid, dy), extent, reduction);
        CHECK(relative_difference(whole(dx), wanted_dx) <= 1e-15);
      }
    }
  });
}

TEST_CASE("batch: tokens lie in blocks k·q + r, and a part of the axes may be gathered") {
  on_test_ranks(8, [](TestContext& context) {
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    using Layers = Partition<Grid25D<>, RowsOver<Depth>, ColsOver<Col>>;
    const Matrix<double> values = random_matrix({7, 3}, 5);
    const auto x = split_batch<Summa25D<>>(distributed<double, Layers>(grid, values));
    const int block = 2 * grid.coordinate<Depth>() + grid.coordinate<Row>();
    const Range rows[] = {{0, 2}, {2, 4}, {4, 6}, {6, 7}};
    CHECK(x.block().rows == rows[block]);
    CHECK(compare_exact(whole(gather_batch<Layers>(x)), values) == "");
    // Cut the other way round: blocks r·d + k, 7 rows as 4 and 3, and these as 2, 2, 2, 1; 6 rows as 2, 1, 2, 1.
    using Turned = Partition<Grid25D<>, RowsOver<Row, Depth>, ColsOver<Col>>;
    const auto turned = split_batch<Turned>(distributed<double, features_of_t<Turned>>(grid, random_matrix({6, 3}, 6)));
    const Range turned_rows[] = {{0, 2}, {2, 3}, {3, 5}, {5, 6}};
    CHECK(turned.block().rows == turned_rows[2 * grid.coordinate<Row>() + grid.coordinate<Depth>()]);
    const auto all = gather_batch<features_of_t<Turned>>(turned);
    CHECK(compare_exact(whole(all), random_matrix({6, 3}, 6)) == "");
    CHECK(elements_of(all)(3, 0) == random_matrix({6, 3}, 6)(3, all.block().cols.begin));
  });
}

}  // namespace
}  // namespace partita::test
