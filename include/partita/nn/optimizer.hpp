// SPDX-License-Identifier: Apache-2.0
// What optimisers have in common: their state beside each parameter, fp32 masters of 16-bit weights, and the step.
#pragma once

#include <array>
#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/nn/kernel/update.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"

namespace partita {

/// What an update reads and writes of one parameter.
template <class A>
struct UpdateViews {
  View<A> weight;
  View<const A> gradient;
  std::array<View<A>, 2> moments;
};

/// A rule of learning: numbers that may change between steps, how many moments of the gradients it keeps, and the
/// update number `step` (from 1) as a body for the weight's rows. `decays`: whether the rule's weight decay is for this
/// parameter. Models: Sgd, Adam, AdamW.
template <class R>
concept LearningRule = std::copyable<R> && requires(const R rule, const UpdateViews<float>& views, index_t step) {
  { rule.learning_rate } -> std::convertible_to<double>;
  { rule.moments() } -> std::same_as<int>;
  { R::moment_names } -> std::convertible_to<std::array<std::string_view, 2>>;
  // Throws ArgumentError for numbers outside their domain.
  { rule.check() } -> std::same_as<void>;
  { rule.update(views, step, true) } -> LocalBody;
};

/// Predicates for the weight decay: all parameters, or only those that are matrices, not a bias, a gain or a shift.
struct DecayAll {
  [[nodiscard]] bool operator()(const auto&) const noexcept { return true; }
};
struct DecayMatrices {
  [[nodiscard]] bool operator()(const auto& parameter) const noexcept {
    return parameter.shape.rows > 1 && parameter.shape.cols > 1;
  }
};

/// Applies a rule to the blocks that this rank holds; steps communicate nothing. Gradients that are equal on the
/// replicas of a block leave them equal, to the bit. Weights of 16 bits have masters in fp32, to which updates are
/// added, and are the masters rounded. State and masters begin as zeros and as the weights are at construction.
///
///     Optimizer optimizer(model, AdamW{.learning_rate = 1e-3, .weight_decay = 0.05}, DecayMatrices{});
///     optimizer.step();   // after the gradients are summed
///
/// The model stays where it is, keeps the memory of its values, and outlives this.
template <LearningRule Rule, class T, class Ctx>
class Optimizer {
 public:
  using Ref = ParameterRef<T, Ctx>;
  using Weight = accumulate_t<T>;

  /// `decays(ref)` tells whether the rule's weight decay is for that parameter.
  /// Collective. Errors, on all ranks: ArgumentError for the rule's numbers; CapacityError.
  /// Communicates: an agreement.
  template <class Decays = DecayAll>
  Optimizer(std::vector<Ref> parameters, Rule rule, const Decays& decays = {}) : rule_(std::move(rule)) {
    rule_.check();
    for (Ref& parameter : parameters) {
      const bool decayed = decays(std::as_const(parameter));
      entries_.push_back({std::move(parameter), decayed, {}, {}, {}});
    }
    allocate();
    reset_masters();
  }
  template <class Model, class Decays = DecayAll>
    requires requires { typename Model::context_type; }
  Optimizer(Model& model, Rule rule, const Decays& decays = {})
      : Optimizer(parameters_of(model), std::move(rule), decays) {}

  /// The rule, whose learning rate a schedule changes between steps.
  [[nodiscard]] Rule& rule() noexcept { return rule_; }
  /// The updates made so far.
  [[nodiscard]] index_t steps() const noexcept { return steps_; }

  /// One update of every parameter from its gradient. Errors, on all ranks: ArgumentError for the rule's numbers.
  void step() {
    rule_.check();
    ++steps_;
    for (Entry& entry : entries_) {
      auto& backend = entry.ref.grid->context().backend();
      const UpdateViews<Weight> views{entry.weight, entry.ref.gradient, entry.moments};
      for_each_index(backend, entry.weight.rows, rule_.update(views, steps_, entry.decays));
      if constexpr (is_storage_only_v<T>) {
        backend.template combine<T>(0, View<const Weight>(entry.weight), entry.ref.value);
      }
    }
  }

  /// Takes the weights as they are now for the masters: after values were loaded.
  void reset_masters() {
    if constexpr (is_storage_only_v<T>) {
      for (Entry& entry : entries_) {
        for_each_index(entry.ref.grid->context().backend(), entry.weight.rows,
                       kernel::Widen<T, Weight>{entry.ref.value, entry.weight});
      }
    }
  }

  /// Calls f(parameter, name, view) for each moment, and for each master ("master"): with the parameters' layouts and
  /// steps() they are all that a continued run needs.
  template <class F>
  void for_each_state(F&& f) {
    for (Entry& entry : entries_) {
      for (int i = 0; i < rule_.moments(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        f(std::as_const(entry.ref), Rule::moment_names[at], entry.moments[at]);
      }
      if constexpr (is_storage_only_v<T>) f(std::as_const(entry.ref), std::string_view("master"), entry.weight);
    }
  }
  /// The number of updates that the state, filled by for_each_state(), has seen.
  void resume(index_t steps) noexcept { steps_ = steps; }

 private:
  struct Entry {
    Ref ref;
    bool decays = true;
    Memory memory;
    View<Weight> weight;  // the value itself, or its master
    std::array<View<Weight>, 2> moments;
  };

  void allocate() {
    if (entries_.empty()) return;
    std::string objection;
    try {
      for (Entry& entry : entries_) {
        const Shape shape = entry.ref.value.shape();
        const index_t blocks = rule_.moments() + (is_storage_only_v<T> ? 1 : 0);
        Ctx& context = entry.ref.grid->context();
        entry.memory = context.template allocate<Weight>(checked_product(blocks, shape.size()));
        auto* at = reinterpret_cast<Weight*>(entry.memory.get());
        for (int i = 0; i < rule_.moments(); ++i, at += shape.size()) {
          View<Weight>& moment = entry.moments[static_cast<std::size_t>(i)];
          moment = View<Weight>(at, shape);
          context.backend().template scale<Weight>(0, moment);
        }
        if constexpr (is_storage_only_v<T>) {
          entry.weight = View<Weight>(at, shape);
        } else {
          entry.weight = entry.ref.value;
        }
      }
    } catch (const std::exception& error) {  // agreed below: peers must not go on into a collective alone
      objection = error.what();
    }
    detail::agree_or_throw<CapacityError>(entries_.front().ref.grid->context().comm(), objection);
  }

  Rule rule_;
  std::vector<Entry> entries_;
  index_t steps_ = 0;
};

template <class Model, class Rule, class Decays = DecayAll>
  requires requires { typename Model::context_type; }
Optimizer(Model&, Rule, const Decays& = {})
    -> Optimizer<Rule, typename Model::value_type, typename Model::context_type>;
template <class T, class Ctx, class Rule, class Decays = DecayAll>
Optimizer(std::vector<ParameterRef<T, Ctx>>, Rule, const Decays& = {}) -> Optimizer<Rule, T, Ctx>;

}  // namespace partita
