// SPDX-License-Identifier: Apache-2.0
// The kernel of sums over ranks as host code, with what it touches declared.
#include "cuda_emulation/kernel.hpp"
#include "partita/cuda/error.hpp"
#include "partita/cuda/sum.hpp"

namespace partita::detail {

template <class T>
void launch_sum(cudaStream_t stream, const RankSum<T>& sum) {
  using namespace cuda_emulation;
  const auto rectangle = [&sum](const auto& buffer) {
    const auto pitch = static_cast<std::size_t>(sum.rows == 1 ? sum.cols : buffer.ld) * sizeof(T);
    return Rectangle{const_cast<T*>(buffer.data), pitch, static_cast<std::size_t>(sum.cols) * sizeof(T),
                     static_cast<std::size_t>(sum.rows)};
  };
  std::vector<Access> accesses;
  RankSum<T> at = sum;
  for (int r = 0; r < sum.inputs; ++r) {
    accesses.push_back(reads(rectangle(sum.in[r])));
    at.in[r].data = bytes_of(sum.in[r].data);
  }
  for (int r = 0; r < sum.outputs; ++r) {
    accesses.push_back(writes(rectangle(sum.out[r])));
    at.out[r].data = bytes_of(sum.out[r].data);
  }
  if (sum.accumulates) accesses.push_back(reads(rectangle(sum.out[0])));
  const bool launched = launch("launch_sum", stream, accesses, [at] {
    for (index_t i = 0; i < at.rows; ++i) {
      for (index_t j = 0; j < at.cols; ++j) at(i, j);
    }
  });
  cuda_check(launched ? cudaSuccess : cudaErrorLaunchFailure, "launch_sum");
}

PARTITA_SUMS_OF_RANKS();

}  // namespace partita::detail
