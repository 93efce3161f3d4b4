// SPDX-License-Identifier: Apache-2.0
// Adds what NCCL has reduced to what already stands in an output.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "partita/comm/nccl/group.hpp"
#include "partita/cuda/add.hpp"

namespace partita::detail {

/// out += sum on the stream, where `sum` is packed. cuBLAS adds what it can multiply; neither it nor NCCL adds integers
/// of one rank, which take the way over the host, as a function of the stream.
template <Summable T>
void nccl_add(NcclWorld& world, std::byte* sum, View<T> out) {
  if constexpr (std::is_integral_v<T>) {
    struct Addition {
      const T* sum;
      T* out;
      std::size_t count;
    };
    const NcclBlock block = nccl_block(out);
    const std::size_t bytes = block.bytes();
    std::byte* const host = world.host_sums(2 * bytes);
    auto work = std::make_unique<Addition>(Addition{
        reinterpret_cast<const T*>(host), reinterpret_cast<T*>(host + bytes), static_cast<std::size_t>(out.size())});
    world.copy(block.packed_at(sum), block.packed_at(host), cudaMemcpyDeviceToHost);
    world.copy(block, block.packed_at(host + bytes), cudaMemcpyDeviceToHost);
    const auto add = [](void* data) {
      const std::unique_ptr<Addition> task(static_cast<Addition*>(data));
      using U = std::make_unsigned_t<T>;  // which wraps around
      for (std::size_t i = 0; i < task->count; ++i) {
        task->out[i] = static_cast<T>(static_cast<U>(static_cast<U>(task->out[i]) + static_cast<U>(task->sum[i])));
      }
    };
    cuda_check(cudaLaunchHostFunc(world.stream(), add, work.get()), "cudaLaunchHostFunc");
    work.release();  // NOLINT(bugprone-unused-return-value): the function of the stream owns it now
    world.copy(block.packed_at(host + bytes), block, cudaMemcpyHostToDevice);
  } else {
    cuda_add<T>(world.cublas(), T(1), View<const T>(reinterpret_cast<const T*>(sum), out.shape()), T(1), out);
  }
}

}  // namespace partita::detail
