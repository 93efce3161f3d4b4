// SPDX-License-Identifier: Apache-2.0
// How communicators are made: from a unique id, or by splitting one.
#include <algorithm>
#include <cstring>

#include "cuda_emulation/nccl_comm.hpp"
#include "cuda_emulation/nccl_new.hpp"

namespace partita::cuda_emulation {

std::shared_ptr<ncclComm> new_comm(Machine& m, const std::shared_ptr<NcclClique>& clique, int rank, int device,
                                   const ncclConfig_t* config, const ncclComm* parent) {
  auto comm = std::make_shared<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->device = device;
  comm->blocking = parent == nullptr || parent->blocking;
  if (config != nullptr && config->blocking != NCCL_CONFIG_UNDEF_INT) comm->blocking = config->blocking != 0;
  comm->polls_left = m.options.progress == Progress::latest ? 1 : 0;
  nccl_world(m).comms[comm.get()] = comm;
  ++m.communicators;
  return comm;
}

void forget_comm(Machine& m, ncclComm& comm) {
  if (comm.clique != nullptr) {
    for (ncclComm*& member : comm.clique->members) {
      if (member == &comm) member = nullptr;
    }
    if (!comm.clique->complete) --comm.clique->arrived;  // which it never will be
  }
  --m.communicators;
  nccl_world(m).comms.erase(&comm);  // the caller holds it
}

void host_meets(Machine& m, NcclClique& clique) {
  m.order.host().join(clique.hosts);
  clique.met->learn();
}

/// The hosts meet here: each is ordered after what all others did before.
void complete(Machine& m, NcclClique& clique) {
  clique.complete = true;
  std::vector<int> devices;
  for (const ncclComm* member : clique.members) {
    if (member != nullptr) devices.push_back(member->device);
  }
  if (static_cast<int>(devices.size()) < clique.size()) clique.failure = ncclRemoteError;  // one is gone already
  std::sort(devices.begin(), devices.end());
  const auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice != devices.end()) {
    m.report(Finding::misuse, clique.label + ": two ranks on device " + std::to_string(*twice));
    clique.failure = ncclInvalidUsage;
  }
  for (ncclComm* member : clique.members) {
    if (member == nullptr) continue;
    member->state = NcclState::ready;
    member->error = clique.failure;
  }
  m.changed();
}

namespace {

/// A split whose parent has failed will never be complete.
ncclResult_t failure_of(const ncclComm& comm) {
  if (comm.clique != nullptr && comm.clique->complete) return comm.clique->failure;
  return comm.parent != nullptr ? comm.parent->failure : ncclSuccess;
}

}  // namespace

ncclResult_t await_made(Machine& m, Lock& lock, const std::shared_ptr<ncclComm>& comm) {
  const auto made = [&] { return comm->clique != nullptr && comm->clique->complete; };
  m.await(lock, Who::host, [&] { return made() || failure_of(*comm) != ncclSuccess; });
  comm->polls_left = 0;
  if (m.broken) return ncclSystemError;
  if (made()) host_meets(m, *comm->clique);
  return failure_of(*comm);
}

ncclResult_t made_now_or_later(Machine& m, Lock& lock, const std::shared_ptr<ncclComm>& comm) {
  if (!comm->blocking) {
    comm->error = comm->error == ncclSuccess && comm->state == NcclState::ready ? ncclInProgress : comm->error;
    if (comm->state == NcclState::making) comm->error = ncclInProgress;
    return ncclInProgress;
  }
  if (in_nccl_group()) {
    await_at_group_end([comm](Machine& machine_, Lock& held) { return await_made(machine_, held, comm); });
    return ncclSuccess;
  }
  return await_made(m, lock, comm);
}

}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

ncclResult_t ncclGetVersion(int* version) {
  return enter<ncclResult_t>(__func__, [&](Machine&, Lock&) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock&) {
    *id = ncclUniqueId{};
    const std::string text = "emulated " + std::to_string(++nccl_world(m).ids);
    std::memcpy(id->internal, text.data(), text.size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock& lock) {
    *made = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    if (m.options.devices == 0) return ncclUnhandledCudaError;
    if (config != nullptr && config->magic != 0xcafebeef) return ncclInvalidArgument;
    NcclWorld& world = nccl_world(m);
    const std::string key(id.internal, sizeof id.internal);
    auto& clique = world.forming[key];
    if (clique == nullptr) {
      clique = std::make_shared<NcclClique>();
      clique->label = "communicator #" + std::to_string(++world.cliques);
      if (config != nullptr && config->commName != nullptr) {
        clique->label = std::string("communicator '") + config->commName + "'";
      }
      clique->members.resize(static_cast<std::size_t>(ranks));
    }
    const std::shared_ptr<NcclClique> own = clique;
    auto& place = own->members[std::min(static_cast<std::size_t>(rank), own->members.size() - 1)];
    if (own->size() != ranks || place != nullptr) {
      m.report(Finding::mismatch, own->label + ": rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                      " joins, where there are " + std::to_string(own->size()) + " ranks" +
                                      (place != nullptr ? " and this one is taken" : ""));
      return ncclInvalidArgument;
    }
    const auto comm = new_comm(m, own, rank, current_device(), config, nullptr);
    place = comm.get();
    *made = comm.get();
    own->hosts.join(m.order.host());
    own->met->tell();
    if (++own->arrived == ranks) {
      world.forming.erase(key);
      complete(m, *own);
    }
    return made_now_or_later(m, lock, comm);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  ncclUniqueId id;
  if (const ncclResult_t r = ncclGetUniqueId(&id); r != ncclSuccess) return r;
  const int before = current_device();
  if (const ncclResult_t r = ncclGroupStart(); r != ncclSuccess) return r;
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < devices && result == ncclSuccess; ++i) {
    current_device() = list != nullptr ? list[i] : i;
    result = ncclCommInitRank(&comms[i], devices, id, i);
  }
  current_device() = before;
  const ncclResult_t end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}
