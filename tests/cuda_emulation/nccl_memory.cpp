// SPDX-License-Identifier: Apache-2.0
// NCCL's memory and windows, and what a communicator says about itself.
#include "cuda_emulation/nccl_comm.hpp"

namespace partita::cuda_emulation {
namespace {

ncclResult_t registered(Machine& m, ncclComm_t handle, void* data, std::size_t bytes, const void** made,
                        const char* who) {
  const auto comm = comm_of(m, handle, who);
  if (comm == nullptr) return ncclInvalidArgument;
  std::vector<Access> accesses{writes({data, bytes})};
  if (!m.admit(comm->device, who, accesses)) return ncclInvalidArgument;
  *made = new char;
  nccl_world(m).windows[*made] = data;
  return ncclSuccess;
}

ncclResult_t deregistered(Machine& m, const void* handle, const char* who) {
  if (nccl_world(m).windows.erase(handle) == 0) {
    m.report(Finding::misuse, std::string(who) + " of a handle that no registration returned");
    return ncclInvalidArgument;
  }
  delete static_cast<const char*>(handle);
  return ncclSuccess;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const auto block = m.memory.allocate(current_device(), bytes, m.options.device_memory, NCCL_WIN_REQUIRED_ALIGNMENT);
    if (block == nullptr) return ncclUnhandledCudaError;
    *data = reinterpret_cast<void*>(block->base);
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* data) {
  const cudaError_t freed = cudaFree(data);
  return enter<ncclResult_t>(__func__, Kind::release, [&](Machine&, Lock&) {
    return freed == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t bytes, void** handle) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const void* made = nullptr;
    const ncclResult_t result = registered(m, comm, data, bytes, &made, "ncclCommRegister");
    *handle = const_cast<void*>(made);
    return result;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t, void* handle) {
  return enter<ncclResult_t>(__func__, Kind::release,
                             [&](Machine& m, Lock&) { return deregistered(m, handle, "ncclCommDeregister"); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, size_t bytes, ncclWindow_t* window, int) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    if (reinterpret_cast<std::uintptr_t>(data) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) return ncclInvalidArgument;
    const void* made = nullptr;
    const ncclResult_t result = registered(m, comm, data, bytes, &made, "ncclCommWindowRegister");
    *window = static_cast<ncclWindow_t>(const_cast<void*>(made));
    return result;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  return enter<ncclResult_t>(__func__, Kind::release,
                             [&](Machine& m, Lock&) { return deregistered(m, window, "ncclCommWindowDeregister"); });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, "ncclCommCount");
    if (comm == nullptr) return ncclInvalidArgument;
    *count = comm->clique->size();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, "ncclCommCuDevice");
    if (comm == nullptr) return ncclInvalidArgument;
    *device = comm->device;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, "ncclCommUserRank");
    if (comm == nullptr) return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "emulated: see the reports"; }
