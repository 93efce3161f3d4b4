// SPDX-License-Identifier: Apache-2.0
// The transformer block under every strategy, recomputation, and 16-bit storage.
#include <doctest/doctest.h>

#include "partita/nn/recompute.hpp"
#include "partita/nn/transformer_block.hpp"
#include "support/compare.hpp"
#include "support/serial_layers.hpp"

namespace partita::test {
namespace {

struct BlockCase {
  index_t batch, sequence, features;
  TransformerBlockOptions options;
  Pass pass;
  Matrix<double> x, dy, gain1, shift1, gain2, shift2, w1, b1, w2, b2;
  SerialAttention attention;
  SerialRun run;

  BlockCase(index_t b, index_t s, index_t h, TransformerBlockOptions chosen, Pass p = {})
      : batch(b),
        sequence(s),
        features(h),
        options(chosen),
        pass(std::move(p)),
        x(random_matrix({b * s, h}, 1)),
        dy(random_matrix({b * s, h}, 2)),
        gain1(random_matrix({1, h}, 3)),
        shift1(random_matrix({1, h}, 4)),
        gain2(random_matrix({1, h}, 5)),
        shift2(random_matrix({1, h}, 6)),
        attention(h,
                  {.heads = chosen.heads,
                   .sequence = s,
                   .causal = chosen.causal,
                   .dropout = chosen.attention_dropout,
                   .seed = seed_of_part(chosen.seed, 0)},
                  7) {
    options.sequence = s;
    const index_t hidden = options.hidden > 0 ? options.hidden : 4 * h;
    w1 = random_matrix({h, hidden}, 8);
    b1 = random_matrix({1, hidden}, 9);
    w2 = random_matrix({hidden, h}, 10);
    b2 = random_matrix({1, h}, 11);
    std::vector<Matrix<double>*> all{&gain1, &shift1};
    for (Matrix<double>* parameter : attention.parameters()) all.push_back(parameter);
    for (Matrix<double>* parameter : {&gain2, &shift2, &w1, &b1, &w2, &b2}) all.push_back(parameter);
    run = serial_run(x, dy, all, [this] { return serial(); });
    run.gradients = joined(run.gradients);
  }

  [[nodiscard]] Matrix<double> serial() const {
    const auto plus = [](Matrix<double> a, const Matrix<double>& b) {
      for (std::size_t i = 0; i < a.elements.size(); ++i) a.elements[i] += b.elements[i];
      return a;
    };
    const auto dropped = [this](const Matrix<double>& y, index_t part) {
      return serial_dropout(y, pass.training ? options.dropout : 0, seed_of_part(options.seed, part), pass.step);
    };
    const Matrix<double> z = plus(x, dropped(attention(serial_norm(x, gain1, shift1), pass), 1));
    Matrix<double> hidden = serial_linear(serial_norm(z, gain2, shift2), w1, b1);
    for (double& element : hidden.elements) element = serial_gelu(element);
    return plus(z, dropped(serial_linear(hidden, w2, b2), 3));
  }
  /// A matrix for each parameter, as the block holds and names them.
  [[nodiscard]] std::vector<Matrix<double>> joined(const std::vector<Matrix<double>>& m) const {
    std::vector<Matrix<double>> out{m[0], m[1]};
    for (auto& part : SerialAttention::joined({m.begin() + 2, m.begin() + 10}, options.heads)) out.push_back(part);
    out.insert(out.end(), m.begin() + 10, m.end());
    return out;
  }
  [[nodiscard]] std::vector<Matrix<double>> parameters() const {
    const SerialAttention& a = attention;
    return joined({gain1, shift1, a.wq, a.wk, a.wv, a.bq, a.bk, a.bv, a.wo, a.bo, gain2, shift2, w1, b1, w2, b2});
  }
};

template <class S>
Units units_for(index_t sequence) {
  return {S::Inner::layout.rows.empty() ? 1 : sequence, 1};
}

template <class L, class Handle>
void check_block(const Handle& grid, L layer, const BlockCase& c, Units units, double forward_limit,
                 double gradient_limit) {
  static_assert(Layer<L>);
  assign_parameters(layer, c.parameters());
  const auto found = run_layer(layer, grid, c.x, c.dy, units, c.pass);
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(relative_difference(found.y, c.run.y) <= forward_limit);
  CHECK(relative_difference(found.dx, c.run.dx) <= gradient_limit);
  CHECK(gradient_difference(layer, c.run.gradients) <= gradient_limit);
}

std::vector<BlockCase> block_cases() {
  std::vector<BlockCase> cases;
  cases.emplace_back(2, 4, 8, TransformerBlockOptions{.heads = 2, .hidden = 12});
  cases.emplace_back(3, 5, 6, TransformerBlockOptions{.heads = 3, .hidden = 7, .causal = true});
  cases.emplace_back(4, 3, 5, TransformerBlockOptions{.heads = 1, .hidden = 5}, Pass{.lengths = {3, 0, 2, 1}});
  cases.emplace_back(1, 2, 3, TransformerBlockOptions{.heads = 3});
  cases.emplace_back(5, 2, 4,
                     TransformerBlockOptions{
                         .heads = 2, .hidden = 9, .causal = true, .dropout = 0.3, .attention_dropout = 0.3, .seed = 5},
                     Pass{.step = 2});
  cases.emplace_back(2, 2, 4, TransformerBlockOptions{.heads = 2, .hidden = 1, .dropout = 0.3},
                     Pass{.training = false});
  cases.emplace_back(0, 4, 4, TransformerBlockOptions{.heads = 2, .hidden = 6});
  cases.emplace_back(1, 7, 4, TransformerBlockOptions{.heads = 4, .hidden = 6});
  return cases;
}

TEST_CASE("block: values, every gradient and counts under every strategy and shape") {
  const std::vector<BlockCase> cases = block_cases();
  for_strategies([&](const auto& grid, auto strategy) {
    using S = decltype(strategy);
    CAPTURE(strategy_text(grid, strategy));
    for (const BlockCase& c : cases) {
      CAPTURE(to_string(c.x.shape));
      check_block(grid, TransformerBlock<double, S, TestContext>(grid, "block", c.features, c.options), c,
                  units_for<S>(c.sequence), 1e-12, 1e-6);
    }
  });
}

template <class S, class Handle>
void check_recompute(const Handle& grid, const BlockCase& c) {
  using Block = TransformerBlock<double, S, TestContext>;
  Block plain(grid, "block", c.features, c.options);
  Recompute<Block> again(Block(grid, "block", c.features, c.options));
  static_assert(Layer<Recompute<Block>>);
  const Units units = units_for<S>(c.sequence);
  const auto wanted = run_layer(plain, grid, c.x, c.dy, units, c.pass);
  const auto found = run_layer(again, grid, c.x, c.dy, units, c.pass);
  CHECK(found.uncounted_forward == "");
  CHECK(found.uncounted_backward == "");
  CHECK(compare_exact(found.y, wanted.y) == "");
  CHECK(compare_exact(found.dx, wanted.dx) == "");
  std::vector<Matrix<double>> gradients;
  plain.for_each_parameter([&](auto& parameter) { gradients.push_back(whole(parameter.gradient())); });
  std::size_t next = 0;
  again.for_each_parameter(
      [&](auto& parameter) { CHECK(compare_exact(whole(parameter.gradient()), gradients.at(next++)) == ""); });
  auto x = distributed<double, typename S::Stream>(grid, c.x, units);
  const auto y = again.forward(std::move(x), c.pass);
  CHECK_THROWS_AS((void)again.inner().backward(y), ArgumentError);  // which keeps nothing
  again.forget();
  CHECK_THROWS_AS((void)again.backward(distributed<double, typename S::Stream>(grid, c.dy, units)), ArgumentError);
}

TEST_CASE("recompute: bit for bit the gradients of the layer, dropout included, at the price of one more forward") {
  const BlockCase c(5, 2, 4, {.heads = 2, .hidden = 6, .dropout = 0.3, .attention_dropout = 0.3, .seed = 5},
                    {.step = 2, .lengths = {2, 1, 0, 2, 2}});
  on_test_ranks(2,
                [&](TestContext& context) { check_recompute<SequenceParallel<>>(make_grid<TpGrid<>>(context, 2), c); });
  on_test_ranks(8, [&](TestContext& context) {
    check_recompute<TwoAndAHalfDimensional<>>(make_grid<Grid25D<>>(context, 2, 2, 2), c);
  });
}

Matrix<double> widened(const Matrix<bfloat16>& m) {
  Matrix<double> out(m.shape);
  for (std::size_t i = 0; i < m.elements.size(); ++i) out.elements[i] = static_cast<float>(m.elements[i]);
  return out;
}

TEST_CASE("block: 16-bit storage differs from fp32 by its rounding") {
  const BlockCase c(4, 4, 8, {.heads = 2, .hidden = 16, .causal = true});
  on_test_ranks(4, [&](TestContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using S = TwoDimensional<>;
    TransformerBlock<float, S, TestContext> wide(grid, "block", c.features, c.options);
    TransformerBlock<bfloat16, S, TestContext> narrow(grid, "block", c.features, c.options);
    // Both begin from the same 16-bit values: what is compared is the arithmetic.
    std::vector<Matrix<double>> values;
    narrow.for_each_parameter([&](auto& parameter) { values.push_back(widened(whole(parameter.value()))); });
    assign_parameters(wide, values);
    const Matrix<double> x = widened(converted<bfloat16>(c.x)), dy = widened(converted<bfloat16>(c.dy));
    const auto wanted = run_layer(wide, grid, x, dy, {c.sequence, 1});
    const auto found = run_layer(narrow, grid, x, dy, {c.sequence, 1});
    CHECK(found.uncounted_forward == "");
    CHECK(found.uncounted_backward == "");
    const double unit = 1.0 / 128;
    CHECK(relative_difference(widened(found.y), wanted.y) <= unit);
    CHECK(relative_difference(widened(found.dx), wanted.dx) <= unit);
    std::vector<Matrix<float>> gradients;
    wide.for_each_parameter([&](auto& parameter) { gradients.push_back(whole(parameter.gradient())); });
    std::size_t next = 0;
    narrow.for_each_parameter([&](auto& parameter) {
      CAPTURE(parameter.name());
      CHECK(relative_difference(whole(parameter.gradient()), gradients.at(next++)) <= unit);
    });
  });
}

TEST_CASE("block: parameters have names of their own, and parts of a layer draw from seeds of their own") {
  on_test_ranks(2, [](TestContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    TransformerBlock<double, ColumnRow<>, TestContext> zero(grid, "block0", 4, {.heads = 2, .seed = 0});
    TransformerBlock<double, ColumnRow<>, TestContext> one(grid, "block1", 4, {.heads = 2, .seed = 1});
    CHECK(parameters_of(zero).size() == 12);
    CHECK(parameters_of(zero)[2].name == "block0.attention.query_key_value.weight");
    std::vector<std::vector<double>> first_weights;
    for (auto* block : {&zero, &one}) {
      block->for_each_parameter([&](auto& parameter) {
        if (parameter.name().find(".weight") == std::string::npos) return;
        const Matrix<double> w = whole(parameter.value());
        const double bound = std::sqrt(6.0 / static_cast<double>(w.shape.rows + w.shape.cols));
        first_weights.push_back({w.elements[0] / bound, w.elements[1] / bound});
      });
    }
    CHECK(first_weights.size() == 8);
    for (std::size_t a = 0; a < first_weights.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) CHECK(std::abs(first_weights[a][0] - first_weights[b][0]) > 1e-9);
    }
  });
}

}  // namespace
}  // namespace partita::test
