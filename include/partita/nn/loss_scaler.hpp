// SPDX-License-Identifier: Apache-2.0
// Loss scaling: gradients that fp16 would flush to zero are carried at a scale, which adapts.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "partita/nn/host_values.hpp"
#include "partita/nn/kernel/unscale.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"

namespace partita {

struct LossScalerOptions {
  double initial = 65536;
  double growth = 2;  // after so many steps in a row whose gradients are finite:
  int growth_interval = 2000;
  double backoff = 0.5;  // after a step whose gradients are not
  double smallest = 1;
};

/// Multiplies the gradient of the loss, and divides those of the parameters (Micikevicius et al., 2018, section 3.2):
///
///     (void)model.backward(scaler.scaled(std::move(dy)));
///     sums.finish();
///     if (scaler.unscale(parameters)) optimizer.step();   // else a gradient is not finite: this step is left out
///
/// With factors that are powers of two scaling rounds nothing. The scale is the same on all ranks.
class LossScaler {
 public:
  /// Errors: ArgumentError for numbers outside their domain.
  explicit LossScaler(const LossScalerOptions& options = {}) : options_(options), scale_(options.initial) {
    const bool fits = options.smallest > 0 && options.initial >= options.smallest && std::isfinite(options.initial) &&
                      options.growth >= 1 && options.growth_interval >= 1 && options.backoff > 0 &&
                      options.backoff <= 1;
    if (!fits) {
      throw ArgumentError("ArgumentError: LossScaler with initial " + std::to_string(options.initial) + ", growth " +
                          std::to_string(options.growth) + " after " + std::to_string(options.growth_interval) +
                          " steps, backoff " + std::to_string(options.backoff) + ", smallest " +
                          std::to_string(options.smallest) +
                          "; needed: 0 < smallest <= initial, growth and its interval at least 1, backoff in (0, 1]");
    }
  }

  [[nodiscard]] double scale() const noexcept { return scale_; }

  /// The gradient of the loss, scaled in its place.
  template <class T, class P, class Ctx>
  [[nodiscard]] DistTensor<T, P, Ctx> scaled(DistTensor<T, P, Ctx> gradient) const {
    gradient.context().backend().template scale<T>(static_cast<accumulate_t<T>>(scale_), gradient.local());
    return gradient;
  }

  /// Divides the gradients by the scale, tells whether all elements on all ranks are finite, and adapts the scale.
  /// Pre: the gradients' sums are finished. Collective over the grid. Communicates: one agreement.
  template <class T, class Ctx>
  [[nodiscard]] bool unscale(const std::vector<ParameterRef<T, Ctx>>& parameters) {
    if (parameters.empty()) return true;
    using A = accumulate_t<T>;
    Ctx& context = parameters.front().grid->context();
    constexpr index_t flags = 64;
    const Memory memory = context.template allocate<index_t>(flags);
    const View<index_t> bad = row_view(reinterpret_cast<index_t*>(memory.get()), flags);
    detail::clear(context.backend(), bad);
    for (const auto& parameter : parameters) {
      const kernel::Unscale<A> body{parameter.gradient, static_cast<A>(1 / scale_), bad};
      for_each_index(context.backend(), flags, body);
    }
    const auto found = host_values<flags>(context, bad);
    const bool finite = context.comm().agree(*std::max_element(found.begin(), found.end())) == 0;
    adapt(finite);
    return finite;
  }

 private:
  void adapt(bool finite) noexcept {
    if (!finite) {
      scale_ = std::fmax(scale_ * options_.backoff, options_.smallest);
      good_steps_ = 0;
    } else if (++good_steps_ == options_.growth_interval) {
      const double larger = scale_ * options_.growth;
      if (std::isfinite(static_cast<float>(larger))) scale_ = larger;
      good_steps_ = 0;
    }
  }

  LossScalerOptions options_;
  double scale_;
  int good_steps_ = 0;
};

}  // namespace partita
