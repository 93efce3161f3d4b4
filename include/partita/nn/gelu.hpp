// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit, exact and by tanh.
#pragma once

#include "partita/nn/elementwise.hpp"
#include "partita/nn/kernel/functions.hpp"

namespace partita {

/// x·Φ(x) (Hendrycks and Gimpel, 2016). See Elementwise.
template <class T, class P, class Ctx>
using Gelu = Elementwise<kernel::ExactGelu, T, P, Ctx>;

/// Its approximation by tanh, with which some published models were trained, and which backends may do in the pass of a
/// product before it (Linear::forward_with).
template <class T, class P, class Ctx>
using TanhGelu = Elementwise<kernel::TanhGelu, T, P, Ctx>;

}  // namespace partita
