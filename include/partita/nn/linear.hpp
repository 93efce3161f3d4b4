// SPDX-License-Identifier: Apache-2.0
// The linear layer Y = X·W + b, for every triple of partitions that the rule of multiplication allows.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "partita/nn/activation.hpp"
#include "partita/nn/assign.hpp"
#include "partita/nn/check.hpp"
#include "partita/nn/elementwise.hpp"
#include "partita/nn/kernel/rows.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"
#include "partita/nn/product.hpp"

namespace partita {

struct LinearOptions {
  bool bias = true;
  /// Of the initial weight: uniform within ±√(6 / (in + out)) of the global sizes (Glorot and Bengio, 2010), drawn by
  /// global index, so the same whatever the partition. The bias begins at zero.
  std::uint64_t seed = 0;
  /// Units at which alone features may be cut: a head's width in attention.
  index_t in_unit = 1;
  index_t out_unit = 1;
};

/// X [M, K] with partition In, W [K, N] with partition Weight, b [1, N] cut as the columns of Out, Y [M, N] with
/// partition Out. Which of these are cut, and how, decides everything:
///
///   In, Weight, Out                            the layer is
///   Replicated, ColumnShard, ColumnShard       column-parallel: no communication forward, dX summed
///   ColumnShard, RowShard, Replicated          row-parallel: Y summed, then b added once; nothing backward
///   RowShard, ColumnShard, ColumnShard         column-parallel under sequence parallelism: X gathered, dX scattered
///   Summa2D, Summa2D, Summa2D                  two-dimensional
///   Summa25D, Summa25DWeight, Summa25D         two and a half-dimensional: gradients summed over Depth
///
/// Backward: dX = dY·Wᵀ, whose sum over ranks goes on while dW += Xᵀ·dY is computed, and db += 1ᵀ·dY.
template <class T, class In, class Weight, class Out, class Ctx>
class Linear {
 public:
  using value_type = T;
  using context_type = Ctx;
  using input = In;
  using output = Out;
  using grid_type = typename In::grid_type;
  using bias_partition = features_of_t<Out>;
  using weight_parameter = Parameter<T, Weight, Out, Ctx>;
  using bias_parameter = Parameter<T, bias_partition, Out, Ctx>;

  /// Collective over the grid. Errors, on all ranks: ShapeError, CapacityError.
  template <class G>
  Linear(const GridHandle<G, Ctx>& grid, std::string name, index_t in_features, index_t out_features,
         const LinearOptions& options = {})
      : weight_(std::make_shared<weight_parameter>(name + ".weight",
                                                   initial_weight(grid, in_features, out_features, options))) {
    if (options.bias) {
      bias_.emplace(name + ".bias", zeros<T, bias_partition>(grid, {1, out_features}, Units{1, options.out_unit}));
    }
  }

  [[nodiscard]] weight_parameter& weight() noexcept { return *weight_; }
  [[nodiscard]] const std::shared_ptr<weight_parameter>& shared_weight() const noexcept { return weight_; }
  /// Pre: the layer has one.
  [[nodiscard]] bias_parameter& bias() noexcept { return *bias_; }

  [[nodiscard]] Activation<T, Out, Ctx> forward(Activation<T, In, Ctx> x, const Pass& = {}) {
    auto y = detail::matmul_with_bias<Out>(*x, std::as_const(*weight_).value(), bias_row());
    x_ = std::move(x);
    return y;
  }

  /// f(Y), as f.forward(forward(x)), for which backward() of both is ready: in one pass, which gives Y too, where the
  /// product is local and the backend has such a pass for f (LinearBackend). Of 16-bit data that pass applies f to the
  /// sum in fp32, and the steps one by one to Y, which is rounded; both backward() take the slope at the rounded Y.
  template <class Function>
  [[nodiscard]] Activation<T, Out, Ctx> forward_with(Elementwise<Function, T, Out, Ctx>& f, Activation<T, In, Ctx> x,
                                                     const Pass& pass = {}) {
    if constexpr (detail::one_pass_after_product<In, Weight, Out, T, Ctx> && requires { Function::activation; }) {
      const auto& w = std::as_const(*weight_).value();
      auto before = detail::uninitialized_product<Out>(*x, w);
      auto y = detail::uninitialized_product<Out>(*x, w);
      detail::multiply_and_apply_into<Function>(before, y, *x, w, bias_row());
      x_ = std::move(x);
      f.keep(std::move(before));
      return y;
    } else {
      return f.forward(forward(std::move(x), pass), pass);
    }
  }

  /// dX, given dY. Adds to the gradients. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, In, Ctx> backward(const Activation<T, Out, Ctx>& dy) {
    detail::check_backward(weight_->name(), static_cast<bool>(x_), extent_of(*dy),
                           x_ ? output_extent(extent_of(*x_)) : Extent2D{});
    auto dx = detail::matmul_while<In>(*dy, partita::transposed(weight_->value()), [&] { add_gradients(*dy); });
    x_.reset();
    return dx;
  }

  /// Forgets what backward() would need.
  void forget() noexcept { x_.reset(); }

  template <class F>
  void for_each_parameter(F&& f) {
    f(*weight_);
    if (bias_) f(*bias_);
  }

  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    detail::product_steps<T, In, Weight, Out>(place, x, extent_of(weight_->value()), f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    const Extent2D w = extent_of(weight_->value());
    const Extent2D dy = output_extent(x);
    detail::product_while_steps<T, Out, transposed_t<Weight>, In>(place, dy, w.transposed(), f);
    detail::product_steps<T, transposed_t<In>, Out, typename weight_parameter::gradient_partition>(
        place, x.transposed(), dy, f);
  }
  /// Of Y for an X of this extent.
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const {
    const Extent2D w = extent_of(weight_->value());
    return {{x.shape.rows, w.shape.cols}, {x.units.rows, w.units.cols}};
  }

 private:
  template <class G>
  static auto initial_weight(const GridHandle<G, Ctx>& grid, index_t in, index_t out, const LinearOptions& options) {
    const double bound = in + out > 0 ? std::sqrt(6.0 / static_cast<double>(in + out)) : 0.0;
    return random_uniform<T, Weight>(grid, {in, out}, options.seed, -bound, bound,
                                     Units{options.in_unit, options.out_unit});
  }

  void add_gradients(const DistTensor<T, Out, Ctx>& dy) {
    matmul_into(weight_->gradient(), partita::transposed(*x_), dy, 1, 1);
    weight_->contribute();
    if (!bias_) return;
    const kernel::SumRows<T> sum{dy.local(), bias_->gradient().local()};
    for_each_index(backend(), sum.stripes(), sum);
    bias_->contribute();
  }

  /// This rank's part of b; empty without one.
  [[nodiscard]] View<const T> bias_row() const noexcept {
    return bias_ ? std::as_const(*bias_).value().local() : View<const T>();
  }
  [[nodiscard]] auto& backend() noexcept { return weight_->value().context().backend(); }

  std::shared_ptr<weight_parameter> weight_;
  std::optional<bias_parameter> bias_;
  Activation<T, In, Ctx> x_;
};

}  // namespace partita
