// SPDX-License-Identifier: Apache-2.0
// Groups: calls between ncclGroupStart and ncclGroupEnd are launched together, one operation for each communicator.
#include <algorithm>

#include "cuda_emulation/nccl_comm.hpp"
#include "cuda_emulation/nccl_submit.hpp"

namespace partita::cuda_emulation {
namespace {

struct Queued {
  std::shared_ptr<ncclComm> comm;
  std::shared_ptr<CUstream_st> stream;
  NcclCall call;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Queued> calls;
  std::vector<std::function<ncclResult_t(Machine&, Lock&)>> ends;
};
Group& group() {
  thread_local Group the;
  return the;
}

/// One operation on the stream of the first call. Streams of further calls join before it and wait for it.
ncclResult_t launch(Machine& m, const std::vector<Queued>& calls) {
  const std::shared_ptr<ncclComm> comm = calls.front().comm;
  auto fused = std::make_shared<NcclFused>();
  fused->comm = comm;
  fused->clique = comm->clique;
  Operation op;
  op.stream = calls.front().stream;
  std::vector<std::shared_ptr<CUstream_st>> others;
  for (const Queued& q : calls) {
    NcclFused::Part part;
    if (const ncclResult_t failed = post(m, *comm, q.call, part); failed != ncclSuccess) return failed;
    fused->parts.push_back(part);
    if (const auto code = m.faults.asynchronous(q.call.name(), current_device())) {
      fused->asynchronous = static_cast<ncclResult_t>(*code);
    }
    op.name += (op.name.empty() ? "" : " + ") + q.call.text();
    for (const Rectangle& r : q.call.sent(comm->rank, comm->clique->size())) op.accesses.push_back(reads(r));
    for (const Rectangle& r : q.call.received(comm->rank, comm->clique->size())) op.accesses.push_back(writes(r));
    if (q.stream != op.stream && std::find(others.begin(), others.end(), q.stream) == others.end()) {
      others.push_back(q.stream);
      if (q.stream->tail != nullptr) op.after.push_back(q.stream->tail);
    }
  }
  op.name += " of rank " + std::to_string(comm->rank) + " in " + comm->clique->label;
  m.admit(comm->device, op.name, op.accesses);  // was checked at the calls: now it only finds the blocks
  if (m.options.one_collective_per_device && comm->clique->size() > 1) {
    const Device& device = m.devices[static_cast<std::size_t>(comm->device)];
    op.accesses.push_back({{device.collective_slot.get(), 1}, true, device.collective_slot});
  }
  op.peers = fused;
  op.work = [fused](Lock& lock) { fused->run(lock); };
  const auto operation = std::make_shared<Operation>(std::move(op));
  fused->self = operation;
  std::erase_if(comm->pending, [](const auto& old) { return old->done; });
  comm->pending.push_back(operation);
  m.enqueue(operation);
  bool demanded = false;
  for (const NcclFused::Part& part : fused->parts) {
    part.entry().operation = operation;
    demanded = demanded || part.match->demanded;
  }
  if (demanded) m.demand(*operation);
  for (const auto& other : others) {
    Operation joined;
    joined.name = "the end of an NCCL group";
    joined.stream = other;
    joined.after.push_back(operation);
    m.enqueue(std::move(joined));
  }
  return ncclSuccess;
}

ncclResult_t launch_or_defer(Machine& m, std::vector<Queued> calls) {
  const std::shared_ptr<ncclComm> comm = calls.front().comm;
  if (comm->blocking || m.options.progress != Progress::latest) return launch(m, calls);
  // Nothing is on the stream until a poll says so.
  comm->deferred.push_back([&m, calls = std::move(calls)] {
    if (const ncclResult_t failed = launch(m, calls); failed != ncclSuccess) calls.front().comm->error = failed;
  });
  comm->polls_left = 1;
  return ncclInProgress;
}

ncclResult_t end_group(Machine& m, Lock& lock) {
  Group the = std::exchange(group(), {});
  if (the.error != ncclSuccess) return the.error;
  ncclResult_t result = ncclSuccess;
  const auto note = [&](ncclResult_t r) {
    if (result == ncclSuccess || (result == ncclInProgress && r != ncclSuccess)) result = r;
  };
  while (!the.calls.empty()) {
    const auto comm = the.calls.front().comm;
    std::vector<Queued> own;
    std::vector<Queued> rest;
    for (Queued& q : the.calls) (q.comm == comm ? own : rest).push_back(std::move(q));
    the.calls = std::move(rest);
    note(launch_or_defer(m, std::move(own)));
  }
  for (const auto& end : the.ends) note(end(m, lock));
  return result;
}

ncclResult_t checked(Machine& m, const NcclCall& call, const std::shared_ptr<ncclComm>& comm,
                     const std::shared_ptr<CUstream_st>& stream) {
  const auto misuse = [&](Finding kind, const std::string& text) {
    m.report(kind, call.text() + " of rank " + std::to_string(comm->rank) + " in " + comm->clique->label + text);
    return ncclInvalidUsage;
  };
  if (comm->clique->failure != ncclSuccess) return comm->clique->failure;
  if (comm->state != NcclState::ready) return misuse(Finding::misuse, ": the communicator is not ready for operations");
  if (!comm->deferred.empty()) return misuse(Finding::misuse, ": an earlier call is still in progress");
  if (comm->error != ncclSuccess) return comm->error;
  if (stream->device != comm->device) return misuse(Finding::wrong_device, ": on " + stream->label);
  const int size = comm->clique->size();
  if (call.root < 0 || call.root >= size) return ncclInvalidArgument;
  if (const std::string error = call.overlap_error(comm->rank, size); !error.empty()) {
    return misuse(Finding::misuse, error);
  }
  std::vector<Access> accesses;
  for (const Rectangle& r : call.sent(comm->rank, size)) accesses.push_back(reads(r));
  for (const Rectangle& r : call.received(comm->rank, size)) accesses.push_back(writes(r));
  return m.admit(comm->device, call.text(), accesses) ? ncclSuccess : ncclInvalidArgument;
}

}  // namespace

bool in_nccl_group() { return group().depth > 0; }
void await_at_group_end(std::function<ncclResult_t(Machine&, Lock&)> end) { group().ends.push_back(std::move(end)); }

ncclResult_t submit(const NcclCall& call, ncclComm* handle, cudaStream_t stream_handle) {
  return enter<ncclResult_t>(call.name(), [&](Machine& m, Lock&) {
    const auto comm = comm_of(m, handle, call.name());
    if (comm == nullptr) return ncclInvalidArgument;
    const auto stream = m.stream_of(stream_handle, call.name());
    if (stream == nullptr) return ncclInvalidArgument;
    const ncclResult_t result = checked(m, call, comm, stream);
    if (!in_nccl_group()) return result == ncclSuccess ? launch_or_defer(m, {{comm, stream, call}}) : result;
    if (result == ncclSuccess) {
      group().calls.push_back({comm, stream, call});
    } else if (group().error == ncclSuccess) {
      group().error = result;
    }
    return result;
  });
}

}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

ncclResult_t ncclGroupStart() {
  return enter<ncclResult_t>(__func__, [](Machine&, Lock&) {
    ++group().depth;
    return ncclSuccess;
  });
}

/// A group whose end is made to fail is over too.
ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = enter<ncclResult_t>(__func__, [](Machine& m, Lock& lock) {
    if (group().depth == 0) {
      m.report(Finding::misuse, "ncclGroupEnd without ncclGroupStart");
      return ncclInvalidUsage;
    }
    return group().depth == 1 ? end_group(m, lock) : (--group().depth, ncclSuccess);
  });
  if (result != ncclSuccess && result != ncclInProgress) group() = {};
  return result;
}
