// SPDX-License-Identifier: Apache-2.0
// Streams and host functions of the CUDA runtime.
#include "cuda_emulation/api.hpp"

using namespace partita::cuda_emulation;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return cudaErrorNoDevice;
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = m.open_stream(current_device(), flags == cudaStreamDefault, priority).get();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return enter<cudaError_t>(__func__, Kind::release, [&](Machine& m, Lock&) {
    const auto stream = handle == nullptr ? nullptr : m.stream_of(handle, "cudaStreamDestroy");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    m.close_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return enter<cudaError_t>(__func__, Kind::query, [&](Machine& m, Lock&) {
    const auto stream = m.stream_of(handle, "cudaStreamQuery");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return m.query(stream->tail) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    const auto stream = m.stream_of(handle, "cudaStreamSynchronize");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    m.synchronise(lock, std::shared_ptr<Operation>(stream->tail));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    const auto stream = m.stream_of(handle, "cudaStreamGetPriority");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    const auto stream = m.stream_of(handle, "cudaStreamGetFlags");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *flags = stream->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    const auto stream = m.stream_of(handle, "cudaStreamGetDevice");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    Operation op;
    op.name = "cudaLaunchHostFunc";
    op.stream = m.stream_of(handle, "cudaLaunchHostFunc");
    if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
    op.work = [function, data](Lock& held) {
      unlocked(held, [&] {
        in_host_function() = true;
        function(data);
        in_host_function() = false;
      });
    };
    m.enqueue(std::move(op));
    return cudaSuccess;
  });
}
