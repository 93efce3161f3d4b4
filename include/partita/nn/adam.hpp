// SPDX-License-Identifier: Apache-2.0
// Adam, and AdamW whose weight decay is decoupled from the gradient.
#pragma once

#include <cmath>
#include <string>

#include "partita/nn/optimizer.hpp"

namespace partita {

/// m ← β₁m + (1 − β₁)g, s ← β₂s + (1 − β₂)g², and in step t, w ← w − learning_rate · m/(1 − β₁ᵗ) / (√(s/(1 − β₂ᵗ)) + ε)
/// (Kingma and Ba, 2015, algorithm 1). The decay λ = weight_decay is either added to the gradient, g + λw, or decoupled
/// from it: w ← w − learning_rate·λ·w besides (Loshchilov and Hutter, 2019, algorithm 2). For Optimizer.
template <bool Decoupled>
struct AdamRule {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  static constexpr std::array<std::string_view, 2> moment_names{"mean", "square"};
  [[nodiscard]] int moments() const noexcept { return 2; }

  void check() const {
    const auto fraction = [](double x) { return x >= 0 && x < 1; };
    if (std::isfinite(learning_rate) && learning_rate >= 0 && fraction(beta1) && fraction(beta2) && epsilon > 0 &&
        weight_decay >= 0) {
      return;
    }
    throw ArgumentError(std::string("ArgumentError: Adam") + (Decoupled ? "W" : "") + " with learning_rate " +
                        std::to_string(learning_rate) + ", beta1 " + std::to_string(beta1) + ", beta2 " +
                        std::to_string(beta2) + ", epsilon " + std::to_string(epsilon) + ", weight_decay " +
                        std::to_string(weight_decay) +
                        "; needed: betas in [0, 1), epsilon above 0, the others at least 0");
  }

  template <class A>
  [[nodiscard]] kernel::AdamUpdate<A> update(const UpdateViews<A>& of, index_t step, bool decays) const {
    const auto t = static_cast<double>(step);
    const double decay = decays ? weight_decay : 0;
    return {.weight = of.weight,
            .gradient = of.gradient,
            .mean = of.moments[0],
            .square = of.moments[1],
            .rate = static_cast<A>(learning_rate),
            .beta1 = static_cast<A>(beta1),
            .rest1 = static_cast<A>(1 - beta1),
            .correction1 = static_cast<A>(1 / (1 - std::pow(beta1, t))),
            .beta2 = static_cast<A>(beta2),
            .rest2 = static_cast<A>(1 - beta2),
            .correction2 = static_cast<A>(1 / (1 - std::pow(beta2, t))),
            .epsilon = static_cast<A>(epsilon),
            .coupled = static_cast<A>(Decoupled ? 0 : decay),
            .decoupled = static_cast<A>(Decoupled ? learning_rate * decay : 0)};
  }
};

using Adam = AdamRule<false>;
using AdamW = AdamRule<true>;

static_assert(LearningRule<Adam> && LearningRule<AdamW>);

}  // namespace partita
