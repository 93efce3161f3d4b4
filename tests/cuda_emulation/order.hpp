// SPDX-License-Identifier: Apache-2.0
// The race check: clocks of operations from stream order, events, host threads and NCCL, when they are enqueued.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_emulation/control.hpp"
#include "cuda_emulation/operation.hpp"

namespace partita::cuda_emulation {

/// An operation's start is known when the ends of all that it comes after are; without peers that is its end too. With
/// peers the end also knows the starts of those whose data it receives, so that it may become known long after the
/// call, and with it all that follows. What two operations touch is compared when the later start becomes known.
class Order {
 public:
  /// Pre: previous, after, host and accesses are set.
  void enqueue(const std::shared_ptr<Operation>& operation);
  /// The end of an operation with peers: its start, and what it learned from them.
  void finish(const std::shared_ptr<Operation>& operation, const Clock& from_peers);

  /// What the calling thread knows to have happened.
  [[nodiscard]] Clock& host();
  void host_learns(const Operation& operation) { host().join(operation.end); }
  /// A new point in the calling thread's own history.
  Epoch host_epoch();
  /// An access of the calling thread itself.
  void host_access(const Access& access, const std::string& who);

  void publish(const void* key) { published_[key].join(host()); }
  void observe(const void* key) { host().join(published_[key]); }

  /// A clock slot for a new stream or host thread, and for one that ends.
  Epoch open_slot();
  /// `touched` is the last tick that a footprint may still have.
  void close_slot(Epoch last, std::uint64_t touched) { closed_.push_back({last, touched}); }
  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

  void report(Finding kind, const std::string& text);
  [[nodiscard]] std::vector<Report> take_reports();

 private:
  void begin(const std::shared_ptr<Operation>& operation);
  void settle(const std::shared_ptr<Operation>& operation);
  void drain();
  void compare(const Access& access, const Clock& clock, const std::string& who);
  void remember(const Access& access, const Clock& clock, Epoch epoch, const std::shared_ptr<const std::string>& who);

  std::size_t slots_ = 0;
  struct Closed {
    Epoch last;
    std::uint64_t touched;
  };
  std::vector<Closed> closed_;
  std::map<const void*, Clock> published_;
  std::deque<std::shared_ptr<Operation>> ready_;  // whose predecessors' ends are known
  bool draining_ = false;
  std::vector<Report> reports_;
  std::set<std::string> reported_;
  std::uint64_t generation_ = next_generation();
  static std::uint64_t next_generation();
};

}  // namespace partita::cuda_emulation
