// SPDX-License-Identifier: Apache-2.0
// Communicators of NCCL: what stands behind ncclComm_t, and how calls of its ranks find each other.
#pragma once

#include <nccl.h>

#include <map>
#include <tuple>
#include <vector>

#include "cuda_emulation/api.hpp"
#include "cuda_emulation/nccl_call.hpp"

namespace partita::cuda_emulation {

template <>
struct LibraryOf<ncclResult_t> {
  static constexpr Library library = Library::nccl;
  static constexpr ncclResult_t in_host_function = ncclInvalidUsage;
  static constexpr ncclResult_t given_up = ncclSystemError;
};

/// One participant's share in an operation.
struct NcclEntry {
  bool posted = false;
  NcclCall call;
  std::shared_ptr<Operation> operation;
  bool started = false;    // at the head of its stream
  bool staged = false;     // what it sends has been read
  bool delivered = false;  // what it receives has been written
  bool gone = false;       // aborted
  std::vector<char> payload;
  sanitizer::Edge begun;  // the head of the stream to whoever receives
};

/// One operation of a communicator: the k-th collective of every rank, or the k-th message from one rank to another.
struct NcclMatch {
  std::string label;
  std::vector<int> ranks;  // of the participants; a message: sender, receiver
  std::vector<NcclEntry> entries;
  bool demanded = false;

  [[nodiscard]] bool over() const {
    for (const NcclEntry& e : entries) {
      if (!e.delivered && !e.gone) return false;
    }
    return true;
  }
};

/// What the ranks of one communicator share.
struct NcclClique {
  std::string label;
  std::vector<ncclComm*> members;  // by rank; null when it is gone
  int arrived = 0;
  bool complete = false;
  ncclResult_t failure = ncclSuccess;
  int finalizing = 0;
  Clock hosts;  // what the host threads knew that made it
  std::shared_ptr<sanitizer::Edge> met = std::make_shared<sanitizer::Edge>();  // the same
  std::map<std::uint64_t, std::shared_ptr<NcclMatch>> collectives;
  std::map<std::tuple<int, int, std::uint64_t>, std::shared_ptr<NcclMatch>> messages;
  std::vector<std::shared_ptr<Operation>> unordered;  // whose end is not known yet

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
};

enum class NcclState { making, ready, finalizing, revoked };

/// A rank's calls that are launched together: an operation of its stream.
struct NcclFused final : Peers {
  struct Part {
    std::shared_ptr<NcclMatch> match;
    int index = 0;  // among the participants
    [[nodiscard]] NcclEntry& entry() const { return match->entries[static_cast<std::size_t>(index)]; }
  };
  std::shared_ptr<ncclComm> comm;
  std::shared_ptr<NcclClique> clique;
  std::vector<Part> parts;
  std::weak_ptr<Operation> self;
  ncclResult_t asynchronous = ncclSuccess;  // what to hang with

  void start_known(const std::shared_ptr<Operation>& operation) override;
  void demand(const std::function<void(Operation&)>& peer) override;
  void run(Lock& lock);

 private:
  void await(Lock& lock, const std::function<bool()>& ready);
  void stage(Lock& lock);
  void poison(Lock& lock);
  void deliver(Lock& lock);
  void learn_inputs();
  [[nodiscard]] bool all_inputs(bool NcclEntry::* state) const;
  [[nodiscard]] bool all_participants(bool NcclEntry::* state) const;
};

struct NcclWorld {
  std::map<ncclComm*, std::shared_ptr<ncclComm>> comms;
  std::map<std::string, std::shared_ptr<NcclClique>> forming;  // by unique id
  std::map<std::tuple<NcclClique*, std::uint64_t>, std::shared_ptr<struct NcclSplit>> splits;
  std::uint64_t ids = 0;
  std::uint64_t cliques = 0;
  std::map<const void*, const void*> windows;  // handle and memory
};
NcclWorld& nccl_world(Machine& m);

/// The communicator of a handle; null, with a report, if there is none.
std::shared_ptr<ncclComm> comm_of(Machine& m, ncclComm* handle, const char* who);
/// Enters a call in its operation; on a mismatch reports it, fails the communicator, and returns ncclInvalidUsage.
ncclResult_t post(Machine& m, ncclComm& comm, const NcclCall& call, NcclFused::Part& part);
/// All ranks' operations end, and all ranks see `failure`.
void fail_clique(Machine& m, NcclClique& clique, ncclResult_t failure);
/// Ends this rank's own operations.
void drop_pending(Machine& m, ncclComm& comm);
/// Whether nothing of this rank is under way.
bool quiescent(const ncclComm& comm);

/// Between ncclGroupStart and ncclGroupEnd of a thread.
bool in_nccl_group();
/// What ncclGroupEnd shall wait for.
void await_at_group_end(std::function<ncclResult_t(Machine&, Lock&)> end);
/// Waits until the communicator is made, or cannot be.
ncclResult_t await_made(Machine& m, Lock& lock, const std::shared_ptr<ncclComm>& comm);

}  // namespace partita::cuda_emulation

struct ncclComm {
  std::shared_ptr<partita::cuda_emulation::NcclClique> clique;  // null until a split is complete
  std::shared_ptr<partita::cuda_emulation::NcclClique> parent;  // of a split
  int rank = 0;
  int device = 0;
  bool blocking = true;
  partita::cuda_emulation::NcclState state = partita::cuda_emulation::NcclState::making;
  ncclResult_t error = ncclSuccess;
  bool counted_in_finalize = false;
  int polls_left = 0;  // that still say ncclInProgress (Progress::latest)
  std::uint64_t next_collective = 0;
  std::map<int, std::uint64_t> next_send;
  std::map<int, std::uint64_t> next_recv;
  std::vector<std::shared_ptr<partita::cuda_emulation::Operation>> pending;
  std::vector<std::function<void()>> deferred;  // launches that a poll completes (not blocking, Progress::latest)
  std::string label;
};
