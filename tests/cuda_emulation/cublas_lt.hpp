// SPDX-License-Identifier: Apache-2.0
// What stands behind the descriptors of cublasLt.
#pragma once

#include <cublasLt.h>

#include "cuda_emulation/cublas_handle.hpp"

struct cublasLtContext {
  int device = 0;
};

namespace partita::cuda_emulation {

struct LtLayout : cublasLtMatrixLayoutOpaque_t {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::int64_t ld = 0;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batch = 1;
};

struct LtProduct : cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t op_a = CUBLAS_OP_N;
  std::int32_t op_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // that of D
  void* aux = nullptr;
  std::int64_t ld_aux = 0;
  std::int32_t aux_type = -1;  // that of D
};

struct LtPreference : cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment_a = 256;
  std::uint32_t alignment_b = 256;
  std::uint32_t alignment_c = 256;
  std::uint32_t alignment_d = 256;
};

/// Null, with a report, for a descriptor that does not exist.
template <class T, class Opaque>
T* lt_object(Machine& m, Opaque* handle, const char* who) {
  if (m.cublas_objects.contains(handle)) return static_cast<T*>(handle);
  m.report(Finding::misuse, std::string(who) + ": a descriptor that does not exist");
  return nullptr;
}

}  // namespace partita::cuda_emulation
