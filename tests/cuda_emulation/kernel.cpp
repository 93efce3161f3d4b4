// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/kernel.hpp"

#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {

bool launch(const std::string& name, cudaStream_t stream, const std::vector<Access>& accesses,
            const std::function<void()>& body) {
  return enter<cudaError_t>(name.c_str(), [&](Machine& m, Lock&) {
           Operation op;
           op.name = name;
           op.accesses = accesses;
           op.stream = m.stream_of(stream, name.c_str());
           if (op.stream == nullptr) return cudaErrorInvalidResourceHandle;
           if (op.stream->device != current_device()) {
             m.report(Finding::wrong_device, name + " on " + op.stream->label + ", while device " +
                                                 std::to_string(current_device()) + " is current");
             return cudaErrorInvalidResourceHandle;
           }
           if (!m.admit(op.stream->device, name, op.accesses)) return cudaErrorIllegalAddress;
           op.work = [body](Lock& held) { unlocked(held, body); };
           m.enqueue(std::move(op));
           return cudaSuccess;
         }) == cudaSuccess;
}

void* bytes_of(void* device_memory) { return machine().memory.bytes_of(device_memory); }

}  // namespace partita::cuda_emulation
