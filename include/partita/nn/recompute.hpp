// SPDX-License-Identifier: Apache-2.0
// Activation recomputation: memory for time.
#pragma once

#include <string>
#include <utility>

#include "partita/nn/check.hpp"
#include "partita/nn/layer.hpp"

namespace partita {

/// The layer L, of which only the input is kept between forward() and backward(): backward() runs L's forward pass once
/// more, with the same Pass, so that every random choice and every bit is the same (Chen et al., 2016). It communicates
/// the steps of both.
template <class L>
class Recompute {
 public:
  using value_type = typename L::value_type;
  using context_type = typename L::context_type;
  using input = typename L::input;
  using output = typename L::output;

  explicit Recompute(L layer) : layer_(std::move(layer)) {}

  [[nodiscard]] output_activation_t<L> forward(input_activation_t<L> x, const Pass& pass = {}) {
    auto y = layer_.forward(x, pass);
    layer_.forget();
    x_ = std::move(x);
    pass_ = pass;
    return y;
  }

  /// dX, given dY. Errors: ArgumentError without forward(); and those of L.
  [[nodiscard]] input_activation_t<L> backward(const output_activation_t<L>& dy) {
    if (!x_) throw ArgumentError("ArgumentError: backward() of Recompute without forward()");
    (void)layer_.forward(std::move(x_), pass_);
    x_.reset();
    return layer_.backward(dy);
  }

  void forget() {
    x_.reset();
    layer_.forget();
  }
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
    layer_.forward_steps(place, x, f);
    layer_.backward_steps(place, x, f);
  }
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return layer_.output_extent(x); }
  /// L.
  [[nodiscard]] L& inner() noexcept { return layer_; }

 private:
  L layer_;
  input_activation_t<L> x_;
  Pass pass_;
};

}  // namespace partita
