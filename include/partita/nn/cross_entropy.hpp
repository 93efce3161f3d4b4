// SPDX-License-Identifier: Apache-2.0
// The mean cross entropy of logits and targets, whether classes are whole on a rank or cut over several.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "partita/nn/activation.hpp"
#include "partita/nn/host_values.hpp"
#include "partita/nn/indices.hpp"
#include "partita/nn/kernel/cross_entropy.hpp"
#include "partita/nn/partitions.hpp"
#include "partita/nn/steps.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

struct CrossEntropyOptions {
  /// Rows with this target add nothing to loss, gradient or mean.
  std::int64_t ignore_index = -100;
  /// ε in [0, 1): the target distribution gives 1 - ε to the target and ε/V beside to each of the V global classes
  /// (Szegedy et al., 2016, section 7).
  double label_smoothing = 0;
};

/// Logits [M, V] with partition Logits, targets [M, 1] cut as their rows. The loss is the mean, over the kept rows of
/// all ranks, of log Σ exp x - (1 - ε)·x[target] - ε/V·Σ x, computed in accumulate_t<T> with the row's maximum taken
/// off; where no row is kept, loss and gradient are zero. A target whose logit is minus infinity has an infinite loss.
/// Communicates, forward: the maximum of a row along the axes over the columns; the sums of two numbers a row (three
/// with smoothing) along the same; and loss and count along the axes over the rows. Backward: nothing.
template <class T, class Logits, class Ctx>
class CrossEntropy {
  static_assert(Logits::layout.partial.empty(), "CrossEntropy: the logits are a pending sum; finish it first");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = Logits;
  using targets_type = Activation<std::int64_t, tokens_of_t<Logits>, Ctx>;

  /// Collective over the grid. Errors: ArgumentError for a smoothing outside [0, 1).
  template <class G>
  explicit CrossEntropy(const GridHandle<G, Ctx>& grid, const CrossEntropyOptions& options = {})
      : options_(checked(options)), totals_(zeros<double, Totals>(grid, {1, 2})) {}

  /// The loss, the same on all ranks. Errors, the same on all ranks and before anything is read: ShapeError or
  /// UnitError where targets do not go with the logits; ArgumentError where a target of any rank is neither a class nor
  /// ignored.
  [[nodiscard]] double forward(Activation<T, Logits, Ctx> logits, targets_type targets) {
    detail::check_targets(*logits, *targets, options_.ignore_index, "cross entropy");
    const Extent2D extent = extent_of(*logits);
    auto& grid = logits->grid().ranks();
    auto& backend = grid.context().backend();
    const index_t rows = 3 + (smooths() ? 1 : 0);
    auto numbers = Numbers::uninitialized(logits->grid(), {rows, extent.shape.rows}, {1, extent.units.rows});
    const View<A> maximum = numbers.local().sub({{0, 1}, {0, numbers.local().cols}});
    const View<A> sums = numbers.local().sub({{1, rows}, {0, numbers.local().cols}});
    const View<const T> x = logits->local();
    for_each_index(backend, x.rows, kernel::RowMaximum<T>{x, maximum});
    all_reduce_along(grid, Logits::layout.cols, maximum, ReduceOp::max);
    const index_t first = logits->block().cols.begin;
    for_each_index(backend, x.rows, kernel::ExponentialSums<T>{x, targets->local(), maximum, first, sums});
    all_reduce_along(grid, Logits::layout.cols, sums);
    const View<double> totals = totals_.local();
    for_each_index(backend, 1,
                   kernel::SumLosses<A>{sums, targets->local(), options_.ignore_index, options_.label_smoothing,
                                        extent.shape.cols, totals});
    all_reduce_along(grid, Logits::layout.rows, totals);
    const auto [loss, kept] = host_values<2>(grid.context(), totals);
    kept_ = static_cast<index_t>(kept);
    kept_state_.emplace(State{std::move(logits), std::move(targets), std::move(numbers)});
    return kept_ > 0 ? loss / kept : 0.0;
  }

  /// How many rows of all ranks the last loss is the mean of.
  [[nodiscard]] index_t kept() const noexcept { return kept_; }

  /// The gradient of scale·loss with respect to the logits. Pre: forward() was called.
  [[nodiscard]] Activation<T, Logits, Ctx> backward(double scale = 1) {
    if (!kept_state_) throw ArgumentError("ArgumentError: backward() of cross entropy without forward()");
    const State& s = *kept_state_;
    const Extent2D extent = extent_of(*s.logits);
    auto dx = DistTensor<T, Logits, Ctx>::uninitialized(s.logits->grid(), extent.shape, extent.units);
    const View<const A> numbers = s.numbers.local();
    const double factor = kept_ > 0 ? scale / static_cast<double>(kept_) : 0.0;
    const double elsewhere =
        extent.shape.cols > 0 ? options_.label_smoothing / static_cast<double>(extent.shape.cols) : 0.0;
    const kernel::CrossEntropyGradient<T> gradient{.logits = s.logits->local(),
                                                   .targets = s.targets->local(),
                                                   .maximum = numbers.sub({{0, 1}, {0, numbers.cols}}),
                                                   .sums = numbers.sub({{1, numbers.rows}, {0, numbers.cols}}),
                                                   .first = dx.block().cols.begin,
                                                   .ignored = options_.ignore_index,
                                                   .on_target = static_cast<A>(1 - options_.label_smoothing),
                                                   .elsewhere = static_cast<A>(elsewhere),
                                                   .factor = static_cast<A>(factor),
                                                   .out = dx.local()};
    for_each_index(dx.context().backend(), dx.local().rows, gradient);
    kept_state_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { kept_state_.reset(); }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& logits, F&& f) const {
    const Range rows =
        nested_block({logits.shape.rows, logits.units.rows}, Logits::layout.rows, place.extents, place.coordinates);
    visit_step(all_reduce_step(place, Logits::layout.cols, Block{{0, 1}, rows}), f);
    visit_step(all_reduce_step(place, Logits::layout.cols, Block{{1, smooths() ? 4 : 3}, rows}), f);
    visit_step(all_reduce_step(place, Logits::layout.rows, 2), f);
  }
  template <class F>
  void backward_steps(const Place&, const Extent2D&, F&&) const {}

 private:
  using A = accumulate_t<T>;
  using Totals = Partition<typename Logits::grid_type>;
  using Numbers = DistTensor<A, transposed_t<tokens_of_t<Logits>>, Ctx>;  // a column for each token
  struct State {
    Activation<T, Logits, Ctx> logits;
    targets_type targets;
    Numbers numbers;
  };

  static const CrossEntropyOptions& checked(const CrossEntropyOptions& options) {
    if (options.label_smoothing >= 0 && options.label_smoothing < 1) return options;
    throw ArgumentError("ArgumentError: cross entropy with a label smoothing of " +
                        std::to_string(options.label_smoothing) + "; it must be at least 0 and below 1");
  }
  [[nodiscard]] bool smooths() const noexcept { return options_.label_smoothing > 0; }

  CrossEntropyOptions options_;
  DistTensor<double, Totals, Ctx> totals_;
  index_t kept_ = 0;
  std::optional<State> kept_state_;
};

}  // namespace partita
