// SPDX-License-Identifier: Apache-2.0
// The vision transformer that learns the digits (Dosovitskiy et al., 2021), under any strategy.
#pragma once

#include "digits.hpp"
#include "partita/nn/class_token.hpp"
#include "partita/nn/classifier.hpp"
#include "partita/nn/layer_norm.hpp"
#include "partita/nn/patch_embedding.hpp"
#include "partita/nn/transformer_block.hpp"

namespace train_digits {

inline constexpr index_t patch_side = 2;
inline constexpr index_t features = 64;
inline constexpr index_t heads = 4;
inline constexpr index_t hidden = 128;

/// Images [B, 64] to logits [B, 10].
template <class T, class S, class Ctx>
using VisionTransformer = Sequential<PatchEmbedding<T, typename S::Stream, Ctx>, TransformerBlock<T, S, Ctx>,
                                     TransformerBlock<T, S, Ctx>, ClassToken<T, typename S::Stream, Ctx>,
                                     LayerNorm<T, typename S::Stream, Ctx>, Classifier<T, typename S::Stream, Ctx>>;

template <class T, class S, class Grid>
auto vision_transformer(const Grid& grid, std::uint64_t seed) {
  using Ctx = typename Grid::context_type;
  const auto block = [&](const char* name, index_t number) {
    return TransformerBlock<T, S, Ctx>(grid, name, features,
                                       {.heads = heads, .hidden = hidden, .seed = seed_of_part(seed, number)});
  };
  const PatchGeometry geometry{
      .height = image_side, .width = image_side, .patch_height = patch_side, .patch_width = patch_side};
  return VisionTransformer<T, S, Ctx>(
      PatchEmbedding<T, typename S::Stream, Ctx>(grid, "patches", geometry, features, {.seed = seed_of_part(seed, 0)}),
      block("block1", 1), block("block2", 2), ClassToken<T, typename S::Stream, Ctx>(),
      LayerNorm<T, typename S::Stream, Ctx>(grid, "norm", features),
      Classifier<T, typename S::Stream, Ctx>(grid, "classifier", features, classes, {.seed = seed_of_part(seed, 3)}));
}

}  // namespace train_digits
