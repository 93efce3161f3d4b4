// SPDX-License-Identifier: Apache-2.0
// Copies and fills of the CUDA runtime.
#include <cstring>

#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {
namespace {

struct Copy {
  const char* name;
  void* dst;
  std::size_t dst_pitch;
  const void* src;
  std::size_t src_pitch;
  std::size_t width;
  std::size_t height;
  cudaMemcpyKind kind;
};

Space space_of(const Machine& m, const void* data) {
  if (m.memory.is_device_address(data)) return Space::device;
  const auto block = m.memory.find(data);
  return block != nullptr && block->live ? Space::pinned : Space::pageable;
}

void move_rows(char* dst, std::size_t dst_pitch, const char* src, std::size_t src_pitch, std::size_t width,
               std::size_t height) {
  for (std::size_t i = 0; i < height; ++i) std::memcpy(dst + i * dst_pitch, src + i * src_pitch, width);
}

bool kind_fits(cudaMemcpyKind kind, Space dst, Space src) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return dst != Space::device && src != Space::device;
    case cudaMemcpyHostToDevice:
      return dst == Space::device && src != Space::device;
    case cudaMemcpyDeviceToHost:
      return dst != Space::device && src == Space::device;
    case cudaMemcpyDeviceToDevice:
      return dst == Space::device && src == Space::device;
  }
  return false;
}

/// Checks and enqueues; `any_peer` for copies whose interface names both devices. Waits if `waits`, or where the
/// documentation says that the call does: a copy to pageable memory.
cudaError_t copy(Machine& m, Lock& lock, const Copy& c, cudaStream_t handle, bool waits, bool any_peer = false) {
  Operation op;
  op.name = c.name;
  op.stream = m.stream_of(handle, c.name);
  if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (c.width == 0 || c.height == 0) return cudaSuccess;
  if (c.height > 1 && (c.dst_pitch < c.width || c.src_pitch < c.width)) return cudaErrorInvalidPitchValue;
  const Space dst = space_of(m, c.dst);
  const Space src = space_of(m, c.src);
  if (!kind_fits(c.kind, dst, src)) {
    m.report(Finding::copy_kind, op.name + " on " + op.stream->label + ": cudaMemcpyKind " + std::to_string(c.kind) +
                                     " from " + (src == Space::device ? "device" : "host") + " to " +
                                     (dst == Space::device ? "device" : "host") + " memory");
    return cudaErrorInvalidMemcpyDirection;
  }
  const Rectangle from(c.src, c.src_pitch, c.width, c.height);
  const Rectangle to(c.dst, c.dst_pitch, c.width, c.height);
  if (src != Space::pageable) op.accesses.push_back(reads(from));
  if (dst != Space::pageable) op.accesses.push_back(writes(to));
  if (any_peer) {
    for (Access& a : op.accesses) {
      std::vector<Access> one{a};
      const auto block = m.memory.find(reinterpret_cast<const void*>(a.where.base));
      if (!m.admit(block != nullptr ? block->device : op.stream->device, op.name, one)) return cudaErrorInvalidValue;
      a = one[0];
    }
  } else if (!m.admit(op.stream->device, op.name, op.accesses)) {
    return cudaErrorInvalidValue;
  }
  if (overlap(from, to)) {
    m.report(Finding::misuse, op.name + " on " + op.stream->label + ": source and destination overlap");
    return cudaErrorInvalidValue;
  }
  char* to_bytes = m.memory.bytes_of(static_cast<char*>(c.dst));
  const char* from_bytes = m.memory.bytes_of(static_cast<const char*>(c.src));
  if (src == Space::pageable || dst == Space::pageable) ++m.faults.counters.pageable_copies;
  if (src == Space::pageable) {  // staged now: the caller may change it at once
    std::vector<char> staged(c.width * c.height);
    shown([&] { move_rows(staged.data(), c.width, from_bytes, c.src_pitch, c.width, c.height); });
    op.work = [c, to_bytes, staged = std::move(staged)](Lock& held) {
      unlocked(held, [&] { move_rows(to_bytes, c.dst_pitch, staged.data(), c.width, c.width, c.height); });
    };
  } else {
    op.work = [c, to_bytes, from_bytes](Lock& held) {
      unlocked(held, [&] { move_rows(to_bytes, c.dst_pitch, from_bytes, c.src_pitch, c.width, c.height); });
    };
  }
  const auto enqueued = m.enqueue(std::move(op));
  if (waits || dst == Space::pageable) m.synchronise(lock, enqueued);
  return cudaSuccess;
}

cudaError_t fill(Machine& m, Lock& lock, const char* name, void* data, std::size_t pitch, int value, std::size_t width,
                 std::size_t height, cudaStream_t handle, bool waits) {
  Operation op;
  op.name = name;
  op.stream = m.stream_of(handle, name);
  if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (width == 0 || height == 0) return cudaSuccess;
  if (height > 1 && pitch < width) return cudaErrorInvalidPitchValue;
  op.accesses.push_back(writes({data, pitch, width, height}));
  if (!m.admit(op.stream->device, op.name, op.accesses)) return cudaErrorInvalidValue;
  char* bytes = m.memory.bytes_of(static_cast<char*>(data));
  op.work = [bytes, pitch, value, width, height](Lock& held) {
    unlocked(held, [&] {
      for (std::size_t i = 0; i < height; ++i) std::memset(bytes + i * pitch, value, width);
    });
  };
  const auto enqueued = m.enqueue(std::move(op));
  if (waits) m.synchronise(lock, enqueued);
  return cudaSuccess;
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return copy(m, lock, {"cudaMemcpyAsync", dst, bytes, src, bytes, bytes, 1, kind}, stream, false);
  });
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return copy(m, lock, {"cudaMemcpy", dst, bytes, src, bytes, bytes, 1, kind}, nullptr, true);
  });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return copy(m, lock, {"cudaMemcpy2DAsync", dst, dst_pitch, src, src_pitch, width, height, kind}, stream, false);
  });
}

cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return copy(m, lock, {"cudaMemcpy2D", dst, dst_pitch, src, src_pitch, width, height, kind}, nullptr, true);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t bytes,
                                cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    const auto to = m.memory.find(dst);
    const auto from = m.memory.find(src);
    if (bytes > 0 && ((to != nullptr && to->device != dst_device) || (from != nullptr && from->device != src_device))) {
      m.report(Finding::wrong_device, "cudaMemcpyPeerAsync: the memory is not of the devices that are named");
      return cudaErrorInvalidValue;
    }
    const Copy c{"cudaMemcpyPeerAsync", dst, bytes, src, bytes, bytes, 1, cudaMemcpyDeviceToDevice};
    return copy(m, lock, c, stream, false, true);
  });
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return fill(m, lock, "cudaMemset", data, bytes, value, bytes, 1, nullptr, true);
  });
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return fill(m, lock, "cudaMemsetAsync", data, bytes, value, bytes, 1, stream, false);
  });
}

cudaError_t cudaMemset2DAsync(void* data, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return enter<cudaError_t>(__func__, [&](Machine& m, Lock& lock) {
    return fill(m, lock, "cudaMemset2DAsync", data, pitch, value, width, height, stream, false);
  });
}
