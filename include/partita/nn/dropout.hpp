// SPDX-License-Identifier: Apache-2.0
// Dropout with one mask whatever the partition.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "partita/nn/check.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "partita/nn/local.hpp"

namespace partita {

namespace detail {

inline void check_dropout_rate(const std::string& layer, double rate) {
  if (rate >= 0 && rate < 1) return;
  throw ArgumentError("ArgumentError: " + layer + " with a dropout rate of " + std::to_string(rate) +
                      "; it must be at least 0 and below 1");
}

}  // namespace detail

struct DropoutOptions {
  /// The probability of zero, in [0, 1).
  double rate = 0.5;
  std::uint64_t seed = 0;
};

/// In training each element becomes zero with probability `rate`, and is divided by 1 − rate where it stays (Srivastava
/// et al., 2014, with the scale in training); else, and at rate 0, Y is X. The mask is a function of the seed, of
/// Pass::step and of the element's global index: replicas draw the same, shards different parts of one mask, and a pass
/// that is run again draws it again, so nothing is kept. Layers and steps with equal seeds draw equal masks.
/// Communicates nothing.
template <class T, class P, class Ctx>
class Dropout {
  static_assert(P::layout.partial.empty(), "Dropout: the activation is a pending sum; finish it first");

 public:
  using value_type = T;
  using context_type = Ctx;
  using input = P;
  using output = P;

  /// Errors: ArgumentError for a rate outside [0, 1).
  explicit Dropout(const DropoutOptions& options = {}) : keep_{options.seed, 0, options.rate} {
    detail::check_dropout_rate("Dropout", options.rate);
  }

  [[nodiscard]] Activation<T, P, Ctx> forward(Activation<T, P, Ctx> x, const Pass& pass = {}) {
    y_ = extent_of(*x);
    keep_.step = pass.step;
    training_ = pass.training;
    return dropped(x);
  }

  /// dX, given dY. Errors, on all ranks: ArgumentError without forward(), ShapeError, UnitError.
  [[nodiscard]] Activation<T, P, Ctx> backward(const Activation<T, P, Ctx>& dy) {
    detail::check_backward("Dropout", y_.has_value(), extent_of(*dy), y_.value_or(Extent2D{}));
    y_.reset();
    return dropped(dy);
  }

  void forget() noexcept { y_.reset(); }
  template <class F>
  void for_each_parameter(F&&) {}
  template <class F>
  void forward_steps(const Place&, const Extent2D&, F&&) const {}
  template <class F>
  void backward_steps(const Place&, const Extent2D&, F&&) const {}
  [[nodiscard]] Extent2D output_extent(const Extent2D& x) const { return x; }

 private:
  [[nodiscard]] Activation<T, P, Ctx> dropped(const Activation<T, P, Ctx>& x) const {
    if (!training_ || keep_.rate == 0) return x;
    auto y = DistTensor<T, P, Ctx>::uninitialized(x->grid(), x->shape(), x->units());
    const Block block = y.block();
    for_each_index(y.context().backend(), y.local().rows,
                   kernel::Drop<T>{x->local(), y.local(), keep_, block.rows.begin, block.cols.begin});
    return y;
  }

  kernel::Keep keep_;
  bool training_ = true;
  std::optional<Extent2D> y_;
};

}  // namespace partita
