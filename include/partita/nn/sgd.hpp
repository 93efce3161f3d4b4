// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum.
#pragma once

#include <cmath>
#include <string>

#include "partita/nn/optimizer.hpp"

namespace partita {

/// v ← momentum·v + g + weight_decay·w, w ← w − learning_rate·v; with `nesterov` the step is
/// g + weight_decay·w + momentum·v (Sutskever, Martens, Dahl and Hinton, 2013, as it is computed at the look-ahead
/// point). For Optimizer.
struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;

  static constexpr std::array<std::string_view, 2> moment_names{"velocity", ""};
  [[nodiscard]] int moments() const noexcept { return momentum != 0 ? 1 : 0; }

  void check() const {
    if (std::isfinite(learning_rate) && learning_rate >= 0 && momentum >= 0 && momentum < 1 && weight_decay >= 0 &&
        (momentum > 0 || !nesterov)) {
      return;
    }
    throw ArgumentError(
        "ArgumentError: Sgd with learning_rate " + std::to_string(learning_rate) + ", momentum " +
        std::to_string(momentum) + ", weight_decay " + std::to_string(weight_decay) + (nesterov ? ", nesterov" : "") +
        "; needed: learning_rate and weight_decay at least 0, momentum in [0, 1), above 0 for nesterov");
  }

  template <class A>
  [[nodiscard]] kernel::SgdUpdate<A> update(const UpdateViews<A>& of, index_t /*step*/, bool decays) const {
    return {.weight = of.weight,
            .gradient = of.gradient,
            .velocity = of.moments[0],
            .rate = static_cast<A>(learning_rate),
            .momentum = static_cast<A>(momentum),
            .decay = static_cast<A>(decays ? weight_decay : 0),
            .nesterov = nesterov};
  }
};

static_assert(LearningRule<Sgd>);

}  // namespace partita
