// SPDX-License-Identifier: Apache-2.0
// From images to sequences of tokens: patches through a linear layer, a class token before them, positions added.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "partita/nn/activation.hpp"
#include "partita/nn/check.hpp"
#include "partita/nn/kernel/patches.hpp"
#include "partita/nn/kernel/rows.hpp"
#include "partita/nn/kernel/sequences.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"
#include "partita/nn/product.hpp"

namespace partita {

struct PatchEmbeddingOptions {
  bool bias = true;
  bool class_token = true;
  bool positions = true;
  /// Whether backward() gives the gradient of the images; it costs a sum along the axes over the features.
  bool image_gradient = false;
  /// Of the initial weight, as Linear's; of class token and positions, uniform with a standard deviation of 0.02.
  std::uint64_t seed = 0;
  /// Unit at which alone the features may be cut.
  index_t feature_unit = 1;
};

/// Images [B, channels·height·width], cut as the rows of Out, to tokens [B·S, H] with partition Out and row unit S:
/// P patches, row by row, each a row patch·W + b, after the class token where there is one (S = P + 1), and positions
/// [S, H] added to each sequence (Dosovitskiy et al., 2021, equation 1). All parameters lie along the columns of Out.
/// Forward communicates nothing. Backward: gradients of parameters are local, pending along the axes over Out's rows.
template <class T, class Out, class Ctx>
class PatchEmbedding {
  static_assert(Out::layout.partial.empty(), "PatchEmbedding: the output is no pending sum");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = tokens_of_t<Out>;
  using output = Out;
  using parameter = Parameter<T, features_of_t<Out>, Out, Ctx>;

  /// Collective over the grid. Errors, on all ranks: ArgumentError where a size is below 1 or patches leave a rest;
  /// ShapeError, CapacityError.
  template <class G>
  PatchEmbedding(const GridHandle<G, Ctx>& grid, std::string name, const PatchGeometry& geometry, index_t features,
                 const PatchEmbeddingOptions& options = {})
      : name_(std::move(name)),
        geometry_(checked(name_, geometry)),
        image_gradient_(options.image_gradient),
        weight_(name_ + ".weight", initial_weight(grid, features, options)) {
    const Units units{1, options.feature_unit};
    if (options.bias) bias_.emplace(name_ + ".bias", zeros<T, features_of_t<Out>>(grid, {1, features}, units));
    const auto drawn = [&](Shape shape, std::uint32_t lane) {
      return from_function<T, features_of_t<Out>>(
          grid, shape,
          [&](index_t i, index_t j) {
            const double bound = std::sqrt(3.0) * 0.02;
            return static_cast<accumulate_t<T>>(bound * (2 * random_unit(options.seed, i, j, lane) - 1));
          },
          units);
    };
    if (options.class_token) token_.emplace(name_ + ".class_token", drawn({1, features}, 1));
    if (options.positions) positions_.emplace(name_ + ".positions", drawn({length(), features}, 2));
  }

  /// Tokens in a sequence: the unit of the output's rows.
  [[nodiscard]] index_t length() const noexcept { return geometry_.patches() + (token_ ? 1 : 0); }
  [[nodiscard]] parameter& weight() noexcept { return weight_; }
  /// Pre, of these three: the layer has one.
  [[nodiscard]] parameter& bias() noexcept { return *bias_; }
  [[nodiscard]] parameter& class_token() noexcept { return *token_; }
  [[nodiscard]] parameter& positions() noexcept { return *positions_; }

  /// Errors, on all ranks: ShapeError where the images are of another size; UnitError where their row unit is not 1.
  [[nodiscard]] Activation<T, Out, Ctx> forward(const Activation<T, input, Ctx>& images, const Pass& = {}) {
    if (images->shape().cols != geometry_.pixels()) {
      throw ShapeError("ShapeError: " + name_ + " takes images of " + std::to_string(geometry_.pixels()) +
                       " elements, got rows of " + std::to_string(images->shape().cols));
    }
    if (images->units().rows != 1) {
      throw UnitError("UnitError: " + name_ + " takes images that may be cut after each, got a row unit of " +
                      std::to_string(images->units().rows));
    }
    auto& backend = images->context().backend();
    const Extent2D extent = patches_extent(extent_of(*images));
    auto patches = DistTensor<T, input, Ctx>::uninitialized(images->grid(), extent.shape, extent.units);
    for_each_index(backend, patches.local().rows,
                   kernel::ExtractPatches<T>{geometry_, images->local(), patches.local()});
    const auto rows = matmul<Out>(patches, weight_.value());
    const Extent2D y = output_extent(extent_of(*images));
    auto tokens = DistTensor<T, Out, Ctx>::uninitialized(rows.grid(), y.shape, y.units);
    const kernel::AssembleTokens<T> assemble{rows.local(),       values(bias_), values(token_),
                                             values(positions_), length(),      tokens.local()};
    for_each_index(backend, tokens.local().rows, assemble);
    patches_ = std::move(patches);
    return tokens;
  }

  /// The gradient of the images, where the options ask for it, else an empty activation. Adds to the gradients.
  /// Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, input, Ctx> backward(const Activation<T, Out, Ctx>& dy) {
    detail::check_backward(name_, static_cast<bool>(patches_), extent_of(*dy),
                           patches_ ? tokens_extent(patches_->shape().rows / geometry_.patches()) : Extent2D{});
    Activation<T, input, Ctx> dx;
    if (token_) {
      auto rows = DistTensor<T, Out, Ctx>::uninitialized(dy->grid(), {patches_->shape().rows, dy->shape().cols},
                                                         {patches_->units().rows, dy->units().cols});
      for_each_index(dy->context().backend(), rows.local().rows,
                     kernel::WithoutFirst<T>{dy->local(), length(), rows.local()});
      dx = backward_of_patches(rows);
      add(*token_, dy->local(), 1);
    } else {
      dx = backward_of_patches(*dy);
    }
    if (positions_) add(*positions_, dy->local(), length());
    patches_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { patches_.reset(); }

  template <class F>
  void for_each_parameter(F&& f) {
    f(weight_);
    for (auto* other : {&bias_, &token_, &positions_}) {
      if (*other) f(**other);
    }
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& images, F&& f) const {
    detail::product_steps<T, input, features_of_t<Out>, Out>(place, patches_extent(images), extent_of(weight_.value()),
                                                             f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& images, F&& f) const {
    const Extent2D patches = patches_extent(images);
    const Extent2D w = extent_of(weight_.value());
    const Extent2D dy{{patches.shape.rows, w.shape.cols}, {patches.units.rows, w.units.cols}};
    if (image_gradient_) {
      detail::product_while_steps<T, Out, transposed_t<features_of_t<Out>>, input>(place, dy, w.transposed(), f);
    }
    detail::product_steps<T, transposed_t<input>, Out, typename parameter::gradient_partition>(
        place, patches.transposed(), dy, f);
  }
  /// Of the tokens for images of this extent.
  [[nodiscard]] Extent2D output_extent(const Extent2D& images) const { return tokens_extent(images.shape.rows); }

 private:
  [[nodiscard]] Extent2D tokens_extent(index_t images) const {
    const Extent2D w = extent_of(weight_.value());
    return {{images * length(), w.shape.cols}, {length(), w.units.cols}};
  }
  static PatchGeometry checked(const std::string& name, const PatchGeometry& g) {
    const bool sized = g.channels >= 1 && g.height >= 1 && g.width >= 1 && g.patch_height >= 1 && g.patch_width >= 1;
    if (sized && g.height % g.patch_height == 0 && g.width % g.patch_width == 0) return g;
    throw ArgumentError("ArgumentError: " + name + ": images of " + std::to_string(g.channels) + " channels of " +
                        to_string(Shape{g.height, g.width}) + " in patches of " +
                        to_string(Shape{g.patch_height, g.patch_width}) +
                        "; sizes must be at least 1, and patches must leave no rest");
  }
  template <class G>
  auto initial_weight(const GridHandle<G, Ctx>& grid, index_t features, const PatchEmbeddingOptions& options) const {
    const index_t in = geometry_.patch_pixels();
    const double bound = in + features > 0 ? std::sqrt(6.0 / static_cast<double>(in + features)) : 0.0;
    return random_uniform<T, features_of_t<Out>>(grid, {in, features}, options.seed, -bound, bound,
                                                 Units{1, options.feature_unit});
  }

  [[nodiscard]] Extent2D patches_extent(const Extent2D& images) const {
    return {{images.shape.rows * geometry_.patches(), geometry_.patch_pixels()}, {geometry_.patches(), 1}};
  }
  static View<const T> values(const std::optional<parameter>& p) { return p ? p->value().local() : View<const T>(); }

  /// dY of the patches' rows alone.
  Activation<T, input, Ctx> backward_of_patches(const DistTensor<T, Out, Ctx>& dy) {
    const auto add_gradients = [&] {
      matmul_into(weight_.gradient(), partita::transposed(*patches_), dy, 1, 1);
      weight_.contribute();
      if (!bias_) return;
      const kernel::SumRows<T> sum{dy.local(), bias_->gradient().local()};
      for_each_index(dy.context().backend(), sum.stripes(), sum);
      bias_->contribute();
    };
    if (!image_gradient_) {
      add_gradients();
      return {};
    }
    const auto dpatches =
        detail::matmul_while<input>(dy, partita::transposed(std::as_const(weight_).value()), add_gradients);
    auto dx = DistTensor<T, input, Ctx>::uninitialized(
        dy.grid(), {dpatches.shape().rows / geometry_.patches(), geometry_.pixels()}, {});
    for_each_index(dy.context().backend(), dpatches.local().rows,
                   kernel::PlacePatches<T>{geometry_, dpatches.local(), dx.local()});
    return dx;
  }
  void add(parameter& p, View<const T> dy, index_t rows) {
    for_each_index(p.value().context().backend(), rows,
                   kernel::SumOverSequences<T>{dy, length(), p.gradient().local()});
    p.contribute();
  }

  std::string name_;
  PatchGeometry geometry_;
  bool image_gradient_;
  parameter weight_;
  std::optional<parameter> bias_, token_, positions_;
  Activation<T, input, Ctx> patches_;
};

}  // namespace partita
