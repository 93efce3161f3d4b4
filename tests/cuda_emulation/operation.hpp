// SPDX-License-Identifier: Apache-2.0
// One entry of a stream's queue: what it does, what it waits for, what it touches, and where it stands in the order.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_emulation/clock.hpp"
#include "cuda_emulation/lock.hpp"
#include "cuda_emulation/memory.hpp"
#include "cuda_emulation/rectangle.hpp"

namespace partita::cuda_emulation {

struct Operation;

/// A rectangle of a block that an operation reads or writes.
struct Access {
  Rectangle where;
  bool writes = false;
  std::shared_ptr<Block> block;  // found when the operation is admitted
};
[[nodiscard]] inline Access reads(const Rectangle& where) { return {where, false, nullptr}; }
[[nodiscard]] inline Access writes(const Rectangle& where) { return {where, true, nullptr}; }

/// What an operation needs from operations of other ranks (NCCL).
struct Peers {
  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual ~Peers() = default;
  /// The operation's start is ordered: peers may now learn of it, and it perhaps of them (Order::finish).
  virtual void start_known(const std::shared_ptr<Operation>& operation) = 0;
  /// The operation must run: so must what it waits for.
  virtual void demand(const std::function<void(Operation&)>& peer) = 0;
};

struct Operation {
  std::string name;
  std::shared_ptr<CUstream_st> stream;
  std::vector<std::shared_ptr<Operation>> after;  // in other streams
  std::vector<Access> accesses;
  std::function<void(Lock&)> work;  // on the stream's own thread; may release the lock while it moves bytes
  std::shared_ptr<Peers> peers;
  bool frees = false;  // what it touches is gone when it is done

  // Progress.
  bool started = false;
  bool done = false;
  bool demanded = false;
  bool dropped = false;  // ends without doing its work

  // Order: `start` is what is known to have happened before it, `end` what is known to all that comes after it.
  std::shared_ptr<Operation> previous;  // in the stream, until the start is known
  Clock host;                           // what the calling thread knew
  Clock start;
  Clock end;
  bool start_known = false;
  bool end_known = false;
  int unknown = 0;  // predecessors whose end is not known
  std::vector<std::shared_ptr<Operation>> successors;
  Epoch caller;  // of the recording thread, for events

  // The same order, as it comes about, for the thread sanitizer.
  sanitizer::Edge called;  // the host to the operation
  sanitizer::Edge ended;   // the operation to all that comes after it
};

}  // namespace partita::cuda_emulation
