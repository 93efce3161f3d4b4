// SPDX-License-Identifier: Apache-2.0
// Page-locked memory of the host, which streams read and write behind the host's back.
#pragma once

#include <cstddef>
#include <utility>

#include "partita/cuda/error.hpp"

namespace partita {

/// Ends with its owner, who has seen to it that no stream uses it any more. Throws CapacityError, NoDeviceError.
class CudaHostMemory {
 public:
  CudaHostMemory() = default;
  explicit CudaHostMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) detail::cuda_check(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  CudaHostMemory(CudaHostMemory&& other) noexcept { swap(other); }
  CudaHostMemory& operator=(CudaHostMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CudaHostMemory() {
    if (data_ != nullptr) (void)cudaFreeHost(data_);
  }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Never gives it back: for memory that a stream which cannot be stopped may still touch.
  void leak() noexcept { data_ = nullptr; }

 private:
  void swap(CudaHostMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace partita
