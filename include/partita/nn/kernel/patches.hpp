// SPDX-License-Identifier: Apache-2.0
// Local work with images: their patches, and the tokens made of them.
#pragma once

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita {

/// Images of channels × height × width, channel by channel and row by row, cut into patches without a rest; patches
/// are numbered row by row, and inside a patch elements stand channel by channel and row by row.
struct PatchGeometry {
  index_t channels = 1;
  index_t height = 0;
  index_t width = 0;
  index_t patch_height = 1;
  index_t patch_width = 1;

  [[nodiscard]] constexpr index_t pixels() const noexcept { return channels * height * width; }
  [[nodiscard]] constexpr index_t patch_pixels() const noexcept { return channels * patch_height * patch_width; }
  [[nodiscard]] constexpr index_t across() const noexcept { return width / patch_width; }
  [[nodiscard]] constexpr index_t patches() const noexcept { return (height / patch_height) * across(); }
  /// Where element k of patch p stands in its image.
  [[nodiscard]] constexpr index_t pixel(index_t p, index_t k) const noexcept {
    const index_t column = k % patch_width;
    const index_t row = k / patch_width % patch_height;
    const index_t channel = k / (patch_width * patch_height);
    return (channel * height + p / across() * patch_height + row) * width + p % across() * patch_width + column;
  }
};

namespace kernel {

/// patches[b·P + p, k] = element k of patch p of image b. Index: the row of patches.
template <class T>
struct ExtractPatches {
  PatchGeometry geometry;
  View<const T> images;
  View<T> patches;

  constexpr void operator()(index_t i) const {
    const index_t count = geometry.patches();
    for (index_t k = 0; k < patches.cols; ++k) patches(i, k) = images(i / count, geometry.pixel(i % count, k));
  }
};

/// The inverse; patches do not overlap. Index: the row of patches.
template <class T>
struct PlacePatches {
  PatchGeometry geometry;
  View<const T> patches;
  View<T> images;

  constexpr void operator()(index_t i) const {
    const index_t count = geometry.patches();
    for (index_t k = 0; k < patches.cols; ++k) images(i / count, geometry.pixel(i % count, k)) = patches(i, k);
  }
};

/// tokens[b·S + t, :] = the class token where there is one and t = 0, else the patch's row plus the bias; plus the
/// position's row. Rows that there are not have no rows in their views. Index: the row of tokens.
template <class T>
struct AssembleTokens {
  View<const T> patches;    // B·P × n
  View<const T> bias;       // 0 or 1 × n
  View<const T> token;      // 0 or 1 × n
  View<const T> positions;  // 0 or S × n
  index_t length;           // S
  View<T> out;

  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const index_t t = i % length;
    const bool is_token = token.rows > 0 && t == 0;
    const index_t patch = i / length * (length - token.rows) + t - token.rows;
    for (index_t j = 0; j < out.cols; ++j) {
      A value = static_cast<A>(is_token ? token(0, j) : patches(patch, j));
      if (bias.rows > 0 && !is_token) value += static_cast<A>(bias(0, j));
      if (positions.rows > 0) value += static_cast<A>(positions(t, j));
      out(i, j) = static_cast<T>(value);
    }
  }
};

/// out[b·(S-1) + p, :] = tokens[b·S + 1 + p, :]: the patches' rows without the class tokens. Index: the row of out.
template <class T>
struct WithoutFirst {
  View<const T> tokens;
  index_t length;  // S
  View<T> out;

  constexpr void operator()(index_t i) const {
    const index_t row = i / (length - 1) * length + 1 + i % (length - 1);
    for (index_t j = 0; j < out.cols; ++j) out(i, j) = tokens(row, j);
  }
};

}  // namespace kernel
}  // namespace partita
