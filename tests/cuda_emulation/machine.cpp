// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/machine.hpp"

#include <algorithm>
#include <thread>

namespace partita::cuda_emulation {

Machine& machine() {
  static Machine* const the = new Machine;
  return *the;
}
int& current_device() {
  thread_local int device = 0;
  return device;
}
bool& in_host_function() {
  thread_local bool inside = false;
  return inside;
}

Machine::Machine() {
  open({});
  std::thread([this] { watch(); }).detach();
}

void Machine::open(const Options& chosen) {
  options = chosen;
  memory.open(options.devices);
  devices.clear();
  for (int d = 0; d < options.devices; ++d) {
    Device& device = devices.emplace_back();
    device.collective_slot->label = "the collective slot of device " + std::to_string(d);
    pools[d] = {d, false};
  }
}

void Machine::await(Lock& lock, Who who, const std::function<bool()>& ready) {
  while (!ready() && !broken) {
    Waiter self{&ready, who, false, {}};
    waiters_.push_back(&self);
    if (who != Who::host) --running_;
    if (running_ == 0) changed();  // for those who wait for rest
    lock.wait(self.wake, [&] { return self.released; });
  }
}

/// A worker counts as running from the moment it is released, so that rest is never seen too early.
void Machine::changed() {
  for (std::size_t i = 0; i < waiters_.size();) {
    Waiter& w = *waiters_[i];
    if (!broken && !(*w.ready)()) {
      ++i;
      continue;
    }
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    w.released = true;
    if (w.who != Who::host) ++running_;
    w.wake.notify_one();
  }
}

std::shared_ptr<Operation> Machine::enqueue(Operation&& made) {
  auto operation = std::make_shared<Operation>(std::move(made));
  enqueue(operation);
  return operation;
}

void Machine::enqueue(const std::shared_ptr<Operation>& operation) {
  CUstream_st& stream = *operation->stream;
  const auto joins = [&](const CUstream_st* other) {
    if (other != nullptr && other->tail != nullptr) operation->after.push_back(other->tail);
  };
  if (stream.legacy) {
    for (const auto& [handle, other] : streams) {
      if (other->device == stream.device && other->blocking && !other->legacy) joins(other.get());
    }
  } else if (stream.blocking) {
    joins(devices[static_cast<std::size_t>(stream.device)].legacy.get());
  }
  operation->previous = stream.tail;
  operation->host = order.host();
  stream.tail = operation;
  ++faults.counters.operations;
  ++progress;
  order.enqueue(operation);
  operation->called.tell();
  if (broken) {
    operation->done = true;
    return;
  }
  stream.queue.push_back(operation);
  changed();
}

void Machine::rest(Lock& lock) {
  if (options.progress == Progress::earliest) await(lock, Who::host, [this] { return running_ == 0; });
}

void Machine::demand(Operation& operation) {
  if (options.progress != Progress::latest) return;
  std::vector<Operation*> next{&operation};
  while (!next.empty()) {
    Operation& op = *next.back();
    next.pop_back();
    if (op.demanded || op.done) continue;
    op.demanded = true;
    for (const auto& earlier : op.after) next.push_back(earlier.get());
    if (op.peers != nullptr) op.peers->demand([&](Operation& peer) { next.push_back(&peer); });
    for (const auto& earlier : op.stream->queue) {
      if (earlier.get() == &op) break;
      next.push_back(earlier.get());
    }
  }
  changed();
}

void Machine::synchronise(Lock& lock, const std::shared_ptr<Operation>& operation) {
  if (operation == nullptr) return;
  demand(*operation);
  await(lock, Who::host, [&] { return operation->done; });
  host_learns(*operation);
}

bool Machine::query(const std::shared_ptr<Operation>& operation) {
  if (operation == nullptr) return true;
  demand(*operation);
  if (!operation->done) {
    ++polls;
    return false;
  }
  host_learns(*operation);
  return true;
}

void Machine::host_learns(Operation& operation) {
  order.host_learns(operation);
  operation.ended.learn();
}

void Machine::drop(const std::shared_ptr<Operation>& operation) {
  if (operation->done) return;
  operation->dropped = true;
  order.finish(operation, {});
  changed();
}

bool Machine::may_start(const Operation& op) const {
  if (op.dropped) return true;
  if (options.progress == Progress::latest && !op.demanded) return false;
  return std::all_of(op.after.begin(), op.after.end(), [](const auto& earlier) { return earlier->done; });
}

void Machine::work(const std::shared_ptr<CUstream_st>& stream) {
  Lock lock(mutex);
  while (true) {
    await(lock, Who::idle, [&] { return stream->closing || !stream->queue.empty(); });
    if (stream->queue.empty()) {
      if (stream->closing || broken) break;
      continue;
    }
    const std::shared_ptr<Operation> op = stream->queue.front();
    await(lock, Who::worker, [&] { return may_start(*op); });
    op->called.learn();
    for (const auto& earlier : op->after) earlier->ended.learn();
    op->started = true;
    ++progress;
    if (op->work && !op->dropped && !broken) op->work(lock);
    op->done = true;
    op->ended.tell();
    op->work = nullptr;
    op->peers = nullptr;
    op->after.clear();
    stream->queue.pop_front();
    ++progress;
    changed();
  }
  order.close_slot({stream->slot, stream->tick}, stream->touched);
  stream->tail = nullptr;  // which points back to the stream
  stream->ended = true;
  devices[static_cast<std::size_t>(stream->device)].ended.tell();
  --running_;
  --workers_;
  changed();
}

}  // namespace partita::cuda_emulation
