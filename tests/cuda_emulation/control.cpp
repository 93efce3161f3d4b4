// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/control.hpp"

#include <cstring>

#include "cuda_emulation/api.hpp"

namespace partita::cuda_emulation {

void reset(const Options& options) {
  Machine& m = machine();
  Lock lock(m.mutex);
  m.clear(lock);
  m.open(options);
  current_device() = 0;
  last_error() = cudaSuccess;
}

std::vector<Report> take_reports() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  return m.order.take_reports();
}

void fail_call(const Fault& fault) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.faults.add(fault);
}

void drop_wait(std::int64_t nth, int device) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.faults.add_dropped_wait(nth, device);
  m.options.shown = false;
}

void drop_own_wait(std::int64_t nth) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.faults.add_own_dropped_wait(nth);
  m.options.shown = false;
}

std::int64_t own_waits() { return Faults::own_waits; }

Counters counters() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Counters all = m.faults.counters;
  all.clock_slots = static_cast<std::int64_t>(m.order.slots());
  return all;
}

Live live() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Live count;
  count.device_blocks = m.memory.live(Space::device);
  count.host_blocks = m.memory.live(Space::pinned);
  for (const auto& [handle, stream] : m.streams) count.streams += stream->legacy ? 0 : 1;
  count.events = static_cast<int>(m.events.size());
  count.cublas_objects = static_cast<int>(m.cublas_objects.size());
  count.communicators = m.communicators;
  return count;
}

void name(cudaStream_t stream, const std::string& text) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (const auto found = m.stream_of(stream, "name")) {
    found->label = "stream '" + text + "' of device " + std::to_string(found->device);
  }
}

void name(const void* memory, const std::string& text) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (const auto block = m.memory.find(memory)) block->label = "'" + text + "'";
}

void publish(const void* key) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.order.publish(key);
}

void observe(const void* key) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.order.observe(key);
}

namespace {

void host_access(Access access, const char* who) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  std::vector<Access> accesses{access};
  if (m.admit(current_device(), who, accesses)) m.order.host_access(accesses[0], who);
}

}  // namespace

void host_reads(const void* data, std::size_t bytes) { host_access(reads({data, bytes}), "the host"); }
void host_writes(void* data, std::size_t bytes) { host_access(writes({data, bytes}), "the host"); }

std::vector<std::byte> peek(const void* device_memory, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  std::vector<std::byte> copy(bytes);
  std::memcpy(copy.data(), m.memory.bytes_of(device_memory), bytes);
  return copy;
}

std::string stream_heads() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  return m.heads();
}

}  // namespace partita::cuda_emulation
