// SPDX-License-Identifier: Apache-2.0
// Images to tokens under every strategy, and the users' case E01.
#include "partita/nn/patch_embedding.hpp"

#include <doctest/doctest.h>

#include "partita/nn/class_token.hpp"
#include "support/compare.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

/// The layer in plain loops, patch by patch; matrices without rows stand for what the layer lacks.
struct Serial {
  PatchGeometry g;
  Matrix<double> images, w, b, token, positions;

  [[nodiscard]] index_t length() const { return g.patches() + token.shape.rows; }
  [[nodiscard]] Matrix<double> tokens() const {
    const index_t features = w.shape.cols;
    Matrix<double> y({images.shape.rows * length(), features});
    for (index_t image = 0; image < images.shape.rows; ++image) {
      for (index_t h = 0; h < features; ++h) {
        index_t row = image * length();
        if (token.shape.rows > 0) y(row++, h) = token(0, h);
        for (index_t top = 0; top < g.height; top += g.patch_height) {
          for (index_t left = 0; left < g.width; left += g.patch_width, ++row) {
            double sum = b.shape.rows > 0 ? b(0, h) : 0;
            index_t k = 0;
            for (index_t c = 0; c < g.channels; ++c) {
              for (index_t r = top; r < top + g.patch_height; ++r) {
                for (index_t l = left; l < left + g.patch_width; ++l) {
                  sum += images(image, (c * g.height + r) * g.width + l) * w(k++, h);
                }
              }
            }
            y(row, h) = sum;
          }
        }
        for (index_t t = 0; t < positions.shape.rows; ++t) y(image * length() + t, h) += positions(t, h);
      }
    }
    return y;
  }
};

struct Case {
  index_t batch;
  PatchGeometry geometry;
  index_t features;
};
const Case all_cases[] = {{3, {1, 4, 4, 2, 2}, 2}, {5, {2, 2, 6, 1, 3}, 3}, {8, {1, 2, 4, 2, 1}, 5},
                          {1, {1, 2, 2, 2, 2}, 1}, {2, {3, 3, 2, 3, 2}, 4}, {0, {1, 4, 4, 2, 2}, 3},
                          {4, {1, 2, 6, 2, 3}, 2}, {7, {1, 1, 2, 1, 1}, 1}};

template <class T, class Out, class Handle>
void check_patches(const Handle& grid, const Case& c, const PatchEmbeddingOptions& options, double limit,
                   double gradient_limit) {
  CAPTURE(c.batch);
  CAPTURE(c.features);
  using L = PatchEmbedding<T, Out, TestContext>;
  static_assert(Layer<L>);
  L layer(grid, "patches", c.geometry, c.features, options);
  const index_t rows = options.class_token ? 1 : 0;
  Serial serial{c.geometry,
                random_matrix({c.batch, c.geometry.pixels()}, 1),
                random_matrix({c.geometry.patch_pixels(), c.features}, 2),
                random_matrix({options.bias ? 1 : 0, c.features}, 3),
                random_matrix({rows, c.features}, 4),
                random_matrix({options.positions ? c.geometry.patches() + rows : 0, c.features}, 5)};
  layer.weight().value() = distributed<T, features_of_t<Out>>(grid, serial.w);
  if (options.bias) layer.bias().value() = distributed<T, features_of_t<Out>>(grid, serial.b);
  if (options.class_token) layer.class_token().value() = distributed<T, features_of_t<Out>>(grid, serial.token);
  if (options.positions) layer.positions().value() = distributed<T, features_of_t<Out>>(grid, serial.positions);

  auto& context = grid.context();
  const Place place = place_of(grid.ranks());
  const Extent2D extent{serial.images.shape, {}};
  const Matrix<double> y = serial.tokens();
  const Matrix<double> dy = random_matrix(y.shape, 6);
  const Activation<T, typename L::input, TestContext> images = distributed<T, typename L::input>(grid, serial.images);
  Traffic before = context.comm().traffic();
  const auto found = layer.forward(images);
  CHECK(uncounted(context, before, count_of(forward_schedule(layer, place, extent))) == "");
  CHECK(context.comm().traffic() == before);
  CHECK(found->units() == Units{layer.length(), 1});
  CHECK(layer.output_extent(extent).shape == found->shape());
  CHECK(relative_difference(whole(found), y) <= limit);
  const Activation<T, Out, TestContext> gradient = distributed<T, Out>(grid, dy, found->units());
  before = context.comm().traffic();
  const auto dx = layer.backward(gradient);
  CHECK(uncounted(context, before, count_of(backward_schedule(layer, place, extent))) == "");

  (void)layer.forward(images);
  (void)layer.backward(gradient);  // gradients of parameters are added up
  double passes = 2;
  const auto differences = [&](Matrix<double>& of) {
    return central_differences(of, [&] { return passes * weighted_sum(serial.tokens(), dy); }, 1e-3);
  };
  CHECK(relative_difference(whole(layer.weight().gradient()), differences(serial.w)) <= gradient_limit);
  if (options.bias) CHECK(relative_difference(whole(layer.bias().gradient()), differences(serial.b)) <= gradient_limit);
  if (options.class_token) {
    CHECK(relative_difference(whole(layer.class_token().gradient()), differences(serial.token)) <= gradient_limit);
  }
  if (options.positions) {
    CHECK(relative_difference(whole(layer.positions().gradient()), differences(serial.positions)) <= gradient_limit);
  }
  CHECK(static_cast<bool>(dx) == options.image_gradient);
  passes = 1;
  if (dx) CHECK(relative_difference(whole(dx), differences(serial.images)) <= gradient_limit);
  CHECK_THROWS_AS((void)layer.backward(gradient), ArgumentError);  // nothing is kept any more
}

TEST_CASE("patch embedding: values, gradients and counts under every strategy and shape") {
  for_strategies([](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const Case& c : all_cases) {
      check_patches<double, typename S::Stream>(grid, c, {}, 1e-13, 1e-9);
      check_patches<float, typename S::Stream>(grid, c, {.class_token = false, .image_gradient = true}, 1e-5, 1e-5);
    }
  });
}

TEST_CASE("patch embedding: features cut, without bias, class token or positions, and the gradient of images") {
  for (const int ranks : {1, 2, 3}) {
    on_test_ranks(ranks, [&](TestContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      for (const Case& c : all_cases) {
        check_patches<double, ColumnShard<>>(grid, c, {.image_gradient = true}, 1e-13, 1e-9);
        check_patches<double, ColumnShard<>>(
            grid, c, {.bias = false, .class_token = false, .positions = false, .image_gradient = true}, 1e-13, 1e-9);
      }
    });
  }
}

template <class T, class Out, class Handle>
void check_e01(const Handle& grid) {
  const PatchGeometry geometry{1, 4, 4, 2, 2};
  const auto images =
      from_function<T, tokens_of_t<Out>>(grid, {3, 16}, [](index_t b, index_t i) { return 16 * b + i; });
  for (const bool with_token : {false, true}) {
    PatchEmbedding<T, Out, TestContext> layer(grid, "patches", geometry, 2,
                                              {.bias = false, .class_token = with_token, .positions = false});
    layer.weight().value() = from_function<T, features_of_t<Out>>(
        grid, {4, 2}, [](index_t k, index_t h) { return h == 0 || k == 0 ? 1 : 0; });
    if (with_token) {
      layer.class_token().value() =
          from_function<T, features_of_t<Out>>(grid, {1, 2}, [](index_t, index_t h) { return -1 - h; });
    }
    const index_t length = with_token ? 5 : 4;
    Matrix<T> wanted({3 * length, 2});
    const T sums[] = {10, 18, 42, 50}, corners[] = {0, 2, 8, 10};
    for (index_t b = 0; b < 3; ++b) {
      index_t row = b * length;
      if (with_token) {
        wanted(row, 0) = -1;
        wanted(row++, 1) = -2;
      }
      for (int p = 0; p < 4; ++p, ++row) {
        wanted(row, 0) = sums[p] + static_cast<T>(64 * b);
        wanted(row, 1) = corners[p] + static_cast<T>(16 * b);
      }
    }
    const auto tokens = layer.forward(images.clone());
    CHECK(compare_exact(whole(tokens), wanted) == "");
    if (!with_token) continue;
    Matrix<T> firsts({3, 2});
    firsts.elements = {-1, -2, -1, -2, -1, -2};
    ClassToken<T, Out, TestContext> pool;
    const auto first = pool.forward(tokens);
    CHECK(first->units() == Units{});
    CHECK(compare_exact(whole(first), firsts) == "");
  }
}

TEST_CASE("E01: patches keep the order of images and of rows, on every grid, with a batch that it does not divide") {
  on_test_ranks(1, [](TestContext& context) { check_e01<float, Replicated<>>(make_grid<TpGrid<>>(context, 1)); });
  on_test_ranks(2, [](TestContext& context) { check_e01<float, ColumnShard<>>(make_grid<TpGrid<>>(context, 2)); });
  on_test_ranks(4, [](TestContext& context) { check_e01<double, Summa2D<>>(make_grid<Grid2D<>>(context, 2, 2)); });
  on_test_ranks(8, [](TestContext& context) { check_e01<double, Summa25D<>>(make_grid<Grid25D<>>(context, 2, 2, 2)); });
}

TEST_CASE("patch embedding: refuses patches that leave a rest, and images of another size") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    using L = PatchEmbedding<double, RowShard<>, TestContext>;
    CHECK_THROWS_AS((L(grid, "p", {1, 4, 5, 2, 2}, 3)), ArgumentError);
    CHECK_THROWS_AS((L(grid, "p", {1, 4, 4, 2, 0}, 3)), ArgumentError);
    L layer(grid, "p", {1, 4, 4, 2, 2}, 3);
    CHECK_THROWS_AS((void)layer.forward(zeros<double, RowShard<>>(grid, {3, 15})), ShapeError);
    CHECK_THROWS_AS((void)layer.forward(zeros<double, RowShard<>>(grid, {4, 16}, {2, 1})), UnitError);
  });
}

}  // namespace
}  // namespace partita::test
