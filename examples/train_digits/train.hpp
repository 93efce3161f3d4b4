// SPDX-License-Identifier: Apache-2.0
// The training of one rank: what differs between policies and kinds of ranks is in the types alone.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "model.hpp"
#include "partita/nn/accuracy.hpp"
#include "partita/nn/adam.hpp"
#include "partita/nn/cross_entropy.hpp"
#include "partita/nn/gradient_norm.hpp"
#include "partita/nn/gradient_sums.hpp"
#include "partita/nn/learning_rate.hpp"
#include "settings.hpp"

namespace train_digits {

/// Images and labels of a batch, each rank's part of them.
template <class T, class S, class Grid>
auto batch_of(const Grid& grid, const Digits& digits, const std::vector<Sample>& samples) {
  using Rows = tokens_of_t<typename S::Stream>;
  const auto count = static_cast<index_t>(samples.size());
  const auto sample = [&](index_t i) { return samples[static_cast<std::size_t>(i)]; };
  auto images = from_function<T, Rows>(grid, {count, pixels}, [&](index_t i, index_t j) {
    const Sample s = sample(i);
    return static_cast<accumulate_t<T>>(digits.pixel(s.image, j / image_side, j % image_side, s.down, s.right));
  });
  auto labels = from_function<std::int64_t, Rows>(grid, {count, 1},
                                                  [&](index_t i, index_t) { return digits.label(sample(i).image); });
  return std::pair(std::move(images), std::move(labels));
}

/// The share of the held-out images whose digit the model names.
template <class T, class S, class Grid, class Model>
double held_out_accuracy(const Grid& grid, const Digits& digits, Model& model) {
  constexpr std::size_t at_once = 180;
  const std::vector<index_t>& images = digits.held_out();
  Hits all;
  for (std::size_t from = 0; from < images.size(); from += at_once) {
    std::vector<Sample> samples;
    for (std::size_t i = from; i < std::min(from + at_once, images.size()); ++i) samples.push_back({images[i], 0, 0});
    auto [inputs, labels] = batch_of<T, S>(grid, digits, samples);
    const auto logits = model.forward(std::move(inputs), {.training = false});
    model.forget();
    const Hits hits = accuracy(*logits, labels);
    all = {all.correct + hits.correct, all.kept + hits.kept};
  }
  return all.rate();
}

/// Trains on this rank of as many as the grid of `settings` has. Collective.
template <class T, class S, class Ctx>
Result train(Ctx& context, const Settings& settings, const Digits& digits, const Watch& watch) {
  const auto grid = make_grid_of<typename S::grid_type>(context, settings.extents);
  auto model = vision_transformer<T, S>(grid, settings.seed);
  using Logits = typename decltype(model)::output;
  CrossEntropy<T, Logits, Ctx> loss(grid, {.label_smoothing = settings.label_smoothing});
  const auto parameters = parameters_of(model);
  GradientSums sums(model);
  Optimizer optimizer(model, AdamW{.weight_decay = settings.weight_decay}, DecayMatrices{});
  const WarmupCosine rate{.peak = settings.learning_rate,
                          .last = settings.learning_rate / 100,
                          .warmup_steps = std::min<index_t>(100, settings.steps / 10),
                          .total_steps = settings.steps};
  Batches batches(digits, settings.batch, settings.shift, settings.seed);

  Result result;
  result.held_out = static_cast<index_t>(digits.held_out().size());
  for (const auto& parameter : parameters) result.parameters += parameter.shape.size();
  const index_t between = std::max<index_t>(10, settings.steps / 15);  // steps; a short run is to be about training
  const auto start = std::chrono::steady_clock::now();
  for (index_t step = 0; step < settings.steps; ++step) {
    Point point{.step = step + 1, .learning_rate = rate(step)};
    auto [images, labels] = batch_of<T, S>(grid, digits, batches.at(step));
    zero_gradients(model);
    auto logits = model.forward(std::move(images), {.step = static_cast<std::uint64_t>(step)});
    point.loss = loss.forward(std::move(logits), std::move(labels));
    (void)model.backward(loss.backward());
    sums.finish();
    point.gradient_norm = clip_gradients(parameters, 1.0);
    optimizer.rule().learning_rate = point.learning_rate;
    optimizer.step();
    const bool last = step + 1 == settings.steps;
    if (last || (step + 1) % between == 0) point.accuracy = held_out_accuracy<T, S>(grid, digits, model);
    point.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (context.rank() == 0 && watch) watch(point);
    if (last) result.accuracy = point.accuracy;
    if (last) result.seconds = point.seconds;
  }
  return result;
}

}  // namespace train_digits
