// SPDX-License-Identifier: Apache-2.0
// How a communicator carries a description of each call, so that comparing the calls costs no exchange of its own.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>

namespace partita {

/// What one rank says about one call. Between the call and the end of its wait, peers read it: its description is
/// then constant, and `state` and `operation` belong to the rank that made it.
class Inspection {
 public:
  enum class State : std::uint8_t { idle, pending, passed, refused };

  /// The verdict on the calls of all members, this one among them, and the same on every rank. `complete` is false
  /// when a deadline passed first: the verdict is then no, and members that had not called are null. Of a message the
  /// calls are two: this one, and the other side's; where both have called, the receiver's thread examines both.
  [[nodiscard]] virtual bool examine(std::span<const Inspection* const> calls, bool complete) = 0;

  State state = State::idle;
  void* operation = nullptr;  // whose call it is, for the communicator that carries it

 protected:
  Inspection() = default;
  ~Inspection() = default;
};

/// A communicator that can carry inspections. A collective with an inspection does nothing before all members have
/// called and the calls are examined; if they are refused it does nothing at all, and is complete. Nor does a message
/// whose two sides are refused.
template <class C>
concept CarriesInspections = requires(C c, Inspection* call, std::shared_ptr<Inspection> message,
                                      const std::shared_ptr<void>& kept, std::chrono::milliseconds limit, int member) {
  // The next collective that this rank begins carries `call`; null takes it back.
  { c.inspect_next(call) } -> std::same_as<void>;
  // A collective that does nothing else.
  { c.inspect_only(*call) } -> std::same_as<typename C::Request>;
  // Returns once the calls are examined. Members still missing after the limit: they are refused on all ranks, also
  // on those that come later.
  { C::await_inspection(*call, limit) } -> std::same_as<void>;
  // The next send or receive that this rank begins carries `message`; null takes it back.
  { c.inspect_message(message) } -> std::same_as<void>;
  // Returns once it is examined beside the other side's. One that nobody has answered after the limit is refused:
  // together with what its peer waits for from this rank, or else with what the peer answers before the next
  // collective, though it comes too late.
  { C::await_message(*call, limit) } -> std::same_as<void>;
  // Keeps an object of this rank alive as long as the communicator; another member's is to be had after a barrier.
  { c.keep(kept) } -> std::same_as<void>;
  { c.kept_by(member) } -> std::same_as<std::shared_ptr<void>>;
};

}  // namespace partita
