// SPDX-License-Identifier: Apache-2.0
// The library's own kernels as host code, with what they touch declared.
#include "cuda_emulation/for_each_index.hpp"
#include "partita/backend/cuda/combine.cuh"
#include "partita/backend/cuda/kernels.hpp"

namespace partita::detail {

template <class T>
void launch_combine(cudaStream_t stream, float beta, View<const float> in, View<T> out) {
  using namespace cuda_emulation;
  std::vector<Access> accesses{writes(rectangle(out))};
  if (in.data != nullptr) accesses.push_back(reads(rectangle(in)));
  if (beta != 0.0F) accesses.push_back(reads(rectangle(out)));
  const CombineElement<T> element{beta, bytes_of(in.data), in.ld, bytes_of(out.data), out.ld};
  const bool launched = launch("launch_combine", stream, accesses, [=] {
    for (index_t i = 0; i < out.rows; ++i) {
      for (index_t j = 0; j < out.cols; ++j) element(i, j);
    }
  });
  cuda_check(launched ? cudaSuccess : cudaErrorLaunchFailure, "launch_combine");
}

template void launch_combine(cudaStream_t, float, View<const float>, View<half>);
template void launch_combine(cudaStream_t, float, View<const float>, View<bfloat16>);

}  // namespace partita::detail
