// SPDX-License-Identifier: Apache-2.0
// How a rank's share in NCCL operations runs on its stream, and what order it makes.
//
//   at the head of the stream   receive buffers are poisoned; what is sent is read (Progress::latest: when all ranks
//                               have begun, which is as late as is legal)
//   all senders have begun      what is received is written
//   end                         (Progress::latest: when every other rank's share is written too)
#include <algorithm>
#include <cstring>

#include "cuda_emulation/nccl_comm.hpp"

namespace partita::cuda_emulation {

/// An end knows the starts of all whose data arrives, and nothing of the others'.
void NcclFused::start_known(const std::shared_ptr<Operation>& operation) {
  for (const Part& part : parts) part.entry().operation = operation;
  clique->unordered.push_back(operation);
  for (const std::shared_ptr<Operation>& waiting : std::vector(clique->unordered)) {
    if (waiting->end_known || waiting->peers == nullptr) continue;
    Clock learned;
    bool all = true;
    for (const Part& part : std::static_pointer_cast<NcclFused>(waiting->peers)->parts) {
      const auto& entries = part.match->entries;
      for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
        const NcclEntry& from = entries[static_cast<std::size_t>(i)];
        if (!part.entry().call.receives_from(part.index, i)) continue;
        const bool known = from.operation != nullptr && from.operation->start_known;
        if (known) learned.join(from.operation->start);
        all = all && known;
      }
    }
    if (all) machine().order.finish(waiting, learned);
  }
  std::erase_if(clique->unordered, [](const auto& waiting) { return waiting->end_known; });
}

void NcclFused::demand(const std::function<void(Operation&)>& peer) {
  for (const Part& part : parts) {
    part.match->demanded = true;
    for (const NcclEntry& entry : part.match->entries) {
      if (entry.operation != nullptr) peer(*entry.operation);
    }
  }
}

bool NcclFused::all_inputs(bool NcclEntry::* state) const {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    const auto& entries = part.match->entries;
    for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
      if (part.entry().call.receives_from(part.index, i) && !(entries[static_cast<std::size_t>(i)].*state))
        return false;
    }
    return true;
  });
}

bool NcclFused::all_participants(bool NcclEntry::* state) const {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return std::all_of(part.match->entries.begin(), part.match->entries.end(),
                       [&](const NcclEntry& entry) { return entry.*state; });
  });
}

void NcclFused::await(Lock& lock, const std::function<bool()>& ready) {
  const std::shared_ptr<Operation> operation = self.lock();
  machine().await(lock, Who::worker, [&] { return operation->dropped || ready(); });
}

void NcclFused::run(Lock& lock) {
  Machine& m = machine();
  const std::shared_ptr<Operation> operation = self.lock();
  const bool late = m.options.progress == Progress::latest;
  for (const Part& part : parts) part.entry().begun.tell();
  Device& device = m.devices[static_cast<std::size_t>(comm->device)];
  const bool takes_slot = m.options.one_collective_per_device && clique->size() > 1;
  if (takes_slot) {
    await(lock, [&] { return device.collective == nullptr; });
    if (operation->dropped) return;
    device.collective = this;
  }
  const auto leave = [&] {
    if (takes_slot) device.collective = nullptr;
    m.changed();
  };
  if (asynchronous != ncclSuccess) {
    comm->error = asynchronous;
    await(lock, [] { return false; });
    return leave();
  }

  if (!late) stage(lock);
  poison(lock);
  for (const Part& part : parts) part.entry().started = true;
  ++m.progress;
  m.changed();
  if (late) {
    await(lock, [&] { return all_participants(&NcclEntry::started); });
    if (!operation->dropped && !m.broken) stage(lock);
    m.changed();
  }
  await(lock, [&] { return all_inputs(&NcclEntry::staged); });
  if (!operation->dropped && !m.broken) {
    deliver(lock);
    for (const Part& part : parts) part.entry().delivered = true;
    m.changed();
    if (late) await(lock, [&] { return all_participants(&NcclEntry::delivered); });
  }
  leave();
}

void NcclFused::stage(Lock& lock) {
  const Memory& memory = machine().memory;
  unlocked(lock, [&] {
    for (const Part& part : parts) {
      NcclEntry& entry = part.entry();
      for (const Rectangle& s : entry.call.sent(comm->rank, clique->size())) {
        const char* bytes = memory.bytes_of(reinterpret_cast<const char*>(s.base));
        entry.payload.assign(bytes, bytes + s.width);
      }
    }
  });
  for (const Part& part : parts) part.entry().staged = true;
}

/// What is still to be sent is spared.
void NcclFused::poison(Lock& lock) {
  const Memory& memory = machine().memory;
  unlocked(lock, [&] {
    for (const Part& part : parts) {
      const NcclEntry& entry = part.entry();
      const auto sent = entry.call.sent(comm->rank, clique->size());
      for (const Rectangle& r : entry.call.received(comm->rank, clique->size())) {
        const bool in_place = std::any_of(sent.begin(), sent.end(), [&](const Rectangle& s) { return overlap(s, r); });
        if (r.empty() || (in_place && !entry.staged)) continue;
        std::memset(memory.bytes_of(reinterpret_cast<char*>(r.base)), Memory::poison, r.width);
      }
    }
  });
}

namespace {

/// Writes what one rank receives in one operation. Sums run in rank order.
void deliver_part(const NcclFused::Part& part, int rank, int size) {
  const NcclCall& call = part.entry().call;
  const auto& entries = part.match->entries;
  const std::size_t one = call.count * nccl_size_of(call.type);
  const auto received = call.received(rank, size);
  if (one == 0 || std::all_of(received.begin(), received.end(), [](const Rectangle& r) { return r.empty(); })) return;
  char* out = machine().memory.bytes_of(static_cast<char*>(call.recv));
  // A copy of what is the stand-ins' own: what orders it is no order between the ranks.
  const auto from = [&](std::size_t index, std::size_t block) {
    const sanitizer::HiddenAccesses hidden;
    const char* data = entries[index].payload.data() + block * one;
    return std::vector<char>(data, data + one);
  };
  const auto self = static_cast<std::size_t>(rank);
  const std::size_t own_block = call.kind == NcclKind::reduce_scatter ? self : 0;
  switch (call.kind) {
    case NcclKind::broadcast:
      std::memcpy(out, from(static_cast<std::size_t>(call.root), 0).data(), one);
      break;
    case NcclKind::scatter:
      std::memcpy(out, from(static_cast<std::size_t>(call.root), self).data(), one);
      break;
    case NcclKind::recv:
      std::memcpy(out, from(0, 0).data(), one);
      break;
    case NcclKind::all_gather:
    case NcclKind::gather:
      for (std::size_t r = 0; r < entries.size(); ++r) {
        const bool there = r == self && call.send == static_cast<const char*>(call.recv) + r * one;
        if (!there) std::memcpy(out + r * one, from(r, 0).data(), one);
      }
      break;
    case NcclKind::all_to_all:
      for (std::size_t r = 0; r < entries.size(); ++r) std::memcpy(out + r * one, from(r, self).data(), one);
      break;
    case NcclKind::reduce:
    case NcclKind::all_reduce:
    case NcclKind::reduce_scatter: {
      std::vector<char> sum = from(0, own_block);
      for (std::size_t r = 1; r < entries.size(); ++r) {
        nccl_combine(call.type, call.op, sum.data(), from(r, own_block).data(), call.count);
      }
      if (call.op == ncclAvg) nccl_average(call.type, sum.data(), call.count, size);
      std::memcpy(out, sum.data(), one);
      break;
    }
    default:
      break;
  }
}

}  // namespace

void NcclFused::learn_inputs() {
  for (const Part& part : parts) {
    auto& entries = part.match->entries;
    for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
      if (part.entry().call.receives_from(part.index, i)) entries[static_cast<std::size_t>(i)].begun.learn();
    }
  }
}

void NcclFused::deliver(Lock& lock) {
  learn_inputs();
  unlocked(lock, [&] {
    for (const Part& part : parts) deliver_part(part, comm->rank, clique->size());
  });
}

}  // namespace partita::cuda_emulation
