// SPDX-License-Identifier: Apache-2.0
// A block of a transformer, with its norms before attention and feed-forward.
#pragma once

#include <string>

#include "partita/nn/attention.hpp"
#include "partita/nn/dropout.hpp"
#include "partita/nn/feed_forward.hpp"
#include "partita/nn/layer_norm.hpp"
#include "partita/nn/residual.hpp"

namespace partita {

struct TransformerBlockOptions {
  index_t heads = 1;
  /// Features of a head; 0: features / heads, which must then divide.
  index_t head_width = 0;
  /// Hidden features of the feed-forward layer; 0: four times the features.
  index_t hidden = 0;
  /// Tokens of a sequence; 0: the row unit of the input.
  index_t sequence = 0;
  bool causal = false;
  /// Of the result of attention and of the feed-forward layer, before they are added.
  double dropout = 0;
  /// Of the probabilities of attention.
  double attention_dropout = 0;
  double eps = 1e-5;
  bool bias = true;
  std::uint64_t seed = 0;
};

/// dropout(F(norm(X))): what one half of a block adds to X.
template <class T, class S, class Ctx, class F>
using pre_norm_layers = Sequential<LayerNorm<T, typename S::Stream, Ctx>, F, Dropout<T, typename S::Stream, Ctx>>;

/// Z = X + attention(norm(X)), Y = Z + feed_forward(norm(Z)) (the pre-norm form: Xiong et al., 2020, figure 1b), X and
/// Y [tokens, features] with partition S::Stream. Communicates what its layers do.
template <class T, class S, class Ctx, class Function = kernel::ExactGelu>
class TransformerBlock : public Sequential<Residual<pre_norm_layers<T, S, Ctx, SelfAttention<T, S, Ctx>>>,
                                           Residual<pre_norm_layers<T, S, Ctx, FeedForward<T, S, Ctx, Function>>>> {
  using Norm = LayerNorm<T, typename S::Stream, Ctx>;
  using Attend = SelfAttention<T, S, Ctx>;
  using Feed = FeedForward<T, S, Ctx, Function>;
  using Drop = Dropout<T, typename S::Stream, Ctx>;
  using First = pre_norm_layers<T, S, Ctx, Attend>;
  using Second = pre_norm_layers<T, S, Ctx, Feed>;

 public:
  /// Collective over the grid. Errors, on all ranks: ArgumentError where heads or options do not fit; ShapeError,
  /// CapacityError.
  template <class G>
  TransformerBlock(const GridHandle<G, Ctx>& grid, const std::string& name, index_t features,
                   const TransformerBlockOptions& options)
      : Sequential<Residual<First>, Residual<Second>>(
            Residual<First>(First(Norm(grid, name + ".attention_norm", features, {.eps = options.eps}),
                                  Attend(grid, name + ".attention", features, attention_options(options)),
                                  Drop({.rate = options.dropout, .seed = seed_of_part(options.seed, 1)}))),
            Residual<Second>(
                Second(Norm(grid, name + ".feed_forward_norm", features, {.eps = options.eps}),
                       Feed(grid, name + ".feed_forward", features, options.hidden > 0 ? options.hidden : 4 * features,
                            {.bias = options.bias, .seed = seed_of_part(options.seed, 2)}),
                       Drop({.rate = options.dropout, .seed = seed_of_part(options.seed, 3)})))) {}

  [[nodiscard]] Norm& attention_norm() noexcept { return first().template layer<0>(); }
  [[nodiscard]] Attend& attention() noexcept { return first().template layer<1>(); }
  [[nodiscard]] Norm& feed_forward_norm() noexcept { return second().template layer<0>(); }
  [[nodiscard]] Feed& feed_forward() noexcept { return second().template layer<1>(); }

 private:
  static AttentionOptions attention_options(const TransformerBlockOptions& options) {
    return {.heads = options.heads,
            .head_width = options.head_width,
            .sequence = options.sequence,
            .causal = options.causal,
            .dropout = options.attention_dropout,
            .bias = options.bias,
            .seed = seed_of_part(options.seed, 0)};
  }
  [[nodiscard]] auto& first() noexcept { return this->template layer<0>().inner(); }
  [[nodiscard]] auto& second() noexcept { return this->template layer<1>().inner(); }
};

}  // namespace partita
