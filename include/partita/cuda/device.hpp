// SPDX-License-Identifier: Apache-2.0
// Which devices there are.
#pragma once

#include "partita/cuda/error.hpp"

namespace partita {

/// At least 1. Throws NoDeviceError where there is no device or no driver.
[[nodiscard]] inline int cuda_device_count() {
  int count = 0;
  detail::cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 1) throw NoDeviceError(cudaErrorNoDevice, "cudaGetDeviceCount: there is no device");
  return count;
}

/// The calling thread's calls are for `device` from now on. Throws CudaError, NoDeviceError.
inline void use_cuda_device(int device) { detail::cuda_check(cudaSetDevice(device), "cudaSetDevice"); }

}  // namespace partita
