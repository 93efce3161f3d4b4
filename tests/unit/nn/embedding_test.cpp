// SPDX-License-Identifier: Apache-2.0
// Embeddings, hidden-cut and vocabulary-parallel, under every strategy, and the users' case V08.
#include "partita/nn/embedding.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

/// Ids that repeat, and that leave some rows of the table alone.
Matrix<std::int64_t> random_ids(index_t m, index_t vocabulary) {
  Matrix<std::int64_t> ids({m, 1});
  for (index_t i = 0; i < m; ++i) {
    ids(i, 0) = static_cast<std::int64_t>(random_unit(9, i, 0) * static_cast<double>(vocabulary));
  }
  return ids;
}

struct Sizes {
  index_t tokens, vocabulary, features, unit;
};
const Sizes all_sizes[] = {{8, 6, 4, 1},  {13, 7, 5, 1}, {12, 11, 3, 3}, {1, 1, 1, 1}, {3, 2, 9, 1},
                           {10, 5, 2, 5}, {0, 4, 3, 1},  {31, 3, 70, 1}, {6, 5, 1, 2}};

template <class T>
Matrix<double> widened(const Matrix<T>& in) {
  Matrix<double> out(in.shape);
  for (std::size_t i = 0; i < in.elements.size(); ++i) {
    out.elements[i] = static_cast<double>(static_cast<accumulate_t<T>>(in.elements[i]));
  }
  return out;
}

/// One embedding against plain loops.
template <class T, class Table, class Out, class Handle>
void check_embedding(const Handle& grid, const Sizes& s, double limit) {
  CAPTURE(s.tokens);
  CAPTURE(s.vocabulary);
  using E = Embedding<T, Table, Out, TestContext>;
  E layer(grid, "embedding", s.vocabulary, s.features, {.seed = 5});
  const auto table = widened(whole(layer.table().value()));
  const Matrix<std::int64_t> ids = random_ids(s.tokens, s.vocabulary);
  const Matrix<double> dy = random_matrix({s.tokens, s.features}, 2);
  Matrix<double> y(dy.shape), dtable(table.shape);
  for (index_t i = 0; i < s.tokens; ++i) {
    for (index_t j = 0; j < s.features; ++j) {
      y(i, j) = table(ids(i, 0), j);
      dtable(ids(i, 0), j) += 2 * dy(i, j);
    }
  }
  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{ids.shape, {s.unit, 1}};
  const Activation<T, Out, TestContext> gradient = distributed<T, Out>(grid, dy, extent.units);
  for (int pass = 0; pass < 2; ++pass) {
    auto input = distributed<std::int64_t, typename E::input>(grid, ids, extent.units);
    Traffic before = context.comm().traffic();
    const auto found = layer.forward(std::move(input));
    CHECK(uncounted(context, before, count_of(forward_schedule(layer, place, extent))) == "");
    CHECK(extent_of(*found).shape == layer.output_extent(extent).shape);
    CHECK(found->units() == layer.output_extent(extent).units);
    CHECK(relative_difference(widened(whole(found)), y) == 0);
    before = context.comm().traffic();
    layer.backward(gradient);
    CHECK(uncounted(context, before, count_of(backward_schedule(layer, place, extent))) == "");
  }
  CHECK(relative_difference(whole(layer.table().gradient()), dtable) <= limit);
  CHECK_THROWS_AS(layer.backward(gradient), ArgumentError);  // nothing is kept any more
}

TEST_CASE("embedding: rows, gradients and counts under every strategy and shape, hidden and vocabulary cut") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const Sizes& s : all_sizes) {
      check_embedding<double, features_of_t<typename S::Stream>, typename S::Stream>(grid, s, 1e-14);
      check_embedding<double, features_of_t<typename S::Inner>, typename S::Inner>(grid, s, 1e-14);
      check_embedding<float, typename S::Leave, typename S::Stream>(grid, s, 1e-5);
    }
  });
}

TEST_CASE("embedding: a table cut over axes that spread the tokens and over axes that do not") {
  using G = Grid25D<>;
  using Stream = Partition<G, RowsOver<Depth, Row>>;
  for (const auto& [q, d] : {std::pair{2, 2}, std::pair{2, 1}, std::pair{1, 3}}) {
    on_test_ranks(q * q * d, [&](TestContext& context) {
      const auto grid = make_grid<G>(context, d, q, q);
      for (const Sizes& s : all_sizes) {
        check_embedding<double, Partition<G, RowsOver<Col, Row>>, Stream>(grid, s, 1e-14);
        check_embedding<double, Partition<G, RowsOver<Row, Depth>>, Stream>(grid, s, 1e-14);
        check_embedding<float, Partition<G, RowsOver<Depth, Col>>, Partition<G, RowsOver<Row, Depth>>>(grid, s, 1e-5);
      }
    });
  }
}

TEST_CASE("embedding: the gradient is summed over the depth, whose layers see different tokens") {
  on_test_ranks(8, [](TestContext& context) {
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    VocabParallelEmbedding<double, Summa25DWeight<>, Summa25D<>, TestContext> layer(grid, "tokens", 3, 2);
    Matrix<std::int64_t> ids({4, 1});
    ids.elements = {0, 1, 1, 2};
    (void)layer.forward(distributed<std::int64_t, tokens_of_t<Summa25D<>>>(grid, ids));
    layer.backward(from_function<double, Summa25D<>>(
        grid, {4, 2}, [](index_t i, index_t j) { return static_cast<double>(10 * i + j); }));
    Matrix<double> wanted({3, 2});
    wanted.elements = {0, 1, 30, 32, 30, 31};
    CHECK(compare_exact(whole(layer.table().gradient()), wanted) == "");
  });
}

TEST_CASE(
    "embedding: a 16-bit table is read exactly, its gradient summed in fp32, and no partition changes the start") {
  Matrix<bfloat16> serial;
  on_test_ranks(1, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 1);
    serial =
        whole(Embedding<bfloat16, RowShard<>, Replicated<>, TestContext>(grid, "e", 7, 3, {.seed = 5}).table().value());
  });
  for (const int ranks : {2, 4}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      check_embedding<bfloat16, RowShard<>, RowShard<>>(grid, {13, 7, 3, 1}, 1e-2);
      Embedding<bfloat16, RowShard<>, RowShard<>, TestContext> layer(grid, "e", 7, 3, {.seed = 5});
      CHECK(compare_exact(whole(layer.table().value()), serial) == "");
    });
  }
}

/// Ids outside the table, then valid ones.
template <class Table, class Out, class Handle>
void check_refused_ids(const Handle& grid) {
  Embedding<double, Table, Out, TestContext> layer(grid, "tokens", 6, 2);
  layer.table().value() =
      from_function<double, Table>(grid, {6, 2}, [](index_t i, index_t j) { return static_cast<double>(10 * i + j); });
  const auto forward = [&](std::initializer_list<std::int64_t> list) {
    Matrix<std::int64_t> ids({static_cast<index_t>(list.size()), 1});
    ids.elements = list;
    return layer.forward(distributed<std::int64_t, tokens_of_t<Out>>(grid, ids));
  };
  CHECK_THROWS_WITH_AS((void)forward({-1}), "ArgumentError: tokens.table: row 0 asks for -1, there are 0 to 5",
                       ArgumentError);
  CHECK_THROWS_WITH_AS((void)forward({0, 6, 1}), "ArgumentError: tokens.table: row 1 asks for 6, there are 0 to 5",
                       ArgumentError);
  CHECK_THROWS_AS((void)forward({std::numeric_limits<std::int64_t>::min()}), ArgumentError);
  CHECK_THROWS_AS((void)forward({std::numeric_limits<std::int64_t>::max()}), ArgumentError);
  const auto wide = from_function<std::int64_t, tokens_of_t<Out>>(grid, {3, 2}, [](index_t, index_t) { return 0; });
  CHECK_THROWS_AS((void)layer.forward(wide.clone()), ShapeError);
  Matrix<double> wanted({3, 2});
  wanted.elements = {50, 51, 50, 51, 0, 1};
  CHECK(compare_exact(whole(forward({5, 5, 0})), wanted) == "");
}

TEST_CASE("V08: an id outside the table is an error on all ranks, whatever cuts the table; valid ids then work") {
  for (const int ranks : {1, 3}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      check_refused_ids<RowShard<>, Replicated<>>(grid);
      check_refused_ids<RowShard<>, RowShard<>>(grid);
      check_refused_ids<ColumnShard<>, ColumnShard<>>(grid);
    });
  }
}

}  // namespace
}  // namespace partita::test
