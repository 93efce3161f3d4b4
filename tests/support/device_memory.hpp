// SPDX-License-Identifier: Apache-2.0
// Device memory of the user's own, made and freed by CUDA's own calls, of which the library knows nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "partita/cuda/error.hpp"
#include "support/user_memory.hpp"

namespace partita::test {

template <class T, class Ctx>
class UserMemory<T, Ctx, false> {
 public:
  UserMemory(Ctx&, index_t count, T value) : count_(count) {
    const std::vector<T> values(static_cast<std::size_t>(count), value);
    const std::size_t bytes = values.size() * sizeof(T);
    detail::cuda_check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "cudaMalloc");
    detail::cuda_check(cudaMemcpy(data_, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;
  ~UserMemory() {  // also while an exception unwinds
    (void)cudaDeviceSynchronize();
    (void)cudaFree(data_);
  }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] View<T> row() noexcept { return row_view(data_, count_); }

 private:
  T* data_ = nullptr;
  index_t count_;
};

}  // namespace partita::test
