// SPDX-License-Identifier: Apache-2.0
// What tests of the CUDA backend need on the stand-ins and on a device alike. Tests in unit/cuda/ include this, and
// nothing of cuda_emulation/: what needs the stand-ins' own interface stands in unit/cuda_emulation/.
#pragma once

#include "partita/backend/cuda.hpp"

#ifndef PARTITA_TEST_CUDA_DEVICE
#include "unit/cuda_emulation/support.hpp"
#endif

namespace partita::test {

#ifdef PARTITA_TEST_CUDA_DEVICE

/// Whether a device runs the tests, and not the stand-ins.
inline constexpr bool on_device = true;
struct CudaMachine {
  CudaMachine() {}  // so that an unused one is no warning
};
template <class F>
void on_machines(F f) {
  f();
}

#else

inline constexpr bool on_device = false;
/// A new machine, in which nothing is found and of which nothing is left.
using CudaMachine = cuda_emulation::Fresh;
/// f() on machines that run their work as they like, early and late.
template <class F>
void on_machines(F f) {
  for (const cuda_emulation::Progress progress : cuda_emulation::all_progress) {
    const cuda_emulation::Fresh fresh(cuda_emulation::with(progress, 1));
    f();
  }
}

#endif

inline CudaOptions small_backend() {
  CudaOptions options;
  options.workspace_bytes = 4096;
  return options;
}

}  // namespace partita::test
