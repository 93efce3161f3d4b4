// SPDX-License-Identifier: Apache-2.0
// One process for each device, without MPI: as torchrun starts them. An opt-in include, as comm/nccl.hpp is.
#pragma once

#include <cstring>
#include <string>

#include "partita/comm/nccl.hpp"
#include "partita/comm/nccl/environment.hpp"
#include "partita/comm/nccl/rendezvous.hpp"

namespace partita {

/// This process's rank, on the device LOCAL_RANK of those that it sees: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
/// MASTER_PORT are read from the environment. Rank 0 listens on PARTITA_PORT, or else on the port after MASTER_PORT,
/// and hands out what NCCL needs; the deadline of the options holds for that too. Collective. Errors: ArgumentError for
/// a variable, NoDeviceError, RendezvousError, and those of NcclComm.
[[nodiscard]] inline NcclComm nccl_from_environment(const NcclOptions& options = {}) {
  const JobPlace job = job_from_environment();
  const int devices = cuda_device_count();
  if (job.local_rank >= devices) {
    throw ArgumentError("ArgumentError: the environment variable LOCAL_RANK is " + std::to_string(job.local_rank) +
                        ", this process sees " + std::to_string(devices) +
                        " devices; start at most that many processes on a machine, or look at CUDA_VISIBLE_DEVICES");
  }
  use_cuda_device(job.local_rank);
  ncclUniqueId id{};
  if (job.rank == 0) id = nccl_unique_id();
  const std::string bytes =
      meet({job.rank, job.size, job.host, job.port, options.deadline}, std::string(id.internal, sizeof id.internal));
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return NcclComm(id, job.size, job.rank, options);
}

}  // namespace partita
