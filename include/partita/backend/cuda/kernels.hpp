// SPDX-License-Identifier: Apache-2.0
// The kernels that the CUDA backend launches, where no library has what it needs. They are defined by units of the
// .cuh headers beside this one; a program without 16-bit data and without layers calls none of them.
// They have no constraints: compilers differ in the names that they give to constrained functions.
#pragma once

#include <cuda_runtime_api.h>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::detail {

/// Runs the body on the device (backend/cuda/for_each_index.cuh). It is defined for the bodies that a unit of kernels
/// names: for another one the program does not link.
template <class Body>
void launch_for_each_index(cudaStream_t stream, index_t count, const Body& body);

/// out = beta·out + in, rounded once; beta = 0 does not read out. A null `in` counts as zeros, and is not read.
template <class T>
void launch_combine(cudaStream_t stream, float beta, View<const float> in, View<T> out);

extern template void launch_combine(cudaStream_t, float, View<const float>, View<half>);
extern template void launch_combine(cudaStream_t, float, View<const float>, View<bfloat16>);

}  // namespace partita::detail
