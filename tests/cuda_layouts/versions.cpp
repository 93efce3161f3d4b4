// SPDX-License-Identifier: Apache-2.0
// One call of each library, none of which needs a device.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>

int main() {
  int cuda = 0;
  int nccl = 0;
  if (cudaRuntimeGetVersion(&cuda) != cudaSuccess || ncclGetVersion(&nccl) != ncclSuccess) return 1;
  std::printf("CUDA %d, NCCL %d, cublasLt %zu, %s\n", cuda, nccl, cublasLtGetVersion(),
              cublasGetStatusName(CUBLAS_STATUS_SUCCESS));
  return cuda == CUDART_VERSION && nccl == NCCL_VERSION_CODE ? 0 : 1;
}
