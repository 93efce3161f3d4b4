// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/cublas_handle.hpp"

using namespace partita::cuda_emulation;

namespace partita::cuda_emulation {

bool usable(Machine& m, const cublasContext* handle, const char* who) {
  if (!m.cublas_objects.contains(handle)) {
    m.report(Finding::misuse, std::string(who) + ": no such handle, or one that was destroyed");
    return false;
  }
  if (handle->device == current_device()) return true;
  m.report(Finding::wrong_device, std::string(who) + ": a handle of device " + std::to_string(handle->device) +
                                      ", while device " + std::to_string(current_device()) + " is current");
  return false;
}

}  // namespace partita::cuda_emulation

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return enter<cublasStatus_t>("cublasCreate", [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasContext;
    (*handle)->device = current_device();
    m.cublas_objects.insert(*handle);
    return CUBLAS_STATUS_SUCCESS;
  });
}

/// As documented, the device is idle after it.
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  return enter<cublasStatus_t>("cublasDestroy", Kind::release, [&](Machine& m, Lock& lock) {
    if (m.cublas_objects.erase(handle) == 0) {
      m.report(Finding::misuse, "cublasDestroy: no such handle, or one that was destroyed");
      return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    m.synchronise_device(lock, handle->device, false);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
  });
}

/// As documented, a new stream means the library's own workspace again.
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  return enter<cublasStatus_t>("cublasSetStream", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasSetStream")) return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto found = m.stream_of(stream, "cublasSetStream");
    if (found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (found->device != handle->device) {
      m.report(Finding::wrong_device,
               "cublasSetStream: " + found->label + " for a handle of device " + std::to_string(handle->device));
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->stream = stream;
    handle->workspace = nullptr;
    handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  return enter<cublasStatus_t>("cublasGetStream", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasGetStream")) return CUBLAS_STATUS_NOT_INITIALIZED;
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  return enter<cublasStatus_t>("cublasSetWorkspace", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasSetWorkspace")) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    std::vector<Access> accesses{writes({workspace, bytes})};
    if (!m.admit(handle->device, "cublasSetWorkspace", accesses)) return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return enter<cublasStatus_t>("cublasSetMathMode", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasSetMathMode")) return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return enter<cublasStatus_t>("cublasGetMathMode", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasGetMathMode")) return CUBLAS_STATUS_NOT_INITIALIZED;
    *mode = handle->math;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  return enter<cublasStatus_t>("cublasSetPointerMode", [&](Machine& m, Lock&) {
    if (!usable(m, handle, "cublasSetPointerMode")) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (mode == CUBLAS_POINTER_MODE_HOST) return CUBLAS_STATUS_SUCCESS;
    m.report(Finding::misuse, "cublasSetPointerMode: scalars in device memory are not emulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  });
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  return enter<cublasStatus_t>("cublasGetVersion", [&](Machine&, Lock&) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
  });
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "a status that is not emulated";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
