// SPDX-License-Identifier: Apache-2.0
// The kernel of sums over ranks (cuda/sum.hpp), for one unit compiled by nvcc.
#pragma once

#include "partita/cuda/error.hpp"
#include "partita/cuda/sum.hpp"

namespace partita::detail {

template <class T>
__global__ void sum_kernel(const RankSum<T> sum) {
  for (index_t i = blockIdx.y; i < sum.rows; i += gridDim.y) {
    for (index_t j = blockIdx.x * static_cast<index_t>(blockDim.x) + threadIdx.x; j < sum.cols;
         j += static_cast<index_t>(gridDim.x) * blockDim.x) {
      sum(i, j);
    }
  }
}

template <class T>
void launch_sum(cudaStream_t stream, const RankSum<T>& sum) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((sum.cols + threads - 1) / threads);
  const dim3 grid(blocks < 1024U ? blocks : 1024U, sum.rows < 32768 ? static_cast<unsigned>(sum.rows) : 32768U);
  sum_kernel<T><<<grid, threads, 0, stream>>>(sum);
  cuda_check(cudaGetLastError(), "launch_sum");
}

PARTITA_SUMS_OF_RANKS();

}  // namespace partita::detail
