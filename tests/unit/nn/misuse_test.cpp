// SPDX-License-Identifier: Apache-2.0
// Gradients of another shape or other units than the output: refused on all ranks before any gradient is written.
#include <doctest/doctest.h>

#include <cstdint>

#include "partita/nn/nn.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

using Grid4 = Summa2D<2>;
using Rows = tokens_of_t<Grid4>;

template <class Handle>
auto filled(const Handle& grid, Shape shape, Units units) {
  return from_function<double, Grid4>(grid, shape, [](index_t, index_t) { return 1; }, units);
}

/// Pre: forward() has given a matrix of `right` with these units. Every parameter's gradient stays zero.
template <class L, class Handle>
void check_refusals(L& layer, const Handle& grid, Shape right, Units units) {
  CHECK_THROWS_AS((void)layer.backward(filled(grid, {right.rows + units.rows, right.cols}, units)), ShapeError);
  CHECK_THROWS_AS((void)layer.backward(filled(grid, {right.rows, right.cols + units.cols}, units)), ShapeError);
  CHECK_THROWS_AS((void)layer.backward(filled(grid, right, {units.rows + 1, units.cols})), UnitError);
  layer.for_each_parameter([](auto& parameter) {
    for (const double x : whole(parameter.gradient()).elements) CHECK(x == 0);
  });
  CHECK_NOTHROW((void)layer.backward(filled(grid, right, units)));  // what forward() kept is still there
  CHECK_THROWS_AS((void)layer.backward(filled(grid, right, units)), ArgumentError);
}

TEST_CASE("backward() of a gradient that is not the output's is refused, and a right one then works") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<Grid4>(context);
    const auto sequences = [&] { return filled(grid, {24, 4}, {3, 1}); };

    Linear<double, Grid4, Grid4, Grid4, TestContext> linear(grid, "linear", 4, 6);
    (void)linear.forward(sequences());
    check_refusals(linear, grid, {24, 6}, {3, 1});

    ClassToken<double, Grid4, TestContext> token;
    (void)token.forward(sequences());
    check_refusals(token, grid, {8, 4}, {1, 1});

    PatchEmbedding<double, Grid4, TestContext> patches(
        grid, "patches", {.height = 4, .width = 4, .patch_height = 2, .patch_width = 2}, 6);
    (void)patches.forward(from_function<double, Rows>(grid, {7, 16}, [](index_t, index_t) { return 1; }));
    check_refusals(patches, grid, {35, 6}, {5, 1});

    Embedding<double, Grid4, Grid4, TestContext> embedding(grid, "embedding", 5, 6);
    (void)embedding.forward(from_function<std::int64_t, Rows>(grid, {9, 1}, [](index_t i, index_t) { return i % 5; }));
    check_refusals(embedding, grid, {9, 6}, {1, 1});

    using Columns = features_of_t<Grid4>;
    Embedding<double, Columns, Grid4, TestContext> table(grid, "table", 5, 4);
    TiedClassifier<double, Columns, Grid4, TestContext> tied(table.shared_table());
    (void)tied.forward(sequences());
    const auto logits = [&](Shape shape, Units units) {
      return from_function<double, Rows>(grid, shape, [](index_t, index_t) { return 1; }, units);
    };
    CHECK_THROWS_AS((void)tied.backward(logits({27, 5}, {3, 1})), ShapeError);
    CHECK_THROWS_AS((void)tied.backward(logits({24, 5}, {4, 1})), UnitError);
    CHECK_NOTHROW((void)tied.backward(logits({24, 5}, {3, 1})));
  });
}

}  // namespace
}  // namespace partita::test
