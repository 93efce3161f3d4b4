// SPDX-License-Identifier: Apache-2.0
// What making a communicator and splitting one have in common.
#pragma once

#include "cuda_emulation/nccl_comm.hpp"

namespace partita::cuda_emulation {

/// A rank's handle; it inherits the parent's mode where the configuration does not say.
std::shared_ptr<ncclComm> new_comm(Machine& m, const std::shared_ptr<NcclClique>& clique, int rank, int device,
                                   const ncclConfig_t* config, const ncclComm* parent);
/// The handle is gone; the caller keeps the object alive.
void forget_comm(Machine& m, ncclComm& comm);
/// The calling thread knows what all that made the communicator knew.
void host_meets(Machine& m, NcclClique& clique);
/// All ranks have arrived.
void complete(Machine& m, NcclClique& clique);
/// Returns when the communicator is made, at the end of the thread's group, or at once where it is not blocking.
ncclResult_t made_now_or_later(Machine& m, Lock& lock, const std::shared_ptr<ncclComm>& comm);

}  // namespace partita::cuda_emulation
