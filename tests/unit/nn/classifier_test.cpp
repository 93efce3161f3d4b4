// SPDX-License-Identifier: Apache-2.0
// Classifiers under every strategy, the shared table, and the users' case L09.
#include "partita/nn/classifier.hpp"

#include <doctest/doctest.h>

#include "partita/nn/embedding.hpp"
#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

/// logits = x·w + b, in both directions.
struct Reference {
  Matrix<double> x, w, b, dy, y, dx, dw, db;

  Reference(Matrix<double> input, Matrix<double> weight, Matrix<double> bias, Matrix<double> gradient)
      : x(std::move(input)),
        w(std::move(weight)),
        b(std::move(bias)),
        dy(std::move(gradient)),
        y(product(x, w)),
        dx(x.shape),
        dw(w.shape),
        db(b.shape) {
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
  }
};

/// Forward and backward of a layer against the reference, and their counts.
template <class L, class Handle>
void check_passes(const Handle& grid, L& layer, const Reference& r, double limit) {
  static_assert(Layer<L>);
  using T = typename L::value_type;
  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{r.x.shape, {}};
  auto x = distributed<T, typename L::input>(grid, r.x);
  auto dy = distributed<T, typename L::output>(grid, r.dy);
  Traffic before = context.comm().traffic();
  const auto y = layer.forward(std::move(x));
  CHECK(uncounted(context, before, count_of(forward_schedule(layer, place, extent))) == "");
  CHECK(layer.output_extent(extent).shape == y->shape());
  before = context.comm().traffic();
  const auto dx = layer.backward(std::move(dy));
  CHECK(uncounted(context, before, count_of(backward_schedule(layer, place, extent))) == "");
  CHECK(relative_difference(whole(y), r.y) <= limit);
  CHECK(relative_difference(whole(dx), r.dx) <= limit);
}

template <class L, class Handle>
void check_classifier(const Handle& grid, Shape x, index_t classes, double limit) {
  using T = typename L::value_type;
  L layer(grid, "classifier", x.cols, classes, {.seed = 7});
  const Reference r{random_matrix(x, 1), random_matrix({x.cols, classes}, 2), random_matrix({1, classes}, 3),
                    random_matrix({x.rows, classes}, 4)};
  layer.weight().value() = distributed<T, typename L::weight_parameter::partition>(grid, r.w);
  layer.bias().value() = distributed<T, typename L::bias_partition>(grid, r.b);
  check_passes(grid, layer, r, limit);
  CHECK(relative_difference(whole(layer.weight().gradient()), r.dw) <= limit);
  CHECK(relative_difference(whole(layer.bias().gradient()), r.db) <= limit);
}

const std::pair<Shape, index_t> all_shapes[] = {{{8, 4}, 6},   {{13, 7}, 5}, {{1, 1}, 1}, {{3, 17}, 2},
                                                {{12, 6}, 10}, {{5, 3}, 9},  {{2, 2}, 3}, {{0, 4}, 3}};

TEST_CASE("classifier: few classes and a cut vocabulary, values, gradients and counts under every strategy") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const auto& [x, classes] : all_shapes) {
      CAPTURE(to_string(x));
      check_classifier<Classifier<double, typename S::Stream, TestContext>>(grid, x, classes, 1e-13);
      check_classifier<VocabParallelClassifier<float, S, TestContext>>(grid, x, classes, 1e-5);
    }
  });
}

TEST_CASE("classifier: backward to few classes communicates nothing") {
  for_strategies([](const auto& grid, auto strategy) {
    using L = Classifier<double, typename decltype(strategy)::Stream, TestContext>;
    const L layer(grid, "classifier", 7, 5);
    CHECK(count_of(backward_schedule(layer, place_of(grid.ranks()), {{13, 7}, {}})).messages == 0);
  });
}

/// A table shared by an embedding and a classifier whose input is another one than the embedding's output.
template <class T, class Table, class Stream, class Handle>
void check_tied(const Handle& grid, Shape x, index_t vocabulary, double limit) {
  CAPTURE(to_string(x));
  Embedding<T, Table, Stream, TestContext> embedding(grid, "tokens", vocabulary, x.cols);
  TiedClassifier<T, Table, Stream, TestContext> classifier(embedding.shared_table());
  CHECK(embedding.table().uses() == 2);
  const Reference r{random_matrix(x, 1), random_matrix({x.cols, vocabulary}, 2), Matrix<double>({1, vocabulary}),
                    random_matrix({x.rows, vocabulary}, 4)};
  embedding.table().value() =
      from_function<T, Table>(grid, {vocabulary, x.cols}, [&](index_t v, index_t h) { return r.w(h, v); });
  Matrix<std::int64_t> ids({x.rows, 1});
  const Matrix<double> drows = random_matrix(x, 5);
  for (index_t i = 0; i < x.rows; ++i) ids(i, 0) = (5 * i + 1) % vocabulary;
  (void)embedding.forward(distributed<std::int64_t, tokens_of_t<Stream>>(grid, ids));
  embedding.backward(distributed<T, Stream>(grid, drows));
  check_passes(grid, classifier, r, limit);  // adds to what stands in the gradient
  Matrix<double> dtable({vocabulary, x.cols});
  for (index_t v = 0; v < vocabulary; ++v) {
    for (index_t h = 0; h < x.cols; ++h) dtable(v, h) = r.dw(h, v);
  }
  for (index_t i = 0; i < x.rows; ++i) {
    for (index_t h = 0; h < x.cols; ++h) dtable(ids(i, 0), h) += drows(i, h);
  }
  CHECK(relative_difference(whole(embedding.table().gradient()), dtable) <= limit);
}

TEST_CASE("tied classifier: both contributions to the shared table, under every strategy") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const auto& [x, vocabulary] : all_shapes) {
      check_tied<double, typename S::Leave, typename S::Stream>(grid, x, vocabulary, 1e-13);
      check_tied<double, features_of_t<typename S::Stream>, typename S::Stream>(grid, x, vocabulary, 1e-13);
    }
  });
}

struct Ready final : GradientListener {
  std::vector<int> told;
  void gradient_ready(int number) override { told.push_back(number); }
};

TEST_CASE("L09: an embedding's table that the classifier shares has both contributions in one gradient") {
  for (const int ranks : {1, 2, 4}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      VocabParallelEmbedding<double, RowShard<>, Replicated<>, TestContext> embedding(grid, "tokens", 4, 2);
      TiedClassifier<double, RowShard<>, Replicated<>, TestContext> classifier(embedding.shared_table());
      static_assert(std::is_same_v<decltype(classifier)::output, ColumnShard<>>);
      Matrix<double> e({4, 2});
      e.elements = {1, 0, 0, 1, 2, 3, 4, 5};
      assign(embedding.table().value(), e);
      Ready ready;
      embedding.table().listen(&ready, 7);
      const auto x = embedding.forward(
          from_function<std::int64_t, Replicated<>>(grid, {1, 1}, [](index_t, index_t) { return 1; }));
      const auto logits = classifier.forward(x);
      CHECK(whole(logits)(0, 2) == 3);
      const auto dx = classifier.backward(
          from_function<double, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t j) { return j == 2 ? 1 : 0; }));
      CHECK(ready.told.empty());
      embedding.backward(dx);
      CHECK(ready.told == std::vector<int>{7});
      Matrix<double> wanted({4, 2});
      wanted.elements = {0, 0, 2, 3, 0, 1, 0, 0};
      CHECK(compare_exact(whole(embedding.table().gradient()), wanted) == "");
    });
  }
}

}  // namespace
}  // namespace partita::test
