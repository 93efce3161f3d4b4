// SPDX-License-Identifier: Apache-2.0
// Allocation in the CUDA runtime. Memory is poisoned when it is made and when it is freed, and addresses are not reused
// while anybody may remember them.
#include <cstring>

#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {
namespace {

Access whole(const std::shared_ptr<Block>& block, bool written) {
  return {{reinterpret_cast<const void*>(block->base), block->bytes}, written, block};
}

/// The live block that begins at `data`; null, with a report, if there is none.
std::shared_ptr<Block> owned(Machine& m, const void* data, Space space, const char* who) {
  const auto block = m.memory.find(data);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (block == nullptr || block->space != space || block->base != address) {
    m.report(Finding::misuse, std::string(who) + " of an address that no allocation returned");
    return nullptr;
  }
  if (!block->live) {
    m.report(Finding::use_after_free,
             std::string(who) + " of " + block->label + ", which " + block->freed_by + " has freed");
    return nullptr;
  }
  return block;
}

cudaError_t allocate(Machine& m, void** data, std::size_t bytes, int device) {
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  const auto block = m.memory.allocate(device, bytes, m.options.device_memory);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  *data = reinterpret_cast<void*>(block->base);
  return cudaSuccess;
}

/// The device is idle after it, but a program that relies on that is told: its own order has to cover every use.
cudaError_t free_now(Machine& m, Lock& lock, void* data, Space space, const char* who) {
  if (data == nullptr) return cudaSuccess;
  const auto block = owned(m, data, space, who);
  if (block == nullptr) return cudaErrorInvalidValue;
  m.order.host_access(whole(block, true), who);
  m.memory.retire(*block, who);
  m.synchronise_device(lock, block->device, false);
  m.memory.release(*block);
  return cudaSuccess;
}

cudaError_t allocate_ordered(Machine& m, void** data, std::size_t bytes, int device, cudaStream_t handle) {
  Operation op;
  op.stream = m.stream_of(handle, "cudaMallocAsync");
  if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
  const cudaError_t result = allocate(m, data, bytes, device == any_device ? op.stream->device : device);
  if (*data == nullptr) return result;
  op.name = "cudaMallocAsync";
  const auto block = m.memory.find(*data);
  op.accesses.push_back(whole(block, true));
  op.work = [block](Lock& held) {  // again: now is when the memory begins
    char* first = machine().memory.bytes_of(reinterpret_cast<char*>(block->base));
    const std::size_t seen = std::min(block->bytes, Memory::most_shown);
    if (!block->released) unlocked(held, [&] { std::memset(first, Memory::poison, seen); });
  };
  m.enqueue(std::move(op));
  return cudaSuccess;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return cudaErrorNoDevice;
    return allocate(m, data, bytes, current_device());
  });
}

cudaError_t cudaFree(void* data) {
  return enter<cudaError_t>(__func__, Kind::release,
                            [&](Machine& m, Lock& lock) { return free_now(m, lock, data, Space::device, "cudaFree"); });
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  return enter<cudaError_t>(__func__,
                            [&](Machine& m, Lock&) { return allocate_ordered(m, data, bytes, any_device, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return enter<cudaError_t>(__func__,
                            [&](Machine& m, Lock&) { return allocate_ordered(m, data, bytes, pool->device, stream); });
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  return enter<cudaError_t>(__func__, Kind::release, [&](Machine& m, Lock&) {
    if (data == nullptr) return cudaSuccess;
    Operation op;
    op.stream = m.stream_of(handle, "cudaFreeAsync");
    if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
    const auto block = owned(m, data, Space::device, "cudaFreeAsync");
    if (block == nullptr) return cudaErrorInvalidValue;
    op.name = "cudaFreeAsync";
    op.frees = true;
    op.accesses.push_back(whole(block, true));
    m.memory.retire(*block, "cudaFreeAsync on " + op.stream->label);
    op.work = [block](Lock&) { machine().memory.release(*block); };
    m.enqueue(std::move(op));
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (m.options.devices == 0) return cudaErrorNoDevice;
    const auto block = m.memory.allocate_pinned(current_device(), bytes);
    if (block == nullptr) return cudaErrorMemoryAllocation;
    *data = reinterpret_cast<void*>(block->base);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaHostAlloc(data, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* data) {
  return enter<cudaError_t>(__func__, Kind::release, [&](Machine& m, Lock& lock) {
    return free_now(m, lock, data, Space::pinned, "cudaFreeHost");
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    *total = m.options.device_memory;
    *free = *total - m.memory.used(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    *attributes = cudaPointerAttributes{};
    const auto block = m.memory.find(data);
    attributes->device = -2;
    if (block == nullptr || !block->live) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->hostPointer = const_cast<void*>(data);
      return cudaSuccess;
    }
    attributes->device = block->device;
    attributes->devicePointer = const_cast<void*>(data);
    attributes->type = block->space == Space::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    if (block->space == Space::pinned) attributes->hostPointer = const_cast<void*>(data);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    if (device < 0 || device >= m.options.devices) return cudaErrorInvalidDevice;
    *pool = &m.pools[device];
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return enter<cudaError_t>(__func__, [](Machine&, Lock&) { return cudaSuccess; });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock&) {
    const bool used = attribute == cudaMemPoolAttrUsedMemCurrent || attribute == cudaMemPoolAttrReservedMemCurrent;
    *static_cast<std::uint64_t*>(value) = used ? m.memory.used(pool->device) : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  return enter<cudaError_t>(__func__, [](Machine&, Lock&) { return cudaSuccess; });
}
