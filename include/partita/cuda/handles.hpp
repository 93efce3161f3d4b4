// SPDX-License-Identifier: Apache-2.0
// Streams, events, library handles and device memory that end with their owner.
#pragma once

#include <cstddef>
#include <utility>

#include "partita/cuda/error.hpp"

namespace partita {
namespace detail {

/// Owns a handle of one of NVIDIA's libraries. A destructor reports nothing: what fails there has failed before.
template <class Handle, auto destroy>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(Handle handle) noexcept : handle_(handle) {}
  CudaOwner(CudaOwner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ != nullptr) (void)destroy(handle_);
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CublasOwner = CudaOwner<cublasHandle_t, cublasDestroy>;

inline CublasOwner make_cublas() {
  cublasHandle_t handle = nullptr;
  cublas_check(cublasCreate(&handle), "cublasCreate");
  return CublasOwner(handle);
}

}  // namespace detail

enum class StreamPriority { usual, high };

/// A stream of the current device that does not join the default stream.
class CudaStream {
 public:
  explicit CudaStream(StreamPriority priority = StreamPriority::usual) {
    int least = 0;
    int greatest = 0;
    if (priority == StreamPriority::high) {
      detail::cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    }
    cudaStream_t stream = nullptr;
    detail::cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                       "cudaStreamCreateWithPriority");
    owner_ = detail::CudaOwner<cudaStream_t, cudaStreamDestroy>(stream);
  }
  [[nodiscard]] cudaStream_t get() const noexcept { return owner_.get(); }
  void sync() const { detail::cuda_check(cudaStreamSynchronize(get()), "cudaStreamSynchronize"); }

 private:
  detail::CudaOwner<cudaStream_t, cudaStreamDestroy> owner_;
};

/// A point in a stream that another one, or the host, can wait for.
class CudaEvent {
 public:
  CudaEvent() {
    cudaEvent_t event = nullptr;
    detail::cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    owner_ = detail::CudaOwner<cudaEvent_t, cudaEventDestroy>(event);
  }
  [[nodiscard]] cudaEvent_t get() const noexcept { return owner_.get(); }
  void record(cudaStream_t stream) const { detail::cuda_check(cudaEventRecord(get(), stream), "cudaEventRecord"); }
  /// What `stream` gets from now on waits for the latest record.
  void hold(cudaStream_t stream) const {
    detail::cuda_check(cudaStreamWaitEvent(stream, get(), 0), "cudaStreamWaitEvent");
  }
  void sync() const { detail::cuda_check(cudaEventSynchronize(get()), "cudaEventSynchronize"); }

 private:
  detail::CudaOwner<cudaEvent_t, cudaEventDestroy> owner_;
};

/// Device memory of a stream's pool: there for what the stream does between construction and destruction. The stream
/// outlives it.
class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(std::size_t bytes, cudaStream_t stream) : bytes_(bytes), stream_(stream) {
    if (bytes > 0) detail::cuda_check(cudaMallocAsync(&data_, bytes, stream), "cudaMallocAsync");
  }
  CudaMemory(CudaMemory&& other) noexcept { swap(other); }
  CudaMemory& operator=(CudaMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CudaMemory() {
    if (data_ != nullptr) (void)cudaFreeAsync(data_, stream_);
  }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void swap(CudaMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(stream_, other.stream_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace partita
