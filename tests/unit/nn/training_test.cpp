// SPDX-License-Identifier: Apache-2.0
// A language model of all kinds of layers under every strategy: its gradients, and twenty steps of training.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partita/nn/nn.hpp"
#include "support/two_layers.hpp"

namespace partita::test {
namespace {

constexpr index_t vocabulary = 11;
constexpr index_t features = 6;
constexpr index_t sequence = 3;
constexpr index_t sequences = 5;
constexpr index_t tokens = sequences * sequence;
constexpr std::size_t steps = 20;

/// Ids that follow a rule, and what comes next; every fifth token has no target.
template <class T, class S, class Handle>
class LanguageModel {
  using Ctx = typename Handle::context_type;
  using Stream = typename S::Stream;
  using Inner = typename S::Inner;

 public:
  explicit LanguageModel(const Handle& grid, double dropout = 0)
      : grid_(grid),
        embedding_(grid, "embedding", vocabulary, features, {.seed = 1, .deviation = 0.5}),
        layers_(TransformerBlock<T, S, Ctx>(grid, "block", features,
                                            {.heads = 2, .causal = true, .dropout = dropout, .seed = 2}),
                LayerNorm<T, Stream, Ctx>(grid, "norm", features),
                VocabParallelClassifier<T, S, Ctx>(grid, "classifier", features, vocabulary, {.seed = 3})),
        loss_(grid, {.label_smoothing = 0.1}) {}

  [[nodiscard]] double loss(std::size_t step) {
    const auto id = [step](index_t token) {
      return (7 * token + token / sequence + static_cast<index_t>(step % 4)) % vocabulary;
    };
    const auto target = [&](index_t token) { return token % 5 == 4 ? -100 : (id(token) + 3) % vocabulary; };
    auto x = embedding_.forward(column<tokens_of_t<Stream>>(id));
    auto logits = layers_.forward(std::move(x), {.step = step});
    return loss_.forward(std::move(logits), column<tokens_of_t<Inner>>(target));
  }
  void backward(double scale = 1) { embedding_.backward(layers_.backward(loss_.backward(scale))); }

  template <class F>
  void for_each_parameter(F&& f) {
    embedding_.for_each_parameter(f);
    layers_.for_each_parameter(f);
  }
  using value_type = T;
  using context_type = Ctx;

 private:
  template <class P, class F>
  auto column(const F& f) {
    return from_function<std::int64_t, P>(grid_, {tokens, 1}, [&](index_t i, index_t) { return f(i); }, {sequence, 1});
  }

  Handle grid_;
  Embedding<T, features_of_t<Stream>, Stream, Ctx> embedding_;
  Sequential<TransformerBlock<T, S, Ctx>, LayerNorm<T, Stream, Ctx>, VocabParallelClassifier<T, S, Ctx>> layers_;
  CrossEntropy<T, Inner, Ctx> loss_;
};

/// Calls body(grid) on one rank, a thread.
template <class Body>
void serially(Body body) {
  on_ranks(1, [&](ThreadContext& context) { body(make_grid<TpGrid<>>(context, 1)); });
}

TEST_CASE("the gradient of every parameter is that of central differences, under every strategy") {
  std::map<std::string, Matrix<double>> wanted;
  serially([&](const auto& grid) {
    LanguageModel<double, ColumnRow<>, std::remove_cvref_t<decltype(grid)>> model(grid);
    model.for_each_parameter([&](auto& parameter) {
      const View<double> value = parameter.value().local();
      Matrix<double>& gradient = wanted[parameter.name()] = Matrix<double>(value.shape());
      constexpr double h = 1e-5;
      for (index_t i = 0; i < value.rows; ++i) {
        for (index_t j = 0; j < value.cols; ++j) {
          const double kept = value(i, j);
          value(i, j) = kept + h;
          const double above = model.loss(0);
          value(i, j) = kept - h;
          const double below = model.loss(0);
          value(i, j) = kept;
          gradient(i, j) = (above - below) / (2 * h);
        }
      }
    });
  });
  CHECK(wanted.size() == 17);
  for_strategies([&](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    LanguageModel<double, decltype(strategy), std::remove_cvref_t<decltype(grid)>> model(grid);
    (void)model.loss(0);
    model.backward();
    model.for_each_parameter([&](auto& parameter) {
      CAPTURE(parameter.name());
      CHECK(relative_difference(whole(parameter.gradient()), wanted.at(parameter.name())) <= 1e-6);
    });
  });
}

/// The losses of twenty steps with dropout; the replicas of every parameter agree after the last.
template <class T, class S, class Handle>
std::vector<double> train(const Handle& grid) {
  LanguageModel<T, S, Handle> model(grid, 0.1);
  const auto parameters = parameters_of(model);
  GradientSums sums(model, {.bucket_bytes = 512});
  Optimizer optimizer(model, AdamW{.learning_rate = 0.02, .weight_decay = 0.01});
  LossScaler scaler({.initial = 1 << 20});
  constexpr bool scales = std::is_same_v<T, half>;

  std::vector<double> losses;
  std::size_t left_out = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    zero_gradients(model);
    losses.push_back(model.loss(step));
    model.backward(scales ? scaler.scale() : 1);
    sums.finish();
    if (scales && !scaler.unscale(parameters)) {
      ++left_out;
      continue;
    }
    (void)clip_gradients(parameters, 1.0);
    optimizer.step();
  }
  if (scales) {
    CHECK(left_out > 0);  // the first scale is beyond what fp16 holds
    CHECK(left_out < steps / 2);
  }
  CHECK(replicas_equal(model));
  return losses;
}

TEST_CASE("twenty steps: every strategy's losses are the serial ones, and replicas agree bit for bit") {
  std::vector<double> serial;
  serially([&](const auto& grid) { serial = train<double, ColumnRow<>>(grid); });
  REQUIRE(serial.size() == steps);
  CHECK(serial.back() < 0.75 * serial.front());  // it learns
  for_strategies([&](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    const auto losses = train<double, decltype(strategy)>(grid);
    for (std::size_t step = 0; step < steps; ++step) {
      CAPTURE(step);
      CHECK(std::abs(losses[step] - serial[step]) <= 1e-10 * serial[step]);
    }
  });
}

TEST_CASE("twenty steps in fp16 with a scaled loss, whose first steps overflow on all ranks and are left out") {
  on_test_ranks(8, [](TestContext& context) {
    const auto losses = train<half, TwoAndAHalfDimensional<>>(make_grid<Grid25D<>>(context, 2, 2, 2));
    CHECK(losses.back() < 0.9 * losses.front());
  });
}

}  // namespace
}  // namespace partita::test
