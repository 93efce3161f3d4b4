// SPDX-License-Identifier: Apache-2.0
// The residual connection around a layer.
#pragma once

#include <utility>

#include "partita/nn/check.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/local.hpp"

namespace partita {

/// Y = X + f(X) (He et al., 2015, equation 1), dX = dY + f'(dY). A layer whose output has another partition than its
/// input does not compile, and the error names both. Communicates what f does.
template <class L>
class Residual {
  using Meeting = detail::feed_of<L, L>;
  static_assert(layers_meet<Meeting>,
                "Residual: a layer's output has another partition than its input, to be added to");

 public:
  using value_type = typename L::value_type;
  using context_type = typename L::context_type;
  using input = typename L::input;
  using output = typename L::output;
  using activation_type = input_activation_t<L>;

  explicit Residual(L layer) : layer_(std::move(layer)) {}

  [[nodiscard]] auto forward(const activation_type& x, const Pass& pass = {}) {
    if constexpr (layers_meet<Meeting>) return sum(x, layer_.forward(x, pass));  // else refused above
  }
  [[nodiscard]] auto backward(const activation_type& dy) {
    if constexpr (layers_meet<Meeting>) return sum(dy, layer_.backward(dy));
  }
  void forget() { layer_.forget(); }
  template <class F>
  void for_each_parameter(F&& f) {
    layer_.for_each_parameter(f);
  }
  template <class F>
  void forward_steps(const Place& place, const Extent2D& x, F&& f) const {
    layer_.forward_steps(place, x, f);
  }
  template <class F>
  void backward_steps(const Place& place, const Extent2D& x, F&& f) const {
    layer_.backward_steps(place, x, f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return layer_.output_extent(x); }
  /// f.
  [[nodiscard]] L& inner() noexcept { return layer_; }

 private:
  /// Errors, on all ranks: ShapeError, UnitError where f changes the shape or the units.
  [[nodiscard]] static activation_type sum(const activation_type& x, const activation_type& fx) {
    detail::check_residual(extent_of(*x), extent_of(*fx));
    auto y = activation_type::tensor_type::uninitialized(x->grid(), x->shape(), x->units());
    for_each_index(y.context().backend(), y.local().rows, kernel::Add<value_type>{x->local(), fx->local(), y.local()});
    return y;
  }

  L layer_;
};

}  // namespace partita
