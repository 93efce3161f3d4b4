// SPDX-License-Identifier: Apache-2.0
// The way of every NCCL operation from its call to its stream.
#pragma once

#include "cuda_emulation/nccl_call.hpp"

namespace partita::cuda_emulation {

/// Checks the call, and launches it at once or at the end of the thread's group.
ncclResult_t submit(const NcclCall& call, ncclComm* comm, cudaStream_t stream);

}  // namespace partita::cuda_emulation
