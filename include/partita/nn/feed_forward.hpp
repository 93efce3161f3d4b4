// SPDX-License-Identifier: Apache-2.0
// The feed-forward layer of a transformer: two linear layers with a function between them.
#pragma once

#include <string>

#include "partita/nn/gelu.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/linear.hpp"
#include "partita/nn/seed.hpp"
#include "partita/nn/strategy.hpp"

namespace partita {

struct FeedForwardOptions {
  bool bias = true;
  std::uint64_t seed = 0;
};

/// The layers of FeedForward: from S::Stream to S::Inner, the function there, and back.
template <class T, class S, class Ctx, class Function>
using feed_forward_layers = Sequential<Linear<T, typename S::Stream, typename S::Enter, typename S::Inner, Ctx>,
                                       Elementwise<Function, T, typename S::Inner, Ctx>,
                                       Linear<T, typename S::Inner, typename S::Leave, typename S::Stream, Ctx>>;

/// Y = f(X·W₁ + b₁)·W₂ + b₂ (Vaswani et al., 2017, equation 2), f the exact Gelu if no other function is asked for; X
/// and Y [tokens, features] with partition S::Stream, hidden features with S::Inner's. With kernel::TanhGelu the first
/// product, b₁ and f are one pass where Linear::forward_with has one. Communicates what its linear layers do.
template <class T, class S, class Ctx, class Function = kernel::ExactGelu>
class FeedForward : public feed_forward_layers<T, S, Ctx, Function> {
  using Base = feed_forward_layers<T, S, Ctx, Function>;

 public:
  /// Collective over the grid. Errors, on all ranks: ShapeError, CapacityError.
  template <class G>
  FeedForward(const GridHandle<G, Ctx>& grid, const std::string& name, index_t features, index_t hidden,
              const FeedForwardOptions& options = {})
      : Base({grid, name + ".enter", features, hidden, {.bias = options.bias, .seed = seed_of_part(options.seed, 0)}},
             {},
             {grid, name + ".leave", hidden, features, {.bias = options.bias, .seed = seed_of_part(options.seed, 1)}}) {
  }

  [[nodiscard]] auto& enter() noexcept { return this->template layer<0>(); }
  [[nodiscard]] auto& leave() noexcept { return this->template layer<2>(); }
};

}  // namespace partita
