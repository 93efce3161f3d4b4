// SPDX-License-Identifier: Apache-2.0
// Devices, versions and errors of the CUDA runtime.
#include <cstdio>
#include <cstring>

#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

namespace {

bool exists(const Machine& m, int device) { return device >= 0 && device < m.options.devices; }

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    *count = m.options.devices;
    return m.options.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, device)) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return enter<cudaError_t>(__func__, [&](Machine&, Lock&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, device)) return cudaErrorInvalidDevice;
    *prop = cudaDeviceProp{};
    std::snprintf(prop->name, sizeof prop->name, "emulated device %d", device);
    prop->totalGlobalMem = m.options.device_memory;
    prop->major = 9;
    prop->minor = 0;
    prop->multiProcessorCount = 132;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->memPitch = 0x7fffffff;
    prop->canMapHostMemory = 1;
    prop->unifiedAddressing = 1;
    prop->memoryPoolsSupported = 1;
    prop->asyncEngineCount = 3;
    prop->concurrentKernels = 1;
    prop->pciBusID = device + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = 132;
        break;
      case cudaDevAttrUnifiedAddressing:
      case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
      default:
        m.report(Finding::misuse,
                 "cudaDeviceGetAttribute: attribute " + std::to_string(attribute) + " is not emulated");
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, device)) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return enter<cudaError_t>(__func__, [](Machine& m, Lock& lock) {
    m.synchronise_device(lock, current_device(), true);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return enter<cudaError_t>(__func__, [&](Machine&, Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, device) || !exists(m, peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (!exists(m, peer) || peer == current_device()) return cudaErrorInvalidDevice;
    const bool added = m.devices[static_cast<std::size_t>(current_device())].peers.insert(peer).second;
    return added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return enter<cudaError_t>(__func__, [&](Machine&, Lock&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return enter<cudaError_t>(__func__, [&](Machine&, Lock&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchTimeout:
      return "cudaErrorLaunchTimeout";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotPermitted:
      return "cudaErrorNotPermitted";
    default:
      return "an error that is not emulated";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
