// SPDX-License-Identifier: Apache-2.0
// A communicator's state, and how it ends: well (finalize, destroy) or not (abort, revoke).
#include "cuda_emulation/nccl_comm.hpp"
#include "cuda_emulation/nccl_new.hpp"

namespace partita::cuda_emulation {
namespace {

void demand_pending(Machine& m, const ncclComm& comm) {
  for (const auto& operation : comm.pending) m.demand(*operation);
}

/// Finalizing is over when every rank has begun it and nothing of this one is under way.
bool finalized(const ncclComm& comm) { return comm.clique->finalizing == comm.clique->size() && quiescent(comm); }

void launch_deferred(ncclComm& comm) {
  for (const auto& launch : std::exchange(comm.deferred, {})) launch();
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return enter<ncclResult_t>(__func__, Kind::query, [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, "ncclCommGetAsyncError");
    if (comm == nullptr) return ncclInvalidArgument;
    if (m.broken) {
      *error = ncclSystemError;
      return ncclSuccess;
    }
    if (!comm->deferred.empty()) launch_deferred(*comm);
    bool busy = comm->state == NcclState::making;
    if (busy && comm->parent != nullptr && comm->parent->failure != ncclSuccess) comm->error = comm->parent->failure;
    if (comm->state == NcclState::finalizing) {
      demand_pending(m, *comm);
      busy = !finalized(*comm);
    }
    if (comm->error != ncclSuccess && comm->error != ncclInProgress) {
      *error = comm->error;
      return ncclSuccess;
    }
    if (busy || comm->polls_left > 0) {
      if (!busy) --comm->polls_left;
      ++m.polls;
      *error = ncclInProgress;
      return ncclSuccess;
    }
    comm->error = ncclSuccess;
    host_meets(m, *comm->clique);
    *error = ncclSuccess;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock& lock) {
    const auto comm = comm_of(m, handle, "ncclCommFinalize");
    if (comm == nullptr) return ncclInvalidArgument;
    if (comm->state != NcclState::ready) {
      m.report(Finding::misuse, "ncclCommFinalize of rank " + std::to_string(comm->rank) +
                                    ": the communicator is not ready, is revoked, or was finalized");
      return ncclInvalidUsage;
    }
    launch_deferred(*comm);
    comm->state = NcclState::finalizing;
    ++comm->clique->finalizing;
    demand_pending(m, *comm);
    m.changed();
    if (!comm->blocking) {
      comm->polls_left = m.options.progress == Progress::latest ? 1 : 0;
      return ncclInProgress;
    }
    if (in_nccl_group()) {
      await_at_group_end([comm](Machine& machine_, Lock& held) {
        machine_.await(held, Who::host, [&] { return finalized(*comm); });
        return comm->error;
      });
      return ncclSuccess;
    }
    m.await(lock, Who::host, [&] { return finalized(*comm); });
    return comm->error;
  });
}

/// Waits for this rank's own operations.
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return enter<ncclResult_t>(__func__, Kind::release, [&](Machine& m, Lock& lock) {
    if (handle == nullptr) return ncclSuccess;
    const auto comm = comm_of(m, handle, "ncclCommDestroy");
    if (comm == nullptr) return ncclInvalidArgument;
    launch_deferred(*comm);
    demand_pending(m, *comm);
    m.await(lock, Who::host, [&] { return quiescent(*comm); });
    forget_comm(m, *comm);
    return ncclSuccess;
  });
}

/// Ends this rank's operations. Its peers are not told: they find out by their own deadline.
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return enter<ncclResult_t>(__func__, Kind::release, [&](Machine& m, Lock&) {
    if (handle == nullptr) return ncclSuccess;
    const auto comm = comm_of(m, handle, "ncclCommAbort");
    if (comm == nullptr) return ncclInvalidArgument;
    comm->deferred.clear();
    drop_pending(m, *comm);
    forget_comm(m, *comm);
    return ncclSuccess;
  });
}

/// Ends this rank's operations and keeps the communicator, for a split or its destruction.
ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, "ncclCommRevoke");
    if (comm == nullptr || flags != NCCL_REVOKE_DEFAULT) return ncclInvalidArgument;
    comm->deferred.clear();
    drop_pending(m, *comm);
    comm->state = NcclState::revoked;
    comm->error = ncclSuccess;
    comm->polls_left = m.options.progress == Progress::latest ? 1 : 0;
    return comm->blocking ? ncclSuccess : ncclInProgress;
  });
}
