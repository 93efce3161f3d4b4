// SPDX-License-Identifier: Apache-2.0
// The rectified linear unit.
#pragma once

#include "partita/nn/elementwise.hpp"
#include "partita/nn/kernel/functions.hpp"

namespace partita {

/// max(x, 0). See Elementwise.
template <class T, class P, class Ctx>
using Relu = Elementwise<kernel::Relu, T, P, Ctx>;

}  // namespace partita
