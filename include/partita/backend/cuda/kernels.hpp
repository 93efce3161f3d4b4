// SPDX-License-Identifier: Apache-2.0
// The kernels that the CUDA backend launches, where no library has what it needs. They are defined by a unit of the
// .cuh headers beside this one; a program without 16-bit data calls none of them.
#pragma once

#include <cuda_runtime_api.h>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::detail {

/// out = beta·out + in, rounded once; beta = 0 does not read out. A null `in` counts as zeros, and is not read.
template <class T>
  requires is_storage_only_v<T>
void launch_combine(cudaStream_t stream, float beta, View<const float> in, View<T> out);

extern template void launch_combine(cudaStream_t, float, View<const float>, View<half>);
extern template void launch_combine(cudaStream_t, float, View<const float>, View<bfloat16>);

}  // namespace partita::detail
