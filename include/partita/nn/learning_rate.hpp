// SPDX-License-Identifier: Apache-2.0
// The learning rate of a step: warm-up, then half a cosine.
#pragma once

#include <cmath>
#include <numbers>

#include "partita/base/config.hpp"

namespace partita {

struct WarmupCosine {
  double peak = 1e-3;
  double last = 0;
  index_t warmup_steps = 0;
  index_t total_steps = 1;

  /// Of `step`, from 0: rises linearly to `peak` in the last warm-up step (Goyal et al., 2017, section 2.2), falls from
  /// there to `last` by half a cosine (Loshchilov and Hutter, 2017, equation 5 without restarts), and stays there.
  [[nodiscard]] double operator()(index_t step) const {
    if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    if (step >= total_steps) return last;
    const auto part = static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
    return last + (peak - last) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
};

}  // namespace partita
