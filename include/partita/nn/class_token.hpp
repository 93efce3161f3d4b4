// SPDX-License-Identifier: Apache-2.0
// From sequences to one row for each: its first token, or the mean of its tokens.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "partita/nn/activation.hpp"
#include "partita/nn/check.hpp"
#include "partita/nn/kernel/sequences.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/local.hpp"

namespace partita {

/// X [B·S, H], of which the row unit S is the length of a sequence, to Y [B, H] with unit 1: Take makes the row of a
/// sequence, Spread takes its gradient to the sequence. Both are bodies of kernel/sequences.hpp. No rank
/// communicates, since no sequence is cut.
template <class T, class P, class Ctx, template <class> class Take, template <class> class Spread>
class SequencePool {
  static_assert(P::layout.partial.empty(), "the activation is a pending sum; finish it first");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = P;
  using output = P;

  /// Errors, on all ranks: ShapeError where X is not made of whole sequences.
  [[nodiscard]] Activation<T, P, Ctx> forward(const Activation<T, P, Ctx>& x, const Pass& = {}) {
    const Extent2D extent = extent_of(*x);
    if (extent.shape.rows % extent.units.rows != 0) {
      throw ShapeError("ShapeError: " + to_string(extent.shape) + " is not made of whole sequences of " +
                       std::to_string(extent.units.rows) + " rows, its row unit");
    }
    auto y = made(x->grid(), output_extent(extent));
    for_each_index(x->context().backend(), y.local().rows, Take<T>{x->local(), extent.units.rows, y.local()});
    extent_ = extent;
    return y;
  }

  /// dX, given dY. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, P, Ctx> backward(const Activation<T, P, Ctx>& dy) {
    detail::check_backward("a sequence's token", extent_.has_value(), extent_of(*dy),
                           extent_ ? output_extent(*extent_) : Extent2D{});
    auto dx = made(dy->grid(), *extent_);
    for_each_index(dy->context().backend(), dx.local().rows, Spread<T>{dy->local(), extent_->units.rows, dx.local()});
    extent_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { extent_.reset(); }

  template <class F>
  void for_each_parameter(F&&) {}
  template <class F>
  void forward_steps(const Place&, const Extent2D&, F&&) const {}
  template <class F>
  void backward_steps(const Place&, const Extent2D&, F&&) const {}
  /// Of Y for an X of this extent.
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const {
    return {{x.shape.rows / x.units.rows, x.shape.cols}, {1, x.units.cols}};
  }

 private:
  static auto made(const GridHandle<typename P::grid_type, Ctx>& grid, const Extent2D& extent) {
    return DistTensor<T, P, Ctx>::uninitialized(grid, extent.shape, extent.units);
  }

  std::optional<Extent2D> extent_;  // of X
};

/// Y is the first token of each sequence: the class token that PatchEmbedding prepends.
template <class T, class P, class Ctx>
using ClassToken = SequencePool<T, P, Ctx, kernel::TakeFirst, kernel::PlaceFirst>;

/// Y is the mean of each sequence's tokens.
template <class T, class P, class Ctx>
using MeanToken = SequencePool<T, P, Ctx, kernel::TakeMean, kernel::PlaceMean>;

}  // namespace partita
