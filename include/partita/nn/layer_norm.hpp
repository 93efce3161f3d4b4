// SPDX-License-Identifier: Apache-2.0
// The layer norm over features that may be cut over ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "partita/nn/check.hpp"
#include "partita/nn/kernel/norm.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"

namespace partita {

struct LayerNormOptions {
  double eps = 1e-5;
  /// The unit at which alone the input's features may be cut.
  index_t unit = 1;
};

/// Y = (X − mean)/√(variance + eps) · gain + shift over the features of each token (Ba, Kiros and Hinton, 2016,
/// equation 4). X and Y are [M, H] with partition P, gain and shift [1, H] cut as the columns of P; gain begins at one,
/// shift at zero.
/// Communicates, along the axes over the columns of P: forward one sum of a number for each local token (the mean's),
/// and one of squared *deviations*, since mean of squares minus squared mean cancels; backward one of two numbers a
/// token.
template <class T, class P, class Ctx>
class LayerNorm {
  static_assert(P::layout.partial.empty(), "LayerNorm: the activation is a pending sum; finish it first");
  using A = accumulate_t<T>;

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = P;
  using output = P;
  using parameter_type = Parameter<T, features_of_t<P>, P, Ctx>;

  /// Collective over the grid. Errors, on all ranks: ShapeError, CapacityError.
  template <class G>
  LayerNorm(const GridHandle<G, Ctx>& grid, std::string name, index_t features, const LayerNormOptions& options = {})
      : name_(std::move(name)),
        eps_(options.eps),
        gain_(std::make_shared<parameter_type>(name_ + ".gain", ones(grid, features, options.unit))),
        shift_(std::make_shared<parameter_type>(
            name_ + ".shift", zeros<T, features_of_t<P>>(grid, {1, features}, Units{1, options.unit}))) {}

  [[nodiscard]] parameter_type& gain() noexcept { return *gain_; }
  [[nodiscard]] parameter_type& shift() noexcept { return *shift_; }

  /// Errors, on all ranks: ShapeError, UnitError, CapacityError.
  [[nodiscard]] Activation<T, P, Ctx> forward(Activation<T, P, Ctx> x, const Pass& = {}) {
    detail::check_features(name_, extent_of(*x), extent_of(gain_->value()));
    auto y = DistTensor<T, P, Ctx>::uninitialized(x->grid(), x->shape(), x->units());
    moments_ = Moments::uninitialized(GridHandle<typename P::grid_type, Ctx>(x->grid().shared()), {x->shape().rows, 2},
                                      {x->units().rows, 1});
    const View<A> moments = moments_->local();
    const View<A> first = column(moments, 0);
    const View<A> second = column(moments, 1);
    const View<const T> in = x->local();
    const A count = features();
    auto& grid = x->grid().ranks();
    for_each_index(backend(), in.rows, kernel::RowSums<T>{in, first});
    all_reduce_along(grid, P::layout.cols, first);
    for_each_index(backend(), in.rows, kernel::RowDeviations<T>{in, moments, count});
    all_reduce_along(grid, P::layout.cols, second);
    for_each_index(
        backend(), in.rows,
        kernel::NormalizeRows<T>{in, gain_row(), shift_row(), moments, y.local(), count, static_cast<A>(eps_)});
    x_ = std::move(x);
    return y;
  }

  /// dX, given dY. Adds to the gradients. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, P, Ctx> backward(const Activation<T, P, Ctx>& dy) {
    detail::check_backward(name_, static_cast<bool>(x_), extent_of(*dy), x_ ? extent_of(*x_) : Extent2D{});
    auto dx = DistTensor<T, P, Ctx>::uninitialized(x_->grid(), x_->shape(), x_->units());
    const kernel::NormedRows<T> rows{x_->local(), dy->local(), gain_row(), std::as_const(*moments_).local()};
    const index_t count = rows.x.rows;
    const View<A> sums(dx.context().template workspace<A>(0, 2 * count), count, 2, 2);
    for_each_index(backend(), count, kernel::NormGradientSums<T>{rows, sums});
    all_reduce_along(x_->grid().ranks(), P::layout.cols, sums);
    for_each_index(backend(), count, kernel::NormInputGradient<T>{rows, sums, dx.local(), features()});
    const kernel::NormParameterGradients<T> add{rows, gain_->gradient().local(), shift_->gradient().local()};
    for_each_index(backend(), add.stripes(), add);
    gain_->contribute();
    shift_->contribute();
    forget();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept {
    x_.reset();
    moments_.reset();
  }

  template <class F>
  void for_each_parameter(F&& f) {
    f(*gain_);
    f(*shift_);
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    const Step sum = all_reduce_step(place, P::layout.cols, local_rows(place, x));
    visit_step(sum, f);
    visit_step(sum, f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    visit_step(all_reduce_step(place, P::layout.cols, 2 * local_rows(place, x)), f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return x; }

 private:
  /// Two numbers for each token, on every rank that holds a part of it.
  using Moments = DistTensor<A, tokens_of_t<P>, Ctx>;

  template <class G>
  static auto ones(const GridHandle<G, Ctx>& grid, index_t features, index_t unit) {
    return from_function<T, features_of_t<P>>(
        grid, {1, features}, [](index_t, index_t) { return A(1); }, Units{1, unit});
  }
  static View<A> column(View<A> moments, index_t j) { return moments.sub({{0, moments.rows}, {j, j + 1}}); }
  static index_t local_rows(const Place& place, const Extent2D& x) {
    return block_of(P::layout, x.shape, x.units, place.extents, place.coordinates).rows.size();
  }
  [[nodiscard]] A features() const { return static_cast<A>(gain_->value().shape().cols); }
  [[nodiscard]] View<const T> gain_row() const { return std::as_const(*gain_).value().local(); }
  [[nodiscard]] View<const T> shift_row() const { return std::as_const(*shift_).value().local(); }
  [[nodiscard]] auto& backend() noexcept { return gain_->value().context().backend(); }

  std::string name_;
  double eps_;
  std::shared_ptr<parameter_type> gain_;
  std::shared_ptr<parameter_type> shift_;
  Activation<T, P, Ctx> x_;
  std::optional<Moments> moments_;
};

}  // namespace partita
