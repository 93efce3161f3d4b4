// SPDX-License-Identifier: Apache-2.0
// Finds the operation that a call belongs to, and what happens when ranks disagree about it.
#include <algorithm>

#include "cuda_emulation/nccl_comm.hpp"

namespace partita::cuda_emulation {

NcclWorld& nccl_world(Machine& m) {
  if (m.nccl == nullptr) m.nccl = std::make_shared<NcclWorld>();
  return *static_cast<NcclWorld*>(m.nccl.get());
}

std::shared_ptr<ncclComm> comm_of(Machine& m, ncclComm* handle, const char* who) {
  NcclWorld& world = nccl_world(m);
  const auto found = world.comms.find(handle);
  if (found != world.comms.end()) return found->second;
  m.report(Finding::misuse, std::string(who) + ": no such communicator, or one that is gone");
  return nullptr;
}

namespace {

NcclFused::Part find_match(ncclComm& comm, const NcclCall& call) {
  NcclClique& clique = *comm.clique;
  NcclFused::Part part;
  std::shared_ptr<NcclMatch>* place = nullptr;
  std::string label;
  std::vector<int> ranks;
  if (call.is_message()) {
    const bool sends = call.kind == NcclKind::send;
    const int from = sends ? comm.rank : call.root;
    const int to = sends ? call.root : comm.rank;
    const std::uint64_t index = sends ? comm.next_send[to]++ : comm.next_recv[from]++;
    place = &clique.messages[{from, to, index}];
    label = "message " + std::to_string(index) + " from " + std::to_string(from) + " to " + std::to_string(to);
    ranks = {from, to};
    part.index = sends ? 0 : 1;
  } else {
    const std::uint64_t index = comm.next_collective++;
    place = &clique.collectives[index];
    label = "operation " + std::to_string(index);
    for (int r = 0; r < clique.size(); ++r) ranks.push_back(r);
    part.index = comm.rank;
  }
  if (*place == nullptr) {
    *place = std::make_shared<NcclMatch>();
    (*place)->label = label + " of " + clique.label;
    (*place)->entries.resize(ranks.size());
    (*place)->ranks = std::move(ranks);
  }
  part.match = *place;
  return part;
}

void forget_finished(NcclClique& clique) {
  std::erase_if(clique.collectives, [](const auto& item) { return item.second->over(); });
  std::erase_if(clique.messages, [](const auto& item) { return item.second->over(); });
}

}  // namespace

ncclResult_t post(Machine& m, ncclComm& comm, const NcclCall& call, NcclFused::Part& part) {
  forget_finished(*comm.clique);
  part = find_match(comm, call);
  NcclMatch& match = *part.match;
  for (std::size_t i = 0; i < match.entries.size(); ++i) {
    const NcclEntry& other = match.entries[i];
    if (!other.posted || other.call.matches(call)) continue;
    m.report(Finding::mismatch, match.label + ": rank " + std::to_string(match.ranks[i]) + " calls " +
                                    other.call.text() + ", rank " + std::to_string(comm.rank) + " calls " +
                                    call.text());
    fail_clique(m, *comm.clique, ncclInvalidUsage);
    return ncclInvalidUsage;
  }
  NcclEntry& own = part.entry();
  own.posted = true;
  own.call = call;
  return ncclSuccess;
}

void drop_pending(Machine& m, ncclComm& comm) {
  for (const auto& operation : comm.pending) {
    if (operation->done || operation->peers == nullptr) continue;
    for (const auto& part : std::static_pointer_cast<NcclFused>(operation->peers)->parts) part.entry().gone = true;
    m.drop(operation);
  }
  comm.pending.clear();
  m.changed();
}

void fail_clique(Machine& m, NcclClique& clique, ncclResult_t failure) {
  clique.failure = failure;
  for (ncclComm* member : clique.members) {
    if (member == nullptr) continue;
    member->error = failure;
    drop_pending(m, *member);
  }
}

bool quiescent(const ncclComm& comm) {
  return comm.deferred.empty() &&
         std::all_of(comm.pending.begin(), comm.pending.end(), [](const auto& operation) { return operation->done; });
}

}  // namespace partita::cuda_emulation
