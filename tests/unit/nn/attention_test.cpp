// SPDX-License-Identifier: Apache-2.0
// Self-attention under every strategy: heads that do not divide by ranks, causal and padded masks, dropout.
#include <doctest/doctest.h>

#include "partita/nn/attention.hpp"
#include "support/compare.hpp"
#include "support/serial_layers.hpp"

namespace partita::test {
namespace {

struct AttentionCase {
  index_t batch, sequence, features;
  AttentionOptions options;
  Pass pass;
  Matrix<double> x, dy;
  SerialAttention serial;
  SerialRun run;

  AttentionCase(index_t b, index_t s, index_t h, AttentionOptions chosen, Pass p = {})
      : batch(b),
        sequence(s),
        features(h),
        options(chosen),
        pass(std::move(p)),
        x(random_matrix({b * s, h}, 1)),
        dy(random_matrix({b * s, h}, 2)),
        serial(h, with_sequence(chosen, s), 3) {
    options.sequence = s;
    run = serial_run(x, dy, serial.parameters(), [this] { return serial(x, pass); });
  }

  static AttentionOptions with_sequence(AttentionOptions options, index_t s) {
    options.sequence = s;
    return options;
  }
  [[nodiscard]] std::vector<Matrix<double>> parameters() {
    std::vector<Matrix<double>> values;
    for (const Matrix<double>* p : serial.parameters()) values.push_back(*p);
    return SerialAttention::joined(values, options.heads);
  }
  [[nodiscard]] std::vector<Matrix<double>> gradients() const {
    return SerialAttention::joined(run.gradients, options.heads);
  }
};

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  cases.emplace_back(2, 4, 8, AttentionOptions{.heads = 2});
  cases.emplace_back(3, 5, 6, AttentionOptions{.heads = 3, .causal = true});
  cases.emplace_back(1, 1, 1, AttentionOptions{.heads = 1});
  cases.emplace_back(4, 3, 10, AttentionOptions{.heads = 5}, Pass{.lengths = {3, 0, 2, 1}});
  cases.emplace_back(3, 4, 6, AttentionOptions{.heads = 2, .causal = true}, Pass{.lengths = {4, 1, 3}});
  cases.emplace_back(2, 7, 4, AttentionOptions{.heads = 1});
  cases.emplace_back(0, 3, 4, AttentionOptions{.heads = 2});
  cases.emplace_back(5, 2, 7, AttentionOptions{.heads = 3, .head_width = 2});
  cases.emplace_back(2, 6, 6, AttentionOptions{.heads = 3, .causal = true, .dropout = 0.4, .seed = 5},
                     Pass{.step = 3, .lengths = {6, 4}});
  cases.emplace_back(2, 3, 4, AttentionOptions{.heads = 2, .dropout = 0.4, .seed = 5}, Pass{.training = false});
  return cases;
}

/// Where S::Inner cuts rows, whole sequences are given; else a stream may be cut anywhere.
template <class S>
index_t row_unit(index_t sequence) {
  return S::Inner::layout.rows.empty() ? 1 : sequence;
}

template <class T, class S, class Handle>
void check_attention(const Handle& grid, AttentionCase& c, double forward_limit, double gradient_limit) {
  using L = SelfAttention<T, S, TestContext>;
  static_assert(Layer<L>);
  L layer(grid, "attention", c.features, c.options);
  assign_parameters(layer, c.parameters());
  const auto found = run_layer(layer, grid, c.x, c.dy, {row_unit<S>(c.sequence), 1}, c.pass);
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(relative_difference(found.y, c.run.y) <= forward_limit);
  CHECK(relative_difference(found.dx, c.run.dx) <= gradient_limit);
  CHECK(gradient_difference(layer, c.gradients()) <= gradient_limit);
}

TEST_CASE("attention: values, gradients and counts under every strategy, shape and mask") {
  std::vector<AttentionCase> cases = attention_cases();
  for_strategies([&](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const AttentionCase& c : cases) {
      AttentionCase own = c;  // a rank's own: its serial reference is not const
      CAPTURE(to_string(c.x.shape));
      check_attention<double, S>(grid, own, 1e-12, 1e-6);
      check_attention<float, S>(grid, own, 1e-5, 1e-4);
    }
  });
}

TEST_CASE("attention: padding is not read, and gets zeros and zero gradients") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    for (const bool causal : {false, true}) {
      SelfAttention<double, ColumnRow<>, TestContext> layer(
          grid, "padded", 4, {.heads = 2, .sequence = 3, .causal = causal, .bias = false});
      const Pass pass{.lengths = {2, 0}};
      const Matrix<double> clean = random_matrix({6, 4}, 1);
      Matrix<double> x = clean;
      Matrix<double> large = clean;
      for (index_t j = 0; j < 4; ++j) {
        for (const index_t i : {2, 3, 4, 5}) large(i, j) = 1e150;  // whose square is infinite
        for (const index_t i : {2, 3, 4, 5}) x(i, j) = 0;
      }
      using P = Replicated<>;
      const Matrix<double> dy = random_matrix({6, 4}, 2);
      const Matrix<double> y = whole(layer.forward(distributed<double, P>(grid, large), pass));
      const Matrix<double> dx = whole(layer.backward(distributed<double, P>(grid, dy)));
      const Matrix<double> y_zero = whole(layer.forward(distributed<double, P>(grid, x), pass));
      layer.forget();
      for (index_t i = 0; i < 6; ++i) {
        for (index_t j = 0; j < 4; ++j) {
          CHECK(y(i, j) == y_zero(i, j));
          CHECK((i < 2) == (y(i, j) != 0));
          CHECK((i < 2) == (dx(i, j) != 0));
        }
      }
    }
  });
}

TEST_CASE("attention: large scores neither overflow nor give NaN") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    SelfAttention<float, ColumnRow<>, TestContext> layer(grid, "large", 4, {.heads = 2, .sequence = 3});
    Matrix<double> x = random_matrix({6, 4}, 1);
    for (double& element : x.elements) element *= 1e4;
    const auto found = run_layer(layer, grid, x, random_matrix({6, 4}, 2), {});
    for (const float element : found.y.elements) CHECK(std::isfinite(element));
    for (const float element : found.dx.elements) CHECK(std::isfinite(element));
  });
}

TEST_CASE(
    "attention: one sum forward and one backward on one axis; one gather and one scatter by sequence parallelism") {
  const auto collectives = [](const RecordingSink& sink) {
    std::vector<std::string> names;
    for (const Event& event : sink.events) {
      if (std::string_view(event.operation) != "agree") names.emplace_back(event.operation);
    }
    return names;
  };
  on_test_ranks(2, [&](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    SelfAttention<double, ColumnRow<>, TestContext> layer(grid, "sums", 4, {.heads = 2, .sequence = 3});
    auto x = distributed<double, Replicated<>>(grid, random_matrix({6, 4}, 1));
    auto dy = distributed<double, Replicated<>>(grid, random_matrix({6, 4}, 2));
    RecordingSink forward, backward;
    {
      const SinkScope scope(forward);
      (void)layer.forward(std::move(x));
    }
    {
      const SinkScope scope(backward);
      (void)layer.backward(std::move(dy));
    }
    CHECK(collectives(forward) == std::vector<std::string>{"all_reduce"});
    CHECK(collectives(backward) == std::vector<std::string>{"all_reduce"});
  });
}

TEST_CASE("attention: the schedule counts the products of the heads") {
  on_test_ranks(1, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 1);
    const SelfAttention<double, ColumnRow<>, TestContext> layer(grid, "flops", 6, {.heads = 3, .sequence = 5});
    const Place place = place_of(grid.ranks());
    const Extent2D x{{20, 6}, {}};
    const index_t linear = 2 * 20 * 6 * (18 + 6);
    const index_t head_product = 2 * 5 * 5 * 2 * 3 * 4;  // 5 tokens by 5, width 2, 3 heads, 4 sequences
    CHECK(count_of(forward_schedule(layer, place, x)).flops == linear + 2 * head_product);
    CHECK(count_of(backward_schedule(layer, place, x)).flops == 2 * linear + 5 * head_product);
  });
}

TEST_CASE("attention: what does not fit is a typed error on all ranks") {
  on_test_ranks(4, [](TestContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using S = TwoDimensional<>;
    using P = Summa2D<>;
    using L = SelfAttention<double, S, TestContext>;
    CHECK_THROWS_AS(L(grid, "a", 6, {.heads = 4}), ArgumentError);
    CHECK_THROWS_AS(L(grid, "a", 6, {.heads = 0}), ArgumentError);
    CHECK_THROWS_AS(L(grid, "a", 0, {.heads = 2}), ArgumentError);
    CHECK_THROWS_AS(L(grid, "a", 6, {.heads = 2, .dropout = 1}), ArgumentError);
    L layer(grid, "a", 6, {.heads = 2, .sequence = 3});
    const Units whole_sequences{3, 1};
    CHECK_THROWS_AS((void)layer.forward(zeros<double, P>(grid, {12, 6}, {2, 1})), UnitError);
    CHECK_THROWS_AS((void)layer.forward(zeros<double, P>(grid, {10, 6}, whole_sequences)), ShapeError);
    const auto x = [&] { return zeros<double, P>(grid, {12, 6}, whole_sequences); };
    CHECK_THROWS_AS((void)layer.forward(x(), {.lengths = {3, 3, 3}}), ShapeError);
    CHECK_THROWS_AS((void)layer.forward(x(), {.lengths = {3, 3, 3, 4}}), ShapeError);
    CHECK_THROWS_AS((void)layer.forward(x(), {.lengths = {3, -1, 3, 3}}), ShapeError);
    CHECK_THROWS_AS((void)layer.backward(x()), ArgumentError);
    CHECK_NOTHROW((void)layer.forward(zeros<double, P>(grid, {12, 6}, {6, 1})));  // two sequences in a unit
    // Without a length the row unit is the sequence.
    L by_unit(grid, "b", 6, {.heads = 2});
    CHECK_THROWS_AS((void)by_unit.forward(x(), {.lengths = {3}}), ShapeError);
    CHECK_NOTHROW((void)by_unit.forward(x(), {.lengths = {3, 3, 1, 0}}));
  });
}

}  // namespace
}  // namespace partita::test
