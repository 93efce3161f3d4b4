// SPDX-License-Identifier: Apache-2.0
// Kernels that run as host code on a stream: what they touch is declared, addresses are those of the bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda_emulation/operation.hpp"

namespace partita::cuda_emulation {

/// Enqueues `body` with the rectangles that it touches, at device addresses; false, with a report, where they are not
/// in reach. It reads and writes through bytes_of().
bool launch(const std::string& name, cudaStream_t stream, const std::vector<Access>& accesses,
            const std::function<void()>& body);

/// Where a kernel's host code finds the bytes of a device address.
[[nodiscard]] void* bytes_of(void* device_memory);
template <class T>
[[nodiscard]] T* bytes_of(T* device_memory) {
  return static_cast<T*>(bytes_of(const_cast<void*>(static_cast<const void*>(device_memory))));
}

}  // namespace partita::cuda_emulation
