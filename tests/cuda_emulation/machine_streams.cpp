// SPDX-License-Identifier: Apache-2.0
// The machine's streams: made, found, ended, and given up when nothing moves.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cuda_emulation/machine.hpp"

namespace partita::cuda_emulation {

std::shared_ptr<CUstream_st> Machine::open_stream(int device, bool blocking, int priority) {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = device;
  stream->blocking = blocking;
  stream->priority = priority;
  stream->number = ++streams_made_;
  stream->label = "stream #" + std::to_string(stream->number) + " of device " + std::to_string(device);
  const Epoch slot = order.open_slot();
  stream->slot = slot.slot;
  stream->tick = slot.tick;
  streams[stream.get()] = stream;
  ++workers_;
  ++running_;
  std::thread([this, stream] { work(stream); }).detach();
  return stream;
}

void Machine::close_stream(const std::shared_ptr<CUstream_st>& stream) {
  if (stream->tail != nullptr) {
    demand(*stream->tail);
    devices[static_cast<std::size_t>(stream->device)].leaving.push_back(stream->tail);
  }
  stream->closing = true;
  streams.erase(stream.get());
  changed();
}

void Machine::synchronise_device(Lock& lock, int number, bool learns) {
  Device& device = devices[static_cast<std::size_t>(number)];
  std::vector<std::shared_ptr<Operation>> last = device.leaving;
  for (const auto& [handle, stream] : streams) {
    if (stream->device == number && stream->tail != nullptr) last.push_back(stream->tail);
  }
  for (const auto& operation : last) {
    demand(*operation);
    await(lock, Who::host, [&] { return operation->done; });
    if (learns) host_learns(*operation);
  }
  std::erase_if(device.leaving, [&](const auto& operation) {
    if (!operation->done || !operation->stream->ended) return false;
    device.left.join(operation->end);
    return true;
  });
  if (!learns) return;
  order.host().join(device.left);
  device.ended.learn();
}

std::shared_ptr<CUstream_st> Machine::stream_of(cudaStream_t handle, const char* who) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    const int d = current_device();
    Device& device = devices[static_cast<std::size_t>(d)];
    if (device.legacy == nullptr) {
      device.legacy = open_stream(d, true, 0);
      device.legacy->legacy = true;
      device.legacy->label = "the default stream of device " + std::to_string(d);
    }
    return device.legacy;
  }
  const auto found = streams.find(handle);
  if (found != streams.end()) return found->second;
  report(Finding::misuse, std::string(who) + ": no such stream, or one that was destroyed");
  return nullptr;
}

bool Machine::admit(int device, const std::string& who, std::vector<Access>& accesses) {
  bool good = true;
  for (Access& a : accesses) {
    if (a.where.empty() || a.block != nullptr) continue;
    const void* data = reinterpret_cast<const void*>(a.where.base);
    const std::string what = who + (a.writes ? " writes " : " reads ");
    const auto refuse = [&](Finding kind, const std::string& text) {
      report(kind, text);
      good = false;
    };
    a.block = memory.find(data);
    if (a.block == nullptr) {
      if (memory.is_device_address(data)) {
        refuse(Finding::bounds, what + text(a.where, 0) + ", where nothing was allocated");
      } else {
        refuse(Finding::misuse, what + "memory of the host that is not page-locked");
      }
      continue;
    }
    Block& block = *a.block;
    const std::string range = what + block.label + ", " + text(a.where, block.base);
    if (!block.live) {
      refuse(Finding::use_after_free, range + ", which " + block.freed_by + " has freed");
    } else if (a.where.end() > block.base + block.bytes) {
      refuse(Finding::bounds, range + ", beyond its " + std::to_string(block.bytes) + " bytes");
    } else if (block.space == Space::device && block.device != device &&
               !devices[static_cast<std::size_t>(device)].peers.contains(block.device)) {
      refuse(Finding::wrong_device,
             range + ", of device " + std::to_string(block.device) + ", from device " + std::to_string(device));
    }
  }
  return good;
}

std::string Machine::heads() const {
  std::string all;
  for (const auto& [handle, stream] : streams) {
    if (stream->queue.empty()) continue;
    const Operation& head = *stream->queue.front();
    all += "  " + stream->label + ": " + head.name + (head.started ? ", started" : ", waiting");
    for (const auto& earlier : head.after) {
      if (!earlier->done) all += " for " + earlier->name + " on " + earlier->stream->label;
    }
    all += "; " + std::to_string(stream->queue.size() - 1) + " behind it\n";
  }
  return all;
}

void Machine::give_up() {
  const std::string text = "nothing moved for " + std::to_string(options.watchdog.count()) + " ms\n" + heads();
  std::fprintf(stderr, "cuda emulation: %s", text.c_str());
  report(Finding::hang, text);
  broken = true;
  options.shown = false;  // what waits for an operation goes on before its end: nothing is ordered any more
  changed();
}

/// Stuck means: the host waits or polls, and nothing begins or ends. A host that computes for long is not stuck, and
/// neither is a process that gets no core: a tick counts for at most twice what it should take.
void Machine::watch() {
  constexpr std::chrono::milliseconds tick(20);
  std::uint64_t seen_progress = 0;
  std::uint64_t seen_polls = 0;
  std::chrono::steady_clock::duration stuck{0};
  auto before = std::chrono::steady_clock::now();
  while (true) {
    std::this_thread::sleep_for(tick);
    const Lock lock(mutex);
    const auto now = std::chrono::steady_clock::now();
    stuck += std::min<std::chrono::steady_clock::duration>(now - before, 2 * tick);
    before = now;
    bool host_waits = polls != seen_polls;
    for (const Waiter* w : waiters_) host_waits = host_waits || w->who == Who::host;
    if (progress != seen_progress || !host_waits || broken) stuck = {};
    seen_progress = progress;
    seen_polls = polls;
    if (stuck > options.watchdog) give_up();
  }
}

void Machine::clear(Lock& lock) {
  broken = true;
  for (const auto& [handle, stream] : streams) stream->closing = true;
  changed();
  while (workers_ > 0) {
    unlocked(lock, [] { std::this_thread::yield(); });
    changed();
  }
  streams.clear();
  events.clear();
  pools.clear();
  devices.clear();
  cublas_objects.clear();
  nccl.reset();
  communicators = 0;
  memory.clear();
  faults = {};
  order = {};
  broken = false;
}

}  // namespace partita::cuda_emulation
