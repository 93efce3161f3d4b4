// SPDX-License-Identifier: Apache-2.0
// What stands behind a cuBLAS handle, and what all products check.
#pragma once

#include "cuda_emulation/api.hpp"
#include "cuda_emulation/gemm.hpp"

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  void* workspace = nullptr;  // the caller's; written by every product
  std::size_t workspace_bytes = 0;
};

namespace partita::cuda_emulation {

/// Whether the handle exists and its device is current; with a report if not.
bool usable(Machine& m, const cublasContext* handle, const char* who);

/// The types of a product that are emulated: 16-bit and fp32 data add in fp32.
bool types_fit(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute);
/// The type of alpha and beta.
cudaDataType scale_type(cudaDataType a);

/// The rectangle of a stored column-major matrix.
Rectangle stored(const void* data, cudaDataType type, std::int64_t rows, std::int64_t cols, std::int64_t ld);

/// Enqueues the products, whose operands are device addresses, with what they touch.
cublasStatus_t enqueue_gemms(Machine& m, const char* name, const std::shared_ptr<CUstream_st>& stream,
                             std::vector<Gemm> products, const Rectangle& workspace);

}  // namespace partita::cuda_emulation
