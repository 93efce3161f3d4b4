// SPDX-License-Identifier: Apache-2.0
// Lets the stand-ins know how the library's host threads wait for each other.
#pragma once

#include "cuda_emulation/control.hpp"
#include "partita/cuda/host_order.hpp"

namespace partita::test {

inline const bool host_order_is_told = [] {
  detail::host_order = {cuda_emulation::publish, cuda_emulation::observe};
  return true;
}();

}  // namespace partita::test
