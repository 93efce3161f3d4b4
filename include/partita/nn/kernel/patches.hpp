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

/// patches[b·P + p, k] = element k of patch p of image b.
template <class T>
struct ExtractPatches {
  PatchGeometry geometry;
  View<const T> images;
  View<T> patches;

  constexpr auto with_views(auto&& f) { return f(images, patches); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return patches.cols; }
  constexpr void operator()(index_t i, index_t k) const {
    const index_t count = geometry.patches();
    patches(i, k) = images(i / count, geometry.pixel(i % count, k));
  }
};

/// The inverse; patches do not overlap.
template <class T>
struct PlacePatches {
  PatchGeometry geometry;
  View<const T> patches;
  View<T> images;

  constexpr auto with_views(auto&& f) { return f(patches, images); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return patches.cols; }
  constexpr void operator()(index_t i, index_t k) const {
    const index_t count = geometry.patches();
    images(i / count, geometry.pixel(i % count, k)) = patches(i, k);
  }
};

/// tokens[b·S + t, :] = the class token where there is one and t = 0, else the patch's row plus the bias; plus the
/// position's row. Rows that there are not have no rows in their views.
template <class T>
struct AssembleTokens {
  View<const T> patches;    // B·P × n
  View<const T> bias;       // 0 or 1 × n
  View<const T> token;      // 0 or 1 × n
  View<const T> positions;  // 0 or S × n
  index_t length;           // S
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(patches, bias, token, positions, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    const index_t t = i % length;
    const bool is_token = token.rows > 0 && t == 0;
    const index_t patch = i / length * (length - token.rows) + t - token.rows;
    A value = static_cast<A>(is_token ? token(0, j) : patches(patch, j));
    if (bias.rows > 0 && !is_token) value += static_cast<A>(bias(0, j));
    if (positions.rows > 0) value += static_cast<A>(positions(t, j));
    out(i, j) = static_cast<T>(value);
  }
};

/// out[b·(S-1) + p, :] = tokens[b·S + 1 + p, :]: the patches' rows without the class tokens.
template <class T>
struct WithoutFirst {
  View<const T> tokens;
  index_t length;  // S
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(tokens, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    const index_t row = i / (length - 1) * length + 1 + i % (length - 1);
    out(i, j) = tokens(row, j);
  }
};

}  // namespace kernel
}  // namespace partita
