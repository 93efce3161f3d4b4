// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/order.hpp"

#include <cstdio>
#include <utility>

#include "cuda_emulation/machine.hpp"
#include "cuda_emulation/stream.hpp"

namespace partita::cuda_emulation {
namespace {

struct HostThread {
  std::uint64_t generation = 0;
  Clock clock;
  bool has_slot = false;
  Epoch now;

  ~HostThread() {
    if (!has_slot) return;
    Machine& m = machine();
    const Lock lock(m.mutex);
    if (m.order.generation() == generation) m.order.close_slot(now, now.tick);
  }
};
thread_local HostThread this_thread;

HostThread& thread_of(std::uint64_t generation) {
  if (this_thread.generation != generation) {
    this_thread.generation = generation;
    this_thread.clock = {};
    this_thread.has_slot = false;
  }
  return this_thread;
}

std::string described(const Footprint& f, const Block& block) {
  return *f.who + (f.writes ? " writes " : " reads ") + text(f.where, block.base);
}

}  // namespace

std::uint64_t Order::next_generation() {
  static std::uint64_t last = 0;
  return ++last;
}

Clock& Order::host() { return thread_of(generation_).clock; }

Epoch Order::host_epoch() {
  HostThread& thread = thread_of(generation_);
  if (!thread.has_slot) {
    thread.has_slot = true;
    thread.now = open_slot();
  }
  ++thread.now.tick;
  thread.clock.set(thread.now);
  return thread.now;
}

/// A closed slot goes on only where the new owner's thread knows all that the old one touched.
Epoch Order::open_slot() {
  for (std::size_t i = 0; i < closed_.size(); ++i) {
    const Epoch slot = closed_[i].last;
    if (!host().covers({slot.slot, closed_[i].touched})) continue;
    closed_.erase(closed_.begin() + static_cast<std::ptrdiff_t>(i));
    return slot;
  }
  return {slots_++, 0};
}

void Order::enqueue(const std::shared_ptr<Operation>& operation) {
  const auto awaits = [&](const std::shared_ptr<Operation>& earlier) {
    if (earlier == nullptr || earlier->end_known) return;
    earlier->successors.push_back(operation);
    ++operation->unknown;
  };
  awaits(operation->previous);
  for (const auto& earlier : operation->after) awaits(earlier);
  if (operation->unknown == 0) ready_.push_back(operation);
  drain();
}

void Order::drain() {
  if (std::exchange(draining_, true)) return;
  while (!ready_.empty()) {
    const std::shared_ptr<Operation> operation = ready_.front();
    ready_.pop_front();
    begin(operation);
  }
  draining_ = false;
}

void Order::begin(const std::shared_ptr<Operation>& operation) {
  Operation& op = *operation;
  CUstream_st& stream = *op.stream;
  op.start = std::move(op.host);
  if (op.previous != nullptr) op.start.join(op.previous->end);
  for (const auto& earlier : op.after) op.start.join(earlier->end);
  op.start.set({stream.slot, ++stream.tick});
  op.start_known = true;
  op.previous.reset();

  // What it touches is over at its end, a tick later: peers learn of its start alone.
  const Epoch end{stream.slot, ++stream.tick};
  if (!op.accesses.empty()) {
    const auto who = std::make_shared<const std::string>(op.name + " on " + stream.label);
    for (const Access& access : op.accesses) compare(access, op.start, *who);
    for (const Access& access : op.accesses) remember(access, op.start, end, who);
    if (!op.frees) stream.touched = end.tick;
  }
  op.end = op.start;
  op.end.set(end);
  if (op.peers != nullptr && !op.dropped) {
    op.peers->start_known(operation);
  } else {
    settle(operation);
  }
}

void Order::finish(const std::shared_ptr<Operation>& operation, const Clock& from_peers) {
  if (!operation->start_known || operation->end_known) return;
  operation->end.join(from_peers);
  settle(operation);
  drain();
}

void Order::settle(const std::shared_ptr<Operation>& operation) {
  operation->end_known = true;
  for (auto& later : std::exchange(operation->successors, {})) {
    if (--later->unknown == 0) ready_.push_back(later);
  }
}

void Order::host_access(const Access& access, const std::string& who) {
  const Epoch epoch = host_epoch();
  compare(access, host(), who);
  remember(access, host(), epoch, std::make_shared<const std::string>(who));
}

void Order::compare(const Access& access, const Clock& clock, const std::string& who) {
  if (access.block == nullptr || access.where.empty()) return;
  const Block& block = *access.block;
  for (const Footprint& old : block.footprints) {
    if ((!old.writes && !access.writes) || clock.covers(old.epoch) || !overlap(old.where, access.where)) continue;
    const Footprint now{access.where, access.writes, {}, std::make_shared<const std::string>(who)};
    report(Finding::race, block.label + ": " + described(old, block) + " and " + described(now, block) +
                              ", and no order relates the two");
  }
}

/// An older footprint that is ordered before this one and lies within it says nothing more.
void Order::remember(const Access& access, const Clock& clock, Epoch epoch,
                     const std::shared_ptr<const std::string>& who) {
  if (access.block == nullptr || access.where.empty()) return;
  std::erase_if(access.block->footprints, [&](const Footprint& old) {
    return (access.writes || !old.writes) && clock.covers(old.epoch) && contains(access.where, old.where);
  });
  access.block->footprints.push_back({access.where, access.writes, epoch, who});
}

void Order::report(Finding kind, const std::string& text) {
  if (reports_.size() >= 200 || !reported_.insert(text).second) return;
  reports_.push_back({kind, text});
  if (machine().options.print) std::fprintf(stderr, "cuda emulation: %s\n", text.c_str());
}

std::vector<Report> Order::take_reports() {
  reported_.clear();
  return std::exchange(reports_, {});
}

}  // namespace partita::cuda_emulation
