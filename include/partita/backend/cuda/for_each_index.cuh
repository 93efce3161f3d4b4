// SPDX-License-Identifier: Apache-2.0
// Bodies as kernels, for nvcc with --expt-relaxed-constexpr, as their functions are constexpr and not marked otherwise.
// A unit names those that it compiles:
//
//   #include "partita/backend/cuda/for_each_index.cuh"
//   template struct partita::CudaKernels<partita::BodyList<MyBody<float>, MyBody<double>>>;
#pragma once

#ifndef __CUDACC_RELAXED_CONSTEXPR__
#error "partita/backend/cuda/for_each_index.cuh needs nvcc's --expt-relaxed-constexpr"
#endif
#pragma nv_diag_suppress 554  // a conversion of View<const T> that its constraint takes away

#include "partita/backend/body.hpp"
#include "partita/backend/cuda/kernels.hpp"
#include "partita/cuda/error.hpp"

namespace partita {
namespace detail {

/// A thread for each index. Where an index is a row, or a stripe of columns, few threads work, each on what lies apart
/// from its neighbours': a body that sums over wide rows is right, and far slower than the memory is.
template <class Body>
__global__ void index_kernel(index_t count, const Body body) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// A thread for each element, neighbours in a row.
template <class Body>
__global__ void element_kernel(index_t count, index_t columns, const Body body) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = blockIdx.y; i < count; i += gridDim.y) {
    for (index_t j = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; j < columns; j += step) body(i, j);
  }
}

/// How many blocks cover n, at most `most`: kernels loop over what is left.
constexpr unsigned kernel_blocks(index_t n, unsigned threads, unsigned most) {
  const index_t blocks = (n + threads - 1) / threads;
  return blocks < most ? static_cast<unsigned>(blocks) : most;
}

template <class Body>
void launch_for_each_index(cudaStream_t stream, index_t count, const Body& body) {
  if constexpr (ElementBody<Body>) {
    const index_t columns = body.columns();
    if (count <= 0 || columns <= 0) return;
    // Narrow rows get narrow blocks, so that few threads idle.
    const unsigned threads = columns <= 32 ? 32 : columns <= 128 ? 128 : 256;
    const dim3 grid(kernel_blocks(columns, threads, 1024), kernel_blocks(count, 1, 32768));
    element_kernel<<<grid, threads, 0, stream>>>(count, columns, body);
  } else {
    static_assert(IndexBody<Body>);
    if (count <= 0) return;
    const unsigned threads = count <= 8192 ? 32 : 128;  // few indices spread over many multiprocessors
    index_kernel<<<kernel_blocks(count, threads, 65536), threads, 0, stream>>>(count, body);
  }
  cuda_check(cudaGetLastError(), "launch_for_each_index");
}

}  // namespace detail

/// An explicit instantiation defines the kernels of all bodies of the list.
template <class Bodies>
struct CudaKernels;
template <class... Body>
struct CudaKernels<BodyList<Body...>> {
  static void* const launches[];
};
template <class... Body>
void* const CudaKernels<BodyList<Body...>>::launches[] = {
    reinterpret_cast<void*>(&detail::launch_for_each_index<Body>)...};

}  // namespace partita
