// SPDX-License-Identifier: Apache-2.0
// What CUDA and cuBLAS report, as exceptions.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>

#include "partita/base/error.hpp"

namespace partita {

/// A call of CUDA or cuBLAS that failed; `code` is what the library returned.
struct CudaError : Error {
  CudaError(int returned, const std::string& text) : Error("CudaError: " + text), code(returned) {}

  int code;
};

/// There is no device, or no driver.
struct NoDeviceError : CudaError {
  using CudaError::CudaError;
};

namespace detail {

/// Throws where a call of the CUDA runtime failed: NoDeviceError, CapacityError for memory, CudaError.
inline void cuda_check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // it is told here, and not to the next who asks
  const std::string text = std::string(call) + ": " + cudaGetErrorName(result) + ", " + cudaGetErrorString(result);
  switch (result) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      throw NoDeviceError(result, text);
    case cudaErrorMemoryAllocation:
      throw CapacityError("CapacityError: " + text);
    default:
      throw CudaError(result, text);
  }
}

inline void cublas_check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(call) + ": " + cublasGetStatusName(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw CapacityError("CapacityError: " + text);
  throw CudaError(status, text);
}

}  // namespace detail
}  // namespace partita
