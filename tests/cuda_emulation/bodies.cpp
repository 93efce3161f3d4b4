// SPDX-License-Identifier: Apache-2.0
// The bodies of the layers.
#include "partita/nn/kernel/bodies.hpp"
#include "cuda_emulation/for_each_index.hpp"

namespace partita {

template struct CudaKernels<kernel::BodiesOfScalar<float>>;
template struct CudaKernels<kernel::BodiesOfScalar<double>>;
template struct CudaKernels<kernel::BodiesOfScalar<half>>;
template struct CudaKernels<kernel::BodiesOfScalar<bfloat16>>;
template struct CudaKernels<kernel::BodiesOfSum<float>>;
template struct CudaKernels<kernel::BodiesOfSum<double>>;
template struct CudaKernels<kernel::OtherBodies>;

}  // namespace partita
