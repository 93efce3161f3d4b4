// SPDX-License-Identifier: Apache-2.0
// out = beta·out + in for 16-bit data, one element: for nvcc, and as host code for the stand-ins.
#pragma once

#ifdef __CUDACC__
#pragma nv_diagnostic push
#pragma nv_diag_suppress 554  // a conversion of View<const T> that its constraint takes away
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "partita/backend/cuda/kernels.hpp"
#include "partita/base/scalar.hpp"
#include "partita/cuda/error.hpp"

#ifdef __CUDACC__
#define PARTITA_DEVICE __device__
#else
#define PARTITA_DEVICE
#endif

namespace partita::detail {

PARTITA_DEVICE inline float widened(half x) { return __half2float(__half(__half_raw{x.bits})); }
PARTITA_DEVICE inline float widened(bfloat16 x) { return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{x.bits})); }
PARTITA_DEVICE inline void round_to(half& out, float x) { out.bits = static_cast<__half_raw>(__float2half_rn(x)).x; }
PARTITA_DEVICE inline void round_to(bfloat16& out, float x) {
  out.bits = static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
}

template <class T>
struct CombineElement {
  float beta;
  const float* in;  // null: zeros
  long long in_ld;
  T* out;
  long long out_ld;

  PARTITA_DEVICE void operator()(long long i, long long j) const {
    T& y = out[i * out_ld + j];
    const float x = in != nullptr ? in[i * in_ld + j] : 0.0F;
    round_to(y, beta == 0.0F ? x : beta * widened(y) + x);
  }
};

#ifdef __CUDACC__

template <class T>
__global__ void combine_kernel(CombineElement<T> element, long long rows, long long cols) {
  for (long long i = blockIdx.y; i < rows; i += gridDim.y) {
    for (long long j = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; j < cols;
         j += static_cast<long long>(gridDim.x) * blockDim.x) {
      element(i, j);
    }
  }
}

template <class T>
void launch_combine(cudaStream_t stream, float beta, View<const float> in, View<T> out) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((out.cols + threads - 1) / threads);
  const dim3 grid(blocks < 1024U ? blocks : 1024U, out.rows < 32768 ? static_cast<unsigned>(out.rows) : 32768U);
  combine_kernel<T><<<grid, threads, 0, stream>>>({beta, in.data, in.ld, out.data, out.ld}, out.rows, out.cols);
  cuda_check(cudaGetLastError(), "launch_combine");
}

template void launch_combine(cudaStream_t, float, View<const float>, View<half>);
template void launch_combine(cudaStream_t, float, View<const float>, View<bfloat16>);

#endif

}  // namespace partita::detail

#ifdef __CUDACC__
#pragma nv_diagnostic pop
#endif
