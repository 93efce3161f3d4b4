// SPDX-License-Identifier: Apache-2.0
// ncclCommSplit: the last rank to arrive makes the communicators of all colours.
#include <algorithm>

#include "cuda_emulation/nccl_comm.hpp"
#include "cuda_emulation/nccl_new.hpp"

namespace partita::cuda_emulation {

struct NcclSplit {
  struct Arrival {
    int colour;
    int key;
    int parent_rank;
    std::shared_ptr<ncclComm> comm;  // null without a colour
  };
  std::vector<Arrival> arrivals;
  Clock hosts;
  std::shared_ptr<sanitizer::Edge> met = std::make_shared<sanitizer::Edge>();
};

namespace {

void make_all(Machine& m, NcclSplit& split, const NcclClique& parent) {
  auto& all = split.arrivals;
  std::erase_if(all, [](const NcclSplit::Arrival& a) { return a.comm == nullptr; });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.colour, a.key, a.parent_rank) < std::tie(b.colour, b.key, b.parent_rank);
  });
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const auto& a) { return a.colour != first->colour; });
    auto clique = std::make_shared<NcclClique>();
    clique->label = "communicator #" + std::to_string(++nccl_world(m).cliques) + " (colour " +
                    std::to_string(first->colour) + " of " + parent.label + ")";
    clique->hosts = split.hosts;
    clique->met = split.met;
    for (auto a = first; a != last; ++a) {
      a->comm->rank = static_cast<int>(a - first);
      a->comm->clique = clique;
      const bool alive = nccl_world(m).comms.contains(a->comm.get());
      clique->members.push_back(alive ? a->comm.get() : nullptr);
    }
    clique->arrived = clique->size();
    complete(m, *clique);
    first = last;
  }
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

ncclResult_t ncclCommSplit(ncclComm_t handle, int colour, int key, ncclComm_t* made, ncclConfig_t* config) {
  return enter<ncclResult_t>(__func__, [&](Machine& m, Lock& lock) {
    *made = nullptr;
    const auto parent = comm_of(m, handle, "ncclCommSplit");
    if (parent == nullptr || (colour < 0 && colour != NCCL_SPLIT_NOCOLOR)) return ncclInvalidArgument;
    if (parent->clique->failure != ncclSuccess) return parent->clique->failure;
    if (parent->state != NcclState::ready && parent->state != NcclState::revoked) {
      m.report(Finding::misuse, "ncclCommSplit of rank " + std::to_string(parent->rank) + " in " +
                                    parent->clique->label + ": the communicator is not ready");
      return ncclInvalidUsage;
    }
    const std::uint64_t index = parent->next_collective;
    NcclCall call;
    call.kind = NcclKind::split;
    NcclFused::Part part;
    if (const ncclResult_t failed = post(m, *parent, call, part); failed != ncclSuccess) return failed;
    part.entry().delivered = true;

    const std::shared_ptr<NcclClique> clique = parent->clique;
    auto& place = nccl_world(m).splits[{clique.get(), index}];
    if (place == nullptr) place = std::make_shared<NcclSplit>();
    const std::shared_ptr<NcclSplit> split = place;
    std::shared_ptr<ncclComm> comm;
    if (colour != NCCL_SPLIT_NOCOLOR) {
      comm = new_comm(m, nullptr, 0, parent->device, config, parent.get());
      comm->parent = clique;
      *made = comm.get();
    }
    split->arrivals.push_back({colour, key, parent->rank, comm});
    split->hosts.join(m.order.host());
    split->met->tell();
    if (static_cast<int>(split->arrivals.size()) == clique->size()) {
      nccl_world(m).splits.erase({clique.get(), index});
      make_all(m, *split, *clique);
    }
    if (comm == nullptr) return ncclSuccess;
    const ncclResult_t result = made_now_or_later(m, lock, comm);
    if (result != ncclSuccess && result != ncclInProgress && comm->state == NcclState::making) {
      forget_comm(m, *comm);
      *made = nullptr;
    }
    return result;
  });
}
