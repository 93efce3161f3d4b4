// SPDX-License-Identifier: Apache-2.0
// A layer that applies a function of one number to every element.
#pragma once

#include <utility>

#include "partita/nn/check.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "partita/nn/local.hpp"

namespace partita {

/// Y = f(X), dX = dY·f'(X). Function has a name, and static value(x) and slope(x), computed in fp32 for 16-bit data; an
/// `activation` where backends may know it (LinearActivation): kernel/functions.hpp has some. The input is kept for
/// backward(). Communicates nothing.
template <class Function, class T, class P, class Ctx>
class Elementwise {
  static_assert(P::layout.partial.empty(), "Elementwise: the function of a pending sum is not the sum of functions");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = P;
  using output = P;

  [[nodiscard]] Activation<T, P, Ctx> forward(Activation<T, P, Ctx> x, const Pass& = {}) {
    auto y = DistTensor<T, P, Ctx>::uninitialized(x->grid(), x->shape(), x->units());
    for_each_index(y.context().backend(), y.local().rows, kernel::Apply<T, Function>{x->local(), y.local()});
    keep(std::move(x));
    return y;
  }

  /// What forward(x) would keep, where Y is known already: of a product whose pass gave both (Linear::forward_with).
  void keep(Activation<T, P, Ctx> x) noexcept { x_ = std::move(x); }

  /// dX, given dY. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, P, Ctx> backward(const Activation<T, P, Ctx>& dy) {
    detail::check_backward(Function::name, static_cast<bool>(x_), extent_of(*dy), x_ ? extent_of(*x_) : Extent2D{});
    auto dx = DistTensor<T, P, Ctx>::uninitialized(x_->grid(), x_->shape(), x_->units());
    for_each_index(dx.context().backend(), dx.local().rows,
                   kernel::ApplySlope<T, Function>{x_->local(), dy->local(), dx.local()});
    x_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { x_.reset(); }
  template <class F>
  void for_each_parameter(F&&) {}
  template <class F>
  void forward_steps(const Place&, const Extent2D&, F&&) const {}
  template <class F>
  void backward_steps(const Place&, const Extent2D&, F&&) const {}
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return x; }

 private:
  Activation<T, P, Ctx> x_;
};

}  // namespace partita
