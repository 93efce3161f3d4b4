// SPDX-License-Identifier: Apache-2.0
// What tests of the CUDA backend need, on stand-ins and on a device alike.
#pragma once

#include "partita/backend/cuda.hpp"

#ifndef PARTITA_TEST_CUDA_DEVICE
#include "unit/cuda_emulation/support.hpp"
#endif

namespace partita::test {

#ifdef PARTITA_TEST_CUDA_DEVICE
/// Whether a device runs the tests, and not the stand-ins.
inline constexpr bool on_device = true;
struct CudaMachine {};
#else
inline constexpr bool on_device = false;
/// A new machine, in which nothing is found and of which nothing is left.
using CudaMachine = cuda_emulation::Fresh;
#endif

inline CudaOptions small_backend() {
  CudaOptions options;
  options.workspace_bytes = 4096;
  return options;
}

}  // namespace partita::test
