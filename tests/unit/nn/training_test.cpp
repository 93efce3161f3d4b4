// SPDX-License-Identifier: Apache-2.0
// A language model of all kinds of layers, trained for twenty steps under every strategy.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "partita/nn/nn.hpp"
#include "support/layers.hpp"

namespace partita::test {
namespace {

constexpr index_t vocabulary = 11;
constexpr index_t features = 6;
constexpr index_t sequence = 3;
constexpr index_t sequences = 5;
constexpr index_t tokens = sequences * sequence;
constexpr int steps = 20;

/// Whether all ranks that hold the same block of the parameter hold the same bits. Collective.
template <class T, class Ctx>
bool replicas_agree(const ParameterRef<T, Ctx>& parameter) {
  ProcessGrid<Ctx>& grid = *parameter.grid;
  const AxisList copies = grid.axes().without(parameter.layout.rows + parameter.layout.cols);
  if (group_size(copies, grid.extents()) == 1) return true;
  Matrix<T> largest(parameter.value.shape()), least(parameter.value.shape());
  for (index_t i = 0; i < parameter.value.rows; ++i) {
    for (index_t j = 0; j < parameter.value.cols; ++j) {
      largest(i, j) = parameter.value(i, j);
      least(i, j) = -parameter.value(i, j);
    }
  }
  all_reduce_along(grid, copies, largest.view(), ReduceOp::max);
  all_reduce_along(grid, copies, least.view(), ReduceOp::max);
  for (std::size_t i = 0; i < largest.elements.size(); ++i) {
    if (!(largest.elements[i] == -least.elements[i])) return false;
  }
  return true;
}

/// The losses of twenty steps on ids that follow a rule; the replicas of every parameter agree after the last.
template <class S, class Handle>
std::vector<double> train(const Handle& grid) {
  using Ctx = ThreadContext;
  using Stream = typename S::Stream;
  using Ids = tokens_of_t<Stream>;
  using Targets = tokens_of_t<typename S::Inner>;
  const Units units{sequence, 1};
  Embedding<double, features_of_t<Stream>, Stream, Ctx> embedding(grid, "embedding", vocabulary, features, {.seed = 1});
  Sequential model(TransformerBlock<double, S, Ctx>(grid, "block", features,
                                                    {.heads = 2, .causal = true, .dropout = 0.1, .seed = 2}),
                   LayerNorm<double, Stream, Ctx>(grid, "norm", features),
                   VocabParallelClassifier<double, S, Ctx>(grid, "classifier", features, vocabulary, {.seed = 3}));
  CrossEntropy<double, typename S::Inner, Ctx> loss(grid, {.label_smoothing = 0.1});
  auto parameters = parameters_of(embedding);
  for (auto& parameter : parameters_of(model)) parameters.push_back(parameter);
  GradientSums sums(parameters, {.bucket_bytes = 512});
  Optimizer optimizer(parameters, AdamW{.learning_rate = 0.05, .weight_decay = 0.01});

  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const auto id = [&](index_t token) { return (7 * token + token / sequence + step % 4) % vocabulary; };
    zero_gradients(embedding);
    zero_gradients(model);
    auto x = embedding.forward(
        from_function<std::int64_t, Ids>(grid, {tokens, 1}, [&](index_t i, index_t) { return id(i); }, units));
    auto logits = model.forward(std::move(x), {.step = static_cast<std::uint64_t>(step)});
    auto targets = from_function<std::int64_t, Targets>(
        grid, {tokens, 1}, [&](index_t i, index_t) { return i % 5 == 4 ? -100 : (id(i) + 3) % vocabulary; }, units);
    losses.push_back(loss.forward(std::move(logits), std::move(targets)));
    embedding.backward(model.backward(loss.backward()));
    sums.finish();
    (void)clip_gradients(parameters, 1.0);
    optimizer.step();
  }
  for (const auto& parameter : parameters) {
    CAPTURE(parameter.name);
    CHECK(replicas_agree(parameter));
  }
  return losses;
}

TEST_CASE("twenty steps: every strategy's losses are the serial ones, and replicas agree bit for bit") {
  std::vector<double> serial;
  on_ranks(1, [&](ThreadContext& context) { serial = train<ColumnRow<>>(make_grid<TpGrid<>>(context, 1)); });
  REQUIRE(serial.size() == steps);
  CHECK(serial.back() < 0.75 * serial.front());  // it learns
  for_strategies([&](const auto& grid, auto strategy) {
    CAPTURE(strategy_text(grid, strategy));
    const auto losses = train<decltype(strategy)>(grid);
    for (std::size_t step = 0; step < steps; ++step) {
      CAPTURE(step);
      CHECK(std::abs(losses[step] - serial[step]) <= 1e-10 * serial[step]);
    }
  });
}

}  // namespace
}  // namespace partita::test
